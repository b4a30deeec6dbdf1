"""Step sizes as functions of the round number t = 1, 2, ..."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

Step = Callable[[int], float]


def constant(t: int) -> float:
    """1 in every round."""
    return 1.0


def inverse_sqrt(t: int) -> float:
    """1 / sqrt(t), what the regret bound asks for when the horizon is not known."""
    return 1.0 / sqrt(t)


def inverse(t: int) -> float:
    """1 / t."""
    return 1.0 / t


STEPS: dict[str, Step] = {"constant": constant, "inverse-sqrt": inverse_sqrt}
