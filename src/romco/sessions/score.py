"""Right and wrong answers, counted."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray


@final
class Score:
    """Right and wrong answers so far.

    >>> score = Score()
    >>> score.add(np.array([1.0, 1.0, -1.0]), np.array([0.5, -0.5, -1.0]))
    >>> score.error, round(score.f1, 3)
    (0.3333333333333333, 0.667)
    """

    def __init__(self, counts: list[int] | None = None) -> None:
        self.counts = np.array(counts or [0, 0, 0, 0]).reshape(2, 2)  # truth, answer

    def add(self, y: NDArray[np.float64], margins: NDArray[np.float64]) -> None:
        """Count events."""
        np.add.at(self.counts, ((y > 0).astype(int), (margins >= 0).astype(int)), 1)

    @property
    def error(self) -> float:
        """Share of wrong answers."""
        return float((self.counts[0, 1] + self.counts[1, 0]) / max(self.counts.sum(), 1))

    @property
    def f1(self) -> float:
        """F1 of the positive label."""
        hit = 2 * self.counts[1, 1]
        return float(hit / max(hit + self.counts[0, 1] + self.counts[1, 0], 1))
