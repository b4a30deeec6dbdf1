"""The model: names in, labels out; one writer, any number of readers."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, Self, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from romco.learners import Learner, grown, learner, restore
from romco.learners.base import choice, whole
from romco.model.calibration import Scale
from romco.model.features import Features, Names, features_from_json
from romco.model.names import Id, Labels, Tasks, from_json, identity, to_json
from romco.model.rows import Dense, Rows, count, cut, matrix, predict, replay, widths

PIECE = 250  # events learned before waiting readers get a turn
WATCH = 1000  # events between looks at which tasks are personal; a multiple of PIECE
ONE = np.array([0, 1], dtype=np.int64)


@runtime_checkable
class StartsTasks(Protocol):
    """A learner with a shared part, from which new tasks can start."""

    @property
    def starts_tasks(self) -> bool:
        """Whether it can with its present parameters."""

    def mean_shared(self, n_started: int) -> Dense:
        """Sum of U's columns over ``n_started``, (d,)."""

    def start_task(self, task: int, n_started: int) -> None:
        """Set the task's column of U, which is 0, to ``mean_shared(n_started)``."""


@runtime_checkable
class ForgetsTasks(Protocol):
    """A learner that can clear a task by itself."""

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been."""


@final
class Model:
    """One linear classifier per task, for tasks, features and labels of any name.

    Tasks and features may appear at any time. A task not yet seen is predicted
    from the mean of what the tasks share, and starts there (``new_task="mean"``), where the
    learner has a shared part; with ``"zero"`` it starts as in the paper.

    One thread may learn while others predict: they see the model between two
    steps, never within one.

    >>> model = Model("romco-nucl", eta1=0.5)
    >>> for _ in range(3):
    ...     _ = model.learn_one({"word:free": 1, "length": 0.2}, "spam", task="ann")
    ...     _ = model.learn_one({"word:lunch": 1, "length": 0.3}, "ham", task="bob")
    >>> model.predict_one({"word:free": 1}, task="ann")
    'spam'
    >>> model.predict_one({"word:lunch": 1}, task="somebody new")
    'ham'

    Parameters
    ----------
    learner:
        A name from ``romco.LEARNERS``; its parameters follow by name.
    features:
        :class:`Names` (grow as they come), :class:`Hashed` or :class:`Columns`.
    classes:
        The two labels, the negative one first; else they are taken as they come.
    tasks:
        Tasks known from the beginning; they start at zero.

    """

    def __init__(
        self,
        learner_name: str = "romco-auto",
        features: Features | None = None,
        *,
        classes: Sequence[Any] | None = None,
        tasks: Iterable[Any] = (),
        new_task: Literal["mean", "zero"] = "mean",
        **parameters: Any,
    ) -> None:
        self.features: Features = Names() if features is None else features
        self.new_task = choice("new_task", new_task, "mean", "zero")
        self.notes: dict[str, Any] = {}  # yours: anything JSON can hold, kept in the file
        self.events = 0
        self._labels, self._tasks, self._scale = Labels(classes), Tasks(), Scale()
        for task in tasks:
            self._tasks.add(identity("task", task))
        d = self._fixed_width or _doubled(64, self.features.width)
        self._learner = learner(learner_name, d, len(self._tasks) or 8, **parameters)
        self._seen = np.zeros(self._learner.n_tasks, dtype=np.int64)
        self._since = np.full(self._learner.n_tasks, -1, dtype=np.int64)
        self._common: tuple[int, Dense] | None = None
        self._make_locks()

    # What is known

    @property
    def learner(self) -> Learner:
        """The learner inside; tasks and features are numbers to it."""
        return self._learner

    @property
    def tasks(self) -> list[Id]:
        """Names of the tasks, by number where none was forgotten."""
        return sorted(self._tasks.number, key=self._tasks.number.__getitem__)

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, the negative one first."""
        return self._labels.classes

    def numbers(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        """The learner's number of each task, -1 where it is not known."""
        return self._tasks.numbers(tasks)

    def events_of(self, task: Any) -> int:
        """How many events of a task were learned."""
        number = self._tasks.number.get(task, -1)
        return int(self._seen[number]) if number >= 0 else 0

    def personal_since(self, task: Any) -> int | None:
        """After how many events of all tasks this one was found to be personal, and stayed so.

        Looked at every 1000 events; None if the task is not personal.
        """
        number = self._tasks.number.get(task, -1)
        return int(self._since[number]) if number >= 0 and self._since[number] >= 0 else None

    # Predicting

    def margins(self, x: Any, task: Iterable[Any]) -> Dense:
        """Margins (n,) of rows ``x``; changes nothing that was learned."""
        with self._step:
            rows = self.features.read(x)
            numbers = self._tasks.numbers(task)
            _check_lengths(rows, task=numbers)
            known = numbers >= 0
            if known.all():
                return predict(self._learner, rows, numbers)
            margins = self._margins_of_new(rows)
            if known.any():  # any number does for the others: their margins are there already
                margins[known] = predict(self._learner, rows, np.maximum(numbers, 0))[known]
            return margins

    def predict(self, x: Any, task: Iterable[Any]) -> NDArray[Any]:
        """Labels (n,) of rows ``x``."""
        return self._labels.answers(self.margins(x, task))

    def probabilities(self, x: Any, task: Iterable[Any]) -> Dense:
        """Probability (n,) of the positive label, see :class:`romco.model.Scale`."""
        return self.probability_of(self.margins(x, task))

    def probability_of(self, margins: Dense) -> Dense:
        """Probability (n,) of the positive label, from margins of this model."""
        return self._scale.probability(margins)

    def margin_one(self, x: Any, task: Any) -> float:
        """Margin of one event."""
        return float(self.margins([x], [task])[0])

    def predict_one(self, x: Any, task: Any) -> Id:
        """Label of one event; None before any label is known."""
        return self.answer(self.margin_one(x, task))

    def probability_one(self, x: Any, task: Any) -> float:
        """Probability of the positive label of one event."""
        return float(self.probabilities([x], [task])[0])

    def answer(self, margin: float) -> Id:
        """The label that a margin predicts; None before any label is known."""
        return self._labels.answer(margin)

    def side(self, label: Any) -> float:
        """-1 or +1: the side of margin 0 on which a label is."""
        if label not in self._labels.side:
            known = " and ".join(map(repr, self.classes)) or "none"
            raise ValueError(f"label {label!r} is not one of the model's: {known}")
        return self._labels.side[label]

    # Learning

    def learn_one(self, x: Any, y: Any, task: Any) -> float:
        """Learn one event; gives the margin that was predicted just before."""
        return float(self.learn([x], [y], [task])[0])

    def learn(
        self, x: Any, y: Iterable[Any], task: Iterable[Any], *, together: bool = False
    ) -> Dense:
        """Learn rows one after the other, exactly as a loop of ``learn_one`` would.

        With ``together`` they are one round instead: all are predicted, then all are
        learned in one step. Gives the margins (n,) predicted just before.
        Nothing changes if any row is bad.
        """
        with self._writing:
            signs, sides = self._labels.read(y)
            ids = [identity("task", one) for one in task]
            new: dict[Id, int] = {}
            rows = self.features.read(x, new)
            _check_lengths(rows, task=ids, y=signs)
            with self._step:
                self._labels.side = sides
                self.features.add(new)
            margins = np.empty(len(ids))
            needed = widths(rows) if new else np.zeros(len(ids), dtype=np.int64)
            begin = 0
            while begin < len(ids):
                with self._step:
                    end = self._admit(ids, needed, begin, together)
                    margins[begin:end] = self._advance(
                        cut(rows, begin, end), ids[begin:end], signs[begin:end], together
                    )
                begin = end
            return margins

    def forget(self, task: Any) -> None:
        """Forget a task: its name, its weights, its history. Others stay as they are."""
        with self._writing, self._step:
            if task not in self._tasks.number:
                raise KeyError(f"no task {task!r} is known")
            number = self._tasks.number[task]
            if isinstance(self._learner, ForgetsTasks):
                self._learner.forget_task(number)
            else:
                _clear_task(self._learner, number)
            self._tasks.remove(task)
            self._seen[number], self._since[number] = 0, -1
            self._common = None

    # State

    def state(self) -> dict[str, Any]:
        """A copy of everything: JSON-able values, and NumPy arrays under ``"arrays"``."""
        with self._step:
            inner = self._learner.state()
            arrays = {f"learner.{name}": array for name, array in inner.pop("arrays").items()}
            arrays |= {"tasks.seen": self._seen.copy(), "tasks.since": self._since.copy()}
            return {
                "learner": inner,
                "features": self.features.to_json(),
                "tasks": self._tasks.to_json(),
                "labels": [[to_json(label), side] for label, side in self._labels.side.items()],
                "new_task": self.new_task,
                "events": self.events,
                "scale": [self._scale.log_a, self._scale.curvature],
                "notes": self.notes,
                "arrays": arrays,
            }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The model that gave ``state``; raises ValueError if it does not hold together."""
        arrays = state["arrays"]
        inner = {name[8:]: array for name, array in arrays.items() if name.startswith("learner.")}
        made = cls.__new__(cls)
        made.features = features_from_json(state["features"])
        made.new_task = choice("new_task", state["new_task"], "mean", "zero")
        made.notes = dict(state["notes"])
        made.events = whole("events", state["events"], least=0)
        made._tasks = Tasks.from_json(state["tasks"])
        made._labels = _labels(state["labels"])
        log_a, curvature = map(float, state["scale"])
        made._scale = Scale(log_a, curvature)
        made._learner = restore({**state["learner"], "arrays": inner})
        made._seen = np.array(arrays["tasks.seen"], dtype=np.int64)
        made._since = np.array(arrays["tasks.since"], dtype=np.int64)
        made._common = None
        made._make_locks()
        made._check()
        return made

    def __reduce__(self) -> Any:
        return Model.from_state, (self.state(),)

    # Within

    def _make_locks(self) -> None:
        self._writing = threading.RLock()  # held by the one who learns, from first to last row
        self._step = threading.Lock()  # held for one look or one step

    def _check(self) -> None:
        n, d = self._learner.n_tasks, self._learner.n_features
        width = self._fixed_width
        if (
            len(self._tasks.to_json()) > n
            or (width or self.features.width) > d
            or (width or d) != d
        ):
            raise ValueError("the tasks or features named do not fit the learner's size")
        if self._seen.shape != (n,) or self._since.shape != (n,):
            raise ValueError(f"expected the history of {n} tasks")

    @property
    def _fixed_width(self) -> int | None:
        return None if isinstance(self.features, Names) else self.features.width

    def _admit(self, ids: list[Id], needed: NDArray[np.int64], begin: int, together: bool) -> int:
        """Make room for the next row; gives the end of the run of rows that need no more room."""
        if together:
            for task in ids:
                self._meet(task)
            self._make_room(int(needed[-1]), 0)
            return len(ids)
        self._meet(ids[begin])
        self._make_room(int(needed[begin]), 0)
        known, d = self._tasks.number, self._learner.n_features
        end = min(len(ids), begin + PIECE - self.events % PIECE)
        for i in range(begin + 1, end):
            if ids[i] not in known or needed[i] > d:
                return i
        return end

    def _meet(self, task: Id) -> None:
        """Give a task that is new a number and a start."""
        if task in self._tasks.number:
            return
        self._make_room(0, self._tasks.next + 1)
        if self._starts_from_mean():
            self._learner.start_task(self._tasks.next, len(self._tasks))  # type: ignore[attr-defined]
        self._tasks.add(task)

    def _make_room(self, n_features: int, n_tasks: int) -> None:
        """At least this much room; doubled, so that growing costs little per event."""
        old = self._learner
        if n_features <= old.n_features and n_tasks <= old.n_tasks:
            return
        d, m = _doubled(old.n_features, n_features), _doubled(old.n_tasks, n_tasks)
        self._learner = grown(old, d, m)
        more = m - len(self._seen)
        self._seen = np.concatenate([self._seen, np.zeros(more, dtype=np.int64)])
        self._since = np.concatenate([self._since, np.full(more, -1, dtype=np.int64)])

    def _advance(self, rows: Rows, ids: list[Id], y: Dense, together: bool) -> Dense:
        """Learn rows for which there is room."""
        task = self._tasks.numbers(ids)
        starts = (
            ONE if len(y) == 1 else np.array([0, len(y)]) if together else np.arange(len(y) + 1)
        )
        margins = replay(self._learner, rows, task, y, starts)
        for margin, sign in zip(margins.tolist(), y.tolist(), strict=True):
            self._scale.add(margin, sign)
        np.add.at(self._seen, task, 1)
        before, self.events = self.events, self.events + len(y)
        if self.events // WATCH > before // WATCH:
            self._watch()
        return margins

    def _watch(self) -> None:
        """Note which tasks have become personal, and which no longer are."""
        if hasattr(self._learner, "personal_norms"):
            personal = self._learner.personal_norms() > 0.0
            self._since[~personal] = -1
            self._since[personal & (self._since < 0)] = self.events

    def _margins_of_new(self, rows: Rows) -> Dense:
        """Margins of a task that is not known."""
        if self._starts_from_mean():
            return matrix(rows, self._learner.n_features) @ self._mean_shared()
        self._make_room(0, self._tasks.next + 1)
        return predict(self._learner, rows, np.full(count(rows), self._tasks.next))

    def _starts_from_mean(self) -> bool:
        able = isinstance(self._learner, StartsTasks) and self._learner.starts_tasks
        return able and self.new_task == "mean" and len(self._tasks) > 0

    def _mean_shared(self) -> Dense:
        """Kept until something is learned: it costs as much as all features."""
        if self._common is None or self._common[0] != self.events:
            mean = self._learner.mean_shared(len(self._tasks))  # type: ignore[attr-defined]
            self._common = (self.events, mean)
        return self._common[1]


def _clear_task(old: Learner, task: int) -> None:
    """Set the task's entries of every array to what a new learner has there."""
    if old.keeps_events:
        raise ValueError(f"{old.name} keeps past events, so it cannot forget a single task")
    new, larger = (
        learner(old.name, old.n_features, m, **old.parameters).arrays()
        for m in (old.n_tasks, old.n_tasks + 1)
    )
    for name, array in old.arrays().items():
        for axis in range(array.ndim):
            if larger[name].shape[axis] > array.shape[axis]:
                at = (slice(None),) * axis + (task,)
                array[at] = new[name][at]


def _labels(found: Iterable[Any]) -> Labels:
    labels = Labels()
    for label, side in found:
        if side not in (-1.0, 1.0):
            raise ValueError(f"label {label!r} has side {side!r}, expected -1 or 1")
        labels.side[from_json(label)] = float(side)
    if len(labels.side) > 2 or len(set(labels.side.values())) < len(labels.side):
        raise ValueError("expected at most two labels, on different sides")
    return labels


def _doubled(size: int, needed: int) -> int:
    while size < needed:
        size *= 2
    return size


def _check_lengths(rows: Rows, **others: Any) -> None:
    n = count(rows)
    for name, values in others.items():
        if len(values) != n:
            raise ValueError(f"x has {n} rows but {name} has {len(values)} entries")
