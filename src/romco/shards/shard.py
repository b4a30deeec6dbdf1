"""One shard: a model of its own tasks, and its messages at a barrier."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import Events
from romco.kernels.merge.rows import FeatureCounts
from romco.kernels.step import PERSONAL_CHECK_EVENTS, ChunkStep
from romco.learners import restore
from romco.learners.auto import SubspaceRows
from romco.learners.classes import auto_members
from romco.learners.merging import (
    Change,
    Merged,
    Period,
    ScaleNumbers,
    apply_merged,
    collect_change,
)
from romco.learners.sharing import stored_pairs
from romco.model import Model, Scale
from romco.model.body import LightMatrix, as_round, is_compiled
from romco.model.features import Columns, Matrix, Sparse, count_rows, row_widths, select_rows
from romco.model.history import TaskHistory
from romco.model.names import Id
from romco.model.rows import Rows
from romco.model.target import ManyClasses, Predictions, TwoClasses, target_from_json
from romco.rounds import Round, select
from romco.shards.reader import EventFiles, FilePosition, ShardReader
from romco.typing import Floats

CHUNK_ROWS = 2000  # read before they are learned
NEW_TASK_ROWS = 64  # learned by name from a new task on
SIDES = (-1.0, 1.0)  # labels of a shard's model
HistoryState = tuple[dict[str, Any], dict[str, NDArray[Any]]]  # of some tasks: names, and arrays


@dataclass(frozen=True)
class ShardUpdate:
    """Message of a shard at a barrier: all it changed since the last one."""

    change: Change
    scale: ScaleNumbers
    width: int  # features there is room for


@dataclass(frozen=True)
class ReadReport:
    """Counts of rows that a shard read and learned by itself."""

    rows: int  # of all tasks
    learned: int  # events of its own
    loss: float  # of them: wrong predictions; of numbers squared errors
    skipped: int  # bad rows of its own
    position: FilePosition
    ended: bool


@dataclass
class SharedBatch:
    """Rows that all shards of this process read in place, and their predictions."""

    rows: Rows  # x is a matrix; the tasks are in codes
    codes: NDArray[np.int64]  # of the tasks; see TaskCodes
    names: list[Id]
    version: int
    margins: Floats  # (n,), or (n, K) of many classes, to be filled in

    def __post_init__(self) -> None:
        self.widths = None
        if isinstance(self.rows.x, Sparse):
            self.widths = row_widths(self.rows.x)
        self.probabilities = np.empty(0)  # of many classes
        if self.margins.ndim == 1:
            self.probabilities = np.empty(len(self.codes))

    def matrix(self, width: int) -> Any:
        """Return the rows as a matrix of ``width`` columns."""
        if isinstance(self.rows.x, Sparse):
            return LightMatrix(self.rows.x, width)
        return self.rows.x

    def copy(self, index: NDArray[np.int64]) -> Rows:
        """Return the rows at ``index``."""
        names = [self.names[code] for code in self.codes[index]]
        return self.rows.select(index)._replace(task=names)

    def put_all(
        self, indices: Sequence[NDArray[np.int64]], answers: Sequence[Predictions | None]
    ) -> None:
        """Set the predictions of the rows of each shard."""
        for index, one in zip(indices, answers, strict=True):
            if one is not None:
                self.put(index, one)

    def put(self, index: NDArray[np.int64], predictions: Predictions) -> None:
        """Set the predictions of rows; those of classes that are not known yet stay."""
        margins = predictions.margins
        if margins.ndim == 1:
            self.margins[index] = margins
        else:
            self.margins[index, : margins.shape[1]] = margins
        if len(self.probabilities):
            self.probabilities[index] = predictions.probabilities


def count_entries(rows: Matrix, begin: int, end: int) -> int:
    """Count the stored entries of rows begin to end."""
    if isinstance(rows, Sparse):
        return int(rows.starts[end] - rows.starts[begin])
    return (end - begin) * int(rows.shape[1])


class NumberedFeatures(Columns):
    """Features of a shard's model: rows come as numbers, for which the shard makes room."""

    def read(self, rows: Any, new: dict[Id, int] | None = None) -> Matrix:
        """Return the rows as they are."""
        return rows


