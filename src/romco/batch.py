"""Offline multi-task methods: trace norm, feature learning, robust; and their proximal solvers.

Baselines retrain with them, regret compares with them.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, hstack, issparse, vstack

from romco.losses import LOSSES, Hinge, Loss
from romco.parameters import choice, not_negative, positive
from romco.penalties import TaskGroups
from romco.rounds import Round
from romco.typing import Floats

__all__ = ["FeatureRelation", "feature_learning", "robust", "trace_norm"]

ROUNDING = 1e-13  # relative error of a sum of losses
GRID = 1.1  # curvatures are powers of this
STEEPEST = 1e150  # a larger curvature is no number to calculate with, nor is one below 1 / this
RELAX = 1.6  # over-relaxation, as usual for ADMM


class Solution(NamedTuple):
    """Result of the proximal loop."""

    w: Floats
    curvature: float  # of the last step; a good first guess for a similar problem
    iterations: int
    converged: bool


def trace_norm(
    X: Sequence[Any],
    y: Sequence[ArrayLike],
    rho1: float,
    loss: str = "logistic",
    *,
    tol: float = 1e-5,
    max_iter: int = 20_000,
    start: tuple[ArrayLike, ArrayLike] | None = None,
) -> tuple[Floats, Floats]:
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
    choice("loss", loss, "logistic", "least-squares")
    not_negative("rho1", rho1)
    positive("tol", tol)
    events = joined(X, y, two_classes=loss == "logistic")
    shape = events.x.shape[1], len(X)
    w, c = (None, None) if start is None else start
    theta = np.vstack([started("start W", w, shape), started("start intercepts", c, shape[1:])])
    solution = low_rank(events, rho1, loss, theta, tol, max_iter)
    warn_if_short(solution, tol)
    return solution.w[:-1].copy(), solution.w[-1].copy()


def low_rank(
    events: Round,
    rho1: float,
    loss: str,
    start: Floats,
    tol: float,
    max_iter: int,
    curvature: float = 0.0,
) -> Solution:
    """Solve from ``start`` (d + 1, m), whose last row are intercepts, 0 for least squares."""
    m = start.shape[1]
    if loss == "logistic":
        rows = TaskRows.of(events, m, intercept=True)
        weight = 1.0 / np.bincount(events.task)[events.task]
        fit = Fit(rows, events.y, weight, LOSSES[loss])
        price = TraceNorm(rho1, free=1)
        return minimise(fit, price, start, tol, max_iter, curvature)
    fit = Fit(TaskRows.of(events, m), events.y, 1.0, LOSSES[loss])
    solution = minimise(fit, TraceNorm(rho1), start[:-1], tol, max_iter, curvature)
    return solution._replace(w=np.vstack([solution.w, np.zeros(m)]))


@dataclass(frozen=True)
class FeatureRelation:
    """D = rest I + P diag(extra) P': symmetric, positive, trace 1, never formed unless asked.

    >>> D = FeatureRelation(np.array([[1.0], [0.0]]), np.array([0.5]), 0.25)
    >>> np.asarray(D)
    array([[0.75, 0.  ],
           [0.  , 0.25]])
    >>> D @ np.array([1.0, 1.0])
    array([0.75, 0.25])
    """

    basis: Floats  # P (d, r), orthonormal columns
    extra: Floats  # (r,)
    rest: float  # eigenvalue of every direction outside the basis

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        return len(self.basis), len(self.basis)

    def __matmul__(self, v: Floats) -> Floats:
        return self.rest * v + (self.basis * self.extra) @ (self.basis.T @ v)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self @ np.eye(len(self.basis)), dtype=dtype)


def feature_learning(
    X: Sequence[Any],
    y: Sequence[ArrayLike],
    gamma: float,
    eps: float = 1e-4,
    *,
    tol: float = 1e-5,
    max_iter: int = 20_000,
    start: ArrayLike | None = None,
) -> tuple[Floats, FeatureRelation]:
    r"""Weights W (d, m) and feature relation D (d, d) of Argyriou, Evgeniou and Pontil.

    .. math:: \min_{W,\; D \succ 0,\; \mathrm{tr} D = 1} \sum_k \|X_k w_k - y_k\|^2
              + \gamma\, \mathrm{tr}\, D^{-1} (W W' + \epsilon I)

    The best D for a given W is :math:`(WW' + \epsilon I)^{1/2}` divided by its trace,
    which leaves a convex problem in W alone,
    :math:`\gamma (\sum_i \sqrt{s_i^2 + \epsilon})^2` over the d singular values of W.
    It is solved directly, where the authors alternate between W and D: same answer,
    many times fewer passes. ``X[k]`` is a dense or sparse array (n_k, d), ``y[k]`` has
    n_k numbers; a task may be empty. ``start`` is an earlier W. D acts by ``D @ v``
    and becomes dense by ``np.asarray(D)``.

    >>> W, D = feature_learning([np.eye(2), np.eye(2)], [[3, 0], [3, 0]], gamma=1.0, eps=1e-12)
    >>> W.round(3)
    array([[1.5, 1.5],
           [0. , 0. ]])
    >>> np.asarray(D).round(3)
    array([[1., 0.],
           [0., 0.]])
    """
    positive("gamma", gamma)
    positive("eps", eps)
    positive("tol", tol)
    events = joined(X, y, two_classes=False)
    w = started("start", start, (events.x.shape[1], len(X)))
    solution = shared_features(events, gamma, eps, w, tol, max_iter)
    warn_if_short(solution, tol)
    return solution.w, relation(solution.w, eps)


def shared_features(
    events: Round,
    gamma: float,
    eps: float,
    start: Floats,
    tol: float,
    max_iter: int,
    curvature: float = 0.0,
) -> Solution:
    """Solve from ``start`` (d, m)."""
    fit = Fit(TaskRows.of(events, start.shape[1]), events.y, 2.0, LOSSES["least-squares"])
    return minimise(fit, SquaredTrace(gamma, eps), start, tol, max_iter, curvature)


def relation(w: Floats, eps: float) -> FeatureRelation:
    """D = (w w' + eps I)^(1/2) / trace, from the thin SVD of w (d, m)."""
    basis, s, _ = np.linalg.svd(w, full_matrices=False)
    roots = np.sqrt(s * s + eps)
    rest = np.sqrt(eps)
    total = roots.sum() + (len(w) - len(s)) * rest
    return FeatureRelation(basis, (roots - rest) / total, float(rest / total))


@dataclass(frozen=True)
class SquaredTrace:
    """gamma * (trace of (w w' + eps I)^(1/2))^2 as a price."""

    gamma: float
    eps: float

    def value(self, w: Floats) -> float:
        s = singular_values(w)
        return self.gamma * float(np.sqrt(s * s + self.eps).sum() + self._outside(w)) ** 2

    def prox(self, w: Floats, step: float) -> tuple[Floats, float]:
        """With T the trace at the answer, s = s_hat - 2 step gamma T s / sqrt(s^2 + eps).

        The trace falls as T rises, so T is the one root of an increasing function.
        """
        spectrum = Spectrum.of(w)
        outside = self._outside(w)
        total = outside + float(spectrum.s.sum())
        rate = 2.0 * step * self.gamma
        for _ in range(100):
            s = _shrunk(spectrum.s, rate * total, self.eps)
            root = np.sqrt(s * s + self.eps)
            excess = total - outside - float(root.sum())
            bend = 1.0 + rate * total * self.eps / root**3
            move = excess / (1.0 + rate * float(((s / root) ** 2 / bend).sum()))
            total -= move
            if abs(move) <= 1e-14 * total:
                break
        return spectrum.with_values(s), self.gamma * (outside + float(root.sum())) ** 2

    def _outside(self, w: Floats) -> float:
        """Share of the directions that w cannot reach, d - min(d, m) of them."""
        return max(0, w.shape[0] - w.shape[1]) * float(np.sqrt(self.eps))


def _shrunk(target: Floats, pull: float, eps: float) -> Floats:
    """The s with s + pull s / sqrt(s^2 + eps) = target.

    The left side is increasing and concave, so Newton from below never overshoots.
    """
    s = np.maximum(target - pull, target / (1.0 + pull / np.sqrt(eps)))
    for _ in range(100):
        root = np.sqrt(s * s + eps)
        move = (target - s - pull * s / root) / (1.0 + pull * eps / root**3)
        s = s + move
        if (np.abs(move) <= 1e-15 * target).all():
            break
    return s


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
) -> tuple[Floats, Floats]:
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
    choice("loss", loss, "hinge", "logistic", "least-squares")
    not_negative("rho1", rho1)
    not_negative("rho2", rho2)
    positive("tol", tol)
    events = joined(X, y, two_classes=loss != "least-squares")
    shape = events.x.shape[1], len(X)
    shared, personal = (None, None) if start is None else start
    parts = np.stack([started("start L", shared, shape), started("start S", personal, shape)])
    price = TwoPrices(TraceNorm(rho1), TaskGroups(rho2))
    if loss == "hinge":
        solution = hinge_robust(events, price, parts, tol, max_iter)
    else:
        rows = TaskRows.of(events, len(X))
        weight = 1.0
        if loss == "least-squares":
            weight = 2.0
        fit = Fit(SumOfParts(rows), events.y, weight, LOSSES[loss])
        solution = minimise(fit, price, parts, tol, max_iter)
    warn_if_short(solution, tol)
    return solution.w[0].copy(), solution.w[1].copy()


# Solvers


def joined(X: Sequence[Any], y: Sequence[ArrayLike], two_classes: bool) -> Round:
    """The events of all tasks as one round; ``X[k]`` (n_k, d) and ``y[k]`` (n_k,) are task k's."""
    if len(X) != len(y) or not len(X):
        raise ValueError(
            f"X and y must be lists of one array per task; got {len(X)} and {len(y)} tasks"
        )
    features = list(map(_features, X, count()))
    check = partial(_labels, two_classes=two_classes)
    labels = list(map(check, y, features, count()))
    widths = [x.shape[1] for x in features]
    if len(set(widths)) > 1:
        raise ValueError(f"all tasks must have the same number of features; X has {widths}")
    x = vstack(features, format="csr")
    task = np.repeat(np.arange(len(X)), list(map(len, labels)))
    return Round(task, x, np.concatenate(labels))


def started(name: str, start: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    """Return a checked copy of ``start``, or zeros."""
    if start is None:
        return np.zeros(shape)
    w = np.array(start, dtype=np.float64)
    if w.shape != shape or not np.isfinite(w).all():
        raise ValueError(f"{name} must be finite numbers of shape {shape}; got shape {w.shape}")
    return w


def _features(x: Any, k: int) -> csr_array:
    if not issparse(x):
        x = np.asarray(x, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"X[{k}] must have shape (events, features); got {x.shape}")
    rows = csr_array(x, dtype=np.float64)
    if not np.isfinite(rows.data).all():
        raise ValueError(f"X[{k}] holds numbers that are not finite; drop or fill those events")
    return rows


def _labels(answers: ArrayLike, x: csr_array, k: int, two_classes: bool) -> Floats:
    y = np.asarray(answers, dtype=np.float64)
    if y.shape != (x.shape[0],):
        raise ValueError(f"y[{k}] must have shape ({x.shape[0]},) as X[{k}] says; got {y.shape}")
    if not np.isfinite(y).all():
        raise ValueError(f"y[{k}] holds numbers that are not finite; drop those events")
    if two_classes and not (np.abs(y) == 1.0).all():
        raise ValueError(f"y[{k}] must hold only -1 and +1 for this loss; got {np.unique(y)[:5]}")
    return y


@dataclass(frozen=True)
class TaskRows:
    """Rows of all tasks in one block matrix: a single product whatever their number."""

    block: Any  # (n, m d) CSR, event i of task k has its features at k d, ..., k d + d - 1
    n_tasks: int

    @classmethod
    def of(cls, events: Round, n_tasks: int, intercept: bool = False) -> "TaskRows":
        """Return the rows of events; an intercept is one more feature that is always 1."""
        x: Any = csr_array(events.x)
        if intercept:
            x = csr_array(hstack([x, np.ones((x.shape[0], 1))]))
        n, d = x.shape
        columns = x.indices + np.repeat(events.task * d, np.diff(x.indptr))
        return cls(csr_array((x.data, columns, x.indptr), shape=(n, n_tasks * d)), n_tasks)

    def margins(self, w: Floats) -> Floats:
        """w_k . x of every event (n,), from weights (d, m)."""
        margins: Floats = self.block @ w.T.ravel()
        return margins

    def adjoint(self, slopes: Floats) -> Floats:
        """Sum of slope * x over the events of each task: (d, m) from (n,)."""
        columns: Floats = (self.block.T @ slopes).reshape(self.n_tasks, -1).T
        return columns


@dataclass(frozen=True)
class SumOfParts:
    """The map of W = L + S, as a function of the pair (2, d, m)."""

    rows: TaskRows

    def margins(self, parts: Floats) -> Floats:
        return self.rows.margins(parts[0] + parts[1])

    def adjoint(self, slopes: Floats) -> Floats:
        both = self.rows.adjoint(slopes)
        return np.stack([both, both])


@dataclass(frozen=True)
class Spectrum:
    """Singular values s of a matrix w and the singular vectors of its short side.

    ``w'w = Q diag(s^2) Q'`` costs one product and a small eigenproblem, a fifth or
    less of a thin SVD; values below 1e-8 of the largest are rounding, which a
    shrinkage does not notice.
    """

    w: Floats  # (d, m)
    s: Floats  # (r,)  r = min(d, m), ascending
    q: Floats  # (r, r)

    @classmethod
    def of(cls, w: Floats) -> "Spectrum":
        """The spectrum of w (d, m)."""
        if w.shape[0] >= w.shape[1]:
            gram = w.T @ w
        else:
            gram = w @ w.T
        squares, q = np.linalg.eigh(gram)
        return cls(w, np.sqrt(np.maximum(squares, 0.0)), q)

    def with_values(self, values: Floats) -> Floats:
        """The matrix with other singular values (r,); columns of zeros stay so."""
        middle = (self.q * (values / np.maximum(self.s, np.finfo(float).tiny))) @ self.q.T
        if self.w.shape[0] < self.w.shape[1]:
            return middle @ self.w
        scaled: Floats = self.w @ middle
        scaled[:, ~self.w.any(axis=0)] = 0.0  # also in rounding: a task without events
        return scaled


def singular_values(w: Floats) -> Floats:
    """Singular values of w (d, m), to full precision."""
    return np.asarray(np.linalg.svd(w, compute_uv=False), dtype=np.float64)


@dataclass(frozen=True)
class TraceNorm:
    """strength * (sum of singular values) as a price; the last ``free`` rows cost nothing."""

    strength: float
    free: int = 0

    def value(self, w: Floats) -> float:
        return self.strength * float(singular_values(w[: len(w) - self.free]).sum())

    def prox(self, w: Floats, step: float) -> tuple[Floats, float]:
        """Each singular value s becomes max(0, s - step * strength)."""
        paid, free = np.split(w, [len(w) - self.free])
        spectrum = Spectrum.of(paid)
        kept = np.maximum(0.0, spectrum.s - step * self.strength)
        cost = self.strength * float(kept.sum())
        return np.vstack([spectrum.with_values(kept), free]), cost


@dataclass(frozen=True)
class TwoPrices:
    """rho1 |L|_* + rho2 sum of |s_k|, on the pair (2, d, m)."""

    shared: TraceNorm
    personal: TaskGroups

    def value(self, parts: Floats) -> float:
        return self.shared.value(parts[0]) + self.personal.value(parts[1])

    def prox(self, parts: Floats, step: float) -> tuple[Floats, float]:
        shared, cost = self.shared.prox(parts[0], step)
        personal = self.personal.prox(parts[1], step)
        return np.stack([shared, personal]), cost + self.personal.value(personal)

    def allowed(self, gradient: Floats) -> float:
        """The largest share (at most 1) of a gradient (d, m) that both prices can hold."""
        largest = singular_values(gradient).max(), np.linalg.norm(gradient, axis=0).max()
        limits = self.shared.strength, self.personal.strength
        return min([1.0, *(b / a for a, b in zip(largest, limits, strict=True) if a > b)])


Price = TraceNorm | SquaredTrace | TwoPrices  # penalties whose prox returns its price, too


@dataclass(frozen=True)
class Fit:
    """sum over events of weight * loss(margin, y), a smooth function of the weights."""

    rows: TaskRows | SumOfParts
    y: Floats  # (n,)
    weight: Floats | float  # (n,)
    loss: Loss

    def value(self, p: Floats) -> float:
        """The sum, at margins p."""
        return float((self.weight * self.loss.value(p, self.y)).sum())

    def slopes(self, p: Floats) -> Floats:
        """Derivative in each margin (n,)."""
        slopes: Floats = self.weight * self.loss.slope(p, self.y)
        return slopes


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # _finite raises where it matters
def minimise(
    fit: Fit, price: Price, start: Floats, tol: float, max_iter: int, curvature: float = 0.0
) -> Solution:
    """Minimise ``fit + price`` from ``start`` with Nesterov's momentum.

    A step is ``w = prox(z - gradient / g, 1 / g)``; the curvature g follows the
    change of the slopes along the step, which stays exact where differences of
    objective values drown in rounding. A step that raises the objective is taken
    back and the momentum dropped. Stops when ``2 g |w - z| max(|w|, |z|)``, an
    estimate of the distance to the optimal objective, is below ``tol`` times the objective.
    """
    w, p = start, fit.rows.margins(start)
    best = fit.value(p) + price.value(w)
    z, q, momentum = w, p, 1.0
    g, iteration, converged = curvature, 0, False
    while iteration < max_iter and not converged:
        iteration += 1
        slopes = fit.slopes(q)
        gradient = fit.rows.adjoint(slopes)
        if g:
            guess = g / GRID
        else:
            guess = _curvature(fit, q, slopes, _finite(gradient))
        g = _on_grid(guess)
        while True:
            new, cost = price.prox(_finite(z - gradient / g), 1.0 / g)
            step = new - z
            p_new = fit.rows.margins(new)
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
        z = new + push * (new - w)
        q = p_new + push * (p_new - p)
        w, p, best, momentum = new, p_new, objective, later
    return Solution(w, g, iteration, converged)


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


def _curvature(fit: Fit, p: Floats, slopes: Floats, gradient: Floats) -> float:
    """Curvature along the gradient, over a distance that moves no margin by more than 0.1."""
    along = fit.rows.margins(gradient)
    largest = float(np.abs(along).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    move = 0.1 / max(largest, 1.0 / STEEPEST)
    bend = float(np.vdot(fit.slopes(p + move * along) - slopes, along)) / move
    squared = float(np.vdot(gradient, gradient))
    if squared == 0.0:
        return 1.0
    return bend / squared or 1.0


def _finite(values: Floats) -> Floats:
    """The values, if all are numbers: a fit that has overflowed would never end."""
    if not np.isfinite(values).all():
        raise FloatingPointError(
            "the fit has overflowed: the features or the penalty's parameters are too large for it"
        )
    return values


def hinge_robust(
    events: Round, price: TwoPrices, start: Floats, tol: float, max_iter: int
) -> Solution:
    """Minimise sum of hinge losses of L + S plus ``price`` by ADMM; events ordered by task.

    Margins and parts have copies p and B, tied to W = L + S by springs of stiffness
    e and f, so that a step is a least-squares solve for W, the hinge's prox on every
    margin and the price's prox on the parts. The margins' multipliers are dual weights
    a in [0, 1]: once their gradient X'(y a) is scaled to be inside rho1 (operator
    norm) and rho2 (columns), sum(a) bounds the optimum from below.
    """
    rows, y = TaskRows.of(events, start.shape[2]), events.y
    B, p = start, rows.margins(start.sum(axis=0))
    pull = np.zeros_like(p)  # multipliers / stiffness
    part_pull = np.zeros_like(B)
    e, f = 1.0, _first_stiffness(events, price)
    solve = _least_squares(events, rows, e, f)
    best, lower, upper = B, 0.0, _objective(rows, y, price, B)
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
        p = q + y * a / e
        pull = -y * a / e
        Q = RELAX * parts + (1.0 - RELAX) * B + part_pull
        B = price.prox(Q, 1.0 / f)[0]
        part_pull = Q - B
        if iteration % 10 == 0 or iteration == max_iter:
            share = price.allowed(rows.adjoint(y * a))
            lower = max(lower, share * float(a.sum()))
            objective = _objective(rows, y, price, B)
            if objective < upper:
                best, upper = B, objective
        if iteration == tune:  # ever more rarely, so that the method still converges
            tune += tune // 2
            stiffer = _balance(margins, p, p_old, pull), _balance(parts, B, B_old, part_pull)
            e = e * stiffer[0]
            f = f * stiffer[1]
            pull = pull / stiffer[0]
            part_pull = part_pull / stiffer[1]
            solve = _least_squares(events, rows, e, f)
    return Solution(best, 0.0, iteration, upper - lower <= tol * upper)


def _objective(rows: TaskRows, y: Floats, price: TwoPrices, parts: Floats) -> float:
    return float(Hinge().value(rows.margins(parts.sum(axis=0)), y).sum()) + price.value(parts)


def _first_stiffness(events: Round, price: TwoPrices) -> float:
    """Force over distance: rho2 over the weights that move a typical margin by a few units."""
    x: Any = events.x
    length = float(np.linalg.norm(x.data)) / np.sqrt(max(1, len(events.y)))
    return 0.3 * max(price.personal.strength, 1e-3) * (length or 1.0)


def _balance(value: Floats, copy: Floats, copy_before: Floats, pull: Floats) -> float:
    """Return the factor on the penalty that balances primal and dual residuals."""
    tiny = np.finfo(float).tiny
    apart = np.linalg.norm(value - copy) / max(np.linalg.norm(copy), np.linalg.norm(value), tiny)
    moved = np.linalg.norm(copy - copy_before) / max(np.linalg.norm(pull), tiny)
    if apart == 0.0 or moved == 0.0:
        return 1.0
    stiffer = float(np.clip(np.sqrt(apart / moved), 0.2, 5.0))
    if max(stiffer, 1.0 / stiffer) > 2.0:
        return stiffer
    return 1.0


def _least_squares(events: Round, rows: TaskRows, e: float, f: float) -> Callable[[Floats], Floats]:
    """The map r -> (e X'X + f / 2)^-1 r, task by task, with matrices of the shorter side."""
    d = events.x.shape[1]
    starts = np.searchsorted(events.task, np.arange(rows.n_tasks + 1))
    blocks: list[Any] = [events.x[i:j] for i, j in pairwise(starts)]
    if d <= np.diff(starts).max(initial=1):
        dense = list(map(csr_array.toarray, blocks))
        squares = [x.T @ x for x in dense]
        inverse = np.linalg.inv(np.stack(squares) * e + 0.5 * f * np.eye(d))
        return lambda r: np.matmul(inverse, r.T[:, :, None])[:, :, 0].T
    inverses = [
        np.linalg.inv((x @ x.T).toarray() + 0.5 * f / e * np.eye(x.shape[0])) for x in blocks
    ]

    def solve(r: Floats) -> Floats:
        seen = np.split(rows.margins(r), starts[1:-1])
        parts = list(map(np.matmul, inverses, seen))
        return (r - rows.adjoint(np.concatenate(parts))) / (0.5 * f)

    return solve
