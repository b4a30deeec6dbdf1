"""OSMTL: transcription, the relation is a distribution, OGD as the limit."""

import numpy as np
import pytest

import romco
from romco.streams import interleaved, synchronous
from tests.learners.agreement import ROUNDS, SPARSE, UNEQUAL, compare, same_margins
from tests.reference import smoothed as reference

D, M = 9, 5
TRUST = {"osmtl-e": "exponential", "osmtl-t": "truncated"}
SETTINGS = [
    {},
    {"trigger": "mistake", "alpha": 0.2},
    {"lambda_": 0.02, "C": 0.3},
    {"lambda_": 50.0, "alpha": 0.0},
]


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("name", TRUST)
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_agrees_with_the_transcription(options, name, rounds):
    learner = romco.learner(name, D, M, **options)
    twin = reference.Smoothed(D, M, trust=TRUST[name], **options)
    if options.get("alpha") == 0.0 and len(rounds) == len(rounds.y):
        return  # no peers in a round of one event: nothing to learn from
    compare(learner, twin, rounds)
    np.testing.assert_allclose(learner.relation(), twin.P, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", TRUST)
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_without_peers_it_is_gradient_descent(name, C):
    for rounds in (synchronous(UNEQUAL, 1), synchronous(SPARSE, 1), interleaved(UNEQUAL, 1)):
        same_margins(
            romco.learner(name, D, M, alpha=1.0, C=C),
            romco.learner("ogd-unique", D, M, eta=C),
            rounds,
        )


@pytest.mark.parametrize("name", TRUST)
@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_every_row_of_the_relation_is_a_distribution_over_peers(name, options):
    learner = romco.learner(name, D, M, **options)
    for rounds in ROUNDS.values():
        for round in rounds:
            learner.update(round)
            relation = learner.relation()
            assert (relation >= 0).all()
            assert not relation.diagonal().any()
            np.testing.assert_allclose(relation.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_truncation_reaches_exact_zeros_and_the_exponential_does_not():
    rounds = synchronous(UNEQUAL, 1)
    relations = {}
    for name in TRUST:
        learner = romco.learner(name, D, M, lambda_=0.1)
        learner.replay(rounds)
        relations[name] = learner.relation() + np.eye(M)
    assert (relations["osmtl-t"] == 0).any()
    assert (relations["osmtl-e"] > 0).all()


@pytest.mark.parametrize("name", TRUST)
def test_a_single_task_has_no_peers(name):
    stream_round = romco.Round(np.array([0]), np.array([[1.0, 2.0]]), np.array([-1.0]))
    learner = romco.learner(name, 2, 1)
    learner.update(stream_round)
    np.testing.assert_allclose(learner.weights()[:, 0], [-0.5, -1.0])


@pytest.mark.parametrize("name", TRUST)
@pytest.mark.parametrize("old", [1, 3])
def test_new_tasks_enter_the_relation_with_an_equal_share(name, old):
    learner = romco.learner(name, D, old)
    rounds = synchronous(UNEQUAL, 1)
    kept = rounds.task < old
    for task, x, y, *_ in rounds:
        known = task < old
        if known.any():
            learner.update(romco.Round(task[known], x[known], y[known]))
    assert kept.any()
    grown = romco.grown(learner, D, M).relation()
    np.testing.assert_allclose(grown.sum(axis=1), 1.0)
    np.testing.assert_allclose(grown[:old, :old], learner.relation() * (old - 1) / (M - 1))
    np.testing.assert_allclose(grown[0, old:], 1 / (M - 1))


@pytest.mark.parametrize("wrong", [{"alpha": 1.5}, {"lambda_": 0.0}, {"C": 0}, {"trigger": "whim"}])
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        romco.learner("osmtl-e", D, M, **wrong)