class Shard:
    """A model of some tasks; features and labels are numbers.

    Its state is a function of the calls made to it: the same calls give the same bits.
    """

    def __init__(self, n: int, state: dict[str, Any]) -> None:
        self.n, self.model = n, _from_state(state)
        self._features = NumberedFeatures(self.model.engine.learner.n_features)
        self.model.features = self.model.engine.features = self._features
        learner = self.model.engine.learner
        self._counts = FeatureCounts(learner.n_features)
        for member in auto_members(learner):
            store = member.pair_store.arrays()
            _, features, _ = stored_pairs(store["personal"], store.get("personal_keys"))
            self._counts.add_earlier(features)  # tasks have weights for them
        self._events = 0  # since the last barrier
        self._numbers = np.empty(0, dtype=np.int64)  # of tasks, by code
        self._version = -1
        self._reader: ShardReader | None = None
        if n > 1:
            learner.become_shard()

    # Learning and predicting

    def learn(self, rows: Rows) -> Predictions:
        """Learn rows of own tasks; return the predictions made before.

        Rows of weight 0 are only predicted.
        """
        engine, x = self.model.engine, rows.x
        engine.with_offset = rows.offset is not None  # as all shards agreed before
        if isinstance(x, Sparse):
            self.widen(int(x.columns.max(initial=0)) + 1)
        answers = engine.predict_and_learn(rows)
        if rows.weight is not None and not rows.weight.all():
            x = select_rows(x, np.flatnonzero(rows.weight))
        learned, learner = count_rows(x), engine.learner
        if self.n > 1 and learned:
            round = as_round(learner, x, np.zeros(learned, dtype=np.int64))
            self._counts.add(Events(round, learner.n_features, learner.n_tasks, False))
        self._events += learned
        return answers

    def learn_at(self, batch: SharedBatch, index: NDArray[np.int64]) -> None:
        """Learn the rows of a batch at ``index``; fill in the predictions made before."""
        ready, begin = self._known_tasks(batch, index), 0
        while begin < len(index):
            slow = np.flatnonzero(ready[begin:] < 0)
            end = begin + int(slow[0]) if len(slow) else len(index)
            if begin < end:
                self._learn_known(batch, index[begin:end], ready[begin:end])
            else:
                end = min(len(index), begin + NEW_TASK_ROWS)
                part = index[begin:end]  # whose tasks may be new: a copy of the rows is learned
                batch.put(part, self.learn(batch.copy(part)))
                ready[end:] = self._known_tasks(batch, index[end:])
            begin = end

    def _known_tasks(self, batch: SharedBatch, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of each row's task; -1 where the task is new, or needs more room."""
        engine, codes = self.model.engine, batch.codes[index]
        if self._version != batch.version:
            self._numbers, self._version = np.empty(0, dtype=np.int64), batch.version
        if len(self._numbers) < len(batch.names):
            more = np.full(2 * len(batch.names) - len(self._numbers), -1, dtype=np.int64)
            self._numbers = np.concatenate([self._numbers, more])
        numbers = self._numbers[codes]
        if (numbers < 0).any():
            new = np.unique(codes[numbers < 0])
            self._numbers[new] = engine.tasks.numbers([batch.names[code] for code in new])
            numbers = self._numbers[codes]
        if batch.widths is not None:
            numbers[batch.widths[index] > engine.learner.n_features] = -1
        if is_compiled(engine.learner):
            return numbers
        return np.full(len(index), -1)

    def _learn_known(
        self, batch: SharedBatch, index: NDArray[np.int64], numbers: NDArray[np.int64]
    ) -> None:
        """Learn rows in place, without a name or a copy."""
        engine, begin = self.model.engine, 0
        while begin < len(index):
            end = begin + PERSONAL_CHECK_EVENTS - engine.events % PERSONAL_CHECK_EVENTS
            part = index[begin:end]
            task = numbers[begin:end]
            weight = select(batch.rows.weight, part)
            offset = select(batch.rows.offset, part)
            log_a = np.empty(len(part))
            starts = np.arange(len(part) + 1)
            with engine.at_rest() as learner:
                x = batch.matrix(learner.n_features)
                round = Round(task, x, batch.rows.y[part], weight, offset)
                events = learner.events_of(round, labelled=True, rows=part)
                scale = engine.scale if isinstance(engine.target, TwoClasses) else None
                margins = ChunkStep(engine.body, scale, log_a, events, starts).compiled()
            if self.n > 1:
                self._counts.add(events)
            self._events += len(part)
            probabilities = batch.probabilities
            if len(probabilities):
                probabilities = engine.target.probabilities_then(margins, log_a)
            batch.put(part, Predictions(margins, probabilities))
            begin = end

    def answers(self, rows: Rows) -> Predictions:
        """Predict rows."""
        self.model.engine.with_offset = rows.offset is not None
        return self.model.engine.predict_and_observe(rows)

    def check_known(self, task: Id) -> None:
        """Raise KeyError for a task that is not known here."""
        self.model.engine.check_known(task)

    def forget(self, task: Id) -> None:
        """Forget a task; names of features are those of all shards."""
        self.model.engine.forget(task, names=False)
        self._version = -1

    # Reading files

    def open(
        self, files: EventFiles, k: int, position: FilePosition, past: HistoryState | None = None
    ) -> None:
        """Read files as the k-th shard, from a position on, with the history of the own tasks."""
        self.close()
        history = None
        if past is not None:
            numeric = self.model.engine.target.kind == "number"
            history = TaskHistory.from_state(*past, numeric=numeric)
        self._reader = ShardReader(files, self.n, k, position, history)

    def history(self) -> HistoryState:
        """Return the history of the own tasks, which :meth:`open` takes."""
        assert self._reader is not None
        assert self._reader.history is not None
        return self._reader.history.to_json(), self._reader.history.arrays()

    def read(self, rows: int) -> ReadReport:
        """Learn the own events among the next ``rows`` rows."""
        reader, done, learned, loss = self._reader, 0, 0, 0.0
        assert reader is not None
        skipped = reader.skipped
        while done < rows and not reader.ended:
            events, passed = reader.read(min(rows - done, CHUNK_ROWS))
            done += passed
            for part in events:
                losses = self._losses(self.model.events, self.learn(part).margins, part.y)
                counts = np.ones(len(part.y)) if part.weight is None else part.weight
                learned += int(np.count_nonzero(counts))
                loss += float(losses[counts > 0.0].sum())
        skipped = reader.skipped - skipped
        return ReadReport(done, learned, loss, skipped, reader.position, reader.ended)

    def _losses(self, events: int, margins: Floats, y: Floats) -> Floats:
        """Return 1 for each wrong prediction; of numbers the squared error, by events before."""
        target = self.model.engine.target
        if isinstance(target, ManyClasses):
            return np.not_equal(target.labels_of(margins), y).astype(np.float64)
        if target.kind != "number":
            return np.not_equal(margins >= 0.0, y > 0.0).astype(np.float64)
        losses = np.square(margins - y)
        if not events:
            losses[:1] = 0.0  # nobody knew the level of the first number
        return losses

    def close(self) -> None:
        """Close the file that is being read."""
        if self._reader is not None:
            self._reader.close()

    # Barriers

    def update(self) -> ShardUpdate:
        """Return all that changed since the last barrier."""
        with self.model.engine.at_rest() as learner:
            changed = collect_change(learner, self._counts, self._events)
            return ShardUpdate(changed, self.scale, learner.n_features)

    def apply(self, merged: Merged, scale: ScaleNumbers, events: int, width: int) -> None:
        """Replace the shared part by the merged one of all ``events``, of ``width`` features."""
        self.widen(width)
        with self.model.engine.at_rest() as learner:
            apply_merged(learner, merged)
        self.begin_period(scale, events)

    def period(self) -> Period:
        """Return events and features since the last barrier."""
        return Period(self._events, *self._counts.rows())

    @property
    def scale(self) -> ScaleNumbers:
        """Scale of the margins."""
        return scale_numbers(self.model.engine.scale)

    def begin_period(self, scale: ScaleNumbers, events: int) -> None:
        """Begin a new period after a merge."""
        self.model.engine.adopt(Scale(*scale), events)
        self._counts.clear()
        self._events = 0

    def widen(self, width: int) -> None:
        """Make room for at least ``width`` features."""
        self.model.engine.make_room(width)
        self._features.width = self.model.engine.learner.n_features
        self._counts.grow(self._features.width)

    def make_classes(self, n: int) -> None:
        """Make room for n classes, whose labels are 0, 1, ... here."""
        engine = self.model.engine
        engine.body = engine.body.grown(0, 0, n)
        engine.target.adopt(ManyClasses(range(n)).known)

    def settle_after_merge(self, rows: NDArray[np.int32]) -> None:
        """Decide what is left to barriers, as the front did, after a merge of rows."""
        self.model.engine.learner.settle_after_merge(rows)

    def subspace_sums(self, members: Sequence[int]) -> list[SubspaceRows]:
        """Return what the shared subspaces of some learners within need of the own tasks."""
        autos, rows = auto_members(self.model.engine.learner), self._counts.earlier()
        return [autos[k].subspace_statistics(rows) for k in members]

    def take_subspaces(self, subspaces: Mapping[int, SubspaceRows]) -> None:
        """Replace the shared subspaces of some learners within."""
        autos = auto_members(self.model.engine.learner)
        for k, subspace in subspaces.items():
            autos[k].set_subspace(subspace)

    # State

    def state(self) -> dict[str, Any]:
        """Return the model's state."""
        return self.model.state()

    def resume(self, update: ShardUpdate) -> None:
        """Restore the changes of a period that is not over."""
        with self.model.engine.at_rest() as learner:
            apply_merged(learner, Merged(update.change.rows, update.change.values))
            restore(learner.state())  # raises where the numbers of a file are not a learner's
        self.model.engine.adopt(Scale(*update.scale))
        self._counts.load(update.change.rows, update.change.seen)
        self._events = update.change.events

    def tasks(self) -> list[Id]:
        """Return the names of the own tasks."""
        return self.model.tasks

    def events_of(self, task: Id) -> int:
        """Count the learned events of a task."""
        return self.model.engine.events_of(task)


def scale_numbers(scale: Scale) -> ScaleNumbers:
    """Return the two numbers of a scale."""
    return scale.log_a, scale.curvature


def _from_state(state: dict[str, Any]) -> Model:
    """Return a state's model with numbers for features and labels."""
    columns = {"kind": "columns", "width": state["learner"]["n_features"], "names": None}
    labels = state["labels"]
    target = target_from_json(labels)
    if isinstance(target, TwoClasses):
        labels = TwoClasses(SIDES).to_json()
    elif isinstance(target, ManyClasses):
        labels = ManyClasses(range(int(state["arrays"]["learner.classes"][0]))).to_json()
    return Model.from_state({**state, "features": columns, "labels": labels, "notes": {}})
