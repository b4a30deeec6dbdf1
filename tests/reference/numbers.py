"""Learners of numbers as their descriptions read: dense NumPy, one event at a time."""

import numpy as np

from tests.reference.auto import orthonormal

FREEDOM = 4.0


class Gaussian:
    """Over weights, by full matrices; `full` says whether covariances are kept."""

    def __init__(self, prior, full=False):
        self.prior = np.asarray(prior, dtype=float)
        self.w, self.S, self.full = np.zeros(len(self.prior)), np.diag(self.prior), full

    def look(self, x):
        return self.w @ x, x @ self.S @ x

    def step(self, x, a, b):
        Sx = self.S @ x
        self.w = self.w + a * Sx
        change = np.outer(Sx, Sx)
        self.S = self.S - b * (change if self.full else np.diag(np.diag(change)))

    def forget(self, x, rate):
        left = np.diag(self.S)
        more = np.minimum(rate * left, self.prior - left)
        self.S = self.S + np.diag(np.where((x != 0) & (more > 0), more, 0.0))

    def renew(self, variance):
        self.S = self.S + np.diag(np.where(np.diag(self.S) < self.prior, variance, 0.0))


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


class AutoNumber(Placed):
    def __init__(self, d, m, full=True):
        self.d, self.m = d, m
        one, shared = np.ones(d), np.ones(d + 1)  # the intercept comes first
        self.shared = [Gaussian(shared, full) for _ in range(3)]  # global, recent, together
        self.alone = [Gaussian(one) for _ in range(m)]
        self.apart = [Gaussian([1.0, *(0.3 * one)]) for _ in range(m)]
        self.common = [Gaussian([1.0]) for _ in range(2)]
        self.own = [[Gaussian([1.0]) for _ in range(2)] for _ in range(m)]
        self.combiners = [Gaussian([0.1] * n, full=True) for n in (10, 2, 2)]
        self.combiners[0].w[[0, 2, 4]] = 0.2, 0.2, 0.6
        self.combiners[1].w[:] = 1.0, 0.0
        self.combiners[2].w[:] = 0.5, 0.5
        self.noise, self.seen = np.ones(8), np.full(8, 2.0)
        self.evidence, self.belief = np.zeros((m, 3)), np.zeros((m, 3))
        self.prior = np.exp([0.0, -2.0, -2.0]) / np.exp([0.0, -2.0, -2.0]).sum()
        self.B = np.zeros((d, 4))
        self.log_squares = self.rows = 0.0
        self.next, self.last = 32, {}

    def unit(self):
        return np.exp(-0.5 * self.log_squares / self.rows) if self.rows else 1.0

    def measured(self, x):
        return np.clip(x * self.unit(), -1e4, 1e4)

    def tally(self, x, h):
        if x.any():
            self.log_squares += h * np.log(x @ x)
            self.rows += h

    def parts(self, i, x):
        """Of each learner the Gaussians it adds up, and what each looks at."""
        one, x1 = np.ones(1), np.append(1.0, x)
        return [
            [(self.shared[0], x1)],
            [(self.shared[1], x1)],
            [(self.alone[i], x), (self.common[0], one), (self.own[i][0], one)],
            [(self.common[1], one), (self.own[i][1], one)],
            [(self.shared[2], x1), (self.apart[i], x1)],
        ]

    def opinions(self, i, x):
        p = [np.sum([g.look(z) for g, z in part], axis=0) for part in self.parts(i, x)]
        heard = [q[0] - self.mean for q in p]
        heard += list((self.B.T @ x) * (self.B.T @ self.alone[i].w))
        heard.append(self.last[i] - self.origin - self.mean if i in self.last else 0.0)
        heard = np.array(heard)
        heard = [heard, heard[:2], heard[2:4]]
        said = [c.look(z) for c, z in zip(self.combiners, heard, strict=True)]
        return p, heard, said

    def chances(self, i):
        chance = (self.prior + self.belief.sum(axis=0)) * np.exp(self.evidence[i])
        return chance / chance.sum()

    def forecast(self, i, x):
        """Prediction, and the size of the error to be expected."""
        if self.variance() == 0:
            return self.origin + self.mean, 0.0
        said = np.array(self.opinions(i, self.measured(x))[2])
        chance = self.chances(i)
        mean = chance @ said[:, 0]
        spread = said[:, 1] + self.noise[5:] * self.variance() + (said[:, 0] - mean) ** 2
        return self.origin + self.mean + mean, np.sqrt(chance @ spread)

    def update(self, i, x, y, h=1.0):
        if h == 0:
            return
        first = self.rows == 0
        if first:
            self.tally(x, h)
        if self.variance() > 0:
            self.learn(i, self.measured(x), y, h)
        self.place(y, h)
        self.last[i] = y
        if not first:
            self.tally(x, h)
        if self.rows >= self.next:
            self.draw()
            self.next = self.rows * (1.25 if self.rows < 10000 else 2.0)

    def step(self, who, e, v, V, h, share):
        """Student's t: b = 1 / (v + noise / (trust share)), and the noise follows."""
        s2 = self.noise[who]
        trust = (FREEDOM + 1) / (FREEDOM + e * e / (V * (v + s2)))
        b = 1 / (v + s2 / (trust * share))
        found = trust * e * e / V * (s2 / (v + s2)) ** 2 + v * s2 / (v + s2)
        self.seen[who] += h
        self.noise[who] += (found - s2) * min(1.0, h * max(1 / self.seen[who], 1e-3))
        return b * e, b

    def learn(self, i, x, y, h):
        V = self.variance()
        p, heard, said = self.opinions(i, x)
        shares = h * self.chances(i)[0], h, h
        told = y - self.origin - self.mean
        for k, (combiner, z, (mean, variance)) in enumerate(
            zip(self.combiners, heard, said, strict=True)
        ):
            e, total = told - mean, variance + self.noise[5 + k] * V
            self.evidence[i, k] -= h * (
                0.5 * np.log(total) + 0.5 * (FREEDOM + 1) * np.log1p(e * e / (FREEDOM * total))
            )
            a, b = self.step(5 + k, e, variance / V, V, h, shares[k])
            combiner.step(z, a / V, b / V)
            combiner.renew(3e-5 * h)
        self.evidence[i] = np.maximum(self.evidence[i] - self.evidence[i].max(), -20)
        self.belief[i] = self.chances(i)
        parts = self.parts(i, x)
        for k, (q, part) in enumerate(zip(p, parts, strict=True)):
            a, b = self.step(k, y - self.origin - q[0], q[1], V, h, h)
            for gaussian, z in part:
                gaussian.step(z, a, b)
                gaussian.forget(z, h * {1: 1e-2, 4: 3e-4}.get(k, 0.0))

    def draw(self):
        W = np.array([g.w for g in self.alone]).T
        B = self.B.copy()
        for c in range(4):
            if not B[:, c].any():
                bits = (np.arange(self.d, dtype=np.uint64) * np.uint64(4) + np.uint64(4 + c)) * (
                    np.uint64(0x9E3779B97F4A7C15)
                )
                B[:, c] = np.where((bits >> np.uint64(40)) & np.uint64(1), 1.0, -1.0)
        self.B = orthonormal(W @ (W.T @ B))


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
