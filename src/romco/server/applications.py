"""The HTTP interface: paths, and what each does."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, final

import msgspec
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from romco.io.modelfile import save
from romco.model import Model
from romco.server import pages
from romco.server.answers import Refused, explain
from romco.server.descriptions import describe
from romco.server.drafts import Outcome
from romco.server.guards import FAILED, Doors, Guard, Headers, answer
from romco.server.heads import Head, Heads, Refusal
from romco.server.journals import Broken, Full
from romco.server.lanes import Lane
from romco.server.live import Live
from romco.server.meters import Meters
from romco.server.questions import Shortcut, Told, ask
from romco.server.requests import BadRequest, Reader
from romco.server.stores import Store
from romco.server.views import ORDERS, Asked, Views
from romco.server.wires import LONGEST_BODY, LONGEST_HEAD, SHORT, Later, Tell, Wire
from romco.server.writers import Busy, Stopped

LOG = logging.getLogger(__name__)
ANYBODY = Doors(None, None)
AWAKE = 0.00005  # seconds for which a client is waited for who asks again at once
EVERY = 1.0  # seconds between what the page is told
encode = msgspec.json.Encoder().encode


@final
class Application:
    """An ASGI application over a store."""

    def __init__(
        self,
        store: Store,
        doors: Doors = ANYBODY,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store, self._stopping = store, stopping
        self._reader = Reader(store.settings.limits)
        self._shortcut = Shortcut(store.live, store.settings.limits)
        self._views = Views(store.live)
        self.meters = Meters(store, self._views)
        self._page, self._policy = pages.page()
        self._description = encode(describe(store.settings.limits, store.live.model.features))
        self._posts: dict[str, Callable[[bytes], Awaitable[bytes]]] = {
            "/v1/predict": self._predict,
            "/v1/learn": self._learn,
        }
        self._others = self._starlette()
        self._guard = Guard(self._route, doors, self.meters)
        self._heads = Heads(partial(self._refusal, "/v1/predict"))
        self._later = Later(Heads(partial(self._refusal, "/v1/learn")), self._learn_at_once)
        self._lane = self._open_lane()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        await self._guard(scope, receive, send)

    def wire(self, **options: Any) -> Wire:
        """A connection of uvicorn's that knows a short way for what comes most."""
        longest = self._store.settings.limits.body
        ways = self._predict_at_once, self._heads, self._lane, self._later
        return Wire(*ways, longest, **options)

    def _open_lane(self) -> Lane:
        """What answers most predictions."""
        longest = min(self._store.settings.limits.body, LONGEST_BODY)
        shortcut, path = self._shortcut, "/v1/predict"
        return Lane(
            SHORT,
            LONGEST_HEAD,
            longest,
            self._heads.kept,
            shortcut.questions,
            self._store.live,
            shortcut.keep,
            Told,
            encode,
            self.meters,
            path,
            AWAKE if (os.cpu_count() or 1) > 1 else 0.0,
        )

    def _refusal(self, path: str, headers: Headers) -> Refusal | None:
        """Why a request is refused before its body is looked at."""
        refusal = self._guard.refusal("POST", path, headers)
        if refusal is None:
            try:
                _check_json(headers)
            except BadRequest as error:
                refusal = refusal_of(error)
        return None if refusal is None else (refusal[0], encode(refusal[1]))

    def _predict_at_once(self, head: Head, body: bytes) -> tuple[int, bytes]:
        """Status and body of the answer to a prediction, with all that the long way does."""
        begin = time.perf_counter()
        if head.refusal is not None:
            status, data = head.refusal
        else:
            try:
                status, data = 200, self._predictions(body)
            except Exception as error:
                status, data = _refused(error)
        self.meters.add("/v1/predict", status, time.perf_counter() - begin)
        return status, data

    def _learn_at_once(self, head: Head, body: bytes, tell: Tell) -> None:
        """Have lessons learned, and tell status and body of the answer, with all of the long way.

        It is told from the loop, never from within this call.
        """
        begin, loop = time.perf_counter(), asyncio.get_running_loop()

        def told(status: int, data: bytes) -> None:
            self.meters.add("/v1/learn", status, time.perf_counter() - begin)
            tell(status, data)

        def learned(future: Future[list[Outcome]]) -> None:
            with suppress(RuntimeError):  # nobody is there any more
                loop.call_soon_threadsafe(lambda: told(*_outcome(future, many)))

        if head.refusal is not None:
            loop.call_soon(told, *head.refusal)
            return
        try:
            lessons, many = self._reader.lessons(body)
            self._store.writer.learn(lessons).add_done_callback(learned)
        except Exception as error:
            loop.call_soon(told, *_refused(error))

    # Two paths carry the load: they go past the framework, which would cost more than they do.

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        post = self._posts.get(scope.get("path", ""))
        if post is None or scope["method"] != "POST":
            await self._others(scope, receive, send)
            return
        try:
            data = await post(await self._body(scope, receive))
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is None:
                raise
            await answer(send, *refusal)
        else:
            await answer(send, 200, data)

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The body, unless it is too long or no JSON."""
        most = self._store.settings.limits.body
        _check_json(scope["headers"])
        long = BadRequest(f"the body is longer than {most:,} bytes", status=413)
        if int(dict(scope["headers"]).get(b"content-length", b"0")) > most:
            raise long
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise BadRequest("the client has gone", status=400)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise long
            more = message.get("more_body", False)
        return b"".join(parts)

    async def _predict(self, body: bytes) -> bytes:
        return self._predictions(body)

    def _predictions(self, body: bytes) -> bytes:
        found = self._lane.answer_body(body)
        if found is not None:
            return found
        plain = self._shortcut.answer(body)
        if plain is not None:
            self.meters.predicted += len(plain) if isinstance(plain, list) else 1
            return encode(plain)
        questions, many = self._reader.questions(body)
        with _of_one(many):
            told = ask(self._store.live, questions)
        self.meters.predicted += len(told)
        return encode(told if many else told[0])

    async def _learn(self, body: bytes) -> bytes:
        lessons, many = self._reader.lessons(body)
        with _of_one(many):
            outcomes = await asyncio.wrap_future(self._store.writer.learn(lessons))
        return _told_outcomes(outcomes, many)

    # All others

    def _starlette(self) -> Starlette:
        routes = [
            Route("/", self._show_page),
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._metrics),
            Route("/openapi.json", self._describe),
            Route("/v1/predict", _never, methods=["POST"]),
            Route("/v1/learn", _never, methods=["POST"]),
            Route("/v1/explain", self._explain, methods=["POST"]),
            Route("/v1/tasks", self._tasks),
            Route("/v1/tasks/{task:path}", self._one_task, methods=["GET", "DELETE"]),
            Route("/v1/model", self._model),
            Route("/v1/checkpoint", self._checkpoint, methods=["POST"]),
            Route("/v1/live", self._live),
        ]
        made = Starlette(routes=routes, exception_handlers={HTTPException: _told})
        made.router.redirect_slashes = False  # clients do not send a body twice: /v1/learn/ is none
        return made

    async def _show_page(self, request: Request) -> Response:
        headers = {"content-security-policy": self._policy}
        return Response(self._page, media_type="text/html", headers=headers)

    async def _health(self, request: Request) -> Response:
        return _json({"status": "alive"})

    async def _ready(self, request: Request) -> Response:
        """Ready to predict and to learn."""
        writer = self._store.writer
        if writer.broken or self._stopping():
            why = "learning has stopped: see the log of the service"
            return _json({"status": "not ready", "error": why}, 503)
        return _json({"status": "ready", "sequence": self._store.live.sequence})

    async def _metrics(self, request: Request) -> Response:
        text = await run_in_threadpool(self.meters.text)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def _describe(self, request: Request) -> Response:
        return Response(self._description, media_type="application/json")

    async def _explain(self, request: Request) -> Response:
        """Why one event is answered as it is."""
        try:
            event = self._reader.one(await self._body(request.scope, request.receive))
            told = await run_in_threadpool(explain, self._store.live.model, event.x, event.task)
        except (BadRequest, Refused) as error:
            status = error.status if isinstance(error, BadRequest) else 422
            raise HTTPException(status, error.reason) from None
        return _json(told)

    async def _tasks(self, request: Request) -> Response:
        asked = _asked(request)
        return _json(await run_in_threadpool(self._views.tasks, asked))

    async def _one_task(self, request: Request) -> Response:
        return await (self._forget if request.method == "DELETE" else self._task)(request)

    async def _task(self, request: Request) -> Response:
        text = request.path_params["task"]
        try:
            name = self._views.named(text)
            return _json(await run_in_threadpool(self._views.task, name))
        except KeyError:
            raise HTTPException(404, "no such task is known") from None

    async def _forget(self, request: Request) -> Response:
        try:
            name = self._views.named(request.path_params["task"])
            future = self._store.writer.forget(name)
            (outcome,) = await asyncio.wrap_future(future)
        except KeyError:
            raise HTTPException(404, "no such task is known") from None
        except Exception as error:
            raise _as_http(error) from None
        return _json({"status": "forgotten", "sequence": outcome.sequence})

    async def _checkpoint(self, request: Request) -> Response:
        try:
            sequence = await asyncio.wrap_future(self._store.writer.checkpoint())
        except Exception as error:
            raise _as_http(error) from None
        return _json({"sequence": sequence})

    async def _model(self, request: Request) -> Response:
        """The model file at a sequence number, which is told in a header."""
        look = self._store.writer.look(_state)
        sequence, state = await asyncio.wrap_future(look)
        folder = Path(tempfile.mkdtemp(prefix="download-", dir=self._store.folder))
        path = folder / "model.romco"
        remove = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        try:
            await run_in_threadpool(lambda: save(Model.from_state(state), path))
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise _as_http(error) from None
        return FileResponse(
            path,
            media_type="application/octet-stream",
            filename=f"model-{sequence}.romco",
            headers={"x-romco-sequence": str(sequence)},
            background=remove,
        )

    async def _live(self, request: Request) -> Response:
        return StreamingResponse(self._news(), media_type="text/event-stream")

    async def _news(self) -> AsyncIterator[bytes]:
        """The state of things every second, until the service stops."""
        while not self._stopping():
            status = await run_in_threadpool(self.meters.status)
            yield b"data: " + encode(status) + b"\n\n"
            await asyncio.sleep(EVERY)


def _check_json(given: Headers) -> None:
    headers = dict(given)
    kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" or b"content-encoding" in headers:
        raise BadRequest("send JSON: Content-Type: application/json", status=415)


@contextmanager
def _of_one(many: bool) -> Iterator[None]:
    """Where there is but one event, nobody asks which."""
    try:
        yield
    except Refused as error:
        raise error if many else BadRequest(error.reason) from None


def _outcome(future: Future[list[Outcome]], many: bool) -> tuple[int, bytes]:
    """Status and body that tell what became of lessons."""
    try:
        with _of_one(many):
            return 200, _told_outcomes(future.result(), many)
    except Exception as error:
        return _refused(error)


def _told_outcomes(outcomes: list[Outcome], many: bool) -> bytes:
    told = [{"status": o.status, "sequence": o.sequence} for o in outcomes]
    return encode(told if many else told[0])


def _refused(error: Exception) -> tuple[int, bytes]:
    """Status and body that tell what is wrong; what is wrong with us is noted in the log."""
    refusal = refusal_of(error)
    if refusal is None:
        LOG.error("a request failed", exc_info=error)
        refusal = FAILED
    return refusal[0], encode(refusal[1])


def refusal_of(error: Exception) -> tuple[int, dict[str, Any]] | None:
    """Status and body that tell a client what is wrong; None for what is wrong with us."""
    if isinstance(error, BadRequest | Refused):
        status = error.status if isinstance(error, BadRequest) else 422
        body: dict[str, Any] = {"error": error.reason}
        return status, body if error.index is None else body | {"index": error.index}
    if isinstance(error, Full):
        return 507, {"error": "no room on the disk: nothing was learned, predictions go on"}
    if isinstance(error, Busy):
        return 503, {"error": str(error)}
    if isinstance(error, Stopped | Broken):
        return 503, {"error": "learning has stopped; predictions go on"}
    return None


def _as_http(error: Exception) -> Exception:
    refusal = refusal_of(error)
    if refusal is None and isinstance(error, OSError):
        return HTTPException(507, "it could not be written: nothing was changed")
    return error if refusal is None else HTTPException(refusal[0], refusal[1]["error"])


async def _told(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"error": error.detail}, error.status_code, error.headers)


async def _never(request: Request) -> Response:
    """Stands for paths that are answered before: other methods are told which one is meant."""
    raise AssertionError


def _json(value: Any, status: int = 200, headers: Any = None) -> Response:
    return Response(encode(value), status, headers, "application/json")


def _state(live: Live) -> tuple[int, dict[str, Any]]:
    return live.sequence, live.model.state()


def _asked(request: Request) -> Asked:
    """Which tasks a query asks for; raises a 422 that says what is wrong."""
    query = request.query_params
    order = query.get("order", "personal")
    if order not in ORDERS:
        raise HTTPException(422, f"order is one of {', '.join(ORDERS)}")
    try:
        offset, limit = int(query.get("offset", "0")), int(query.get("limit", "100"))
    except ValueError:
        raise HTTPException(422, "offset and limit are whole numbers") from None
    if not (0 <= offset <= 10**9 and 1 <= limit <= 1000):
        raise HTTPException(422, "offset is at least 0, limit from 1 to 1000")
    descending, search = query.get("descending", "true").lower(), query.get("search", "")
    if descending not in ("true", "false"):
        raise HTTPException(422, "descending is true or false")
    if len(search) > 256:
        raise HTTPException(422, "search has at most 256 characters")
    return Asked(search, order, descending == "true", offset, limit)
