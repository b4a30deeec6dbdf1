"""All classes at once, as the description reads: dense NumPy, one event at a time."""

import numpy as np
from scipy.stats import norm

from tests.reference.functions import Sketch
from tests.reference.scales import Scales

APART, COLUMNS = 1.0, 128
QUANTILES = norm.ppf(np.clip(np.arange(65), 1, 63) / 64)
VARIANCES = np.array([1, 1, 0.1, 0.1, 1, 1])


def log_softmax(z):
    return z - z.max() - np.log(np.exp(z - z.max()).sum())


class Vectors:
    """A Gaussian of diagonal covariance for each class; the last feature is a constant."""

    def __init__(self, K, d, prior=1.0):
        self.w, self.S, self.prior = np.zeros((K, d + 1)), np.full((K, d + 1), prior), prior

    def step(self, x, a, b, moves):
        Sx = self.S * x
        self.w += np.where(moves[:, None], a[:, None] * Sx, 0.0)
        left = self.S - b[:, None] * Sx * Sx
        self.S = np.where(moves[:, None] & (x != 0), left, self.S)


class Discriminant:
    """Columns of frequent features, and Student's t about the means of classes."""

    def __init__(self, K, d, m, most=COLUMNS):
        n = min(most, 4 * d)
        self.K, self.d, self.most, self.room = K, d, most, n
        self.columns, self.sketches, self.closed = [], {}, False
        self.scores = set()  # lines that are normal scores
        self.events, self.renewal, self.solution = 0.0, 8.0, 0.0
        self.sums, self.own = np.zeros((K, n)), np.zeros((m, K, n))
        self.scatter, self.class_scatter = np.zeros((n, n)), np.zeros((K, n, n))
        self.centre, self.factor = np.zeros(n), np.eye(n)
        self.solved, self.class_covariance = np.zeros(K), {}
        self.products, self.weights = 0.0, 0.0  # by how much tasks differ

    def lines(self):
        return [c for c, (_, order) in enumerate(self.columns) if order == 0]

    def values(self, x, row):
        """Columns of a dense row, given as it is and in units."""
        u = np.zeros(len(self.columns))
        for c, (j, order) in enumerate(self.columns):
            if not self.sketches[j].is_number():
                u[c] = np.clip(row[j], -8, 8) if order == 0 else 0.0
                continue
            rank = self.sketches[j].rank(x[j])
            u[c] = np.clip(row[j], -8, 8)
            if j in self.scores:
                u[c] = np.interp(rank, np.arange(65) / 64, QUANTILES)
            if order:
                u[c] = np.sqrt(2) * np.cos(np.pi * order * rank) / order
        return u

    def compose(self, u, row):
        """Decorrelated columns, then the other features."""
        n, rest = len(u), row.copy()
        rest[[j for j, order in self.columns if order == 0]] = 0.0
        z = np.zeros(COLUMNS)
        z[:n] = np.linalg.solve(self.factor[:n, :n].T, u - self.centre[:n])
        return np.append(z, rest)

    def kappa(self):
        return 1 / np.clip((self.products + 30 / 3) / (self.weights + 30), 0.01, 1)

    def mean(self, i, k, counts, n):
        at, kappa = self.lines(), self.kappa()
        common = self.sums[k, at] / (n[k] + 0.1)
        return (self.own[i, k, at] + kappa * common) / (counts[k] + kappa)

    def score(self, i, u, counts, n):
        at = self.lines()
        found, kappa = np.zeros((2, self.K)), self.kappa()
        if not at or not self.solution:
            return found
        for k in range(self.K):
            off = u[at] - self.mean(i, k, counts, n)
            s = 1 + 1 / (counts[k] + kappa) + 1 / (n[k] + 0.1)
            own = self.class_covariance.get(k, self.covariance)
            kinds = (self.covariance, self.events + 5, 0), (own, self.solved[k] + len(at) + 1, 1)
            for C, f, quadratic in kinds:
                far = off @ np.linalg.solve(C, off) / s
                z = -(f + len(at)) / 2 * np.log(1 + far / f) - len(at) / 2 * np.log(s)
                found[quadratic, k] = z - quadratic * np.linalg.slogdet(C)[1] / 2
        return np.maximum(found - found.max(axis=1, keepdims=True), -30)

    def learn(self, i, u, y, h, counts, n):
        c, at = len(u), self.lines()
        if not c:
            return
        off = u - self.sums[y, :c] / (n[y] + 0.1)
        off[at] = u[at] - self.mean(i, y, counts, n)
        share = h * (counts[y] + self.kappa()) / (counts[y] + self.kappa() + h)
        if n[y] > 0:
            self.scatter[:c, :c] += share * np.outer(off, off)
            self.class_scatter[y][np.ix_(at, at)] += share * np.outer(off[at], off[at])
            self.events += h
        if 0 < counts[y] < n[y] and self.solution:
            common = self.sums[y, at] / (n[y] + 0.1)
            off = np.linalg.solve(self.covariance, u[at] - common)
            weight = h * counts[y] / (counts[y] + self.kappa())
            self.products += weight * off @ (self.own[i, y, at] / counts[y] - common) / len(at)
            self.weights += weight
        self.sums[y, :c] += h * u
        self.own[i, y, at] += h * u[at]

    def count(self, x):
        for j in self.sketches:
            if x[j] != 0:
                self.sketches[j].add(x[j])

    def settle(self, events, scales, y, counts):
        """Return how weights and intercepts change, or None."""
        if self.closed:
            return None
        change, n = None, counts.sum(axis=0)
        if events >= self.renewal:
            self.choose(events, scales, counts)
            change = self.decorrelate(n)
            self.renewal = 2 * events
        at = self.lines()
        if at and (change is not None or self.events >= self.solution):
            self.covariance = self.covariance_of(at)
            self.solution = 1.1 * self.events
        if at and n[y] >= 1.25 * self.solved[y]:
            prior = len(at) + 1
            own = self.class_scatter[y][np.ix_(at, at)] + prior * self.covariance_of(at)
            self.class_covariance[y], self.solved[y] = own / (n[y] + prior), n[y]
        return change

    def covariance_of(self, at):
        n = len(at)
        return (self.scatter[np.ix_(at, at)] + 5 * np.eye(n)) / (self.events + 5) + 0.005 * np.eye(
            n
        )

    def choose(self, events, scales, counts):
        before, n = list(self.columns), counts.sum(axis=0)
        for c in self.lines():
            self.become_score(c, scales, counts)
        size = scales.mean / np.sqrt(np.maximum(scales.mean_square(), 1e-300))
        for j in np.lexsort((-size, -scales.c)):
            new = scales.c[j] >= 0.1 * events and (j, 0) not in self.columns
            if new and len(self.columns) < self.room:
                self.join(j, 0, n)
        for order in (2, 3, 4):
            for j, line in before:
                new = line == 0 and self.sketches[j].is_number() and (j, order) not in self.columns
                if new and len(self.columns) < self.room:
                    self.join(j, order, n)

    def become_score(self, c, scales, counts):
        j = self.columns[c][0]
        sketch, q = self.sketches[j], (QUANTILES[1:] + QUANTILES[:-1]) / 2
        if j in self.scores or not sketch.is_number():
            return
        knots = np.array(sketch.knots)
        if np.corrcoef(knots, q)[0, 1] ** 2 >= 0.9:
            return
        far = 10 * scales.size[j]
        values = scales.factor[j] * np.clip(knots - scales.centre[j], -far, far)
        slope, origin = np.polyfit(np.clip(values, -8, 8), q, 1)
        self.scores.add(j)
        self.sums[:, c] = origin * counts.sum(axis=0) + slope * self.sums[:, c]
        self.own[:, :, c] = origin * counts + slope * self.own[:, :, c]
        self.centre[c] = origin + slope * self.centre[c]
        for each in (self.factor.T, self.scatter, self.scatter.T):
            each[c] *= slope
        self.class_scatter[:, c] *= slope
        self.class_scatter[:, :, c] *= slope
        self.class_covariance, self.solved[:] = {}, 0

    def join(self, j, order, n):
        c = len(self.columns)
        self.columns.append((j, order))
        self.scatter[c, c] = self.events / max(order, 1) ** 2
        if order == 0:
            self.sketches[j] = Sketch()
            self.class_covariance, self.solved[:] = {}, 0
            self.class_scatter[:, c, c] = n

    def decorrelate(self, n):
        c = len(self.columns)
        prior = c + 5
        S = (self.scatter[:c, :c] + prior * np.eye(c)) / (self.events + prior) + 0.1 * np.eye(c)
        old, self.factor[:c, :c] = self.factor[:c, :c].copy(), np.linalg.cholesky(S).T
        centre = self.sums[:, :c].sum(axis=0) / (1 + n.sum())
        way = np.linalg.solve(old.T, centre - self.centre[:c])
        self.centre[:c] = centre
        return self.factor[:c, :c] @ np.linalg.inv(old), way


