"""Events that count differently: weight 0 is nothing, 1 is no weight, h and h are 2h."""

import numpy as np
import pytest

import romco
from romco.streams import interleaved, simulated
from tests.reference import auto as reference

STREAM = interleaved(simulated(n_tasks=4, n_features=7, n_events=40, noise=0.1, seed=3), seed=1)
ABLE = [
    name
    for name, method in romco.LEARNERS.items()
    if method(n_features=2, n_tasks=2).supports_sample_weight
]
UNABLE = [name for name in romco.LEARNERS if name not in ABLE]
EXACT = [
    ("pa-unique", {}),
    ("pa-global", {"C": 0.05}),
    ("pa-shared", {"C": 0.1}),
    ("arow-global", {"covariance": "full"}),
    ("arow-unique", {"covariance": "full", "r": 0.3}),
]


def replayed(name, weight, rounds=STREAM, **parameters):
    learner = romco.learner(name, 7, 4, **parameters)
    weighed = romco.Rounds(rounds.task, rounds.x, rounds.y, rounds.starts, weight)
    return learner, learner.replay(weighed)


def test_who_takes_weights():
    assert {"romco-auto", "arow-shared", "pa-unique", "ogd-global"} <= set(ABLE)
    assert {"romco-nucl", "omtl", "mtfl"} <= set(UNABLE)


@pytest.mark.parametrize("name", ABLE)
def test_a_weight_of_one_is_no_weight(name):
    np.testing.assert_array_equal(
        replayed(name, np.ones(len(STREAM.y)))[1], replayed(name, None)[1]
    )


@pytest.mark.parametrize("name", ABLE)
def test_a_weight_of_zero_changes_nothing(name):
    learner, _ = replayed(name, None)
    before = learner.state()["arrays"]
    learner.update(STREAM.events._replace(weight=np.zeros(len(STREAM.y))))
    for part, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[part])


@pytest.mark.parametrize(("name", "parameters"), EXACT)
def test_twice_h_is_two_h(name, parameters):
    h = np.random.default_rng(0).uniform(0.2, 2.0, len(STREAM.y))
    once, _ = replayed(name, 2.0 * h, **parameters)
    again = np.repeat(np.arange(len(h)), 2)
    doubled = romco.Rounds(
        STREAM.task[again], STREAM.x[again], STREAM.y[again], np.arange(len(again) + 1), h[again]
    )
    twice = romco.learner(name, 7, 4, **parameters)
    twice.replay(doubled)
    np.testing.assert_allclose(twice.weights(), once.weights(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("features", [1, 3, 40])
@pytest.mark.parametrize("h", [0.1, 1.0, 10.0])
def test_with_a_diagonal_covariance_the_gap_is_bounded(features, h):
    """The loss left by h and h is below that left by 2h, by less than 9.1 % of the loss before."""
    x = np.full((1, features), 1.3)
    event = romco.Round(np.array([0]), x, np.ones(1), np.array([h]))
    one, two = (romco.learner("arow-global", features, 1) for _ in range(2))
    one.update(event._replace(weight=np.array([2.0 * h])))
    two.update(event)
    two.update(event)
    gap = two.predict(event)[0] - one.predict(event)[0]
    assert -1e-12 <= gap < 0.091


def test_heavy_gradient_steps_stop_where_the_loss_does():
    learner = romco.learner("ogd-global", 2, 1, eta=0.1)
    event = romco.Round(np.array([0]), np.array([[1.0, 1.0]]), np.ones(1), np.array([1e6]))
    learner.update(event)
    assert learner.predict(event)[0] == pytest.approx(1.0)


@pytest.mark.parametrize("name", UNABLE)
def test_who_cannot_weigh_says_so_and_learns_nothing(name):
    learner = romco.learner(name, 7, 4)
    before = learner.state()["arrays"]
    with pytest.raises(ValueError, match=f"{name} cannot learn events that count differently"):
        learner.update(STREAM.events._replace(weight=np.ones(len(STREAM.y))))
    for part, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[part])


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_weights_are_refused(bad):
    learner = romco.learner("romco-auto", 7, 4)
    weight = np.ones(len(STREAM.y))
    weight[3] = bad
    with pytest.raises(ValueError, match="event 3"):
        learner.update(STREAM.events._replace(weight=weight))
    with pytest.raises(ValueError, match="one per event"):
        learner.update(STREAM.events._replace(weight=np.ones(2)))


def test_romco_auto_with_weights_equals_its_transcription():
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(STREAM.y))
    plain, expected = reference.Auto(7, 4), []
    for e in range(len(weight)):
        one = slice(e, e + 1)
        expected.append(plain.predict(STREAM.task[e], STREAM.x[e]))
        plain.update(STREAM.task[one], STREAM.x[one], STREAM.y[one], weight[one])
    np.testing.assert_allclose(replayed("romco-auto", weight)[1], expected, rtol=1e-7, atol=1e-9)


def test_rounds_keep_their_weights():
    weight = np.arange(len(STREAM.y), dtype=float)
    rounds = romco.Rounds(STREAM.task, STREAM.x, STREAM.y, STREAM.starts, weight)
    assert rounds[3].weight.tolist() == [3.0]
    assert rounds[2:5].events.weight.tolist() == [2.0, 3.0, 4.0]
    packed = romco.Rounds.pack([rounds[3], STREAM[4]])
    assert packed.weight.tolist() == [3.0, 1.0]
    assert romco.Rounds.pack([STREAM[3], STREAM[4]]).weight is None
