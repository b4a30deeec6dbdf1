"""A learned W = U + V, small enough for a results file and a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.learners import Learner
from romco.learners.capabilities import Decomposed, personal_of, shared_of

SHOWN = 48  # features; a picture cannot show many more


def decomposition(learner: Learner) -> dict[str, Any]:
    """U and V on the features that matter most, and how alike the tasks are; {} without parts.

    >>> import romco
    >>> decomposition(romco.learner("ogd-unique", 3, 2))
    {}
    """
    if not isinstance(learner, Decomposed):
        return {}
    u, v = shared_of(learner), personal_of(learner)
    w = u + v
    rows = _telling(w)
    return {
        "features": rows.tolist(),
        "shared": _listed(u[rows]),
        "personal": _listed(v[rows]),
        "likeness": _listed(_cosines(w)),
    }


def _telling(w: NDArray[np.float64]) -> NDArray[np.int64]:
    """Features with the largest weights, in turn from every task; those of a task together."""
    ranked = np.argsort(-np.abs(w), axis=0, kind="stable")
    chosen = np.array(list(dict.fromkeys(ranked.ravel().tolist()))[:SHOWN], dtype=np.int64)
    return chosen[np.argsort(np.abs(w[chosen]).argmax(axis=1), kind="stable")]


def _cosines(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of each pair of columns (m, m); 0 with a column of zeros."""
    lengths = np.linalg.norm(w, axis=0)
    unit = np.divide(w, lengths, out=np.zeros_like(w), where=lengths > 0)
    return unit.T @ unit


def _listed(array: NDArray[np.float64]) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in array]
