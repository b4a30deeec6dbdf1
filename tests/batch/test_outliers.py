"""Robust learning: the optimum for each loss, and which part may be active."""

import numpy as np
import pytest

from romco.batch import robust
from tests.batch import problems, solver

STRENGTHS = [(10.0, 6.0), (2.0, 1.2)]


@pytest.mark.parametrize("strengths", STRENGTHS)
@pytest.mark.parametrize("loss", ["logistic", "least-squares"])
def test_smooth_losses_reach_the_optimum(loss, strengths):
    X, y = problems.problem(noise=2.0)
    L, S = robust(X, y, *strengths, loss)
    assert problems.robust(X, y, L, S, *strengths, loss) == pytest.approx(
        solver.robust(X, y, *strengths, loss), rel=1e-6
    )


@pytest.mark.parametrize("strengths", [(30.0, 18.0), (5.0, 4.0)])
@pytest.mark.parametrize(
    "sizes",
    [{"n_events": (40,) * 5, "n_features": 20}, {"n_features": 24, "n_events": (20, 12, 0)}],
    ids=["tall", "wide"],
)
def test_hinge_reaches_the_optimum(sizes, strengths):
    X, y = problems.problem(noise=4.0, **sizes)
    L, S = robust(X, y, *strengths)
    found, best = (
        problems.robust(X, y, L, S, *strengths, "hinge"),
        solver.robust(X, y, *strengths, "hinge"),
    )
    assert best * (1 - 1e-7) <= found <= best * (1 + 1e-5)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "least-squares"])
def test_both_parts_only_inside_the_band(loss):
    X, y = problems.problem(n_events=(30,) * 4, noise=2.0)
    shared, personal = robust(X, y, 2.0, 2.2, loss)  # lambda2 > lambda1
    assert shared.any()
    assert not personal.any()
    shared, personal = robust(X, y, 2.0, 0.9, loss)  # lambda2 < lambda1 / sqrt(4)
    assert not shared.any()
    assert personal.any()


@pytest.mark.parametrize("loss", ["hinge", "logistic", "least-squares"])
def test_everything_vanishes_under_strong_penalties(loss):
    X, y = problems.problem()
    L, S = robust(X, y, 1e4, 1e4, loss)
    assert not L.any()
    assert not S.any()


def test_finds_the_outlier_task():
    rng = np.random.default_rng(2)
    common, odd = rng.normal(size=10), rng.normal(size=10)
    X = [rng.normal(size=(60, 10)) for _ in range(6)]
    y = [np.sign(x @ (odd if k == 3 else common)) for k, x in enumerate(X)]
    norms = np.linalg.norm(robust(X, y, 20.0, 15.0)[1], axis=0)
    assert norms.argmax() == 3
    assert norms[3] > 0


@pytest.mark.parametrize("loss", ["hinge", "logistic", "least-squares"])
@pytest.mark.parametrize("n_features", [8, 60])
def test_dense_equals_sparse(loss, n_features):
    X, y = problems.problem(n_events=(40, 30, 0, 50), n_features=n_features)
    dense, csr = problems.sparse(X)
    for a, b in zip(robust(dense, y, 2.0, 1.5, loss), robust(csr, y, 2.0, 1.5, loss), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_warm_start_from_the_optimum_stays():
    X, y = problems.problem(noise=2.0)
    for loss in ("hinge", "logistic"):
        first = robust(X, y, 3.0, 2.0, loss)
        again = robust(X, y, 3.0, 2.0, loss, start=first)
        values = [problems.robust(X, y, *parts, 3.0, 2.0, loss) for parts in (first, again)]
        assert values[1] == pytest.approx(values[0], rel=1e-5)


@pytest.mark.parametrize(
    "change", [{"rho1": -1.0}, {"rho2": np.inf}, {"loss": "cubic"}, {"tol": 0.0}]
)
def test_bad_settings(change):
    X, y = problems.problem()
    with pytest.raises(ValueError, match=next(iter(change))):
        robust(X, y, **{"rho1": 1.0, "rho2": 1.0, **change})


def test_hinge_takes_two_classes_only():
    X, y = problems.problem()
    with pytest.raises(ValueError, match=r"only -1 and \+1"):
        robust(X, [a * 2 for a in y], 1.0, 1.0)
