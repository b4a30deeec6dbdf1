"""Application: HTTP requests to answers, and the server that runs it."""

import asyncio
import base64
import hashlib
import ipaddress
import json
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import aclosing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
import uvicorn

from romco.model import Columns, Model
from romco.server import routes
from romco.server.connection import JSON_HEADERS, SECURITY_HEADERS, Connection, Headers
from romco.server.metrics import OTHER_PATH, Metrics
from romco.server.protocol import (
    BusyError,
    RequestError,
    Settings,
    TaskQuery,
    encode,
    parse_learn,
    parse_predict,
)
from romco.server.routes import Access, Route
from romco.server.sources import EventSource, SourceReader
from romco.server.state import Scores, ServedModel
from romco.server.store import DamagedError, Store
from romco.server.writer import Writer, replay

LOG = logging.getLogger("romco.server")
LIVE_SECONDS = 1.0  # between messages to the page
MAX_CONNECTIONS = 1000
KEEP_ALIVE_SECONDS = 30
DOWNLOAD_CHUNK_BYTES = 1 << 20

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Response(NamedTuple):
    """Status, body (or its parts) and headers of a response."""

    status: int
    body: bytes | AsyncGenerator[bytes, None]
    headers: Headers = JSON_HEADERS


class Request(NamedTuple):
    """A request that was let in: the task in its path, its query and its body."""

    task: str
    query: bytes
    body: bytes


class Service:
    """Store, model and writer of a folder."""

    def __init__(
        self, folder: Path, new: Callable[[], Model], settings: Settings, origin: str = ""
    ):
        self.settings, self.store = settings, Store(folder, settings)
        try:
            model, sequence, scores = self.store.load(new, origin)
            try:
                known = Scores.from_bytes(scores) if scores else Scores()
            except ValueError as error:
                raise DamagedError(f"the checkpoint's scores cannot be used: {error}") from error
            self.served = ServedModel(model, known, sequence)
            self.served.set_budget(settings.budget)
            self.last_sequence = self.store.last_sequence()
        except BaseException:
            self.store.close()
            raise
        self.writer: Writer | None = None

    def start(self) -> Writer:
        """Replay the log, then learn."""
        replay(self.served, self.store)
        self.writer = Writer(self.served, self.store, self.settings)
        return self.writer

    def close(self, seconds: float | None = None) -> bool:
        """Finish what waits and write a checkpoint; False if it took longer than ``seconds``."""
        finished = self.writer is None or self.writer.close(seconds)
        if finished:
            self.store.close()
        return finished


