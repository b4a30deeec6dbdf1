"""ROMCO against its plain transcription, and the properties it has by construction."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import romco
from romco.streams import interleaved, simulated, synchronous
from tests.reference import romco as reference

STREAM = simulated(n_tasks=6, n_features=15, n_events=(40, 25, 40, 10, 33, 1), outliers=1, seed=5)
SPARSE = simulated(n_tasks=6, n_features=15, n_events=25, outliers=1, sparsity=0.6, seed=6)
SHRINK = {"romco-nucl": reference.nuclear, "romco-logd": reference.logdet}
SETTINGS = [
    {"eta1": 0.3, "eta2": 0.2, "lambda1": 0.05, "lambda2": 0.03},
    {"eta1": 0.3, "eta2": 0.2, "lambda1": 0.9, "lambda2": 0.5},
    {"eta1": 1.0, "eta2": 1e-3, "lambda1": 1e-4, "lambda2": 2.0},
    {"eta1": 0.5, "eta2": 0.5, "lambda1": 0.0, "lambda2": 0.0},
]
SOME_SETTINGS = pytest.mark.parametrize(
    "strengths",
    [*SETTINGS[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in SETTINGS[2:])],
    ids=str,
)
OPTIONS = [
    {},
    {"update": "mistake"},
    {"always_prox": True},
    {"step": "inverse-sqrt"},
    {"C": 2.5},
    {"update": "mistake", "always_prox": True, "step": "inverse-sqrt"},
]


def dense(x):
    return x.toarray() if hasattr(x, "toarray") else x


def compare(name, rounds, tolerance=1e-10, **parameters):
    """Margins of the whole stream, U and V, learner against transcription."""
    d, m = rounds.x.shape[1], int(rounds.task.max()) + 1
    learner = romco.learner(name, d, m, **parameters)
    twin = reference.Romco(d, m, shrink=SHRINK[name], **parameters)
    expected = []
    for task, x, y, *_ in rounds:
        expected.append(twin.predict(task, dense(x)))
        twin.update(task, dense(x), y)
    found = learner.replay(rounds)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=0, atol=tolerance)
    np.testing.assert_allclose(learner.shared(), twin.u, rtol=0, atol=tolerance)
    np.testing.assert_allclose(learner.personal(), twin.v, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", SHRINK)
@pytest.mark.parametrize("order", [synchronous, interleaved], ids=lambda order: order.__name__)
@pytest.mark.parametrize("stream", [STREAM, SPARSE], ids=["dense", "sparse"])
@SOME_SETTINGS
def test_agrees_with_the_transcription(name, order, stream, strengths):
    compare(name, order(stream, 1), **strengths)


@pytest.mark.parametrize("name", ["romco-nucl", pytest.param("romco-logd", marks=pytest.mark.slow)])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_agrees_under_every_option(name, options):
    compare(name, synchronous(STREAM, 2), **SETTINGS[0], **options)
    compare(name, interleaved(STREAM, 2), **SETTINGS[0], **options)


@pytest.mark.parametrize("name", SHRINK)
@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@SOME_SETTINGS
def test_agrees_under_every_loss(name, loss, strengths):
    compare(name, synchronous(STREAM, 2), **strengths, loss=loss)
    compare(name, interleaved(SPARSE, 2), **strengths, loss=loss)


@pytest.mark.parametrize("loss", ["squared-hinge", "logistic"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_agrees_under_every_loss_and_option(loss, options):
    compare("romco-nucl", synchronous(STREAM, 2), **SETTINGS[0], **options, loss=loss)


def test_the_steps_go_downhill_on_the_losses_of_the_library():
    """Without penalties and with V hardly moving, U's first steps are slopes times x."""
    x, y = np.eye(3), np.array([1.0, -1.0, 1.0])
    for name in ("hinge", "squared-hinge", "logistic"):
        strengths = {"eta1": 0.3, "eta2": 1e-12, "lambda1": 0.0, "lambda2": 0.0}
        learner = romco.learner("romco-nucl", 3, 1, **strengths, loss=name)
        expected = np.zeros(3)
        for _ in range(3):
            learner.update(romco.Round(np.zeros(3, dtype=int), x, y))
            expected -= 0.3 * romco.losses.LOSSES[name].slope(expected, y)
        np.testing.assert_allclose(learner.shared()[:, 0], expected, atol=1e-10)


def test_the_logistic_loss_learns_from_every_event():
    rounds = interleaved(STREAM, 0)
    learner = romco.learner("romco-nucl", 15, 6, loss="logistic", lambda1=0.0)
    learner.replay(rounds)
    sure = romco.Round(np.array([0]), 50.0 * learner.weights()[:, :1].T, np.array([1.0]))
    before, margin = learner.weights(), learner.predict(sure)[0]
    assert margin > 1.0
    learner.update(sure)
    assert (learner.weights() != before).any()


@pytest.mark.parametrize("rho", ["1/t", "1/sqrt(t)"])
def test_agrees_under_every_schedule_of_rho(rho):
    compare("romco-logd", synchronous(STREAM, 2), **SETTINGS[0], rho=rho)


@pytest.mark.parametrize("name", SHRINK)
def test_several_events_of_a_task_in_one_round_add_up(name):
    every = interleaved(STREAM, 3)
    rounds = romco.Rounds(every.task, every.x, every.y, [0, 7, 8, 30, 31, 60, len(every.y)])
    compare(name, rounds, **SETTINGS[0])


