"""OMTL: the weights a of a round, by brackets and sorting."""

import numpy as np
from scipy.optimize import brentq

from tests.reference.linear import Linear


class SharedLoss(Linear):
    def __init__(self, d, m, *, C=1.0, norm="L2", update="implicit", r=2):
        super().__init__(d, m)
        self.C, self.norm, self.kind = C, norm, update
        self.r = {"L1": np.inf, "Linf": 1}.get(norm, r)
        self.radius = 0.0

    def update(self, task, x, y):
        s = (x * x).sum(axis=1)
        losses = np.where(s > 0, np.maximum(0.0, 1 - y * self.predict(task, x)), 0.0)
        if not losses.any():
            return
        for i, row, label, a in zip(task, x, y, self.allot(losses, s), strict=True):
            self.W[:, i] += a * label * row

    def allot(self, losses, s):
        if self.kind == "implicit":
            a = np.zeros_like(losses)
            on = losses > 0
            solve = euclidean if self.norm == "L2" else largest
            a[on] = solve(losses[on], s[on], self.C, self.r)
            return a
        unit = self.direction(losses)
        if self.kind == "finite":
            return self.C * unit
        self.radius = max(self.radius, s.max())
        remoteness = 1.0 if self.norm == "L2" else min(self.r, max(self.m, len(losses)))
        return min(self.C, unit @ losses / (self.radius * remoteness)) * unit

    def direction(self, losses):
        if self.norm == "L2":
            return losses / np.linalg.norm(losses)
        order = np.argsort(-losses, kind="stable")
        unit = np.zeros_like(losses)
        unit[order[: int(min(self.r, len(losses)))]] = 1.0
        return np.where(losses > 0, unit, 0.0)


def euclidean(losses, s, C, r):
    if np.linalg.norm(losses / s) <= C:
        return losses / s
    theta = brentq(
        lambda theta: np.linalg.norm(losses / (s + theta)) - C,
        0.0,
        np.linalg.norm(losses) / C,
        xtol=1e-300,
        rtol=8.9e-16,
    )
    return losses / (s + theta)


def largest(losses, s, C, r):
    """The sum of a is a broken line in theta: find the piece, then the point on it."""

    def a(theta):
        return np.minimum(C, np.maximum(0.0, losses - theta) / s)

    if a(0.0).sum() <= r * C:
        return a(0.0)
    corners = np.concatenate([losses, losses - C * s, [0.0]])
    corners = np.sort(corners[corners >= 0])
    k = max(k for k, theta in enumerate(corners) if a(theta).sum() >= r * C)
    if k + 1 == len(corners):
        return a(corners[k])
    low, high = corners[k], corners[k + 1]
    f, g = a(low).sum(), a(high).sum()
    return a(low + (high - low) * (f - r * C) / (f - g) if f > g else low)
