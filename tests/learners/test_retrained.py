"""Retrained learners against plain retraining, and the promises where fits do happen."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.checks import CHECKS, streams, trained
from romco.learners import retrained
from romco.rounds import Round
from romco.streams import interleaved, simulated, synchronous
from tests.reference import retrained as reference

STREAM = simulated(
    n_tasks=4, n_features=6, n_events=(30, 20, 25, 25), outliers=1, noise=0.3, seed=2
)
FITS = {
    "mtfl": lambda X, y: (reference.alternated_features(X, y, 2.0, 1e-2)[0], np.zeros(4)),
    "trml": lambda X, y: reference.plain_trace(X, y, 0.05, "logistic"),
    "trml-squares": lambda X, y: reference.plain_trace(X, y, 0.5, "least-squares"),
}
LEARNERS = {
    "mtfl": ("mtfl", {"gamma": 2.0, "eps": 1e-2}),
    "trml": ("trml", {"rho1": 0.05}),
    "trml-squares": ("trml", {"rho1": 0.5, "loss": "least-squares"}),
}


@pytest.fixture
def precise(monkeypatch):
    monkeypatch.setattr(retrained, "TOL", 1e-9)
    monkeypatch.setattr(retrained, "MAX_ITER", 5000)


FITS_OF_ALL = (
    ("mtfl", {}),
    ("trml", {}),
    ("trml", {"loss": "least-squares"}),
)


@pytest.mark.parametrize("window", [None, 45])
@pytest.mark.parametrize("order", [pytest.param(synchronous, marks=pytest.mark.slow), interleaved])
@pytest.mark.parametrize("kind", LEARNERS)
def test_equals_plain_retraining(kind, order, window, precise):
    name, parameters = LEARNERS[kind]
    learner = romco.learner(name, 6, 4, every=40, window=window, **parameters)
    twin = reference.Retrained(6, 4, FITS[kind], every=40, window=window)
    for round in order(STREAM, seed=1):
        np.testing.assert_allclose(
            learner.predict(round), twin.predict(round.task, round.x), atol=1e-5
        )
        learner.update(round)
        twin.update(round.task, round.x, round.y)
    assert learner.weights().any()
    np.testing.assert_allclose(learner.weights(), twin.w, atol=1e-5)
    np.testing.assert_allclose(learner.intercepts(), twin.c, atol=1e-5)


OFTEN = [
    ("mtfl", {}),
    pytest.param("trml", {"rho1": 0.2, "window": 40}, marks=pytest.mark.slow),
    pytest.param("trml", {"loss": "least-squares"}, marks=pytest.mark.slow),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "parameters"), OFTEN)
def test_promises_hold_when_fits_happen(name, parameters, check):
    for rounds in streams():
        check(lambda d, m: romco.learner(name, d, m, every=35, **parameters), rounds)


def test_margins_are_weights_and_intercepts():
    rounds = next(streams())
    learner = trained(lambda d, m: romco.learner("trml", d, m, every=20), rounds)
    task, x, *_ = rounds.events
    expected = (x * learner.weights()[:, task].T).sum(axis=1) + learner.intercepts()[task]
    assert learner.intercepts().any()
    np.testing.assert_allclose(learner.predict(rounds.events), expected, atol=1e-12)


def test_learns_nothing_between_fits():
    learner = romco.learner("mtfl", 2, 1, every=3)
    event = Round(np.array([0]), np.array([[1.0, 0.5]]), np.array([1.0]))
    margins = []
    for _ in range(7):
        margins.append(float(learner.predict(event)[0]))
        learner.update(event)
    assert margins[:3] == [0.0] * 3
    assert margins[3] > 0
    assert margins[3] == margins[4] == margins[5] != margins[6]


def test_window_bounds_what_is_kept():
    learner = romco.learner("trml", 6, 4, every=10, window=15)
    learner.replay(interleaved(STREAM, seed=0))
    assert 15 <= len(learner.arrays()["task"]) < 15 + 10


def test_grown_learner_goes_on():
    rounds = synchronous(STREAM, seed=0)
    learner = romco.learner("trml", 6, 4, every=20)
    learner.replay(rounds)
    larger = romco.grown(learner, 8, 5)
    padded = rounds[0]._replace(x=np.pad(rounds[0].x, ((0, 0), (0, 2))))
    np.testing.assert_allclose(larger.predict(padded), learner.predict(rounds[0]))
    larger.update(padded)
    assert larger.weights().shape == (8, 5)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("mtfl", {"gamma": 0.0}),
        ("mtfl", {"eps": -1.0}),
        ("trml", {"rho1": -0.1}),
        ("trml", {"loss": "hinge"}),
        ("trml", {"every": 0}),
        ("mtfl", {"window": 0}),
    ],
)
def test_bad_parameters(name, parameter):
    with pytest.raises(ValueError, match=next(iter(parameter))):
        romco.learner(name, 3, 2, **parameter)


def test_state_of_another_learner_is_refused():
    learner = romco.learner("mtfl", 3, 2)
    with pytest.raises(ValueError, match="state holds"):
        learner.load(romco.learner("ogd-unique", 3, 2).arrays())


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1e-160, 1e-3, 1e30, 1e59])
@pytest.mark.parametrize(("name", "parameters"), [*FITS_OF_ALL])
def test_features_of_any_size_are_fitted(name, parameters, size):
    learner = romco.learner(name, 6, 4, every=10, **parameters)
    rng = np.random.default_rng(1)
    for _ in range(3):
        x, y = rng.normal(size=(10, 6)) * size, rng.choice([-1.0, 1.0], 10)
        learner.update(Round(rng.integers(0, 4, 10), x, y))
    assert np.isfinite(learner.weights()).all()


@pytest.mark.parametrize(("name", "parameters"), [*FITS_OF_ALL])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_that_no_fit_could_calculate_with_are_refused(name, parameters, sparse):
    learner = romco.learner(name, 3, 2, every=1, **parameters)
    x = np.eye(3)[:2] * 1e200
    with pytest.raises(ValueError, match=r"event 0 \(task 1\): feature 0 is 1e\+200"):
        learner.update(
            Round(np.array([1, 0]), csr_array(x) if sparse else x, np.array([1.0, -1.0]))
        )
    assert not any(len(learner.arrays()[name]) for name in ("task", "index"))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        pytest.param("mtfl", {"eps": 1e300}, marks=pytest.mark.slow),
        pytest.param("mtfl", {"gamma": 1e300}, marks=pytest.mark.slow),
        ("mtfl", {"gamma": 1e300, "eps": 1e300}),
        ("mtfl", {"eps": 1e-300, "gamma": 1e-300}),
        ("trml", {"rho1": 1e300}),
        ("trml", {"rho1": 1e300, "loss": "least-squares"}),
    ],
)
def test_a_fit_with_any_parameters_ends(name, parameters):
    learner = romco.learner(name, 6, 4, every=10, **parameters)
    rng = np.random.default_rng(1)
    for _ in range(3):
        before = learner.state()["arrays"]
        round = Round(rng.integers(0, 4, 10), rng.normal(size=(10, 6)), rng.choice([-1.0, 1.0], 10))
        try:
            learner.update(round)
        except FloatingPointError:
            for array, values in learner.arrays().items():
                np.testing.assert_array_equal(values, before[array])
    assert np.isfinite(learner.weights()).all()
