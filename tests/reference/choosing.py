"""A chooser in NumPy: every posterior is recomputed from all rewards, and no index is hurried."""

import numpy as np
from scipy.linalg import block_diag


def logistic(t):
    return 1.0 / (1.0 + np.exp(-t))


def moments_by_quadrature(mean, variance, reward, honest):
    """Mean and variance of a score after 0 or 1, which is the opposite unless honest."""
    nodes, weights = np.polynomial.hermite.hermgauss(32)
    t = mean + np.sqrt(2 * variance) * nodes
    likely = logistic((2 * reward - 1) * t)
    density = weights * (honest * likely + (1.0 - honest) * (1.0 - likely))
    after = np.average(t, weights=density)
    return after, np.average((t - after) ** 2, weights=density)


def probabilities(index, greed, floor):
    """Inverse gap weighting, and a part that is uniform."""
    n, best = len(index), index == index.max()
    p = 1.0 / (n + greed * (index.max() - index))
    p[best] = (1.0 - p[~best].sum()) / best.sum()
    return (1.0 - floor) * p + floor / n


class Gaussian:
    """Precision and precision times mean; a reward is a pseudo-observation of the score."""

    def __init__(self, n):
        self.variance = np.ones(n)  # prior
        self.likelihood = np.zeros((n, n))
        self.weighted = np.zeros(n)

    @property
    def covariance(self):
        return np.linalg.inv(np.diag(1.0 / self.variance) + self.likelihood)

    @property
    def mean(self):
        return self.covariance @ self.weighted

    def moments(self, row):
        return row @ self.mean, row @ self.covariance @ row

    def learn(self, row, step, precision):
        """Add an observation such that the mean moves by step * covariance @ row."""
        before = self.covariance
        mean = before @ self.weighted + step * before @ row
        self.likelihood += precision * np.outer(row, row)
        self.weighted = (np.diag(1.0 / self.variance) + self.likelihood) @ mean

    def restate(self, change, ones, rise):
        """Old rows are change @ row; rewards are lower by ``rise``; one of ``ones`` is 1 a row."""
        weighted = self.weighted - rise * self.likelihood[:, ones].sum(axis=1)
        inverse = np.linalg.inv(change)
        self.likelihood = inverse @ self.likelihood @ inverse.T
        self.weighted = inverse @ weighted


class Statistics:
    """All rows that were seen, of a fixed number of columns; column 0 is 1."""

    def __init__(self, n):
        self.rows = []
        self.origin, self.unit = np.zeros(n + 1), np.ones(n + 1)
        self.norm = 0.0

    def see(self, row):
        for j, value in enumerate(row, start=1):
            if value and not any(old[j - 1] for old in self.rows):
                self.unit[j] = abs(value)
        self.rows.append(row)

    def standardise(self, row):
        raw = np.concatenate([[0.0], row])
        x = np.clip((raw - self.origin) / self.unit, -5.0, 5.0)
        x[0] = 1.0
        return x

    def renew(self):
        """Take new units; return factor and shift of the old ones."""
        origin, unit = np.zeros_like(self.origin), np.ones_like(self.unit)
        self.norm = 0.0
        for j, column in enumerate(np.array(self.rows).T, start=1):
            values = column[column != 0]
            if len(values) > len(column) / 2:
                origin[j] = column.mean()
            spread = column.std() if origin[j] else 0.0
            if spread == 0.0 and len(values):
                spread = np.sqrt(np.mean(values**2))
            unit[j] = spread or 1.0
            self.norm += np.mean(((column - origin[j]) / unit[j]) ** 2)
        factor, shift = unit / self.unit, (origin - self.origin) / self.unit
        self.origin, self.unit = origin, unit
        return factor, shift


