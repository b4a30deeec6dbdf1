"""Service: a folder's store and model, and the one thread that changes them.

Requests that come together form a group: each is validated, all are committed in one transaction,
then applied in order and acknowledged. A request that takes long is learned in chunks, between
which other requests get their turn.
"""

import errno
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from queue import Empty, Queue
from typing import Any, ClassVar, Self

import numpy as np

from romco.labels import Budget
from romco.model import Model
from romco.server.protocol import (
    LEARN_BODY,
    BusyError,
    LearnRequest,
    LearnResponse,
    RequestError,
    Settings,
    StoppedError,
    StoreError,
    Task,
)
from romco.server.state import GroupValidator, ServedModel, decode_scores
from romco.server.store import DamagedError, Event, Forget, Learn, PendingEvent, Store, hash_answer

LOG = logging.getLogger(__name__)
TICK_SECONDS = 0.2  # between looks at what is due
FILE_SECONDS = 0.01  # between looks at a file that another thread writes
SYNC_SECONDS = 1.0  # where answers do not wait for a sync
CHUNK_SECONDS = 0.1  # that learning one chunk should take
MIN_CHUNK_EVENTS = 16  # a request of no more than these is never split
CHUNK_NEW_CLASSES = 2  # a new class costs far more than an event
INITIAL_EVENTS_PER_SECOND = 2_000.0  # learned, before it is measured
RATE_DECAY = 0.5
STOPPED = "learning has stopped: restart the service"
STILL_HELD = "forgotten, but files may hold it: another process still reads them, or writes fail"
LOG_KEPT = "the log is kept with all events of the task: forget it exactly, ?exact=true or --exact"


@dataclass(eq=False)
class _Order(Future[Any]):
    """Request to learn, forget, keep predictions or call a function; the future of its outcome."""

    requests: list[LearnRequest] = field(default_factory=list)
    source: str | None = None
    position: str | None = None
    forget: Task | None = None
    exact: bool = False
    pending: list[PendingEvent] = field(default_factory=list)
    predicted_by: ServedModel | None = None  # that made the pending predictions
    function: Callable[[ServedModel], Any] | None = None
    # while it is under way:
    responses: list[LearnResponse] = field(default_factory=list)  # so far
    first: int = 0  # sequence number of the change
    change: Learn | Forget | None = None
    rows: Any = None  # of the events of the change, as they were read
    outcomes: list[LearnResponse] = field(default_factory=list)  # of the change

    def __post_init__(self) -> None:
        super().__init__()

    @property
    def changes(self) -> bool:
        return bool(self.requests) or self.position is not None or self.forget is not None

    @property
    def left(self) -> int:
        """Number of events that are not learned yet."""
        return len(self.requests) - len(self.responses)

    def fail(self, error: Exception) -> None:
        self.change = None
        self.set_exception(error)


def in_thread(run: Callable[[], Any]) -> Generator[float, None, Any]:
    """Return what a function returns in a thread of its own; yields seconds to wait for it."""
    future: Future[Any] = Future()

    def call() -> None:
        try:
            future.set_result(run())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=call, name="romco-files", daemon=True).start()
    while not future.done():
        yield FILE_SECONDS
    return future.result()


