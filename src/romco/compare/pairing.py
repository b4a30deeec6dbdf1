"""Two learners on the same shuffles: difference, interval, wins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t as student


@dataclass(frozen=True)
class Difference:
    """First minus second, shuffle by shuffle, in points of percent; negative: first is better.

    The interval covers the order of events only: all shuffles hold the same events.
    """

    mean: float
    low: float  # 95 % interval; infinite with a single shuffle
    high: float
    wins: int  # shuffles in which the first has the lower error
    shuffles: int

    @property
    def status(self) -> str:
        """Whether "the first has the lower error" holds."""
        return "holds" if self.high < 0 else "does not hold" if self.low > 0 else "undecided"

    def __str__(self) -> str:
        interval = f" [{self.low:+.2f}, {self.high:+.2f}]" if np.isfinite(self.low) else ""
        return f"{self.mean:+.2f}{interval}, {self.wins} of {self.shuffles}"


def paired(first: ArrayLike, second: ArrayLike) -> Difference:
    """Compare error rates of two learners on the same shuffles.

    >>> str(paired([0.10, 0.11, 0.10], [0.12, 0.12, 0.13]))
    '-2.00 [-4.48, +0.48], 3 of 3'
    """
    differences = 100 * (np.asarray(first, dtype=float) - np.asarray(second, dtype=float))
    n = len(differences)
    mean, half = float(differences.mean()), np.inf
    if n > 1:
        error = differences.std(ddof=1) / np.sqrt(n)
        half = float(student.ppf(0.975, n - 1) * error)
    return Difference(mean, mean - half, mean + half, int((differences < 0).sum()), n)
