"""romco-auto as its description reads: dense NumPy, full matrices even for diagonal beliefs."""

from math import erf

import numpy as np

from tests.reference.functions import MOST, WAVES, Functions, Sketch
from tests.reference.scales import Scales, SettledScales, alike

FREQUENT = 80
FREEDOM, STACKING_FREEDOM = 8.0, 20.0  # degrees of Student's t, of learners and stacking


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
        Sx = self.S @ x
        self.w = self.w + a * Sx
        self.S = self.S - b * np.outer(Sx, Sx) * self.kept(joint)

    def kept(self, joint):
        """Which entries of the covariance are kept, as ones."""
        ones = np.eye(len(self.w))
        ones[np.ix_(list(joint), list(joint))] = 1.0
        return ones

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

    def recentre(self, j, shift, joint):
        """Measure feature j from a new centre; the first weight that is joint is the intercept."""
        if self.S[j, j] == self.prior[j]:  # never learned
            return
        T = np.eye(len(self.w))
        T[joint[0], j] = shift
        self.w, self.S = T @ self.w, T @ self.S @ T.T * self.kept(joint)

    def rescale(self, j, ratio):
        """Express weight j in a new unit, in which it has the prior that it had in the old one."""
        if self.S[j, j] == self.prior[j]:
            return
        T = np.eye(len(self.w))
        T[j, j] = ratio
        self.w, self.S = T @ self.w, T @ self.S @ T
        if ratio == 0:
            self.S[j, j] = self.prior[j]
            return
        missing = (1 - 1 / ratio**2) / self.prior[j]  # precision, by Sherman and Morrison
        gain = missing * self.S[:, j] / (1 + missing * self.S[j, j])
        self.w, self.S = self.w - gain * self.w[j], self.S - np.outer(gain, self.S[j])


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

    def shift(self, shift, mean, variance, prior):
        """Add ``shift`` times another weight to this one, whose variance becomes larger."""
        before, left = self.look(prior)
        left = min(prior, left + shift**2 * variance)
        self.precision = 1 / left - 1 / prior
        self.information = (before + shift * mean) / left

    def rescale(self, ratio):
        """Express the weight in a new unit; 0 forgets it."""
        self.information = self.information / ratio if ratio else 0.0
        self.precision = self.precision / ratio**2 if ratio else 0.0


def look_all(slopes, variances):
    """Means and variances of several personal weights."""
    information = np.array([slope.information for slope in slopes])
    precision = np.array([slope.precision for slope in slopes])
    left = 1 / (1 / variances + precision)
    return information * left, left


def evidence(grid, weights, unit=1.0):
    """Log-likelihoods of a grid of variances, given weights; ``unit`` is that of variances."""
    i = np.array([w.information for w in weights])
    p = np.array([w.precision for w in weights])
    known = 1 + np.outer(grid, p)
    return 0.5 * (grid[:, None] * i**2 / unit / known - np.log(known)).sum(axis=1)


def expected(grid, evidence, centre):
    """Geometric mean of a grid of variances, of which one is expected before any event."""
    score = evidence - np.log10(grid / centre) ** 2
    w = np.exp(score - score.max())
    return np.exp(w @ np.log(grid) / w.sum())


