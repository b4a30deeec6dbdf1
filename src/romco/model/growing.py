"""A learner that gets more room when it needs it, and knows how its tasks began."""

from __future__ import annotations

from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.history import History
from romco.kernels.io.places import all_known
from romco.learners import Learner, grown, known, restore
from romco.learners.capabilities import (
    AddsClasses,
    FindsOutliers,
    GivesIntervals,
    LearnsLate,
    Newcomer,
    Started,
    StartsTasks,
)
from romco.learners.states import forget
from romco.model.rows import Dense, Rows, Task, as_round, count, predict
from romco.parameters import whole

LONGEST = 2**60  # events: more cannot be counted further
WATCH = 1000  # events between looks at which tasks are personal


class Body(NamedTuple):
    """A learner and the history of its tasks, which grow together and are exchanged together."""

    learner: Learner
    history: History

    def grown(self, n_features: int, n_tasks: int, n_classes: int = 0) -> Body:
        """The same if it has the room, else a larger copy; doubled, so that it costs little."""
        old = self.learner
        if n_features <= old.n_features and n_tasks <= old.n_tasks and n_classes <= old.answers:
            return self
        d, m = doubled(old.n_features, n_features), doubled(old.n_tasks, n_tasks)
        new = grown(old, d, m)
        if isinstance(new, AddsClasses):
            new.make_classes(max(n_classes, old.answers))
        return Body(new, self.history.grown(m))


