"""From margins to probabilities, learned along the stream."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

MEMORY = 0.999  # weight of an event decays by this much per event
LARGEST_STEP = 0.5


@final
class Scale:
    """P(positive) = 1 / (1 + exp(-a p)) of a margin p, with a > 0 learned online.

    Platt's scaling without its offset, so that a probability of one half is a margin of 0
    and probabilities never contradict predictions. log a takes a Newton step on the
    logistic loss of each margin that was predicted before its label was learned.

    >>> scale = Scale()
    >>> for _ in range(200):
    ...     scale.add(0.1, 1.0)
    >>> bool(scale.probability(np.array([0.1]))[0] > 0.6)
    True
    """

    def __init__(self, log_a: float = 0.0, curvature: float = 1.0) -> None:
        self.log_a = log_a
        self.curvature = curvature

    @classmethod
    def from_json(cls, found: Sequence[Any]) -> Scale:
        """What was written of it: log a and the curvature, as learning leaves them."""
        log_a, curvature = found
        if not all(type(value) in (int, float) for value in (log_a, curvature)):
            raise ValueError(f"expected two numbers, got {found!r}")
        if not (abs(log_a) <= 30.0 and 1.0 <= curvature < 1e300):
            raise ValueError(f"a scale of {log_a} with curvature {curvature} is none")
        return cls(float(log_a), float(curvature))

    def add(self, margin: float, y: float, weight: float = 1.0) -> None:
        """Learn from one margin and its label, -1 or +1."""
        z = y * exp(self.log_a) * margin
        miss = 1.0 / (1.0 + exp(min(z, 500.0)))
        self.curvature = max(1.0, MEMORY * self.curvature + weight * z * z * miss * (1.0 - miss))
        step = weight * z * miss / self.curvature
        self.log_a += min(max(step, -LARGEST_STEP), LARGEST_STEP)
        self.log_a = min(max(self.log_a, -30.0), 30.0)

    def follow(
        self,
        margins: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Learn from margins and labels one after the other; gives a before each (n,)."""
        before = np.empty(len(margins))
        counts = [1.0] * len(margins) if weight is None else weight.tolist()
        events = zip(margins.tolist(), y.tolist(), counts, strict=True)
        for i, (margin, sign, count) in enumerate(events):
            before[i] = self.log_a
            self.add(margin, sign, count)
        return np.exp(before)

    def probability(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(positive) of each margin."""
        return logistic(exp(self.log_a) * margins)


def logistic(z: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 / (1 + exp(-z)) without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * z))
