"""A model in shards: the methods of ``Model``, with tasks spread over several learners."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from romco.io.durable import Closable
from romco.io.modelfile import load_state, refusing, save_state
from romco.learners.auto import DRIFTS
from romco.learners.classes import auto_members
from romco.learners.merging import (
    InPlaceMerge,
    Merged,
    Period,
    ScaleNumbers,
    apply_merged,
    merge,
    merge_scales,
)
from romco.model import Features, Model, Scale
from romco.model.lock import Locks
from romco.model.names import Id
from romco.model.rows import (
    Batch,
    Rows,
    read_labelled,
    read_unlabelled,
    read_weights,
)
from romco.model.target import Predictions, Target
from romco.model.transaction import join_predictions, learn_in_turn
from romco.parameters import choice, whole
from romco.shards.checkpoint import (
    SECTION,
    Checkpoint,
    ShardsState,
    check_section,
    check_settings,
    from_model_state,
    merge_histories,
    schedule_of,
    split_history,
    to_model_state,
)
from romco.shards.engines import Arguments, Engine, Method, Threads
from romco.shards.reader import EventFiles, FilePosition, TaskCodes
from romco.shards.schedule import MAX_EVENTS_PER_SHARD, Schedule, StreamPosition, choose_threads
from romco.shards.shard import (
    HistoryState,
    Shard,
    ShardUpdate,
    SharedBatch,
    count_entries,
    scale_numbers,
)
from romco.typing import Floats

CHUNK_EVENTS = 2000  # per shard, learned before other threads may predict
SAVE_TIME_RATIO = 20.0  # learning takes at least so many times as long as saving
MIN_PARALLEL_EVENTS = 16  # fewer are learned before another thread has woken up


class Coordinator:
    """Leads shards from barrier to barrier: the engine, the shared part, the position."""

    def __init__(
        self,
        schedule: Schedule,
        state: ShardsState,
        engine: str,
        address: str | None = None,
        checkpoint: Checkpoint | None = None,
        checkpoint_every: int = 10,
        choose: Callable[[], int] | None = None,
    ) -> None:
        """Start the shards; ``choose`` returns the number of them after the first events."""
        self.schedule, self.front = schedule, state.front
        self.merge_seconds = 0.0
        self.reading: tuple[EventFiles, FilePosition] | None = None  # while shards read files
        self._merge: InPlaceMerge | None = None
        self._arrived: list[Any] | None = None  # updates or periods, returned with other answers
        self._barriers, self._checkpoint, self._next_save = 0, checkpoint, 0.0
        self._checkpoint_every = whole("checkpoint_every", checkpoint_every)
        self.engine = _make_engine(engine, state, address)
        at = state.position
        self.events, self.place, self.next, self.notes = at.events, at.place, at.next, at.notes
        if state.updates is not None:
            self.engine.call_each(Shard.resume, [(update,) for update in state.updates])
        self._choose = choose

    @property
    def n(self) -> int:
        """Number of shards at work."""
        return self.engine.n

    @property
    def alone(self) -> bool:
        """True while one shard learns the first events."""
        return self.n == 1 and (self._choose is not None or self.schedule.n > 1)

    def run(self, method: Method, arguments: Arguments, places: int) -> list[Any]:
        """Return the answers of the shards to a call that passes ``places``.

        Before a barrier they also return their updates, in the same message.
        """
        self._arrived = None
        if self.engine.local_shards is not None and places < MIN_PARALLEL_EVENTS:
            alone: list[Any] = [None] * self.n
            for k, own in enumerate(arguments):
                if own is not None:
                    alone[k] = self.engine.call_one(k, method, *own)
            return alone
        calls = [(method, arguments)]
        if self.n > 1 and self.place + places == self.next:
            update = Shard.update if self.engine.local_shards is None else Shard.period
            calls.append((update, [()] * self.n))
        answers = self.engine.call(*calls)
        if len(calls) > 1:
            self._arrived = [own[1] for own in answers]
        return [own[0] for own in answers]

    def advance(self, places: int, learned: int) -> None:
        """Pass places, all before the next barrier or up to it."""
        self.place += places
        self.events += learned
        if self.place == self.next:
            self._barrier()

    def forget(self, owner: int, task: Any) -> None:
        """Forget a task of a shard; what is subtracted from the shared part is so in all shards.

        KeyError if it is unknown.
        """
        self.engine.call_one(owner, Shard.check_known, task)
        self._merge_early()
        self.engine.call_one(owner, Shard.forget, task)
        if self.n > 1:
            update: ShardUpdate = self.engine.call_one(owner, Shard.update)
            merged = Merged(update.change.rows, update.change.values)
            apply_merged(self.front.engine.learner, merged)
            self.engine.post(Shard.apply, merged, update.scale, self.events, update.width)

    def make_classes(self, n: int) -> None:
        """Make room for n classes in all shards, from the next event on."""
        self._merge_early()  # new classes begin by how many events there were
        front = self.front.engine
        front.body = front.body.grown(0, 0, n)
        self.engine.post(Shard.make_classes, n)

    def _spread(self) -> None:
        """Spread the tasks of the only shard over all."""
        if self._choose is not None:
            self.schedule = replace(self.schedule, n=self._choose())
            self._choose = None
        if self.schedule.n == 1:
            return
        state = from_model_state(self.state(), self.schedule)
        self.engine.call_all(Shard.close)
        self.engine.start(state.starts)
        front, other = self.front.engine, state.front.engine
        front.make_room(other.learner.n_features)
        front.learner.load(other.learner.arrays())
        front.adopt(other.scale, state.front.events)
        if self.reading is not None:
            self.open_files(*self.reading)

    def state(self) -> dict[str, Any]:
        """Return the state of one model of all tasks, from which shards can resume, too."""
        empty = [()] * self.n
        self._collect_history()
        width = self.front.features.width  # perhaps with names of later rows
        self.front.engine.make_room(width)
        self.engine.call_all(Shard.widen, width)
        answers = self.engine.call((Shard.state, empty), (Shard.update, empty))
        states, updates = zip(*answers, strict=True)
        position = StreamPosition(self.events, self.place, self.next, self.notes)
        return to_model_state(self.front, self.schedule, position, states, updates)

    def save(self) -> None:
        """Save all shards to their checkpoint; only at a barrier."""
        assert self._checkpoint is not None
        began = time.perf_counter()
        state = self.state()
        self._checkpoint.save(state)
        now = time.perf_counter()
        self._next_save = now + SAVE_TIME_RATIO * (now - began)
        if self.engine.local_shards is None:  # a lost shard starts from here
            again = self._openings(self._collect_history())
            self.engine.saved(from_model_state(state, self.schedule).starts, Shard.open, again)

    def open_files(self, files: EventFiles, position: FilePosition) -> None:
        """Let the shards read files from a position on; each gets the history of its tasks."""
        front = self.front.engine
        parts: Sequence[HistoryState | None] = [None] * self.n
        if front.history is not None:
            front.history = front.history.with_classes(len(front.target.known))
            parts = split_history(front.history, self.n)
        self.reading = files, position
        self.engine.call_each(Shard.open, self._openings(parts))

    def _openings(self, parts: Sequence[HistoryState | None]) -> Arguments:
        """Return the arguments of ``Shard.open``, with the history of each shard."""
        if self.reading is None:
            return []
        files, position = self.reading
        return [(files, k, position, part) for k, part in enumerate(parts)]

    def close_files(self) -> None:
        """Note that the shards read no more; the front keeps the history again."""
        self._collect_history()
        self.reading = None

    def _collect_history(self) -> Sequence[HistoryState | None]:
        """Return the history of each shard that reads files; the front gets all of it."""
        past = self.front.engine.history
        if past is None or self.reading is None:
            return [None] * self.n
        parts: list[HistoryState] = self.engine.call_all(Shard.history)
        kernel = past.kernel
        self.front.engine.history = merge_histories(parts, kernel.limit, kernel.numeric)
        return parts

    def close(self) -> None:
        """End the shards, and release their checkpoint."""
        self.engine.close()
        if self._checkpoint is not None:
            self._checkpoint.close()

    def _barrier(self) -> None:
        if self.alone and self.place >= self.schedule.first:
            self._spread()
        elif self.n > 1:
            self._merge_changes()
        self.next = self.schedule.after(self.place)
        self._barriers += 1
        due = self._checkpoint is not None and self._barriers % self._checkpoint_every == 0
        if due and time.perf_counter() >= self._next_save:
            self.save()

    def _merge_early(self) -> None:
        """Merge before a barrier, so that all shards have the same shared part."""
        if self.n > 1:
            self._arrived = None
            self._merge_changes()

    def _merge_changes(self) -> None:
        """Merge the changes of the shards into all of them."""
        began = time.perf_counter()
        if self.engine.local_shards is None:
            rows = self._merge_remote()
        else:
            rows = self._merge_local(self.engine.local_shards)
        self._settle(rows)
        self.merge_seconds += time.perf_counter() - began

    def _merge_remote(self) -> NDArray[np.int32]:
        updates: list[ShardUpdate] = self._arrived or self.engine.call_all(Shard.update)
        width = self._widen(one.width for one in updates)
        changes = [one.change for one in updates]
        merged = merge(self.front.engine.learner, changes, self.engine.map_ranges)
        scale = self._merge_scale([one.scale for one in updates], changes)
        self.engine.post(Shard.apply, merged, scale, self.events, width)
        return merged.rows

    def _merge_local(self, shards: Sequence[Shard]) -> NDArray[np.int32]:
        """Merge in place: only small arrays are copied; return the changed rows."""
        width = self._widen(shard.model.engine.learner.n_features for shard in shards)
        for shard in shards:
            shard.widen(width)
        periods: list[Period] = self._arrived or [shard.period() for shard in shards]
        with ExitStack() as rest:
            learners = [rest.enter_context(one.model.engine.at_rest()) for one in shards]
            common = self.front.engine.learner
            if self._merge is None or not self._merge.is_current(common, learners):
                self._merge = InPlaceMerge(common, learners)
            rows = self._merge.run(periods, self.engine.map_ranges)
        scale = self._merge_scale([one.scale for one in shards], periods)
        for shard in shards:
            shard.begin_period(scale, self.events)
        return rows

    def _widen(self, widths: Iterable[int]) -> int:
        """Give the shared part as much room for features as any shard has; return it."""
        self.front.engine.make_room(max(self.front.features.width, *widths))
        return self.front.engine.learner.n_features

    def _merge_scale(
        self, parts: Sequence[ScaleNumbers], periods: Sequence[Period]
    ) -> ScaleNumbers:
        events = [one.events for one in periods]
        scale = merge_scales(scale_numbers(self.front.engine.scale), parts, events)
        self.front.engine.adopt(Scale(*scale), self.events)
        return scale

    def _settle(self, rows: NDArray[np.int32]) -> None:
        """Decide what is left to barriers; recompute subspaces that are due."""
        common = self.front.engine.learner
        if common.settle_after_merge(rows):
            self.engine.post(Shard.settle_after_merge, rows)
        autos = auto_members(common)
        due = [k for k, member in enumerate(autos) if member.subspace_update_due()]
        if due:
            every = zip(*self.engine.call_all(Shard.subspace_sums, due), strict=True)
            merged = {k: autos[k].merge_subspace(sums) for k, sums in zip(due, every, strict=True)}
            self.engine.post(Shard.take_subspaces, merged)


def _make_engine(name: str, state: ShardsState, address: str | None) -> Engine:
    choice("engine", name, "serial", "threads", "ray")
    if name == "ray":
        from romco.shards.ray import Ray  # here: it takes seconds to import

        return Ray(state.starts, address)
    if address is not None:
        raise ValueError(f"an address is for engine='ray', not {name!r}")
    if name == "serial":
        return Engine(state.starts)
    return Threads(state.starts)


class Shards(Closable):
    """A :class:`romco.Model` whose tasks are spread over ``n`` shards that learn side by side.

    A task belongs to one shard, by a stable hash of its name, and its own weights are never
    stale. One shard learns the first 20,000 events; afterwards the part that tasks share is merged
    at *barriers*: when the stream has grown by ``growth`` since the last one, and after ``every``
    events per shard. The same events, ``n``, ``growth`` and ``every`` give the same bits, whatever
    the ``engine``, the timing, and the number of lost workers; one shard gives those of a
    ``Model``.

    >>> shards = Shards("romco-auto", 2, engine="threads", classes=("ham", "spam"))
    >>> for _ in range(20):
    ...     _ = shards.learn([{"free": 1}, {"lunch": 1}], ["spam", "ham"], ["ann", "bob"])
    >>> shards.predict([{"free": 1}, {"lunch": 1}], ["bob", "somebody new"]).tolist()
    ['spam', 'ham']
    >>> shards.model().events  # one model of all tasks
    40

    Parameters
    ----------
    learner:
        Name from ``romco.LEARNERS`` of a learner that can be sharded; ``parameters`` are its own.
    n:
        Number of shards from event 20,000 on. "auto" then takes as many threads as help: at most
        one per core, fewer where rows have few entries, merges are costly or one
        task has most events, one where all tasks drift. The bits then depend on the machine.
    features, classes, positive, new_task:
        As in ``Model``. With files that the shards read themselves, features must be hashed or
        given columns: shards cannot agree on growing names.
    engine:
        "serial", "threads", or "ray" (``pip install 'romco[ray]'``); ``address`` is that of a
        running Ray cluster, by default one is started.
    growth, every:
        Barriers: share of growth of the stream, and events per shard at most.
    checkpoint:
        Model file, or folder of it, to resume from and to save to every ``checkpoint_every``
        barriers; less often where saving would take more than a twentieth of the time.
    target:
        "two classes", which is also the meaning of None, "classes" or "number".

    ValueError if the learner cannot be sharded, or the target or the checkpoint's settings differ.
    """

    def __init__(
        self,
        learner: str = "romco-auto",
        n: int | Literal["auto"] = "auto",
        features: Features | None = None,
        *,
        engine: str = "threads",
        growth: float = 0.1,
        every: int = MAX_EVENTS_PER_SHARD,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        address: str | None = None,
        target: str | None = None,
        classes: Sequence[Any] | None = None,
        positive: Any = None,
        new_task: Literal["mean", "zero"] = "mean",
        **parameters: Any,
    ) -> None:
        given = {"target": target, "classes": classes, "positive": positive, "new_task": new_task}
        front = Model(learner, features, **given, **parameters)
        front.engine.learner.sharing()  # ValueError where it cannot be sharded
        barriers: dict[str, Any] = {"growth": growth, "every": every}
        saving: dict[str, Any] = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every}
        where: dict[str, Any] = {"engine": engine, "address": address}
        self._start(front.state(), n, parameters, **barriers, **saving, **where)

    def _start(
        self,
        state: dict[str, Any],
        n: int | str | None,
        resume: dict[str, Any] | None = None,
        *,
        engine: str = "threads",
        growth: float | None = None,
        every: int | None = None,
        address: str | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
    ) -> None:
        """Start from the state of a model or of shards.

        With parameters to ``resume``, start from the checkpoint if there is one.
        """
        if n == "auto" and engine in ("serial", "ray"):
            raise ValueError(f"n='auto' is for engine='threads', not {engine!r}: give a number")
        with ExitStack() as opened:
            file = None
            if checkpoint is not None:
                file = opened.enter_context(Checkpoint(checkpoint))
                if resume is not None and file.path.exists():
                    stored = _load_state(file.path)
                    check_settings(file.path, stored, state, resume)
                    state = stored
            auto = n == "auto"
            if isinstance(n, str):
                n = int(state.get(SECTION, {}).get("shards", 1))
            schedule = schedule_of(state, n, growth, every)
            start = from_model_state(state, schedule)
            choose = self._choose_threads if auto and schedule.n == 1 else None
            where = engine, address
            self.coordinator = Coordinator(schedule, start, *where, file, checkpoint_every, choose)
            opened.pop_all()
        self._front = start.front
        self.features = self._front.features
        self.notes = self._front.notes  # anything JSON can hold, kept in the file
        self.session = self._front.session  # memory of the program that learns, kept in the file
        self._tasks = TaskCodes()
        self._locks = Locks()
        self._first_entries = self._first_events = 0  # of rows, while one shard learns

    @property
    def n(self) -> int:
        """Number of shards at work."""
        return self.coordinator.n

    @property
    def events(self) -> int:
        """Number of learned events."""
        return self.coordinator.events

    @property
    def classes(self) -> tuple[Id, ...]:
        """Labels known so far, the negative one first."""
        return self._front.classes

    @property
    def engine(self) -> "Shards":
        """Itself: it has the methods of a model's engine that a run calls."""
        return self

    @property
    def target(self) -> Target:
        """Labels, and which of them is positive; or numbers."""
        return self._front.engine.target

    @property
    def tasks(self) -> list[Id]:
        """Names of the tasks, shard by shard."""
        with self._locks.step:
            return list(chain.from_iterable(self.coordinator.engine.call_all(Shard.tasks)))

    def events_of(self, task: Any) -> int:
        """Count the learned events of a task; 0 if it is unknown."""
        with self._locks.step:
            return int(self.coordinator.engine.call_one(self._owner(task), Shard.events_of, task))

    def margins(self, x: Any, task: Iterable[Any], *, offset: Any = None) -> Floats:
        """Return margins (n,) of rows, above 0 for the positive label; of numbers the predictions.

        Of many classes they are log-probabilities (n, K).

        Raises ValueError if a row cannot be read, or there are not as many tasks as rows.
        """
        return self.predict_and_observe(Rows(x, task, offset=offset)).margins

    def predict(self, x: Any, task: Iterable[Any], *, offset: Any = None) -> NDArray[Any]:
        """Return labels or numbers (n,) of rows; arguments as in :meth:`margins`."""
        return self.target.labels_of(self.margins(x, task, offset=offset))

    def probabilities(self, x: Any, task: Iterable[Any], *, offset: Any = None) -> Floats:
        """Return the probability (n,) of the positive label; of many classes (n, K) of each.

        Arguments are as in :meth:`margins`. ValueError for numbers, which have none.
        """
        if self.target.kind == "number":
            raise ValueError("a number has no probability: use predict")
        return self.predict_and_observe(Rows(x, task, offset=offset)).probabilities

    def predict_one(self, x: Any, task: Any, *, offset: float | None = None) -> Any:
        """Return the label or number of one event; None before any label is known."""
        answers = self.predict_and_observe(Rows.of_one(x, task, offset=offset)._replace(y=None))
        return self.target.label_of(answers.margins[0])

    def learn_one(
        self, x: Any, y: Any, task: Any, weight: float = 1.0, *, offset: float | None = None
    ) -> Any:
        """Learn one event; return the margin (of many classes: all) predicted before.

        A bad event changes nothing.
        """
        row = Rows.of_one(x, task, y, weight, offset)
        margin = self.predict_and_learn(row).margins[0]
        return margin if margin.ndim else float(margin)

    def learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        *,
        weight: Any = None,
        offset: Any = None,
    ) -> Floats:
        """Learn rows, those of a task in order; return the margins (n,) predicted before.

        As :meth:`romco.Model.learn`. Raises ValueError if a row, label or weight is bad, or lengths
        differ; then nothing changes.
        """
        return self.predict_and_learn(Rows(x, task, y, weight, offset)).margins

    def predict_and_learn(self, rows: Rows) -> Predictions:
        """Learn rows as :meth:`learn`; return also the probabilities predicted before."""
        if rows.weight is not None:
            rows = rows._replace(weight=read_weights(rows.weight, self._front.engine.learner))
            if not rows.weight.all():
                return learn_in_turn(self, rows.listed())
        if self._front.engine.history is not None:
            return self._learn_to_barriers(rows.listed())
        return self._learn_all(rows)

    def check(self, rows: Rows) -> None:
        """Raise ValueError where rows could not be learned; changes nothing."""
        with self._locks.writing:
            self._read(rows)

    def _learn_to_barriers(self, rows: Rows) -> Predictions:
        """Learn rows in parts that end at barriers, so that a checkpoint has their history."""
        history, begin, n = self._front.engine.history, 0, len(rows.y)
        parts: list[Predictions] = []
        assert history is not None
        with self._locks.writing:
            self._read(rows)  # all of it, before any is learned
            while begin < n or not parts:
                end = min(n, begin + self.coordinator.next - self.coordinator.place)
                part = rows.select(np.arange(begin, end))
                try:
                    parts.append(self._learn_all(part, observing=True))
                finally:
                    history.rollback()  # what was not committed
                begin = end
        return join_predictions(parts)

    def _learn_all(self, rows: Rows, observing: bool = False) -> Predictions:
        with self._locks.writing:
            labels = self.target
            batch = self._read(rows, observing)
            before = labels.sign
            with self._locks.step:
                codes = self._tasks.encode(batch.ids)
                labels.adopt(batch.labels)
                self.features.add(dict(batch.names))
                self._front.engine.with_offset = batch.offset is not None
            if batch.offset is not None:  # has the sign of the labels known in the end
                before = labels.sign
            answers = self._learn(batch, codes)
            if labels.kind == "classes":
                labels.hide(answers.margins, batch.since)
                return self._of_classes(answers.margins)
            return _with_sign(answers, labels.user_margins(np.ones(len(codes)), batch.y, before))

    def forget(self, task: Any) -> None:
        """Forget a task: its name, weights and history. KeyError if it is unknown."""
        with self._locks.writing:
            with self._locks.step:
                self.coordinator.forget(self._owner(task), task)
            if self._front.engine.history is not None:
                self._front.engine.history.forget(task)

    def state(self) -> dict[str, Any]:
        """Return the state of one :class:`romco.Model` of all tasks; shards resume it, too."""
        with self._locks.writing, self._locks.step:
            return self.coordinator.state()

    def model(self) -> Model:
        """Return one model of all tasks, independent of the shards."""
        return Model.from_state(self.state())

    def save(self, path: str | Path) -> None:
        """Write one model file of all tasks; :func:`romco.load` opens it as a ``Model``.

        A file that cannot be written is an OSError; the old one stays.
        """
        save_state(self.state(), path)

    @classmethod
    def load(
        cls, path: str | Path, n: int | Literal["auto"] | None = None, **settings: Any
    ) -> Self:
        """Return shards of a model file; ``settings`` as in :meth:`of`.

        By default as many shards as it was saved from. ValueError if the file is damaged.
        """
        return cls.of(_load_state(Path(path)), n, **settings)

    @classmethod
    def of(
        cls,
        model: Model | dict[str, Any],
        n: int | Literal["auto"] | None = None,
        **settings: Any,
    ) -> Self:
        """Split a model, or its state, into shards.

        ``settings`` are ``engine``, ``address``, ``growth``, ``every``, ``checkpoint``, a file to
        save to, and ``checkpoint_every``. By default ``n``, ``growth`` and ``every`` are those of
        the state; shards then continue as if they had never stopped. ValueError if its learner
        cannot be sharded.
        """
        if isinstance(model, Model):
            model = model.state()
        shards = cls.__new__(cls)
        shards._start(model, n, **settings)
        return shards

    def close(self) -> None:
        """End the threads or workers; unsaved changes are lost."""
        self.coordinator.close()

    def _read(self, rows: Rows, observing: bool = False) -> Batch:
        """Return rows that could be learned; ValueError where one is bad."""
        front, learned = self._front.engine, self.events > 0
        with front.transaction():  # columns of refused rows are not kept
            return read_labelled(front, rows, observing=observing, learned=learned)

    def _learn(self, rows: Batch, codes: NDArray[np.int64]) -> Predictions:
        local = self.coordinator.engine.local_shards is not None
        numbers = Rows(rows.matrix, None, rows.y, rows.weight, rows.offset)
        batch = self._share(numbers, codes)
        owners, begin = self._tasks.owners(codes, self.n), 0
        first_rows = self._first_rows(rows)
        while begin < len(codes):
            if begin in first_rows:
                self.coordinator.make_classes(int(rows.y[begin]) + 1)
            left = self.coordinator.next - self.coordinator.place
            end = min(len(codes), begin + left, begin + CHUNK_EVENTS * self.n)
            end = min([end, *(row for row in first_rows if row > begin)])
            indices = _indices_by_shard(owners, begin, end, self.n)
            if self.coordinator.alone:
                self._first_entries += count_entries(rows.matrix, begin, end)
                self._first_events += end - begin
            with self._locks.step:
                if local:
                    arguments = [(batch, own) if len(own) else None for own in indices]
                    self.coordinator.run(Shard.learn_at, arguments, end - begin)
                else:
                    copies = [(batch.copy(own),) if len(own) else None for own in indices]
                    batch.put_all(indices, self.coordinator.run(Shard.learn, copies, end - begin))
                if self._front.engine.history is not None:
                    self._front.engine.history.commit(end)
                self.coordinator.advance(end - begin, end - begin)
                if len(indices) != self.n:
                    owners = self._tasks.owners(codes, self.n)
            begin = end
        return Predictions(batch.margins, batch.probabilities)

    def _first_rows(self, rows: Batch) -> list[int]:
        """Return the rows with a class for which shards have no room yet, the first of each."""
        known = self._front.engine.learner.answers
        if self.target.kind != "classes":
            return []
        return sorted(row for label, row in rows.since.items() if rows.labels[label] >= known)

    def _choose_threads(self) -> int:
        """Return the number of threads that help with such events; 1 while all tasks drift."""
        (shard,) = self.coordinator.engine.local_shards or ()
        engine = shard.model.engine
        members = auto_members(engine.learner)
        if any(member.drift() > DRIFTS for member in members):
            return 1
        places = sum(member.covariance_size() for member in members)
        stores = [member.pair_store.arrays() for member in members]
        pairs = sum(len(store.get("personal_keys", ())) for store in stores)
        learning = max(1, engine.learner.answers - 1)  # members that learn an event
        coordinator = self.coordinator
        barrier = replace(coordinator.schedule, n=2).after(coordinator.place)
        return choose_threads(
            entries=self._first_entries / self._first_events,
            pairs=pairs / learning / engine.events,
            places=places / learning,
            largest=float(engine.counts.seen.max() / engine.events),
            period=barrier - coordinator.place,
        )

    def predict_and_observe(self, rows: Rows) -> Predictions:
        """Predict rows that are not learned; their labels, where known, enter the history."""
        with self._locks.step:
            front = self._front.engine
            learned, observing = self.events > 0, rows.y is not None
            with front.locks.step:
                read = read_unlabelled(front, rows, observing=observing, learned=learned)
                if front.history is not None:
                    front.history.commit(len(read.ids))
            codes = self._tasks.encode(read.ids)
            indices = _indices_by_shard(self._tasks.owners(codes, self.n), 0, len(codes), self.n)
            batch = self._share(Rows(read.matrix, None, offset=read.offset), codes)
            arguments = [(batch.copy(own),) if len(own) else None for own in indices]
            batch.put_all(indices, self.coordinator.engine.call_each(Shard.answers, arguments))
            answers = Predictions(batch.margins, batch.probabilities)
            if self.target.kind == "classes":
                return self._of_classes(batch.margins)
            return _with_sign(answers, np.full(len(codes), self.target.sign))

    def _share(self, rows: Rows, codes: NDArray[np.int64]) -> SharedBatch:
        n_classes = max(self._front.engine.learner.answers, len(self.target.known))
        margins = self.target.allocate(len(codes), n_classes)
        return SharedBatch(rows, codes, self._tasks.names, self._tasks.version, margins)

    def _of_classes(self, margins: Floats) -> Predictions:
        """Return log-probabilities of many classes, and the probabilities of those known."""
        return Predictions(margins, self.target.probabilities(margins, self._front.engine.scale))

    def _owner(self, task: Any) -> int:
        (owner,) = self._tasks.owners(self._tasks.encode([task]), self.n)
        return int(owner)


def _load_state(path: Path) -> dict[str, Any]:
    """Return the state of a model file that shards can be made of; ModelFileError if not."""
    state = load_state(path)
    with refusing(path):
        check_state(state)
    return state


def check_state(state: dict[str, Any]) -> None:
    """Raise where a state is neither that of a model nor that of shards."""
    if SECTION not in state:
        Model.from_state(state)
        return
    check_section(state)
    schedule = schedule_of(state, None, None, None)
    Coordinator(schedule, from_model_state(state, schedule), "serial").close()


def _indices_by_shard(
    owners: NDArray[np.uint16], begin: int, end: int, n: int
) -> list[NDArray[np.int64]]:
    """Return the rows of each shard, in order."""
    part = owners[begin:end]
    order = begin + np.argsort(part, kind="stable")  # radix sort
    return np.split(order, np.cumsum(np.bincount(part, minlength=n))[:-1])


def _with_sign(answers: Predictions, sign: Floats) -> Predictions:
    """Return answers for the user's positive label, which may be the learner's -1."""
    margins, probabilities = answers
    if len(probabilities):
        probabilities = np.where(sign > 0.0, probabilities, 1.0 - probabilities)
    return Predictions(sign * margins, probabilities)
