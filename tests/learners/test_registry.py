import numpy as np
import pytest

import romco
from romco.streams import simulated, synchronous

STREAM = simulated(n_tasks=4, n_features=8, n_events=20, outliers=1)


def test_unknown_learner_lists_the_known():
    with pytest.raises(ValueError, match="romco-nucl"):
        romco.learner("romco", 3, 2)


def test_unknown_parameter_lists_the_known():
    with pytest.raises(ValueError, match="eta1"):
        romco.learner("romco-nucl", 3, 2, eta3=1.0)


def test_nuclear_has_no_schedule_of_rho():
    with pytest.raises(ValueError, match="rho"):
        romco.learner("romco-nucl", 3, 2, rho="1/t")


@pytest.mark.parametrize(("d", "m"), [(0, 2), (3, 0), (-1, 2), (2.5, 2), (3, True)])
def test_sizes_must_be_whole_and_positive(d, m):
    with pytest.raises(ValueError, match="whole number"):
        romco.learner("ogd-unique", d, m)


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_a_restored_learner_knows_what_it_was(name):
    learner = romco.learner(name, 8, 4)
    rounds = synchronous(STREAM, 0)
    learner.replay(rounds[:10])
    other = romco.restore(learner.state())
    assert (other.name, other.parameters) == (learner.name, learner.parameters)
    np.testing.assert_array_equal(other.replay(rounds[10:]), learner.replay(rounds[10:]))


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_damaged_states_are_refused(name):
    learner = romco.learner(name, 8, 4)
    learner.replay(synchronous(STREAM, 0)[:10])
    state = learner.state()
    key = next(iter(state["arrays"]))
    damaged = [
        {k: v for k, v in state["arrays"].items() if k != key},
        {**state["arrays"], "stowaway": np.zeros(1)},
        {**state["arrays"], key: np.zeros((77, 77, 77))},
    ]
    for arrays in damaged:
        with pytest.raises(ValueError, match="state"):
            romco.restore({**state, "arrays": arrays})


def test_growing_keeps_what_was_learned():
    learner = romco.learner("ogd-unique", 8, 4)
    learner.replay(synchronous(STREAM, 0))
    grown = romco.grown(learner, 10, 6)
    np.testing.assert_array_equal(grown.weights()[:8, :4], learner.weights())
    assert not grown.weights()[8:].any()
    with pytest.raises(ValueError, match="shrink"):
        romco.grown(learner, 7, 4)


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_every_learner_is_described_and_can_be_tuned(name):
    method = romco.LEARNERS[name]
    assert method.summary
    assert set(method.space) <= set(method.parameters)
