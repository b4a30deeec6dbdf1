"""Robust multi-task learning: few shared directions, and a few tasks that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.batch.hinge import TwoPrices, hinge_robust
from romco.batch.inputs import joined, started
from romco.batch.proximal import Fit, Solution, minimise, warn_if_short
from romco.batch.rows import Rows, compressed, tabulated
from romco.batch.spectra import TraceNorm
from romco.losses import LOSSES
from romco.parameters import not_negative, positive
from romco.penalties import TaskGroups
from romco.rounds import Round

Numbers = NDArray[np.float64]


def robust(
    X: Sequence[Any],
    y: Sequence[ArrayLike],
    rho1: float,
    rho2: float,
    loss: str = "hinge",
    *,
    tol: float = 1e-5,
    max_iter: int = 20_000,
    start: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Numbers, Numbers]:
    r"""Shared part L and personal part S, both (d, m), of the best fixed weights W = L + S.

    .. math:: \min_{L, S} \sum_k \sum_n \ell(x_{kn} (l_k + s_k), y_{kn})
              + \rho_1 \|L\|_* + \rho_2 \sum_k \|s_k\|

    The loss is a sum over all events: the hinge, the logistic, or for
    "least-squares" the squared error without 1/2 (as in Chen, Zhou and Ye's code).
    With the hinge this is what ROMCO-NuCl minimises online, so it is the fixed model
    in hindsight that regret is measured against.

    Both parts can be non-zero only for ``rho1 / sqrt(m) <= rho2 <= rho1``; at
    ``rho1 == rho2`` the split is not unique. ``X[k]`` is a dense or sparse array
    (n_k, d), ``y[k]`` has n_k labels; a task may be empty. ``start`` is an earlier
    (L, S). The objective is within about ``tol``, relative, of the smallest
    possible; for the hinge loss a duality gap proves it.

    >>> L, S = robust([np.eye(2), np.eye(2)], [[3, 0], [3, 0]], 1.0, 0.9, "least-squares")
    >>> L.round(4), S.any()
    (array([[2.6464, 2.6464],
           [0.    , 0.    ]]), np.False_)
    """
    if loss not in ("hinge", "logistic", "least-squares"):
        raise ValueError(f"loss must be 'hinge', 'logistic' or 'least-squares'; got {loss!r}")
    not_negative("rho1", rho1)
    not_negative("rho2", rho2)
    positive("tol", tol)
    events = joined(X, y, two_classes=loss != "least-squares")
    shape = events.x.shape[1], len(X)
    shared, personal = (None, None) if start is None else start
    parts = np.stack([started("start L", shared, shape), started("start S", personal, shape)])
    price = TwoPrices(TraceNorm(rho1), TaskGroups(rho2))
    solve = hinge_robust if loss == "hinge" else _logistic if loss == "logistic" else _least_squares
    solution = solve(events, price, parts, tol, max_iter)
    warn_if_short(solution, tol)
    return solution.w[0].copy(), solution.w[1].copy()


@dataclass(frozen=True)
class _SumOfParts:
    """The map of W = L + S, as a function of the pair (2, d, m)."""

    rows: Rows

    def margins(self, parts: Numbers) -> Numbers:
        return self.rows.margins(parts[0] + parts[1])

    def adjoint(self, slopes: Numbers) -> Numbers:
        both = self.rows.adjoint(slopes)
        return np.stack([both, both])


def _logistic(
    events: Round, price: TwoPrices, parts: Numbers, tol: float, max_iter: int
) -> Solution:
    table = tabulated(events, parts.shape[2])
    fit = Fit(_SumOfParts(table.rows), table.y, 1.0, LOSSES["logistic"])
    return minimise(fit, price, parts, tol, max_iter)


def _least_squares(
    events: Round, price: TwoPrices, parts: Numbers, tol: float, max_iter: int
) -> Solution:
    table = compressed(tabulated(events, parts.shape[2]))
    fit = Fit(_SumOfParts(table.rows), table.y, 2.0, LOSSES["least-squares"])
    return minimise(fit, price, parts, tol, max_iter)