class ConditionalLogit:
    """One weight for each of several scores of every class."""

    def __init__(self, weight, variances, renewal):
        self.weight, self.S = np.array(weight, dtype=float), np.diag(variances)
        self.variances, self.renewal = np.array(variances), renewal

    def predict(self, z, offset):
        return log_softmax(self.weight @ z + offset)

    def update(self, z, y, h, offset):
        p, true = np.exp(self.predict(z, offset)), np.arange(z.shape[1]) == y
        q = (p + true) / 2
        H = h * ((z * q) @ z.T - np.outer(z @ q, z @ q))
        self.S = np.linalg.inv(np.linalg.inv(self.S) + H)
        self.weight = self.weight + h * self.S @ (z @ (true - p))
        most = np.clip(self.variances / np.diag(self.S), 1, 1 + h * self.renewal)
        self.S = self.S * np.sqrt(np.outer(most, most))


class Softmax:
    def __init__(self, d, m, K, most=COLUMNS):
        self.d, self.K = d, K
        self.margin, self.mixed = Vectors(K, COLUMNS + d), Vectors(K, COLUMNS + d)
        self.apart = [Vectors(K, COLUMNS + d, APART) for _ in range(m)]
        self.discriminant = Discriminant(K, d, m, most)
        self.counts, self.scales = np.zeros((m, K)), Scales(d)
        self.seen = 0
        self.log_squares, self.events = 0.0, 0.0
        renewal = 1e-4 * np.clip(K, 10, 100)
        self.stacking = ConditionalLogit([1, 1, 0.3, 0, 0.3, 0.3], VARIANCES, renewal)

    def unit(self):
        return np.exp(-0.5 * self.log_squares / self.events) if self.events else 1.0

    def voices(self, i, u, composed, offset=None):
        x = np.append(self.unit() * composed, 1.0)
        own = x.copy()  # tasks have no waves
        own[[c for c, (_, order) in enumerate(self.discriminant.columns) if order]] = 0.0
        v = [vectors.S @ x**2 for vectors in (self.margin, self.mixed)]
        m = [vectors.w @ x for vectors in (self.margin, self.mixed)]
        v[1], m[1] = v[1] + self.apart[i].S @ own**2, m[1] + self.apart[i].w @ own
        n = self.counts.sum(axis=0)
        usual = np.log(self.counts[i] + 5 * (n + 1) / (n.sum() + self.K))
        said = np.clip([m[0], m[1] / np.sqrt(1 + np.pi * v[1] / 8)], -50, 50)
        densities = self.discriminant.score(i, u, self.counts[i], n)
        z = np.array([*said, *densities, usual, np.log(n + 1)])
        z[2:] = z[2:] if offset is None else 0.0
        return x, own, m, v, z

    def predict(self, i, x, offset=None):
        row = self.scales.look(x)
        u = self.discriminant.values(x, row)
        z = self.voices(i, u, self.discriminant.compose(u, row), offset)[4]
        return self.stacking.predict(z, 0.0 if offset is None else offset)

    def update(self, i, x, y, h=1.0, offset=None):
        if h == 0:
            return
        y, row = int(y), self.scales.count(x)
        self.seen += 1
        u = self.discriminant.values(x, row)
        composed, given = self.discriminant.compose(u, row), x
        first = self.events == 0
        if first:
            self.measure(composed, h)
        unit = self.unit()
        x, own, m, v, z = self.voices(i, u, composed, offset)
        true, known = np.arange(self.K) == y, np.zeros(self.K) if offset is None else offset
        hinge = 2 * (np.exp(log_softmax(known)) - 1 / self.K)
        self.stacking.update(z, y, h, known)
        usual, common = self.stacking.weight[4:]
        self.stacking.weight[5] = max(common, -usual)
        side = np.where(true, 1.0, -1.0)
        loss, b = 1 - side * (m[0] + hinge), 1 / (v[0] + 0.3 / h)
        self.margin.step(x, b * loss * side, b, loss > 0)
        p = np.exp(log_softmax(z[1] + known))
        bend = h * p * (1 - p)
        for each, entries in ((self.mixed, x), (self.apart[i], own)):
            a = h * (true - p) / (1 + bend * v[1])
            each.step(entries, a, bend / (1 + bend * v[1]), true | (p >= 1e-6))
        self.discriminant.learn(i, u, y, h, self.counts[i], self.counts.sum(axis=0))
        self.discriminant.count(given)
        self.counts[i, y] += h
        if not first:
            self.measure(composed, h)
        change = self.discriminant.settle(self.seen, self.scales, y, self.counts)
        if change is not None:
            for vectors in (self.margin, self.mixed, *self.apart):
                self.rotate(vectors, unit, *change)

    def rotate(self, vectors, unit, M, way):
        c = len(way)
        vectors.w[:, -1] += unit * vectors.w[:, :c] @ way
        vectors.w[:, :c] = vectors.w[:, :c] @ M.T
        more = (1 / vectors.S[:, :c] - 1 / vectors.prior) / np.diag(M) ** 2
        vectors.S[:, :c] = 1 / (1 / vectors.prior + more)

    def measure(self, row, h):
        if row @ row > 0:
            self.log_squares, self.events = (
                self.log_squares + h * np.log(row @ row),
                self.events + h,
            )
