"""Connection: uvicorn's HTTP/1.1 with limits on heads and times, without upgrades and trailers.

httptools leaves three things to its user, and uvicorn passes them on: after ``Upgrade`` the body
is read as the next request, fields of a trailer are appended to the headers, and neither the size
of a head nor the time it takes is limited. Here an upgrade is refused and the connection closed,
trailers are dropped, and heads are limited.
"""

import asyncio
from asyncio import TimerHandle
from functools import partial
from itertools import chain
from typing import Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

Headers = list[tuple[bytes, bytes]]

MAX_HEAD_BYTES = 65_536
MAX_HEADER_LINES = 200
REQUEST_SECONDS = 60.0  # that a client has to send one request
TOO_LONG = (431, "the head of the request is too long")
TOO_SLOW = (408, "the request took too long to arrive")
NO_HTTP = (400, "this is no HTTP request")
SECURITY_HEADERS: Headers = [  # of every response; a page has more
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
JSON_HEADERS: Headers = [(b"content-type", b"application/json"), *SECURITY_HEADERS]


def join_headers(headers: Headers) -> bytes:
    """Return header lines as HTTP/1.1 has them."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


JSON_LINES = join_headers(JSON_HEADERS)


class Connection(HttpToolsProtocol):
    """One connection; a refusal comes after the responses to the requests before it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._received_bytes = 0  # after the part in which a request began
        self._in_request = self._in_head = False
        self._open = 0  # requests without a complete response
        self._reason = NO_HTTP
        self._refused = False
        self._timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first request."""
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_timer()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay open for the responses to a client that has sent all it will send."""
        if self._open == 0 or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Parse, unless something was refused: nothing after it is read."""
        if self._refused:
            return
        self._received_bytes += len(data)
        super().data_received(data)
        if self._refused or not self._in_request:
            return
        if self._timer is None:
            self._start_timer()
        too_long = self._in_head and self._received_bytes > MAX_HEAD_BYTES
        if too_long or len(self.headers) > MAX_HEADER_LINES:
            self._refuse_now(*TOO_LONG)

    # Parser callbacks

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_request = self._in_head = True
        self._received_bytes = 0

    def on_headers_complete(self) -> None:
        """Begin the response."""
        self._in_head = False
        size = sum(map(len, chain.from_iterable(self.headers)))
        if size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADER_LINES:
            self._refuse(*TOO_LONG)
        if self.parser.should_upgrade():
            self._refuse(400, "upgrades are not supported: send HTTP/1.1 without Upgrade")
        super().on_headers_complete()
        self.scope["write"] = partial(self._write, self.cycle)  # type: ignore[typeddict-unknown-key]
        self.headers = []  # takes the fields of a trailer, which nobody reads
        self._open += 1

    def on_message_complete(self) -> None:
        """End a request."""
        self._in_request = False
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next response, or refuse what came after the last request."""
        self._open -= 1
        super().on_response_complete()
        if self._refused and self._open == 0:
            self._write_refusal()

    async def _write(
        self, cycle: RequestResponseCycle, status: int, headers: Headers, body: bytes
    ) -> None:
        """Send a whole response at once, which costs half of what two ASGI messages do."""
        if self.flow.write_paused and not cycle.disconnected:
            await self.flow.drain()
        if cycle.disconnected:
            return
        cycle.response_started = cycle.response_complete = True
        del cycle.scope["write"]  # type: ignore[typeddict-item]  # else only the collector frees it
        cycle.keep_alive = cycle.keep_alive and status != 413  # the rest of the body is not read
        lines = JSON_LINES if headers is JSON_HEADERS else join_headers(headers)
        head_only = cycle.scope["method"] == "HEAD"
        self._put(status, lines, body, cycle.keep_alive, head_only)
        cycle.message_event.set()
        cycle.on_response()

    def _put(
        self, status: int, lines: bytes, body: bytes, keep_alive: bool, head_only: bool = False
    ) -> None:
        parts = [STATUS_LINE[status], join_headers(self.server_state.default_headers), lines]
        parts.append(b"content-length: %d\r\n" % len(body))
        parts.append(b"\r\n" if keep_alive else b"connection: close\r\n\r\n")
        self.transport.write(b"".join(parts if head_only else [*parts, body]))
        if not keep_alive:
            self.transport.close()

    # Refusing

    def _refuse(self, status: int, reason: str) -> None:
        self._reason = status, reason
        raise ValueError(reason)  # httptools stops, uvicorn calls send_400_response

    def send_400_response(self, msg: str) -> None:
        """Refuse what was read last, after the responses to what came before."""
        self._refused = True
        self._stop_timer()
        cycle = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            cycle.disconnected = True  # the request whose body is bad
            cycle.message_event.set()
            if any(cycle is queued for queued, _ in self.pipeline):
                self.pipeline.popleft()
            self._open -= 1
        if self._open == 0:
            self._write_refusal()

    def _write_refusal(self) -> None:
        if not self.transport.is_closing():
            status, reason = self._reason
            self._put(status, JSON_LINES, b'{"error":"%b"}' % reason.encode(), keep_alive=False)

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._refuse_now, *TOO_SLOW)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse_now(self, status: int, reason: str) -> None:
        if not self._refused and not self.transport.is_closing():
            self._reason = status, reason
            self.send_400_response("")
