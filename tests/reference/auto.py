"""romco-auto as its description reads: dense NumPy, full matrices even for diagonal beliefs."""

import numpy as np

from tests.reference.functions import MOST, WAVES, Functions, Sketch
from tests.reference.scales import Scales

FREQUENT = 100


def moderate(mean, variance):
    return mean / np.sqrt(1 + np.pi * variance / 8)


class Belief:
    """A Gaussian about weights; `step` moves it along x."""

    def __init__(self, variance):
        variance = np.asarray(variance, dtype=float)
        self.w, self.S, self.prior = np.zeros(len(variance)), np.diag(variance), variance

    def look(self, x):
        return self.w @ x, x @ self.S @ x

    def step(self, x, a, b, joint=()):
        """Covariances of weights that are not joint stay zero."""
        joint, kept, Sx = list(joint), np.eye(len(x)), self.S @ x
        kept[np.ix_(joint, joint)] = 1.0
        self.w = self.w + a * Sx
        self.S = self.S - b * np.outer(Sx, Sx) * kept

    def forget(self, x, rate):
        """The variance of features that occur grows, up to the prior."""
        left = np.diag(self.S)
        more = np.where(x != 0, np.minimum(self.prior, left * (1 + rate)) - left, 0.0)
        self.S = self.S + np.diag(more)

    def part(self, k):
        """Forget the covariances of a weight."""
        variance = self.S[k, k]
        self.S[k, :] = self.S[:, k] = 0.0
        self.S[k, k] = variance

    def renew(self, variance):
        self.S = self.S + np.diag(np.where(np.diag(self.S) < self.prior, variance, 0.0))


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def logistic(y, p, v, share=1.0, offset=0.0):
    miss = sigmoid(-y * (moderate(p, v) + offset))
    h = share * miss * (1 - miss)
    return y * share * miss / (1 + h * v), h / (1 + h * v)


def arow(y, p, v, r=0.3, offset=0.0):
    loss = 1 - y * (p + offset)
    return (y * loss / (v + r), 1 / (v + r)) if loss > 0 else (0.0, 0.0)


class Slope:
    """A personal weight: its information and precision, apart from the prior."""

    def __init__(self):
        self.information = self.precision = 0.0

    def look(self, variance):
        left = 1 / (1 / variance + self.precision)
        return self.information * left, left

    def step(self, x, a, b, variance):
        mean, left = self.look(variance)
        mean, left = mean + a * left * x, left - b * (left * x) ** 2
        self.precision = 1 / left - 1 / variance
        self.information = mean / left


class Variances:
    """Log-likelihoods of a grid of variances, given all weights."""

    def __init__(self, least):
        self.grid, self.weights = least * 10.0 ** np.arange(4), []

    def evidence(self, weights):
        i, p = (np.array([getattr(w, name) for w in weights]) for name in FIELDS)
        known = 1 + np.outer(self.grid, p)
        return 0.5 * (self.grid[:, None] * i**2 / known - np.log(known)).sum(axis=1)

    def expected(self, weights, centre):
        distance = np.log10(self.grid / centre)
        score = self.evidence(weights) - distance**2
        w = np.exp(score - score.max())
        return np.exp(w @ np.log(self.grid) / w.sum())


FIELDS = ("information", "precision")


