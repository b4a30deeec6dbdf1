"""Spectrum of U and lengths of V's columns, from what a decomposed learner keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from romco.learners.capabilities import Numbers

if TYPE_CHECKING:
    from scipy.sparse import csc_array

ROUNDING = 1e-12  # of the largest singular value: below it there is nothing


def spectrum(left: Numbers, right: Numbers) -> Numbers:
    """Singular values of U = L R', above rounding, largest first; O((d + m) r^2).

    >>> spectrum(np.array([[3.0], [4.0]]), np.array([[2.0], [0.0]]))
    array([10.])
    """
    if not left.size or not right.size:
        return np.empty(0)
    small: Any = np.linalg.qr(left, mode="r") @ np.transpose(np.linalg.qr(right, mode="r"))
    s = np.linalg.svd(small, compute_uv=False)
    return s[s > ROUNDING * s.max(initial=0.0)]


def column_lengths(own: csc_array) -> Numbers:
    """Length (m,) of each column of V (d, m)."""
    column = np.repeat(np.arange(own.shape[1]), np.diff(own.indptr))
    return np.sqrt(np.bincount(column, own.data**2, minlength=own.shape[1]))
