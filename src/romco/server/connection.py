"""Connection: uvicorn's HTTP/1.1 with limits, without upgrades and trailers.

httptools leaves these to its user, and uvicorn passes them on: after ``Upgrade`` the body is read
as the next request, fields of a trailer are appended to the headers, and nothing limits the size
of a head or a trailer, the time it takes, the requests that wait for the answer before theirs, or
the time that an answer waits to be read. Here an upgrade is refused and the connection closed,
trailers are dropped, and all of these are limited.

The place of a full server goes to whoever speaks: of those whose client has something to do, the
connection that has been silent longest is closed.
"""

import asyncio
from asyncio import TimerHandle
from collections import OrderedDict, deque
from collections.abc import Collection
from typing import Any

from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import FlowControl

Headers = list[tuple[bytes, bytes]]

MAX_CONNECTIONS = 1_000
MAX_HEAD_BYTES = 65_536  # of a head and a trailer
MAX_HEADER_LINES = 200
HEAD_SECONDS = 10.0  # that a client has to send a head, from the connection or its first byte on
REQUEST_SECONDS = 60.0  # that a client has to send one request
READ_SECONDS = 30.0  # that a client has to read what is sent at once, at most about 1 MB
PARSED_BYTES = 1_024  # at once, which limits how many requests wait for the one before them
TOO_LONG = (431, "the head of the request is too long")
TOO_SLOW = (408, "the request took too long to arrive")
NO_HTTP = (400, "this is no HTTP request")
FULL = (503, "too many connections: try again later")
JSON_HEADERS: Headers = [  # of a response; a page has more
    (b"content-type", b"application/json"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]


class PipelineFlow(FlowControl):
    """Flow control that reads nothing while requests wait for the answer before theirs."""

    def __init__(self, transport: asyncio.Transport, pipeline: Collection[Any]) -> None:
        super().__init__(transport)
        self._pipeline = pipeline

    def resume_reading(self) -> None:
        """Read on, unless requests wait."""
        if not self._pipeline:
            super().resume_reading()


class Connection(httptools_impl.HttpToolsProtocol):
    """One connection; a refusal comes after the responses to the requests before it."""

    def __init__(self, by_activity: OrderedDict["Connection", None], **named: Any) -> None:
        super().__init__(**named)
        self._by_activity = by_activity  # all of a server, the one that is silent longest first
        self._unparsed = memoryview(b"")
        self._body_left = 0  # of what was declared
        self._head_bytes = 0  # of this request, after the part in which it began
        self._other_bytes = 0  # of its head, and those after the last part of its body
        self._in_request = self._in_head = False
        self._unanswered: deque[httptools_impl.RequestResponseCycle] = deque()  # in their order
        self._reason = NO_HTTP
        self._refused = False
        self._timer: TimerHandle  # of the request that arrives
        self._read_timer: TimerHandle | None = None  # of a client that does not read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first request; make room for it."""
        has_room = len(self._by_activity) < MAX_CONNECTIONS or self._close_silent()
        super().connection_made(transport)
        self.flow = PipelineFlow(transport, self.pipeline)
        self._by_activity[self] = None
        self._start_timer(HEAD_SECONDS)
        if not has_room:
            self._refuse_now(*FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clocks."""
        self._by_activity.pop(self, None)
        self._timer.cancel()
        self._stop_read_timer()
        self._unparsed = memoryview(b"")
        for cycle in self._unanswered:  # uvicorn tells the last one alone
            cycle.disconnected = True
        super().connection_lost(exc)

    def _close_silent(self) -> bool:
        """Close the connection whose client has been silent longest; False if there is none."""
        silent = next(filter(Connection._waits_for_client, self._by_activity), None)
        if silent is None:
            return False
        del self._by_activity[silent]
        silent.transport.abort()
        return True

    def _waits_for_client(self) -> bool:
        return not self._unanswered or self.cycle.more_body or self.flow.write_paused

    def _be_active(self) -> None:
        if self in self._by_activity:
            self._by_activity.move_to_end(self)

    def pause_writing(self) -> None:
        """Start the clock of a client that does not read."""
        super().pause_writing()
        self._read_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop that clock."""
        self._stop_read_timer()
        self._be_active()
        super().resume_writing()

    def _stop_read_timer(self) -> None:
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay open for the responses to a client that has sent all it will send."""
        if not self._unanswered or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Parse what came."""
        self._be_active()
        self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
        self._parse()

    def _parse(self) -> None:
        """Parse until a request waits for the one before, or is refused: nothing after it is."""
        if not self._unparsed:
            return
        while self._unparsed and not self.pipeline and not self._refused:
            size = max(PARSED_BYTES, self._body_left)
            part, self._unparsed = self._unparsed[:size], self._unparsed[size:]
            self._other_bytes += len(part)
            super().data_received(part)  # type: ignore[arg-type]
            too_long = self._other_bytes > MAX_HEAD_BYTES
            if self._in_request and (too_long or len(self.headers) > MAX_HEADER_LINES):
                self._refuse_now(*TOO_LONG)
        arriving = self._in_request or not self._unanswered
        if arriving and not self._refused and self._timer.cancelled():
            in_body = self._in_request and not self._in_head
            self._start_timer(REQUEST_SECONDS if in_body else HEAD_SECONDS)

    # Parser callbacks

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_request = self._in_head = True
        self._other_bytes = 0

    def on_headers_complete(self) -> None:
        """Begin the response."""
        self._head_bytes = self._other_bytes
        if len(self.headers) > MAX_HEADER_LINES:
            self._refuse(*TOO_LONG)
        if self.parser.should_upgrade():
            self._refuse(400, "upgrades are not supported: send HTTP/1.1 without Upgrade")
        self._in_head = False
        super().on_headers_complete()
        self.scope["is_closed"] = self.transport.is_closing  # type: ignore[typeddict-unknown-key]
        self._body_left = int(dict(self.headers).get(b"content-length", b"0"))
        self.headers = []  # takes the fields of a trailer, which nobody reads
        self._unanswered.append(self.cycle)
        if not self._timer.cancelled():
            self._timer.cancel()
            self._start_timer(REQUEST_SECONDS)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._body_left -= len(body)
        self._other_bytes = self._head_bytes
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_request = False
        self._body_left = 0
        self._timer.cancel()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next response, or refuse what came after the last request."""
        self._unanswered.popleft()
        super().on_response_complete()
        if self._refused and not self._unanswered:
            self._write_refusal()
        self._be_active()
        self._parse()

    # Refusing

    def _refuse(self, status: int, reason: str) -> None:
        self._reason = status, reason
        raise ValueError(reason)  # httptools stops, uvicorn calls send_400_response

    def send_400_response(self, msg: str) -> None:
        """Refuse what was read last, after the responses to what came before."""
        self._refused = True
        self._timer.cancel()
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            cycle.disconnected = True  # the request whose body is bad
            cycle.message_event.set()
            if any(cycle is queued for queued, _ in self.pipeline):
                self.pipeline.popleft()
            self._unanswered.pop()
        if not self._unanswered:
            self._write_refusal()

    def _write_refusal(self) -> None:
        if self._in_request and not self._in_head and self.cycle.response_complete:
            self.transport.close()  # it was answered before its body came
        if not self.transport.is_closing():
            status, reason = self._reason
            body = b'{"error":"%b"}' % reason.encode()
            more = [(b"content-length", b"%d" % len(body)), (b"connection", b"close")]
            lines = [*self.server_state.default_headers, *JSON_HEADERS, *more]
            head = b"".join([b"%b: %b\r\n" % line for line in lines])
            self.transport.write(b"%b%b\r\n%b" % (httptools_impl.STATUS_LINE[status], head, body))
            self.transport.close()

    def _start_timer(self, seconds: float) -> None:
        self._timer = self.loop.call_later(seconds, self._refuse_now, *TOO_SLOW)

    def _refuse_now(self, status: int, reason: str) -> None:
        if not self._refused and not self.transport.is_closing():
            self._reason = status, reason
            self.send_400_response("")
