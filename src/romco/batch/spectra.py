"""Functions of singular values by way of the small Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Spectrum:
    """Singular values s of a matrix w and the singular vectors of its short side.

    ``w'w = Q diag(s^2) Q'`` costs one product and a small eigenproblem, a fifth or
    less of a thin SVD; values below 1e-8 of the largest are rounding, which a
    shrinkage does not notice.
    """

    w: Numbers  # (d, m)
    s: Numbers  # (r,)  r = min(d, m), ascending
    q: Numbers  # (r, r)

    @classmethod
    def of(cls, w: Numbers) -> Spectrum:
        """The spectrum of w (d, m)."""
        squares, q = np.linalg.eigh(w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T)
        return cls(w, np.sqrt(np.maximum(squares, 0.0)), q)

    def scaled(self, ratio: Numbers) -> Numbers:
        """The matrix whose singular values are ``ratio * s``; columns of zeros stay so."""
        middle = (self.q * ratio) @ self.q.T
        if self.w.shape[0] < self.w.shape[1]:
            return middle @ self.w
        scaled: Numbers = self.w @ middle
        scaled[:, ~self.w.any(axis=0)] = 0.0  # also in rounding: a task without events
        return scaled


def singular_values(w: Numbers) -> Numbers:
    """Singular values of w (d, m), to full precision."""
    return np.asarray(np.linalg.svd(w, compute_uv=False), dtype=np.float64)


@dataclass(frozen=True)
class TraceNorm:
    """strength * (sum of singular values) as a price."""

    strength: float

    def value(self, w: Numbers) -> float:
        """The price of w: strength * |w|_*."""
        return self.strength * float(singular_values(w).sum())

    def prox(self, w: Numbers, step: float) -> tuple[Numbers, float]:
        """Each singular value s becomes max(0, s - step * strength)."""
        spectrum = Spectrum.of(w)
        kept = np.maximum(0.0, spectrum.s - step * self.strength)
        ratio = kept / np.maximum(spectrum.s, np.finfo(float).tiny)
        return spectrum.scaled(ratio), self.strength * float(kept.sum())
