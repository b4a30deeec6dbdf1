"""Application: HTTP requests to answers, its metrics, and the server that runs it."""

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
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import accumulate
from typing import IO, Any, NamedTuple

import uvicorn
from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from romco.model import Columns, Model
from romco.server import routes
from romco.server.connection import (
    JSON_HEADERS,
    MAX_CONNECTIONS,
    SECURITY_HEADERS,
    Connection,
    Headers,
)
from romco.server.protocol import BusyError, ErrorResponse, RequestError, encode, parse, parse_query
from romco.server.routes import Access, Route
from romco.server.sources import SourceReader
from romco.server.state import ServedModel
from romco.server.store import NO_ROOM, list_stored
from romco.server.writer import Service
from romco.streams.brokers import EventSource

LOG = logging.getLogger("romco.server")
LIVE_SECONDS = 1.0  # between messages to the page
MAX_BODY_BYTES = 8 << 20
MAX_STREAMS = {"model": 4, "choices": 4, "live": 100}  # responses under way at the same time
KEEP_ALIVE_SECONDS = 30
SWITCH_SECONDS = 0.0005  # that the writer may go on while a request waits for the interpreter
OPEN_FILES = 4 * MAX_CONNECTIONS  # that the process may have
DOWNLOAD_BYTES = 1 << 20  # read and sent at once
OTHER_PATH = "other"
RECENT_REQUESTS = 1000  # of which the page shows median and 99th percentile
OUTCOMES = ("applied", "duplicate", "expired", "refused")
BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
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


@dataclass
class Snapshot:
    """Model file that downloads at the same change share; closed by the last of them."""

    served: ServedModel
    sequence: int
    file: IO[bytes]
    readers: int = 0


