"""How much events count."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import LARGEST_WEIGHT
from romco.kernels.io.encoded import Encoded
from romco.learners import Learner
from romco.model.waiting import said_of

Model = Any  # a romco.Model, which imports this file
Numbers = NDArray[np.float64]


def weights_of(weight: Any, learner: Learner) -> Numbers:
    """Weights (n,) as numbers; raises ValueError where one is bad, or the learner cannot weigh."""
    if not learner.weighs:
        raise ValueError(
            f"{learner.name} cannot learn events that count differently: leave out the weights, "
            "or take romco-auto or another learner that can"
        )
    found = np.asarray(weight)
    if found.ndim != 1 or found.dtype.kind not in "fiub":
        raise ValueError(f"expected one weight per row; got {found.dtype}{list(found.shape)}")
    found = found.astype(np.float64)
    bad = np.flatnonzero(~((found >= 0.0) & (found <= LARGEST_WEIGHT)))
    if len(bad):
        raise ValueError(
            f"row {bad[0]}: weight {found[bad[0]]}; a weight must be 0 or a positive number up to "
            f"{LARGEST_WEIGHT:g}"
        )
    return found


def counting(
    model: Model,
    x: Any,
    y: list[Any],
    task: list[Any],
    weight: Numbers,
    together: bool,
    opinions: Any = None,
) -> tuple[Numbers, Numbers]:
    """Learn the rows that count; the others, of weight 0, are only predicted, each in its turn."""
    n = len(weight)
    if not len(y) == len(task) == n:
        raise ValueError(f"weight has {n} entries but y has {len(y)} and task {len(task)}")
    said_of(opinions, n)  # refused, if so, before anything is learned
    counts = np.flatnonzero(weight > 0.0)
    if together or not len(counts):
        found = _asked(model, x, task)
        if len(counts):
            said = _some(opinions, counts)
            model.learn(
                *_at(counts, x, y, task), together=True, weight=weight[counts], opinions=said
            )
        return found
    model.check(*_at(counts, x, y, task))  # all of it, before any is learned
    parts = []
    for some, run in groupby(range(n), key=lambda i: weight[i] > 0.0):
        at = np.array(list(run))
        rows, answers, tasks = _at(at, x, y, task)
        parts.append(
            model.predict_and_learn(
                rows, answers, tasks, weight=weight[at], opinions=_some(opinions, at)
            )
            if some
            else _asked(model, rows, tasks)
        )
    margins, chances = zip(*parts, strict=True)
    return _stacked(margins, -np.inf), _stacked(chances, 0.0)


def _asked(model: Model, x: Any, task: list[Any]) -> tuple[Numbers, Numbers]:
    """Margins and probabilities of rows that are not learned."""
    margins: Numbers = model.margins(x, task)
    numbers = model.target == "number"
    return margins, np.full(len(margins), np.nan) if numbers else model.probability_of(margins)


def _at(at: NDArray[np.intp], x: Any, y: list[Any], task: list[Any]) -> tuple[Any, Any, Any]:
    """Some of the rows."""
    return rows_at(x, at), [y[i] for i in at], [task[i] for i in at]


def _some(opinions: Any, at: NDArray[np.intp]) -> Any:
    return None if opinions is None else [opinions[i] for i in at]


def rows_at(x: Any, at: NDArray[np.intp]) -> Any:
    """Rows of a list, an array, a CSR matrix, a frame or of a file."""
    if isinstance(x, Encoded):
        return x.at(at)
    if isinstance(x, list | tuple):
        return [x[i] for i in at]
    if hasattr(x, "iloc"):
        return x.iloc[at]
    return (x.tocsr() if hasattr(x, "tocsr") else x)[at]


def _stacked(parts: Sequence[Numbers], missing: float) -> Numbers:
    """Parts end to end; earlier ones may know fewer classes."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    widest = max(part.shape[1] for part in parts)
    more = [((0, 0), (0, widest - part.shape[1])) for part in parts]
    return np.concatenate(
        [np.pad(p, m, constant_values=missing) for p, m in zip(parts, more, strict=True)]
    )
