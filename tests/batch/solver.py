"""The same problems handed to a general convex solver."""

import cvxpy as cp
import numpy as np

PRECISE = {"solver": "CLARABEL", "tol_gap_rel": 1e-9, "tol_gap_abs": 1e-9, "tol_feas": 1e-9}


def minimum(objective):
    problem = cp.Problem(cp.Minimize(objective))
    problem.solve(**PRECISE)
    return problem.value


def least_trace(X, y, rho1):
    W = cp.Variable((X[0].shape[1], len(X)))
    fit = sum(cp.sum_squares(x @ W[:, k] - y[k]) / 2 for k, x in enumerate(X) if len(x))
    return minimum(fit + rho1 * cp.normNuc(W))


def logistic_trace(X, y, rho1):
    W, c = cp.Variable((X[0].shape[1], len(X))), cp.Variable(len(X))
    fit = sum(
        cp.sum(cp.logistic(-cp.multiply(y[k], x @ W[:, k] + c[k]))) / len(x)
        for k, x in enumerate(X)
        if len(x)
    )
    return minimum(fit + rho1 * cp.normNuc(W))


def shared_features(X, y, gamma, eps):
    """The trace of (W W' + eps I)^(1/2) is the nuclear norm of [W, sqrt(eps) I]."""
    d = X[0].shape[1]
    W = cp.Variable((d, len(X)))
    fit = sum(cp.sum_squares(x @ W[:, k] - y[k]) for k, x in enumerate(X) if len(x))
    trace = cp.normNuc(cp.hstack([W, np.sqrt(eps) * np.eye(d)]))
    return minimum(fit + gamma * cp.square(trace))


LOSSES = {
    "hinge": lambda p, y: cp.sum(cp.pos(1 - cp.multiply(y, p))),
    "logistic": lambda p, y: cp.sum(cp.logistic(-cp.multiply(y, p))),
    "least-squares": lambda p, y: cp.sum_squares(p - y),
}


def robust(X, y, rho1, rho2, loss):
    shape = X[0].shape[1], len(X)
    L, S = cp.Variable(shape), cp.Variable(shape)
    fit = sum(LOSSES[loss](x @ (L + S)[:, k], y[k]) for k, x in enumerate(X) if len(x))
    return minimum(fit + rho1 * cp.normNuc(L) + rho2 * cp.sum(cp.norm(S, 2, axis=0)))
