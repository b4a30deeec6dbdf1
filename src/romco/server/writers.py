"""The writer: the one thread that changes the model.

Each group of requests is read, logged, synced, applied in order, and then acknowledged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, final

from romco.server import changes, checkpoints
from romco.server.answers import Refused
from romco.server.changes import Task
from romco.server.drafts import Draft, Lesson, Outcome, Read
from romco.server.journals import Broken, Full, Journal
from romco.server.live import Live
from romco.server.settings import Settings

LOG = logging.getLogger(__name__)
TICK = 0.2  # seconds between looks at what is due
SYNC_EVERY = 1.0  # seconds, where answers do not wait for it
UNWRITTEN = 1 << 20  # bytes


class Busy(RuntimeError):  # noqa: N818
    """More events wait than the service is set to hold."""


class Stopped(RuntimeError):  # noqa: N818
    """The service is stopping, or its log is broken; nothing was learned."""


@dataclass(frozen=True)
class _Order:
    """Something to be done in its turn; ``read`` is None for what is not logged."""

    future: Future[Any]
    events: int
    read: Callable[[Draft], Read] | None = None
    look: Callable[[Live], Any] | None = None


@final
class Writer:
    """Takes requests from any thread and gives futures of their outcomes."""

    def __init__(self, live: Live, journal: Journal, settings: Settings) -> None:
        self.live, self.journal, self.settings = live, journal, settings
        self.counts: Counter[str] = Counter()
        self.trouble: str | None = None  # why the last checkpoint or write failed
        self.broken = False
        self.checkpoint_sequence = live.sequence
        self.sync_seconds = 0.0  # that the last sync took
        self.settle: Callable[[], None] = lambda: None  # called before each group
        self._queue: SimpleQueue[_Order | None] = SimpleQueue()
        self._gate = threading.Lock()  # held to put something in
        self._queued = 0
        self._closing = False
        self._wanted: list[Future[int]] = []  # checkpoints asked for
        self._checkpointing: threading.Thread | None = None
        self._last_checkpoint = self._last_sync = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="romco-writer", daemon=True)
        self._thread.start()

    # For any thread

    def learn(
        self, lessons: list[Lesson], source: str | None = None, position: str | None = None
    ) -> Future[list[Outcome]]:
        """Learn lessons; all or none. ``position`` says how far the stream ``source`` was read."""
        return self._put(len(lessons), read=lambda draft: draft.learn(lessons, source, position))

    def forget(self, task: Task) -> Future[list[Outcome]]:
        """Forget a task."""
        return self._put(1, read=lambda draft: draft.forget(task))

    def checkpoint(self) -> Future[int]:
        """Write a checkpoint; gives its sequence number when it is on the disk."""
        future: Future[int] = Future()
        self._put(0, look=lambda live: self._wanted.append(future))
        return future

    def look(self, at: Callable[[Live], Any]) -> Future[Any]:
        """What a function says of everything between two groups."""
        return self._put(0, look=at)

    @property
    def queued(self) -> int:
        """Events that wait."""
        return self._queued

    def close(self, seconds: float | None = None) -> bool:
        """Do what waits, write a checkpoint, stop; False if that took longer than ``seconds``."""
        with self._gate:
            if not self._closing:
                self._closing = True
                self._queue.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _put(self, events: int, **what: Any) -> Future[Any]:
        order = _Order(Future(), events, **what)
        order.future.set_running_or_notify_cancel()  # what was put can no longer be cancelled
        with self._gate:
            if self._closing:
                raise Stopped("the service is stopping")
            if self._queued + events > max(self.settings.limits.queue, events):
                raise Busy(f"{self._queued:,} events wait already: try again later")
            self._queued += events
            self._queue.put(order)
        return order.future

    # The thread

    def _run(self) -> None:
        going = True
        while going:
            group, going = self._gather()
            if group:
                with self._gate:
                    self._queued -= sum(order.events for order in group)
                self._serve(group)
            self._keep_house()
        self._finish()

    def _gather(self) -> tuple[list[_Order], bool]:
        """The next orders, as many as are synced together; and whether more can come."""
        group: list[_Order] = []
        events, wait = 0, TICK
        deadline = 0.0
        while events < self.settings.group_events:
            try:
                order = self._queue.get(timeout=wait) if wait > 0.0 else self._queue.get_nowait()
            except Empty:
                return group, True
            if order is None:
                return group, False
            if not group:
                deadline = time.monotonic() + self.settings.group_ms / 1000.0
            group.append(order)
            events += order.events
            wait = max(0.0, deadline - time.monotonic())
        return group, True

    def _serve(self, group: list[_Order]) -> None:
        """Whatever happens, everybody gets an answer."""
        self.settle()
        try:
            self._process(group)
        except Exception as error:
            LOG.exception("learning stops")
            self.trouble, self.broken = repr(error), True
            for order in group:
                if not order.future.done():
                    order.future.set_exception(Stopped("learning has stopped: see the log"))

    def _process(self, group: list[_Order]) -> None:
        draft = Draft(self.live, self.settings.limits, time.time())
        accepted: list[tuple[_Order, Read]] = []
        for order in group:
            if order.read is not None:
                try:
                    accepted.append((order, order.read(draft)))
                except (Refused, KeyError) as error:
                    self.counts["refused"] += 1
                    order.future.set_exception(error)
        try:
            self._log([read.change for _, read in accepted if read.change is not None], draft)
        except (Full, Broken, Stopped) as error:
            self.trouble = str(error)
            for order, _ in accepted:
                order.future.set_exception(error)
        else:
            self._apply(accepted)
        for order in group:
            if order.look is not None:
                _settle(order.future, order.look, self.live)

    def _log(self, some: list[changes.Change], draft: Draft) -> None:
        """Log the changes, as durably as is set, before any is applied."""
        if self.broken:
            raise Stopped(f"the log is broken ({self.trouble}): start the service again")
        if not some:
            return
        first, payload = self.live.sequence + 1, changes.encode(some)
        durable = self.settings.durability == "durable"
        try:
            if self.journal.waiting > UNWRITTEN:
                self.journal.write()
            write = self.settings.durability != "none"
            self.journal.append(first, draft.next - first, payload, write)
            if durable:
                self._sync(undo=first)
        except Broken:
            self.broken = True
            raise

    def _sync(self, undo: int | None = None) -> None:
        begin = time.perf_counter()
        self.journal.sync(undo)
        self.sync_seconds = time.perf_counter() - begin
        self._last_sync = time.monotonic()

    def _apply(self, accepted: list[tuple[_Order, Read]]) -> None:
        """Apply the changes of a group, and tell everybody what became of theirs."""
        next_number = self.live.sequence + 1
        changed = [read.change for _, read in accepted if read.change is not None]
        troubles = iter(self.live.apply(changed))
        refused: list[range] = []  # numbers of changes that could not be applied
        for order, read in accepted:
            trouble = None
            if read.change is not None:
                numbers = range(next_number, next_number + read.change.count)
                trouble, next_number = next(troubles), numbers.stop
                if trouble is not None:
                    refused.append(numbers)
            if trouble is None and any(
                o.sequence in some for o in read.outcomes for some in refused
            ):
                trouble = "the same event, sent before, could not be learned: send it again"
            self._tell_outcome(order, read, trouble)

    def _tell_outcome(self, order: _Order, read: Read, trouble: str | None) -> None:
        if trouble is not None:
            self.counts["refused"] += 1
            order.future.set_exception(Refused(trouble, 0))
            return
        for outcome in read.outcomes:
            self.counts[outcome.status] += 1
        order.future.set_result(read.outcomes)

    def _keep_house(self) -> None:
        """Sync, rotate and checkpoint when it is time; what fails is tried again later."""
        now = time.monotonic()
        try:
            if self.journal.unsynced and now - self._last_sync > SYNC_EVERY:
                self._sync()
            if self.journal.large:
                self.journal.rotate()
        except Full as error:
            self.trouble = str(error)
        except OSError as error:
            self.trouble, self.broken = str(error), True
        self.live.pending.sweep(time.time())
        if (self._wanted or self._is_due(now)) and not self._is_writing():
            self._begin_checkpoint(now)

    def _is_due(self, now: float) -> bool:
        """Whether enough was learned since the last checkpoint, or anything long ago."""
        news = self.live.sequence - self.checkpoint_sequence
        waited = now - self._last_checkpoint
        return (news >= self.settings.checkpoint_events and waited > 1.0) or (
            news > 0 and waited >= self.settings.checkpoint_seconds
        )

    def _is_writing(self) -> bool:
        return self._checkpointing is not None and self._checkpointing.is_alive()

    def _begin_checkpoint(self, now: float) -> None:
        """Copy everything here, and write it in another thread."""
        self._last_checkpoint = now
        asked, self._wanted = self._wanted, []
        try:
            self.journal.rotate()
            taken = checkpoints.snapshot(self.live)
        except Exception as error:  # want of memory, say: the log still holds everything
            self._tell(asked, error)
            return
        self._checkpointing = threading.Thread(
            target=self._write_checkpoint, args=(taken, asked), name="romco-checkpoint", daemon=True
        )
        self._checkpointing.start()

    def _write_checkpoint(self, taken: checkpoints.Snapshot, asked: list[Future[int]]) -> None:
        folder = self.journal.folder
        try:
            checkpoints.write(folder, taken)
            checkpoints.tidy(folder)
            self.journal.drop(taken.sequence)
            self.live.pending.drop(taken.pending)
        except Exception as error:  # whoever waits for it must hear of it
            self._tell(asked, error)
            return
        self.checkpoint_sequence, self.trouble = taken.sequence, None
        for future in asked:
            future.set_result(taken.sequence)

    def _tell(self, asked: list[Future[int]], error: Exception) -> None:
        self.trouble = f"no checkpoint: {error}"
        for future in asked:
            future.set_exception(error)

    def _finish(self) -> None:
        """The last checkpoint; without it the log still holds everything."""
        if self._checkpointing is not None:
            self._checkpointing.join()
        if not self.broken:
            self._begin_checkpoint(time.monotonic())
            if self._checkpointing is not None:
                self._checkpointing.join()
            self.journal.close()
        self.live.pending.close()


def _settle(future: Future[Any], function: Callable[[Live], Any], live: Live) -> None:
    try:
        future.set_result(function(live))
    except Exception as error:  # of the one who asked, not of the writer
        future.set_exception(error)
