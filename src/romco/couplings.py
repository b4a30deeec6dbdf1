"""Couplings: how much of a step of one task is also a step of another.

A coupling A = F F' (m, m) is positive semi-definite. The step of an event of task i goes along
A e_i, and the shared penalty is paid by U A^{-1/2}; singular values do not depend on which F is
taken. A coupling is a frozen dataclass whose ``factor(n_tasks)`` gives F. Some have a compiled
twin that does without F, which ``compiled`` names.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from romco.parameters import not_negative, part
from romco.typing import Floats


class Coupling(Protocol):
    """Relation between tasks: a matrix A (m, m)."""

    compiled: ClassVar[str | None]

    def factor(self, n_tasks: int) -> Floats:
        """F (m, w) of the coupling F F'."""


@dataclass(frozen=True)
class Independent:
    """A = I, the paper's method: tasks have in common what the shared penalty makes them have."""

    compiled: ClassVar[str | None] = "uniform"

    def factor(self, n_tasks: int) -> Floats:
        return np.eye(n_tasks)


@dataclass(frozen=True)
class Uniform:
    """A = I + strength 11': every task is related to every other.

    >>> Uniform(4.0).factor(2)
    array([[2., 1., 0.],
           [2., 0., 1.]])
    """

    strength: float
    compiled: ClassVar[str | None] = "uniform"

    def __post_init__(self) -> None:
        not_negative("coupling", self.strength)

    def factor(self, n_tasks: int) -> Floats:
        """F (m, m + 1): what is shared comes first; I where the strength is 0."""
        shared = np.full((n_tasks, 1), np.sqrt(self.strength))
        if self.strength:
            return np.hstack([shared, np.eye(n_tasks)])
        return np.eye(n_tasks)


@dataclass(frozen=True, eq=False)
class FixedCoupling:
    """A itself, (m, m), symmetric and positive semi-definite."""

    matrix: ArrayLike
    compiled: ClassVar[str | None] = None

    def factor(self, n_tasks: int) -> Floats:
        """F (m, m) by the eigenvectors of A."""
        A = np.asarray(self.matrix, dtype=np.float64)
        if A.shape != (n_tasks, n_tasks) or not np.isfinite(A).all() or not np.allclose(A, A.T):
            raise ValueError(f"coupling must be a number or a symmetric array {n_tasks, n_tasks}")
        values, vectors = np.linalg.eigh(A)
        if values[0] < -1e-10 * max(1.0, values[-1]):
            raise ValueError(
                f"coupling must be positive semi-definite; an eigenvalue is {values[0]}"
            )
        scaled: Floats = vectors * np.sqrt(np.maximum(0.0, values))
        return scaled


COUPLINGS: dict[str, Any] = {
    "independent": Independent,
    "uniform": Uniform,
    "given": FixedCoupling,
}


def coupling_of(value: Any) -> Coupling:
    """The coupling that is meant: none, a number, a matrix, a name or a coupling.

    >>> coupling_of(None), coupling_of(0.5)
    (Independent(), Uniform(strength=0.5))
    """
    if value is None:
        return Independent()
    if isinstance(value, int | float | np.number) and not isinstance(value, bool):
        return Uniform(float(value))
    if isinstance(value, list | tuple | np.ndarray):
        A = np.asarray(value)
        if A.ndim == 0:
            return Uniform(float(A))
        return FixedCoupling(A)
    coupling: Coupling = part("coupling", COUPLINGS, value)
    return coupling
