"""A learner behind names: reads, predicts, learns, grows, counts, and goes on from a state.

:class:`romco.Model` is what users call; other packages reach what else they need by its ``engine``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import EventCounts, Scale
from romco.kernels.core.events import LARGEST_FEATURE, LARGEST_WEIGHT
from romco.kernels.io.encoded import Encoded
from romco.kernels.step import ChunkStep, Step, retry_idempotent
from romco.learners import Learner, grown, known, number_learner, restore
from romco.learners.base import CompiledLearner
from romco.learners.capabilities import (
    AddsClasses,
    GivesIntervals,
    LearnsDelayed,
    Newcomer,
    Started,
    StartsAtomically,
    StartsTasks,
)
from romco.learners.registry import forget, unstart
from romco.model.features import (
    Dense,
    Features,
    NamedFeatures,
    Names,
    Rows,
    Sparse,
    as_matrix,
    count_rows,
    cut,
    features_from_json,
    needed_widths,
    select_rows,
)
from romco.model.history import TaskHistory
from romco.model.lock import Hold, Locks
from romco.model.names import Action, Id, TaskTable, canonical_name, identities, identity
from romco.model.pending import read_context
from romco.model.target import Predictions, Target, TwoClasses, target_from_json, widened
from romco.parameters import choice, truth, whole
from romco.rounds import Round

Numbers = NDArray[np.int64]
MAX_EVENTS = 2**60  # more cannot be counted further
PERSONAL_CHECK_EVENTS = 1000  # events between looks at which tasks are personal
CHUNK_EVENTS = 250  # events learned before waiting readers get a turn
NO_NUMBERS = np.empty(0)


class Body(NamedTuple):
    """A learner and the events of its tasks, which grow together and are replaced together."""

    learner: Learner
    counts: EventCounts

    def grown(
        self, n_features: int, n_tasks: int, n_classes: int = 0, *, move: bool = True
    ) -> "Body":
        """Return the same if it has the room, else a larger one; doubled, so that it is rare.

        It takes over the pairs of task and feature unless ``move`` is false; use this one on only
        if the larger one has learned nothing.
        """
        old = self.learner
        if n_features <= old.n_features and n_tasks <= old.n_tasks and n_classes <= old.answers:
            return self
        if n_features <= old.n_features and n_tasks <= old.n_tasks and isinstance(old, AddsClasses):
            return Body(old.with_classes(n_classes), self.counts)
        d, m = next_double(old.n_features, n_features), next_double(old.n_tasks, n_tasks)
        new = grown(old, d, m, move=move)
        if new.answers > 1 and isinstance(new, AddsClasses):
            new.make_classes(max(n_classes, old.answers))
        return Body(new, self.counts.grown(m))


class GivenRows(NamedTuple):
    """Rows of a call, as they were given."""

    x: Any
    y: Any
    task: Any
    weight: Any = None
    offset: Any = None
    context: Any = None

    def listed(self) -> "GivenRows":
        """Return the same with lists, as long as the weights, so that rows can be selected."""
        y, task, weight = list(self.y), list(check_sequence(self.task)), self.weight
        if weight is not None and not len(y) == len(task) == len(weight):
            lengths = f"{len(weight)} entries but y has {len(y)} and task {len(task)}"
            raise ValueError(f"weight has {lengths}")
        rows = _given_rows(self.x)
        if rows is not None and rows != len(y):
            raise ValueError(f"x has {rows} rows but y has {len(y)} entries")
        return self._replace(y=y, task=task)

    def select(self, index: NDArray[np.intp]) -> "GivenRows":
        """Return some of the rows."""
        lists, arrays = (self.y, self.task, self.context), (self.weight, self.offset)
        y, task, context = (None if one is None else [one[i] for i in index] for one in lists)
        weight, offset = (None if one is None else np.asarray(one)[index] for one in arrays)
        return GivenRows(select_rows(self.x, index), y, task, weight, offset, context)


class Batch(NamedTuple):
    """Rows that were read and checked, to be learned one by one or ``together``."""

    rows: Rows
    ids: list[Id]  # task of each row
    y: Dense
    weight: Dense | None
    offset: Dense | None  # as the learner sees it
    needed: Numbers  # columns that the rows up to each one need
    names: list[tuple[Id, int]]  # new features and their columns
    labels: dict[Id, float]  # known once all rows are learned
    since: dict[Id, int]  # row in which each new label comes first
    together: bool
    context: Dense | None  # prediction context of the rows; NaN where there is none


class Chunk(NamedTuple):
    """Rows begin to end of a batch, for which ``body`` has room: learned whole or not at all."""

    begin: int
    end: int
    body: Body
    fresh: dict[Id, int]  # numbers for the tasks that are new
    start: int  # number of them that need a start


class PendingPredictions(NamedTuple):
    """Predictions of rows whose labels come late, and the moment they were made at."""

    margins: Dense
    context: Dense | None
    probabilities: Dense | None  # None where the target is a number
    events: int  # learned before


class Engine(Step):
    """All of a model that learning changes: names, the learner, counts, the scale, the locks.

    Tasks and features are numbers to the learner; -1 is a task that has no number yet. With
    ``new_task="mean"`` such a task is predicted, and starts, at the learner's ``common``.

    One thread may learn while others predict: they see the engine between two steps.
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
        m = learner.n_tasks
        empty = EventCounts(np.zeros(m, dtype=np.int64), np.full(m, -1, dtype=np.int64), 0)
        reader = features.mappings() if isinstance(features, NamedFeatures) else None
        body = Body(learner, empty)
        made_of = features, reader, target, tasks, body, Locks()
        super().__init__(*made_of, CompiledLearner, PERSONAL_CHECK_EVENTS)
        self.history = history
        self.new_task = choice("new_task", new_task, "mean", "zero")
        self.starts_tasks = new_task == "mean" and isinstance(learner, StartsTasks)
        self._adds_classes = isinstance(learner, AddsClasses)
        self._newcomer: tuple[int, Learner, Newcomer | None] | None = None

    # The learner, its tasks and its target

    @property
    def learner(self) -> Learner:
        """The learner; replaced when it grows, so use :meth:`at_rest` beside other threads."""
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
        """Hold the learner between two steps: ``with engine.at_rest() as learner``.

        Whoever learns or predicts waits meanwhile, so only read the learner within.
        """
        return Hold(self.locks.step, lambda: self.body.learner)

    def events_of(self, task: Any) -> int:
        """Return the number of events of a task that were learned; 0 if it is not known."""
        number = self.tasks.find(task)
        return int(self.counts.seen[number]) if number >= 0 else 0

    def personal_since(self, task: Any) -> int | None:
        """Return after how many events of all tasks this one became personal, and stayed so.

        Looked at every ``PERSONAL_CHECK_EVENTS``; None if the task is not personal.
        """
        number = self.tasks.find(task)
        since = int(self.counts.since[number]) if number >= 0 else -1
        return since if since >= 0 else None

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

    def margins(self, x: Any, task: Iterable[Any], offset: Any = None) -> Dense:
        """Return margins of rows; see :meth:`romco.Model.margins`."""
        with Hold(self.locks.step):
            margins, turn = self.margins_of(*self._read_rows(x, task, offset)), self.target.turn
            return margins if turn == 1.0 else turn * margins

    def margins_and_context(
        self, x: Any, task: Iterable[Any], offset: Any = None
    ) -> PendingPredictions:
        """Return margins and :meth:`prediction_context` of rows, of the same moment."""
        with Hold(self.locks.step):
            read = self._read_rows(x, task, offset)
            margins = self.target.turn * self.margins_of(*read)
            chances = None if self.target.kind == "number" else self.probability_of(margins)
            return PendingPredictions(margins, self._context(*read, x, task), chances, self.events)

    def prediction_context(self, x: Any, task: Iterable[Any], offset: Any = None) -> Dense | None:
        """Return numbers (n, k) to learn rows by whose labels come late: ``learn(context=)``.

        None where the learner has no use for them. With ids, :meth:`romco.Model.predict` and
        :meth:`romco.Model.answer` do so by themselves.
        """
        with Hold(self.locks.step):
            return self._context(*self._read_rows(x, task, offset), x, task)

    def intervals(self, x: Any, task: Iterable[Any], level: float, offset: Any = None) -> Dense:
        """Return bounds (n, 2) of rows; see :meth:`romco.Model.intervals`."""
        with Hold(self.locks.step):
            if not isinstance(self.learner, GivesIntervals):
                raise ValueError(f"{self.learner.name} predicts no numbers, so it has no intervals")
            round = self._round_with_room(*self._read_rows(x, task, offset))
            learner = self.learner  # perhaps a larger one
            assert isinstance(learner, GivesIntervals)
            return learner.intervals(round, level, frozen=not self.live)

    def probabilities(self, x: Any, task: Iterable[Any], offset: Any = None) -> Dense:
        """Return P(positive) (n,) of rows, of many classes (n, K); ValueError for numbers."""
        return self.probability_of(self.margins(x, task, offset))

    def probability_of(self, margins: Dense) -> Dense:
        """Return the probabilities that margins of this model stand for."""
        return self.target.probabilities(margins, self.scale)

    def margin_one(self, x: Any, task: Any, offset: float | None = None) -> float:
        """Return the margin of one event of two classes, or the predicted number."""
        margin = self.margin_of_event(x, task, offset)
        if margin is not NotImplemented:
            return float(margin)
        return float(self.margins([x], [task], one_offset(offset))[0])

    def probability_one(self, x: Any, task: Any, offset: float | None = None) -> float:
        """Return P(positive) of one event; ValueError where the target is a number."""
        if isinstance(self.target, TwoClasses):
            return self.scale.probability_of_one(self.margin_one(x, task, offset))
        return float(self.probabilities([x], [task], one_offset(offset))[0])

    def predict_one(self, x: Any, task: Any, offset: float | None = None) -> Any:
        """Return the label or number of one event; see :meth:`romco.Model.predict_one`."""
        label = self.label_of_event(x, task, offset)
        if label is NotImplemented:
            label = self.target.label_of(self.margins([x], [task], one_offset(offset))[0])
        return label

    def _read_rows(
        self, x: Any, task: Iterable[Any], offset: Any = None
    ) -> tuple[Rows, Numbers, Dense | None]:
        task = list(check_sequence(task))
        rows, numbers = self.with_history(x, task), self.tasks.numbers(task)
        known = self.read_offset(offset, self.target.turn, self.events > 0)
        check_lengths(rows, task=numbers, offset=known)
        return rows, numbers, known

    def read_rows(self, x: Any, task: Any) -> Rows:
        """Return rows of tasks as the learner takes them, with their history."""
        with Hold(self.locks.step):
            shape = (len(task), *[self.learner.answers] * (self.learner.answers > 1))
            offset = np.zeros(shape) if self.with_offset else None
            return self._read_rows(x, task, offset)[0]

    def with_history(
        self,
        x: Any,
        ids: list[Any],
        new: dict[Id, int] | None = None,
        y: Dense | None = None,
        given: Dense | None = None,
        together: bool = False,
    ) -> Rows:
        """Return rows, with history features where there is a history.

        Labels y are observed but not yet committed. They are as the learner sees them, NaN where
        one is not known.
        """
        if self.history is None:
            return self.features.read(x, new)
        assert isinstance(self.features, NamedFeatures)
        if y is not None and isinstance(self.target, TwoClasses):
            y = 0.5 + 0.5 * y  # as the history counts them: 0, 1, ...
        rows = self.features.encode(x, new is not None)
        check_lengths(rows, task=ids, y=y)
        wide = self.history.expand(
            ids, rows, None if together else y, given, learned=new is not None
        )
        if y is not None and together:
            self.history.observe(ids, rows, y, learned=new is not None)
        return self.features.read(wide, new)

    def read_offset(self, offset: Any, turn: float, learned: bool) -> Dense | None:
        """Return offsets (n,), of classes (n, K), as the learner sees them.

        ValueError where the model has none.

        The first events learned decide whether a model has offsets; from then on all events do.
        """
        if learned and (offset is not None) != self.with_offset:
            had, lacks = ("with", "needs an") if self.with_offset else ("without", "takes no")
            raise ValueError(
                f"this model was learned {had} an offset, so each event {lacks} offset; "
                "begin a new model to change that"
            )
        return None if offset is None else turn * read_offsets(offset, self.learner)

    def margins_of(self, rows: Rows, task: Numbers, offset: Dense | None = None) -> Dense:
        """Return the learner's margins (n,); those of task -1 are as the next task would start."""
        if (task >= 0).all():
            return predict(self.learner, rows, task, offset, self.live)
        margins = self._margins_of_new(rows, offset)
        named = task >= 0
        if named.any():  # any number does for the others: their margins are there already
            numbers = np.maximum(task, 0)
            margins[named] = predict(self.learner, rows, numbers, offset, self.live)[named]
        return margins

    def _margins_of_new(self, rows: Rows, offset: Dense | None) -> Dense:
        common = self._common()
        if common is not None and (offset is None or offset.ndim == 1):
            nobody = np.zeros(count_rows(rows), dtype=np.int64)
            margins = common.margins(as_round(self.learner, rows, nobody))
            return margins if offset is None else margins + offset
        self.body = self.body.grown(0, self.tasks.next + 1)
        newcomer = np.full(count_rows(rows), self.tasks.next)
        return predict(self.learner, rows, newcomer, offset, self.live)

    def _common(self) -> Newcomer | None:
        """Return how a new task starts; kept until the next event, for it may cost all weights."""
        kept, learner, counts = self._newcomer, self.learner, self.counts
        if kept is None or kept[0] != counts.events or kept[1] is not learner:
            common = None
            if self.starts_tasks and isinstance(learner, StartsTasks) and counts.n_started:
                common = learner.common(Started(counts.started, counts.n_started))
            self._newcomer = kept = (counts.events, learner, common)
        return kept[2]

    def _context(
        self, rows: Rows, task: Numbers, offset: Dense | None, x: Any, ids: Iterable[Any]
    ) -> Dense | None:
        if not len(task):
            return None
        context = None
        if isinstance(self.learner, LearnsDelayed):
            round, learner = self._round_with_room(rows, task, offset), self.learner
            assert isinstance(learner, LearnsDelayed)
            context = learner.prediction_context(round)
        if self.history is None:
            return context
        assert isinstance(self.features, NamedFeatures)
        return self.history.context(list(ids), self.features.encode(x, False), context)

    def _round_with_room(self, rows: Rows, task: Numbers, offset: Dense | None) -> Round:
        """Return rows as a round in which task -1 is the next task, for which there is room."""
        if (task < 0).any():
            self.body = self.body.grown(0, self.tasks.next + 1)
            task = np.where(task < 0, self.tasks.next, task)
        return as_round(self.learner, rows, task, offset=offset)

    # Learning

    def predict_and_learn(
        self,
        x: Any,
        y: Iterable[Any],
        task: Iterable[Any],
        *,
        together: bool = False,
        weight: Any = None,
        offset: Any = None,
        context: Any = None,
        with_probabilities: bool = True,
    ) -> Predictions:
        """Learn rows as :meth:`romco.Model.learn`; return what was predicted just before.

        >>> import romco
        >>> engine = romco.Model("pa-unique").engine
        >>> engine.predict_and_learn([{"a": 1}, {"a": 1}], [1, 0], ["ann", "ann"])
        Predictions(margins=array([0., 1.]), probabilities=array([0.5       , 0.73105858]))
        """
        weight = None if weight is None else read_weights(weight, self.learner)
        given = GivenRows(x, y, task, weight, offset, context)
        if weight is not None and not weight.all():
            with self.transaction():
                return self._learn_counted(given.listed(), together)
        with self.transaction():
            before, turn, n = self.events, self.target.turn, 0
            try:
                batch = self._read(given, together)
                n = len(batch.ids)
                margins, log_a = self.target.allocate(n, len(batch.labels)), np.zeros(n)
                end = 0
                while end < n:
                    begin = end
                    with Hold(self.locks.step):
                        end, chunk = self._learn_chunk(batch, begin, log_a)
                    margins[(slice(begin, end), *map(slice, chunk.shape[1:]))] = chunk
            except BaseException as error:
                if self.events > before:
                    error.add_note(f"{self.events - before} of {n} rows were learned")
                raise
            finally:
                self._rollback_history()  # what was not committed with a chunk
            if offset is not None:  # has the sign of the labels known in the end
                turn = self.target.turn
            margins = self.target.outward(margins, batch.y, turn)
            if batch.since:
                since = dict.fromkeys(batch.since, n - 1) if together else batch.since
                self.target.hide(margins, since)
        if not with_probabilities:
            return Predictions(margins, NO_NUMBERS)
        return Predictions(margins, self.target.probabilities_then(margins, log_a))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Let one thread change the engine; where nothing is learned and an error leaves, undo all.

        May be nested: what was to be learned within is one transaction.
        """
        with Hold(self.locks.writing):
            events = self.events
            mark = self._mark()
            try:
                yield
            except BaseException:
                if self.events == events:
                    with Hold(self.locks.step):
                        retry_idempotent(self._restore_mark, mark)
                raise

    def _mark(self) -> tuple[Any, ...]:
        """Return what rows change before any of them is learned."""
        cells = self.features.cells if isinstance(self.features, NamedFeatures) else None
        columns = None if cells is None else (cells.schema, cells.required)
        return columns, self.body, self.target, self.history, self.with_offset, self._adds_classes

    def _restore_mark(self, mark: tuple[Any, ...]) -> None:
        columns, self.body, self.target, self.history, self.with_offset, self._adds_classes = mark
        if isinstance(self.features, NamedFeatures):
            self.features.cells.schema, self.features.cells.required = columns
        self._newcomer = None
        self._rollback_history()

    def _rollback_history(self) -> None:
        if self.history is not None:
            self.history.rollback()

    def learn_one(
        self, x: Any, y: Any, task: Any, weight: float = 1.0, offset: float | None = None
    ) -> Any:
        """Learn one event; return the margin (of many classes: all) predicted just before."""
        margin = self.learn_event(x, y, task, weight, offset)
        if margin is not NotImplemented:
            return margin
        weights = None if weight == 1.0 else [weight]
        batch = self.predict_and_learn(
            [x], [y], [task], weight=weights, offset=one_offset(offset), with_probabilities=False
        )
        return float(batch.margins[0]) if batch.margins.ndim == 1 else batch.margins[0]

    def check(self, x: Any, y: Iterable[Any], task: Iterable[Any], offset: Any = None) -> None:
        """Raise ValueError where rows could not be learned; keeps only how columns are read."""
        with self.transaction():
            self._read(GivenRows(x, y, task, offset=offset), observing=False)

    def observe(self, x: Any, task: Iterable[Any]) -> None:
        """Learn from rows without labels what needs none: new features, new tasks, their sizes.

        For rows whose labels will not come; the others are observed when they are learned.
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
                rows = self.with_history(x, ids, new)
            check_lengths(rows, task=ids)
            names = list(zip(identities("feature", new), new.values(), strict=True))
            fresh = {} if self.starts_tasks else self.tasks.offered(ids)
            width, n = int(needed_widths(rows)[-1]) if new else 0, count_rows(rows)
            body = self.body.grown(width, max(fresh.values(), default=-1) + 1)
            rounds = []
            if n:
                nobody = np.zeros(n, dtype=np.int64)  # the same is observed whatever the task
                unlabelled = as_round(body.learner, rows, nobody)._replace(y=np.full(n, np.nan))
                rounds.append(unlabelled)
            actions = [*self.features.actions(names, width), *self.tasks.actions(fresh)]
            with Hold(self.locks.step):
                retry_idempotent(self._commit_observed, actions, body, rounds)

    def widen_for(self, labels: Iterable[Any]) -> None:
        """Become a model of many classes if there are more than two, with all learned so far.

        Two classes are learned alike by both, so nothing else changes; margins are then
        log-probabilities of the classes.

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
        if len({canonical_name(identity("label", name)) for name in names}) > 2:
            if self.events and self.with_offset:
                raise ValueError(f"a third label in {names}: a model with offsets has two classes")
            with Hold(self.locks.writing), Hold(self.locks.step):
                retry_idempotent(self._widen)

    def forget(self, task: Any) -> None:
        """Forget a task: its name, its weights, its history; KeyError where it is not known."""
        history = self.history
        if self.tasks.find(task) < 0 and (history is None or history.tasks.find(task) < 0):
            raise KeyError(f"no task {task!r} is known")
        with Hold(self.locks.writing), Hold(self.locks.step):
            retry_idempotent(self._forget, task)

    def make_room(self, n_features: int, n_tasks: int = 0) -> None:
        """Make room for at least so many features and tasks, before they come."""
        self.body = self.body.grown(n_features, n_tasks)

    def adopt(self, scale: Scale, events: int | None = None) -> None:
        """Go on with the scale, and the number of events, that several engines agreed on."""
        self.scale = scale
        if events is not None:
            self.counts.events = events

    def count_once(self, passes: int) -> None:
        """Count every event once, after all were learned ``passes`` times over."""
        with Hold(self.locks.step):
            old = self.counts
            since = np.where(old.since < 0, -1, -(-old.since // passes))
            counted = EventCounts(old.seen // passes, since, old.events // passes)
            self.body = Body(self.learner, counted)

    def _learn_counted(self, given: GivenRows, together: bool) -> Predictions:
        """Learn the rows that count; the others, of weight 0, are only predicted, in their turn."""
        x, y, task, weight, offset, context = given
        n = len(weight)
        read_context(context, n)  # refused, if so, before anything is learned
        offset = self.read_offset(offset, 1.0, self.events > 0)
        if offset is not None and len(offset) != n:
            raise ValueError(f"x has {n} rows but offset has {len(offset)} entries")
        given, counts = given._replace(offset=offset), np.flatnonzero(weight)
        if not len(counts):
            return self.predict_and_observe(x, task, offset, y, together)
        if together:
            predictions = self.predict_and_observe(x, task, offset)
            self.predict_and_learn(**given.select(counts)._asdict(), together=True)
            if self.history is not None:
                rest = given.select(np.flatnonzero(weight == 0.0))
                self.predict_and_observe(rest.x, rest.task, rest.offset, rest.y, together=True)
            return predictions
        return learn_in_turn(self, given)

    def predict_and_observe(
        self,
        x: Any,
        task: list[Any],
        offset: Any = None,
        y: Sequence[Any] | None = None,
        together: bool = False,
    ) -> Predictions:
        """Predict rows that are not learned; their labels, where known, enter the history."""
        if y is None or self.history is None:
            margins = self.margins(x, task, offset)
        else:
            with self.transaction(), Hold(self.locks.step):
                self.history = self.history.with_classes(len(self.target.known))
                labels = self.sides_of(y)
                known = self.read_offset(offset, self.target.turn, self.events > 0)
                ids = identities("task", task)
                rows = self.with_history(x, ids, None, labels, together=together)
                check_lengths(rows, task=ids, offset=known)
                margins = self.target.turn * self.margins_of(rows, self.tasks.numbers(ids), known)
                self.history.commit(len(ids))
        if self.target.kind == "number":
            return Predictions(margins, np.full(len(margins), np.nan))
        return Predictions(margins, self.probability_of(margins))

    def sides_of(self, labels: Iterable[Any]) -> Dense:
        """Return the learner's number of each label; NaN where it is not known."""

        def number(label: Any) -> float:
            try:
                return self.target.turn * self.target.number_of(label)
            except (ValueError, TypeError):
                return np.nan

        return np.array([number(label) for label in labels])

    def _read(self, given: GivenRows, together: bool = False, observing: bool = True) -> Batch:
        x, y, task, weight, offset, context = given
        answers, labels = self.target.read(y)
        ids = identities("task", check_sequence(task))
        new: dict[Id, int] = {}
        known = then = None
        if offset is not None or self.with_offset:
            turn = self.turn_with(labels, self.events > 0)
            known = self.read_offset(offset, turn, self.events > 0)
        if self._adds_classes and isinstance(self.learner, AddsClasses):
            self.learner.check_classes(len(labels))
        if self.history is not None:
            then, context = self.history.split_context(context, len(ids))
        late = read_context(context, len(ids))
        lengths = {"task": ids, "y": answers, "weight": weight, "offset": known}
        if self.history is None:
            rows = self.features.read(x, new)
            check_lengths(rows, **lengths)
        else:
            assert isinstance(self.features, NamedFeatures)
            x = self.features.encode(x, True)
            check_lengths(x, **lengths)
            past = answers if observing else None
            with Hold(self.locks.step):
                self.history = self.history.with_classes(len(labels))
                rows = self.with_history(x, ids, new, past, then, together)
        needed = needed_widths(rows) if new else np.zeros(len(ids), dtype=np.int64)
        names = list(zip(identities("feature", new), new.values(), strict=True))
        fresh = {label: labels[label] for label in labels.keys() - self.target.known.keys()}
        since = {label: int(np.argmax(answers == number)) for label, number in fresh.items()}
        return Batch(
            rows, ids, answers, weight, known, needed, names, labels, since, together, late
        )

    def turn_with(self, labels: dict[Id, float], learned: bool) -> float:
        """Return the turn once these labels are known, as offsets are learned by it."""
        if self.target.kind == "classes" and len(labels) > self.learner.answers:
            raise ValueError(
                f"a new label among {list(labels)}: a model with offsets needs all classes= first"
            )
        turn = self.target.changes(labels).get("turn", self.target.turn)
        if learned and turn != self.target.turn:
            raise ValueError(
                f"of the labels {list(labels)} another one is positive than offsets were learned "
                "for, before both were known: begin a new model, and name classes or positive"
            )
        return float(turn)

    def _learn_chunk(self, batch: Batch, begin: int, log_a: Dense) -> tuple[int, Dense]:
        """Learn the chunk from row ``begin`` on; return its end and its margins.

        Where it raises, the engine is as before, or as after the whole chunk; or, where the
        learner itself failed, as after the rows before the one that it failed at.
        """
        chunk = self._plan(batch, begin)
        (learner, counts), end = chunk.body, chunk.end
        ids = batch.ids[begin:end]
        numbers = self.tasks.numbers(ids)
        for at in np.flatnonzero(numbers < 0) if chunk.fresh else ():
            numbers[at] = chunk.fresh[ids[at]]
        weight = None if batch.weight is None else batch.weight[begin:end]
        offset = None if batch.offset is None else batch.offset[begin:end]
        rows = cut(batch.rows, begin, end)
        round = as_round(learner, rows, numbers, batch.y[begin:end], weight, offset)
        events = learner.events_of(round, labelled=True)
        self.with_offset = offset is not None
        if batch.context is not None and isinstance(learner, LearnsDelayed):
            learner.set_context(events, batch.context[begin:end])
        changed = chunk.body is not self.body or self.history is not None
        named = changed or bool(chunk.fresh or batch.names or batch.since)
        commit = partial(self._actions, batch, chunk) if named else None
        starts, rollback = _starts_of(chunk)
        if not is_compiled(learner) and type(learner).prepare_update is Learner.prepare_update:
            rollback = partial(learner.load, {k: a.copy() for k, a in learner.arrays().items()})
        scale = self.scale if isinstance(self.target, TwoClasses) else None
        round_starts = np.array([0, len(ids)]) if batch.together else np.arange(len(ids) + 1)
        step = ChunkStep(
            counts, scale, log_a[begin:end], events, round_starts,
            commit, starts, rollback, self.watch, PERSONAL_CHECK_EVENTS,
        )  # fmt: skip
        if is_compiled(learner):
            return end, step.compiled(learner.kernel)  # type: ignore[attr-defined]
        return end, step.plain(partial(_attempt, learner, round))

    def _plan(self, batch: Batch, begin: int) -> Chunk:
        """Return the longest chunk from row ``begin`` on; changes nothing.

        It ends before a row that needs more room, or a task that must be started.
        """
        ids, needed, known, find = batch.ids, batch.needed, self.tasks.number, self.tasks.find
        last = len(ids) if batch.together else begin + 1
        one_known = ids[begin] in known and last == begin + 1
        fresh = {} if one_known else self.tasks.offered(ids[begin:last])
        classes = int(batch.y[begin:last].max()) + 1 if self._adds_classes else 0
        room = max(fresh.values(), default=-1) + 1
        # A round may fail after some of its events.
        body = self.body.grown(int(needed[last - 1]), room, classes, move=not batch.together)
        if batch.together:
            return Chunk(0, last, body, fresh, len(set(fresh.values())) if self.starts_tasks else 0)
        if is_compiled(body.learner):
            last = min(len(ids), begin + CHUNK_EVENTS - self.events % CHUNK_EVENTS)
        last = _fitting(batch, body.learner, begin, last)
        new = set(ids[begin + 1 : last]).difference(known)
        end = _first_of(ids, begin + 1, last, new)
        if end < last:  # tasks that are known by another form, or need no start, may join
            offered = {} if self.starts_tasks else self.tasks.offered(ids[begin:last])
            fits = {task: at for task, at in offered.items() if at < body.learner.n_tasks}
            joining = fits or fresh
            alone = {task for task in new if task not in joining and find(task) < 0}
            end = _first_of(ids, end, last, alone)
            joined = set(ids[begin:end])
            fresh = {task: at for task, at in joining.items() if task in joined}
        return Chunk(begin, end, body, fresh, min(len(fresh), 1) if self.starts_tasks else 0)

    def _actions(self, batch: Batch, chunk: Chunk, n: int) -> list[Action]:
        """Return the actions that commit the first n rows of a chunk: names, the larger body."""
        begin, end = chunk.begin, chunk.begin + n
        learned = set(batch.ids[begin:end])
        fresh = {task: number for task, number in chunk.fresh.items() if task in learned}
        actions = self.tasks.actions(fresh)
        if chunk.body is not self.body:
            actions.append((partial(setattr, self, "body"), chunk.body))
        if self.history is not None:
            actions += self.history.actions(end)
        if batch.names:
            actions += self.features.actions(batch.names, int(batch.needed[end - 1]))
        if batch.since:
            since, labels = batch.since, batch.labels.items()
            adopted = {label: number for label, number in labels if since.get(label, 0) < end}
            actions.append((self.target.__dict__.update, self.target.changes(adopted)))
        return actions

    # Idempotent: may be run twice, see retry_idempotent

    def watch(self) -> None:
        """Note which tasks have become personal, and which no longer are."""
        personal = personal_tasks(self.learner)
        if personal is not None:
            since = self.counts.since
            since[~personal] = -1
            since[personal & (since < 0)] = self.events

    def _commit_observed(self, actions: list[Action], body: Body, rounds: list[Round]) -> None:
        for act, argument in actions:
            act(argument)
        self.body = body
        while rounds:
            body.learner.update(rounds.pop())  # once, though this may be run again

    def _widen(self) -> None:
        if not isinstance(self.target, TwoClasses):
            return
        if not self._adds_classes:
            old, scale = self.learner, [self.scale.log_a, self.scale.curvature]
            parameters = {"inner": old.name, "parameters": dict(old.parameters)}
            made = known("classes")(old.n_features, old.n_tasks, **parameters)
            arrays = {f"0.{name}": array for name, array in old.arrays().items()}
            slots = {name: array for name, array in made.arrays().items() if name == "slots"}
            arrays |= {"classes": np.array([2]), "0.scale": np.array(scale), **slots}
            made.load(arrays)
            self.body = Body(made, self.counts)
            self._adds_classes, self._newcomer = True, None
        self.target = widened(self.target)  # last

    def _forget(self, task: Any) -> None:
        number = self.tasks.find(task)
        if self.history is not None:
            self.history.forget(task)
        if number >= 0:
            forget(self.learner, number)
            self.counts.forget(number)
            self._newcomer = None
            self.tasks.remove(task)  # last

    # State

    def state(self, copy: bool = True) -> dict[str, Any]:
        """Return everything, NumPy arrays under ``"arrays"``; live ones if not a ``copy``."""
        whole = nullcontext() if self.history is None else Hold(self.locks.writing)
        with whole, Hold(self.locks.step):
            inner, counts = self.learner.state(copy), self.counts
            past = self.history
            stored = {} if past is None else {"history": past.to_json()}
            arrays = {f"learner.{name}": array for name, array in inner.pop("arrays").items()}
            arrays |= {"tasks.seen": counts.seen.copy(), "tasks.since": counts.since.copy()}
            arrays |= {} if past is None else past.arrays()
            return {
                "learner": inner,
                "events": self.events,
                "arrays": arrays,
                "features": self.features.to_json(),
                "tasks": self.tasks.to_json(),
                "labels": self.target.to_json(),
                "new_task": self.new_task,
                "scale": [self.scale.log_a, self.scale.curvature],
                **stored,
                **({"offset": True} if self.with_offset else {}),
            }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the engine that gave a state; ValueError where it does not hold together."""
        features, tasks = features_from_json(state["features"]), TaskTable.from_json(state["tasks"])
        target, scale = target_from_json(state["labels"]), Scale.from_json(state["scale"])
        arrays = state["arrays"]
        inner = {name[8:]: array for name, array in arrays.items() if name.startswith("learner.")}
        learner = restore({**state["learner"], "arrays": inner})
        stored, past = state.get("history"), None
        if stored is not None:
            past = TaskHistory.from_state(stored, arrays, target.kind == "number")
        made = cls(learner, features, target, tasks, state["new_task"], past)
        made.scale, made.with_offset = scale, truth("offset", state.get("offset", False))
        events = whole("events", state["events"], least=0)
        seen, since = (arrays[f"tasks.{name}"] for name in ("seen", "since"))
        for counts, least in ((seen, 0), (since, -1)):
            if counts.shape != (learner.n_tasks,) or counts.dtype != np.int64:
                raise ValueError(f"expected event counts of {learner.n_tasks} tasks")
            if events > MAX_EVENTS or counts.min() < least or counts.max() > MAX_EVENTS:
                raise ValueError(f"no task has the event count {counts.min()} or {counts.max()}")
        made.body = Body(learner, EventCounts(seen.copy(), since.copy(), events))
        width, d = fixed_width(features), learner.n_features
        if len(state["tasks"]) > learner.n_tasks or features.width > d or (width or d) != d:
            raise ValueError("the tasks or features named do not fit the learner's size")
        return made


# Making


def make_learner(target: Target, name: str, d: int, m: int, parameters: dict[str, Any]) -> Learner:
    """Return the learner of a name for a target, with room for d features and m tasks."""
    if target.kind == "classes":
        form, n = parameters.pop("form", None), max(2, len(target.classes))
        return known("classes")(d, m, inner=name, n_classes=n, form=form, parameters=parameters)
    made = known(number_learner(name) if target.kind == "number" else name)(d, m, **parameters)
    if (made.answers == 0) != (target.kind == "number"):
        raise ValueError(f"{made.name} does not predict {target.kind}")
    return made


def fixed_width(features: Features) -> int | None:
    """Return the number of columns where it is fixed; None if columns grow."""
    return None if isinstance(features, Names) else features.width


def next_double(size: int, needed: int) -> int:
    """Return the size, doubled until it is enough."""
    while size < needed:
        size *= 2
    return size


# Reading


def _given_rows(x: Any) -> int | None:
    """Return the number of rows as they were given; None where they have no length."""
    if isinstance(x, Encoded | Sparse):
        return len(x.starts) - 1
    if hasattr(x, "shape"):  # sparse matrices have no length
        return int(x.shape[0])
    return len(x) if isinstance(x, Sized) else None


def check_sequence(tasks: Iterable[Any]) -> Iterable[Any]:
    """Return the tasks; ValueError for a text, which is one task and no list of them."""
    if isinstance(tasks, str | bytes):
        raise ValueError(f"expected a task for each row, got the text {tasks!r}: put it in a list")
    return tasks


def check_lengths(rows: Rows | Encoded, **others: Any) -> None:
    """Raise ValueError where something, that is not None, has not one entry per row."""
    n = count_rows(rows)
    for name, values in others.items():
        if values is not None and len(values) != n:
            raise ValueError(f"x has {n} rows but {name} has {len(values)} entries")


def read_weights(weight: Any, learner: Learner) -> Dense:
    """Return weights (n,) as numbers; ValueError where one is bad, or the learner takes none."""
    if not learner.supports_sample_weight:
        raise ValueError(
            f"{learner.name} cannot learn events that count differently: leave out the weights, "
            "or take romco-auto or another learner that can"
        )
    limit = f"weight {{}}; a weight must be 0 or a positive number up to {LARGEST_WEIGHT:g}"
    return _read_numbers("weight", weight, 0.0, LARGEST_WEIGHT, limit)


def read_offsets(offset: Any, learner: Learner) -> Dense:
    """Return offsets as numbers (n,), of classes (n, K).

    Raises ValueError where one is bad, or the learner takes none.
    """
    if not learner.supports_offset:
        raise ValueError(f"{learner.name} takes no offset: leave it out, or take romco-auto")
    limit = f"the offset is {{}}; it must be finite and at most {LARGEST_FEATURE:g} in size"
    bounds = -LARGEST_FEATURE, LARGEST_FEATURE, limit
    if learner.answers < 2:
        return _read_numbers("offset", offset, *bounds)
    given = np.asarray(offset)
    if given.ndim != 2 or given.shape[1] != learner.answers:
        raise ValueError(
            f"expected an offset per row and class, (n, {learner.answers}), in Python; got shape "
            f"{given.shape}: name all classes= of the model, and give one for each"
        )
    return _read_numbers("offset", given.ravel(), *bounds).reshape(given.shape)


def _read_numbers(name: str, values: Any, least: float, largest: float, limit: str) -> Dense:
    """Return one number per row (n,); ValueError, with ``limit``, where one is out of bounds."""
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "fiub":
        raise ValueError(f"expected one {name} per row; got {given.dtype}{list(given.shape)}")
    numbers = given.astype(np.float64)
    bad = np.flatnonzero(~((numbers >= least) & (numbers <= largest)))
    if len(bad):
        raise ValueError(f"row {bad[0]}: {limit.format(numbers[bad[0]])}")
    return numbers


def one_offset(offset: Any) -> list[Any] | None:
    """Return the offset of one event as that of one row."""
    return None if offset is None else [offset]


def learn_in_turn(engine: Any, given: GivenRows) -> Predictions:
    """Learn the rows of positive weight and predict those of weight 0, each in its turn.

    ``engine`` is that of a model, or shards.
    """
    checked = given.select(np.flatnonzero(given.weight))  # all of it, before any is learned
    engine.check(checked.x, checked.y, checked.task, checked.offset)
    rest = given.select(np.flatnonzero(given.weight == 0.0))
    engine.predict_and_observe(rest.x, rest.task, rest.offset)
    parts = []
    ends = np.flatnonzero(np.diff(given.weight > 0.0)) + 1
    for part in map(given.select, np.split(np.arange(len(given.weight)), ends)):
        if part.weight[0]:
            known = {name: value for name, value in part._asdict().items() if value is not None}
            parts.append(engine.predict_and_learn(**known))
        else:
            parts.append(engine.predict_and_observe(part.x, part.task, part.offset, part.y))
    return join_predictions(parts)


def join_predictions(parts: Sequence[Predictions]) -> Predictions:
    """Return the predictions of parts end to end."""
    margins, probabilities = zip(*parts, strict=True)
    return Predictions(_stack(margins, -np.inf), _stack(probabilities, 0.0))


def _stack(parts: Any, missing: float) -> Dense:
    """Return parts end to end; earlier ones may know fewer classes."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    widest = max(part.shape[1] for part in parts)
    return np.concatenate(
        [
            np.pad(part, ((0, 0), (0, widest - part.shape[1])), constant_values=missing)
            for part in parts
        ]
    )


