"""pa-shared and arow-shared, event by event on dense rows."""

import numpy as np


class PassiveAggressiveShared:
    def __init__(self, d, m, C):
        self.u, self.v, self.C = np.zeros(d), np.zeros((m, d)), C

    def predict(self, i, x):
        return (self.u + self.v[i]) @ x

    def update(self, i, x, y):
        loss = max(0.0, 1.0 - y * self.predict(i, x))
        if x.any():
            tau = min(self.C, loss / (2 * x @ x))
            self.u += tau * y * x
            self.v[i] += tau * y * x


class ArowShared:
    """AROW on doubled features, the block design that 'shared + personal' stands for."""

    def __init__(self, d, m, r):
        self.d, self.r = d, r
        self.w, self.S = np.zeros(d * (m + 1)), np.ones(d * (m + 1))

    def spread(self, i, x):
        z = np.zeros_like(self.w)
        z[: self.d] = z[(i + 1) * self.d : (i + 2) * self.d] = x
        return z

    def predict(self, i, x):
        return self.w @ self.spread(i, x)

    def update(self, i, x, y):
        z = self.spread(i, x)
        loss = 1.0 - y * self.w @ z
        if loss > 0:
            beta = 1.0 / (z @ (self.S * z) + self.r)
            self.w += beta * loss * y * self.S * z
            self.S -= beta * (self.S * z) ** 2
