"""The learner of a model with the events of its tasks: grows, predicts, starts and forgets."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import EventCounts
from romco.learners import Learner, grown
from romco.learners.base import CompiledLearner
from romco.learners.capabilities import (
    AddsClasses,
    Newcomer,
    StartedTasks,
    StartsTasks,
)
from romco.learners.registry import forget, unstart
from romco.model.features import Matrix, Sparse, as_matrix
from romco.rounds import Round
from romco.typing import Floats

NO_NUMBERS = np.empty(0)


class Body:
    """A learner and the events of its tasks, which grow together and are replaced together."""

    __slots__ = ("_newcomer", "counts", "learner")

    def __init__(self, learner: Learner, counts: EventCounts) -> None:
        self.learner = learner
        self.counts = counts
        self._newcomer: tuple[int, Newcomer | None] | None = None  # and the events it is of

    def grown(
        self, n_features: int, n_tasks: int, n_classes: int = 0, *, move: bool = True
    ) -> "Body":
        """Return this body if it has the room, else a larger one; sizes are doubled.

        With ``move`` the larger body takes the pairs of task and feature away from this one, which
        must not be used once the larger one has learned.
        """
        old = self.learner
        fits = n_features <= old.n_features and n_tasks <= old.n_tasks
        if fits and n_classes <= old.answers:
            return self
        if fits and isinstance(old, AddsClasses):
            more = old.with_classes(n_classes)
            return Body(more, self.counts.grown(more.n_tasks, more.n_features, more.answers))
        d = next_double(old.n_features, n_features)
        m = next_double(old.n_tasks, n_tasks)
        new = grown(old, d, m, move=move)
        if new.answers > 1 and isinstance(new, AddsClasses):
            new.make_classes(max(n_classes, old.answers))
        return Body(new, self.counts.grown(m, d, new.answers))

    @property
    def started(self) -> StartedTasks | None:
        """The tasks that have learned; None where none has."""
        counts = self.counts
        if not counts.n_started:
            return None
        return StartedTasks(counts.started, counts.n_started)

    def newcomer(self) -> Newcomer | None:
        """Return how a new task starts; kept until the next event, for it may cost all weights."""
        events = self.counts.events
        if self._newcomer is None or self._newcomer[0] != events:
            common = None
            if isinstance(self.learner, StartsTasks) and self.started is not None:
                common = self.learner.common(self.started)
            self._newcomer = events, common
        return self._newcomer[1]

    def starts_of(
        self, tasks: list[int]
    ) -> tuple[list[Callable[[], object]], Callable[[], None] | None]:
        """Return functions that start new tasks, and one that rolls that back."""
        learner, started = self.learner, self.started
        if not tasks or started is None:
            return [], None
        assert isinstance(learner, StartsTasks)
        start = learner.start_task
        starts: list[Callable[[], object]] = [partial(start, task, started) for task in tasks]
        return starts, partial(self._unstart, tasks)

    def _unstart(self, tasks: list[int]) -> None:
        for task in tasks:
            unstart(self.learner, task)

    # Idempotent: may be run twice, see retry_idempotent

    def note_personal_tasks(self) -> None:
        """Note which tasks have become personal, and which no longer are."""
        personal = personal_tasks(self.learner)
        if personal is not None:
            since = self.counts.since
            since[~personal] = -1
            since[personal & (since < 0)] = self.counts.events

    def forget(self, task: int) -> None:
        """Make a task as if it had never been."""
        forget(self.learner, task)
        self.counts.forget(task)
        self._newcomer = None


def next_double(size: int, needed: int) -> int:
    """Return the size, doubled until it is enough."""
    while size < needed:
        size *= 2
    return size


class LightMatrix:
    """The attributes of a CSR matrix that compiled learners read, without the cost to make one."""

    __slots__ = ("data", "indices", "indptr", "shape")
    format = "csr"

    def __init__(self, rows: Sparse, width: int) -> None:
        self.data, self.indices, self.indptr = rows
        self.shape = (len(rows.starts) - 1, width)


def as_round(
    learner: Learner,
    rows: Matrix,
    task: NDArray[np.int64],
    y: Floats = NO_NUMBERS,
    weight: Floats | None = None,
    offset: Floats | None = None,
) -> Round:
    """Return rows of these tasks as the learner takes them; without labels if none are given."""
    x: Any = rows
    if isinstance(rows, Sparse):
        fits = rows.columns.max(initial=-1) < learner.n_features
        light = fits and type(learner).predict is CompiledLearner.predict
        if light:
            x = LightMatrix(rows, learner.n_features)
        else:
            x = as_matrix(rows, learner.n_features)
    return Round(task, x, y, weight, offset)


def predict(
    learner: Learner,
    rows: Matrix,
    task: NDArray[np.int64],
    offset: Floats | None = None,
    live: bool = False,
) -> Floats:
    """Return margins (n,), of many classes (n, K); columns that it does not have weigh nothing."""
    if not len(task) and learner.answers > 1:
        return np.empty((0, learner.answers))
    if not len(task):
        return np.empty(0)
    round = as_round(learner, rows, task, offset=offset)
    if live:
        return learner.predict(round)
    return learner.predict_frozen(round)


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