class Auto:
    prior, level_start, slope_start = 10.0, 0.1, 0.3  # variances before any event
    function_share = 1.0  # of the prior variances of functions
    level_grid, slope_grid = 0.01 * 10.0 ** np.arange(4), 0.003 * 10.0 ** np.arange(4)

    waves_always = True

    def __init__(self, d, m, curved=True):
        self.d, self.m, self.curved = d, m, curved
        one, wide = np.ones(d), [self.prior] * d + [1.0] + [self.prior] * MOST
        self.hinge, self.shared, self.mixed = Belief(one), Belief(wide), Belief(wide)
        self.joint, self.closed = [d], False  # weights with covariances; the intercept comes first
        self.functions, self.functions_due = Functions(self.prior, self.function_share), 0
        self.own = [Belief(one) for _ in range(m)]
        self.slopes = [[Slope() for _ in range(d)] for _ in range(m)]
        self.levels = [Slope() for _ in range(m)]
        self.slope_variances = np.full(d, np.nan)  # of features with covariances
        self.curves = [[Slope() for _ in range(MOST)] for _ in range(m)]  # slopes of functions
        self.curve_grid = 0.003 * self.prior * 10.0 ** np.arange(4)
        self.curve_start = 0.1 * self.prior
        self.curve_variances = np.full(MOST, self.curve_start)
        self.slope_variance, self.level_variance = self.slope_start, self.level_start
        self.due = 0.0
        self.counted = {}  # slopes when their feature joined: not evidence about its variance
        self.live, self.frozen = self.stacking(), self.stacking()
        self.live.S[0, 0] = 1e-9
        self.moment, self.moment_slopes = Belief([0.0]), Belief(one)
        self.tracking, self.drift = 0.2, 0.0
        self.copies, self.copied, self.evidence = {}, {}, np.zeros(m)
        self.agreement = np.zeros((m, 2))  # evidence that labels are like others', or the opposite
        self.shared_means = np.zeros((m, 2))  # mean, events
        self.level_evidence = np.zeros(4)
        self.B, self.slice, self.drawing, self.drawn = np.zeros((d, 4)), 4096, None, 0.0
        self.log_squares, self.count, self.answers, self.next = 0.0, 0, 0, 32
        self.scales = Scales(d)

    def stacking(self):
        """A stacking model before any event."""
        model = Belief([2.0] * 9)
        model.w[[1, 2, 3]] = 1.0, 1.0, 2.0
        return model

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
        return look_all(self.slopes[i], self.slope_priors())

    def personal_curves(self, i):
        """Means and variances of a task's slopes of functions."""
        return look_all(self.curves[i], self.curve_variances)

    def measure(self, x, frozen=False):
        """The row in units; entries that are there are kept for functions."""
        there = np.nan_to_num(x).tolist()
        self.stored = [(j, value) for j, value in enumerate(there) if value != 0]
        look = self.scales.look_frozen if frozen else self.scales.look
        return look(np.nan_to_num(x)) * self.unit()

    def row(self, x):
        """Features, the intercept and functions."""
        return np.concatenate([x, [1.0], self.functions.values(self.functions.seen(self.stored))])

    def learners(self, i, x):
        """Mean and variance of each learner."""
        one, (slope, left) = self.row(x), self.personal(i)
        functions, (curve, curve_left) = one[self.d + 1 :], self.personal_curves(i)
        level, level_left = self.levels[i].look(self.level_variance)
        mean, variance = self.mixed.look(one)
        mean += slope @ x + curve @ functions + level
        mixed = mean, variance + left @ x**2 + curve_left @ functions**2 + level_left
        shared = (0.0, 0.0) if self.closed else self.shared.look(one)
        return self.own[i].look(x), mixed, self.hinge.look(x), shared

    def inputs(self, i, x):
        own, mixed, hinge, shared = self.learners(i, x)
        low_rank = (self.B.T @ x) * (self.B.T @ self.own[i].w)
        c = self.agrees(i)
        return np.array(
            [1, own[0], moderate(*mixed), c * hinge[0], c * moderate(*shared), *low_rank]
        )

    def agrees(self, i):
        """Probability that a task's labels are like others', less that they are the opposite."""
        scores = np.array([np.log(1000) + self.agreement[i, 0], self.agreement[i, 1], 0])
        likely = np.exp(scores - scores.max())
        return (likely[0] - likely[1]) / likely.sum()

    def copied_inputs(self, i, x):
        """The inputs by copies of the weights, and the variances of now."""
        _, mixed, _, shared = self.learners(i, x)
        old, c = self.by_copies(i, x), self.agrees(i)
        z = [1, old["own"], moderate(old["mixed"] + old["personal"], mixed[1]), c * old["hinge"]]
        return np.array([*z, c * moderate(old["shared"], shared[1]), *old["low_rank"]])

    def by_copies(self, i, x):
        """What the learners say by copies of their weights."""
        there = np.flatnonzero(x).tolist()
        all_ = [self.copies.get(j, np.zeros(3)) for j in there]
        pairs = [self.copies.get((i, j), np.zeros(2)) for j in there]
        hinge, shared, mixed = np.array(all_).reshape(-1, 3).T @ x[there]
        own, slopes = np.array(pairs).reshape(-1, 2).T @ x[there]
        intercepts = self.copies.get("intercepts", np.zeros(2))
        level, *_ = self.copies.get(("task", i), np.zeros(3))
        functions = self.row(x)[self.d + 1 :]
        for f in np.flatnonzero(functions).tolist():
            of_shared, of_mixed = self.copies.get(("function", f), np.zeros(2))
            shared += of_shared * functions[f]
            mixed += of_mixed * functions[f]
            slopes += self.copies.get(("curve", i, f), 0.0) * functions[f]
        factor = self.B.T @ self.own[i].w
        if self.copied.get(("task", i), 0.0) > self.drawn:
            factor = self.copies["factor", i]
        return {
            "own": own,
            "hinge": hinge,
            "shared": 0.0 if self.closed else shared + intercepts[0],
            "mixed": mixed + intercepts[1],
            "personal": slopes + level,
            "low_rank": (self.B.T @ x) * factor,
        }

    def moment_of(self, x):
        """What the moment adds, and its variance."""
        x = np.where([j in self.joint for j in range(self.d)], x, 0.0)
        mean, variance = self.moment_slopes.look(x)
        variance += self.moment.S[0, 0] + 0.01
        return moderate(mean + self.moment.w[0], variance), variance, x

    def said(self, i, x, offset=0.0):
        """What is kept of a prediction until its answer comes."""
        x = self.measure(x)
        return (
            self.answers,
            moderate(*self.live.look(self.inputs(i, x))) + offset,
            self.moment_of(x)[0],
        )

    def predict(self, i, x, offset=0.0):
        _, margin, moment = self.said(i, x, offset)
        w = self.tracking if self.drift > 0.2 else 0.0
        yes, no = (
            (1 - w) * sigmoid(s * margin) + w * sigmoid(s * (margin + moment)) for s in (1, -1)
        )
        return np.log(yes / no)

    def stacked(self, i, x, frozen):
        """Mean and variance of a stacking model."""
        return (self.frozen if frozen else self.live).look(self.inputs(i, x))

    def without_unseen(self, given):
        """The row without features that no event had, and the variance of what these add."""
        x = self.measure(given)
        square = np.where(self.counts() == 0, x**2, 0.0)
        prior, slopes = 1.0 if self.closed else self.prior, self.slope_priors() @ square
        known = [j for j in self.joint if j < self.d]
        sizes = self.mixed.w[known] ** 2 / self.variance() + np.diag(self.mixed.S)[known]
        size = (prior + sizes.sum()) / (1 + len(known))
        x = self.measure(given, frozen=True) if square.any() else x
        return x, size * square.sum() + slopes

    def deviation(self, i, x, frozen=False):
        """Standard deviation of the log-odds or number."""
        V, (x, unseen) = self.variance(), self.without_unseen(x)
        mean, variance = self.stacked(i, x, frozen)
        mixed, doubt = self.learners(i, x)[1]
        return np.sqrt(V * (variance + min((mean - mixed) ** 2 / V, doubt) + doubt + unseen))

    def predict_frozen(self, i, x, offset=0.0):
        return moderate(*self.frozen.look(self.inputs(i, self.measure(x, frozen=True)))) + offset

    def update(self, task, xs, ys, weights=None, said=None, offsets=None):
        weights = np.ones(len(ys)) if weights is None else weights
        offsets = np.zeros(len(ys)) if offsets is None else offsets
        said = [None] * len(ys) if said is None else said
        events = zip(task, xs, ys, weights, said, offsets, strict=True)
        for i, x, y, h, then, offset in events:
            if h > 0:
                self.learn_one(i, x, y, h, then, offset)
        if self.count >= self.next:
            if self.drawing is None:
                self.next = self.count
                self.drawing = directions(self.own_vectors, self.B)
                next(self.drawing)
            B = advance(self.drawing, self.slice * len(ys))
            if B is not None:
                self.B, self.drawing, self.drawn = B, None, self.answers
                self.next = max(1.25 * self.count, 41 * self.count - 40 * self.next)

    def learn_one(self, i, x, y, h, then, offset):
        first = self.count == 0
        self.measure(x)
        x = np.nan_to_num(x)
        there, x = x != 0, self.scales.count(x)
        self.choose(there if x.any() else np.zeros(self.d))
        if first:
            self.tally(x, h)
        self.learn(i, x * self.unit(), y, h, then, offset)
        if not first:
            self.tally(x, h)
        self.functions.count(self.stored)
        self.choose_functions()
        self.answers += h

    def own_vectors(self):
        return np.array([belief.w for belief in self.own]).T

    def notice(self, xs):
        """Rows without a label are counted, as those with one are."""
        for x in xs:
            self.tally(self.scales.count(np.nan_to_num(x)), 1)

    def choose(self, there):
        """Covariances are kept of the features that are frequent, unless these are too many."""
        count, events = self.counts(), int(self.counter().events)
        if events & (events - 1) == 0:
            self.leave(j for j in self.joint[:0:-1] if j < self.d and count[j] < 0.05 * events)
        for j in np.flatnonzero(there).tolist():
            if self.is_full() or self.closed:
                break
            if j not in self.joint and count[j] >= 0.1 * events:
                self.give_place(j)
        if events >= 256 and events & (events - 1) == 0 and self.is_full() and not self.closed:
            self.share_places(count, events)

    def counter(self):
        return self.scales.measured.scales if hasattr(self.scales, "measured") else self.scales

    def counts(self):
        """Events that had each feature."""
        return self.counter().c

    def is_full(self):
        return sum(k < self.d for k in self.joint) == min(self.d, FREQUENT)

    def give_place(self, j):
        self.joint.append(j)
        self.functions.sketches[j] = Sketch()
        self.counted[j] = self.evidence_of(j)

    def share_places(self, count, events):
        """If more features are frequent than have places, these are of those that say most."""
        frequent = count >= 0.1 * events
        waiting = [j for j in np.flatnonzero(frequent).tolist() if j not in self.joint]
        if not waiting or self.variance() == 0:
            return
        if count[frequent].sum() < 0.75 * count.sum():
            self.closed = True
            self.leave(self.joint[:0:-1])
            for k in range(self.d):  # from now on the prior variance is 1
                for S in (self.shared.S, self.mixed.S):
                    S[k, k] = 1 / (1 / S[k, k] - 1 / self.prior + 1)
            return
        for j in waiting:
            worst = min((k for k in self.joint if k < self.d), key=self.worth)
            if self.worth(j) > self.worth(worst) + 4:
                self.leave([worst])
                self.give_place(j)

    def worth(self, j):
        """Chi-square of a feature's weight, and of its waves if it has a place."""
        line = self.shared.w[j] ** 2 / (self.variance() * self.shared.S[j, j])
        return line + (self.functions.curvature(j) if j in self.joint else 0.0)

    def variance(self):
        """The unit of variances."""
        return 1.0

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
        self.functions_due = max(64, 1.3 * self.answers)
        for f, used in enumerate(functions.used):
            if used is not None and not {used[0], used[-2]} <= set(features):
                functions.used[f] = None
                self.forget_curves(f)
                if self.d + 1 + f in self.joint:
                    self.leave([self.d + 1 + f])
        least = -1 if self.waves_always else 14
        curved = [j for j in features if functions.sketches[j].is_number()]
        curved = [
            j for j in curved if functions.curvature(j) > least and (j, 1) not in functions.used
        ]
        for j in sorted(curved, key=functions.curvature, reverse=True):
            for order in range(1, WAVES + 1):
                if len(self.joint) < 144 - 32:
                    self.add_function((j, order))
        joined = 0
        while self.answers >= 256 and joined < 6 and len(self.joint) < 144:
            best = functions.best_product()
            if best is None:
                break
            made = self.joint[best[0]], best[1], self.joint[best[2]], best[3]
            if not functions.known(made):
                self.add_function(made)
                joined += 1

    def add_function(self, made):
        if None in self.functions.used:
            f = self.functions.used.index(None)
            self.functions.used[f] = made
            for belief in (self.shared, self.mixed):
                belief.w[self.d + 1 + f] = 0.0
                belief.part(self.d + 1 + f)
                belief.S[self.d + 1 + f, self.d + 1 + f] = self.prior
            self.copies.pop(("function", f), None)
            self.copied.pop(("function", f), None)
            self.joint.append(self.d + 1 + f)

    def forget_curves(self, f):
        """No task has a slope of a function any more."""
        for i in range(self.m):
            self.curves[i][f] = Slope()
            self.copies.pop(("curve", i, f), None)
            self.copied.pop(("curve", i, f), None)
        self.curve_variances[f] = self.curve_start

    def step_curves(self, i, functions, step):
        """A step of a task's slopes of functions."""
        for f in np.flatnonzero(functions):
            self.curves[i][f].step(functions[f], *step, self.curve_variances[f])

    def curve_evidence(self, f):
        """Evidence about the variance of tasks' slopes of a function."""
        return evidence(self.curve_grid, [curves[f] for curves in self.curves])

    def common_evidence(self, f, unit=1.0):
        """The part of that evidence which is due to what all tasks have in common."""
        known = [curves[f] for curves in self.curves if curves[f].precision > 0]
        square = sum(slope.information for slope in known) ** 2 / unit
        precision = sum(slope.precision for slope in known)
        return 0.5 * self.curve_grid * square / (len(known) + self.curve_grid * precision)

    def evidence_of(self, j):
        """Evidence about the variance of a feature's slopes."""
        return evidence(self.slope_grid, [slopes[j] for slopes in self.slopes])

    def add_level_evidence(self, i, y, h, mixed, offset=0.0):
        """Add the log-likelihoods of an answer under each variance of levels."""
        level, left = self.levels[i].look(self.level_variance)
        for k, prior in enumerate(self.level_grid):
            mean, variance = self.levels[i].look(prior)
            mean += mixed[0] - level
            variance += mixed[1] - left
            self.level_evidence[k] += h * self.log_likelihood(y, mean, variance, offset)

    def log_likelihood(self, y, mean, variance, offset):
        return np.log(sigmoid(y * (moderate(mean, variance) + offset)))

    def learn(self, i, x, y, h, then=None, offset=0.0):
        z, copied = self.inputs(i, x), self.copied_inputs(i, x)
        learners, settled = self.learners(i, x), self.live.look(z)
        if self.answers > 50:
            step = logistic(y, *self.frozen.look(copied), h, offset)
            self.frozen.step(copied, *step, range(9))
        shift = self.learn_moment(x, y, h, moderate(*settled) + offset, then)
        self.renew_copies(i, x)
        own, mixed, hinge, shared = learners
        bias = np.tanh(0.5 * offset)
        one = self.row(x)
        self.own[i].step(x, *arow(y, *own, r=0.3 / h, offset=bias))
        c = self.agrees(i)
        side, count = (1 if c > 0 else -1), h * abs(c)
        self.hinge.step(x, *arow(side * y, *hinge, r=0.3 / count, offset=side * bias))
        if not self.closed:
            step = logistic(side * y, *shared, count, side * offset)
            self.shared.step(one, *step, self.joint)
        step, priors = logistic(y, *mixed, h, offset), self.slope_priors()
        before = self.mixed.look(one)
        self.mixed.step(one, *(max(0, c) * part for part in step), self.joint)
        without = moderate(*before) + offset
        gain = np.log(sigmoid(y * (moderate(*mixed) + offset)) / sigmoid(y * without))
        self.evidence[i] += h * gain
        self.add_level_evidence(i, y, h, mixed, offset)
        self.learn_agreement(i, y, h, moderate(*before), offset)
        for j in np.flatnonzero(x):
            self.slopes[i][j].step(x[j], *step, priors[j])
        self.step_curves(i, one[self.d + 1 :], step)
        self.levels[i].step(1.0, *step, self.level_variance)
        self.score(y * sigmoid(-y * (moderate(*mixed) + offset)))
        step = logistic(y, *settled, h, offset + shift)
        self.live.step(z, *step, range(9))
        if self.answers >= self.due:
            self.estimate()

    def learn_agreement(self, i, y, h, margin, offset):
        """Log-likelihoods of the shared margin around its mean, and of its opposite."""
        mean, events = self.shared_means[i]
        mean = mean if events else margin
        rise, level = margin - mean, self.levels[i].look(self.level_variance)[0] + mean + offset
        both = sigmoid(y * (level + np.array([rise, -rise])))
        self.agreement[i] += h * np.log(both / sigmoid(y * level))
        self.shared_means[i] = mean + h * rise / (events + h), events + h

    def score(self, residual):
        """Let functions hear of a residual."""
        self.functions.score(self.functions.seen(self.stored), residual, self.joint.index)

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

    def renew_copies(self, i, x):
        now, (slope, _) = self.answers + 1, self.personal(i)
        fresh = {
            "intercepts": (self.shared.w[self.d], self.mixed.w[self.d]),
            ("task", i): self.task_copy(i),
            ("factor", i): self.B.T @ self.own[i].w,
        }
        curves, _ = self.personal_curves(i)
        for f in np.flatnonzero(self.row(x)[self.d + 1 :]).tolist():
            k = self.d + 1 + f
            fresh["function", f] = self.shared.w[k], self.mixed.w[k]
            fresh["curve", i, f] = curves[f]
        for j in np.flatnonzero(x).tolist():
            fresh[j] = self.hinge.w[j], self.shared.w[j], self.mixed.w[j]
            fresh[i, j] = self.own[i].w[j], slope[j]
        for key, values in fresh.items():
            of_task = isinstance(key, tuple) and key[0] in ("task", "factor")
            moved = of_task and self.copied.get(key, 0.0) <= self.drawn
            if now >= 1.2 * self.copied.get(key, 0.0) or moved:
                self.copies[key], self.copied[key] = np.array(values), now

    def task_copy(self, i):
        """What is copied of a task besides its slopes."""
        return self.levels[i].look(self.level_variance)[0], 0.0, 0.0

    def estimate(self):
        found = [self.evidence_of(j) for j in range(self.d)]
        slopes = np.sum(found, axis=0)
        self.level_variance = expected(self.level_grid, self.level_evidence, self.level_start)
        self.slope_variance = expected(self.slope_grid, slopes, self.slope_start)
        for j in [j for j in self.joint if j < self.d]:
            own = found[j] - self.counted[j]
            self.slope_variances[j] = expected(self.slope_grid, own, self.slope_variance)
        for f in range(MOST):
            if not any(curves[f].precision > 0 for curves in self.curves):
                continue
            found = self.curve_evidence(f) - self.common_evidence(f)
            self.curve_variances[f] = expected(self.curve_grid, found, self.curve_start)
        self.due = 1.02 * self.answers + 1


