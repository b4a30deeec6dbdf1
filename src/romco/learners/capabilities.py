"""Optional abilities of a learner, one protocol each.

Test for an ability with ``isinstance(learner, LearnsDelayed)``. A learner has an ability by having
its methods; :class:`Decomposed` is a base class. A yes or no, such as
``Learner.supports_sample_weight``, is an attribute of the learner.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Round
from romco.typing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csc_array, csr_array

    from romco.kernels.core.events import Events

ROUNDING = 1e-12  # of the largest singular value: below it there is nothing


class Decomposed(ABC):
    """W = U + V is kept by its parts: U low rank and shared, V personal.

    >>> import romco
    >>> isinstance(romco.learner("romco-auto", 3, 2), Decomposed)
    True
    >>> isinstance(romco.learner("ogd-unique", 3, 2), Decomposed)
    False
    """

    @abstractmethod
    def shared_factors(self) -> tuple[Floats, Floats]:
        """L (d, r) and R (m, r) with U = L R'."""

    @abstractmethod
    def personal_sparse(self) -> "csc_array":
        """V (d, m), only what is stored."""

    def singular_values(self) -> Floats:
        """Singular values of U above rounding, largest first."""
        return spectrum(*self.shared_factors())

    def personal_norms(self) -> Floats:
        """Length (m,) of each task's column of V."""
        return column_lengths(self.personal_sparse())

    def shared(self) -> Floats:
        """U (d, m) as a dense array."""
        left, right = self.shared_factors()
        return left @ right.T

    def personal(self) -> Floats:
        """V (d, m) as a dense array."""
        dense: Floats = self.personal_sparse().toarray()
        return dense

    def weights(self) -> Floats:
        """W (d, m) as a dense array."""
        return self.shared() + self.personal()


def spectrum(left: Floats, right: Floats) -> Floats:
    """Singular values of U = L R', above rounding, largest first; O((d + m) r^2)."""
    if not left.size or not right.size:
        return np.empty(0)
    small: Any = np.linalg.qr(left, mode="r") @ np.transpose(np.linalg.qr(right, mode="r"))
    s = np.linalg.svd(small, compute_uv=False)
    return s[s > ROUNDING * s.max(initial=0.0)]


def column_lengths(own: "csc_array") -> Floats:
    """Length (m,) of each column of V (d, m)."""
    column = np.repeat(np.arange(own.shape[1]), np.diff(own.indptr))
    return np.sqrt(np.bincount(column, own.data**2, minlength=own.shape[1]))


@runtime_checkable
class ForgetsTasks(Protocol):
    """Has its own way to forget a task; without, :func:`romco.learners.registry.forget` does it."""

    def forget_task(self, task: int) -> None:
        """Make the task as if it had never been; what the others learned from it stays."""


@runtime_checkable
class LearnsDelayed(Protocol):
    """Uses the context stored with a prediction when its label arrives late."""

    def prediction_context(self, round: Round) -> Floats:
        """Return what a delayed update of these events needs (n, k), as known now."""

    def update_delayed(self, round: Round, context: Floats) -> None:
        """Learn a labelled round with the context stored when it was predicted."""

    def set_context(self, events: "Events", context: Floats) -> None:
        """Set the context of the events that are learned next; NaN where there is none."""


class Posterior(NamedTuple):
    """Normal posteriors of one weight of several tasks or features, in the target's unit."""

    mean: Floats  # (L,) differences from common
    variance: Floats  # (L,)
    prior: Floats  # (L,) variance before any event; the prior mean is 0
    common: float
    information: float  # part of the precision that is information about the weight


@runtime_checkable
class GivesProbabilities(Protocol):
    """Returns calibrated probabilities: its margins are log-odds."""

    def probabilities(self, margins: Floats) -> Floats:
        """Probability (n,) of +1, from margins (n,) of this learner."""