# Rows as a learner takes them


class LightMatrix:
    """The attributes of a CSR matrix that compiled learners read, without the cost to make one."""

    __slots__ = ("data", "indices", "indptr", "shape")
    format = "csr"

    def __init__(self, rows: Sparse, width: int) -> None:
        self.data, self.indices, self.indptr = rows
        self.shape = (len(rows.starts) - 1, width)


def as_round(
    learner: Learner,
    rows: Rows,
    task: Numbers,
    y: Dense = NO_NUMBERS,
    weight: Dense | None = None,
    offset: Dense | None = None,
) -> Round:
    """Return rows of these tasks as the learner takes them; without labels if none are given."""
    x: Any = rows
    if isinstance(rows, Sparse):
        fits = rows.columns.max(initial=-1) < learner.n_features
        light = fits and type(learner).predict is CompiledLearner.predict
        x = LightMatrix(rows, learner.n_features) if light else as_matrix(rows, learner.n_features)
    return Round(task, x, y, weight, offset)


def predict(
    learner: Learner,
    rows: Rows,
    task: Numbers,
    offset: Dense | None = None,
    live: bool = False,
) -> Dense:
    """Return margins (n,); columns that the learner does not have yet weigh nothing."""
    if not len(task):
        return np.empty(0)
    round = as_round(learner, rows, task, offset=offset)
    return learner.predict(round) if live else learner.predict_frozen(round)


