"""Trace norm: a general solver finds nothing better, and zero is the answer when it must be."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning

from romco.batch import trace_norm
from tests.batch import problems, solver


@pytest.mark.parametrize("rho1", [0.01, 1.0, 5.0])
def test_least_squares_reaches_the_optimum(rho1):
    X, y = problems.problem()
    W, c = trace_norm(X, y, rho1, "least-squares")
    assert not c.any()
    assert problems.least_trace(X, y, W, rho1) == pytest.approx(
        solver.least_trace(X, y, rho1), rel=1e-6
    )


@pytest.mark.parametrize("rho1", [0.001, 0.03, 0.3])
def test_logistic_reaches_the_optimum(rho1):
    X, y = problems.problem(noise=3.0)
    W, c = trace_norm(X, y, rho1)
    assert problems.logistic_trace(X, y, W, c, rho1) == pytest.approx(
        solver.logistic_trace(X, y, rho1), rel=1e-6
    )


def test_more_tasks_than_features():
    X, y = problems.problem(n_events=(9,) * 12, n_features=4)
    W, _ = trace_norm(X, y, 1.0, "least-squares")
    assert problems.least_trace(X, y, W, 1.0) == pytest.approx(
        solver.least_trace(X, y, 1.0), rel=1e-6
    )


@pytest.mark.parametrize("loss", ["logistic", "least-squares"])
def test_dense_equals_sparse(loss):
    X, y = problems.problem(n_events=(40, 30, 0, 50))
    dense, csr = problems.sparse(X)
    W, c = trace_norm(dense, y, 0.05, loss)
    W_csr, c_csr = trace_norm(csr, y, 0.05, loss)
    np.testing.assert_allclose(W_csr, W, atol=1e-10)
    np.testing.assert_allclose(c_csr, c, atol=1e-10)
    # The same numbers with enough non-zeros are worked on as plain arrays, and give the same.
    full, _ = trace_norm([csr_array(x) for x in X], y, 0.05, loss)
    np.testing.assert_allclose(full, trace_norm(X, y, 0.05, loss)[0], atol=1e-10)


@pytest.mark.parametrize("loss", ["logistic", "least-squares"])
def test_zero_exactly_from_the_norm_of_the_gradient_on(loss):
    X, y = problems.problem(noise=3.0)
    if loss == "least-squares":
        gradient = np.stack([-x.T @ a for x, a in zip(X, y, strict=True)], axis=1)
    else:  # with W = 0 the best intercept gives each label its frequency
        share = [np.mean(a > 0) if len(a) else 0.5 for a in y]
        residuals = [q - (a > 0) for q, a in zip(share, y, strict=True)]
        pairs = zip(X, residuals, strict=True)
        gradient = np.stack([x.T @ r / max(1, len(r)) for x, r in pairs], axis=1)
    limit = np.linalg.norm(gradient, 2)
    assert not trace_norm(X, y, limit * 1.001, loss, tol=1e-9)[0].any()
    assert trace_norm(X, y, limit * 0.98, loss, tol=1e-9)[0].any()


def test_warm_start_gives_the_same_objective_and_an_answer_is_not_left():
    X, y = problems.problem(noise=3.0)
    first = trace_norm(X, y, 0.05, tol=1e-8)
    again = trace_norm(X, y, 0.05, start=first, max_iter=1)
    for a, b in zip(first, again, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    kept = first[0].copy()
    trace_norm(X, y, 0.5, start=first)
    np.testing.assert_array_equal(first[0], kept)


def test_empty_task_gets_no_weights():
    X, y = problems.problem()
    assert not trace_norm(X, y, 0.1)[0][:, 3].any()
    assert not trace_norm([x[:0] for x in X], [a[:0] for a in y], 0.1)[0].any()


def test_says_when_iterations_run_out():
    X, y = problems.problem()
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        trace_norm(X, y, 0.001, max_iter=3)


@pytest.mark.parametrize("solve", ["trace_norm", "feature_learning", "robust"])
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda X, y: (X[1:], y), "one array per task"),
        (lambda X, y: ([], []), "one array per task"),
        (lambda X, y: (X, [y[0][1:], *y[1:]]), r"y\[0\] must have shape"),
        (lambda X, y: ([X[0][:, 1:], *X[1:]], y), "same number of features"),
        (lambda X, y: ([X[0] * np.nan, *X[1:]], y), r"X\[0\] holds numbers that are not finite"),
        (lambda X, y: (X, [y[0] * np.inf, *y[1:]]), r"y\[0\] holds numbers that are not finite"),
        (lambda X, y: ([X[0][0], *X[1:]], y), r"X\[0\] must have shape"),
    ],
)
def test_bad_tasks(solve, spoil, words):
    import romco.batch

    X, y = spoil(*problems.problem())
    strengths = {"robust": (1.0, 1.0)}.get(solve, (1.0,))
    with pytest.raises(ValueError, match=words):
        getattr(romco.batch, solve)(X, y, *strengths)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rho1": -1.0}, "rho1"),
        ({"rho1": np.nan}, "rho1"),
        ({"loss": "hinge"}, "loss must be"),
        ({"tol": 0.0}, "tol"),
        ({"start": (np.zeros((2, 2)), np.zeros(5))}, "start W"),
        ({"start": (np.zeros((8, 5)), np.zeros(4))}, "start intercepts"),
    ],
)
def test_bad_settings(change, words):
    X, y = problems.problem()
    with pytest.raises(ValueError, match=words):
        trace_norm(X, y, **{"rho1": 1.0, **change})


def test_logistic_takes_two_classes_only():
    X, y = problems.problem()
    with pytest.raises(ValueError, match=r"only -1 and \+1"):
        trace_norm(X, [a * 2 for a in y], 1.0)
    trace_norm(X, [a * 2 for a in y], 1.0, "least-squares")
