"""A learner that gets more room when it needs it, and knows how its tasks began."""

from __future__ import annotations

from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from romco.learners import Learner, grown, restore
from romco.learners.capabilities import (
    FindsOutliers,
    GivesIntervals,
    ManyClasses,
    Newcomer,
    Started,
    StartsTasks,
)
from romco.learners.forgetting import forget
from romco.model.rows import Dense, Rows, Task, as_round, count, predict, replay
from romco.parameters import whole

LONGEST = 2**60  # events: more cannot be counted further
WATCH = 1000  # events between looks at which tasks are personal
ONE = np.array([0, 1], dtype=np.int64)


@final
class GrowingLearner:
    """A learner, and for each task how many events it has had and since when it is personal.

    Tasks and features are numbers here; -1 is a task that has no number yet.
    With ``from_mean`` such a task is predicted, and starts, at the learner's ``common``.
    """

    def __init__(self, inner: Learner, from_mean: bool) -> None:
        self.learner = inner
        self.events = 0
        self.seen = np.zeros(inner.n_tasks, dtype=np.int64)  # events of each task
        self.since = np.full(inner.n_tasks, -1, dtype=np.int64)  # found personal then, or -1
        self.starts = from_mean and isinstance(inner, StartsTasks)  # whether a start changes it
        self._started = Started(self.seen > 0, 0)
        self._common: tuple[int, Newcomer | None] | None = None

    def margins(self, rows: Rows, task: Task, next_task: int) -> Dense:
        """Margins (n,) of rows; those of task -1 are what ``next_task`` would start with."""
        known = task >= 0
        if known.all():
            return predict(self.learner, rows, task)
        margins = self._margins_of_new(rows, next_task)
        if known.any():  # any number does for the others: their margins are there already
            margins[known] = predict(self.learner, rows, np.maximum(task, 0))[known]
        return margins

    def learn(
        self, rows: Rows, task: Task, y: Dense, together: bool, weight: Dense | None = None
    ) -> Dense:
        """Learn rows for which there is room; gives the margins predicted before."""
        starts = (
            ONE if len(y) == 1 else np.array([0, len(y)]) if together else np.arange(len(y) + 1)
        )
        margins = replay(self.learner, rows, task, y, starts, weight)
        if len(task) == 1:  # the same for a single event, in a fifth of the time
            self.seen[task[0]] += 1
            new = not self._started.which[task[0]]
        else:
            np.add.at(self.seen, task, 1)
            new = not self._started.which[task].all()
        if new:
            self._started.which[task] = True
            self._count_started(self._started.which)
        before, self.events = self.events, self.events + len(y)
        if self.events // WATCH > before // WATCH:
            self.watch()
        return margins

    def start(self, task: int) -> None:
        """Start a new task."""
        self.make_room(0, task + 1)
        if self.starts and isinstance(self.learner, StartsTasks) and self._started.number:
            self.learner.start_task(task, self._started)

    def forget(self, task: int) -> None:
        """Make a task as if it had never been."""
        forget(self.learner, task)
        self.seen[task], self.since[task] = 0, -1
        self._count_started(self.seen > 0)
        self._common = None

    def make_room(self, n_features: int, n_tasks: int) -> None:
        """At least this much room; doubled, so that growing costs little per event."""
        old = self.learner
        if n_features <= old.n_features and n_tasks <= old.n_tasks:
            return
        d, m = doubled(old.n_features, n_features), doubled(old.n_tasks, n_tasks)
        self.learner, self._common = grown(old, d, m), None
        more = m - len(self.seen)
        self.seen = np.concatenate([self.seen, np.zeros(more, dtype=np.int64)])
        self.since = np.concatenate([self.since, np.full(more, -1, dtype=np.int64)])
        self._count_started(self.seen > 0)

    def intervals(self, rows: Rows, task: Task, next_task: int, level: float) -> Dense:
        """Bounds (n, 2) of rows; those of task -1 are what ``next_task`` would start with."""
        if not isinstance(self.learner, GivesIntervals):
            raise ValueError(f"{self.learner.name} predicts no numbers, so it has no intervals")
        if (task < 0).any():
            self.make_room(0, next_task + 1)
        task = np.where(task < 0, next_task, task)
        return self.learner.intervals(as_round(self.learner, rows, task), level)

    def check_classes(self, n: int) -> None:
        """Raise ValueError where n classes are too many."""
        if isinstance(self.learner, ManyClasses):
            self.learner.check_classes(n)

    def make_classes(self, n: int) -> None:
        """At least so many classes."""
        if isinstance(self.learner, ManyClasses) and n > self.learner.answers:
            self.learner.make_classes(n)
            self._common = None

    def watch(self) -> None:
        """Note which tasks have become personal, and which no longer are."""
        personal = personal_tasks(self.learner)
        if personal is not None:
            self.since[~personal] = -1
            self.since[personal & (self.since < 0)] = self.events

    def state(self) -> dict[str, Any]:
        """A copy of everything, arrays apart."""
        inner = self.learner.state()
        arrays = {f"learner.{name}": array for name, array in inner.pop("arrays").items()}
        arrays |= {"tasks.seen": self.seen.copy(), "tasks.since": self.since.copy()}
        return {"learner": inner, "events": self.events, "arrays": arrays}

    @classmethod
    def from_state(cls, state: dict[str, Any], from_mean: bool) -> Self:
        """What gave ``state``; raises ValueError if it does not hold together."""
        arrays = state["arrays"]
        inner = {name[8:]: array for name, array in arrays.items() if name.startswith("learner.")}
        made = cls(restore({**state["learner"], "arrays": inner}), from_mean)
        made.events = whole("events", state["events"], least=0)
        for name, least in (("seen", 0), ("since", -1)):
            history = arrays[f"tasks.{name}"]
            if history.shape != made.seen.shape or history.dtype != np.int64:
                raise ValueError(f"expected the history of {len(made.seen)} tasks")
            if made.events > LONGEST or history.min() < least or history.max() > LONGEST:
                raise ValueError(f"no task has the history {history.min()} or {history.max()}")
            setattr(made, name, history.copy())
        made._count_started(made.seen > 0)
        return made

    def _count_started(self, which: NDArray[np.bool_]) -> None:
        self._started = Started(which, int(np.count_nonzero(which)))

    def _margins_of_new(self, rows: Rows, next_task: int) -> Dense:
        common = self._newcomer()
        if common is not None:
            nobody = np.zeros(count(rows), dtype=np.int64)
            return common.margins(as_round(self.learner, rows, nobody))
        self.make_room(0, next_task + 1)
        return predict(self.learner, rows, np.full(count(rows), next_task))

    def _newcomer(self) -> Newcomer | None:
        """Kept until something is learned: it may cost a pass over all weights."""
        if self._common is None or self._common[0] != self.events:
            found = None
            if self.starts and isinstance(self.learner, StartsTasks) and self._started.number:
                found = self.learner.common(self._started)
            self._common = (self.events, found)
        return self._common[1]


def personal_tasks(learner: Learner) -> NDArray[np.bool_] | None:
    """Which tasks (m,) are personal, as the learner judges; None if it does not."""
    if not isinstance(learner, FindsOutliers):
        return None
    return np.isin(np.arange(learner.n_tasks), learner.personal_tasks())


def doubled(size: int, needed: int) -> int:
    """The size, doubled until it is enough.

    >>> doubled(8, 20)
    32
    """
    while size < needed:
        size *= 2
    return size
