"""Small problems with a task that differs and an empty task, and objectives spelled out."""

import numpy as np
from scipy.sparse import csr_array


def problem(n_events=(20, 30, 10, 0, 15), n_features=8, seed=0, noise=1.0):
    """X and y lists; labels from a matrix of rank two plus noise."""
    rng = np.random.default_rng(seed)
    m = len(n_events)
    truth = rng.normal(size=(n_features, 2)) @ rng.normal(size=(2, m))
    truth[:, 0] = rng.normal(size=n_features)
    X = [rng.normal(size=(n, n_features)) for n in n_events]
    y = [np.sign(x @ w + noise * rng.normal(size=len(x))) for x, w in zip(X, truth.T, strict=True)]
    return X, y


def sparse(X, seed=0):
    """The same arrays with nine of ten numbers gone, dense and as CSR."""
    rng = np.random.default_rng(seed)
    thin = [x * (rng.random(x.shape) < 0.1) for x in X]
    return thin, [csr_array(x) for x in thin]


def nuclear(W):
    return np.linalg.svd(W, compute_uv=False).sum()


def least_trace(X, y, W, rho1):
    return sum(((x @ w - a) ** 2).sum() / 2 for x, a, w in zip(X, y, W.T, strict=True)) + (
        rho1 * nuclear(W)
    )


def logistic_trace(X, y, W, c, rho1):
    losses = [np.logaddexp(0, -a * (x @ w + b)) for x, a, w, b in zip(X, y, W.T, c, strict=True)]
    return sum(loss.mean() for loss in losses if len(loss)) + rho1 * nuclear(W)


def shared_features(X, y, W, gamma, eps):
    errors = sum(((x @ w - a) ** 2).sum() for x, a, w in zip(X, y, W.T, strict=True))
    roots = np.sqrt(np.linalg.eigvalsh(W @ W.T + eps * np.eye(len(W))))
    return errors + gamma * roots.sum() ** 2


LOSSES = {
    "hinge": lambda p, y: np.maximum(0, 1 - y * p),
    "logistic": lambda p, y: np.logaddexp(0, -y * p),
    "least-squares": lambda p, y: (p - y) ** 2,
}


def robust(X, y, L, S, rho1, rho2, loss):
    W = L + S
    fit = sum(LOSSES[loss](x @ w, a).sum() for x, a, w in zip(X, y, W.T, strict=True))
    return fit + rho1 * nuclear(L) + rho2 * np.linalg.norm(S, axis=0).sum()
