"""All classes at once, as the description reads: dense NumPy, one event at a time."""

import numpy as np

from tests.reference.scales import Scales

APART, RATE = 0.3, 3e-4


def log_softmax(z):
    return z - z.max() - np.log(np.exp(z - z.max()).sum())


class Vectors:
    """A Gaussian of diagonal covariance for each class; the last feature is a constant."""

    def __init__(self, K, d, prior=1.0):
        self.w, self.S, self.prior = np.zeros((K, d + 1)), np.full((K, d + 1), prior), prior

    def step(self, x, a, b, moves, rate=0.0):
        Sx = self.S * x
        self.w += np.where(moves[:, None], a[:, None] * Sx, 0.0)
        left = self.S - b[:, None] * Sx * Sx
        left = np.minimum(left + rate * left, self.prior)
        self.S = np.where(moves[:, None] & (x != 0), left, self.S)


class Centres:
    """Discriminants from the scatter itself, inverted anew for each event."""

    def __init__(self, K, d):
        self.centre, self.scatter, self.events = np.zeros((K, d)), 5.0 * np.eye(d), 5.0

    def say(self, x, n, width):
        off = x - self.centre
        far = self.events * (off * np.linalg.solve(self.scatter, off.T).T).sum(axis=1)
        s = 1 + 1 / (n + 0.1)
        z = -(self.events + width) / 2 * np.log(1 + far / (self.events * s)) - width / 2 * np.log(s)
        return np.maximum(z - z.max(), -15)

    def learn(self, x, y, n, h):
        off = x - self.centre[y]
        self.centre[y] += h / (n + 0.1 + h) * off
        if n > 0:
            self.scatter += h * n / (n + h) * np.outer(off, off)
            self.events += h


class Softmax:
    def __init__(self, d, m, K, narrow=64):
        self.d, self.K, self.narrow, self.width = d, K, narrow, 0
        self.soft, self.margin, self.together = (Vectors(K, d) for _ in range(3))
        self.apart = [Vectors(K, d, APART) for _ in range(m)]
        self.centres = Centres(K, d)
        self.counts, self.scales = np.zeros((m, K)), Scales(d)
        self.log_squares, self.events = 0.0, 0.0
        self.weight, self.S = np.array([0.3, 1, 2, 0.3, 0.3, 0.3]), np.eye(6)

    def unit(self):
        return np.exp(-0.5 * self.log_squares / self.events) if self.events else 1.0

    def voices(self, i, row, width, offset=None):
        x = np.append(self.unit() * row, 1.0)
        both = self.together, self.apart[i]
        v = [vectors.S @ x**2 for vectors in (self.soft, self.margin)]
        v.append(sum(vectors.S @ x**2 for vectors in both))
        m = [self.soft.w @ x, self.margin.w @ x, sum(vectors.w @ x for vectors in both)]
        n = self.counts.sum(axis=0)
        near = width <= self.narrow
        centres = self.centres.say(row, n, width) if near else np.zeros(self.K)
        usual = np.log(self.counts[i] + 5 * (n + 1) / (n.sum() + self.K))
        soft = m[0] / np.sqrt(1 + np.pi * v[0] / 8)
        said = np.clip([soft, m[1], m[2]], -50, 50)
        z = np.array([*said, centres, usual, np.log(n + 1)])
        z[3:] = z[3:] if offset is None else 0.0
        return x, m, v, z

    def predict(self, i, x, offset=None):
        z = self.voices(i, self.scales.look(x), self.width, offset)[3]
        return log_softmax(self.weight @ z + (0.0 if offset is None else offset))

    def update(self, i, x, y, h=1.0, offset=None):
        if h == 0:
            return
        y, row = int(y), self.scales.count(x)
        self.width = max(self.width, np.flatnonzero(x).max(initial=-1) + 1)
        first = self.events == 0
        if first:
            self.measure(row, h)
        n = self.counts[:, y].sum()
        x, m, v, z = self.voices(i, row, self.width, offset)
        true, known = np.arange(self.K) == y, np.zeros(self.K) if offset is None else offset
        hinge = 2 * (np.exp(log_softmax(known)) - 1 / self.K)
        self.judge(z, true, h, known)
        p = np.exp(log_softmax(z[0] + known))
        bend = h * p * (1 - p)
        self.soft.step(
            x, h * (true - p) / (1 + bend * v[0]), bend / (1 + bend * v[0]), true | (p >= 1e-6)
        )
        side = np.where(true, 1.0, -1.0)
        for c, r, vectors, rate in (
            (1, 0.3, [self.margin], 0.0),
            (2, 1.0, [self.together, self.apart[i]], h * RATE),
        ):
            loss, b = 1 - side * (m[c] + hinge), 1 / (v[c] + r / h)
            for each in vectors:
                each.step(x, b * loss * side, b, loss > 0, rate)
        if self.width <= self.narrow:
            self.centres.learn(row, y, n, h)
        self.counts[i, y] += h
        if not first:
            self.measure(row, h)

    def measure(self, row, h):
        if row @ row > 0:
            self.log_squares, self.events = (
                self.log_squares + h * np.log(row @ row),
                self.events + h,
            )

    def judge(self, z, true, h, offset):
        p = np.exp(log_softmax(self.weight @ z + offset))
        q = (p + true) / 2
        H = h * ((z * q) @ z.T - np.outer(z @ q, z @ q))
        self.S = np.linalg.inv(np.linalg.inv(self.S) + H)
        self.weight = self.weight + h * self.S @ (z @ (true - p))
        left = np.diag(self.S)
        more = np.where(left < 1, np.minimum(left + h * 3e-5, 1) - left, 0.0)
        self.S = self.S + np.diag(more)
