"""AROW and CW-COL with matrices throughout; a diagonal covariance is one cut to its diagonal."""

import numpy as np

from tests.reference.linear import Linear, hinge


def arow(mu, S, x, y, r, covariance):
    loss = hinge(mu, x, y)
    if loss == 0:
        return mu, S
    b = 1 / (x @ S @ x + r)
    after = S - b * np.outer(S @ x, S @ x)
    return mu + b * loss * y * (S @ x), cut(after, covariance)


def cut(S, covariance):
    return S if covariance == "full" else np.diag(np.diag(S))


class Arow(Linear):
    def __init__(self, d, m, *, models, r=1.0, covariance="diagonal"):
        super().__init__(d, m)
        self.models, self.r, self.covariance = models, r, covariance
        self.S = [np.eye(d) for _ in range(m)]

    def learn(self, i, x, y):
        mu, S = arow(self.W[:, i], self.S[i], x, y, self.r, self.covariance)
        for j in [i] if self.models == "unique" else range(self.m):
            self.W[:, j], self.S[j] = mu, S


class ConfidenceWeighted(Linear):
    def __init__(self, d, m, *, eta1=1.0, eta2=1.0, r=1.0, a=1.0, covariance="diagonal"):
        super().__init__(d, m)
        self.eta1, self.eta2, self.r, self.covariance = eta1, eta2, r, covariance
        self.u, self.Su = np.zeros(d), a * np.eye(d)
        self.S = [a * np.eye(d) for _ in range(m)]

    def learn(self, i, x, y):
        self.u, self.Su = arow(self.u, self.Su, x, y, self.r, self.covariance)
        if hinge(self.W[:, i], x, y) > 0:
            mu, S = self.fused(i)
            r = self.r * (self.eta1 + self.eta2)
            self.W[:, i], self.S[i] = arow(mu, S, x, y, r, self.covariance)

    def fused(self, i):
        own, other = np.linalg.inv(self.S[i]), np.linalg.inv(self.Su)
        eta = self.eta1 + self.eta2
        S = np.linalg.inv((self.eta1 * own + self.eta2 * other) / eta)
        mu = S @ (self.eta1 * own @ self.W[:, i] + self.eta2 * other @ self.u) / eta
        return mu, S
