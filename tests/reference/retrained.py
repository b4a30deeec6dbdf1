"""MTFL by the authors' alternation, trace norm by plain proximal gradient, and retraining."""

import numpy as np


def alternated_features(X, y, gamma, eps, iterations=100):
    """Given D solve every task; given W, D = (W W' + eps I)^(1/2) / trace."""
    d = X[0].shape[1]
    D = np.eye(d) / d
    for _ in range(iterations):
        W = np.stack(
            [
                np.linalg.solve(x.T @ x + gamma * np.linalg.inv(D), x.T @ a)
                for x, a in zip(X, y, strict=True)
            ],
            axis=1,
        )
        values, vectors = np.linalg.eigh(W @ W.T + eps * np.eye(d))
        D = (vectors * np.sqrt(values)) @ vectors.T
        D /= np.trace(D)
    return W, D


def plain_trace(X, y, rho1, loss, iterations=300):
    """Nesterov's proximal gradient with a safe constant step: weights and intercepts.

    Momentum begins anew where it points uphill (O'Donoghue and Candes).
    """
    d, m = X[0].shape[1], len(X)
    W, c = np.zeros((d, m)), np.zeros(m)
    if loss == "logistic":
        bounds = [
            np.linalg.norm(np.column_stack([x, np.ones(len(x))]), 2) ** 2 / 4 / len(x)
            for x in X
            if len(x)
        ]
    else:
        bounds = [np.linalg.norm(x, 2) ** 2 for x in X if len(x)]
    g = max(bounds)
    Z, b, t = W, c, 0
    for _ in range(iterations):
        G, h = np.zeros((d, m)), np.zeros(m)
        for k, (x, a) in enumerate(zip(X, y, strict=True)):
            if len(x):
                p = x @ Z[:, k] + b[k]
                r = -a / (1 + np.exp(a * p)) / len(x) if loss == "logistic" else p - a
                G[:, k], h[k] = x.T @ r, r.sum() if loss == "logistic" else 0.0
        left, s, right = np.linalg.svd(Z - G / g, full_matrices=False)
        old, old_c = W, c
        W, c = (left * np.maximum(0, s - rho1 / g)) @ right, b - h / g
        uphill = ((Z - W) * (W - old)).sum() + (b - c) @ (c - old_c) > 0
        t = 0 if uphill else t + 1
        Z, b = W + t / (t + 3) * (W - old), c + t / (t + 3) * (c - old_c)
    return W, c


class Retrained:
    """Keep lists of events per task; fit them all when enough have come."""

    def __init__(self, d, m, fit, every, window=None):
        self.d, self.m, self.fit, self.every, self.window = d, m, fit, every, window
        self.events, self.new = [], 0
        self.w, self.c = np.zeros((d, m)), np.zeros(m)

    def predict(self, task, x):
        return np.array([self.w[:, i] @ row + self.c[i] for i, row in zip(task, x, strict=True)])

    def update(self, task, x, y):
        self.events += list(zip(task, x, y, strict=True))
        self.new += len(y)
        if self.new >= self.every:
            self.new = 0
            kept = self.events[-self.window :] if self.window else self.events
            X = [
                np.array([x for i, x, _ in kept if i == k]).reshape(-1, self.d)
                for k in range(self.m)
            ]
            Y = [np.array([y for i, _, y in kept if i == k]) for k in range(self.m)]
            self.w, self.c = self.fit(X, Y)
