"""Many classes from learners of two, one event at a time, as the description reads."""

import numpy as np

import romco
from tests.reference.softmax import ConditionalLogit


class Apart:
    """A learner of two classes."""

    def __init__(self, inner, d, m):
        self.learner = romco.learner(inner, d, m)
        if inner == "romco-auto":
            self.learner.drop_functions()

    def predict(self, i, x, offset=None):
        known = None if offset is None else np.array([offset])
        round = romco.Round(np.array([i]), x[None], np.empty(0), None, known)
        return self.learner.predict(round)[0]

    def update(self, task, xs, ys, weights, offsets=None):
        weight = None if weights[0] == 1.0 else np.array(weights)
        known = None if offsets is None else np.array(offsets)
        self.learner.update(romco.Round(np.array(task), xs, np.array(ys), weight, known))


class Classes:
    def __init__(self, d, m, inner, pairs, classes):
        self.pairs, self.classes = pairs, classes
        self.learners = [Apart(inner, d, m) for _ in pairs]
        self.log_a, self.curvature = np.zeros(len(pairs)), np.ones(len(pairs))
        self.stacking = ConditionalLogit([1.0], [0.3], 1e-3)

    def margins(self, i, x, offsets=None):
        if offsets is None:
            return np.array([learner.predict(i, x) for learner in self.learners])
        known = zip(self.learners, self.known(offsets), strict=True)
        return np.array([learner.predict(i, x, offset) for learner, offset in known])

    def known(self, offsets):
        """Log-odds of each pair, from those (K,) of classes; -1 is all others."""
        if offsets is None:
            return np.zeros(len(self.pairs))

        def side(k, other):
            rest = [o for j, o in enumerate(offsets) if j != other]
            return np.log(np.exp(rest).sum()) if k < 0 else offsets[k]

        return np.array([side(high, low) - side(low, high) for low, high in self.pairs])

    def asked(self, z):
        """The pairs that matter: of the class that stays when all meet, and of those near it."""
        if any(low < 0 for low, _ in self.pairs):
            return set(self.pairs)
        odds = {(high, low): s for (low, high), s in zip(self.pairs, z, strict=True)}
        odds |= {(low, high): -s for (high, low), s in list(odds.items())}
        best = 0
        for k in range(1, self.classes):
            best = k if odds[k, best] > 0 else best
        near = {k for k in range(self.classes) if k != best and odds[best, k] < 4}
        return {pair for pair in self.pairs if best in pair or near.issuperset(pair)}

    def predict(self, i, x, offsets=None):
        scores = self.scores(self.margins(i, x, offsets), offsets)
        if self.classes == 2:
            return scores
        base = np.zeros(self.classes) if offsets is None else offsets
        return self.stacking.predict(scores[None] - base, base)

    def scores(self, margins, offsets=None):
        """p_k proportional to 1 / (sum of 1 / r_kj, less one less than their number)."""
        known = self.known(offsets)
        z = known + np.exp(self.log_a) * (margins - known)
        asked = self.asked(z) if offsets is None else set(self.pairs)
        likely = 1 / (1 + np.exp(-z))
        inverse = np.zeros(self.classes)
        times = np.zeros(self.classes)
        for (low, high), r in zip(self.pairs, likely, strict=True):
            for k, share in ((low, 1 - r), (high, r)):
                if k >= 0 and (low, high) in asked:
                    inverse[k] += 1 / share
                    times[k] += 1
        p = 1 / (inverse - (times - 1))
        return np.log(p / p.sum())

    def update(self, i, x, y, h=1.0, offsets=None):
        margins, known = self.margins(i, x, offsets), self.known(offsets)
        if h and self.classes > 2:
            base = np.zeros(self.classes) if offsets is None else offsets
            self.stacking.update(self.scores(margins, offsets)[None] - base, int(y), h, base)
        for n, ((low, high), margin) in enumerate(zip(self.pairs, margins, strict=True)):
            side = 1 if y == high else -1 if y == low else -1 if low < 0 else 1 if high < 0 else 0
            if side and h:
                self.rescale(n, margin - known[n], known[n], side, h)
                more = {} if offsets is None else {"offsets": [known[n]]}
                self.learners[n].update([i], x[None], [float(side)], [h], **more)

    def rescale(self, n, learned, known, side, h):
        z = side * np.exp(self.log_a[n]) * learned
        miss = 1 / (1 + np.exp(z + side * known))
        self.curvature[n] = max(1, 0.999 * self.curvature[n] + h * z * z * miss * (1 - miss))
        self.log_a[n] += np.clip(h * z * miss / self.curvature[n], -0.5, 0.5)
