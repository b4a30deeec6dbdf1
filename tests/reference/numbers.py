"""Learners of numbers as their descriptions read: dense NumPy, one event at a time."""

import numpy as np

from tests.reference.auto import advance, directions
from tests.reference.scales import Scales

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

    def rebase(self, j, ratio, shift):
        """Other units of weight j; the first weight is the intercept."""
        if self.S[j, j] == self.prior[j]:
            return
        T = np.eye(len(self.w))
        T[j, j], T[0, j] = ratio, shift
        self.w = T @ self.w
        S = T @ self.S @ T.T
        self.S = S if self.full else np.diag(np.diag(S))
        self.S[0, 0] = self.S[0, 0] if self.full else min(self.S[0, 0], self.prior[0])
        if ratio == 0:
            self.S[j, j] = self.prior[j]
            return
        missing = (1 - 1 / ratio**2) / self.prior[j]  # precision, by Sherman and Morrison
        gain = missing * self.S[:, j] / (1 + missing * self.S[j, j])
        self.w, self.S = self.w - gain * self.w[j], self.S - np.outer(gain, self.S[j])


def factor(size, common):
    r = np.log(size) - common
    return np.exp(-common - r**5 / (r**4 + 1.4**4))


def alike(a, b):
    return a <= 1.25 * b and b <= 1.25 * a


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
        self.shared = [Gaussian(shared, full) for _ in range(2)]  # global, together
        self.alone = [Gaussian(one) for _ in range(m)]
        self.apart = [Gaussian([1.0, *(0.3 * one)]) for _ in range(m)]
        self.common = [Gaussian([1.0]) for _ in range(2)]
        self.own = [[Gaussian([1.0]) for _ in range(2)] for _ in range(m)]
        self.stacking = [Gaussian([0.1] * n, full=True) for n in (8, 1, 1)]
        self.stacking[0].w[:2] = 0.2
        self.stacking[2].w[0] = 0.5
        self.drift = Gaussian([0.1] * 3, full=True)
        self.noise, self.seen = np.ones(8), np.full(8, 2.0)
        self.evidence, self.belief = np.zeros((m, 3)), np.zeros((m, 3))
        self.prior = np.exp([0.0, -2.0, -2.0]) / np.exp([0.0, -2.0, -2.0]).sum()
        self.B, self.slice, self.drawing = np.zeros((d, 4)), 4096, None
        self.log_squares = self.rows = self.unit = 0.0
        self.next, self.last, self.residual = 32, {}, 0.0
        self.scales = Scales(d)

    # Units of features

    def row(self, x):
        """In the units in use, without that of rows."""
        s, there = self.scales, x != 0
        moved = np.clip(x - s.centre, -10 * s.size, 10 * s.size)
        new = x * factor(np.abs(np.where(there, x, 1.0)), s.common)
        row = np.where(there, np.where(s.size > 0, s.factor * moved, new), 0.0)
        return row if row @ row >= 1e-12 else np.zeros(len(x))

    def tally(self, x, row, h):
        s, spread = self.scales, self.scales.spread()
        old = {name: np.copy(array) for name, array in vars(s).items()}
        late = (s.centre != 0) & (s.events + 1 >= s.due_events)
        due = (x != 0) & ((s.c + 1 >= s.due_count) | late)
        s.count(x)
        for j in np.flatnonzero(due):
            if not s.spread()[j]:
                s.centre[j], s.size[j] = 0.0, np.sqrt(s.square[j] / s.c[j])
                s.factor[j] = factor(s.size[j], s.common)
            centre, size, before = (old[name][j] for name in ("centre", "size", "factor"))
            if size == 0:
                continue
            if abs(s.centre[j] - centre) <= 0.25 * size and alike(s.factor[j], before):
                s.centre[j], s.size[j], s.factor[j] = centre, size, before
            elif s.centre[j] != 0 and not spread[j]:
                self.rebase(j, 0.0, self.unit * before * old["total"][j] / old["c"][j])
            else:
                self.rebase(j, before / s.factor[j], self.unit * before * (s.centre[j] - centre))
        if row.any():
            self.log_squares += h * np.log(row @ row)
            self.rows += h
        unit = np.exp(-0.5 * self.log_squares / self.rows) if self.rows else 1.0
        if not alike(unit, self.unit):
            for j in range(self.d if self.unit else 0):
                self.rebase(j, self.unit / unit, 0.0)
            self.unit = unit

    def rebase(self, j, ratio, shift):
        if not abs(shift) < 10.0 or not 1e-3 < ratio < 1e3:
            shift, ratio = shift if abs(shift) < 10.0 else 0.0, 0.0
        for shared in self.shared:
            shared.rebase(j + 1, ratio, shift)
        for i in range(self.m):
            joined = Gaussian(np.ones(self.d + 1))
            joined.w = np.append(self.own[i][0].w, self.alone[i].w)
            joined.S = np.diag([self.own[i][0].S[0, 0], *np.diag(self.alone[i].S)])
            joined.rebase(j + 1, ratio, shift)
            self.own[i][0].w, self.alone[i].w = joined.w[:1], joined.w[1:]
            self.own[i][0].S, self.alone[i].S = joined.S[:1, :1], joined.S[1:, 1:]
            self.apart[i].rebase(j + 1, ratio, shift)

    # Prediction

    def parts(self, i, x):
        """Of each model the Gaussians it adds up, and their inputs."""
        one, x1 = np.ones(1), np.append(1.0, x)
        return [
            [(self.shared[0], x1)],
            [(self.alone[i], x), (self.common[0], one), (self.own[i][0], one)],
            [(self.common[1], one), (self.own[i][1], one)],
            [(self.shared[1], x1), (self.apart[i], x1)],
        ]

    def opinions(self, i, x):
        """Models, then of each regression offset, inputs, mean and variance; then of drift."""
        p = [np.sum([g.look(z) for g, z in part], axis=0) for part in self.parts(i, x)]
        everybody, alone, level, together = (q[0] for q in p)
        directions = (self.B.T @ x) * (self.B.T @ self.alone[i].w)
        slopes = self.apart[i].w[1:] @ x
        models = everybody - together, alone - together, level - together
        z = [
            np.array([*models, slopes, *directions]),
            np.array([self.shared[1].look(np.append(1.0, x))[0] - everybody]),
            np.array([level - alone]),
        ]
        offsets = np.array([together, everybody, alone]) - self.mean
        said = [
            (offset + mean, variance)
            for offset, (mean, variance) in zip(
                offsets,
                (c.look(one) for c, one in zip(self.stacking, z, strict=True)),
                strict=True,
            )
        ]
        mixture = self.used(i) @ [mean for mean, _ in said]
        residual, answer = self.last.get(i, (0.0, self.origin + self.mean + mixture))
        drift = np.array([residual, self.residual, answer - self.origin - self.mean - mixture])
        return p, z, said, mixture, drift

    def chances(self, i):
        chance = (self.prior + self.belief.sum(axis=0)) * np.exp(self.evidence[i])
        return chance / chance.sum()

    def used(self, i):
        """Chances by which regressions are mixed: a task without events is like all others."""
        return self.chances(i) if self.belief[i].any() else np.array([0.0, 1.0, 0.0])

    def forecast(self, i, x, live=True):
        """Prediction, and the size of the error to be expected."""
        if self.variance() == 0:
            return self.origin + self.mean, 0.0
        _, _, said, mean, drift = self.opinions(i, np.clip(self.unit * self.row(x), -1e4, 1e4))
        said = np.array(said)
        spread = said[:, 1] + self.noise[4:7] * self.variance() + (said[:, 0] - mean) ** 2
        spread = np.sqrt(self.used(i) @ spread)
        return self.origin + self.mean + mean + live * self.drift.look(drift)[0], spread

    # Learning

    def update(self, i, x, y, h=1.0):
        if h == 0:
            return
        row = self.row(x)
        if self.variance() > 0:
            self.learn(i, np.clip(self.unit * row, -1e4, 1e4), y, h)
        self.tally(x, row, h)
        self.place(y, h)
        if self.rows >= self.next and self.d > 4:
            if self.drawing is None:
                self.next = self.rows
                self.drawing = directions(lambda: np.array([g.w for g in self.alone]).T, self.B)
                next(self.drawing)
            B = advance(self.drawing, self.slice)
            if B is not None:
                self.B, self.drawing = B, None
                self.stacking[0].S[range(4, 8), range(4, 8)] = 0.1
                self.next = max(1.25 * self.rows, 41 * self.rows - 40 * self.next)

    def step(self, who, e, v, V, h, share):
        """Student's t: b = 1 / (v + noise / (trust share)), and the noise follows."""
        s2 = self.noise[who]
        trust = (FREEDOM + 1) / (FREEDOM + e * e / (V * (v + s2)))
        b = 1 / (v + s2 / (trust * share))
        found = trust * e * e / V * (s2 / (v + s2)) ** 2 + v * s2 / (v + s2)
        self.seen[who] += h
        self.noise[who] += (found - s2) * min(1.0, h * max(2 / self.seen[who], 1e-3))
        return b * e, b

    def learn(self, i, x, y, h):
        V = self.variance()
        p, inputs, said, mixture, drift = self.opinions(i, x)
        shares = h * self.chances(i)[0], h, h
        told = y - self.origin - self.mean
        for k, (model, z, (mean, variance)) in enumerate(
            zip(self.stacking, inputs, said, strict=True)
        ):
            e, total = told - mean, variance + self.noise[4 + k] * V
            self.evidence[i, k] -= h * (
                0.5 * np.log(total) + 0.5 * (FREEDOM + 1) * np.log1p(e * e / (FREEDOM * total))
            )
            a, b = self.step(4 + k, e, variance / V, V, h, shares[k])
            model.step(z, a / V, b / V)
        correction, variance = self.drift.look(drift)
        a, b = self.step(7, told - mixture - correction, variance / V, V, h, h)
        self.drift.step(drift, a / V, b / V)
        self.evidence[i] = np.maximum(self.evidence[i] - self.evidence[i].max(), -20)
        self.belief[i] = self.chances(i)
        parts = self.parts(i, x)
        for k, (q, part) in enumerate(zip(p, parts, strict=True)):
            a, b = self.step(k, y - self.origin - q[0], q[1], V, h, h)
            for gaussian, z in part:
                gaussian.step(z, a, b)
                gaussian.forget(z, h * {3: 3e-4}.get(k, 0.0))
        self.last[i] = told - mixture, y
        self.residual += min(1.0, 0.05 * h) * (told - mixture - self.residual)


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
