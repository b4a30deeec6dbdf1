"""Low rank plus outliers under the hinge loss, with a proof of how good the answer is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from romco.batch.proximal import Solution
from romco.batch.rows import TaskRows, tabulated
from romco.batch.spectra import TraceNorm, singular_values
from romco.losses import Hinge
from romco.penalties import TaskGroups
from romco.rounds import Round

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class TwoPrices:
    """rho1 |L|_* + rho2 sum of |s_k|, on the pair (2, d, m)."""

    shared: TraceNorm
    personal: TaskGroups

    def value(self, parts: Numbers) -> float:
        """The price of both parts."""
        return self.shared.value(parts[0]) + self.personal.value(parts[1])

    def prox(self, parts: Numbers, step: float) -> tuple[Numbers, float]:
        """Each part's own step, and the price of the result."""
        shared, cost = self.shared.prox(parts[0], step)
        personal = self.personal.prox(parts[1], step)
        return np.stack([shared, personal]), cost + self.personal.value(personal)

    def allowed(self, gradient: Numbers) -> float:
        """The largest share (at most 1) of a gradient (d, m) that both prices can hold."""
        largest = singular_values(gradient).max(), np.linalg.norm(gradient, axis=0).max()
        limits = self.shared.strength, self.personal.strength
        return min([1.0, *(b / a for a, b in zip(largest, limits, strict=True) if a > b)])


def hinge_robust(
    events: Round, price: TwoPrices, start: Numbers, tol: float, max_iter: int
) -> Solution:
    """Minimise sum of hinge losses of L + S plus ``price`` by ADMM; events ordered by task.

    Margins and parts have copies p and B, tied to W = L + S by springs of stiffness
    e and f, so that a step is a least-squares solve for W, the hinge's prox on every
    margin and the price's prox on the parts. The margins' multipliers are dual weights
    a in [0, 1]: once their gradient X'(y a) is scaled to be inside rho1 (operator
    norm) and rho2 (columns), sum(a) bounds the optimum from below.
    """
    table = tabulated(events, start.shape[2])
    rows, y = table.rows, table.y
    B, p = start, rows.margins(start.sum(axis=0))
    pull, part_pull = np.zeros_like(p), np.zeros_like(B)  # multipliers / stiffness
    e, f = 1.0, _first_stiffness(events, price)
    solve = _least_squares(events, table, e, f)
    best, lower, upper = B, 0.0, _objective(table, price, B)
    iteration, tune = 0, 20
    while iteration < max_iter and upper - lower > tol * upper:
        iteration += 1
        target = B - part_pull
        W = solve(e * rows.adjoint(p - pull) + 0.5 * f * target.sum(axis=0))
        parts = 0.5 * (W + np.stack([target[0] - target[1], target[1] - target[0]]))
        margins = rows.margins(W)
        p_old, B_old = p, B
        q = RELAX * margins + (1.0 - RELAX) * p + pull
        a = np.clip(e * (1.0 - y * q), 0.0, 1.0)
        p, pull = q + y * a / e, -y * a / e
        Q = RELAX * parts + (1.0 - RELAX) * B + part_pull
        B = price.prox(Q, 1.0 / f)[0]
        part_pull = Q - B
        if iteration % 10 == 0 or iteration == max_iter:
            share = price.allowed(rows.adjoint(y * a))
            lower = max(lower, share * float(a.sum()))
            objective = _objective(table, price, B)
            best, upper = (B, objective) if objective < upper else (best, upper)
        if iteration == tune:  # ever more rarely, so that the method still converges
            tune += tune // 2
            stiffer = _balance(margins, p, p_old, pull), _balance(parts, B, B_old, part_pull)
            e, f = e * stiffer[0], f * stiffer[1]
            pull, part_pull = pull / stiffer[0], part_pull / stiffer[1]
            solve = _least_squares(events, table, e, f)
    proved = upper - lower <= tol * upper
    return Solution(best, rows.margins(best.sum(axis=0)), upper, 0.0, iteration, proved)


RELAX = 1.6  # over-relaxation, as usual for ADMM


def _objective(table: TaskRows, price: TwoPrices, parts: Numbers) -> float:
    p = table.rows.margins(parts.sum(axis=0))
    return float(Hinge().value(p, table.y).sum()) + price.value(parts)


def _first_stiffness(events: Round, price: TwoPrices) -> float:
    """Force over distance: rho2 over the weights that move a typical margin by a few units."""
    values = events.x.data if issparse(events.x) else events.x
    length = float(np.linalg.norm(values)) / np.sqrt(max(1, len(events.y)))
    return 0.3 * max(price.personal.strength, 1e-3) * (length or 1.0)


def _balance(value: Numbers, copy: Numbers, copy_before: Numbers, pull: Numbers) -> float:
    """Return the factor on the penalty that balances primal and dual residuals."""
    tiny = np.finfo(float).tiny
    apart = np.linalg.norm(value - copy) / max(np.linalg.norm(copy), np.linalg.norm(value), tiny)
    moved = np.linalg.norm(copy - copy_before) / max(np.linalg.norm(pull), tiny)
    if apart == 0.0 or moved == 0.0:
        return 1.0
    stiffer = float(np.clip(np.sqrt(apart / moved), 0.2, 5.0))
    return stiffer if max(stiffer, 1.0 / stiffer) > 2.0 else 1.0


def _least_squares(
    events: Round, table: TaskRows, e: float, f: float
) -> Callable[[Numbers], Numbers]:
    """The map r -> (e X'X + f / 2)^-1 r, task by task, with matrices of the shorter side."""
    d, m = table.n_features, table.n_tasks
    starts = np.searchsorted(events.task, np.arange(m + 1))
    blocks = [events.x[i:j] for i, j in pairwise(starts)]
    if d <= np.diff(starts).max(initial=1):
        inverse = np.linalg.inv(
            np.stack([_dense(x.T @ x) for x in blocks]) * e + 0.5 * f * np.eye(d)
        )
        return lambda r: np.matmul(inverse, r.T[:, :, None])[:, :, 0].T
    inverses = [np.linalg.inv(_dense(x @ x.T) + 0.5 * f / e * np.eye(x.shape[0])) for x in blocks]

    def solve(r: Numbers) -> Numbers:
        seen = np.split(table.rows.margins(r), starts[1:-1])
        parts = [inverse @ values for inverse, values in zip(inverses, seen, strict=True)]
        return (r - table.rows.adjoint(np.concatenate(parts))) / (0.5 * f)

    return solve


def _dense(square: Any) -> Any:
    return square.toarray() if issparse(square) else square