def exceeds(S, ratio):
    """Whether a covariance is larger than the prior one, I, so that events cannot be reweighed."""
    weighed = ratio * np.eye(len(S)) - (ratio - 1) * S
    return bool(np.linalg.eigvalsh(weighed)[0] <= 0.999 * min(1, ratio))


class AutoNumber(Auto):
    """The same for numbers: errors follow Student's t, and stacking adds to the mixed learner."""

    prior, level_start, slope_start = 1.0, 1.0, 0.3
    function_share, waves_always = 0.03, False
    slope_grid = 0.03 * 10.0 ** np.arange(4)

    def __init__(self, d, m):
        super().__init__(d, m)
        self.scales, self.row_unit = SettledScales(d), 0.0
        self.origin = self.total = self.squares = 0.0  # of the answers
        self.own_levels = [Belief([1.0]) for _ in range(m)]
        self.last = np.zeros((m, 2))  # residual, answer
        self.sums = np.zeros((d, 4))  # evidence of each feature's slopes,
        self.curve_sums = np.zeros((MOST, 4))  # and of each function's
        self.noise = dict.fromkeys(("own", "mixed", "shared", "live", "frozen"), 1.0)
        self.shared_errors = 0.0  # squared errors that its weights leave, by its noise
        self.task_noise = np.zeros((m, 2))  # logarithm, events
        self.rise = {"below": 0.0, "above": 0.0}
        below = np.array([erf(edge / np.sqrt(2)) for edge in EDGES])
        below[0], below[-1] = 0.0, 1.0
        self.errors = {name: 10 * np.diff(below) for name in ("live", "frozen")}

    def stacking(self):
        model = Belief([1e-9, *[0.1] * 10])
        model.w[[1, 4]] = 0.2
        return model

    def unit(self):
        return self.row_unit

    def variance(self):
        """Variance of the answers, the unit of all variances; 0 until two of them differ."""
        if not self.answers:
            return 0.0
        mean = self.total / self.answers
        V = self.squares / self.answers - mean**2
        return V if max(1e-250, 1e-12 * mean**2) < V else 0.0

    # Prediction

    def learners(self, i, x):
        own, mixed, hinge, shared = super().learners(i, x)
        level, left = self.own_levels[i].look(np.ones(1))
        own = own[0] + self.mixed.w[self.d] + level, own[1] + left
        return own, mixed, hinge, shared

    def contrasts(self, known, own, mixed, personal, shared, low_rank):
        """Inputs of a stacking model: what others say less what the mixed learner says."""
        size = np.sqrt(self.variance())
        return [size, known * (own - mixed), personal, 0.0, shared - mixed, *low_rank]

    def inputs(self, i, x):
        """What the mixed learner says, and the inputs of the live stacking model."""
        own, mixed, _, shared = (mean for mean, _ in self.learners(i, x))
        personal = mixed - self.mixed.look(self.row(x))[0]
        low_rank = (self.B.T @ x) * (self.B.T @ self.own[i].w)
        known = 1 - self.own_levels[i].S[0, 0]
        z = self.contrasts(known, own, mixed, personal, shared, low_rank)
        residual, answer = self.last[i]
        return mixed, np.array([*z, residual, answer - mixed if known > 0 else 0.0])

    def copied_inputs(self, i, x):
        old = self.by_copies(i, x)
        _, own_level, known = self.copies.get(("task", i), np.zeros(3))
        own = old["own"] + self.copies.get("intercepts", np.zeros(2))[1] + own_level
        mixed = old["mixed"] + old["personal"]
        z = self.contrasts(known, own, mixed, old["personal"], old["shared"], old["low_rank"])
        return mixed, np.array([*z, 0.0, 0.0])

    def settled(self, i, x):
        """Mean and variance without the moment, and the inputs."""
        mixed, z = self.inputs(i, x)
        mean, variance = self.live.look(z)
        return mixed + mean, variance / self.variance(), z

    def stacked(self, i, x, frozen):
        return self.settled_frozen(i, x) if frozen else self.settled(i, x)[:2]

    def settled_frozen(self, i, x):
        mixed, z = self.inputs(i, x)
        z[9:] = 0.0
        mean, variance = self.frozen.look(z)
        return mixed + mean, variance / self.variance()

    def moment_of(self, x):
        x = np.where([j in self.joint for j in range(self.d)], x, 0.0)
        mean, variance = self.moment_slopes.look(x)
        variance += self.moment.S[0, 0] + 0.01
        return mean + self.moment.w[0], 0.25 * self.noise["live"] * variance, x

    def said(self, i, x):
        if self.variance() == 0:
            return self.answers, 0.0, 0.0
        x = self.measure(x)
        return self.answers, self.settled(i, x)[0], self.moment_of(x)[0]

    def predict(self, i, x, offset=0.0):
        _, mean, moment = self.said(i, x)
        return self.origin + offset + mean + (self.tracking * moment if self.drift > 0.2 else 0.0)

    def predict_frozen(self, i, x, offset=0.0):
        if self.variance() == 0:
            return self.origin + offset
        mean, _ = self.settled_frozen(i, self.measure(x, frozen=True))
        return self.origin + offset + mean

    # Intervals

    def spread(self, i, x, frozen=False):
        """The size of the error to be expected."""
        if self.variance() == 0:
            return 0.0
        x, unseen = self.without_unseen(x)
        name, settled = ("frozen", self.settled_frozen) if frozen else ("live", self.settled)
        mean, variance, *_ = settled(i, x)
        return self.expected_error(name, i, mean, variance + self.mixed_variance(i, x) + unseen)

    def mixed_variance(self, i, x):
        return self.learners(i, x)[1][1]

    def expected_error(self, name, i, mean, variance):
        noise = self.noise[name] * self.noise_factor(i, self.standing(mean))
        return np.sqrt(self.variance() * (variance + noise))

    def noise_factor(self, i, standing):
        """Noise of a task's prediction by that of all."""
        rise = self.rise["above" if standing > 0 else "below"] * abs(standing)
        return np.exp(np.clip(self.task_noise[i, 0] + rise, -50, 50))

    def standing(self, mean):
        """A prediction in standard deviations of the answers from their mean, within 3."""
        mean = mean - self.total / self.answers
        return np.clip(mean / np.sqrt(self.variance()), -3, 3)

    def reach(self, level, frozen=False):
        """Quantile of past errors, in units of the expected one."""
        errors = self.errors["frozen" if frozen else "live"]
        reached = np.append(0.0, np.cumsum(errors))
        return np.interp(level * reached[-1], reached, EDGES)

    def remember(self, name, error, h):
        """Add an error to a histogram; return the share of its errors that are larger."""
        errors = self.errors[name]
        errors *= {"live": 0.993, "frozen": 0.999}[name]
        at = np.clip(np.searchsorted(EDGES, error, side="right") - 1, 0, 127)
        errors[at] += h
        return (errors[at + 1 :].sum() + errors[at] / 2) / errors.sum()

    # Learning

    def learn_one(self, i, x, y, h, then, offset):
        self.measure(x)
        x = np.nan_to_num(x)
        there, x = x != 0, self.scales.count(x)
        for j, ratio, moved in self.scales.changes:
            self.rebase(j, ratio, self.row_unit * moved)
        self.choose(there if x.any() else np.zeros(self.d))
        if self.variance() > 0:
            self.learn(i, x * self.unit(), y - offset - self.origin, h, then)
        self.tally(x, h)
        self.functions.count(self.stored)
        self.choose_functions()
        self.count_answer(y - offset, h)
        self.settle_unit()

    def count_answer(self, y, h):
        if not self.answers:
            self.origin = y
        self.answers += h
        self.total += h * (y - self.origin)
        self.squares += h * (y - self.origin) ** 2

    def settle_unit(self):
        """Replace the unit of rows where it is far off."""
        unit = super().unit()
        if not self.count or alike(unit, self.row_unit):
            return
        for j in range(self.d if self.row_unit else 0):
            self.rebase(j, self.row_unit / unit, 0.0)
        self.row_unit = unit

    def learn(self, i, x, y, h, then=None):
        mean, variance, z = self.settled(i, x)
        unknown = variance + self.mixed_variance(i, x)
        if self.answers > 50:
            self.learn_frozen(i, x, y, h)
        shift = self.learn_moment(x, y, h, (mean, variance), then)
        self.renew_copies(i, x)
        self.learn_weights(i, x, y, h)
        V, error = self.variance(), y - mean
        step, self.noise["live"] = self.student("live", error - shift, variance, h)
        expected = self.expected_error("live", i, mean, unknown)
        self.remember("live", abs(error - shift) / expected, h)
        self.last[i] = error, y
        self.live.step(z, *step / V, range(11))
        if self.answers >= self.due:
            self.estimate()

    def student(self, name, error, variance, h, size=1.0):
        """A step (a, b) on an error, whose variance is in units V, and the noise after it."""
        noise, e2 = self.noise[name], error**2 / self.variance()
        total = variance + noise
        freedom = STACKING_FREEDOM if name in ("live", "frozen") else FREEDOM
        trust = (freedom + 1) / (freedom + e2 / total)
        b = 1 / (variance + max(noise / (trust * h), 1e-10 * size))
        pace = min(0.5, h * max(2 / (self.answers + 10), 1e-3))
        noise *= 1 + pace * (trust * e2 / total - 1)
        return np.array([b * error, b]), max(1e-10, noise)

    def estimate(self):
        super().estimate()
        self.estimate_noise()

    def shared_size(self):
        """Square sum of the shared learner's weights that have covariances, by their priors."""
        return np.sum(self.shared.w[self.joint] ** 2 / self.shared.prior[self.joint])

    def estimate_noise(self):
        """Noise of the shared learner by its marginal likelihood; past events count by it, too."""
        V, old, joint = self.variance(), self.noise["shared"], np.ix_(self.joint, self.joint)
        prior = np.diag(1 / self.shared.prior[self.joint])
        precision = np.linalg.inv(self.shared.S[joint])
        known = len(prior) - np.trace(prior @ self.shared.S[joint])
        noise = (2 + old * max(0, self.shared_errors) / V) / (2 + max(0, self.answers - known))
        noise = min(max(min(1, noise), old / 1e4), old * 1e4)
        if self.closed or alike(noise, old) or exceeds(self.shared.S[joint], old / noise):
            return
        w, ratio, self.noise["shared"] = self.shared.w[self.joint], old / noise, noise
        squares = self.shared_errors + self.shared_size() + w @ precision @ w  # of answers
        S = np.linalg.inv(prior + ratio * (precision - prior))
        self.shared.w[self.joint] = ratio * S @ precision @ w
        self.shared.S[joint], w = S, self.shared.w[self.joint]
        left = ratio * squares - w @ np.linalg.solve(S, w)
        self.shared_errors = left - self.shared_size()

    def loss(self, name, error, variance):
        """Negative log-likelihood of an error, but for a constant."""
        total = self.variance() * (variance + self.noise[name])
        return 0.5 * (FREEDOM + 1) * np.log1p(error**2 / (FREEDOM * total))

    def learn_frozen(self, i, x, y, h):
        V, (mixed, z) = self.variance(), self.copied_inputs(i, x)
        mean, variance = self.frozen.look(z)
        mean, variance = mixed + mean, variance / V
        error = y - mean
        self.learn_noise(i, x, error, mean, variance, h)
        step, self.noise["frozen"] = self.student("frozen", error, variance, h)
        self.frozen.step(z, *step / V, range(11))

    def learn_noise(self, i, x, error, mean, variance, h):
        standing, prior = self.standing(mean), self.level_variance
        noise = self.noise["frozen"] * self.noise_factor(i, standing)
        known = self.copies.get(("task", i), np.zeros(3))[2]
        level = 1 / (1 / prior + known / (1 - known))
        level_now = self.levels[i].look(prior)[1]
        variance += self.mixed_variance(i, x) + max(0.0, level - level_now) + noise
        relative = abs(error) / np.sqrt(self.variance() * variance)
        step = h * (-np.log(self.remember("frozen", relative, h)) - 1) * noise / variance
        self.task_noise[i, 1] += h
        self.task_noise[i, 0] += step / (10 + self.task_noise[i, 1] / 2)
        step /= 10 + 0.05 * self.answers
        self.rise["above" if standing > 0 else "below"] += step * abs(standing)

    def learn_moment(self, x, y, h, settled, then):
        moment, moment_variance, x = self.moment_of(x)
        mean, variance = settled
        late = then is not None and self.answers - then[0] > h
        before, added = then[1:] if late else (mean, moment)
        gain = self.loss("live", y - before, variance)
        gain -= self.loss("live", y - before - added, variance)
        better = self.tracking * np.exp(np.clip(h * gain, -500, 500))
        w = better / (better + 1 - self.tracking)
        self.tracking = w + 0.01 * (0.2 - w)
        self.drift += 3e-3 * (self.tracking - self.drift)
        step, _ = self.student("live", y - mean - moment, moment_variance, h)
        step *= 0.25 * self.noise["live"]
        self.moment.S = self.moment.S + 0.01 * h
        self.moment.step(np.ones(1), *step)
        self.moment_slopes.step(x, *step)
        self.moment_slopes.forget(x, 0.01 * h)
        return self.tracking * moment if self.drift > 0.2 else 0.0

    def learn_weights(self, i, x, y, h):
        """A step of each learner, and evidence about the variances of levels and slopes."""
        own, mixed, _, shared = self.learners(i, x)
        V, one, size, priors = self.variance(), self.row(x), 1 + x @ x, self.slope_priors()
        without = self.mixed.look(one)[0]
        gain = self.loss("mixed", y - without, mixed[1])
        gain -= self.loss("mixed", y - mixed[0], mixed[1])
        self.evidence[i] += h * gain
        self.add_level_evidence(i, y, h, mixed)
        steps = {}
        for name, (mean, variance) in {"own": own, "mixed": mixed, "shared": shared}.items():
            steps[name], noise = self.student(name, y - mean, variance, h, size)
            if name != "shared":
                self.noise[name] = noise
        self.own[i].step(x, *steps["own"])
        self.own_levels[i].step(np.ones(1), *steps["own"])
        before = self.shared_size()
        self.shared.step(one, *steps["shared"], self.joint)
        self.shared_errors += steps["shared"][0] * (y - shared[0]) - (self.shared_size() - before)
        self.mixed.step(one, *steps["mixed"], self.joint)
        a, b = steps["mixed"]
        self.score(a / np.sqrt(b * V))
        self.levels[i].step(1.0, *steps["mixed"], self.level_variance)
        self.step_curves(i, one[self.d + 1 :], steps["mixed"])
        for j in np.flatnonzero(x):
            weight = self.slopes[i][j]
            self.sums[j] -= evidence(self.slope_grid, [weight], V)
            weight.step(x[j], *steps["mixed"], priors[j])
            self.sums[j] += evidence(self.slope_grid, [weight], V)

    def evidence_of(self, j):
        return self.sums[j].copy()

    def step_curves(self, i, functions, step):
        for f in np.flatnonzero(functions):
            weight, V = self.curves[i][f], self.variance()
            self.curve_sums[f] -= evidence(self.curve_grid, [weight], V)
            weight.step(functions[f], *step, self.curve_variances[f])
            self.curve_sums[f] += evidence(self.curve_grid, [weight], V)

    def forget_curves(self, f):
        super().forget_curves(f)
        self.curve_sums[f] = 0.0

    def curve_evidence(self, f):
        return self.curve_sums[f]

    def common_evidence(self, f):
        return super().common_evidence(f, self.variance())

    def log_likelihood(self, y, mean, variance, offset):
        scale = variance + self.noise["mixed"]
        return -self.loss("mixed", y - mean, variance) - 0.5 * np.log(scale)

    def task_copy(self, i):
        level = self.levels[i].look(self.level_variance)[0]
        return level, self.own_levels[i].w[0], 1 - self.own_levels[i].S[0, 0]

    # Units

    def rebase(self, j, ratio, shift):
        """Express the weights of a feature in a new unit and around a new centre."""
        if not abs(shift) < 10:
            shift = ratio = 0.0
        if not 1 / 3 < ratio < 3:
            ratio = 0.0
        for shared in (self.shared, self.mixed):
            shared.recentre(j, shift, self.joint)
            shared.rescale(j, ratio)
        if j in self.copies:
            self.copies["intercepts"] += shift * self.copies[j][1:]
            self.copies[j] *= ratio
        for i in range(self.m):
            if self.slopes[i][j].precision != 0:
                self.rebase_task(i, j, ratio, shift)

    def rebase_task(self, i, j, ratio, shift):
        slope, own, level = self.slopes[i][j], self.own[i], self.own_levels[i]
        self.levels[i].shift(shift, *slope.look(self.slope_priors()[j]), self.level_variance)
        slope.rescale(ratio)
        level.w = level.w + shift * own.w[j]
        level.S = np.minimum(1.0, level.S + shift**2 * own.S[j, j])
        own.rescale(j, ratio)
        self.copies["task", i][:2] += shift * self.copies[i, j][::-1]
        self.copies[i, j] *= ratio


EDGES = 2.0 ** (np.arange(129) / 8 - 8)  # of errors, in units of the expected one


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
