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
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import aclosing, suppress
from functools import partial
from importlib.resources import files
from typing import Any, ClassVar, NamedTuple

import uvicorn
from prometheus_client import CollectorRegistry, Histogram, Metric, generate_latest
from prometheus_client import Counter as Count
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from romco.server import routes
from romco.server.connection import JSON_HEADERS, MAX_CONNECTIONS, Connection, Headers
from romco.server.protocol import BusyError, ErrorResponse, RequestError, encode, parse, parse_query
from romco.server.routes import Access, Route
from romco.server.sources import SourceReader
from romco.server.store import NO_ROOM, list_stored
from romco.server.writer import Service
from romco.streams.brokers import EventSource

LOG = logging.getLogger("romco.server")
MAX_BODY_BYTES = 8 << 20
MAX_DOWNLOADS = 4  # under way at the same time
KEEP_ALIVE_SECONDS = 30
SWITCH_SECONDS = 0.0005  # that the writer may go on while a request waits for the interpreter
OPEN_FILES = 4 * MAX_CONNECTIONS  # that the process may have
DOWNLOAD_BYTES = 1 << 20  # read and sent at once
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


class Metrics:
    """Counts requests and predictions; reads the rest from the service when it is asked."""

    predicting, learning = "/v1/predict", "/v1/learn"  # paths whose times the page shows

    def __init__(self, service: Service) -> None:
        self.predictions, self._service = 0, service
        self.registry = CollectorRegistry()
        self.registry.register(self)
        text, to = "Time from request to response", self.registry
        self._seconds = Histogram(
            "romco_request_seconds", text, ["path"], buckets=BUCKETS, registry=to
        )
        self._requests = Count("romco_requests", "Requests", ["path", "status"], registry=to)
        self._recent = defaultdict[str, deque[float]](lambda: deque(maxlen=RECENT_REQUESTS))

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request; ``path`` is that of its route."""
        self._requests.labels(path, status).inc()
        self._seconds.labels(path).observe(seconds)
        self._recent[path].append(seconds)

    def status(self) -> dict[str, Any]:
        """Return what the page shows."""
        service = self._service
        return {
            **{name: value for name, _, value in self._gauges()},
            "time": time.time(),
            "durability": service.settings.durability,
            "trouble": service.unsaved or not service.learns,
            "curve": service.served.scores.total.points(),
            "predicting": self._latency(self.predicting),
            "learning": self._latency(self.learning),
            **self._figures(),
        }

    def _latency(self, path: str) -> dict[str, float] | None:
        """Return median and 99th percentile of the last requests, in seconds."""
        times = sorted(self._recent[path])
        if not times:
            return None
        return {"median": times[len(times) // 2], "p99": times[len(times) * 99 // 100]}

    def _figures(self) -> dict[str, Any]:
        """Return what the page shows of the model."""
        served, counts = self._service.served, self._service.counts
        scores, overview = served.scores, served.overview.read()
        figures = None
        if served.target == "number":
            figures = scores.score.summary()
        return {
            "learner": served.model.engine.learner.name,
            "target": served.target,
            "events": served.model.events,
            "predicted": self.predictions,
            "dropped": counts["dropped"],
            "expired": counts["never answered"],
            "judged": scores.total.events,
            "calibration": scores.score.calibration_bins(),
            "figures": figures,
            "features": overview.n_features,
            "rank": len(overview.weights.spectrum),
            "kinds": dict(Counter(overview.kinds)),
        }

    def collect(self) -> Iterator[Metric]:
        """Yield metrics that are read when Prometheus asks."""
        counts = self._service.counts
        dropped, expired = "Pending events without room", "Those never answered"
        yield CounterMetricFamily("romco_predictions", "Predictions made", self.predictions)
        yield CounterMetricFamily("romco_pending_dropped", dropped, counts["dropped"])
        yield CounterMetricFamily("romco_pending_expired", expired, counts["never answered"])
        events = CounterMetricFamily("romco_events", "Events by outcome", labels=["outcome"])
        for outcome in OUTCOMES:
            events.add_metric([outcome], counts[outcome])
        yield events
        for name, text, value in self._gauges():
            if value is not None:
                yield GaugeMetricFamily(f"romco_{name}", text, value)

    def _gauges(self) -> Iterator[tuple[str, str, float | None]]:
        service = self._service
        yield "sequence", "Sequence number of the last change applied", service.served.sequence
        yield "checkpoint_sequence", "That of the last checkpoint", service.checkpoint_sequence
        yield "tasks", "Tasks known", len(service.served.model.tasks)
        yield "queued", "Events that wait to be learned", service.queued
        yield "log_bytes", "Size of the database", service.store.bytes
        yield "sync_seconds", "Time of the last commit", service.commit_seconds
        yield "broken", "1 while nothing can be learned", not service.learns
        yield "durable", "1 if answers wait for a sync", service.settings.durability == "durable"
        yield from self._model_gauges()

    def _model_gauges(self) -> Iterator[tuple[str, str, float | None]]:
        store, scores = self._service.store, self._service.served.scores
        yield "pending", "Predicted events that wait for an answer", store.pending_events
        yield "pending_bytes", "Their size", store.pending_bytes
        yield "ids", "Ids remembered", store.ids
        if self._service.exact is not None:
            share = self._service.exact.share
            yield "forgetting", "Share of the log replayed to forget tasks exactly", share
        yield "error", "Mean error of the predictions", scores.total.mean
        recent = scores.score.recent() if scores.score.events else {}
        error = recent.get("error", recent.get("absolute"))
        yield "recent_error", "That of about the last thousand", error
        if "error" in recent:
            yield "log_loss", "Mean log loss of the predictions", scores.score.log_loss


class Application:
    """ASGI application of a service; until the writer runs, only public routes answer."""

    serves = "model"
    metrics_type: ClassVar[type[Metrics]] = Metrics

    def __init__(self, service: Service, access: Access) -> None:
        self.metrics = self.metrics_type(service)
        self._service, self._access = service, access
        self._downloads = asyncio.Semaphore(MAX_DOWNLOADS)
        self._constant = {  # responses, by the name of the route
            "page": Response(200, *load_page()),
            "healthz": Response(200, b'{"status":"alive"}'),
            "openapi": Response(200, encode(routes.describe_routes())),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; no error gets out as it is."""
        begin, label = time.perf_counter(), "other"
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
                response = await getattr(self, f"_{route.name}")(given)
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
            done, total = self._service.served.sequence, self._service.last_sequence
            raise BusyError(f"the service is starting: {done:,} of {total:,} changes replayed")

    # Handlers, by the names of routes; they take the events of the body, the query or the task,
    # and return a response, or what is encoded as JSON

    async def _predict(self, events: list[Any]) -> Any:
        responses, pending = list[Any](), list[Any]()
        served = self._service.served
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
        return [await asyncio.to_thread(self._service.served.explain, events[0])]

    async def _tasks(self, query: Any) -> Any:
        return await asyncio.to_thread(self._service.served.list_tasks, query)

    async def _task(self, task: str) -> Any:
        return await asyncio.to_thread(self._service.served.describe_task, task)

    async def _stored(self, task: str) -> Any:
        return await asyncio.to_thread(list_stored, self._service.store.folder, task)

    async def _forget(self, given: Any) -> Any:
        task, query = given
        outcome = await asyncio.wrap_future(self._service.forget(task, query.exact))
        if not query.exact:
            return {"status": "forgotten", "sequence": outcome}
        sequence = self._service.served.sequence
        return {"status": "forgotten", "sequence": sequence, "certificate": outcome}

    async def _checkpoint(self, given: str) -> Any:
        return {"sequence": await asyncio.wrap_future(self._service.checkpoint())}

    async def _model(self, given: str) -> Response:
        parts = self._read_model()
        sequence, size = await anext(parts)
        headers = [
            (b"content-disposition", b'attachment; filename="model-%d.romco"' % sequence),
            (b"content-length", b"%d" % size),
            (b"x-romco-sequence", b"%d" % sequence),
        ]
        return Response(200, parts, media_headers("model", *headers))

    async def _read_model(self) -> AsyncGenerator[Any, None]:
        """Yield sequence and size of a new checkpoint's model file, then its parts."""
        async with self._download():
            await asyncio.wrap_future(self._service.checkpoint())
            opening = self._service.call_in_writer(lambda _: self._service.store.open_model())
            sequence, file = await asyncio.wrap_future(opening)
            with file:
                yield sequence, os.fstat(file.fileno()).st_size
                while part := await asyncio.to_thread(file.read, DOWNLOAD_BYTES):
                    yield part

    def _download(self) -> asyncio.Semaphore:
        """Return what counts downloads while one lasts; BusyError if too many are under way."""
        if self._downloads.locked():
            raise BusyError(f"{MAX_DOWNLOADS} downloads are under way: try again later")
        return self._downloads

    async def _status(self, given: str) -> Any:
        return await asyncio.to_thread(self.metrics.status)

    async def _metrics(self, given: str) -> Response:
        text = await asyncio.to_thread(generate_latest, self.metrics.registry)
        return Response(200, text, media_headers("metrics"))

    async def _readyz(self, given: str) -> Any:
        self._check_started()
        if not self._service.learns:
            raise BusyError("learning has stopped: see the log of the service")
        return {"status": "ready", "sequence": self._service.served.sequence}