@final
class GrowingLearner:
    """A learner, and for each task how many events it has had and since when it is personal.

    Tasks and features are numbers here; -1 is a task that has no number yet.
    With ``from_mean`` such a task is predicted, and starts, at the learner's ``common``.
    """

    def __init__(self, inner: Learner, from_mean: bool) -> None:
        m = inner.n_tasks
        empty = History(np.zeros(m, dtype=np.int64), np.full(m, -1, dtype=np.int64), 0)
        self.body = Body(inner, empty)
        self.starts = from_mean and isinstance(inner, StartsTasks)  # whether a start changes it
        self.many = isinstance(inner, AddsClasses)  # whether classes may be added
        self._common: tuple[int, Learner, Newcomer | None] | None = None

    @property
    def learner(self) -> Learner:
        """The learner; it is exchanged for a larger one when it grows."""
        return self.body.learner

    @property
    def history(self) -> History:
        """Of its tasks; exchanged with it."""
        return self.body.history

    def count_once(self, passes: int) -> None:
        """Count every event once, after all were learned ``passes`` times over."""
        old = self.history
        since = np.where(old.since < 0, -1, -(-old.since // passes))
        counted = History(old.seen // passes, since, old.events // passes)
        self.body = Body(self.learner, counted)

    @property
    def events(self) -> int:
        """How many were learned."""
        return self.body.history.events

    @events.setter
    def events(self, n: int) -> None:
        self.body.history.events = n

    def make_room(self, n_features: int, n_tasks: int) -> None:
        """At least this much room."""
        self.body = self.body.grown(n_features, n_tasks)

    def margins(self, rows: Rows, task: Task, next_task: int) -> Dense:
        """Margins (n,) of rows; those of task -1 are what ``next_task`` would start with."""
        if all_known(task):
            return predict(self.learner, rows, task)
        known = task >= 0
        margins = self._margins_of_new(rows, next_task)
        if known.any():  # any number does for the others: their margins are there already
            margins[known] = predict(self.learner, rows, np.maximum(task, 0))[known]
        return margins

    def opinions(self, rows: Rows, task: Task, next_task: int) -> Dense | None:
        """What is said of rows now (n, k), where that helps to learn them late, else None."""
        if not isinstance(self.learner, LearnsLate) or not len(task):
            return None
        if not all_known(task):
            self.make_room(0, next_task + 1)
            task = np.where(task < 0, next_task, task)
        round, able = as_round(self.learner, rows, task), self.learner
        assert isinstance(able, LearnsLate)
        return able.opinions(round)

    def forget(self, task: int) -> None:
        """Make a task as if it had never been; may be done twice."""
        forget(self.learner, task)
        self.history.forget(task)
        self._common = None

    def intervals(self, rows: Rows, task: Task, next_task: int, level: float) -> Dense:
        """Bounds (n, 2) of rows; those of task -1 are what ``next_task`` would start with."""
        if not isinstance(self.learner, GivesIntervals):
            raise ValueError(f"{self.learner.name} predicts no numbers, so it has no intervals")
        if (task < 0).any():
            self.make_room(0, next_task + 1)
        task = np.where(task < 0, next_task, task)
        round, able = as_round(self.learner, rows, task), self.learner
        assert isinstance(able, GivesIntervals)
        return able.intervals(round, level)

    def check_classes(self, n: int) -> None:
        """Raise ValueError where n classes are too many."""
        if self.many and isinstance(self.learner, AddsClasses):  # the second is slow to ask
            self.learner.check_classes(n)

    def widen(self, scale: list[float]) -> None:
        """Go on as a learner of many classes, the first two of which are those of this one."""
        old = self.learner
        made = known("classes")(
            old.n_features, old.n_tasks, inner=old.name, parameters=dict(old.parameters)
        )
        arrays = {f"0.{name}": array for name, array in old.arrays().items()}
        made.load({"classes": np.array([2]), **arrays, "0.scale": np.array(scale)})
        self.body, self.many, self._common = Body(made, self.history), True, None

    def watch(self) -> None:
        """Note which tasks have become personal, and which no longer are; may be done twice."""
        personal = personal_tasks(self.learner)
        if personal is not None:
            since = self.history.since
            since[~personal] = -1
            since[personal & (since < 0)] = self.events

    def state(self) -> dict[str, Any]:
        """A copy of everything, arrays apart."""
        inner, history = self.learner.state(), self.history
        arrays = {f"learner.{name}": array for name, array in inner.pop("arrays").items()}
        arrays |= {"tasks.seen": history.seen.copy(), "tasks.since": history.since.copy()}
        return {"learner": inner, "events": self.events, "arrays": arrays}

    @classmethod
    def from_state(cls, state: dict[str, Any], from_mean: bool) -> Self:
        """What gave ``state``; raises ValueError if it does not hold together."""
        arrays = state["arrays"]
        inner = {name[8:]: array for name, array in arrays.items() if name.startswith("learner.")}
        made = cls(restore({**state["learner"], "arrays": inner}), from_mean)
        events = whole("events", state["events"], least=0)
        seen, since = (arrays[f"tasks.{name}"] for name in ("seen", "since"))
        for history, least in ((seen, 0), (since, -1)):
            if history.shape != (made.learner.n_tasks,) or history.dtype != np.int64:
                raise ValueError(f"expected the history of {made.learner.n_tasks} tasks")
            if events > LONGEST or history.min() < least or history.max() > LONGEST:
                raise ValueError(f"no task has the history {history.min()} or {history.max()}")
        made.body = Body(made.learner, History(seen.copy(), since.copy(), events))
        return made

    def _margins_of_new(self, rows: Rows, next_task: int) -> Dense:
        common = self._newcomer()
        if common is not None:
            nobody = np.zeros(count(rows), dtype=np.int64)
            return common.margins(as_round(self.learner, rows, nobody))
        self.make_room(0, next_task + 1)
        return predict(self.learner, rows, np.full(count(rows), next_task))

    def started(self) -> Started:
        """Which tasks have learned."""
        return Started(self.history.started, self.history.n_started)

    def _newcomer(self) -> Newcomer | None:
        """Kept until something is learned: it may cost a pass over all weights."""
        kept, learner = self._common, self.learner
        if kept is None or kept[0] != self.events or kept[1] is not learner:
            found = None
            if self.starts and isinstance(learner, StartsTasks) and self.history.n_started:
                found = learner.common(self.started())
            self._common = kept = (self.events, learner, found)
        return kept[2]


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
