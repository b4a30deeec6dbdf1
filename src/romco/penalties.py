r"""Penalties on a weight matrix: their value, and their proximal step in closed form.

``prox(w, step)`` minimises ``|v - w|^2 / (2 step) + value(v)`` over v.

A penalty on singular values is a frozen dataclass that derives from ``SpectralPenalty`` and has two
functions of an array of singular values, ``price`` and ``shrink``. Listed in ``PENALTIES``, it can
be the shared penalty of the learner ``romco``. A penalty without a twin in the kernels, such as
yours, is called once in every round.

>>> import numpy as np
>>> w = np.diag([3.0, 1.0])
>>> Nuclear(2.0).prox(w, step=1.0)
array([[1., 0.],
       [0., 0.]])
>>> TaskGroups(2.0).prox(w, step=1.0)
array([[1., 0.],
       [0., 0.]])
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from romco.parameters import not_negative
from romco.typing import Floats


@dataclass(frozen=True)
class Penalty(ABC):
    """A price on weights (d, m), with a strength of 0 or above, and the step that pays it."""

    strength: float
    compiled: ClassVar[str | None] = None  # its twin in the kernels

    def __post_init__(self) -> None:
        not_negative("strength", self.strength)

    @abstractmethod
    def value(self, w: Floats) -> float:
        """The price of w."""

    @abstractmethod
    def prox(self, w: Floats, step: float) -> Floats:
        """The closest cheap matrix to w."""


class SpectralPenalty(Penalty):
    """A penalty that looks at the singular values of w only, by their price and shrinkage."""

    low_rank: ClassVar[bool]  # whether small singular values become exactly 0

    @abstractmethod
    def price(self, s: Floats) -> float:
        """The price of singular values s >= 0."""

    @abstractmethod
    def shrink(self, s: Floats, step: float) -> Floats:
        """Minimise (x - s)^2 / (2 step) + price(x), for each of falling singular values s."""

    def value(self, w: Floats) -> float:
        return self.price(np.linalg.svd(np.asarray(w, dtype=np.float64), compute_uv=False))

    def prox(self, w: Floats, step: float) -> Floats:
        """P diag(shrink(s)) Q' where w = P diag(s) Q' (paper eq. 13)."""
        if not w.any():
            return np.zeros_like(w)
        left, s, right = np.linalg.svd(w, full_matrices=False)
        shrunk = (left * self.shrink(s, step)) @ right
        shrunk[:, ~w.any(axis=0)] = 0.0  # a task without weights gets none by rounding
        return shrunk


@dataclass(frozen=True)
class Nuclear(SpectralPenalty):
    """strength * (sum of singular values): tasks live in few directions (paper eq. 12)."""

    compiled: ClassVar[str | None] = "nuclear"
    low_rank: ClassVar[bool] = True

    def price(self, s: Floats) -> float:
        return self.strength * float(s.sum())

    def shrink(self, s: Floats, step: float) -> Floats:
        """max(0, s - step * strength) (paper eqs. 15 and 16)."""
        return np.maximum(0.0, s - step * self.strength)


@dataclass(frozen=True)
class LogDet(SpectralPenalty):
    """strength * log det(I + w'w) = strength * sum of log(1 + s^2).

    Shrinks large singular values less than :class:`Nuclear` does, and never makes
    one exactly zero: near 0 it acts like ridge, s -> s / (1 + 2 rho) (paper eq. 19).
    """

    compiled: ClassVar[str | None] = "logdet"
    low_rank: ClassVar[bool] = False

    def price(self, s: Floats) -> float:
        return self.strength * float(np.log1p(s * s).sum())

    def shrink(self, s: Floats, step: float) -> Floats:
        """:func:`shrink_logdet` of s (paper eqs. 20 and 21)."""
        return shrink_logdet(s, step * self.strength)


@dataclass(frozen=True)
class TaskGroups(Penalty):
    """strength * (sum of column norms): most tasks need no model of their own (paper eq. 12)."""

    compiled: ClassVar[str | None] = "task-groups"

    def value(self, w: Floats) -> float:
        return self.strength * float(np.linalg.norm(w, axis=0).sum())

    def prox(self, w: Floats, step: float) -> Floats:
        """Each column gets shorter by step * strength, or vanishes (paper eq. 18)."""
        norms = np.linalg.norm(w, axis=0)
        kept = np.maximum(0.0, norms - step * self.strength)
        return w * (kept / np.maximum(norms, np.finfo(float).tiny))


def shrink_logdet(s: Floats, rho: float) -> Floats:
    """Argmin over x >= 0 of (x - s)^2 / (2 rho) + log(1 + x^2), elementwise, s >= 0.

    The minimiser is a root of x^3 - s x^2 + (1 + 2 rho) x - s, evaluated to full
    precision for every s (the paper's formula loses all digits for small s). Up
    to rho = 4 the root is unique; above, the better of the outer two is taken.

    >>> print(shrink_logdet(np.array([0.0, 1e-20, 2.0]), rho=0.5))
    [0.00000000e+00 5.00000000e-21 1.54368901e+00]
    """
    s = np.asarray(s, dtype=np.float64)
    if rho == 0.0:
        return s.copy()
    if rho <= 4.0:
        x = _single_root(s, rho)
    else:
        x = _best_root(s, rho)
    # s(x) = x + 2 rho x / (1 + x^2) bounds the root from both sides.
    return np.clip(x, np.maximum(s - rho, s / (1.0 + 2.0 * rho)), s)


def _single_root(s: Floats, rho: float) -> Floats:
    """The real root where there is one only: hyperbolic functions do not cancel."""
    b = (1.0 + 2.0 * rho) / 3.0 - s * s / 9.0
    a = s * (s * s / 27.0 + (1.0 - rho) / 3.0)
    q = np.sqrt(np.abs(b))
    ratio = a / np.maximum(q**3, np.finfo(float).tiny)
    above = 2.0 * q * np.sinh(np.arcsinh(ratio) / 3.0)
    below = np.sign(a) * 2.0 * q * np.cosh(np.arccosh(np.maximum(1.0, np.abs(ratio))) / 3.0)
    root = np.where(b > 0.0, above, below)
    return s / 3.0 + np.where(np.abs(b) < 1e-14, np.cbrt(2.0 * a), root)


def _best_root(s: Floats, rho: float) -> Floats:
    """Return the stationary point, smallest or largest, with the lower objective."""
    large = np.sqrt(rho - 1.0 + np.sqrt(rho * (rho - 4.0)))  # turning points of s(x)
    small = np.sqrt(1.0 + 2.0 * rho) / large
    low = _rising_root(s, rho, s / (1.0 + 2.0 * rho), np.minimum(s, small))
    high = _rising_root(s, rho, np.minimum(s, np.maximum(large, s - rho)), s)
    return np.where(_objective(low, s, rho) <= _objective(high, s, rho), low, high)


def _rising_root(s: Floats, rho: float, low: Floats, high: Floats) -> Floats:
    """Solve x + 2 rho x / (1 + x^2) = s on a rising branch in [low, high] by bracketed Newton."""
    x = 0.5 * (low + high)
    for _ in range(200):
        excess = x + 2.0 * rho * x / (1.0 + x * x) - s
        low = np.where(excess <= 0.0, x, low)
        high = np.where(excess >= 0.0, x, high)
        slope = 1.0 + 2.0 * rho * (1.0 - x * x) / (1.0 + x * x) ** 2
        with np.errstate(divide="ignore", invalid="ignore"):
            newton = x - excess / slope
        inside = (newton > low) & (newton < high)
        step = np.where(inside, newton, 0.5 * (low + high))
        if np.array_equal(step, x):
            break
        x = step
    return x


def _objective(x: Floats, s: Floats, rho: float) -> Floats:
    return (x - s) ** 2 / (2.0 * rho) + np.log1p(x * x)


# By name: what can be the shared penalty of a learner. A new one takes a line here, or of your own
# program: ``romco.penalties.PENALTIES["mine"] = Mine``.
PENALTIES: dict[str, Any] = {"nuclear": Nuclear, "logdet": LogDet}