class Contributions(NamedTuple):
    """Parts of margins: features through what tasks share, through the task's own, and the rest.

    A feature that is nearly always there contributes by its distance from its mean.
    """

    shared: "csr_array"  # (n, d) lines and curves
    personal: "csr_array"  # (n, d)
    intercept: Floats  # (n,)
    products: dict[tuple[int, int], Floats]  # (n,) of two features beyond what each adds

    def margins(self) -> Floats:
        """Return the sums (n,)."""
        features = self.shared.sum(axis=1) + self.personal.sum(axis=1)
        return np.asarray(features + self.intercept + sum(self.products.values()))


class Newcomer(Protocol):
    """A task that nobody has seen, as it would be predicted now."""

    def margins(self, round: Round) -> Floats:
        """Margins (n,) of rows; the round's tasks and labels are not looked at."""


class Start(NamedTuple):
    """A newcomer with weights (d,) and an intercept."""

    weights: Floats
    intercept: float = 0.0

    def margins(self, round: Round) -> Floats:
        """Margins (n,) of rows."""
        x: Any = round.x
        if isinstance(x, np.ndarray):
            return x @ self.weights + self.intercept
        row = np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))
        terms = x.data * self.weights[x.indices]
        sums: Any = np.bincount(row, terms, minlength=x.shape[0])
        return sums + self.intercept


class StartedTasks(NamedTuple):
    """Mask (m,) of the tasks that have learned, and their number (at least one)."""

    which: NDArray[np.bool_]
    number: int


@runtime_checkable
class StartsTasks(Protocol):
    """A learner in which a new task is to be started from the others.

    Learners without these methods predict a task that they never saw from what the tasks
    share by themselves.
    """

    def common(self, started: StartedTasks) -> Newcomer | None:
        """Return what the started tasks have in common; None where a new task inherits it."""

    def start_task(self, task: int, started: StartedTasks) -> None:
        """Let a new task begin at ``common(started)``; it is not one of the started tasks.

        Where an interrupt breaks it off, it is done again; a compiled function is not broken off.
        """


@runtime_checkable
class AddsClasses(Protocol):
    """Learns one of ``answers`` classes, and more of them when asked."""

    answers: int

    def check_classes(self, n: int) -> None:
        """Raise ValueError if n classes exceed what the learner supports."""

    def make_classes(self, n: int) -> None:
        """At least n classes; those that are new know nothing yet."""

    def with_classes(self, n: int) -> Any:
        """Return a copy with n classes; the two may share what both leave as it is."""


@runtime_checkable
class AveragesOrders(Protocol):
    """Can learn the same events in several orders, and become the mean of what was learned.

    All events are observed first, so that features have the same units in every order.
    """

    averages_orders: bool  # False where one that it is made of cannot

    def start_events(self) -> None:
        """Count no event as learned, after all were observed."""

    def adopt_functions(self, other: Any) -> None:
        """Take the functions of columns of a learner of the same events; find no others.

        The other learner is not used any more.
        """

    def average(self, others: Sequence[Any], given: Any, *, rounds: Iterable[Round]) -> None:
        """Become the mean of itself and ``others``, learners of the same events in random orders.

        ``given`` learned them in the order given, and takes part as far as that order matters.
        ``rounds`` are the events, in any order, for what can be found from all of them at once.
        """


@runtime_checkable
class GivesIntervals(Protocol):
    """Predicts numbers with intervals."""

    def intervals(self, round: Round, level: float, frozen: bool = False) -> Floats:
        """Bounds (n, 2) that hold the answers of a share ``level`` of events.

        ``frozen``: of predictions after which no answers come.
        """


@runtime_checkable
class GivesPosteriors(Protocol):
    """Knows how much is not known of each score."""

    def posterior(self, round: Round, frozen: bool = False) -> tuple[Floats, Floats]:
        """Means and standard deviations (n,) of log-odds or numbers, without the answers' noise.

        Of many classes those of each class against the rest (n, K).
        ``frozen``: of predictions after which no answers come.
        """
