"""What a learner may be able to do beside learning: one protocol for each ability.

Whoever wants to know asks ``isinstance(learner, Decomposed)``, and nobody looks for methods by
name. A learner has an ability by having its methods; :class:`TakesWeights`, which has none, is
named among the base classes. A new ability is one more protocol here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Round

if TYPE_CHECKING:
    from scipy.sparse import csc_array

Numbers = NDArray[np.float64]


@runtime_checkable
class Decomposed(Protocol):
    """W = U + V is kept by its parts: U low rank and shared, V personal.

    >>> import romco
    >>> isinstance(romco.learner("romco-auto", 3, 2), Decomposed)
    True
    >>> isinstance(romco.learner("ogd-unique", 3, 2), Decomposed)
    False
    """

    def shared_factors(self) -> tuple[Numbers, Numbers]:
        """L (d, r) and R (m, r) with U = L R'."""

    def personal_sparse(self) -> csc_array:
        """V (d, m), only what is stored."""

    def singular_values(self) -> Numbers:
        """Of U, above rounding, largest first."""

    def personal_norms(self) -> Numbers:
        """Length (m,) of each task's column of V."""


def shared_of(learner: Decomposed) -> Numbers:
    """U (d, m) as a dense array."""
    left, right = learner.shared_factors()
    return left @ right.T


def personal_of(learner: Decomposed) -> Numbers:
    """V (d, m) as a dense array."""
    dense: Numbers = learner.personal_sparse().toarray()
    return dense


@runtime_checkable
class FindsOutliers(Protocol):
    """Tells which tasks are unlike the rest."""

    def personal_tasks(self) -> NDArray[np.int64]:
        """Numbers of those tasks, rising."""


@runtime_checkable
class ForgetsTasks(Protocol):
    """Has its own way to forget a task.

    A learner that says by ``task_axes`` what belongs to a task needs none: see
    :func:`romco.learners.forgetting.forget`.
    """

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been; what the others learned from it stays."""


@runtime_checkable
class TellsFindings(Protocol):
    """Says in sentences what it found."""

    def findings(self, tasks: NDArray[np.int64]) -> list[str]:
        """Sentences about some tasks, by their numbers."""


@runtime_checkable
class GivesProbabilities(Protocol):
    """Margins are log-odds: the learner itself says how likely each answer is."""

    def probabilities(self, margins: Numbers) -> Numbers:
        """Probability (n,) of +1, from margins (n,) of this learner."""


class TakesWeights:
    """Marks a learner whose ``update`` honours how much each event of a round counts (abstract)."""


class Newcomer(Protocol):
    """A task that nobody has seen, as it would be predicted now."""

    def margins(self, round: Round) -> Numbers:
        """Margins (n,) of rows; the round's tasks and labels are not looked at."""


class Start(NamedTuple):
    """A newcomer with weights (d,) and an intercept."""

    weights: Numbers
    intercept: float = 0.0

    def margins(self, round: Round) -> Numbers:
        """Margins (n,) of rows."""
        x: Any = round.x
        if isinstance(x, np.ndarray):
            return x @ self.weights + self.intercept
        row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
        terms = x.data * self.weights[x.indices]
        sums: Any = np.bincount(row, terms, minlength=x.shape[0])
        return sums + self.intercept


class Started(NamedTuple):
    """Which tasks (m,) have learned, and how many: at least one."""

    which: NDArray[np.bool_]
    number: int


@runtime_checkable
class StartsTasks(Protocol):
    """A learner in which a new task is to be started from the others.

    Learners without these methods predict a task that they never saw from what the tasks
    share by themselves.
    """

    def common(self, started: Started) -> Newcomer | None:
        """What the started tasks have in common; None where a new task has it by itself."""

    def start_task(self, task: int, started: Started) -> None:
        """Start a task that is not among them at ``common(started)``."""


@runtime_checkable
class StartsAtOnce(Protocol):
    """Starts a task by one compiled call, which must not be done twice.

    A ``start_task`` that is broken off half-way is done again; this one cannot be broken off.
    """

    def starting(self, task: int, started: Started) -> Callable[[], object]:
        """What does the same as ``start_task``: a compiled function."""


@runtime_checkable
class Proposes(Protocol):
    """A learner without a kernel that tells what a round would make of it before it changes.

    So that an interrupt finds it as before or as after. Others of that kind are copied before
    each step of a :class:`romco.Model`, and restored if it is broken off.
    """

    def proposed(self, round: Round) -> Callable[[], object]:
        """What makes the learner take over what it learned of the round: a compiled function."""
