"""Sums that are kept up along a stream, and the groups that calibration is told by."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

Numbers = NDArray[np.float64]
LEAST = 1e-15  # no probability counts as more certain than this
MOST = 2.0**53  # events that can be counted one by one


def in_order(sums: ArrayLike, more: Numbers) -> Numbers:
    """Rows added one after the other: the bits do not depend on how events were cut into calls.

    >>> in_order(1.0, np.array([2.0, 3.0]))
    np.float64(6.0)
    """
    before = np.asarray(sums, dtype=np.float64)[None]
    total: Numbers = np.add.accumulate(np.concatenate([before, more]), axis=0)[-1]
    return total


def put_away(numbers: Any, shape: tuple[int, ...], most: float = MOST) -> Numbers:
    """Sums as a file told them; ValueError where they are not so many numbers from 0 to ``most``.

    >>> put_away([1, 2.5], (2,))
    array([1. , 2.5])
    """
    found = np.array(numbers)
    if found.shape != shape or found.dtype.kind not in "fiu":
        raise ValueError(f"expected numbers of shape {shape}, not {numbers!r}")
    if not ((found >= 0) & (found <= most)).all():
        raise ValueError(f"expected numbers from 0 to {most:g}, not {numbers!r}")
    return found.astype(np.float64)


def surprise(chances: Numbers) -> Numbers:
    """-log of the probability that was given to what came true."""
    return -np.log(np.maximum(chances, LEAST))


@final
class Reliability:
    """Stated probabilities beside how often they came true, in ``bins`` of equal width.

    >>> reliability = Reliability(10)
    >>> reliability.add(np.array([0.9, 0.9]), np.array([True, False]))
    >>> round(reliability.gap(), 3)
    0.4
    """

    def __init__(self, bins: int) -> None:
        self.sums = np.zeros((bins, 3))  # events, stated probability, came true

    def add(self, stated: Numbers, came: NDArray[np.bool_]) -> None:
        """Count probabilities (n,) and whether what they are of came true."""
        bins = len(self.sums)
        place = np.minimum((stated * bins).astype(np.intp), bins - 1)
        np.add.at(self.sums, place, np.stack([np.ones(len(stated)), stated, came], axis=1))

    def gap(self) -> float:
        """By how much probabilities are off: mean over the bins, by size."""
        n, stated, came = self.sums.T
        return float(np.abs(stated - came).sum() / max(n.sum(), 1.0))
