"""Trace-norm learning: the weight vectors of all tasks lie in few directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.batch.inputs import joined, started
from romco.batch.proximal import Fit, Solution, minimise, warn_if_short
from romco.batch.rows import compressed, tabulated
from romco.batch.spectra import TraceNorm
from romco.losses import LOSSES
from romco.parameters import not_negative, positive
from romco.rounds import Round

Numbers = NDArray[np.float64]


def trace_norm(
    X: Sequence[Any],
    y: Sequence[ArrayLike],
    rho1: float,
    loss: str = "logistic",
    *,
    tol: float = 1e-5,
    max_iter: int = 20_000,
    start: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Numbers, Numbers]:
    r"""Weights W (d, m) and intercepts c (m,) that minimise loss plus rho1 times the trace norm.

    .. math::
        \text{least squares:}\quad & \sum_k \tfrac12 \|X_k w_k - y_k\|^2 + \rho_1 \|W\|_*
        \quad (c = 0) \\
        \text{logistic:}\quad & \sum_k \tfrac1{n_k} \sum_n
        \log(1 + e^{-y_{kn} (x_{kn} w_k + c_k)}) + \rho_1 \|W\|_*

    The conventions (a sum with 1/2, a mean with free intercepts) are MALSAR's, so
    ``rho1`` has a different scale in the two. ``X[k]`` is a dense or sparse array
    (n_k, d), ``y[k]`` has n_k labels, -1 or +1 for the logistic loss; a task may be
    empty. ``start`` is an earlier (W, intercepts) to begin from. The objective is
    within about ``tol``, relative, of the smallest possible.

    >>> W, intercepts = trace_norm([np.eye(2), np.eye(2)], [[3, 0], [3, 0]], 1.0, "least-squares")
    >>> W.round(4)
    array([[2.2929, 2.2929],
           [0.    , 0.    ]])
    """
    if loss not in ("logistic", "least-squares"):
        raise ValueError(f"loss must be 'logistic' or 'least-squares'; got {loss!r}")
    not_negative("rho1", rho1)
    positive("tol", tol)
    events = joined(X, y, two_classes=loss == "logistic")
    shape = events.x.shape[1], len(X)
    w, c = (None, None) if start is None else start
    theta = np.vstack([started("start W", w, shape), started("start intercepts", c, shape[1:])])
    solve = logistic_trace if loss == "logistic" else least_trace
    solution = solve(events, rho1, theta, tol, max_iter)
    warn_if_short(solution, tol)
    return solution.w[:-1].copy(), solution.w[-1].copy()


def logistic_trace(
    events: Round, rho1: float, start: Numbers, tol: float, max_iter: int, curvature: float = 0.0
) -> Solution:
    """Solve from ``start`` (d + 1, m), whose last row are the intercepts."""
    table = tabulated(events, start.shape[1], intercept=True)
    counts = np.bincount(table.task, minlength=table.n_tasks)
    fit = Fit(table.rows, table.y, 1.0 / counts[table.task], LOSSES["logistic"])
    return minimise(fit, _FreeLastRow(TraceNorm(rho1)), start, tol, max_iter, curvature)


def least_trace(
    events: Round, rho1: float, start: Numbers, tol: float, max_iter: int, curvature: float = 0.0
) -> Solution:
    """Solve from ``start`` (d + 1, m), whose last row becomes 0: there are no intercepts."""
    table = compressed(tabulated(events, start.shape[1]))
    fit = Fit(table.rows, table.y, 1.0, LOSSES["least-squares"])
    solution = minimise(fit, TraceNorm(rho1), start[:-1], tol, max_iter, curvature)
    return solution._replace(w=np.vstack([solution.w, np.zeros(start.shape[1])]))


@dataclass(frozen=True)
class _FreeLastRow:
    """A price on all rows but the last."""

    price: TraceNorm

    def value(self, w: Numbers) -> float:
        return self.price.value(w[:-1])

    def prox(self, w: Numbers, step: float) -> tuple[Numbers, float]:
        cheap, cost = self.price.prox(w[:-1], step)
        return np.vstack([cheap, w[-1:]]), cost