class Service:
    """Takes orders from any thread and returns futures of their outcomes.

    ``new`` makes the model of a new folder; ``origin`` is as in :meth:`Store.load`.
    """

    message_body: ClassVar[Any] = LEARN_BODY  # of the messages of a source
    store_type: ClassVar[type[Store]] = Store
    validator_type: ClassVar[type[Any]] = GroupValidator  # checks the requests of a group

    def __init__(
        self, folder: Path, new: Callable[[], Model], settings: Settings, origin: str = ""
    ) -> None:
        self.settings = settings
        self.store = self.store_type(folder, settings)
        try:
            model, sequence, scores = self.store.load(new, origin)
            try:
                self.served = self._serve_model(model, scores, sequence)
            except (ValueError, LookupError, AttributeError) as error:
                raise DamagedError(f"the checkpoint's scores cannot be used: {error}") from error
            self.last_sequence = self.store.last_sequence()
        except BaseException:
            self.store.close()
            raise
        self.counts: Counter[str] = Counter()  # outcomes
        self.started = False  # whether the log was replayed
        self.interrupted = False  # whether to stop before it is
        self.broken = False  # whether only a restart helps
        self.failing = False  # whether writes fail, so that nothing can be learned
        self.unsaved = False  # whether the last checkpoint failed
        self.checkpoint_sequence = sequence
        self.commit_seconds = 0.0  # that the last commit took
        self.positions = self.store.positions()
        self._queue: Queue[_Order] = Queue()  # a SimpleQueue may wait beyond a timeout
        self._unfinished: deque[_Order] = deque()  # requests of which some chunks are learned
        self._gate = threading.Lock()  # held to put something in
        self.queued, self._closing = 0, False  # events that wait to be learned
        self._rate = INITIAL_EVENTS_PER_SECOND
        self._checkpoints: list[Future[int]] = []  # asked for
        self._forgettings: list[Future[Any]] = []  # that wait for a checkpoint,
        self._erasures: list[Future[Any]] = []  # and then until no file holds the task
        self._checkpointing: Iterator[float] | None = None  # see _checkpoint
        self.exact: Any = None  # a romco.forgetting.ExactForgetting, set before the start
        self._wait = TICK_SECONDS  # for the next order
        self._last_checkpoint = self._last_sync = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="romco-writer", daemon=True)

    def _serve_model(self, model: Model, scores: bytes, sequence: int) -> ServedModel:
        """Return the model of a checkpoint with its scores; raises where they are damaged."""
        budget = self.settings.budget
        if budget is not None and getattr(model.labels, "share", None) != budget:
            model.labels = Budget(budget)
        return ServedModel(model, decode_scores(scores or b"{}"), sequence)

    def start(self) -> Self:
        """Replay the log, then learn; neither if it is interrupted."""
        self._replay()
        if self.interrupted:
            return self
        self._thread.start()
        self.started = True
        return self

    def close(self, seconds: float | None = None) -> bool:
        """Finish what waits and write a checkpoint; False if it took longer than ``seconds``."""
        if self.started:
            with self._gate:
                self._closing = True
            self._queue.put(_Order())  # wakes the thread
            self._thread.join(seconds)
        if not self._thread.is_alive():
            self.store.close()
        return not self._thread.is_alive()

    # For any thread

    def learn(
        self, requests: list[LearnRequest], source: str | None = None, position: str | None = None
    ) -> Future[list[LearnResponse]]:
        """Learn events, and store how far a source was read."""
        return self._put(_Order(requests, source, position))

    def forget(self, task: Task, exact: bool = False) -> Future[Any]:
        """Forget a task; RequestError (404) if it is not known.

        Its sequence number follows when no file holds the task: after a checkpoint, and once no
        other process reads the database as it was. Where it is ``exact`` the certificate follows,
        after a replay of the log.
        """
        return self._put(_Order(forget=task, exact=exact))

    def keep(self, pending: list[PendingEvent], model: ServedModel | None = None) -> Future[None]:
        """Keep events until their answers come; ``model`` has predicted them."""
        return self._put(_Order(pending=pending, predicted_by=model))

    def checkpoint(self) -> Future[int]:
        """Write a checkpoint, unless the last has all changes; its sequence number follows."""
        future: Future[int] = Future()
        self.call_in_writer(lambda served: self._checkpoints.append(future))
        return future

    def call_in_writer(self, function: Callable[[ServedModel], Any]) -> Future[Any]:
        """Call a function in the writer thread, between two groups."""
        return self._put(_Order(function=function))

    def _put(self, order: _Order) -> Future[Any]:
        order.set_running_or_notify_cancel()  # from now on it cannot be cancelled
        events = len(order.requests)
        with self._gate:
            if self._closing:
                raise StoppedError("the service is stopping")
            if self.queued + events > max(self.settings.queued_events, events):
                raise BusyError(f"{self.queued:,} events wait already: try again later")
            self.queued += events
            self._queue.put(order)
        return order

    # The thread

    def _run(self) -> None:
        while not self._closing or self._unfinished or not self._queue.empty():
            self._serve(self._next_group())
            try:
                self._maintain()
            except Exception as error:  # a fault of ours
                self._break(error)
        for wait in chain(self._checkpointing or (), self._checkpoint()):
            time.sleep(wait)
        self._attempt(self._answer_erasures)
        for future in self._erasures:
            future.set_exception(StoppedError(STILL_HELD))
        if self.exact is not None:
            self.exact.close()

    def _next_group(self) -> list[_Order]:
        """Return the next orders, which are committed together."""
        group: list[_Order] = []
        events, deadline, wait = 0, 0.0, self._wait
        with suppress(Empty):
            while events < self.settings.group_events:
                if self._unfinished:
                    wait = 0.0
                order = self._queue.get(timeout=wait)
                if not group:
                    deadline = time.monotonic() + self.settings.group_ms / 1000.0
                group.append(order)
                events += len(order.requests)
                wait = max(0.0, deadline - time.monotonic())
        if self._unfinished:
            group.append(self._unfinished.popleft())
        with self._gate:
            self.queued -= sum(order.left for order in group)
        return group

    def _serve(self, group: list[_Order]) -> None:
        """Process a group; whatever happens, everybody gets an answer."""
        failure: Exception | None = None
        try:
            if self.broken:
                raise StoppedError(STOPPED)
            self._commit(group)
            try:
                self._apply(group)
            except Exception as error:
                self._break(error)
                raise StoppedError(STOPPED) from error
        except Exception as error:
            failure = error
            if isinstance(error, StoreError):
                self._write_failed(error)
            elif not isinstance(error, StoppedError):  # nothing was logged
                LOG.exception("requests could not be validated")
        for order in group:
            if order.function is not None:
                try:
                    order.set_result(order.function(self.served))
                except Exception as error:  # of the caller, not of the writer
                    order.set_exception(error)
            elif failure is not None and not order.done():
                order.fail(failure)

    def _commit(self, group: list[_Order]) -> None:
        """Validate the orders and log the changes of those that are valid."""
        changing = any(order.changes for order in group)
        if not changing and not any(order.pending for order in group):
            return
        if self.failing:
            self._recover()
        validator = self.validator_type(self.served, self.settings)
        begin, next_sequence = time.perf_counter(), self.served.sequence + 1
        with self.store.transaction(sync=changing):
            for order in group:
                try:
                    if order.predicted_by not in (None, self.served):  # replaced meanwhile
                        order.pending = self.served.respond(order.pending)[1]
                    if order.pending:
                        self.counts["dropped"] += self.store.put_pending(order.pending)
                    elif order.changes:
                        self._stage(order, validator, next_sequence)
                except RequestError as error:
                    self.counts["refused"] += 1
                    if order.responses:
                        error.reason += f"; {len(order.responses)} events before were learned"
                    order.fail(error)
                if order.change is not None:
                    order.first = next_sequence
                    self.store.append(next_sequence, order.change)
                    next_sequence += order.change.count
            if changing:
                self.store.forget_ids(next_sequence - 1)
        self.commit_seconds = time.perf_counter() - begin

    def _stage(self, order: _Order, validator: GroupValidator, sequence: int) -> None:
        """Prepare the change of an order, or of its next chunk."""
        if order.forget is not None:
            self._stage_forgetting(order, order.forget, validator)
            return
        begin, most = len(order.responses), max(MIN_CHUNK_EVENTS, int(self._rate * CHUNK_SECONDS))
        requests = order.requests[begin : begin + most] if begin else order.requests
        events, outcomes = self._match_requests(requests, begin, sequence)
        places = [k for k, one in enumerate(outcomes, begin) if one.status == "applied"]
        if events:  # all of a request is checked before anything is learned
            order.rows = validator.check(events, places)
        size = most if order.position is None else len(events)
        if order.position is None and self.served.target == "classes":  # new ones take long
            target = self.served.model.engine.target
            numbers, _ = target.read(map(attrgetter("y"), events[:size]))
            beyond = np.flatnonzero(numbers >= len(target.known) + CHUNK_NEW_CLASSES)
            size = int(beyond[0]) if len(beyond) else size
        if size < len(events):
            events, outcomes = events[:size], outcomes[: places[size] - begin]
            order.rows = None  # more than are learned now
        order.outcomes = outcomes
        if events or order.position is not None:
            order.change = Learn(events, order.source, order.position)

    def _stage_forgetting(self, order: _Order, task: Task, validator: GroupValidator) -> None:
        known = validator.knows(task) or self.store.pending_of(task)
        if order.exact and self.exact is None:
            raise RequestError("this service cannot forget exactly", status=409)
        if order.exact:
            self.exact.request(task, known, order)
            return
        if not known:
            raise RequestError.unknown_task(task)
        if self.store.keeps_log:
            raise RequestError(LOG_KEPT, status=409)
        order.change = Forget(task)

    def _match_requests(
        self, requests: Sequence[LearnRequest], begin: int, sequence: int
    ) -> tuple[list[Event], list[LearnResponse]]:
        """Return the events to learn, and the outcome of each request."""
        ids = set(map(attrgetter("id"), requests)) - {None}
        known = self.store.learned(list(ids))
        waiting = self.store.pending(list(ids - known.keys()))
        events: list[Event] = []
        outcomes = []
        for place, request in enumerate(requests, begin):
            if request.id is not None and request.id in known:
                number, answer = known[request.id]
                differs = answer != hash_answer(request.y)
                outcomes.append(LearnResponse("duplicate", number, differs))
                continue
            request = self.served.with_task(request, place)
            event = _join_waiting(request, place, waiting.get(request.id or ""))
            if event is None:
                outcomes.append(LearnResponse("expired", None))
                continue
            number = sequence + len(events)
            if request.id is not None:
                known[request.id] = number, hash_answer(request.y)
            events.append(event)
            outcomes.append(LearnResponse("applied", number))
        return events, outcomes

    def _apply(self, group: list[_Order]) -> None:
        """Apply the logged changes to the model, then resolve the futures of their orders."""
        changing = list(filter(attrgetter("change"), group))
        changes: list[Learn | Forget] = list(map(attrgetter("change"), changing))
        learned = sum(map(len, map(attrgetter("events"), changes)))
        begin = time.thread_time()
        reasons = self.served.apply(changes, list(map(attrgetter("rows"), changing)))
        if learned:
            rate = learned / max(time.thread_time() - begin, 1e-9)
            mean = RATE_DECAY * self._rate + (1 - RATE_DECAY) * rate
            self._rate = min(rate, mean)  # a slower one counts at once
        rejected: list[range] = []
        for order, change, reason in zip(changing, changes, reasons, strict=True):
            if reason is not None:
                rejected.append(range(order.first, order.first + change.count))
                self._attempt(partial(self.store.unlearn, rejected[-1]))
                self.counts["refused"] += 1
                order.fail(RequestError(reason, len(order.responses)))
        for order in group:
            if order.function is None and not order.done():
                self._answer(order, rejected)

    def _answer(self, order: _Order, rejected: list[range]) -> None:
        """Resolve an order that is done; put one back of which chunks are left."""
        if any(one.sequence in numbers for one in order.outcomes for numbers in rejected):
            reason = "the same event, sent before, could not be learned: send it again"
            order.fail(RequestError(reason, 0))
            return
        self.counts.update(one.status for one in order.outcomes)
        order.responses += order.outcomes
        if order.source is not None and order.position is not None:
            self.positions[order.source] = order.position
        order.change, order.rows, order.outcomes = None, None, []
        if order.left:
            self._unfinished.append(order)
            with self._gate:
                self.queued += order.left
        elif order.forget is not None and not order.exact:
            self._forgettings.append(order)
        elif not order.exact:
            order.set_result(order.responses)

    def _replay(self) -> None:
        """Apply the changes of the log that the model does not hold yet."""
        while not self.interrupted and (changes := self.store.changes_after(self.served.sequence)):
            first = self.served.sequence + 1
            for change, reason in zip(changes, self.served.apply(changes), strict=True):
                if reason is not None:
                    self.store.unlearn(range(first, first + change.count))
                first += change.count

    # Failures

    def _attempt(self, step: Callable[[], object]) -> None:
        """Take a step; learning pauses if nothing can be written."""
        try:
            step()
        except StoreError as error:
            self._write_failed(error)

    def _write_failed(self, error: StoreError) -> None:
        if not self.failing:
            LOG.error("learning pauses: %s", error)
        self.failing = True

    def _recover(self) -> None:
        """Learn again if the disk is well; StoreError if it is not.

        After a failure nobody knows what the connection and the log hold.
        """
        self.store.reconnect()
        try:
            self._replay()
        except DamagedError as error:
            raise StoreError(errno.EIO, str(error)) from error
        LOG.warning("learning continues")
        self.failing = False

    def _break(self, error: Exception) -> None:
        """Stop learning after a fault of ours: the log and the model may differ from now on."""
        LOG.error("learning stops", exc_info=error)
        self.broken = True

    @property
    def learns(self) -> bool:
        """True while changes can be learned."""
        return not (self.failing or self.broken)

    # Housekeeping

    def _maintain(self) -> None:
        """Do what is due; what fails is tried again later."""
        self._wait = TICK_SECONDS
        for step in (self._sync, self._go_on, self._answer_erasures):
            self._attempt(step)

    def _sync(self) -> None:
        """Sync, expire, or learn again."""
        now = time.monotonic()
        if now - self._last_sync > SYNC_SECONDS and not self.broken:
            self._last_sync = now
            if self.failing:
                self._recover()
            elif self.settings.durability == "logged":
                self.store.sync()
        if self.learns:
            self.counts["never answered"] += self.store.expire_pending()

    def _go_on(self) -> None:
        """Go on with a checkpoint, or begin one if it is due; else forget exactly."""
        settings, waited = self.settings, time.monotonic() - self._last_checkpoint
        news = self.served.sequence - self.checkpoint_sequence
        due = news >= settings.checkpoint_events and waited > 1.0
        due = due or (news > 0 and waited >= settings.checkpoint_seconds)
        if self._checkpointing is None:
            while self._checkpoints and not news and not self.broken:
                self._checkpoints.pop().set_result(self.checkpoint_sequence)
            if (due and not self.broken) or self._checkpoints or self._forgettings:
                self._checkpointing = self._checkpoint()
        if self._checkpointing is not None:
            self._wait = next(self._checkpointing, TICK_SECONDS)
        elif self.exact is not None and self.learns:
            wait = self.exact.advance()
            if wait is not None:
                self._wait = wait

    def _answer_erasures(self) -> None:
        """Answer who forgot tasks, once no other process reads what was removed."""
        if self._erasures and self.learns and self.store.empty_log():
            for future in self._erasures:
                future.set_result(self.checkpoint_sequence)
            self._erasures = []

    def replace_model(self, served: ServedModel) -> None:
        """Serve another model: a replay of the log has replaced the database."""
        self.served = served
        self.store.reconnect()
        self.checkpoint_sequence = self.store.last_checkpoint()[0]

    def _checkpoint(self) -> Iterator[float]:
        """Write a checkpoint step by step; yields the seconds to wait before the next step.

        The model is copied here and written in another thread. The log holds everything if any
        step fails.
        """
        self._last_checkpoint = time.monotonic()
        asked, self._checkpoints = self._checkpoints, []
        forgettings, self._forgettings = self._forgettings, []
        try:
            if self.broken:
                raise StoppedError(STOPPED)
            sequence, state, scores = self.served.copy()
            save = self.store.save_model
            file = yield from in_thread(lambda: save(state, sequence))
            # A class may have been forgotten with the task.
            if (asked or forgettings) and self.served.target == "classes":
                self.store.forget_labels(self.served.model.classes)
            self.store.put_checkpoint(sequence, file, scores)
            LOG.info("checkpoint at change %d", sequence)
            self.checkpoint_sequence = sequence
            self.unsaved = False
            while self.store.trim_log():
                yield 0.0
        except Exception as error:
            LOG.error("the checkpoint was not finished: %s", error)
            self.unsaved = True
            for future in (*asked, *forgettings):
                future.set_exception(error)
            if isinstance(error, StoreError):
                self._write_failed(error)
        else:
            self._erasures += forgettings
            for future in asked:
                future.set_result(sequence)
        finally:
            self._checkpointing = None


def _join_waiting(request: Any, place: int, waiting: PendingEvent | None) -> Event | None:
    """Return the event of a request, joined with the one that waits; None if none does."""
    if request.task is not None and request.x is not None:
        given = request.task, request.x, request.offset
        same = waiting is not None and (waiting.task, waiting.x, waiting.offset) == given
        made = waiting.prediction if waiting is not None and same else None
        return Event(request.id, request.task, request.x, request.y, made, request.offset)
    if request.id is None or request.task is not None or request.x is not None:
        raise RequestError("give either id and y, or task, x and y", place)
    if waiting is None:
        return None
    offset = waiting.offset if request.offset is None else request.offset
    made = waiting.prediction if offset == waiting.offset else None  # else of another event
    return Event(request.id, waiting.task, waiting.x, request.y, made, offset)
