"""romco-auto against its plain transcription, and what it claims to find out by itself."""

import numpy as np
import pytest

import romco
from romco.streams import interleaved, simulated, synchronous
from tests.reference import auto as reference

DENSE = simulated(n_tasks=6, n_features=9, n_events=(50, 35, 40, 12, 33, 1), outliers=1, seed=5)
SPARSE = simulated(n_tasks=6, n_features=9, n_events=30, sparsity=0.6, noise=0.1, seed=6)


def rows(x):
    return x.toarray() if hasattr(x, "toarray") else x


def error(rounds, margins):
    return float(np.mean((margins >= 0) != (rounds.y > 0)))


def replayed(name, rounds, **parameters):
    learner = romco.learner(name, rounds.x.shape[1], int(rounds.task.max()) + 1, **parameters)
    return learner, learner.replay(rounds)


@pytest.mark.parametrize("order", [interleaved, synchronous])
@pytest.mark.parametrize("stream", [DENSE, SPARSE], ids=["dense", "sparse"])
def test_equals_its_transcription(order, stream):
    rounds = order(stream, seed=1)
    plain = reference.Auto(9, 6)
    expected = []
    for task, x, y, _ in rounds:
        expected += [plain.predict(i, row) for i, row in zip(task, rows(x), strict=True)]
        plain.update(task, rows(x), y)
    learner, margins = replayed("romco-auto", rounds)
    np.testing.assert_allclose(margins, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        list(learner.trust().values()), plain.combiner.w, rtol=1e-6, atol=1e-8
    )


def test_common_scale_of_features_does_not_matter():
    rounds = interleaved(DENSE, seed=1)
    scaled = type(rounds)(rounds.task, rounds.x * 1000.0, rounds.y, rounds.starts)
    np.testing.assert_allclose(
        replayed("romco-auto", scaled)[1], replayed("romco-auto", rounds)[1], rtol=1e-6, atol=1e-9
    )


def test_an_event_without_features_is_learned_through_the_intercept():
    learner = romco.learner("romco-auto", 3, 2)
    empty = romco.Round(np.array([0]), np.zeros((1, 3)), np.array([-1.0]))
    for _ in range(20):
        learner.update(empty)
    assert learner.predict(empty)[0] < -0.5
    assert np.isfinite(learner.weights()).all()


def test_features_too_large_to_square_are_refused_and_change_nothing():
    learner, _ = replayed("romco-auto", interleaved(DENSE, seed=1))
    before = learner.state()["arrays"]
    huge = romco.Round(np.array([0]), np.full((1, 9), 1e200), np.array([1.0]))
    with pytest.raises(ValueError, match="scale"):
        learner.update(huge)
    for name, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def made(weights, seed, n=200, noise=0.05):
    """Rounds of tasks with the given true weights (d, m) on Gaussian features."""
    rng = np.random.default_rng(seed)
    d, m = weights.shape
    task = np.tile(np.arange(m), n)
    x = rng.normal(size=(m * n, d))
    y = np.where((x * weights[:, task].T).sum(axis=1) > 0.0, 1.0, -1.0)
    y[rng.random(len(y)) < noise] *= -1.0
    return romco.Rounds(task, x, y, np.arange(len(y) + 1))


def mean_errors(names, weights, n):
    """Error of each learner, averaged over four streams."""
    streams = [made(weights(np.random.default_rng(seed)), seed, n) for seed in range(4)]
    return [np.mean([error(s, replayed(name, s)[1]) for s in streams]) for name in names]


def test_unrelated_tasks_cost_nothing():
    names = "romco-auto", "arow-unique"
    auto, alone = mean_errors(names, lambda rng: rng.normal(size=(30, 20)), n=200)
    assert auto < 1.01 * alone


def test_identical_tasks_are_learned_like_one():
    names = "romco-auto", "arow-global"
    auto, one = mean_errors(names, lambda rng: np.repeat(rng.normal(size=(30, 1)), 20, 1), n=400)
    assert auto < 1.02 * one


def test_outlier_tasks_are_found_and_not_harmed():
    rng = np.random.default_rng(0)
    weights = np.repeat(rng.normal(size=(30, 1)), 20, axis=1)
    weights[:, :3] = rng.normal(size=(30, 3))
    rounds = made(weights, seed=1)
    learner, margins = replayed("romco-auto", rounds)
    np.testing.assert_array_equal(learner.personal_tasks(), [0, 1, 2])
    outlier = rounds.task < 3
    alone = replayed("arow-unique", rounds)[1]
    wrong = (margins >= 0) != (rounds.y > 0)
    assert wrong[outlier].mean() < 1.05 * ((alone >= 0) != (rounds.y > 0))[outlier].mean()


def test_groups_are_found_and_used():
    rng = np.random.default_rng(0)
    member = np.arange(20) % 3
    rounds = made(rng.normal(size=(30, 3))[:, member], seed=1)
    learner, margins = replayed("romco-auto", rounds)
    groups = learner.groups()
    np.testing.assert_array_equal(
        groups[:, None] == groups[None, :], member[:, None] == member[None, :]
    )
    best = min(error(rounds, replayed(f"arow-{kind}", rounds)[1]) for kind in ("unique", "shared"))
    assert error(rounds, margins) < 0.9 * best


def test_margins_are_calibrated_log_odds():
    rng = np.random.default_rng(0)
    x, task = rng.normal(size=(6000, 20)), np.tile(np.arange(15), 400)
    truth = x @ rng.normal(size=20) / 2.0
    y = np.where(rng.random(6000) < 1.0 / (1.0 + np.exp(-truth)), 1.0, -1.0)
    margins = replayed("romco-auto", romco.Rounds(task, x, y, np.arange(6001)))[1]
    probability = 1.0 / (1.0 + np.exp(-margins))
    for low in np.arange(0.0, 1.0, 0.2):
        inside = (probability >= low) & (probability < low + 0.2)
        assert abs((y[inside] > 0).mean() - probability[inside].mean()) < 0.05


def test_new_task_starts_from_what_is_shared():
    rng = np.random.default_rng(0)
    rounds = made(np.repeat(rng.normal(size=(30, 1)), 20, axis=1), seed=1)
    learner = romco.learner("romco-auto", 30, 21)
    learner.replay(rounds)
    fresh = romco.Round(np.full(len(rounds.y), 20), rounds.x, rounds.y)
    assert error(rounds, learner.predict(fresh)) < 0.15


def test_one_task_is_its_own_group():
    learner = romco.learner("romco-auto", 4, 1)
    np.testing.assert_array_equal(learner.groups(), [0])
    np.testing.assert_array_equal(learner.similarity(), [[1.0]])
