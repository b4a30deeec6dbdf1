"""Losses of a margin p and a label y in {-1, +1}: value and slope in p.

A loss is a frozen dataclass, listed in ``LOSSES``. ``compiled`` names its twin in ROMCO's kernels;
a loss without one, such as yours, is called once in every round.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from romco.typing import Floats


class Loss(Protocol):
    """Loss of margin p for label y, with its derivative in p."""

    compiled: ClassVar[str | None]

    def value(self, p: Floats, y: Floats) -> Floats:
        """The loss, elementwise."""

    def slope(self, p: Floats, y: Floats) -> Floats:
        """Its derivative in p (at a kink: the flatter side)."""


@dataclass(frozen=True)
class Hinge:
    """max(0, 1 - y p), the paper's loss (its eq. 1); slope 0 at margin exactly 1.

    >>> Hinge().value(np.array([0.0, 2.0]), np.array([1.0, 1.0]))
    array([1., 0.])
    """

    compiled: ClassVar[str | None] = "hinge"

    def value(self, p: Floats, y: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - y * p)

    def slope(self, p: Floats, y: Floats) -> Floats:
        return np.where(1.0 - y * p > 0.0, -y, 0.0)


@dataclass(frozen=True)
class SquaredHinge:
    """max(0, 1 - y p)^2."""

    compiled: ClassVar[str | None] = "squared-hinge"

    def value(self, p: Floats, y: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - y * p) ** 2

    def slope(self, p: Floats, y: Floats) -> Floats:
        return -2.0 * y * np.maximum(0.0, 1.0 - y * p)


@dataclass(frozen=True)
class Logistic:
    """log(1 + exp(-y p)), without overflow.

    >>> Logistic().value(np.array([-1000.0]), np.array([1.0]))
    array([1000.])
    """

    compiled: ClassVar[str | None] = "logistic"

    def value(self, p: Floats, y: Floats) -> Floats:
        return np.logaddexp(0.0, -y * p)

    def slope(self, p: Floats, y: Floats) -> Floats:
        return -0.5 * y * (1.0 - np.tanh(0.5 * y * p))  # scipy.special takes long to import


@dataclass(frozen=True)
class LeastSquares:
    """(p - y)^2 / 2."""

    compiled: ClassVar[str | None] = None

    def value(self, p: Floats, y: Floats) -> Floats:
        return 0.5 * (p - y) ** 2

    def slope(self, p: Floats, y: Floats) -> Floats:
        return p - y


@dataclass(frozen=True)
class EpsilonInsensitive:
    """max(0, |p - y| - epsilon): a number that is nearly right costs nothing.

    >>> EpsilonInsensitive().value(np.array([1.05, 3.0]), np.array([1.0, 1.0]))
    array([0. , 1.9])
    """

    epsilon: float = 0.1
    compiled: ClassVar[str | None] = None

    def value(self, p: Floats, y: Floats) -> Floats:
        return np.maximum(0.0, np.abs(p - y) - self.epsilon)

    def slope(self, p: Floats, y: Floats) -> Floats:
        return np.where(np.abs(p - y) > self.epsilon, np.sign(p - y), 0.0)


LOSSES: dict[str, Loss] = {
    "hinge": Hinge(),
    "squared-hinge": SquaredHinge(),
    "logistic": Logistic(),
    "least-squares": LeastSquares(),
    "epsilon-insensitive": EpsilonInsensitive(),
}
