"""Accelerated proximal gradient: the one loop that all offline solvers share."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.batch.rows import Rows
from romco.losses import Loss

Numbers = NDArray[np.float64]


ROUNDING = 1e-13  # relative error of a sum of losses
GRID = 1.1  # curvatures are powers of this
STEEPEST = 1e150  # a larger curvature is no number to calculate with, nor is one below 1 / this


class Price(Protocol):
    """Penalty that also returns its value at the proximal point."""

    def value(self, w: Numbers) -> float:
        """The price of w."""

    def prox(self, w: Numbers, step: float) -> tuple[Numbers, float]:
        """The closest cheap point to w, and its price."""


@dataclass(frozen=True)
class Fit:
    """sum over events of weight * loss(margin, y), a smooth function of the weights."""

    rows: Rows
    y: Numbers  # (n,)
    weight: Numbers | float  # (n,)
    loss: Loss

    def value(self, p: Numbers) -> float:
        """The sum, at margins p."""
        return float((self.weight * self.loss.value(p, self.y)).sum())

    def slopes(self, p: Numbers) -> Numbers:
        """Derivative in each margin (n,)."""
        slopes: Numbers = self.weight * self.loss.slope(p, self.y)
        return slopes


class Solution(NamedTuple):
    """Result of the proximal loop."""

    w: Numbers
    margins: Numbers  # (n,)
    objective: float
    curvature: float  # of the last step; a good first guess for a similar problem
    iterations: int
    converged: bool


def minimise(
    fit: Fit,
    price: Price,
    start: Numbers,
    tol: float,
    max_iter: int,
    curvature: float = 0.0,
) -> Solution:
    """Minimise ``fit + price`` from ``start`` with Nesterov's momentum.

    A step is ``w = prox(z - gradient / g, 1 / g)``; the curvature g follows the
    change of the slopes along the step, which stays exact where differences of
    objective values drown in rounding. A step that raises the objective is taken
    back and the momentum dropped. Stops when ``2 g |w - z| max(|w|, |z|)``, an
    estimate of the distance to the optimal objective, is below ``tol`` times the objective.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # told by _finite
        return _minimised(fit, price, start, tol, max_iter, curvature)


def _minimised(
    fit: Fit, price: Price, start: Numbers, tol: float, max_iter: int, curvature: float
) -> Solution:
    w, p = start, fit.rows.margins(start)
    best = fit.value(p) + price.value(w)
    z, q, momentum = w, p, 1.0
    g, iteration, converged = curvature, 0, False
    while iteration < max_iter and not converged:
        iteration += 1
        slopes = fit.slopes(q)
        gradient = fit.rows.adjoint(slopes)
        g = _on_grid(g / GRID if g else _curvature(fit, q, slopes, _finite(gradient)))
        while True:
            new, cost = price.prox(_finite(z - gradient / g), 1.0 / g)
            step, p_new = new - z, fit.rows.margins(new)
            squared = float(np.vdot(step, step))
            bend = float(np.vdot(fit.slopes(p_new) - slopes, p_new - q))
            _finite(np.array([squared, bend, cost]))
            if squared == 0.0 or g == STEEPEST or bend <= g * squared * (1.0 + 1e-9):
                break
            g = _on_grid(max(1.5 * g, bend / squared))
        objective = fit.value(p_new) + cost
        reach = max(np.linalg.norm(new), np.linalg.norm(z))
        converged = 2.0 * g * np.sqrt(squared) * reach <= tol * abs(objective)
        if objective > best + ROUNDING * abs(best):
            if momentum == 1.0:  # a plain step must not rise: the curvature is too small
                g *= 2.0
            z, q, momentum = w, p, 1.0
            continue
        later = 0.5 + np.sqrt(0.25 + momentum**2)
        push = (momentum - 1.0) / later
        z, q = new + push * (new - w), p_new + push * (p_new - p)
        w, p, best, momentum = new, p_new, objective, later
    return Solution(w, p, best, g, iteration, converged)


def warn_if_short(solution: Solution, tol: float) -> None:
    """Say so when the iterations ran out before the tolerance was met."""
    if not solution.converged:
        from sklearn.exceptions import ConvergenceWarning  # here: slow to import

        warnings.warn(
            f"stopped after {solution.iterations} iterations before reaching tol={tol}; "
            "give a larger max_iter or tol, or penalise more",
            ConvergenceWarning,
            stacklevel=3,
        )


def _on_grid(g: float) -> float:
    """The next power of GRID, so that rounding errors in g do not feed on themselves."""
    g = min(max(g, 1.0 / STEEPEST), STEEPEST)
    return min(float(GRID ** np.ceil(np.log(g) / np.log(GRID) - 1e-6)), STEEPEST)


def _curvature(fit: Fit, p: Numbers, slopes: Numbers, gradient: Numbers) -> float:
    """Curvature along the gradient, over a distance that moves no margin by more than 0.1."""
    along = fit.rows.margins(gradient)
    largest = float(np.abs(along).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    move = 0.1 / max(largest, 1.0 / STEEPEST)
    bend = float(np.vdot(fit.slopes(p + move * along) - slopes, along)) / move
    squared = float(np.vdot(gradient, gradient))
    return (bend / squared if squared > 0.0 else 0.0) or 1.0


def _finite(values: Numbers) -> Numbers:
    """The values, if all are numbers: a fit that has overflowed would never end."""
    if not np.isfinite(values).all():
        raise FloatingPointError(
            "the fit has overflowed: the features or the penalty's parameters are too large for it"
        )
    return values