class ReferenceChooser:
    """d features of the context, e of each action, m persons, K actions, all known."""

    def __init__(self, numeric, d, e, m, K, floor=0.0):
        self.numeric, self.floor = numeric, floor
        self.context, self.features = Statistics(d), Statistics(e)
        self.pairs = [(j, k) for j in range(e + 1) for k in range(d + 1)] if e else []
        self.shared = np.arange(len(self.pairs))
        self.own = len(self.pairs) + np.arange(K * (d + 1)).reshape(K, d + 1)
        self.weights = Gaussian(len(self.pairs) + K * (d + 1))  # shared, then each action's own
        self.level_variance = 0.3
        self.level_precision, self.level_weighted = np.zeros((m, K)), np.zeros((m, K))
        self.trust, self.evidence = 3.0, np.zeros(m)
        self.rewarded = np.zeros((m, K), dtype=bool)
        self.rewards, self.centre, self.noise = [], 0.0, 0.0

    def level(self, task, action):
        precision = 1.0 / self.level_variance + self.level_precision[task, action]
        return self.level_weighted[task, action] / precision, 1.0 / precision

    def products(self, x, z):
        return np.array([z[j] * x[k] for j, k in self.pairs])

    def row(self, x, action, z):
        row = np.zeros(len(self.weights.weighted))
        row[self.shared] = self.products(x, z)
        row[self.own[action]] = x
        return row

    def moments(self, x, task, action, z):
        weights = self.weights.moments(self.row(x, action, z))
        return np.array([weights, self.level(task, action)]).T

    def choose(self, row, task, features):
        """Probabilities of all actions, each with its features."""
        self.context.see(row)
        for one in features:
            self.features.see(one)
        x = self.context.standardise(row)
        sigma = np.sqrt(self.noise / len(self.rewards)) if self.numeric and self.rewards else 1.0
        index = []
        for action, one in enumerate(features):
            means, variances = self.moments(x, task, action, self.features.standardise(one))
            doubt = variances @ [1.0, 0.3]
            index.append(means.sum() + 1.5 * sigma * np.sqrt(doubt))
        greed = 500.0 * np.sqrt(len(self.rewards))
        if self.numeric:
            greed = greed / (2 * sigma) if sigma > 0 else 0.0
        index = np.array(index) if self.numeric else logistic(np.array(index))
        return probabilities(index, greed, self.floor)

    def learn(self, row, task, action, features, reward):
        if len(self.rewards) in (0, *(2**k for k in range(30))):
            self.renew(reward)
        x, z = self.context.standardise(row), self.features.standardise(features)
        means, variances = self.moments(x, task, action, z)
        mean, variance = means.sum(), variances.sum()
        if self.numeric:
            precision = 1.0
            step = (reward - self.centre - mean) / (1.0 + variance)
            self.noise += step**2 * (1.0 + variance)
        else:
            honest = max(logistic(self.trust + self.evidence[task]), 0.5)
            spread = variances[0] + self.level_variance
            evidence = (2 * reward - 1) * means[0] / np.sqrt(1 + np.pi / 8 * spread)
            self.evidence[task] = np.clip(self.evidence[task] + evidence, -6, 6)
            step, precision = self.by_quadrature(mean, variance, reward, honest)
        row = self.row(x, action, z)
        added = 0.0
        if precision > 0.0:
            added = 1.0 / (1.0 / precision + variance - variances[0])
        self.weights.learn(row, step, added)
        if not self.numeric:
            step, precision = self.by_quadrature(mean, variance, reward, 1.0)
        level, spread = self.level(task, action)
        level += step * spread
        self.level_precision[task, action] += 1.0 / (1.0 / precision + variance - spread)
        precision = 1.0 / self.level_variance + self.level_precision[task, action]
        self.level_weighted[task, action] = level * precision
        self.rewarded[task, action] = True
        self.rewards.append(reward)

    def by_quadrature(self, mean, variance, reward, honest):
        """How far the mean moves per variance, and the precision that a reward adds."""
        after, left = moments_by_quadrature(mean, variance, reward, honest)
        return (after - mean) / variance, max(1.0 / left - 1.0 / variance, 0.0)

    def estimate_trust(self):
        """Log-odds that a new person is honest: 10 people at first, and those who had rewards."""
        evidence = self.evidence[self.rewarded.any(axis=1)]
        self.trust = 3.0
        for _ in range(20):
            total = logistic(self.trust + evidence).sum() + 10 * logistic(3.0)
            self.trust = np.log(total / (len(evidence) + 10 - total))

    def estimate_variances(self, sigma2):
        """Prior variances of levels, own and shared weights: squares over degrees of freedom."""
        learned = self.own[self.rewarded.any(axis=0)]
        parts = learned[:, 0], learned[:, 1:].ravel(), self.shared
        everywhere = self.own[:, 0], self.own[:, 1:].ravel(), self.shared
        if not self.pairs:  # other variances are fixed
            parts, everywhere = parts[:1], everywhere[:1]
        elif not len(learned):
            parts = (*parts[:2], np.arange(0))
        first = [self.weights.variance[part[0]] for part in everywhere]
        for _ in range(5 if sigma2 > 0 else 0):
            mean, variance = self.weights.mean, np.diag(self.weights.covariance)
            found = []
            for part, start in zip(parts, first, strict=True):
                freedom = np.sum(1.0 - variance[part] / self.weights.variance[part])
                estimate = (np.sum(mean[part] ** 2) / sigma2 + 10 * start) / (freedom + 10)
                found.append(min(max(estimate, 0.03 * start), start))
            for part, one in zip(everywhere, found, strict=True):
                self.weights.variance[part] = one

    def renew(self, reward):
        centre = 0.0
        if self.numeric:
            means, learned = self.weights.mean, self.own[self.rewarded.any(axis=0)]
            shared = means[0] if self.pairs else 0.0
            centre = (
                self.centre + shared + np.mean(means[learned[:, 0]]) if self.rewards else reward
            )
        sigma2 = self.noise / len(self.rewards) if self.numeric and self.rewards else 1.0
        self.estimate_trust()
        trusted = self.rewarded & (self.trust + self.evidence >= 0.0)[:, None]
        for _ in range(20 if sigma2 > 0 else 0):
            levels = [self.level(*pair) for pair in np.argwhere(trusted)]
            squares = [mean**2 / sigma2 + variance for mean, variance in levels]
            variance = (sum(squares) + 10 * 0.3) / (len(squares) + 10)
            self.level_variance = min(max(variance, 0.03), 3.0)
        x_factor, x_shift = self.context.renew()
        z_factor, z_shift = self.features.renew()
        score = 10.0
        if not self.pairs and sigma2 > 0 and self.rewards and self.numeric:
            score = np.clip(2.0 * np.var(self.rewards) / sigma2, 10.0, 1000.0)
        variance = score / (1.0 + self.context.norm)
        self.weights.variance[:] = variance
        self.weights.variance[self.shared] = variance / (1.0 + self.features.norm)
        x_change, z_change = np.diag(x_factor), np.diag(z_factor)
        x_change[1:, 0], z_change[1:, 0] = x_shift[1:], z_shift[1:]
        shared = [np.kron(z_change, x_change)] if self.pairs else []
        change = block_diag(*shared, *[x_change] * len(self.own))
        self.weights.restate(change, self.own[:, 0], centre - self.centre)
        self.estimate_variances(sigma2)
        self.centre = centre
