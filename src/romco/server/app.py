"""Application: HTTP requests to answers, and the server that runs it."""

import asyncio
import base64
import hashlib
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import uvicorn
from prometheus_client import generate_latest

from romco.model import Columns
from romco.server import routes
from romco.server.connection import JSON_HEADERS, SECURITY_HEADERS, Connection, Headers
from romco.server.metrics import OTHER_PATH, Metrics
from romco.server.protocol import (
    MAX_BODY_BYTES,
    BusyError,
    ErrorResponse,
    RequestError,
    encode,
    parse,
    parse_query,
)
from romco.server.routes import Access, Route
from romco.server.sources import EventSource, SourceReader
from romco.server.state import ServedModel
from romco.server.writer import Service

LOG = logging.getLogger("romco.server")
LIVE_SECONDS = 1.0  # between messages to the page
MAX_CONNECTIONS = 1000
KEEP_ALIVE_SECONDS = 30
SWITCH_SECONDS = 0.0005  # that the writer may go on while a request waits for the interpreter
DOWNLOAD_CHUNK_BYTES = 1 << 20
PAGE_POLICY = (
    b"default-src 'none'; script-src 'sha256-%b'; style-src 'sha256-%b'; connect-src 'self'; "
    b"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Response(NamedTuple):
    """Status, body (or its parts) and headers of a response."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    headers: Headers = JSON_HEADERS


class Request(NamedTuple):
    """A request that was let in: the task in its path, its query, the events in its body.

    ``many``: the events came as a list, and so does the response.
    """

    task: str
    query: Any
    events: list[Any]
    many: bool


class Application:
    """ASGI application of a service; until the writer runs, only public routes answer."""

    def __init__(
        self, service: Service, access: Access, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.metrics = Metrics(service)
        self._service, self._access, self._stopping = service, access, stopping
        self._served = service.served
        self._html, self._page_headers = load_page()
        features = service.served.model.features
        width = features.width if isinstance(features, Columns) else None
        self._description = encode(routes.describe_routes(width))
        names = (route.name for route in routes.ROUTES)
        self._handlers: dict[str, Any] = {name: getattr(self, f"_{name}") for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; no error gets out as it is."""
        begin, label = time.perf_counter(), OTHER_PATH
        events: list[Any] = []
        many, query = True, None
        try:
            headers = routes.read_headers(scope["headers"])
            route, task = self._route(scope, headers)
            label = route.path
            if route.body is not None:
                events, many = parse(await _read_body(headers, receive), route.body)
            elif route.query is not None:
                query = parse_query(scope["query_string"], route.query)
            response = await self._handlers[route.name](Request(task, query, events, many))
            if type(response) is not Response:
                response = Response(200, encode(response))
        except Exception as error:
            response = refusal(error, with_index=many)
        try:
            await _send_response(response, scope, send)
        finally:
            self.metrics.add(label, response.status, time.perf_counter() - begin)

    def _route(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Route, str]:
        """Return the route that may answer, and the task; the path is decoded here, once."""
        method, raw = scope["method"], scope["raw_path"]
        try:
            path = (unquote_to_bytes(raw) if b"%" in raw else raw).decode()
        except UnicodeDecodeError:
            raise RequestError("the path is not UTF-8", status=400) from None
        methods, task = routes.find_routes(path)
        route = methods.get(method)
        self._access.check("read" if route is None else route.scope, method, headers)
        if route is None and methods:
            allow = [(b"allow", ", ".join(methods).encode())]
            raise RequestError("this path has no such method", status=405, headers=allow)
        if route is None:
            raise RequestError("no such path", status=404)
        if route.scope != "public":
            self._check_started()
        return route, task

    def _check_started(self) -> None:
        if not self._service.started:
            done, total = self._served.sequence, self._service.last_sequence
            raise BusyError(f"the service is starting: {done:,} of {total:,} changes replayed")

    # Handlers, by the names of routes; they return a response, or what is encoded as JSON

    async def _predict(self, request: Request) -> Any:
        responses, pending = self._served.respond(request.events)
        if pending:
            await asyncio.wrap_future(self._service.keep(pending))
        self.metrics.predictions += len(responses)
        return responses if request.many else responses[0]

    async def _learn(self, request: Request) -> Any:
        outcomes = await asyncio.wrap_future(self._service.learn(request.events))
        return outcomes if request.many else outcomes[0]

    async def _explain(self, request: Request) -> Any:
        return await asyncio.to_thread(self._served.explain, request.events[0])

    async def _tasks(self, request: Request) -> Any:
        return await asyncio.to_thread(self._served.list_tasks, request.query)

    async def _task(self, request: Request) -> Any:
        return await asyncio.to_thread(self._served.describe_task, request.task)

    async def _forget(self, request: Request) -> Any:
        sequence = await asyncio.wrap_future(self._service.forget(request.task))
        return {"status": "forgotten", "sequence": sequence}

    async def _checkpoint(self, request: Request) -> Any:
        return {"sequence": await asyncio.wrap_future(self._service.checkpoint())}

    async def _model(self, request: Request) -> Response:
        look = self._service.look(ServedModel.copy)
        sequence, state, _ = await asyncio.wrap_future(look)
        file = await asyncio.to_thread(self._service.store.open_copy, state)
        headers = [
            (b"content-disposition", b'attachment; filename="model-%d.romco"' % sequence),
            (b"content-length", b"%d" % os.fstat(file.fileno()).st_size),
            (b"x-romco-sequence", b"%d" % sequence),
        ]

        async def parts() -> AsyncGenerator[bytes, None]:
            with file:
                while part := await asyncio.to_thread(file.read, DOWNLOAD_CHUNK_BYTES):
                    yield part

        return Response(200, parts(), _headers("model", *headers))

    async def _live(self, request: Request) -> Response:
        async def messages() -> AsyncGenerator[bytes, None]:
            while not self._stopping():
                status = await asyncio.to_thread(self.metrics.status)
                yield b"data: " + encode(status) + b"\n\n"
                await asyncio.sleep(LIVE_SECONDS)

        return Response(200, messages(), _headers("live"))

    async def _metrics(self, request: Request) -> Response:
        text = await asyncio.to_thread(generate_latest, self.metrics)
        return Response(200, text, _headers("metrics"))

    async def _openapi(self, request: Request) -> Response:
        return Response(200, self._description)

    async def _page(self, request: Request) -> Response:
        return Response(200, self._html, self._page_headers)

    async def _healthz(self, request: Request) -> Any:
        return {"status": "alive"}

    async def _readyz(self, request: Request) -> Any:
        self._check_started()
        if self._stopping():
            raise BusyError("the service is stopping: see the log of the service")
        if self._service.failing or self._service.broken:
            raise BusyError("learning has stopped: see the log of the service")
        return {"status": "ready", "sequence": self._served.sequence}


def refusal(error: Exception, with_index: bool) -> Response:
    """Return the response to an error; one of ours is logged and not shown.

    ``with_index``: with the position of the bad event, where they came as a list.
    """
    status, reason = getattr(error, "status", 500), "the service has failed; see its log"
    if status != 500:
        reason = getattr(error, "reason", None) or str(error)
    elif isinstance(error, OSError):
        status, reason = 507, "it could not be written: nothing was changed"
    else:
        LOG.error("a request failed", exc_info=error)
    index = getattr(error, "index", None) if with_index else None
    headers = [*JSON_HEADERS, *getattr(error, "headers", ())]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    return Response(status, encode(ErrorResponse(reason, index)), headers)


def _headers(name: str, *more: tuple[bytes, bytes]) -> Headers:
    """Return the headers of a route whose response is no JSON."""
    media = routes.BY_NAME[name].media
    return list({**dict(SECURITY_HEADERS), b"content-type": media.encode(), **dict(more)}.items())


async def _read_body(headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """Return the body of a request; RequestError unless it is JSON of an allowed length."""
    if b"content-encoding" in headers:
        raise RequestError("send the body as it is, without Content-Encoding", status=415)
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise RequestError("send JSON: Content-Type: application/json", status=415)
    body, size, more = b"", int(headers.get(b"content-length", b"0")), True
    while more and size <= MAX_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError("the client has gone", status=400)
        body, more = body + message.get("body", b""), message.get("more_body", False)
        size = len(body)
    if size > MAX_BODY_BYTES:
        raise RequestError(f"the body is longer than {MAX_BODY_BYTES:,} bytes", status=413)
    return body


async def _send_response(response: Response, scope: Scope, send: Send) -> None:
    status, body, headers = response
    if isinstance(body, bytes):
        await scope["write"](status, headers, body)
        return
    await send({"type": "http.response.start", "status": status, "headers": headers})
    async with aclosing(body) as parts:
        async for part in parts:
            if scope["method"] == "HEAD":
                break
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def load_page() -> tuple[bytes, Headers]:
    """Return the page in one file, and headers that let only its own script and style run."""
    page = files("romco.server") / "page"
    style, script, text = ((page / f"page.{kind}").read_bytes() for kind in ("css", "js", "html"))
    digests = (base64.b64encode(hashlib.sha256(part).digest()) for part in (script, style))
    headers = _headers(
        "page",
        (b"content-security-policy", PAGE_POLICY % tuple(digests)),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )
    return text.replace(b"/*style*/", style).replace(b"/*script*/", script), headers


# The server


class Server:
    """Runs an application until a signal comes; replays the log while it already listens.

    Port 0 is any that is free; ``grace``: seconds that a stop may take.
    """

    def __init__(
        self, service: Service, access: Access, host: str, port: int = 0, grace: float = 20.0
    ) -> None:
        self.service, self._grace = service, grace
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=1024)
        self.application = Application(service, access, lambda: self.uvicorn.should_exit)
        self.failure: BaseException | None = None  # of the replay
        config = uvicorn.Config(
            self.application,
            http=Connection,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, int(grace / 2)),
            limit_concurrency=MAX_CONNECTIONS,
        )
        self.uvicorn = uvicorn.Server(config)
        host, self.port = self._listening.getsockname()[:2]
        self.url = f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    def run(self, source: EventSource | None = None) -> bool:
        """Serve; False if the stop took too long to write a checkpoint, which loses nothing."""
        readers: list[SourceReader] = []
        sys.setswitchinterval(SWITCH_SECONDS)

        def start() -> None:
            try:
                self.service.start()
                LOG.info("ready after change %d", self.service.served.sequence)
                if source is not None:
                    readers.append(SourceReader(source, self.service))
            except BaseException as error:
                self.failure, self.uvicorn.should_exit = error, True

        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again at its end
                signal.signal(each, lambda *_: None)
        starting = threading.Thread(target=start, name="romco-start", daemon=True)
        starting.start()
        try:
            self.uvicorn.run(sockets=[self._listening])
        finally:
            starting.join()
            for reader in readers:
                reader.stop(self._grace / 4)
            finished = self.service.close(self._grace / 2)
        if self.failure is not None:
            raise self.failure
        return finished
