"""Step sizes as functions of the round number t = 1, 2, ...

A step is a frozen dataclass that is called with t. ``compiled`` names its twin in the kernels; a
step without one, such as yours, is called once in every round.
"""

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar, Protocol


class Step(Protocol):
    """Factor of the steps eta1 and eta2 in round t."""

    compiled: ClassVar[str | None]

    def __call__(self, t: int) -> float:
        """A number above 0."""


@dataclass(frozen=True)
class Constant:
    """1 in every round."""

    compiled: ClassVar[str | None] = "constant"

    def __call__(self, t: int) -> float:
        return 1.0


@dataclass(frozen=True)
class InverseSqrt:
    """1 / sqrt(t), what the regret bound asks for when the horizon is not known."""

    compiled: ClassVar[str | None] = "inverse-sqrt"

    def __call__(self, t: int) -> float:
        return 1.0 / sqrt(t)


@dataclass(frozen=True)
class Inverse:
    """1 / t."""

    compiled: ClassVar[str | None] = None

    def __call__(self, t: int) -> float:
        return 1.0 / t


STEPS: dict[str, Step] = {
    "constant": Constant(),
    "inverse-sqrt": InverseSqrt(),
    "inverse": Inverse(),
}
