"""PA and COML: transcriptions, other libraries, a convex solver."""

import numpy as np
import pytest

import romco
from romco.streams import interleaved
from tests.learners.agreement import ROUNDS, SPARSE, UNEQUAL, compare, same_margins
from tests.reference import passive_aggressive as reference

D, M = 9, 5


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("variant", ["PA", "PA-I", "PA-II"])
@pytest.mark.parametrize("models", ["unique", "global"])
def test_pa_agrees_with_the_transcription(models, variant, rounds):
    options = {"C": 0.1, "variant": variant}
    twin = reference.PassiveAggressive(D, M, models=models, **options)
    compare(romco.learner(f"pa-{models}", D, M, **options), twin, rounds)


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("options", [{}, {"eta1": 2.0, "eta2": 0.3, "C": 0.1}, {"eta2": 0.0}])
def test_coml_agrees_with_the_transcription(options, rounds):
    compare(
        romco.learner("coml", D, M, **options), reference.Collaborative(D, M, **options), rounds
    )


@pytest.mark.parametrize("C", [0.05, 1.0])
def test_coml_without_a_global_model_is_pa_unique(C):
    for rounds in ROUNDS.values():
        same_margins(
            romco.learner("coml", D, M, eta2=0.0, C=C),
            romco.learner("pa-unique", D, M, C=C),
            rounds,
        )


@pytest.mark.parametrize(("variant", "rate"), [("PA-I", "pa1"), ("PA-II", "pa2")])
@pytest.mark.parametrize("stream", [UNEQUAL, SPARSE], ids=["dense", "sparse"])
def test_pa_is_that_of_scikit_learn(stream, variant, rate):
    linear_model = pytest.importorskip("sklearn.linear_model")
    try:
        theirs = linear_model.SGDClassifier(
            loss="hinge", penalty=None, learning_rate=rate, eta0=0.1, fit_intercept=False
        )
        theirs._validate_params()
    except ValueError:
        pytest.skip("this scikit-learn has no learning_rate='pa1'")
    ours = romco.learner("pa-global", D, M, C=0.1, variant=variant)
    for round in interleaved(stream, 1):
        theirs.partial_fit(round.x, round.y, classes=[-1.0, 1.0])
        ours.update(round)
        np.testing.assert_allclose(ours.weights()[:, 0], theirs.coef_[0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(("variant", "mode"), [("PA", 0), ("PA-I", 1), ("PA-II", 2)])
def test_pa_is_that_of_river(variant, mode):
    linear_model = pytest.importorskip("river.linear_model")
    theirs = linear_model.PAClassifier(C=0.1, mode=mode, learn_intercept=False)
    ours = romco.learner("pa-global", D, M, C=0.1, variant=variant)
    for round in interleaved(UNEQUAL, 1):
        theirs.learn_one(dict(enumerate(round.x[0])), bool(round.y[0] > 0))
        ours.update(round)
        found = [theirs.weights.get(j, 0.0) for j in range(D)]
        np.testing.assert_allclose(ours.weights()[:, 0], found, rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", range(12))
def test_one_step_of_coml_is_what_a_convex_solver_finds(oracles, case):
    with np.load(oracles / "convex_solver_checks.npz") as known:
        w, u, x, y, eta1, eta2, C, expected = (
            known[f"coml{case}_{key}"] for key in ["w", "u", "x", "y", "eta1", "eta2", "C", "w1"]
        )
    parameters = {"eta1": float(eta1), "eta2": float(eta2), "C": float(C)}
    np.testing.assert_allclose(
        reference.collaborate(w, u, x, y, **parameters), expected, rtol=0, atol=1e-9
    )
    # The learner first moves its global model: start from the one that becomes u.
    start = u - C * y * x if y * (u @ x) < 1 else u
    learner = romco.learner("coml", len(x), 1, **parameters)
    learner.load({"w": w[None].copy(), "u": start})
    learner.update(romco.Round(np.array([0]), x[None], np.array([float(y)])))
    np.testing.assert_allclose(learner.arrays()["u"], u, rtol=0, atol=1e-12)
    if y * (w @ x) >= 1:  # without a loss of its own a task stays where it is
        expected = w
    np.testing.assert_allclose(learner.weights()[:, 0], expected, rtol=0, atol=1e-9)


def test_pa_repairs_the_loss_of_the_event_it_learned():
    rng = np.random.default_rng(0)
    learner = romco.learner("pa-unique", 6, 1, variant="PA")
    for _ in range(20):
        round = romco.Round(np.array([0]), rng.normal(size=(1, 6)), rng.choice([-1.0, 1.0], 1))
        lost = round.y * learner.predict(round) < 1
        learner.update(round)
        if lost:
            np.testing.assert_allclose(round.y * learner.predict(round), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("pa-unique", {"C": 0.0}),
        ("pa-unique", {"C": np.nan}),
        ("pa-global", {"variant": "PA-III"}),
        ("coml", {"eta1": 0.0}),
        ("coml", {"eta2": -1.0}),
    ],
)
def test_impossible_parameters_are_refused(name, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        romco.learner(name, D, M, **wrong)