def is_compiled(learner: Learner) -> bool:
    """Return whether a kernel learns whole chunks."""
    return type(learner).replay is CompiledLearner.replay


def personal_tasks(learner: Learner) -> NDArray[np.bool_] | None:
    """Return which tasks (m,) the learner finds personal; None if it does not judge."""
    tasks = learner.personal_tasks()
    if tasks is None:
        return None
    personal = np.zeros(learner.n_tasks, dtype=bool)
    personal[tasks] = True
    return personal


# Chunks


def _first_of(ids: list[Id], begin: int, end: int, tasks: set[Id]) -> int:
    """Return the first place from ``begin`` on of one of these tasks; ``end`` if there is none."""
    places = (at for at in range(begin, end) if ids[at] in tasks)
    return next(places, end) if tasks else max(begin, end)


def _fitting(batch: Batch, learner: Learner, begin: int, last: int) -> int:
    """Return the end of the rows from ``begin`` on that need no more columns and classes."""
    needed = batch.needed[begin:last]  # never falls
    end = begin + int(np.searchsorted(needed, learner.n_features, side="right"))
    if learner.answers > 1:
        beyond = np.flatnonzero(batch.y[begin:end] >= learner.answers)
        end = begin + int(beyond[0]) if len(beyond) else end
    return max(end, begin + 1)


def _attempt(learner: Learner, round: Round) -> tuple[Dense, Callable[[], object] | None]:
    margins = learner.predict(round)
    commit = learner.prepare_update(round)
    if commit is None:
        learner.update(round)
    return margins, commit


def _starts_of(chunk: Chunk) -> tuple[list[Callable[[], object]], Callable[[], None] | None]:
    """Return what starts the chunk's new tasks, and what rolls that back."""
    learner, counts = chunk.body
    if not chunk.start or not counts.n_started:
        return [], None
    started = Started(counts.started, counts.n_started)
    numbers = list(dict.fromkeys(chunk.fresh.values()))[: chunk.start]
    if isinstance(learner, StartsAtomically):
        starts = [learner.starting(number, started) for number in numbers]
    else:
        assert isinstance(learner, StartsTasks)
        starts = [partial(learner.start_task, number, started) for number in numbers]
    return starts, partial(_unstart_all, learner, numbers)


def _unstart_all(learner: Learner, numbers: list[int]) -> None:
    for number in numbers:
        unstart(learner, number)
