"""Coupled perceptrons; the relation is recomputed from W with general matrix functions."""

import numpy as np
from scipy.linalg import expm, logm

from tests.reference.linear import Linear, sign


class Coupled(Linear):
    def __init__(self, d, m, *, b=1.0):
        super().__init__(d, m)
        self.B = np.linalg.inv(np.eye(m) + b / m * (m * np.eye(m) - np.ones((m, m))))

    def learn(self, i, x, y):
        if sign(self.W[:, i] @ x) != y:
            self.W = self.W + y * np.outer(x, self.B[:, i])


class LearnedRelation(Coupled):
    def __init__(self, d, m, *, divergence, eta=1e-4, b=0.0, prime=0, normalize="trace"):
        super().__init__(d, m, b=b)
        self.divergence, self.eta, self.prime, self.normalize = divergence, eta, prime, normalize
        self.seen, self.logs = 0, np.real(logm(self.B))

    def learn(self, i, x, y):
        self.seen += 1
        before = self.W
        super().learn(i, x, y)
        if sign(before[:, i] @ x) != y and self.seen > self.prime:
            gram = self.eta * before.T @ before
            if self.divergence == "log det":
                self.B = self.B + gram
            else:
                self.logs = self.logs + gram
                self.B = expm(self.logs)
            if self.normalize == "trace":
                self.logs = self.logs - np.log(np.trace(self.B) / self.m) * np.eye(self.m)
                self.B = self.B * (self.m / np.trace(self.B))
