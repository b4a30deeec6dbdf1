"""Feature learning: the optimum, the relation D, and the alternation it replaces."""

import numpy as np
import pytest

from romco.batch import SquaredTrace, feature_learning
from tests.batch import problems, solver
from tests.reference.retrained import alternated_features


@pytest.mark.parametrize("eps", [1e-4, 1e-8])
@pytest.mark.parametrize("gamma", [0.1, 10.0])
def test_reaches_the_optimum(gamma, eps):
    X, y = problems.problem()
    W, _ = feature_learning(X, y, gamma, eps)
    assert problems.shared_features(X, y, W, gamma, eps) == pytest.approx(
        solver.shared_features(X, y, gamma, eps), rel=1e-6
    )


def test_approaches_the_squared_trace_norm_as_eps_vanishes():
    X, y = problems.problem()
    W, _ = feature_learning(X, y, 1.0, 1e-12)
    errors = sum(((x @ w - a) ** 2).sum() for x, a, w in zip(X, y, W.T, strict=True))
    value = errors + problems.nuclear(W) ** 2
    assert value == pytest.approx(solver.shared_features(X, y, 1.0, 0.0), rel=1e-6)


@pytest.mark.parametrize(("n_features", "m"), [(8, 5), (3, 5)])
def test_equals_the_authors_alternation(n_features, m):
    X, y = problems.problem(n_events=(20,) * m, n_features=n_features)
    W, D = feature_learning(X, y, 1.0, 1e-2, tol=1e-9)
    W_slow, D_slow = alternated_features(X, y, 1.0, 1e-2, iterations=2000)
    np.testing.assert_allclose(W, W_slow, atol=1e-7)
    np.testing.assert_allclose(np.asarray(D), D_slow, atol=1e-7)


def test_relation_is_a_positive_matrix_of_trace_one():
    X, y = problems.problem()
    W, D = feature_learning(X, y, 1.0)
    dense = np.asarray(D)
    assert D.shape == dense.shape == (8, 8)
    assert np.trace(dense) == pytest.approx(1.0)
    assert np.linalg.eigvalsh(dense).min() > 0
    np.testing.assert_allclose(D @ W, dense @ W)
    assert np.asarray(D, dtype=np.float32).dtype == np.float32


def test_prox_minimises_its_objective():
    rng = np.random.default_rng(1)
    for shape in [(6, 3), (3, 6)]:
        w, price, step = rng.normal(size=shape), SquaredTrace(0.3, 1e-3), 0.7
        v, cost = price.prox(w, step)
        assert cost == pytest.approx(price.value(v), rel=1e-10)
        best = ((v - w) ** 2).sum() / (2 * step) + cost
        for _ in range(50):
            other = v + 1e-4 * rng.normal(size=shape)
            assert ((other - w) ** 2).sum() / (2 * step) + price.value(other) > best


def test_dense_equals_sparse_and_tasks_may_differ_in_size():
    X, y = problems.problem(n_events=(200, 30, 0, 50))
    dense, csr = problems.sparse(X)
    np.testing.assert_allclose(
        feature_learning(csr, y, 1.0)[0], feature_learning(dense, y, 1.0)[0], atol=1e-10
    )
    W, _ = feature_learning(X, y, 1.0)
    assert problems.shared_features(X, y, W, 1.0, 1e-4) == pytest.approx(
        solver.shared_features(X, y, 1.0, 1e-4), rel=1e-6
    )


def test_more_features_than_could_be_squared():
    X, y = problems.problem(n_events=(5, 5), n_features=100_000)
    W, D = feature_learning([x / 300 for x in X], y, 1.0)
    assert D.shape == (100_000, 100_000)
    assert (D @ W).shape == W.shape


def test_warm_start():
    X, y = problems.problem()
    W, _ = feature_learning(X, y, 1.0, tol=1e-8)
    again, _ = feature_learning(X, y, 1.0, start=W, max_iter=1)
    np.testing.assert_allclose(again, W, atol=1e-6)


@pytest.mark.parametrize("change", [{"gamma": 0.0}, {"gamma": -1.0}, {"eps": 0.0}, {"tol": -1.0}])
def test_bad_settings(change):
    X, y = problems.problem()
    with pytest.raises(ValueError, match=next(iter(change))):
        feature_learning(X, y, **{"gamma": 1.0, **change})
