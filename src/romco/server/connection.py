"""Connection: HTTP/1.1 parsed by httptools, requests answered one after the other.

The protocol stands directly on the parser. ASGI between the two cost more than a prediction, and
left to its user what matters here: an upgrade is refused and the connection closed, fields of
a trailer are dropped, heads and times are limited.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable
from dataclasses import dataclass
from http import HTTPStatus
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, final

from httptools import HttpParserCallbackError, HttpParserError, HttpRequestParser
from uvicorn.server import ServerState

from romco.server.access import SECURITY_HEADERS, join_headers
from romco.server.routes import Route

if TYPE_CHECKING:
    from romco.server.app import Application

MAX_HEAD_BYTES = 65_536
MAX_HEADER_LINES = 200
MAX_CONNECTIONS = 1000
REQUEST_SECONDS = 60.0  # that a client has to send one request
KEEP_ALIVE_SECONDS = 30.0  # that a connection is kept without a request
TICK_SECONDS = 5.0  # between looks at the deadline
READ_FIELDS = frozenset(
    b"host origin authorization content-type content-encoding content-length expect".split()
)
STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
JSON_LINES = join_headers([(b"content-type", b"application/json"), *SECURITY_HEADERS])
NO_HTTP = "this is no HTTP request"


class Response(NamedTuple):
    """Status, body (or its parts) and header lines; parts without a length end by closing."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    lines: bytes = JSON_LINES


@dataclass(slots=True)
class Request:
    """Request whose head was read; ``refusal`` is its response where the head decides it."""

    route: Route | None = None
    task: str = ""  # in the path
    query: bytes = b""
    body: bytes = b""
    max_body_bytes: int = 0
    refusal: Response | None = None
    head_only: bool = False
    keep_alive: bool = False
    begin: float = 0.0


class RefusedError(Exception):
    """Raised within the parser to stop it: status and reason."""


