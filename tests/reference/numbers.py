"""Plain learners of numbers as their descriptions read: dense NumPy, one event at a time."""

import numpy as np


class Placed:
    """Mean and variance of the answers, from the first of them."""

    n = origin = mean = squares = 0.0

    def variance(self):
        return self.squares / self.n if self.n else 0.0

    def place(self, y, h):
        if not self.n:
            self.origin = y
        step = y - self.origin - self.mean
        self.n += h
        self.mean += h * step / self.n
        self.squares += h * step * (y - self.origin - self.mean)


class Plain(Placed):
    """mean + w . x + b with one of three steps; the intercept is the last weight."""

    def __init__(self, d, k, step):
        self.w, self.S, self.step = np.zeros((k, d + 1)), np.ones((k, d + 1)), step

    def predict(self, i, x):
        return self.origin + self.mean + self.w[i] @ np.append(x, 1.0)

    def update(self, i, x, y, h=1.0):
        if h == 0:
            return
        if self.variance() > 0:
            x1 = np.append(x, 1.0)
            self.step(self, i, x1, y - self.predict(i, x), np.sqrt(self.variance()), h)
        self.place(y, h)


def passive_aggressive(self, i, x, e, unit, h, C=0.1, epsilon=0.1):
    loss = max(0.0, abs(e) - epsilon * unit)
    self.w[i] += np.sign(e) * min(h * C * unit, loss / (x @ x)) * x


def gradient(self, i, x, e, unit, h, eta=0.03):
    self.w[i] += e * (1 - np.exp(-h * eta * (x @ x))) / (x @ x) * x


def gaussian(self, i, x, e, unit, h, r=1.0):
    Sx = self.S[i] * x
    b = 1 / (x @ Sx + r / h)
    self.w[i] += b * e * Sx
    self.S[i] -= b * Sx**2
