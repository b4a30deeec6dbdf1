"""Batch multi-task methods: trace norm, feature learning, robust."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.batch.solver import (
    Fit,
    Solution,
    Spectrum,
    SumOfParts,
    TaskRows,
    TraceNorm,
    TwoPrices,
    hinge_robust,
    joined,
    minimise,
    singular_values,
    started,
    warn_if_short,
)
from romco.losses import LOSSES
from romco.parameters import choice, not_negative, positive
from romco.penalties import TaskGroups
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
    start: Numbers,
    tol: float,
    max_iter: int,
    curvature: float = 0.0,
) -> Solution:
    """Solve from ``start`` (d + 1, m), whose last row are intercepts, 0 for least squares."""
    m = start.shape[1]
    if loss == "logistic":
        rows = TaskRows.of(events, m, intercept=True)
        weight = 1.0 / np.bincount(events.task)[events.task]
        fit, price = Fit(rows, events.y, weight, LOSSES[loss]), TraceNorm(rho1, free=1)
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

    basis: Numbers  # P (d, r), orthonormal columns
    extra: Numbers  # (r,)
    rest: float  # eigenvalue of every direction outside the basis

    @property
    def shape(self) -> tuple[int, int]:
        """(d, d)."""
        return len(self.basis), len(self.basis)

    def __matmul__(self, v: Numbers) -> Numbers:
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
) -> tuple[Numbers, FeatureRelation]:
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
    start: Numbers,
    tol: float,
    max_iter: int,
    curvature: float = 0.0,
) -> Solution:
    """Solve from ``start`` (d, m)."""
    fit = Fit(TaskRows.of(events, start.shape[1]), events.y, 2.0, LOSSES["least-squares"])
    return minimise(fit, SquaredTrace(gamma, eps), start, tol, max_iter, curvature)


def relation(w: Numbers, eps: float) -> FeatureRelation:
    """D = (w w' + eps I)^(1/2) / trace, from the thin SVD of w (d, m)."""
    basis, s, _ = np.linalg.svd(w, full_matrices=False)
    roots, rest = np.sqrt(s * s + eps), np.sqrt(eps)
    total = roots.sum() + (len(w) - len(s)) * rest
    return FeatureRelation(basis, (roots - rest) / total, float(rest / total))


@dataclass(frozen=True)
class SquaredTrace:
    """gamma * (trace of (w w' + eps I)^(1/2))^2 as a price."""

    gamma: float
    eps: float

    def value(self, w: Numbers) -> float:
        s = singular_values(w)
        return self.gamma * float(np.sqrt(s * s + self.eps).sum() + self._outside(w)) ** 2

    def prox(self, w: Numbers, step: float) -> tuple[Numbers, float]:
        """With T the trace at the answer, s = s_hat - 2 step gamma T s / sqrt(s^2 + eps).

        The trace falls as T rises, so T is the one root of an increasing function.
        """
        spectrum, outside = Spectrum.of(w), self._outside(w)
        total, rate = outside + float(spectrum.s.sum()), 2.0 * step * self.gamma
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

    def _outside(self, w: Numbers) -> float:
        """Share of the directions that w cannot reach, d - min(d, m) of them."""
        return max(0, w.shape[0] - w.shape[1]) * float(np.sqrt(self.eps))


def _shrunk(target: Numbers, pull: float, eps: float) -> Numbers:
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
        rows, weight = TaskRows.of(events, len(X)), 2.0 if loss == "least-squares" else 1.0
        fit = Fit(SumOfParts(rows), events.y, weight, LOSSES[loss])
        solution = minimise(fit, price, parts, tol, max_iter)
    warn_if_short(solution, tol)
    return solution.w[0].copy(), solution.w[1].copy()
