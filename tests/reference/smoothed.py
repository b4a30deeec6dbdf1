"""OSMTL with the table of cross losses written out."""

import numpy as np

from tests.reference.linear import Linear, hinge, sign


class Smoothed(Linear):
    def __init__(self, d, m, *, trust, C=1.0, alpha=0.5, lambda_=1.0, trigger="margin"):
        super().__init__(d, m)
        self.trust, self.C, self.alpha, self.lambda_ = trust, C, alpha, lambda_
        self.trigger = trigger
        self.P = (np.ones((m, m)) - np.eye(m)) / max(m - 1, 1)

    def update(self, task, x, y):
        W, P = self.W.copy(), self.P.copy()
        n = range(len(y))
        L = np.array([[hinge(W[:, k], x[e], y[e]) for k in range(self.m)] for e in n])
        for k in set(task):
            own = [e for e in n if task[e] == k]
            if not any(self.asks(W[:, k] @ x[e], y[e]) for e in own):
                continue
            for e in n:
                share = self.alpha if task[e] == k else (1 - self.alpha) * P[k, task[e]]
                if L[e, k] > 0:
                    self.W[:, k] += self.C * share * y[e] * x[e]
            peers = sorted(set(task) - {k})
            losses = np.array([np.mean([L[e, k] for e in n if task[e] == j]) for j in peers])
            if peers:
                self.P[k, peers] = self.moved(P[k, peers], losses)

    def asks(self, margin, y):
        return sign(margin) != y if self.trigger == "mistake" else 1 - y * margin > 0

    def moved(self, p, losses):
        mass, rate = p.sum(), self.C / self.lambda_
        if self.trust == "exponential":
            q = p * np.exp(-rate * (losses - losses.min()))
            q = np.maximum(mass * q / q.sum(), 1e-12)
            return q * mass / q.sum()
        return simplex(p - rate * losses, mass)


def simplex(v, mass):
    """The nearest point with entries >= 0 and sum ``mass``, by sorting."""
    u = np.sort(v)[::-1]
    levels = (np.cumsum(u) - mass) / np.arange(1, len(v) + 1)
    kept = np.flatnonzero(u > levels)
    return np.maximum(0.0, v - levels[kept[-1]]) if len(kept) else np.zeros_like(v)
