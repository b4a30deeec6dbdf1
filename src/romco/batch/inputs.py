"""Check and join one X and one y per task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse, vstack

from romco.rounds import Features, Round

Numbers = NDArray[np.float64]


def joined(X: Sequence[Any], y: Sequence[ArrayLike], two_classes: bool) -> Round:
    """The events of all tasks as one round; ``X[k]`` (n_k, d) and ``y[k]`` (n_k,) are task k's.

    >>> joined([np.eye(2), np.empty((0, 2))], [[1, -1], []], two_classes=True).task
    array([0, 0])
    """
    if len(X) != len(y) or not len(X):
        raise ValueError(
            f"X and y must be lists of one array per task; got {len(X)} and {len(y)} tasks"
        )
    features = [_features(x, k) for k, x in enumerate(X)]
    labels = [
        _labels(answers, x, k, two_classes)
        for k, (x, answers) in enumerate(zip(features, y, strict=True))
    ]
    widths = [x.shape[1] for x in features]
    if len(set(widths)) > 1:
        raise ValueError(f"all tasks must have the same number of features; X has {widths}")
    sparse = any(issparse(x) for x in features)
    x = vstack(features, format="csr") if sparse else np.concatenate(features)
    task = np.repeat(np.arange(len(X)), [len(answers) for answers in labels])
    return Round(task, x, np.concatenate(labels))


def started(name: str, start: ArrayLike | None, shape: tuple[int, ...]) -> Numbers:
    """Return a checked copy of ``start``, or zeros."""
    if start is None:
        return np.zeros(shape)
    w = np.array(start, dtype=np.float64)
    if w.shape != shape or not np.isfinite(w).all():
        raise ValueError(f"{name} must be finite numbers of shape {shape}; got shape {w.shape}")
    return w


def _features(x: Any, k: int) -> Features:
    x = csr_array(x, dtype=np.float64) if issparse(x) else np.asarray(x, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"X[{k}] must have shape (events, features); got {x.shape}")
    if not np.isfinite(x.data if issparse(x) else x).all():
        raise ValueError(f"X[{k}] holds numbers that are not finite; drop or fill those events")
    return x


def _labels(answers: ArrayLike, x: Features, k: int, two_classes: bool) -> Numbers:
    y = np.asarray(answers, dtype=np.float64)
    if y.shape != (x.shape[0],):
        raise ValueError(f"y[{k}] must have shape ({x.shape[0]},) as X[{k}] says; got {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError(f"y[{k}] holds numbers that are not finite; drop those events")
    if two_classes and not (np.abs(y) == 1.0).all():
        raise ValueError(f"y[{k}] must hold only -1 and +1 for this loss; got {np.unique(y)[:5]}")
    return y