class Auto:
    def __init__(self, d, m, curved=True):
        self.d, self.m, self.curved = d, m, curved
        one, wide = np.ones(d), [10.0] * d + [1.0] + [10.0] * MOST
        self.hinge, self.shared, self.mixed = Belief(one), Belief(wide), Belief(wide)
        self.joint, self.closed = [d], False  # weights with covariances; the intercept comes first
        self.functions, self.functions_due = Functions(10.0), 0
        self.own = [Belief(one) for _ in range(m)]
        self.slopes = [[Slope() for _ in range(d)] for _ in range(m)]
        self.levels = [Slope() for _ in range(m)]
        self.slope_variances = np.full(d, np.nan)  # of features with covariances
        self.slope_variance, self.level_variance, self.due = 0.3, 0.1, 0.0
        self.counted = {}  # slopes when their feature joined: not evidence about its variance
        self.live, self.frozen = Belief([1.0] * 9), Belief([1.0] * 9)
        for model in (self.live, self.frozen):
            model.w[[1, 2, 3]] = 1.0, 1.0, 2.0
            model.S = model.S + 5.0 * np.outer(model.w, model.w) / (model.w @ model.w)
            model.prior = np.full(9, 3.0)
        self.live.S[0, 0] = 1e-9
        self.deviations = [Belief([0.1, 0.1]) for _ in range(m)]
        self.moment, self.moment_slopes = Belief([0.0]), Belief(one)
        self.tracking, self.drift = 0.2, 0.0
        self.copies, self.copied, self.evidence = {}, {}, np.zeros(m)
        self.B, self.slice, self.drawing, self.drawn = np.zeros((d, 4)), 4096, None, 0.0
        self.log_squares, self.count, self.answers, self.next = 0.0, 0, 0, 32
        self.scales = Scales(d)

    def unit(self):
        return np.exp(-0.5 * self.log_squares / self.count) if self.count else 0.0

    def tally(self, x, h):
        if x.any():
            self.log_squares += h * np.log(x @ x)
            self.count += h

    def slope_priors(self):
        return np.where(np.isnan(self.slope_variances), self.slope_variance, self.slope_variances)

    def personal(self, i):
        """Means and variances of a task's slopes."""
        pairs = zip(self.slopes[i], self.slope_priors(), strict=True)
        return np.array([slope.look(prior) for slope, prior in pairs]).T

    def row(self, x, stored):
        """Features, the intercept and functions."""
        return np.concatenate([x, [1.0], self.functions.values(self.functions.seen(stored))])

    def learners(self, i, x, stored):
        """Mean and variance of each learner."""
        one, (slope, left) = self.row(x, stored), self.personal(i)
        level, level_left = self.levels[i].look(self.level_variance)
        mean, variance = self.mixed.look(one)
        mixed = mean + slope @ x + level, variance + left @ x**2 + level_left
        shared = (0.0, 0.0) if self.closed else self.shared.look(one)
        return self.own[i].look(x), mixed, self.hinge.look(x), shared

    def inputs(self, i, x, stored):
        own, mixed, hinge, shared = self.learners(i, x, stored)
        low_rank = (self.B.T @ x) * (self.B.T @ self.own[i].w)
        return np.array([1, own[0], moderate(*mixed), hinge[0], moderate(*shared), *low_rank])

    def copied_inputs(self, i, x, stored):
        """The inputs by copies of the weights, and the variances of now."""
        _, mixed, _, shared = self.learners(i, x, stored)
        there = np.flatnonzero(x).tolist()
        all_ = [self.copies.get(j, (0.0, 0.0, 0.0)) for j in there]
        pairs = [self.copies.get((i, j), (0.0, 0.0)) for j in there]
        old_hinge, old_shared, old_mixed = np.array(all_).reshape(-1, 3).T @ x[there]
        old_own, old_slopes = np.array(pairs).reshape(-1, 2).T @ x[there]
        intercept, mixed_intercept = self.copies.get("intercepts", (0.0, 0.0))
        level, factor = self.copies.get(("task", i), (0.0, None))
        if self.copied.get(("task", i), 0.0) <= self.drawn:
            factor = self.B.T @ self.own[i].w
        old_mixed += mixed_intercept + old_slopes + level
        functions = self.row(x, stored)[self.d + 1 :]
        for f in np.flatnonzero(functions).tolist():
            copies = self.copies.get(("function", f), (0.0, 0.0))
            old_shared, old_mixed = np.array([old_shared, old_mixed]) + functions[f] * np.array(
                copies
            )
        low_rank = (self.B.T @ x) * factor
        z = [1, old_own, moderate(old_mixed, mixed[1]), old_hinge]
        old_shared = 0.0 if self.closed else old_shared + intercept
        return np.array([*z, moderate(old_shared, shared[1]), *low_rank])

    def moment_of(self, x):
        """What the moment adds, and its variance."""
        x = np.where([j in self.joint for j in range(self.d)], x, 0.0)
        mean, variance = self.moment_slopes.look(x)
        variance += self.moment.S[0, 0] + 0.01
        return moderate(mean + self.moment.w[0], variance), variance, x

    def settled(self, i, z):
        mean, variance = self.live.look(z)
        own, own_variance = self.deviations[i].look(z[1:3])
        return mean + own, variance + own_variance

    def said(self, i, x, offset=0.0):
        """What is kept of a prediction until its answer comes."""
        stored, x = split(x)
        x = self.scales.look(x) * self.unit()
        return (
            self.answers,
            moderate(*self.settled(i, self.inputs(i, x, stored))) + offset,
            self.moment_of(x)[0],
        )

    def predict(self, i, x, offset=0.0):
        _, margin, moment = self.said(i, x, offset)
        w = self.tracking if self.drift > 0.2 else 0.0
        yes, no = (
            (1 - w) * sigmoid(s * margin) + w * sigmoid(s * (margin + moment)) for s in (1, -1)
        )
        return np.log(yes / no)

    def predict_frozen(self, i, x, offset=0.0):
        stored, x = split(x)
        x = self.scales.look(x) * self.unit()
        return moderate(*self.frozen.look(self.inputs(i, x, stored))) + offset

    def update(self, task, xs, ys, weights=None, said=None, offsets=None):
        weights = np.ones(len(ys)) if weights is None else weights
        offsets = np.zeros(len(ys)) if offsets is None else offsets
        said = [None] * len(ys) if said is None else said
        events = zip(task, xs, ys, weights, said, offsets, strict=True)
        for i, x, y, h, then, offset in events:
            if h == 0:
                continue
            first = self.count == 0
            stored, x = split(x)
            there, x = x != 0, self.scales.count(x)
            self.choose(there if x.any() else np.zeros(self.d))
            if first:
                self.tally(x, h)
            self.learn(i, x * self.unit(), y, h, stored, then, offset)
            if not first:
                self.tally(x, h)
            self.functions.count(stored)
            self.choose_functions()
            self.answers += h
        if self.count >= self.next:
            if self.drawing is None:
                self.next = self.count
                self.drawing = directions(self.own_vectors, self.B)
                next(self.drawing)
            B = advance(self.drawing, self.slice * len(ys))
            if B is not None:
                self.B, self.drawing, self.drawn = B, None, self.answers
                self.next = max(1.25 * self.count, 41 * self.count - 40 * self.next)

    def own_vectors(self):
        return np.array([belief.w for belief in self.own]).T

    def notice(self, xs):
        """Rows without a label are counted, as those with one are."""
        for x in xs:
            self.tally(self.scales.count(split(x)[1]), 1)

    def choose(self, there):
        """Covariances are kept of the features that are frequent, unless these are too many."""
        scales = self.scales.measured.scales if hasattr(self.scales, "measured") else self.scales
        count, events = scales.c, int(scales.events)
        if events & (events - 1) == 0:
            self.leave(j for j in self.joint[:0:-1] if j < self.d and count[j] < 0.05 * events)
        for j in np.flatnonzero(there).tolist():
            if j in self.joint or self.closed or count[j] < 0.1 * events:
                continue
            if sum(k <= self.d for k in self.joint) > min(self.d, FREQUENT):
                self.closed = events >= 256
                if self.closed:
                    self.leave(self.joint[:0:-1])
                    for k in range(self.d):  # from now on the prior variance is 1
                        for S in (self.shared.S, self.mixed.S):
                            S[k, k] = 1 / (1 / S[k, k] - 1 / 10 + 1)
                break
            self.joint.append(j)
            self.functions.sketches[j] = Sketch()
            self.counted[j] = self.evidence_of(j)

    def leave(self, weights):
        """Give up covariances; the last one takes the place."""
        for j in list(weights):
            k = self.joint.index(j)
            self.joint[k] = self.joint[-1]
            self.joint.pop()
            self.shared.part(j)
            self.mixed.part(j)
            self.functions.forget_scores()
            if j < self.d:
                del self.functions.sketches[j]
                self.slope_variances[j] = np.nan
                self.moment_slopes.w[j], self.moment_slopes.S[j, j] = 0.0, 1.0

    def choose_functions(self):
        """Waves of numbers, and products that are far from chance."""
        functions, features = self.functions, [j for j in self.joint if j < self.d]
        if self.answers < self.functions_due or not self.curved:
            return
        self.functions_due = max(64, 2 * self.answers)
        for f, used in enumerate(functions.used):
            if used is not None and not {used[0], used[-2]} <= set(features):
                functions.used[f] = None
                if self.d + 1 + f in self.joint:
                    self.leave([self.d + 1 + f])
        for j in [j for j in self.joint if j < self.d]:
            if functions.far_from_a_line(j, always=True) and (j, 1) not in functions.used:
                for order in range(1, WAVES + 1):
                    if len(self.joint) < 128 - 16:
                        self.add_function((j, order))
        joined = 0
        while self.answers >= 512 and joined < 6 and len(self.joint) < 128:
            best = functions.best_product()
            if best is None:
                break
            made = self.joint[best[0]], best[1], self.joint[best[2]], best[3]
            if not functions.known(made):
                self.add_function(made)
                joined += 1
        functions.forget_scores()

    def add_function(self, made):
        if None in self.functions.used:
            f = self.functions.used.index(None)
            self.functions.used[f] = made
            for belief in (self.shared, self.mixed):
                belief.w[self.d + 1 + f] = 0.0
                belief.part(self.d + 1 + f)
                belief.S[self.d + 1 + f, self.d + 1 + f] = 10.0
            self.copies.pop(("function", f), None)
            self.copied.pop(("function", f), None)
            self.joint.append(self.d + 1 + f)

    def evidence_of(self, j):
        return Variances(0.003).evidence([slopes[j] for slopes in self.slopes])

    def learn(self, i, x, y, h, stored, then=None, offset=0.0):
        z, copied = self.inputs(i, x, stored), self.copied_inputs(i, x, stored)
        learners, settled = self.learners(i, x, stored), self.settled(i, z)
        if self.answers > 50:
            step = logistic(y, *self.frozen.look(copied), h, offset)
            self.frozen.step(copied, *step, range(9))
        shift = self.learn_moment(x, y, h, moderate(*settled) + offset, then)
        self.renew_copies(i, x, stored)
        own, mixed, hinge, shared = learners
        bias = np.tanh(0.5 * offset)
        one = self.row(x, stored)
        self.own[i].step(x, *arow(y, *own, r=0.3 / h, offset=bias))
        self.hinge.step(x, *arow(y, *hinge, r=0.3 / h, offset=bias))
        if not self.closed:
            self.shared.step(one, *logistic(y, *shared, h, offset), self.joint)
        step, priors = logistic(y, *mixed, h, offset), self.slope_priors()
        before = self.mixed.look(one)
        self.mixed.step(one, *step, self.joint)
        without = moderate(*before) + offset
        gain = np.log(sigmoid(y * (moderate(*mixed) + offset)) / sigmoid(y * without))
        self.evidence[i] += h * gain
        for j in np.flatnonzero(x):
            self.slopes[i][j].step(x[j], *step, priors[j])
        self.levels[i].step(1.0, *step, self.level_variance)
        residual = y * sigmoid(-y * (moderate(*mixed) + offset))
        self.functions.score(self.functions.seen(stored), residual, self.joint.index)
        step = logistic(y, *settled, h, offset + shift)
        self.live.step(z, *step, range(9))
        self.live.renew(np.array([0.0] + [3e-5 * h] * 8))
        self.deviations[i].step(z[1:3], *step)
        if self.answers >= self.due:
            self.estimate()

    def learn_moment(self, x, y, h, settled, then):
        """Weigh the moment by what it predicted; it steps; return what it explains."""
        moment, variance, x = self.moment_of(x)
        late = then is not None and self.answers - then[0] > h
        before, added = then[1:] if late else (settled, moment)
        better = self.tracking * sigmoid(y * (before + added)) ** h
        w = better / (better + (1 - self.tracking) * sigmoid(y * before) ** h)
        self.tracking = w + 0.01 * (0.2 - w)
        self.drift += 3e-3 * (self.tracking - self.drift)
        miss = sigmoid(-y * (settled + moment))
        curvature = h * miss * (1 - miss)
        a, b = y * h * miss / (1 + curvature * variance), curvature / (1 + curvature * variance)
        self.moment.S = self.moment.S + 0.01 * h
        self.moment.step(np.ones(1), a, b)
        self.moment_slopes.step(x, a, b)
        self.moment_slopes.forget(x, 0.01 * h)
        return self.tracking * moment if self.drift > 0.2 else 0.0

    def renew_copies(self, i, x, stored):
        now, (slope, _) = self.answers + 1, self.personal(i)
        level = self.levels[i].look(self.level_variance)[0]
        fresh = {
            "intercepts": (self.shared.w[self.d], self.mixed.w[self.d]),
            ("task", i): (level, self.B.T @ self.own[i].w),
        }
        for f in np.flatnonzero(self.row(x, stored)[self.d + 1 :]).tolist():
            k = self.d + 1 + f
            fresh["function", f] = self.shared.w[k], self.mixed.w[k]
        for j in np.flatnonzero(x).tolist():
            fresh[j] = self.hinge.w[j], self.shared.w[j], self.mixed.w[j]
            fresh[i, j] = self.own[i].w[j], slope[j]
        for key, values in fresh.items():
            of_task = isinstance(key, tuple) and key[0] == "task"
            moved = of_task and self.copied.get(key, 0.0) <= self.drawn
            if now >= 1.2 * self.copied.get(key, 0.0) or moved:
                self.copies[key], self.copied[key] = values, now

    def estimate(self):
        every = [slope for slopes in self.slopes for slope in slopes]
        self.level_variance = Variances(0.01).expected(self.levels, 0.1)
        self.slope_variance = Variances(0.003).expected(every, 0.3)
        for j in [j for j in self.joint if j < self.d]:
            grid = Variances(0.003)
            grid.evidence = lambda _, j=j: self.evidence_of(j) - self.counted[j]
            self.slope_variances[j] = grid.expected([], self.slope_variance)
        self.due = 1.02 * self.answers + 1


