"""romco-auto as its description reads: dense NumPy, full covariances of diagonal beliefs."""

import numpy as np


def moderate(mean, variance):
    return mean / np.sqrt(1 + np.pi * variance / 8)


class Belief:
    """A Gaussian about weights; `step` moves it along x."""

    def __init__(self, variance):
        self.w, self.S = np.zeros(len(variance)), np.diag(np.asarray(variance, dtype=float))

    def look(self, x):
        return self.w @ x, x @ self.S @ x

    def step(self, x, a, b, diagonal=True):
        Sx = self.S @ x
        self.w = self.w + a * Sx
        change = np.outer(Sx, Sx)
        self.S = self.S - b * (np.diag(np.diag(change)) if diagonal else change)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def logistic(y, p, v, share=1.0):
    miss = sigmoid(-y * moderate(p, v))
    h = share * miss * (1 - miss)
    return y * share * miss / (1 + h * v), h / (1 + h * v)


def arow(y, p, v):
    loss = 1 - y * p
    return (y * loss / (v + 0.3), 1 / (v + 0.3)) if loss > 0 else (0.0, 0.0)


class Auto:
    def __init__(self, d, m):
        self.d, self.m = d, m
        one = np.ones(d)
        self.global_margin, self.global_logistic = Belief(one), Belief([*one, 1.0])
        # Alone: the features of each task by itself, an intercept in common, one of its own.
        self.alone_margin = [Belief(one) for _ in range(m)]
        self.alone_logistic = [Belief(one) for _ in range(m)]
        self.common, self.own = Belief([1.0]), [Belief([0.1]) for _ in range(m)]
        self.judge, self.own_judge = Belief(np.full(8, 3.0)), Belief([3.0, 3.0])
        self.judge.w[[0, 2]], self.own_judge.w[0] = 2.0, 3.0
        self.odds = np.full(m, -2.0)  # that a task is independent
        self.B = np.zeros((d, 4))
        self.log_squares, self.count, self.next = 0.0, 0, 32

    def unit(self):
        return np.exp(-0.5 * self.log_squares / self.count) if self.count else 1.0

    def tally(self, x):
        if x.any():
            self.log_squares += np.log(x @ x)
            self.count += 1

    def opinions(self, i, x):
        x1 = np.append(x, 1.0)
        p = [
            self.global_margin.look(x),
            self.global_logistic.look(x1),
            self.alone_margin[i].look(x),
        ]
        parts = [b.look(z) for b, z in self.alone_parts(i, x)]
        p.append(tuple(np.sum(parts, axis=0)))
        z = [p[0][0], moderate(*p[1]), p[2][0], moderate(*p[3])]
        z = np.append(z, (self.B.T @ x) * (self.B.T @ self.alone_logistic[i].w))
        return p, z, self.judge.look(z), self.own_judge.look(z[2:4])

    def alone_parts(self, i, x):
        one = np.ones(1)
        return (self.alone_logistic[i], x), (self.common, one), (self.own[i], one)

    def predict(self, i, x):
        *_, judged, own = self.opinions(i, x * self.unit())
        odd = sigmoid(self.odds[i])
        yes = (1 - odd) * sigmoid(moderate(*judged)) + odd * sigmoid(moderate(*own))
        return np.log(yes / (1 - yes))

    def update(self, task, xs, ys):
        for i, x, y in zip(task, xs, ys, strict=True):
            first = self.count == 0
            if first:
                self.tally(x)
            self.learn(i, x * self.unit(), y)
            if not first:
                self.tally(x)
        if self.count >= self.next:
            self.draw()
            self.next = max(32, 1.5 * self.count)

    def learn(self, i, x, y):
        p, z, judged, own = self.opinions(i, x)
        self.global_margin.step(x, *arow(y, *p[0]))
        self.global_logistic.step(np.append(x, 1.0), *logistic(y, *p[1]))
        self.alone_margin[i].step(x, *arow(y, *p[2]))
        step = logistic(y, *p[3])
        for belief, part in self.alone_parts(i, x):
            belief.step(part, *step)
        share = 1 - sigmoid(self.odds[i])
        self.judge.step(z, *logistic(y, *judged, share), diagonal=False)
        self.own_judge.step(z[2:4], *logistic(y, *own), diagonal=False)
        gain = np.log(sigmoid(y * moderate(*own)) / sigmoid(y * moderate(*judged)))
        self.odds[i] = np.clip(self.odds[i] + gain, -22, 18)

    def draw(self):
        """One step of orthogonal iteration on the tasks' own logistic vectors."""
        W = np.array([belief.w for belief in self.alone_logistic]).T
        B = self.B.copy()
        for c in range(4):
            if not B[:, c].any():
                bits = (np.arange(self.d, dtype=np.uint64) * np.uint64(4) + np.uint64(4 + c)) * (
                    np.uint64(0x9E3779B97F4A7C15)
                )
                B[:, c] = np.where((bits >> np.uint64(40)) & np.uint64(1), 1.0, -1.0)
        self.B = orthonormal(W @ (W.T @ B))


def orthonormal(B):
    B = B.copy()
    for c in range(B.shape[1]):
        before = B[:, c] @ B[:, c]
        for _ in range(2):
            for k in range(c):
                B[:, c] -= (B[:, c] @ B[:, k]) * B[:, k]
        after = B[:, c] @ B[:, c]
        B[:, c] *= 1 / np.sqrt(after) if after > 1e-10 * before else 0.0
    return B