class Application:
    """ASGI application of a service; until the writer runs, only public routes answer."""

    def __init__(
        self, service: Service, access: Access, stopping: Callable[[], bool] = lambda: False
    ) -> None:
        self.metrics = Metrics()
        self._service, self._access, self._stopping = service, access, stopping
        self._served = service.served
        self._html, self._page_headers = load_page()
        features = service.served.model.features
        width = features.width if isinstance(features, Columns) else None
        self._description = encode(routes.describe_routes(width))
        self._handlers: dict[str, Callable[[Request], Awaitable[Response]]] = {
            route.name: getattr(self, f"_{route.name}") for route in routes.ROUTES
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; no error gets out as it is."""
        begin, label, body = time.perf_counter(), OTHER_PATH, b""
        try:
            headers = routes.read_headers(scope["headers"])
            route, task = self._route(scope, headers)
            label = route.path
            if route.body is not None:
                body = await _read_body(route, headers, receive)
            response = await self._handlers[route.name](Request(task, scope["query_string"], body))
        except Exception as error:
            response = refusal(error, with_index=body.lstrip()[:1] == b"[")
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
        route, task, allowed = routes.find_route(method, path)
        self._access.check("read" if route is None else route.scope, method, headers)
        if route is None and allowed:
            allow = [(b"allow", ", ".join(allowed).encode())]
            raise RequestError("this path has no such method", status=405, headers=allow)
        if route is None:
            raise RequestError("no such path", status=404)
        if route.scope != "public":
            self._writer  # noqa: B018  # raises until it has started
        return route, task

    @property
    def _writer(self) -> Writer:
        if self._service.writer is None:
            done, total = self._served.sequence, self._service.last_sequence
            raise BusyError(f"the service is starting: {done:,} of {total:,} changes replayed")
        return self._service.writer

    # Handlers, by the names of routes

    async def _predict(self, request: Request) -> Response:
        events, many = parse_predict(request.body)
        responses, pending = self._served.respond(events)
        if pending:
            await asyncio.wrap_future(self._writer.keep(pending))
        self.metrics.predictions += len(responses)
        return _json(responses if many else responses[0])

    async def _learn(self, request: Request) -> Response:
        lessons, many = parse_learn(request.body)
        outcomes = await asyncio.wrap_future(self._writer.learn(lessons))
        return _json(outcomes if many else outcomes[0])

    async def _explain(self, request: Request) -> Response:
        events, many = parse_predict(request.body)
        if many:
            raise RequestError("send one event, an object")
        return _json(await asyncio.to_thread(self._served.explain, events[0].x, events[0].task))

    async def _tasks(self, request: Request) -> Response:
        try:
            given = dict(parse_qsl(request.query.decode(), errors="strict"))
            query = msgspec.convert(given, TaskQuery, strict=False)
        except ValueError as error:
            raise RequestError(f"the query: {error}".replace("`", "")) from None
        return _json(await asyncio.to_thread(self._served.list_tasks, query))

    async def _task(self, request: Request) -> Response:
        return _json(await asyncio.to_thread(self._served.describe_task, request.task))

    async def _forget(self, request: Request) -> Response:
        sequence = await asyncio.wrap_future(self._writer.forget(request.task))
        return _json({"status": "forgotten", "sequence": sequence})

    async def _checkpoint(self, request: Request) -> Response:
        return _json({"sequence": await asyncio.wrap_future(self._writer.checkpoint())})

    async def _model(self, request: Request) -> Response:
        look = self._writer.look(ServedModel.copy)
        sequence, state, _ = await asyncio.wrap_future(look)
        file = await asyncio.to_thread(self._service.store.open_copy, state)
        name = f'attachment; filename="model-{sequence}.romco"'
        headers = [
            (b"content-type", b"application/octet-stream"),
            (b"content-disposition", name.encode()),
            (b"content-length", b"%d" % os.fstat(file.fileno()).st_size),
            (b"x-romco-sequence", b"%d" % sequence),
            *SECURITY_HEADERS,
        ]
        return Response(200, _download(file), headers)

    async def _live(self, request: Request) -> Response:
        async def messages() -> AsyncGenerator[bytes, None]:
            while not self._stopping():
                status = await asyncio.to_thread(self.metrics.status, self._writer)
                yield b"data: " + encode(status) + b"\n\n"
                await asyncio.sleep(LIVE_SECONDS)

        headers = [(b"content-type", b"text/event-stream"), *SECURITY_HEADERS]
        return Response(200, messages(), headers)

    async def _metrics(self, request: Request) -> Response:
        text = await asyncio.to_thread(self.metrics.text)
        kind = b"text/plain; version=0.0.4; charset=utf-8"
        return Response(200, text, [(b"content-type", kind), *SECURITY_HEADERS])

    async def _openapi(self, request: Request) -> Response:
        return Response(200, self._description)

    async def _page(self, request: Request) -> Response:
        return Response(200, self._html, self._page_headers)

    async def _healthz(self, request: Request) -> Response:
        return _json({"status": "alive"})

    async def _readyz(self, request: Request) -> Response:
        writer = self._writer
        if self._stopping():
            raise BusyError("the service is stopping: see the log of the service")
        if writer.failing or writer.broken:
            raise BusyError("learning has stopped: see the log of the service")
        return _json({"status": "ready", "sequence": self._served.sequence})


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
    body = {"error": reason} if index is None else {"error": reason, "index": index}
    headers = [*JSON_HEADERS, *getattr(error, "headers", ())]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    return Response(status, encode(body), headers)


def _json(value: Any) -> Response:
    return Response(200, encode(value))


async def _read_body(route: Route, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
    """Return the body of a request; RequestError unless it is JSON of an allowed length."""
    if b"content-encoding" in headers:
        raise RequestError("send the body as it is, without Content-Encoding", status=415)
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise RequestError("send JSON: Content-Type: application/json", status=415)
    body, size, more = b"", int(headers.get(b"content-length", b"0")), True
    while more and size <= route.max_bytes:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError("the client has gone", status=400)
        body, more = body + message.get("body", b""), message.get("more_body", False)
        size = len(body)
    if size > route.max_bytes:
        raise RequestError(f"the body is longer than {route.max_bytes:,} bytes", status=413)
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


async def _download(file: IO[bytes]) -> AsyncGenerator[bytes, None]:
    with file:
        while part := await asyncio.to_thread(file.read, DOWNLOAD_CHUNK_BYTES):
            yield part


def load_page() -> tuple[bytes, Headers]:
    """Return the page in one file, and headers that let only its own script and style run."""
    folder = files("romco.server") / "page"
    style, script, text = (
        (folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js", "html")
    )
    digests = (
        base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        for part in (script, style)
    )
    policy = (
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ).format(*digests)
    headers = dict(SECURITY_HEADERS) | {
        b"content-type": b"text/html; charset=utf-8",
        b"content-security-policy": policy.encode(),
        b"x-frame-options": b"DENY",
        b"referrer-policy": b"no-referrer",
        b"cross-origin-opener-policy": b"same-origin",
    }
    page = text.replace("/*style*/", style).replace("/*script*/", script)
    return page.encode(), list(headers.items())


# The server


@dataclass(frozen=True)
class Address:
    """Listening address and access options."""

    host: str = "127.0.0.1"
    port: int = 8400
    token_file: Path | None = None
    insecure: bool = False
    names: tuple[str, ...] = ()  # other host names by which clients know it

    def __post_init__(self) -> None:
        if not self.is_local and self.token_file is None and not self.insecure:
            raise ValueError(
                f"{self.host} can be reached from other machines: give --token-file "
                "(make one by `romco token FILE`), or say --insecure"
            )

    @property
    def is_local(self) -> bool:
        """True if only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def access(self) -> Access:
        """Return the access rules; a local service answers only to local names."""
        tokens = None if self.token_file is None else routes.Tokens(self.token_file)
        names = {name.lower() for name in self.names}
        local = routes.LOCAL_NAMES | names | {self.host}
        return Access(tokens, local if self.is_local or names else None)

    def bind(self) -> socket.socket:
        """Return a listening socket; port 0 is any that is free."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family, backlog=1024)


class Server:
    """Runs an application until a signal comes; replays the log while it already listens.

    ``grace``: seconds that a stop may take.
    """

    def __init__(
        self, service: Service, access: Access, listening: socket.socket, grace: float = 20.0
    ) -> None:
        self.service, self._listening, self._grace = service, listening, grace
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
        host, port = listening.getsockname()[:2]
        self.url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"

    def run(self, source: EventSource | None = None) -> bool:
        """Serve; False if the stop took too long to write a checkpoint, which loses nothing."""
        readers: list[SourceReader] = []

        def start() -> None:
            try:
                writer = self.service.start()
                self.application.metrics.writer = writer
                LOG.info("ready after change %d", self.service.served.sequence)
                if source is not None:
                    readers.append(SourceReader(source, writer))
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


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger and message, and the traceback if there is one."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