@final
class Connection(asyncio.Protocol):
    """One connection; uvicorn's server makes it and shuts it down."""

    def __init__(
        self, config: Any, server_state: ServerState, app_state: Any = None, _loop: Any = None
    ) -> None:
        self._handler: Application = config.loaded_app
        self._state, self._loop = server_state, _loop or asyncio.get_running_loop()
        self._parser = HttpRequestParser(self)
        self._url, self._in_head = b"", False
        self._fields: dict[bytes, bytes] = {}  # of the head being read
        self._head_bytes = self._head_lines = 0
        self._progress = self._quiet_bytes = 0  # parser events; bytes since the last one
        self._request: Request | None = None  # whose body is being read
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._whole: deque[Request] = deque()  # to be answered
        self._task: asyncio.Task[None] | None = None  # that answers
        self._streaming = False
        self._last = False  # nothing more is read: when all is answered, close
        self._drained: asyncio.Future[None] | None = None  # set while writing is paused
        self._deadline, self._idle = inf, False
        self._default_headers: list[tuple[bytes, bytes]] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the clock of the first request."""
        self._transport = transport
        self._state.connections.add(self)  # type: ignore[arg-type]
        self._deadline = self._loop.time() + REQUEST_SECONDS
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)

    def connection_lost(self, exc: Exception | None) -> None:
        """End what cannot be sent any more; what is being learned is learned."""
        self._state.connections.discard(self)
        self._timer.cancel()
        self._last = True
        self._whole.clear()
        if self._task is not None and self._streaming:
            self._task.cancel()

    def eof_received(self) -> bool:
        """Stay open for the responses to a client that has sent all it will send."""
        self._last, self._request = True, None
        return bool(self._whole or self._task)

    def pause_writing(self) -> None:
        """Answer nothing until the client has read what was sent."""
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        """Continue."""
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)
        self._answer()

    def shutdown(self) -> None:
        """Close after the responses that are under way; called by uvicorn."""
        self._last = True
        if not self._whole and self._task is None:
            self._transport.close()

    def _tick(self) -> None:
        now = self._loop.time()
        self._timer = self._loop.call_later(TICK_SECONDS, self._tick)
        if now < self._deadline or self._task is not None or self._transport.is_closing():
            return
        if self._drained is not None:
            self._transport.abort()  # the client does not read
        elif self._idle:
            self._transport.close()
        else:
            self._refuse(408, "the request took too long to arrive")
            self._answer()

    # Reading

    def data_received(self, data: bytes) -> None:
        """Parse, unless something was refused: nothing after it is read."""
        if self._last:
            return
        progress = self._progress
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            if not self._last:
                cause = error.__context__ if isinstance(error, HttpParserCallbackError) else None
                given = cause.args if isinstance(cause, RefusedError) else (400, NO_HTTP)
                self._refuse(*given)
        else:
            self._quiet_bytes = 0 if self._progress != progress else self._quiet_bytes + len(data)
            if self._quiet_bytes > MAX_HEAD_BYTES and not self._last:
                self._refuse(431, "the head of the request is too long")
        self._answer()

    def on_message_begin(self) -> None:
        """Begin a request."""
        if self._last:
            raise RefusedError
        self._url, self._fields, self._in_head = b"", {}, True
        self._head_bytes = self._head_lines = 0
        self._progress += 1
        self._deadline, self._idle = self._loop.time() + REQUEST_SECONDS, False

    def on_url(self, url: bytes) -> None:
        """Read a part of the target."""
        self._url += url
        if len(self._url) > MAX_HEAD_BYTES:
            raise RefusedError(431, "the head of the request is too long")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read a header field; those of a trailer come after the head and are dropped."""
        self._progress += 1
        self._head_lines += 1
        self._head_bytes += len(name) + len(value)
        if self._head_bytes > MAX_HEAD_BYTES or self._head_lines > MAX_HEADER_LINES:
            raise RefusedError(431, "the head of the request is too long")
        name = name.lower()
        if self._in_head and name in READ_FIELDS:
            if name in self._fields:
                name = b"repeated"
            self._fields[name] = value

    def on_headers_complete(self) -> None:
        """Let the request in, or refuse it before its body is read."""
        self._progress += 1
        self._in_head = False
        parser, fields = self._parser, self._fields
        if parser.should_upgrade():
            raise RefusedError(400, "upgrades are not supported: send HTTP/1.1 without Upgrade")
        method = parser.get_method().decode("ascii")
        self._request = request = self._handler.admit(method, self._url, fields)
        if len(self._state.connections) > MAX_CONNECTIONS:
            request.refusal = self._handler.refuse(503, "too many connections: try again later")
        request.head_only = method == "HEAD"
        request.keep_alive = parser.should_keep_alive() and parser.get_http_version() != "1.0"
        self._body, self._body_bytes = [], 0
        if request.refusal is None and int(fields.get(b"content-length", b"0")) > (
            request.max_body_bytes or inf
        ):
            self._refuse_body(request)
        if fields.get(b"expect", b"").lower() == b"100-continue":
            if request.refusal is not None:
                self._end_reading(request)
            if not self._whole and self._task is None:
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Read a part of the body; one that nobody reads is dropped."""
        self._progress += 1
        request = self._request
        if request is None or request.max_body_bytes == 0 or request.refusal is not None:
            return
        self._body.append(body)
        self._body_bytes += len(body)
        if self._body_bytes > request.max_body_bytes:
            self._refuse_body(request)

    def on_message_complete(self) -> None:
        """Put the request among those to be answered."""
        self._progress += 1
        request = self._request
        if request is not None:
            body = self._body
            request.body = body[0] if len(body) == 1 else b"".join(body)
            request.begin = time.perf_counter()
            self._last = not request.keep_alive
            self._whole.append(request)
        self._request, self._body, self._deadline = None, [], inf

    def _refuse_body(self, request: Request) -> None:
        reason = f"the body is longer than {request.max_body_bytes:,} bytes"
        request.refusal = self._handler.refuse(413, reason)
        self._end_reading(request)

    def _end_reading(self, request: Request) -> None:
        """Answer a request now, close, and read nothing more of it."""
        request.begin = time.perf_counter()
        self._whole.append(request)
        self._last = True
        raise RefusedError

    def _refuse(self, status: int, reason: str) -> None:
        """Refuse what was read last, after the responses to what came before."""
        self._last, self._request = True, None
        refusal = self._handler.refuse(status, reason)
        self._whole.append(Request(refusal=refusal, begin=time.perf_counter()))

    # Answering

    def _answer(self) -> None:
        """Answer what was read, in order, until something has to be waited for."""
        responses = []
        while self._whole and self._task is None and self._drained is None:
            request = self._whole.popleft()
            response = request.refusal or self._handler.answer(request)
            if isinstance(response, Response) and isinstance(response.body, bytes):
                responses.append(self._head(request, response, len(response.body)))
                if not request.head_only:
                    responses.append(response.body)
                self._handler.count(request, response.status)
            else:
                self._task = self._loop.create_task(self._finish(request, response))
                self._state.tasks.add(self._task)
                self._task.add_done_callback(self._state.tasks.discard)
        if responses:
            self._transport.write(b"".join(responses))
        if self._whole or self._task is not None:
            self._transport.pause_reading()
        elif self._last:
            self._transport.close()
        else:
            self._transport.resume_reading()
            if self._deadline == inf:
                self._deadline, self._idle = self._loop.time() + KEEP_ALIVE_SECONDS, True

    def _head(self, request: Request, response: Response, length: int | None) -> bytes:
        """Return status line and header lines."""
        if self._default_headers is not self._state.default_headers:  # anew every second
            self._default_headers = self._state.default_headers
            self._default_lines = join_headers(self._default_headers)
        lines = [STATUS_LINES[response.status], self._default_lines, response.lines]
        if length is not None:
            lines.append(b"content-length: %d\r\n" % length)
        close = self._last and not self._whole
        lines.append(b"connection: close\r\n\r\n" if close else b"\r\n")
        return b"".join(lines)

    async def _finish(self, request: Request, response: Response | Awaitable[Response]) -> None:
        """Send a response that had to be waited for, or that comes in parts."""
        try:
            if not isinstance(response, Response):
                response = await response
            if self._transport.is_closing():
                return
            if isinstance(response.body, bytes):
                head = self._head(request, response, len(response.body))
                self._transport.write(head if request.head_only else head + response.body)
            else:
                await self._stream(request, response, response.body)
            self._handler.count(request, response.status)
        finally:
            self._task = None
            if not self._transport.is_closing():
                self._answer()

    async def _stream(
        self, request: Request, response: Response, parts: AsyncGenerator[bytes, None]
    ) -> None:
        if b"content-length:" not in response.lines:
            self._last = True
            self._whole.clear()
        self._transport.write(self._head(request, response, None))
        self._streaming = True
        try:
            async for part in parts:
                if request.head_only:
                    break
                self._transport.write(part)
                if self._drained is not None:
                    await self._drained
        finally:
            self._streaming = False
            await parts.aclose()
