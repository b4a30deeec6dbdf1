"""Writer: the one thread that changes the model and the store.

Requests that come together form a group: each is validated, all are committed in one transaction,
then applied in order and acknowledged. A request that takes long is learned in chunks, between
which other requests get their turn.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from romco.server.protocol import (
    BusyError,
    Change,
    Event,
    Forget,
    FullError,
    Learn,
    LearnRequest,
    LearnResponse,
    PendingEvent,
    Prediction,
    RequestError,
    Settings,
    StoppedError,
    StoreError,
    Task,
    hash_answer,
    name_key,
)
from romco.server.state import NO_TASK, GroupValidator, ServedModel
from romco.server.store import Store

LOG = logging.getLogger(__name__)
TICK_SECONDS = 0.2  # between looks at what is due
SYNC_SECONDS = 1.0  # where answers do not wait for a sync
CHUNK_SECONDS = 0.1  # that learning one chunk should take
MIN_CHUNK_EVENTS = 16  # a request of no more than these is never split
CHUNK_NEW_CLASSES = 2  # a new class costs far more than an event
FIRST_RATE = 2_000.0  # events per second, before it is measured
RATE_DECAY = 0.5
STOPPED = "learning has stopped: restart the service"


@dataclass
class _Order:
    """Request to the writer, with its state while it is under way."""

    future: Future[Any]
    lessons: list[LearnRequest] = field(default_factory=list)
    source: str | None = None
    position: str | None = None
    forget: Task | None = None
    pending: list[PendingEvent] = field(default_factory=list)
    look: Callable[[ServedModel], Any] | None = None
    # while it is under way:
    done: list[LearnResponse] = field(default_factory=list)
    change: Change | None = None
    outcomes: list[LearnResponse] = field(default_factory=list)

    @property
    def changes(self) -> bool:
        """True if it changes the model."""
        return bool(self.lessons) or self.position is not None or self.forget is not None

    def fail(self, error: Exception) -> None:
        """Resolve the future with an error."""
        self.change = None
        self.future.set_exception(error)


class Writer:
    """Takes orders from any thread and returns futures of their outcomes."""

    def __init__(self, served: ServedModel, store: Store, settings: Settings) -> None:
        self.served, self.store, self.settings = served, store, settings
        self.counts: Counter[str] = Counter()  # outcomes
        self.trouble: str | None = None  # why the last write or checkpoint failed
        self.broken = False  # whether only a restart helps
        self.failing = False  # whether writes fail, so that nothing can be learned
        self.checkpoint_sequence = served.sequence
        self.commit_seconds = 0.0  # that the last commit took
        self.positions = store.positions()
        self._queue: SimpleQueue[_Order | None] = SimpleQueue()
        self._unfinished: deque[_Order] = deque()  # requests of which some chunks are learned
        self._gate = threading.Lock()  # held to put something in
        self.queued, self._closing = 0, False  # events that wait to be learned
        self._rate = FIRST_RATE
        self._checkpoints: list[Future[int]] = []  # asked for
        self._trimmed: list[Future[int]] | None = None  # to resolve when the log is trimmed
        self._saving: threading.Thread | None = None  # of a checkpoint
        self._last_checkpoint = self._last_sync = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="romco-writer", daemon=True)
        self._thread.start()

    # For any thread

    def learn(
        self, lessons: list[LearnRequest], source: str | None = None, position: str | None = None
    ) -> Future[list[LearnResponse]]:
        """Learn events, and store how far a source was read."""
        return self._put(_Order(Future(), lessons, source, position))

    def forget(self, task: Task) -> Future[int]:
        """Forget a task; RequestError (404) if it is not known."""
        return self._put(_Order(Future(), forget=task))

    def keep(self, pending: list[PendingEvent]) -> Future[None]:
        """Keep predicted events until their answers come."""
        return self._put(_Order(Future(), pending=pending))

    def checkpoint(self) -> Future[int]:
        """Write a checkpoint; its sequence number follows when the log is trimmed."""
        future: Future[int] = Future()
        self.look(lambda served: self._checkpoints.append(future))
        return future

    def look(self, function: Callable[[ServedModel], Any]) -> Future[Any]:
        """Call a function between two groups."""
        return self._put(_Order(Future(), look=function))

    def close(self, seconds: float | None = None) -> bool:
        """Finish what waits and write a checkpoint; False if it took longer than ``seconds``."""
        with self._gate:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _put(self, order: _Order) -> Future[Any]:
        order.future.set_running_or_notify_cancel()  # from now on it cannot be cancelled
        events = len(order.lessons)
        with self._gate:
            if self._closing:
                raise StoppedError("the service is stopping")
            if self.queued + events > max(self.settings.queued_events, events):
                raise BusyError(f"{self.queued:,} events wait already: try again later")
            self.queued += events
            self._queue.put(order)
        return order.future

    # The thread

    def _run(self) -> None:
        running = True
        while running or self._unfinished:
            group, running = self._next_group(running)
            if group:
                self._serve(group)
            self._maintain()
        self._finish()

    def _next_group(self, running: bool) -> tuple[list[_Order], bool]:
        """Return the next orders that are committed together, and whether more can come."""
        group: list[_Order] = []
        events, deadline = 0, 0.0
        wait = 0.0 if self._unfinished or self._trimmed is not None else TICK_SECONDS
        while running and events < self.settings.group_events:
            try:
                order = self._queue.get(timeout=wait) if wait > 0.0 else self._queue.get_nowait()
            except Empty:
                break
            if order is None:
                running = False
                break
            if not group:
                deadline = time.monotonic() + self.settings.group_ms / 1000.0
            group.append(order)
            events += len(order.lessons)
            wait = 0.0 if self._unfinished else max(0.0, deadline - time.monotonic())
        with self._gate:
            self.queued -= events
        if self._unfinished:
            group.append(self._unfinished.popleft())
        return group, running

    def _serve(self, group: list[_Order]) -> None:
        """Process a group; whatever happens, everybody gets an answer."""
        failure: Exception | None = None
        try:
            if self.broken:
                raise StoppedError(STOPPED)
            self._commit(group)
            try:
                self._apply(group)
            except Exception as error:  # the log and the model may differ from now on
                LOG.exception("learning stops")
                self.broken, self.trouble = True, repr(error)
                raise StoppedError(STOPPED) from error
        except (StoreError, StoppedError) as error:
            failure = error
            if isinstance(error, StoreError):
                self._write_failed(error)
        except Exception as error:  # nothing was logged
            LOG.exception("requests could not be validated")
            failure = error
        for order in group:
            if order.look is not None:
                try:
                    order.future.set_result(order.look(self.served))
                except Exception as error:  # of the caller, not of the writer
                    order.future.set_exception(error)
            elif failure is not None and not order.future.done():
                order.fail(failure)

    def _commit(self, group: list[_Order]) -> None:
        """Validate the orders and log the changes of those that are valid."""
        changing = any(order.changes for order in group)
        if not changing and not any(order.pending for order in group):
            return
        validator = GroupValidator(self.served, self.settings)
        begin, next_sequence = time.perf_counter(), self.served.sequence + 1
        with self.store.transaction(sync=changing):
            for order in group:
                try:
                    if order.pending:
                        self.counts["dropped"] += self.store.put_pending(order.pending)
                    elif order.changes:
                        self._stage(order, validator, next_sequence)
                except RequestError as error:
                    self.counts["refused"] += 1
                    if order.done:
                        error.reason += f"; {len(order.done)} events before were learned"
                    order.fail(error)
                if order.change is not None:
                    self.store.append(next_sequence, order.change)
                    next_sequence += order.change.count
            if changing:
                self.store.forget_ids(next_sequence - 1)
        self.commit_seconds = time.perf_counter() - begin
        if changing or self.failing:
            self._write_succeeded()

    def _stage(self, order: _Order, validator: GroupValidator, sequence: int) -> None:
        """Prepare the change of an order, or of its next chunk."""
        if order.forget is not None:
            if not validator.knows(order.forget):
                raise RequestError(NO_TASK, status=404)
            order.change = Forget(order.forget)
            return
        begin, most = len(order.done), max(MIN_CHUNK_EVENTS, int(self._rate * CHUNK_SECONDS))
        lessons = order.lessons[begin : begin + most] if begin else order.lessons
        events, outcomes = self._events(lessons, begin, sequence)
        places = [k for k, one in enumerate(outcomes, begin) if one.status == "applied"]
        validator.check(events, places)  # of a request all of it, before anything is learned
        size = self._chunk(events, most) if order.position is None else len(events)
        if size < len(events):
            events, outcomes = events[:size], outcomes[: places[size] - begin]
        order.outcomes = outcomes
        if events or order.position is not None:
            order.change = Learn(events, order.source, order.position)

    def _chunk(self, events: list[Event], most: int) -> int:
        """Return how many events to learn at once, at least one: new classes take long."""
        if self.served.target == "classes":
            known = {name_key(label) for label in self.served.model.classes}
            new: set[Any] = set()
            for k, event in enumerate(events[:most]):
                label = name_key(event.y)
                if label not in known:
                    new.add(label)
                    if len(new) > CHUNK_NEW_CLASSES:
                        return k
        return most

    def _events(
        self, lessons: Sequence[LearnRequest], begin: int, sequence: int
    ) -> tuple[list[Event], list[LearnResponse]]:
        """Return the events to learn, and the outcome of each lesson."""
        ids = list({lesson.id for lesson in lessons if lesson.id is not None})
        known = self.store.learned(ids)
        waiting = self.store.pending([identity for identity in ids if identity not in known])
        events: list[Event] = []
        outcomes = []
        for place, lesson in enumerate(lessons, begin):
            if lesson.id is not None and lesson.id in known:
                number, answer = known[lesson.id]
                differs = answer != hash_answer(lesson.y)
                outcomes.append(LearnResponse("duplicate", number, differs))
                continue
            event = _whole(lesson, place, waiting.get(lesson.id or ""))
            if event is None:
                outcomes.append(LearnResponse("expired", None))
                continue
            number = sequence + len(events)
            if lesson.id is not None:
                known[lesson.id] = number, hash_answer(lesson.y)
            events.append(event)
            outcomes.append(LearnResponse("applied", number))
        return events, outcomes

    def _apply(self, group: list[_Order]) -> None:
        """Apply what was logged, and answer."""
        changing = [order for order in group if order.change is not None]
        begin, before = time.thread_time(), self.served.model.events
        applied = self.served.apply([order.change for order in changing if order.change])
        learned = self.served.model.events - before
        if learned:
            rate = learned / max(time.thread_time() - begin, 1e-9)
            slower = rate < self._rate  # a slower one counts at once
            self._rate = rate if slower else RATE_DECAY * self._rate + (1 - RATE_DECAY) * rate
        for order, (numbers, reason) in zip(changing, applied, strict=True):
            if reason is not None:
                try:
                    self.store.unlearn(numbers)
                except StoreError as error:
                    self._write_failed(error)
                self.counts["refused"] += 1
                order.fail(RequestError(reason, 0))
        rejected = [numbers for numbers, reason in applied if reason is not None]
        for order in group:
            if order.look is None and not order.future.done():
                self._answer(order, rejected)

    def _answer(self, order: _Order, rejected: list[range]) -> None:
        """Resolve an order that is done; put one back of which chunks are left."""
        if any(one.sequence in numbers for one in order.outcomes for numbers in rejected):
            reason = "the same event, sent before, could not be learned: send it again"
            order.fail(RequestError(reason, 0))
            return
        self.counts.update(one.status for one in order.outcomes)
        order.done += order.outcomes
        if order.source is not None and order.position is not None:
            self.positions[order.source] = order.position
        order.change, order.outcomes = None, []
        if len(order.done) < len(order.lessons):
            self._unfinished.append(order)
        elif order.forget is not None:
            order.future.set_result(self.served.sequence)
        else:
            order.future.set_result(order.done)

    # Failures

    def _write_failed(self, error: StoreError) -> None:
        if not self.failing:
            LOG.error("learning pauses: %s", error)
        self.failing, self.trouble = True, str(error)
        if isinstance(error, FullError):
            return
        try:  # after an I/O error nobody knows what the connection holds
            self.store.reconnect()
            replay(self.served, self.store)
        except (StoreError, ValueError) as worse:
            self.trouble = str(worse)

    def _write_succeeded(self) -> None:
        if self.failing:
            LOG.warning("learning continues")
            self.failing, self.trouble = False, None

    # Housekeeping

    def _maintain(self) -> None:
        """Sync, expire, trim, checkpoint when it is time; what fails is tried again later."""
        now = time.monotonic()
        try:
            if now - self._last_sync > SYNC_SECONDS:
                self._last_sync = now
                if self.failing:
                    self.store.probe()
                    self._write_succeeded()
                elif self.settings.durability == "logged":
                    self.store.sync()
            self.counts["never answered"] += self.store.expire_pending()
            self._trim()
        except StoreError as error:
            self._write_failed(error)
        news, waited = self.served.sequence - self.checkpoint_sequence, now - self._last_checkpoint
        many = news >= self.settings.checkpoint_events and waited > 1.0
        due = self._checkpoints or many or (news and waited >= self.settings.checkpoint_seconds)
        if due and self._saving is None and self._trimmed is None and not self.broken:
            self._begin_checkpoint()

    def _trim(self) -> None:
        """Remove a part of the log that the checkpoint holds."""
        if self._trimmed is not None and not self.store.trim_log():
            for future in self._trimmed:
                future.set_result(self.checkpoint_sequence)
            self._trimmed = None

    def _begin_checkpoint(self) -> None:
        """Copy the model here, and write it in another thread."""
        self._last_checkpoint = time.monotonic()
        asked, self._checkpoints = self._checkpoints, []
        try:
            sequence, state, scores = self.served.copy()
        except Exception as error:  # out of memory, for example: the log holds everything
            self._checkpoint_failed(error, asked)
            return

        def write() -> None:
            failure: Exception | None = None
            try:
                self.store.save_model(state, sequence)
            except Exception as error:
                failure = error
            end = partial(self._end_checkpoint, sequence, scores, asked, failure)
            self._queue.put(_Order(Future(), look=end))

        self._saving = threading.Thread(target=write, name="romco-checkpoint", daemon=True)
        self._saving.start()

    def _end_checkpoint(
        self,
        sequence: int,
        scores: bytes,
        asked: list[Future[int]],
        failure: Exception | None,
        served: ServedModel,
    ) -> None:
        self._saving = None
        try:
            if failure is not None:
                raise failure
            self.store.put_checkpoint(sequence, scores)
        except Exception as error:
            self._checkpoint_failed(error, asked)
            return
        LOG.info("checkpoint at change %d", sequence)
        self.checkpoint_sequence, self._trimmed = sequence, asked
        if not self.failing:
            self.trouble = None

    def _checkpoint_failed(self, error: Exception, asked: list[Future[int]]) -> None:
        self.trouble = f"no checkpoint: {error}"
        LOG.error("no checkpoint: %s", error)
        for future in asked:
            future.set_exception(error)

    def _finish(self) -> None:
        """Write the last checkpoint; without it the log still holds everything."""
        self._wait_for_checkpoint()
        if not self.broken:
            self._begin_checkpoint()
            self._wait_for_checkpoint()
        try:
            while self._trimmed is not None:
                self._trim()
        except StoreError as error:
            self._write_failed(error)

    def _wait_for_checkpoint(self) -> None:
        while self._saving is not None:
            order = self._queue.get()
            if order is not None and order.look is not None:
                order.look(self.served)


def replay(served: ServedModel, store: Store) -> None:
    """Apply the changes of the log that the model does not hold yet."""
    while changes := store.changes_after(served.sequence):
        for numbers, reason in served.apply(changes):
            if reason is not None:
                store.unlearn(numbers)


def _whole(lesson: LearnRequest, place: int, waiting: PendingEvent | None) -> Event | None:
    """Return the event of a lesson, joined with the one that waits; None if none does."""
    made = None if waiting is None else waiting.prediction
    if lesson.task is not None and lesson.x is not None:
        if waiting is not None and (waiting.task, waiting.x) != (lesson.task, lesson.x):
            made = Prediction(made.label, made.probability, made.margin) if made else None
        return Event(lesson.id, lesson.task, lesson.x, lesson.y, made, lesson.offset)
    if lesson.id is None or lesson.task is not None or lesson.x is not None:
        raise RequestError("give either id and y, or task, x and y", place)
    if waiting is None:
        return None
    offset = waiting.offset if lesson.offset is None else lesson.offset
    return Event(lesson.id, waiting.task, waiting.x, lesson.y, made, offset)
