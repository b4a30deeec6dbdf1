"""romco-auto as its description reads: dense NumPy, full matrices even for diagonal beliefs."""

import numpy as np

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


class Auto:
    def __init__(self, d, m):
        self.d, self.m = d, m
        one = np.ones(d)
        self.global_margin, self.global_logistic = Belief(one), Belief([10.0] * d + [1.0])
        self.joint, self.closed = {d}, False  # weights with covariances; the last is the intercept
        # Alone: the features of each task by itself, an intercept in common, one of its own.
        self.alone_margin = [Belief(one) for _ in range(m)]
        self.alone_logistic = [Belief(one) for _ in range(m)]
        self.common, self.own = Belief([1.0]), [Belief([1.0]) for _ in range(m)]
        self.together, self.apart = Belief(one), [Belief(0.3 * one) for _ in range(m)]
        self.related = Belief([1.0] * 9 + [0.1])
        self.like_all, self.on_its_own = Belief([1.0] * 2), Belief([1.0] * 2)
        self.related.w[[0, 2, 4]] = 1.0, 1.0, 2.0
        self.like_all.w[0] = self.on_its_own.w[0] = 3.0
        for model in (self.related, self.like_all, self.on_its_own):
            w = model.w  # how much all of them are worth together is open
            model.S = model.S + 5.0 * np.outer(w, w) / (w @ w)
            model.prior = np.full(len(w), 3.0)  # up to which variance comes back
        self.levels = [Belief([1.0]) for _ in range(m)]
        self.evidence, self.belief = np.zeros((m, 3)), np.zeros((m, 3))
        self.prior = np.exp([0.0, -2.0, -2.0]) / np.exp([0.0, -2.0, -2.0]).sum()
        self.B, self.slice, self.drawing = np.zeros((d, 4)), 4096, None
        self.log_squares, self.count, self.next = 0.0, 0, 32
        self.scales = Scales(d)
        self.seen, self.turned, self.turns = np.zeros((3, m))
        self.all_seen, self.all_turned, self.all_turns = 0, 0.0, 0
        self.mean_margin, self.mean_wrong = 0.0, 0.0
        self.forgets, self.level = Belief(one), Belief([1.0])
        self.tracking, self.drift, self.newness = 0.2, 0.0, 3.0
        self.factor, self.curvature = 0.0, 0.0  # of newcomers: its logarithm
        self.lateness, self.unanswered = 0, 0

    def unit(self):
        return np.exp(-0.5 * self.log_squares / self.count) if self.count else 0.0

    def tally(self, x, h):
        if x.any():
            self.log_squares += h * np.log(x @ x)
            self.count += h

    def opinions(self, i, x):
        p = [
            self.global_margin.look(x),
            self.look(self.global_parts(x)),
            self.alone_margin[i].look(x),
            self.look(self.alone_parts(i, x)),
            self.look(self.both_parts(i, x)),
        ]
        z = [p[0][0], moderate(*p[1]), p[2][0], moderate(*p[3]), p[4][0]]
        z = [*z, *(self.B.T @ x) * (self.B.T @ self.alone_logistic[i].w), self.levels[i].w[0]]
        return p, np.array(z)

    def look(self, parts):
        return tuple(np.sum([belief.look(x) for belief, x in parts], axis=0))

    def global_parts(self, x):
        return ((self.global_logistic, np.append(x, 1.0)),)

    def forgetting_parts(self, x):
        return (self.forgets, x), (self.level, np.ones(1))

    def alone_parts(self, i, x):
        one = np.ones(1)
        return (self.alone_logistic[i], x), (self.common, one), (self.own[i], one)

    def both_parts(self, i, x):
        return (self.together, x), (self.apart[i], x)

    def verdicts(self, z):
        return self.related.look(z), self.like_all.look(z[:2]), self.on_its_own.look(z[2:4])

    def chances(self, i, new=0.0):
        kinds = self.prior + self.belief.sum(axis=0)
        share = self.share(i, new) if new else 0.0
        kinds = (1 - share) * kinds / kinds.sum() + share * np.array([0, 1, 0])
        chance = kinds * np.exp(self.evidence[i])
        return chance / chance.sum()

    def share(self, i, new):
        return new / (self.seen[i] + new)

    def predict(self, i, x, offset=0.0):
        _, margin, forgets = self.said(i, x, offset)
        self.unanswered += 1
        late = self.unanswered > 100 or self.lateness > 100
        w = self.tracking if self.drift > 0.2 and not late else 0.0
        yes, no = ((1 - w) * sigmoid(s * margin) + w * sigmoid(s * forgets) for s in (1, -1))
        return np.log(yes / no)

    def mixed(self, z, chances, offset):
        said = np.array([moderate(*verdict) + offset for verdict in self.verdicts(z)])
        yes, no = (chances @ sigmoid(sign * said) for sign in (1, -1))
        return np.log(yes / no)

    def said(self, i, x, offset=0.0):
        """What is kept of a prediction until its answer comes."""
        x = self.scales.look(x) * self.unit()
        z = self.opinions(i, x)[1]
        forgets = moderate(*self.look(self.forgetting_parts(x))) + offset
        return self.count, self.settled(i, z, offset), forgets

    def settled(self, i, z, offset):
        """Of newcomers less is said."""
        margin = self.mixed(z, self.chances(i, new=self.newness), offset) - offset
        return offset + margin * np.exp(self.share(i, self.newness) * self.factor)

    def update(self, task, xs, ys, weights=None, said=None, offsets=None):
        weights = np.ones(len(ys)) if weights is None else weights
        offsets = np.zeros(len(ys)) if offsets is None else offsets
        said = [None] * len(ys) if said is None else said
        events = zip(task, xs, ys, weights, said, offsets, strict=True)
        for i, x, y, h, then, offset in events:
            if h == 0:
                continue
            first = self.count == 0
            there, x = x != 0, self.scales.count(x)
            self.choose(there if x.any() else np.zeros(self.d))
            if first:
                self.tally(x, h)
            self.learn(i, x * self.unit(), y, h, then, offset)
            if not first:
                self.tally(x, h)
        if self.count >= self.next:
            if self.drawing is None:
                self.next = self.count
                self.drawing = directions(self.own_vectors, self.B)
                next(self.drawing)
            B = advance(self.drawing, self.slice * len(ys))
            if B is not None:
                self.B, self.drawing = B, None
                self.next = max(1.25 * self.count, 41 * self.count - 40 * self.next)

    def own_vectors(self):
        return np.array([belief.w for belief in self.alone_logistic]).T

    def notice(self, xs):
        """Rows without a label are counted, as those with one are."""
        for x in xs:
            self.tally(self.scales.count(x), 1)

    def choose(self, there):
        """Covariances are kept of the features that are frequent, unless these are too many."""
        scales = self.scales.measured.scales if hasattr(self.scales, "measured") else self.scales
        count, events = scales.c, int(scales.events)
        if events & (events - 1) == 0:
            self.leave(j for j in self.joint - {self.d} if count[j] < 0.05 * events)
        for j in np.flatnonzero(there):
            if j in self.joint or self.closed or count[j] < 0.1 * events:
                continue
            if len(self.joint) > min(self.d, FREQUENT):
                self.closed = events >= 256
                if self.closed:
                    self.leave(self.joint - {self.d})
                    for k in range(self.d):  # from now on the prior variance is 1
                        S = self.global_logistic.S
                        S[k, k] = 1 / (1 / S[k, k] - 1 / 10 + 1)
                break
            self.joint.add(int(j))

    def leave(self, features):
        for j in list(features):
            self.joint.remove(j)
            self.global_logistic.part(j)

    def learn(self, i, x, y, h, then=None, offset=0.0):
        hinge = np.tanh(0.5 * offset)
        p, z = self.opinions(i, x)
        forgets = self.look(self.forgetting_parts(x))
        margin = self.mixed(z, self.chances(i), offset)
        if then is None or self.count - then[0] <= h:
            then = self.count, margin, moderate(*forgets) + offset
        self.weigh(y, h, *then)
        self.learn_factor(i, y, h, z, offset)
        self.learn_newness(i, y, h, z, offset)
        self.global_margin.step(x, *arow(y, *p[0], r=0.3 / h, offset=hinge))
        for belief, part in self.global_parts(x):
            belief.step(part, *logistic(y, *p[1], h, offset), self.joint)
        self.alone_margin[i].step(x, *arow(y, *p[2], r=0.3 / h, offset=hinge))
        for belief, part in self.alone_parts(i, x):
            belief.step(part, *logistic(y, *p[3], h, offset))
        for belief, part in self.both_parts(i, x):
            belief.step(part, *arow(y, *p[4], r=1.0 / h, offset=hinge))
        for belief, part in self.forgetting_parts(x):
            belief.step(part, *logistic(y, *forgets, h, offset))
            belief.forget(part, 0.01 * h)
        self.learn_stacking(i, y, h, z, offset)
        (level,), ((v,),) = self.levels[i].w, self.levels[i].S
        self.levels[i].step(np.ones(1), *logistic(y, margin + level, v, h))
        self.watch(i, y, h, margin - offset, offset)

    def learn_factor(self, i, y, h, z, offset):
        """A Newton step by the logarithm of the newcomers' factor."""
        share = self.share(i, self.newness)
        if share < 0.02:
            return
        said = self.settled(i, z, offset)
        miss, slope = sigmoid(-y * said), share * (said - offset)
        self.curvature = max(1.0, self.curvature + h * slope**2 * miss * (1 - miss))
        step = np.clip(h * y * slope * miss / self.curvature, -0.5, 0.5)
        self.factor = np.clip(self.factor + step, -5.0, 0.0)

    def learn_newness(self, i, y, h, z, offset=0.0):
        """By the derivative of log P(y) by log newness, found from differences."""
        if self.seen[i] == 0 or self.share(i, self.newness) < 0.02:
            return
        step = 1e-5
        more, less = (
            np.log(sigmoid(y * self.mixed(z, self.chances(i, new=new), offset)))
            for new in (self.newness * np.exp(step), self.newness * np.exp(-step))
        )
        change = 0.5 * h * (more - less) / (2 * step)
        self.newness = np.clip(self.newness * np.exp(change), 3 * np.exp(-3), 3 * np.exp(3))

    def weigh(self, y, h, count, settled, forgets):
        """Bayes' rule with a fixed share, by what was said when the event was predicted."""
        better = self.tracking * sigmoid(y * forgets) ** h
        w = better / (better + (1 - self.tracking) * sigmoid(y * settled) ** h)
        self.tracking = w + 0.01 * (0.2 - w)
        self.drift += 3e-3 * (self.tracking - self.drift)
        self.lateness, self.unanswered = self.count - count, 0

    def watch(self, i, y, h, margin, offset):
        """Page's test of whether the opposite of what is said explains the answers better.

        The opposite of what is said beside the offset.
        """

        def gain(opposite):
            return np.log(sigmoid(y * (offset + opposite)) / sigmoid(y * (offset + margin)))

        told = np.clip(gain(-margin), -3, 3)
        self.seen[i] += h
        self.all_seen += h
        if self.seen[i] > 20:
            self.turned[i] = max(0, self.turned[i] + h * (told - max(0, self.mean_wrong)))
        if self.all_seen > 200:
            turn = np.clip(gain(2 * self.mean_margin - margin), -3, 3)
            self.all_turned = max(0, self.all_turned + h * turn)
        self.mean_wrong += 0.02 * (told - self.mean_wrong)
        self.mean_margin += 0.02 * (margin - self.mean_margin)
        if self.all_turned > 25:
            self.begin_all_anew()
        elif self.turned[i] > 14:
            self.begin_anew(i)
            self.turns[i] += 1

    def begin_anew(self, i):
        one = np.ones(self.d)
        self.alone_margin[i], self.alone_logistic[i] = Belief(one), Belief(one)
        self.own[i], self.apart[i] = Belief([1.0]), Belief(0.3 * one)
        self.levels[i] = Belief([1.0])
        self.evidence[i], self.seen[i], self.turned[i] = 0, 0, 0

    def begin_all_anew(self):
        one = np.ones(self.d)
        for i in range(self.m):
            self.begin_anew(i)
        self.global_margin, self.global_logistic = Belief(one), Belief([10.0] * self.d + [1.0])
        self.common, self.together = Belief([1.0]), Belief(one)
        self.B, self.drawing, self.next = np.zeros((self.d, 4)), None, self.count + 32
        self.all_seen = self.all_turned = self.mean_margin = self.mean_wrong = 0
        self.forgets, self.level = Belief(one), Belief([1.0])
        self.tracking, self.drift, self.newness = 0.2, 0.0, 3.0
        self.factor, self.curvature, self.lateness = 0.0, 0.0, 0
        self.all_turns += 1

    def learn_stacking(self, i, y, h, z, offset):
        said = self.verdicts(z)
        models = (self.related, z), (self.like_all, z[:2]), (self.on_its_own, z[2:4])
        shares = h * np.array([self.chances(i)[0], 1, 1])
        for (model, inputs), verdict, share in zip(models, said, shares, strict=True):
            model.step(inputs, *logistic(y, *verdict, share, offset), range(len(inputs)))
            model.renew(3e-5 * h)
        log_p = [np.log(sigmoid(y * (moderate(*verdict) + offset))) for verdict in said]
        self.evidence[i] += h * np.array(log_p)
        self.evidence[i] = np.maximum(self.evidence[i] - self.evidence[i].max(), -20)
        self.belief[i] = self.chances(i)


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