def refusal(error: Exception, with_index: bool) -> Response:
    """Return the response to an error; one of ours is logged and not shown.

    ``with_index``: with the position of the bad event, where they came as a list.
    """
    status, reason = getattr(error, "status", 500), getattr(error, "reason", None) or str(error)
    if isinstance(error, OSError):
        status = 507 if error.errno in NO_ROOM else 503
        reason = f"nothing was changed: {error.strerror}; predictions go on"
    elif status == 500:
        LOG.error("a request failed", exc_info=error)
        reason = "the service has failed; see its log"
    index = getattr(error, "index", None) if with_index else None
    headers = [*JSON_HEADERS, *getattr(error, "headers", ())]
    headers += [(b"retry-after", b"1")] if status == 503 else []
    return Response(status, encode(ErrorResponse(reason, index)), headers)


def media_headers(name: str, *more: tuple[bytes, bytes]) -> Headers:
    """Return the headers of a route whose response is no JSON."""
    media = routes.BY_NAME[name].media
    return list({**dict(JSON_HEADERS), b"content-type": media.encode(), **dict(more)}.items())


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
        headers = [*headers, (b"content-length", b"%d" % len(body))]
        if status == 413:  # the rest of the body is not read
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
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
    digests = [base64.b64encode(hashlib.sha256(part).digest()) for part in (script, style)]
    headers = media_headers(
        "page",
        (b"content-security-policy", PAGE_POLICY % tuple(digests)),
        (b"x-frame-options", b"DENY"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-opener-policy", b"same-origin"),
    )
    return text.replace(b"/*style*/", style).replace(b"/*script*/", script), headers


# The server


class OncePerSecond(logging.Filter):
    """Lets one record of a message through each second, with the number of those held back."""

    def __init__(self) -> None:
        super().__init__()
        self._held_back: dict[str, tuple[float, int]] = {}  # since when, how many

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to log a record."""
        message = str(record.msg)
        begin, count = self._held_back.get(message, (0.0, 0))
        if begin <= record.created < begin + 1.0:
            self._held_back[message] = begin, count + 1
            return False
        self._held_back[message] = record.created, 0
        if count:
            record.msg = f"{message} (and {count:,} times before)"
        return True


FLOODS = OncePerSecond()  # of what clients can make the service log


class Server:
    """Runs an application until a signal comes; replays the log while it already listens."""

    def __init__(
        self,
        service: Service,
        access: Access,
        host: str,
        port: int = 0,  # any that is free
        grace: float = 20.0,  # seconds that a stop may take
        application: type[Application] = Application,
    ) -> None:
        self.service, self._grace = service, grace
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, port), family=family, backlog=1024)
        self.application = application(service, access)
        self.failure: BaseException | None = None  # of the replay
        config = uvicorn.Config(
            self.application,
            http=partial(Connection, OrderedDict()),  # type: ignore[arg-type]
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
        for logger in (LOG, logging.getLogger("uvicorn.error")):
            logger.addFilter(FLOODS)
        sys.setswitchinterval(SWITCH_SECONDS)
        with suppress(ImportError, ValueError, OSError):  # a system without such limits
            import resource

            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))

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
