"""The engine of :class:`romco.Model`: a learner, and the names of its tasks and features.

Other packages use ``model.engine`` where the model has no method for what they need.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import NOBODY, SEVERAL, EventCounts, Scale
from romco.kernels.step import Step, retry_idempotent
from romco.learners import Learner, known, number_learner, restore
from romco.learners.base import CompiledLearner, add_prefix, take_prefix
from romco.learners.capabilities import (
    AddsClasses,
    GivesIntervals,
    GivesPosteriors,
    LearnsDelayed,
    StartsTasks,
)
from romco.model.body import NO_NUMBERS, Body, as_round, predict
from romco.model.features import (
    Features,
    Matrix,
    NamedFeatures,
    Names,
    Sparse,
    count_rows,
    features_from_json,
    needed_widths,
    row_widths,
)
from romco.model.history import TaskHistory
from romco.model.lock import Hold, Locks
from romco.model.names import Action, Id, TaskTable, canonical_name, identities
from romco.model.rows import (
    Rows,
    UnlabelledBatch,
    check_lengths,
    check_sequence,
    read_context,
    read_labelled,
    read_matrix,
    read_offset,
    read_unlabelled,
    read_weights,
)
from romco.model.target import (
    ManyClasses,
    Predictions,
    Target,
    TwoClasses,
    target_from_json,
    widened,
)
from romco.model.transaction import learn_batch, learn_in_turn, transaction
from romco.parameters import choice, truth, whole
from romco.rounds import Round
from romco.typing import Floats

MAX_EVENTS = 2**60  # larger counts might overflow
MAX_UNSEEN = 64  # features of a row that no event had and that make predictions less sure
FEATURE_OWNERS, CLASS_OWNERS = "features.owners", "classes.owners"  # arrays of a state
LEARNER_PREFIX = "learner."  # before the names of the learner's arrays in a state


class PendingPredictions(NamedTuple):
    """Predictions of rows whose labels come late, with the context to learn them later."""

    margins: Floats
    context: Floats | None
    probabilities: Floats | None  # None where the target is a number
    events: int  # learned before


class Engine(Step):
    """All parts of a model that learning changes: names, learner, event counts, scale and locks.

    The learner knows tasks and features by numbers; -1 is a task without a number. With
    ``new_task="mean"`` such a task is predicted by, and starts from, the learner's ``common``.

    One thread may learn while others predict; a prediction never sees half an update.
    """

    def __init__(
        self,
        learner: Learner,
        features: Features,
        target: Target,
        tasks: TaskTable,
        new_task: str,
        history: TaskHistory | None = None,
    ) -> None:
        if history is not None and not isinstance(features, NamedFeatures):
            raise ValueError("history needs columns by name: use features=Names() or Hashed()")
        reader = None
        if isinstance(features, NamedFeatures):
            reader = features.mappings()
        body = Body(learner, _new_counts(learner, features, target))
        super().__init__(features, reader, target, tasks, body, Locks(), CompiledLearner)
        self.history = history
        self.new_task = choice("new_task", new_task, "mean", "zero")
        self.starts_tasks = new_task == "mean" and isinstance(learner, StartsTasks)

    # The learner, its tasks and its target

    @property
    def learner(self) -> Learner:
        """The learner. It is replaced when it grows: with other threads, use :meth:`at_rest`."""
        return self.body.learner

    @property
    def counts(self) -> EventCounts:
        """Events of each task; replaced together with the learner."""
        return self.body.counts

    @property
    def events(self) -> int:
        """Number of events learned."""
        return self.counts.events

    def at_rest(self) -> "Hold[Learner]":
        """Lock the learner between two updates: ``with engine.at_rest() as learner``.

        Other threads that learn or predict wait meanwhile, so only read the learner within.
        """
        return Hold(self.locks.step, lambda: self.body.learner)

    def events_of(self, task: Any) -> int:
        """Return the number of events of a task that were learned; 0 if it is not known."""
        number = self.tasks.find(task)
        if number < 0:
            return 0
        return int(self.counts.seen[number])

    def personal_since(self, task: Any) -> int | None:
        """Return after how many events of all tasks this one became personal, and stayed so.

        Looked at every ``PERSONAL_CHECK_EVENTS``; None if the task is not personal.
        """
        number = self.tasks.find(task)
        if number < 0 or self.counts.since[number] < 0:
            return None
        return int(self.counts.since[number])

    @property
    def two_classes(self) -> TwoClasses:
        """The target, where it is two classes; else ValueError."""
        if not isinstance(self.target, TwoClasses):
            raise ValueError(
                f"expected a model of two classes; this one predicts {self.target.kind}"
            )
        return self.target

    @property
    def learner_name(self) -> str:
        """Name of the learner as :class:`romco.Model` takes it, whatever the target."""
        name = self.learner.parameters.get("inner", self.learner.name)
        return str(name).removesuffix("-number")

    # Predicting

    def margins(self, rows: Rows) -> Floats:
        """Return margins of rows; see :meth:`romco.Model.margins`."""
        with Hold(self.locks.step):
            return self._margins_of(read_unlabelled(self, rows))

    def margins_and_context(self, rows: Rows, with_context: bool = True) -> PendingPredictions:
        """Return margins and :meth:`prediction_context` of rows, of the same moment."""
        with Hold(self.locks.step):
            batch = read_unlabelled(self, rows)
            margins = self._margins_of(batch)
            chances = None
            if self.target.kind != "number":
                chances = self.probability_of(margins)
            context = None
            if with_context:
                context = self._context(batch, rows.x)
            return PendingPredictions(margins, context, chances, self.events)

    def prediction_context(self, x: Any, task: Iterable[Any], offset: Any = None) -> Floats | None:
        """Return numbers (n, k) to learn rows by whose labels come late: ``learn(context=)``.

        None where the learner has no use for them. With ids, :meth:`romco.Model.predict` and
        :meth:`romco.Model.answer` do so by themselves.
        """
        with Hold(self.locks.step):
            return self._context(read_unlabelled(self, Rows(x, task, offset=offset)), x)

    def intervals(self, rows: Rows, level: float) -> Floats:
        """Return bounds (n, 2) of rows; see :meth:`romco.Model.intervals`."""
        with Hold(self.locks.step):
            if not isinstance(self.learner, GivesIntervals):
                raise ValueError(f"{self.learner.name} predicts no numbers, so it has no intervals")
            learner, round = self._with_room(read_unlabelled(self, rows, unseen=True))
            bounds: Floats = learner.intervals(round, level, frozen=not self.live)
            return bounds

    def posterior(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return means and standard deviations of rows; see :meth:`romco.Model.margins`."""
        with Hold(self.locks.step):
            learner, round = self._with_room(read_unlabelled(self, rows, unseen=True))
            if not isinstance(learner, GivesPosteriors):
                raise ValueError(
                    f"{learner.name} has no standard deviations: romco-auto has them, of numbers "
                    "and of at most ten classes"
                )
            mean, deviation = learner.posterior(round, frozen=not self.live)
            return self.target.sign * mean, deviation

    def probabilities(self, rows: Rows) -> Floats:
        """Return P(positive) (n,) of rows, of many classes (n, K); ValueError for numbers."""
        return self.probability_of(self.margins(rows))

    def probability_of(self, margins: Floats) -> Floats:
        """Return the probabilities that margins of this model stand for."""
        return self.target.probabilities(margins, self.scale)

    def margin_one(self, x: Any, task: Any, offset: float | None = None) -> Any:
        """Return the margin of one event, of many classes all, or the predicted number."""
        margin = self.margin_of_event(x, task, offset)
        if margin is not NotImplemented:
            return margin
        return self.margins(Rows.of_one(x, task, offset=offset))[0]

    def probability_one(self, x: Any, task: Any, offset: float | None = None) -> float:
        """Return P(positive) of one event; ValueError where the target is a number."""
        if isinstance(self.target, TwoClasses):
            return self.scale.probability_of_one(self.margin_one(x, task, offset))
        return float(self.probabilities(Rows.of_one(x, task, offset=offset))[0])

    def predict_one(self, x: Any, task: Any, offset: float | None = None) -> Any:
        """Return the label or number of one event; see :meth:`romco.Model.predict_one`."""
        label = self.label_of_event(x, task, offset)
        if label is NotImplemented:
            label = self.target.label_of(self.margins(Rows.of_one(x, task, offset=offset))[0])
        return label

    def read_rows(self, x: Any, task: Any) -> Matrix:
        """Return rows of tasks as the learner takes them, with their history."""
        with Hold(self.locks.step):
            matrix = read_matrix(self, x, list(task))
            check_lengths(matrix, task=task)
            return matrix

    def _margins_of(self, batch: UnlabelledBatch) -> Floats:
        return self.margins_of(batch.matrix, self.tasks.numbers(batch.ids), batch.offset)

    def margins_of(
        self, rows: Matrix, task: NDArray[np.int64], offset: Floats | None = None
    ) -> Floats:
        """Return margins (n,); task -1 is predicted as a new task."""
        named = task >= 0
        if named.all():
            margins = predict(self.learner, rows, task, offset, self.live)
        else:
            margins = self._margins_of_new(rows, offset)
        if named.any() and not named.all():  # any number does for the others
            numbers = np.maximum(task, 0)
            margins[named] = predict(self.learner, rows, numbers, offset, self.live)[named]
        if self.target.sign == 1.0:
            return margins
        return -margins

    def _margins_of_new(self, rows: Matrix, offset: Floats | None) -> Floats:
        newcomer = None
        if self.starts_tasks:
            newcomer = self.body.newcomer()
        if newcomer is not None and (offset is None or offset.ndim == 1):
            nobody = np.zeros(count_rows(rows), dtype=np.int64)
            margins: Floats = newcomer.margins(as_round(self.learner, rows, nobody))
            if offset is None:
                return margins
            return margins + offset
        self.make_room(0, self.tasks.next + 1)
        new = np.full(count_rows(rows), self.tasks.next)
        return predict(self.learner, rows, new, offset, self.live)

    def _context(self, batch: UnlabelledBatch, x: Any) -> Floats | None:
        if not batch.ids:
            return None
        context = None
        if isinstance(self.learner, LearnsDelayed):
            learner, round = self._with_room(batch)
            context = learner.prediction_context(round)
        if self.history is None:
            return context
        assert isinstance(self.features, NamedFeatures)
        return self.history.context(batch.ids, self.features.encode(x, False), context)

    def _with_room(self, batch: UnlabelledBatch) -> tuple[Any, Round]:
        """Return the learner, and rows as a round in which task -1 is the next task.

        It has room for that task, and for some features that no event had.
        """
        task = self.tasks.numbers(batch.ids)
        width = int(row_widths(batch.matrix).max(initial=0))
        self.make_room(min(width, self.features.width + MAX_UNSEEN))
        if (task < 0).any():
            self.make_room(0, self.tasks.next + 1)
            task = np.where(task < 0, self.tasks.next, task)
        return self.learner, as_round(self.learner, batch.matrix, task, offset=batch.offset)

    # Learning

    def predict_and_learn(
        self, rows: Rows, *, together: bool = False, with_probabilities: bool = True
    ) -> Predictions:
        """Learn rows as :meth:`romco.Model.learn`; return what was predicted just before.

        >>> import romco
        >>> from romco.model.rows import Rows
        >>> engine = romco.Model("pa-unique").engine
        >>> engine.predict_and_learn(Rows([{"a": 1}, {"a": 1}], ["ann", "ann"], [1, 0]))
        Predictions(margins=array([0., 1.]), probabilities=array([0.5       , 0.73105858]))
        """
        if rows.weight is not None:
            rows = rows._replace(weight=read_weights(rows.weight, self.learner))
            if not rows.weight.all():
                with self.transaction():
                    return self._learn_counted(rows.listed(), together)
        with self.transaction():
            sign = self.target.sign
            try:
                batch = read_labelled(self, rows, together=together)
                margins, log_a = learn_batch(self, batch, together)
            finally:
                if self.history is not None:
                    self.history.rollback()  # what was not committed with a chunk
            if rows.offset is not None:  # has the sign of the labels known in the end
                sign = self.target.sign
            margins = self.target.user_margins(margins, batch.y, sign)
            since = batch.since
            if together:
                since = dict.fromkeys(since, len(batch.y) - 1)
            self.target.hide(margins, since)
        if not with_probabilities:
            return Predictions(margins, NO_NUMBERS)
        return Predictions(margins, self.target.probabilities_then(margins, log_a))

    def transaction(self) -> AbstractContextManager[None]:
        """Let one thread change the engine; an error before anything is learned undoes all.

        Nested transactions are one transaction.
        """
        return transaction(self)

    def learn_one(
        self, x: Any, y: Any, task: Any, weight: float = 1.0, offset: float | None = None
    ) -> Any:
        """Learn one event; return the margin (of many classes: all) predicted just before."""
        margin = self.learn_event(x, y, task, weight, offset)
        if margin is not NotImplemented:
            return margin
        rows = Rows.of_one(x, task, y, weight, offset)
        margins = self.predict_and_learn(rows, with_probabilities=False).margins
        if margins.ndim == 1:
            return float(margins[0])
        return margins[0]

    def check(self, rows: Rows) -> None:
        """Raise ValueError where rows could not be learned; only the kinds of columns are kept."""
        with self.transaction():
            read_labelled(self, rows, observing=False)

    def observe(self, x: Any, task: Iterable[Any]) -> None:
        """Update names and feature statistics from rows without labels.

        For rows whose labels will never come; :meth:`predict_and_learn` does so for the others.
        Raises ValueError if a row is bad; nothing has changed then.

        >>> import romco
        >>> model = romco.Model()
        >>> model.engine.observe([{"length": 300.0}], ["ann"])
        >>> model.tasks, model.features.width, model.events
        (['ann'], 1, 0)
        """
        with self.transaction():
            ids = identities("task", check_sequence(task))
            new: dict[Id, int] = {}
            with Hold(self.locks.step):
                rows = read_matrix(self, x, ids, new)
            check_lengths(rows, task=ids)
            names = list(zip(identities("feature", new), new.values(), strict=True))
            fresh: dict[Id, int] = {}
            if not self.starts_tasks:
                fresh = self.tasks.offered(ids)
            n = count_rows(rows)
            width = 0
            if new:
                width = int(needed_widths(rows)[-1])
            body = self.body.grown(width, max(fresh.values(), default=-1) + 1)
            rounds = []
            if n:
                nobody = np.zeros(n, dtype=np.int64)  # the same is observed whatever the task
                unlabelled = as_round(body.learner, rows, nobody)._replace(y=np.full(n, np.nan))
                rounds.append(unlabelled)
            actions = [*self.features.actions(names, width), *self.tasks.actions(fresh)]
            with Hold(self.locks.step):
                retry_idempotent(self._commit_observed, actions, body, rounds)
                if isinstance(rows, Sparse):
                    numbers = self.tasks.numbers(ids)
                    body.counts.own_features(numbers, rows.starts, rows.columns)

    def widen_for(self, labels: Iterable[Any]) -> None:
        """Become a model of many classes if there are more than two, and keep what was learned.

        Predictions stay the same; margins are then log-probabilities of the classes.

        >>> import romco
        >>> model = romco.Model()
        >>> for label in ("bus", "car", "train"):
        ...     model.engine.widen_for([label])
        ...     _ = model.learn_one({"minutes": 7}, label, "ann")
        >>> model.classes
        ('bus', 'car', 'train')
        """
        if not isinstance(self.target, TwoClasses):
            return
        names = [*self.target.classes, *labels]
        different = set(map(canonical_name, identities("label", names)))
        if len(different) > 2:
            if self.events and self.with_offset:
                raise ValueError(f"a third label in {names}: a model with offsets has two classes")
            with Hold(self.locks.writing), Hold(self.locks.step):
                retry_idempotent(self._widen)

    def forget(self, task: Any, names: bool = True) -> None:
        """Forget a task: its name, its weights, its history; KeyError where it is not known.

        With ``names``, also forget names of features and classes that only this task has had.
        """
        self.check_known(task)
        with Hold(self.locks.writing), Hold(self.locks.step):
            retry_idempotent(self._forget, task, names)

    def check_known(self, task: Any) -> None:
        """Raise KeyError for a task that is not known."""
        history = self.history
        if self.tasks.find(task) < 0 and (history is None or history.tasks.find(task) < 0):
            raise KeyError(f"no task {task!r} is known")

    def make_room(self, n_features: int, n_tasks: int = 0, n_classes: int = 0) -> None:
        """Make room for at least so many features, tasks and classes, before they come."""
        self.body = self.body.grown(n_features, n_tasks, n_classes)

    def adopt(self, scale: Scale, events: int | None = None) -> None:
        """Use a scale, and a number of events, that were merged from several engines."""
        self.scale = scale
        if events is not None:
            self.counts.events = events

    def count_once(self, passes: int) -> None:
        """Divide all counts by ``passes``, after each event was learned so many times."""
        with Hold(self.locks.step):
            old = self.counts
            since = np.where(old.since < 0, -1, -(-old.since // passes))
            owners = old.feature_owners, old.class_owners
            counted = EventCounts(old.seen // passes, since, old.events // passes, *owners)
            self.body = Body(self.learner, counted)

    def _learn_counted(self, rows: Rows, together: bool) -> Predictions:
        """Learn rows of positive weight; predict the others, of weight 0, in their turn."""
        n = len(rows.weight)
        read_context(rows.context, n)  # refused, if so, before anything is learned
        rows = rows._replace(offset=read_offset(self, rows.offset, 1.0))
        if rows.offset is not None and len(rows.offset) != n:
            raise ValueError(f"x has {n} rows but offset has {len(rows.offset)} entries")
        counts = np.flatnonzero(rows.weight)
        if not len(counts):
            return self.predict_and_observe(rows, together)
        if together:
            predictions = self.predict_and_observe(rows._replace(y=None))
            self.predict_and_learn(rows.select(counts), together=True)
            if self.history is not None:
                rest = rows.select(np.flatnonzero(rows.weight == 0.0))
                self.predict_and_observe(rest, together=True)
            return predictions
        return learn_in_turn(self, rows)

    def predict_and_observe(self, rows: Rows, together: bool = False) -> Predictions:
        """Predict rows that are not learned; their labels, where known, enter the history."""
        if rows.y is None or self.history is None:
            margins = self.margins(rows)
        else:
            with self.transaction(), Hold(self.locks.step):
                batch = read_unlabelled(self, rows, together=together, observing=True)
                margins = self._margins_of(batch)
                self.history.commit(len(batch.ids))
        if self.target.kind == "number":
            return Predictions(margins, np.full(len(margins), np.nan))
        return Predictions(margins, self.probability_of(margins))

    # Idempotent: may be run twice, see retry_idempotent

    def _commit_observed(self, actions: list[Action], body: Body, rounds: list[Round]) -> None:
        for act, argument in actions:
            act(argument)
        self.body = body
        while rounds:
            body.learner.update(rounds.pop())  # once, though this may be run again

    def _widen(self) -> None:
        if not isinstance(self.target, TwoClasses):
            return
        if not isinstance(self.learner, AddsClasses):
            old = self.learner
            parameters = {"inner": old.name, "parameters": dict(old.parameters)}
            made = known("classes")(old.n_features, old.n_tasks, **parameters)
            arrays = add_prefix("0.", old.arrays())
            arrays["classes"] = np.array([2])
            arrays["0.scale"] = np.array([self.scale.log_a, self.scale.curvature])
            made.load(arrays)
            counts, unknown = self.counts, [SEVERAL] * made.answers
            owners = counts.feature_owners, unknown
            counted = EventCounts(counts.seen, counts.since, counts.events, *owners)
            self.body = Body(made, counted)
        self.target = widened(self.target)  # last

    def _forget(self, task: Any, names: bool) -> None:
        number = self.tasks.find(task)
        if self.history is not None:
            self.history.forget(task)
        if number >= 0 and names:
            self._forget_names(number)
        if number >= 0:
            self.body.forget(number)
            self.tasks.remove(task)  # last

    def _forget_names(self, task: int) -> None:
        """Replace the names of features and classes that only one task has had."""
        counts, features = self.counts, self.features
        columns = np.flatnonzero(counts.feature_owners[: features.width] == task).tolist()
        if columns and isinstance(features, Names):
            gone = frozenset(map(features.name, columns))
            given: tuple[Any, ...] = ()
            if self.history is not None:
                self.history = self.history.without(gone)
                given = (*self.history.kernel.columns, self.history.kernel.time)
            features = features.without(columns, given)
            self.replace_features(features, features.mappings())
        classes = np.flatnonzero(counts.class_owners == task).tolist()
        if classes and isinstance(self.target, ManyClasses):
            self.target.forget(classes)

    # State

    def state(self, copy: bool = True) -> dict[str, Any]:
        """Return everything, NumPy arrays under ``"arrays"``; live ones if not a ``copy``."""
        whole: AbstractContextManager[Any] = nullcontext()
        if self.history is not None:
            whole = Hold(self.locks.writing)
        with whole, Hold(self.locks.step):
            more: dict[str, Any] = {}
            inner = self.learner.state(copy)
            arrays = add_prefix(LEARNER_PREFIX, inner.pop("arrays"))
            arrays["tasks.seen"] = self.counts.seen.copy()
            arrays["tasks.since"] = self.counts.since.copy()
            if len(self.counts.feature_owners):
                arrays[FEATURE_OWNERS] = self.counts.feature_owners.copy()
            if len(self.counts.class_owners):
                arrays[CLASS_OWNERS] = self.counts.class_owners.copy()
            if self.history is not None:
                more["history"] = self.history.to_json()
                arrays |= self.history.arrays()
            if self.with_offset:
                more["offset"] = True
            return {
                "learner": inner,
                "events": self.events,
                "arrays": arrays,
                "features": self.features.to_json(),
                "tasks": self.tasks.to_json(),
                "labels": self.target.to_json(),
                "new_task": self.new_task,
                "scale": [self.scale.log_a, self.scale.curvature],
                **more,
            }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the engine that gave a state; ValueError where it does not hold together."""
        features = features_from_json(state["features"])
        tasks = TaskTable.from_json(state["tasks"])
        target = target_from_json(state["labels"])
        arrays = state["arrays"]
        inner = take_prefix(LEARNER_PREFIX, arrays)
        learner = restore({**state["learner"], "arrays": inner})
        past = None
        stored = state.get("history")
        if stored is not None:
            past = TaskHistory.from_state(stored, arrays, target.kind == "number")
        made = cls(learner, features, target, tasks, state["new_task"], past)
        made.scale = Scale.from_json(state["scale"])
        made.with_offset = truth("offset", state.get("offset", False))
        events = whole("events", state["events"], least=0)
        seen = arrays["tasks.seen"]
        since = arrays["tasks.since"]
        for counts, least in ((seen, 0), (since, -1)):
            if counts.shape != (learner.n_tasks,) or counts.dtype != np.int64:
                raise ValueError(f"expected event counts of {learner.n_tasks} tasks")
            if events > MAX_EVENTS or counts.min() < least or counts.max() > MAX_EVENTS:
                raise ValueError(f"no task has the event count {counts.min()} or {counts.max()}")
        new, d, m, k = made.counts, learner.n_features, learner.n_tasks, learner.answers
        of_features = _read_owners(arrays.get(FEATURE_OWNERS), new.feature_owners, d, m)
        of_classes = _read_owners(arrays.get(CLASS_OWNERS), new.class_owners, k, m)
        counts = EventCounts(seen.copy(), since.copy(), events, of_features, of_classes)
        made.body = Body(learner, counts)
        width = fixed_width(features)
        if len(state["tasks"]) > learner.n_tasks or features.width > d or (width or d) != d:
            raise ValueError("the tasks or features named do not fit the learner's size")
        return made


def _new_counts(learner: Learner, features: Features, target: Target) -> EventCounts:
    """Return counts before any event; names given in advance belong to no single task."""
    m = learner.n_tasks
    of_features: list[int] = []
    of_classes: list[int] = []
    if isinstance(features, Names):
        of_features = [SEVERAL] * features.width
        of_features += [NOBODY] * (learner.n_features - features.width)
    if target.kind == "classes":
        of_classes = [SEVERAL] * len(target.known) + [NOBODY] * learner.answers
    zeros, never = np.zeros(m, dtype=np.int64), np.full(m, -1, dtype=np.int64)
    return EventCounts(zeros, never, 0, of_features, of_classes[: learner.answers])


def _read_owners(stored: Any, new: NDArray[np.int64], size: int, n_tasks: int) -> NDArray[np.int64]:
    """Return owners of features or classes from a state; SEVERAL where it stores none.

    ``new`` are the owners in a model that has learned nothing.
    """
    if stored is None:
        return np.full(len(new), SEVERAL, dtype=np.int64)
    if stored.shape != (size,) or stored.dtype != np.int64:
        raise ValueError(f"expected the owners of {size} features or classes")
    if size and not SEVERAL <= stored.min() <= stored.max() < n_tasks:
        raise ValueError("a feature or class belongs to a task that is not there")
    return np.asarray(stored)


# Making


def make_learner(target: Target, name: str, d: int, m: int, parameters: dict[str, Any]) -> Learner:
    """Return the learner of a name for a target, with room for d features and m tasks."""
    if target.kind == "classes":
        form = parameters.pop("form", None)
        n = max(2, len(target.classes))
        return known("classes")(d, m, inner=name, n_classes=n, form=form, parameters=parameters)
    if target.kind == "number":
        name = number_learner(name)
    made = known(name)(d, m, **parameters)
    if (made.answers == 0) != (target.kind == "number"):
        raise ValueError(f"{made.name} does not predict {target.kind}")
    return made


def fixed_width(features: Features) -> int | None:
    """Return the number of columns where it is fixed; None if columns grow."""
    if isinstance(features, Names):
        return None
    return features.width
