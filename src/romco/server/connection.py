"""Connection: uvicorn's HTTP/1.1 with limits on heads and times, without upgrades and trailers.

httptools leaves three things to its user, and uvicorn passes them on: after ``Upgrade`` the body
is read as the next request, fields of a trailer are appended to the headers, and neither the size
of a head nor the time it takes is limited. Here an upgrade is refused and the connection closed,
trailers are dropped, and heads are limited.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from typing import Any, final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from romco.server.access import SECURITY_HEADERS

MAX_HEAD_BYTES = 65_536
MAX_HEADER_LINES = 200
REQUEST_SECONDS = 60.0  # that a client has to send one request
NO_HTTP = (400, "this is no HTTP request")


class RefusedHeadError(Exception):
    """Raised within the parser to stop it."""


@final
class Connection(HttpToolsProtocol):
    """One connection; a refusal comes after the responses to the requests before it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._parsed_bytes = self._received_bytes = 0  # of the head
        self._in_head, self._lines, self._number = False, 0, 0  # of the request being read
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
        number = self._number
        super().data_received(data)
        if self._in_head and not self._refused and number == self._number:
            self._received_bytes += len(data)
            if self._received_bytes > MAX_HEAD_BYTES:
                self._reason = (431, "the head of the request is too long")
                self.send_400_response("")

    # Parser callbacks

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._in_head, self._lines, self._number = True, 0, self._number + 1
        self._parsed_bytes = self._received_bytes = 0
        if self._timer is None:
            self._start_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header line; one of a trailer is dropped."""
        self._lines += 1
        self._parsed_bytes += len(name) + len(value)
        if self._lines > MAX_HEADER_LINES or self._parsed_bytes > MAX_HEAD_BYTES:
            self._refuse(431, "the head of the request is too long")
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin the response."""
        self._in_head = False
        if self.parser.should_upgrade():
            self._refuse(400, "upgrades are not supported: send HTTP/1.1 without Upgrade")
        super().on_headers_complete()
        self._open += 1

    def on_message_complete(self) -> None:
        """End a request."""
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Begin the next response, or refuse what came after the last request."""
        self._open -= 1
        super().on_response_complete()
        if self._refused and self._open == 0:
            self._write_refusal()

    # Refusing

    def _refuse(self, status: int, reason: str) -> None:
        self._reason = status, reason
        raise RefusedHeadError(reason)  # httptools stops, uvicorn calls send_400_response

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
        if self.transport.is_closing():
            return
        status, reason = self._reason
        body = b'{"error":"%b"}' % reason.encode()
        lines = [
            STATUS_LINE[status],
            b"content-type: application/json\r\n",
            b"connection: close\r\n",
        ]
        lines += [b"%b: %b\r\n" % header for header in SECURITY_HEADERS]
        lines += [b"content-length: %d\r\n\r\n" % len(body), body]
        self.transport.write(b"".join(lines))
        self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        if not self._refused and not self.transport.is_closing():
            self._reason = (408, "the request took too long to arrive")
            self.send_400_response("")