def split(x):
    """Entries that are stored, and all of them: NaN is one that is not."""
    return [(j, value) for j, value in enumerate(x.tolist()) if value == value], np.nan_to_num(x)


def advance(drawing, budget):
    """The new directions, or None while there are none."""
    try:
        drawing.send(budget)
    except StopIteration as end:
        return end.value
    return None


def directions(vectors, B):
    """B <- orth(W W'B), W being vectors() at that time; yields after as many numbers as sent."""
    left = yield
    W = vectors()
    d, m = W.shape
    pairs = [(i, j) for i in range(m) for j in range(d)]
    fresh, signs, C = ~B.any(axis=0), np.zeros((m, 4)), np.zeros((d, 4))
    bits = np.arange(4 * d, dtype=np.uint64).reshape(d, 4) + np.uint64(4)
    bits = (bits * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40) & np.uint64(1)
    for i, j in pairs if fresh.any() else ():
        if W[j, i] != 0.0:
            left, W = (left, W) if left else ((yield), vectors())
            signs[i] += W[j, i] * np.where(bits[j], 1.0, -1.0)
            left -= 1
    for i, j in pairs:
        if W[j, i] != 0.0:
            left, W = (left, W) if left else ((yield), vectors())
            C[j] += W[j, i] * np.where(fresh, signs[i], B.T @ W[:, i])
            left -= 1
    for _ in range(2 * C.any(axis=1).sum()):  # columns are made orthonormal,
        left, W = (left, W) if left else ((yield), vectors())
        left -= 1
    for i, j in pairs:  # and W is projected on them
        if W[j, i] != 0.0:
            left, W = (left, W) if left else ((yield), vectors())
            left -= 1
    return orthonormal(C)


def orthonormal(B):
    B = B.copy()
    for c in range(B.shape[1]):
        before = B[:, c] @ B[:, c]
        for _ in range(2):
            for k in range(c):
                B[:, c] -= (B[:, c] @ B[:, k]) * B[:, k]
        after = B[:, c] @ B[:, c]
        B[:, c] *= 1 / np.sqrt(after) if after > 1e-7 * before else 0.0
    return B
