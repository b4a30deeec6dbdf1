"""What the plain transcriptions share: W (d, m), and w_i . x."""

import numpy as np


class Linear:
    def __init__(self, d, m):
        self.d, self.m = d, m
        self.W = np.zeros((d, m))

    def predict(self, task, x):
        return np.array([self.W[:, i] @ row for i, row in zip(task, x, strict=True)])

    def update(self, task, x, y):
        """Events in order; methods that are defined on rounds say so by replacing this."""
        for i, row, label in zip(task, x, y, strict=True):
            self.learn(i, row, label)


def sign(p):
    return 1.0 if p >= 0 else -1.0


def hinge(w, x, y):
    return max(0.0, 1.0 - y * (w @ x))
