"""Coupled perceptrons; the relation is recomputed from W with general matrix functions."""

import numpy as np
from scipy.linalg import expm, logm

from tests.reference.linear import Linear, sign


class Coupled(Linear):
    def __init__(self, d, m, *, b=1.0, trigger="mistake", step="constant", C=1.0):
        super().__init__(d, m)
        self.B = np.linalg.inv(np.eye(m) + b / m * (m * np.eye(m) - np.ones((m, m))))
        self.trigger, self.step, self.C = trigger, step, C

    def tau(self, i, x, y):
        margin = self.W[:, i] @ x
        wrong = sign(margin) != y if self.trigger == "mistake" else y * margin < 1
        if not wrong or self.step == "constant":
            return self.C * wrong
        return min(self.C, (1 - y * margin) / (self.B[i, i] * (x @ x))) if x.any() else 0.0

    def learn(self, i, x, y):
        self.W = self.W + self.tau(i, x, y) * y * np.outer(x, self.B[:, i])


class LearnedRelation(Coupled):
    def __init__(
        self,
        d,
        m,
        *,
        divergence,
        eta=1e-4,
        b=0.0,
        prime=0,
        refresh="event",
        **step,
    ):
        super().__init__(d, m, b=b, **step)
        self.divergence, self.eta, self.prime = divergence, eta, prime
        self.refresh, self.seen, self.logs = refresh, 0, np.real(logm(self.B))

    def update(self, task, x, y):
        self.moved = False
        super().update(task, x, y)
        if self.refresh == "round" and self.moved and self.seen > self.prime:
            self.relate(self.W)

    def learn(self, i, x, y):
        self.seen += 1
        before, moves = self.W, self.tau(i, x, y) > 0
        self.moved |= moves
        super().learn(i, x, y)
        if moves and self.refresh == "event" and self.seen > self.prime:
            self.relate(before)

    def relate(self, W):
        gram = self.eta * W.T @ W
        if self.divergence == "log det":
            self.B = self.B + gram
        else:
            self.logs = self.logs + gram
            self.B = expm(self.logs)
        self.logs = self.logs - np.log(np.trace(self.B) / self.m) * np.eye(self.m)
        self.B = self.B * (self.m / np.trace(self.B))
