"""Bayesian online regression on scaled columns: the control that a sceptic would fit."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from romco.rounds import Features

Numbers = NDArray[np.float64]
PRIOR_VARIANCES = np.array([0.003, 0.03, 0.3, 3.0, 30.0])  # averaged by their past likelihood
INTERCEPT_VARIANCE = 1.0
MAX_DENSE_COLUMNS = 256
MAX_COVARIANCE_ENTRIES = 200_000  # of all classes and priors; beyond, only variances are kept
EVIDENCE_DECAY = 0.999
PROBIT = np.pi / 8.0  # MacKay's factor: margins shrink by their variance


def regress(
    group: NDArray[np.int64], x: Features, y: Numbers, offset: Numbers, target: str
) -> Numbers:
    """Predict each event from the earlier events of its group, one regression per group.

    Logistic regression for "two classes", softmax regression for "classes" and linear regression
    for "number", with a Gaussian posterior. Columns are centred and scaled by their mean and
    standard deviation over all rows (wide sparse ones by their root mean square): hindsight that
    can only help.

    ``y`` (n,) is 0 or 1, class numbers, or numbers; ``offset`` (n, K) the scores before anything of
    the group is known. Returns P(1) (n, 1), probabilities (n, K), or numbers (n, 1).
    """
    predicted = np.empty_like(offset)
    rows = _scaled(x)
    for members in groups(group):
        part = rows[members]
        fit = _dense if isinstance(part, np.ndarray) else _sparse
        predicted[members] = fit(part, y[members], offset[members], target)
    return predicted


def groups(group: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the numbers of the events of each group, in their order."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _scaled(x: Features) -> Numbers | csr_array:
    """Scaled columns and a last one of ones."""
    n, d = x.shape
    if d <= MAX_DENSE_COLUMNS:
        dense = np.asarray(x if isinstance(x, np.ndarray) else x.toarray(), dtype=np.float64)
        spread = dense.std(axis=0)
        centred = (dense - dense.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return np.column_stack([centred, np.ones(n)])
    sparse = csr_array(x)
    squares = np.bincount(sparse.indices, sparse.data**2, minlength=d)
    counts = np.bincount(sparse.indices, minlength=d)
    size = np.sqrt(squares / np.maximum(counts, 1))
    values = sparse.data / np.where(size > 0.0, size, 1.0)[sparse.indices]
    scaled = csr_array((values, sparse.indices, sparse.indptr), shape=(n, d))
    return csr_array(hstack([scaled, np.ones((n, 1))]))


class _Mixture:
    """Predictions of all priors, averaged by how likely they made the past of this group."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.evidence = np.zeros(len(PRIOR_VARIANCES))

    def predict(self, margins: Numbers, variances: Numbers) -> tuple[Numbers, Numbers]:
        """Return predictions of each prior (S, K), and their average (K,)."""
        each = margins
        if self.target != "number":
            each = margins / np.sqrt(1.0 + PROBIT * variances)
        if self.target == "two classes":
            each = 0.5 * (1.0 + np.tanh(0.5 * each))
        elif self.target == "classes":
            each = np.exp(each - each.max(axis=1, keepdims=True))
            each /= each.sum(axis=1, keepdims=True)
        weight = np.exp(self.evidence - self.evidence.max())
        return each, (weight / weight.sum()) @ each

    def learn(self, each: Numbers, y: float) -> tuple[Numbers, Numbers]:
        """Update the evidence; return gradients and curvatures (S, K) at the true answer."""
        if self.target == "number":
            error = each - y
            self.evidence = EVIDENCE_DECAY * self.evidence - np.square(error[:, 0])
            return error, np.ones_like(error)
        gradient = each.copy()
        if self.target == "two classes":
            gradient -= y
            true = 1.0 - np.abs(gradient[:, 0])
        else:
            gradient[:, int(y)] -= 1.0
            true = each[:, int(y)]
        self.evidence = EVIDENCE_DECAY * self.evidence + np.log(np.maximum(true, 1e-15))
        return gradient, each * (1.0 - each)


def _dense(z: Numbers, y: Numbers, offset: Numbers, target: str) -> Numbers:
    """One regression with a full covariance matrix, where it is small enough."""
    n, d = z.shape
    k, s = offset.shape[1], len(PRIOR_VARIANCES)
    if s * k * d * d > MAX_COVARIANCE_ENTRIES:
        return _sparse(csr_array(z), y, offset, target)
    w = np.zeros((s, k, d))
    prior = np.tile(PRIOR_VARIANCES[:, None], (1, d))
    prior[:, -1] = INTERCEPT_VARIANCE
    covariance = np.repeat((prior[:, :, None] * np.eye(d))[:, None], k, axis=1)
    predicted, mixture = np.empty((n, k)), _Mixture(target)
    for e in range(n):
        direction = covariance @ z[e]  # (s, k, d)
        variance = direction @ z[e]
        each, predicted[e] = mixture.predict(offset[e] + w @ z[e], variance)
        gradient, curvature = mixture.learn(each, y[e])
        gain = 1.0 / (1.0 + curvature * variance)
        w -= (gain * gradient)[..., None] * direction
        covariance -= (curvature * gain)[..., None, None] * (
            direction[..., :, None] * direction[..., None, :]
        )
    return predicted


def _sparse(z: csr_array, y: Numbers, offset: Numbers, target: str) -> Numbers:
    """One regression with the variances of the weights alone, on the columns that occur."""
    columns, place = np.unique(z.indices, return_inverse=True)
    n, k, s, d = len(y), offset.shape[1], len(PRIOR_VARIANCES), len(columns)
    w = np.zeros((s, k, d))
    v = np.tile(PRIOR_VARIANCES[:, None, None], (1, k, d))
    v[..., columns == z.shape[1] - 1] = INTERCEPT_VARIANCE
    predicted, mixture = np.empty((n, k)), _Mixture(target)
    starts = z.indptr.tolist()
    for e in range(n):
        at, values = place[starts[e] : starts[e + 1]], z.data[starts[e] : starts[e + 1]]
        weights, variances = w[..., at], v[..., at]
        squares = values * values
        each, predicted[e] = mixture.predict(offset[e] + weights @ values, variances @ squares)
        gradient, curvature = mixture.learn(each, y[e])
        variances /= 1.0 + curvature[..., None] * variances * squares
        v[..., at] = variances
        w[..., at] = weights - variances * gradient[..., None] * values
    return predicted
