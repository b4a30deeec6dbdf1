"""Scores of predicted numbers, and of the intervals around them."""

from __future__ import annotations

from typing import final

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Round

Numbers = NDArray[np.float64]


@final
class NumberErrors:
    """Mean absolute and root mean squared error, and the share of variance explained.

    >>> errors = NumberErrors()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, 3.0]))
    >>> errors.add(round, scores=np.array([1.0, 2.0]))
    >>> errors.value()
    {'mae': 0.5, 'rmse': 0.7071067811865476, 'r2': 0.5}
    """

    def __init__(self) -> None:
        self.n, self.absolute, self.squares = 0, 0.0, 0.0
        self.mean, self.spread = 0.0, 0.0  # of the answers, by Welford

    def add(self, round: Round, scores: Numbers) -> None:
        """Add a round."""
        error, y = scores - round.y, round.y
        self.absolute += float(np.abs(error).sum())
        self.squares += float(np.square(error).sum())
        n = self.n + len(y)
        step = float(y.mean()) - self.mean
        self.spread += float(np.square(y - y.mean()).sum()) + step * step * self.n * len(y) / n
        self.mean, self.n = self.mean + step * len(y) / n, n

    def value(self) -> dict[str, float]:
        """All three so far; R2 is NaN while the answers are all alike."""
        n = max(self.n, 1)
        r2 = 1.0 - self.squares / self.spread if self.spread > 0.0 else float("nan")
        return {"mae": self.absolute / n, "rmse": float(np.sqrt(self.squares / n)), "r2": r2}


@final
class Coverage:
    """How many answers were within the bounds predicted for them, and how wide these were.

    >>> coverage = Coverage()
    >>> coverage.add_bounds(np.array([1.0, 5.0]), np.array([[0.0, 2.0], [0.0, 2.0]]))
    >>> coverage.value()
    {'coverage': 0.5, 'width': 2.0}
    """

    def __init__(self) -> None:
        self.n, self.inside, self.width = 0, 0, 0.0

    def add_bounds(self, y: Numbers, bounds: Numbers) -> None:
        """Count answers (n,) and the bounds (n, 2) predicted before they were known."""
        self.n += len(y)
        self.inside += int(np.count_nonzero((bounds[:, 0] <= y) & (y <= bounds[:, 1])))
        self.width += float((bounds[:, 1] - bounds[:, 0]).sum())

    def value(self) -> dict[str, float]:
        """Share within, and mean width."""
        n = max(self.n, 1)
        return {"coverage": self.inside / n, "width": self.width / n}