@st.composite
def hostile_rounds(draw):
    """Short streams with few distinct rows: repeated, zero, collinear x; any m and d."""
    d, m = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.standard_normal((3, d)) / np.sqrt(d)
    rows = np.vstack([rows, 2 * rows[:1], np.zeros((1, d))])
    n = draw(st.integers(1, 40))
    sizes = np.diff([0, *sorted(rng.choice(n + 1, size=min(n, 12))), n])
    starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
    x = rows[rng.integers(0, 5, n)]
    x = csr_array(x) if draw(st.booleans()) else x
    return romco.Rounds(rng.integers(0, m, n), x, rng.choice([-1.0, 1.0], n), starts)


@settings(max_examples=60)
@given(
    rounds=hostile_rounds(),
    name=st.sampled_from(sorted(SHRINK)),
    lambda1=st.sampled_from([0.0, 1e-6, 1e-2, 0.2, 1.0, 5.0]),
    lambda2=st.sampled_from([0.0, 1e-6, 1e-2, 0.2, 1.0]),
    eta1=st.sampled_from([1e-3, 0.1, 0.7]),
    eta2=st.sampled_from([1e-3, 0.1, 0.7]),
)
def test_agrees_on_hostile_streams(rounds, name, **strengths):
    compare(name, rounds, tolerance=1e-9, **strengths)


@pytest.mark.parametrize(
    "lambda1",
    [pytest.param(0.04, marks=pytest.mark.slow), pytest.param(0.03, marks=pytest.mark.slow), 0.02],
)
def test_agrees_at_high_rank_with_many_tasks(lambda1):
    """Ranks of 20 to 50, where secular equations take the place of most rotations."""
    stream = simulated(n_tasks=90, n_features=120, n_events=4, outliers=9, sparsity=0.7, seed=8)
    strengths = {"eta1": 0.3, "eta2": 0.2, "lambda1": lambda1, "lambda2": 0.001}
    rounds = interleaved(stream, 3)
    compare("romco-nucl", rounds, tolerance=1e-11, **strengths)
    learner = romco.learner("romco-nucl", 120, 90, **strengths)
    learner.replay(rounds)
    assert len(learner.singular_values()) >= 17


@pytest.mark.parametrize("name", SHRINK)
def test_without_penalties_it_is_gradient_descent(name):
    """Property 5: lambda = 0 is OGD with step eta1 + eta2."""
    rounds = interleaved(STREAM, 0)
    mine = romco.learner(name, 15, 6, eta1=0.3, eta2=0.2, lambda1=0.0, lambda2=0.0)
    plain = romco.learner("ogd-unique", 15, 6, eta=0.5)
    np.testing.assert_allclose(mine.replay(rounds), plain.replay(rounds), atol=1e-11)


@pytest.mark.parametrize("name", SHRINK)
def test_rotating_the_features_changes_no_margin(name):
    """Property 6."""
    rounds = synchronous(STREAM, 0)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((15, 15)))[0]
    turned = romco.Rounds(rounds.task, rounds.x @ turn, rounds.y, rounds.starts)
    a, b = (romco.learner(name, 15, 6, **SETTINGS[0]).replay(r) for r in (rounds, turned))
    np.testing.assert_allclose(a, b, atol=1e-10)


def test_units_of_the_features_do_not_matter():
    """Property 8: x -> c x, eta -> eta / c^2, lambda -> c lambda leaves ROMCO-NuCl's margins."""
    rounds, c = synchronous(STREAM, 0), 3.0
    scaled = romco.Rounds(rounds.task, c * rounds.x, rounds.y, rounds.starts)
    s = SETTINGS[0]
    other = {k: v / c**2 if k.startswith("eta") else v * c for k, v in s.items()}
    a = romco.learner("romco-nucl", 15, 6, **s).replay(rounds)
    b = romco.learner("romco-nucl", 15, 6, **other).replay(scaled)
    np.testing.assert_allclose(a, b, atol=1e-10)


@pytest.mark.parametrize("name", SHRINK)
def test_tasks_without_events_learn_nothing(name):
    """Property 11: no prediction, no gradient; the shared part may not invent weights for them."""
    learner = romco.learner(name, 15, 8, **SETTINGS[0])  # tasks 6 and 7 never come
    learner.replay(synchronous(STREAM, 0))
    np.testing.assert_allclose(learner.weights()[:, 6:], 0.0, atol=1e-12)


@pytest.mark.parametrize("name", SHRINK)
def test_parts_add_up(name):
    learner = romco.learner(name, 15, 6, **SETTINGS[0])
    learner.replay(synchronous(STREAM, 0))
    np.testing.assert_allclose(learner.weights(), learner.shared() + learner.personal())
    s = np.linalg.svd(learner.shared(), compute_uv=False)
    np.testing.assert_allclose(learner.singular_values(), s[: len(learner.singular_values())])
    np.testing.assert_allclose(
        learner.personal_norms(), np.linalg.norm(learner.personal(), axis=0), atol=1e-12
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("romco-nucl", {"eta1": 0.0}), ("romco-nucl", {"eta2": -1.0}),
        ("romco-nucl", {"lambda1": -0.1}), ("romco-nucl", {"lambda2": np.nan}),
        ("romco-nucl", {"C": 0.0}), ("romco-nucl", {"update": "often"}),
        ("romco-nucl", {"loss": "least-cubes"}), ("romco-nucl", {"step": "big"}),
        ("romco-logd", {"rho": "never"}),
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_by_name(name, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        romco.learner(name, 3, 2, **wrong)
