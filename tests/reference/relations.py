"""ROMCO with a learned coupling, by dense matrices and a full SVD at every update; hinge loss."""

import numpy as np


class LearnedRomco:
    """U = U~ F' with A = F F'; F is a symmetric square root here, which must not matter."""

    def __init__(self, d, m, *, shrink, eta1, eta2, lambda1, lambda2):
        self.m, self.shrink = m, shrink
        self.eta1, self.eta2, self.lambda1, self.lambda2 = eta1, eta2, lambda1, lambda2
        self.tilde, self.v = np.zeros((d, m)), np.zeros((d, m))
        self.F = np.zeros((m, m))
        self.F[:, 0] = 1.0  # all tasks are one
        self.T, self.z = np.zeros((d, m)), np.zeros(m)
        self.n, self.labels = np.zeros(m), np.zeros(m)
        self.coupled = 0

    @property
    def u(self):
        return self.tilde @ self.F.T

    def predict(self, task, x):
        w = self.u + self.v
        return np.array([w[:, i] @ row for i, row in zip(task, x, strict=True)])

    def update(self, task, x, y):
        active = y * self.predict(task, x) < 1
        if active.any():
            self.step(task[active], x[active], y[active])
        for i, row, label in zip(task, x, y, strict=True):
            c = label - self.labels[i] / (self.n[i] + 1)
            self.T[:, i] += c * row
            self.z[i] += c * c * row @ row
            self.n[i] += 1
            self.labels[i] += label
        if self.n.sum() >= max(32, 1.25 * self.coupled):
            self.coupled = self.n.sum()
            self.couple()

    def step(self, task, x, y):
        for i, row, label in zip(task, x, y, strict=True):
            self.tilde = self.tilde + self.eta1 * label * np.outer(row, self.F[i])
            self.v[:, i] += self.eta2 * label * row
        left, s, right = np.linalg.svd(self.tilde, full_matrices=False)
        self.tilde = (left * self.shrink(s, self.eta1 * self.lambda1)) @ right
        norms = np.maximum(np.linalg.norm(self.v, axis=0), 1e-300)
        self.v *= np.maximum(0.0, 1 - self.eta2 * self.lambda2 / norms)

    def couple(self):
        seen = np.flatnonzero(self.n)
        u = self.u[:, seen]
        F = root(0.99 * self.relatedness(seen) + 0.01 * np.eye(len(seen)))
        self.tilde, self.F = np.zeros_like(self.tilde), np.zeros((self.m, self.m))
        self.tilde[:, seen] = u @ np.linalg.inv(F)
        self.F[np.ix_(seen, seen)] = F
        for i in np.flatnonzero(self.n == 0):
            self.F[i] = self.F[seen].mean(axis=0)

    def relatedness(self, seen, kappa=0.2):
        """Cosines of the sums, all but a share kappa of the noise taken off, without negatives."""
        R = np.ones((len(seen), len(seen)))
        G = self.T.T @ self.T
        left = np.diag(G) - (1 - kappa) * self.z
        for a, i in enumerate(seen):
            for b, h in enumerate(seen):
                if a != b and left[i] > 0 and left[h] > 0:
                    top = G[i, h] + kappa * np.sqrt(self.z[i] * self.z[h])
                    R[a, b] = np.clip(top / np.sqrt(left[i] * left[h]), 0, 1)
        values, vectors = np.linalg.eigh(R)
        R = (vectors * np.maximum(values, 0)) @ vectors.T
        size = np.sqrt(np.diag(R))
        return R / np.outer(size, size)


def root(A):
    values, vectors = np.linalg.eigh(A)
    return (vectors * np.sqrt(values)) @ vectors.T