class Application:
    """ASGI application of a service; until the writer runs, only public routes answer."""

    serves = "model"

    def __init__(self, service: Service, access: Access, stopping: Callable[[], bool]) -> None:
        self.metrics = self._new_metrics(service)
        self._service, self._access, self._stopping = service, access, stopping
        self._streams: Counter[str] = Counter()  # responses under way that take long
        self._snapshot: Snapshot | None = None
        self._snapshot_lock = asyncio.Lock()
        served, width = service.served.model, None
        if isinstance(served, Model) and isinstance(served.features, Columns):
            width = served.features.width
        self._constant = {  # responses, by the name of the route
            "page": Response(200, *load_page()),
            "healthz": Response(200, b'{"status":"alive"}'),
            "openapi": Response(200, encode(routes.describe_routes(width))),
        }
        self._handlers: dict[str, Any] = {}
        for route in routes.ROUTES:
            if route.serves in ("", self.serves) and route.name not in self._constant:
                self._handlers[route.name] = getattr(self, f"_{route.name}")

    def _new_metrics(self, service: Service) -> "Metrics":
        return Metrics(service)

    @property
    def _served(self) -> ServedModel:
        return self._service.served

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; no error gets out as it is."""
        begin, label = time.perf_counter(), OTHER_PATH
        many = True  # whether events came as a list, and so does the response
        try:
            headers = routes.read_headers(scope["headers"])
            route, given = self._route(scope, headers)
            label = route.path
            if route.body is not None:
                given, many = parse(await _read_body(headers, receive), route.body)
            elif route.query is not None:
                query = parse_query(scope["query_string"], route.query)
                given = (given, query) if given else query
            response = self._constant.get(route.name)
            if response is None:
                response = await self._handlers[route.name](given)
            if type(response) is not Response:
                response = Response(200, encode(response if many else response[0]))
        except Exception as error:
            response = refusal(error, with_index=many)
        try:
            await _send_response(response, scope, send)
        finally:
            self.metrics.add(label, response.status, time.perf_counter() - begin)

    def _route(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Route, Any]:
        """Return the route that may answer, and the task."""
        method = scope["method"]
        methods, task = routes.find_routes(scope["raw_path"])
        route = methods.get(method)
        self._access.check("read" if route is None else route.scope, method, headers)
        if route is None and methods:
            allow = [(b"allow", ", ".join(methods).encode())]
            raise RequestError("this path has no such method", status=405, headers=allow)
        if route is None:
            raise RequestError("no such path", status=404)
        if route.serves not in ("", self.serves):
            raise RequestError(f"this service has no {route.serves}: see /openapi.json", status=404)
        if route.scope != "public":
            self._check_started()
        return route, task

    def _check_started(self) -> None:
        if not self._service.started:
            done, total = self._served.sequence, self._service.last_sequence
            raise BusyError(f"the service is starting: {done:,} of {total:,} changes replayed")

    # Handlers, by the names of routes; they take the events of the body, the query or the task,
    # and return a response, or what is encoded as JSON

    async def _predict(self, events: list[Any]) -> Any:
        responses, pending = list[Any](), list[Any]()
        served = self._served
        for begin, end in served.pieces(events):
            try:
                made, kept = served.respond(events[begin:end])
            except RequestError as error:
                error.index = None if error.index is None else begin + error.index
                raise
            responses += made
            pending += kept
            if end < len(events):
                await asyncio.sleep(0)  # others have their turn
        if pending:
            await asyncio.wrap_future(self._service.keep(pending, served))
        self.metrics.predictions += len(responses)
        return responses

    async def _learn(self, events: list[Any]) -> Any:
        return await asyncio.wrap_future(self._service.learn(events))

    async def _explain(self, events: list[Any]) -> Any:
        return [await asyncio.to_thread(self._served.explain, events[0])]

    async def _tasks(self, query: Any) -> Any:
        return await asyncio.to_thread(self._served.list_tasks, query)

    async def _task(self, task: str) -> Any:
        return await asyncio.to_thread(self._served.describe_task, task)

    async def _stored(self, task: str) -> Any:
        return await asyncio.to_thread(list_stored, self._service.store.folder, task)

    async def _forget(self, given: Any) -> Any:
        task, query = given
        outcome = await asyncio.wrap_future(self._service.forget(task, query.exact))
        if not query.exact:
            return {"status": "forgotten", "sequence": outcome}
        sequence = self._served.sequence
        return {"status": "forgotten", "sequence": sequence, "certificate": outcome}

    async def _checkpoint(self, given: str) -> Any:
        return {"sequence": await asyncio.wrap_future(self._service.checkpoint())}

    async def _model(self, given: str) -> Response:
        parts = self._download()
        sequence, size = await anext(parts)
        headers = [
            (b"content-disposition", b'attachment; filename="model-%d.romco"' % sequence),
            (b"content-length", b"%d" % size),
            (b"x-romco-sequence", b"%d" % sequence),
        ]
        return Response(200, parts, media_headers("model", *headers))

    async def _download(self) -> AsyncGenerator[Any, None]:
        """Yield sequence and size of the model file, then its parts."""
        with self._stream("model"):
            async with self._snapshot_lock:
                snapshot = self._snapshot
                served = self._served
                now = served, served.sequence
                if snapshot is None or (snapshot.served, snapshot.sequence) != now:
                    copying = self._service.call_in_writer(lambda served: (served, *served.copy()))
                    served, sequence, state, _ = await asyncio.wrap_future(copying)
                    file = await asyncio.to_thread(self._service.store.open_copy, state)
                    snapshot = self._snapshot = Snapshot(served, sequence, file)
                snapshot.readers += 1
            number, at = snapshot.file.fileno(), 0
            try:
                yield snapshot.sequence, os.fstat(number).st_size
                while part := await asyncio.to_thread(os.pread, number, DOWNLOAD_BYTES, at):
                    at += len(part)
                    yield part
            finally:
                snapshot.readers -= 1
                if not snapshot.readers:
                    snapshot.file.close()
                    self._snapshot = None if self._snapshot is snapshot else self._snapshot

    async def _live(self, given: str) -> Response:
        messages = self._messages()
        await anext(messages)
        return Response(200, messages, media_headers("live"))

    async def _messages(self) -> AsyncGenerator[bytes, None]:
        """Yield nothing, then the state of the service every second."""
        with self._stream("live"):
            yield b""
            while not self._stopping():
                status = await asyncio.to_thread(self.metrics.status)
                yield b"data: " + encode(status) + b"\n\n"
                await asyncio.sleep(LIVE_SECONDS)

    @contextmanager
    def _stream(self, name: str) -> Iterator[None]:
        """Count a response that takes long; BusyError if there are too many of its kind."""
        if self._streams[name] >= MAX_STREAMS[name]:
            raise BusyError(f"{MAX_STREAMS[name]} such responses are under way: try again later")
        self._streams[name] += 1
        try:
            yield
        finally:
            self._streams[name] -= 1

    async def _metrics(self, given: str) -> Response:
        text = await asyncio.to_thread(generate_latest, self.metrics)
        return Response(200, text, media_headers("metrics"))

    async def _readyz(self, given: str) -> Any:
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
        status = 507 if error.errno in NO_ROOM else 503
        reason = f"it could not be written ({error.strerror}): nothing was changed"
    else:
        LOG.error("a request failed", exc_info=error)
    index = getattr(error, "index", None) if with_index else None
    headers = [*JSON_HEADERS, *getattr(error, "headers", ())]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    return Response(status, encode(ErrorResponse(reason, index)), headers)


def media_headers(name: str, *more: tuple[bytes, bytes]) -> Headers:
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
    async with aclosing(body) as parts:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async for part in parts:
            if scope["is_closed"]():
                return
            if scope["method"] == "HEAD":
                break
            await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def load_page() -> tuple[bytes, Headers]:
    """Return the page in one file, and headers that let only its own script and style run."""
    page = files("romco.server") / "page"
    style = (page / "page.css").read_bytes()
    script = (page / "page.js").read_bytes()
    text = (page / "page.html").read_bytes()
    headers = media_headers(
        "page",
        (b"content-security-policy", PAGE_POLICY % (_digest(script), _digest(style))),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )
    return text.replace(b"/*style*/", style).replace(b"/*script*/", script), headers


def _digest(part: bytes) -> bytes:
    return base64.b64encode(hashlib.sha256(part).digest())


class Metrics:
    """Counts requests and predictions; reads the rest from the service when it is asked."""

    def __init__(self, service: Service) -> None:
        self.predictions, self._service = 0, service
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: dict[str, float] = {}
        self._recent: dict[str, deque[float]] = {}
        for path in (*(route.path for route in routes.ROUTES), OTHER_PATH):
            self._buckets[path] = [0] * (len(BUCKETS) + 1)
            self._seconds[path] = 0.0
            self._recent[path] = deque(maxlen=RECENT_REQUESTS)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is that of its route."""
        self._requests[path, status] += 1
        self._buckets[path][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[path] += seconds
        self._recent[path].append(seconds)

    def latency(self, path: str) -> dict[str, float] | None:
        """Return median and 99th percentile of the last requests, in seconds."""
        times = sorted(self._recent[path])
        if not times:
            return None
        return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}

    def status(self) -> dict[str, Any]:
        """Return what the page shows."""
        service = self._service
        scores, counts = service.served.scores, service.counts
        overview = service.served.overview.read()
        return self._gauge_values() | {
            "time": time.time(),
            "learner": service.served.model.engine.learner.name,
            "target": service.served.target,
            "events": service.served.model.events,
            "predicted": self.predictions,
            "durability": service.settings.durability,
            "dropped": counts["dropped"],
            "expired": counts["never answered"],
            "trouble": service.trouble and "learning is in trouble: see the log of the service",
            "judged": scores.total.events,
            "curve": scores.total.points(),
            "calibration": scores.score.calibration_bins(),
            "figures": scores.score.summary() if scores.score.target == "number" else None,
            "predicting": self.latency("/v1/predict"),
            "learning": self.latency("/v1/learn"),
            "features": overview.n_features,
            "rank": len(overview.weights.spectrum),
            "kinds": dict(Counter(overview.kinds)),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield metrics that are read when Prometheus asks."""
        counts = self._service.counts
        counters: list[tuple[str, str, list[str], dict[Any, int]]] = [
            ("predictions", "Predictions made", [], {(): self.predictions}),
            ("requests", "Requests", ["path", "status"], dict(self._requests)),
            ("events", "Events by outcome", ["outcome"], {(o,): counts[o] for o in OUTCOMES}),
            ("pending_dropped", "Pending events without room", [], {(): counts["dropped"]}),
            ("pending_expired", "Those never answered", [], {(): counts["never answered"]}),
        ]
        for name, text, labels, values in counters:
            counter = CounterMetricFamily(f"romco_{name}", text, labels=labels)
            for key, count in values.items():
                counter.add_metric(list(map(str, key)), count)
            yield counter
        text = "Time from request to response"
        seconds = HistogramMetricFamily("romco_request_seconds", text, labels=["path"])
        for path, events in self._buckets.items():
            sums = list(zip([*map(str, BUCKETS), "+Inf"], accumulate(events), strict=True))
            seconds.add_metric([path], sums, self._seconds[path])
        yield seconds
        for name, text, value in self._gauges():
            if value is not None:
                yield GaugeMetricFamily(f"romco_{name}", text, value)

    def _gauge_values(self) -> dict[str, Any]:
        return {name: value for name, _, value in self._gauges()}

    def _gauges(self) -> Iterator[tuple[str, str, float | None]]:
        service, served, store = self._service, self._service.served, self._service.store
        total, score = served.scores.total, served.scores.score
        yield "sequence", "Sequence number of the last change applied", served.sequence
        yield "checkpoint_sequence", "That of the last checkpoint", service.checkpoint_sequence
        yield "tasks", "Tasks known", len(served.model.tasks)
        yield "pending", "Predicted events that wait for an answer", store.pending_events
        yield "pending_bytes", "Their size", store.pending_bytes
        yield "queued", "Events that wait to be learned", service.queued
        yield "ids", "Ids remembered", store.ids
        yield "log_bytes", "Size of the database", store.bytes
        yield "sync_seconds", "Time of the last commit", service.commit_seconds
        share = None if service.exact is None else service.exact.share
        yield "forgetting", "Share of the log replayed to forget tasks exactly", share
        yield "broken", "1 while nothing can be learned", service.failing or service.broken
        recent = score.recent() if score.events else {}
        error, loss = recent.get("error", recent.get("absolute")), "error" in recent
        yield "error", "Mean error of the predictions", total.mean
        yield "recent_error", "That of about the last thousand", error
        yield "log_loss", "Mean log loss of the predictions", score.log_loss if loss else None
        yield "durable", "1 if answers wait for a sync", service.settings.durability == "durable"


# The server


def _allow_files() -> None:
    """Let the process open as many files as connections need, where the system has such limits."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


class Server:
    """Runs an application until a signal comes; replays the log while it already listens.

    Port 0 is any that is free; ``grace``: seconds that a stop may take.
    """

    def __init__(
        self,
        service: Service,
        access: Access,
        host: str,
        port: int = 0,
        grace: float = 20.0,
        application: type[Application] = Application,
    ) -> None:
        self.service, self._grace = service, grace
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=1024)
        self.application = application(service, access, lambda: self.uvicorn.should_exit)
        self.failure: BaseException | None = None  # of the replay
        config = uvicorn.Config(
            self.application,
            http=partial(Connection, by_activity=OrderedDict()),  # type: ignore[arg-type]
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=max(1, int(grace / 2)),
        )
        self.uvicorn = uvicorn.Server(config)
        host, self.port = self._listening.getsockname()[:2]
        self.url = f"http://[{host}]:{self.port}/" if ":" in host else f"http://{host}:{self.port}/"

    def run(self, source: EventSource | None = None) -> bool:
        """Serve; False if the stop took too long to write a checkpoint, which loses nothing."""
        readers: list[SourceReader] = []
        sys.setswitchinterval(SWITCH_SECONDS)
        _allow_files()

        def start() -> None:
            try:
                self.service.start()
                LOG.info("ready after change %d", self.service.served.sequence)
                if source is not None:
                    readers.append(SourceReader(source, self.service))
            except BaseException as error:
                self.failure, self.uvicorn.should_exit = error, True

        if threading.current_thread() is threading.main_thread():
            for each in (signal.SIGTERM, signal.SIGINT):  # before uvicorn runs, and at its end
                signal.signal(each, lambda *_: setattr(self.uvicorn, "should_exit", True))
        starting = threading.Thread(target=start, name="romco-start", daemon=True)
        starting.start()
        try:
            self.uvicorn.run(sockets=[self._listening])
        finally:
            self.service.interrupted = True
            starting.join()
            for reader in readers:
                reader.stop(self._grace / 4)
            finished = self.service.close(self._grace / 2)
        if self.failure is not None:
            raise self.failure
        return finished
