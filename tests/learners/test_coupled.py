"""Coupled perceptrons: transcription, limits of the coupling, and where growth must stop."""

import numpy as np
import pytest

import romco
from romco.checks import assert_same_state
from tests.learners.agreement import ROUNDS, compare, same_margins
from tests.reference import coupled as reference

D, M = 9, 5
RULES = [
    {"trigger": "margin", "C": 0.3},
    {"trigger": "margin", "step": "pa", "C": 0.2},
    {"trigger": "margin", "step": "pa", "C": 100.0},
    {"step": "pa"},
]
DIVERGENCES = {"omtlvon": "von Neumann", "omtllog": "log det"}
SETTINGS = [
    {"eta": 1e-3},
    {"eta": 1e-2, "b": 2.0, "prime": 30},
    {"eta": 1e-5, "b": 0.5},
    {"eta": 1e-2, "b": 1.0, "refresh": "round"},
    {"eta": 1e-3, "refresh": "round", "prime": 20},
    *({"eta": 1e-2, "b": 0.5, "refresh": "round", **rule} for rule in RULES),
    *({"eta": 1e-2, **rule} for rule in RULES[:2]),
]


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("b", [0.0, 1.0, 5.0])
def test_fixed_relation_agrees_with_the_transcription(b, rounds):
    compare(romco.learner("perceptron-coupled", D, M, b=b), reference.Coupled(D, M, b=b), rounds)


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_each_step_agrees_with_the_transcription(rule, rounds):
    learner = romco.learner("perceptron-coupled", D, M, b=2.0, **rule)
    compare(learner, reference.Coupled(D, M, b=2.0, **rule), rounds)


def test_uncoupled_passive_aggressive_steps_on_margins_are_pa():
    for rounds in ROUNDS.values():
        rule = {"trigger": "margin", "step": "pa", "C": 0.4}
        learner = romco.learner("perceptron-coupled", D, M, b=0.0, **rule)
        same_margins(learner, romco.learner("pa-unique", D, M, C=0.4), rounds)


@pytest.mark.parametrize("rounds", ROUNDS.values(), ids=ROUNDS)
@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize(
    "options",
    [*SETTINGS[:5], *(pytest.param(one, marks=pytest.mark.slow) for one in SETTINGS[5:])],
    ids=str,
)
def test_learned_relation_agrees_with_the_transcription(options, name, rounds):
    learner = romco.learner(name, D, M, **options)
    twin = reference.LearnedRelation(D, M, divergence=DIVERGENCES[name], **options)
    compare(learner, twin, rounds)
    np.testing.assert_allclose(learner.relation(), twin.B, rtol=0, atol=1e-10)
    assert np.abs(learner.relation() - reference.Coupled(D, M, b=options.get("b", 0.0)).B).max() > 0


class Perceptrons(reference.Linear):
    def learn(self, i, x, y):
        if reference.sign(self.W[:, i] @ x) != y:
            self.W[:, i] += y * x


def test_without_coupling_perceptrons_are_independent():
    for rounds in ROUNDS.values():
        compare(romco.learner("perceptron-coupled", D, M, b=0.0), Perceptrons(D, M), rounds)


def test_very_strong_coupling_is_one_perceptron_for_all():
    learner = romco.learner("perceptron-coupled", D, M, b=1e15)
    learner.replay(ROUNDS["unequal tasks"])
    np.testing.assert_allclose(learner.weights(), learner.weights()[:, :1].repeat(M, 1), atol=1e-9)


@pytest.mark.parametrize("name", DIVERGENCES)
def test_while_priming_the_relation_is_fixed(name):
    rounds = ROUNDS["batches"]
    primed = romco.learner(name, D, M, b=2.0, prime=len(rounds.y))
    same_margins(primed, romco.learner("perceptron-coupled", D, M, b=2.0), rounds)
    np.testing.assert_allclose(primed.relation(), reference.Coupled(D, M, b=2.0).B, atol=1e-15)


@pytest.mark.parametrize("name", DIVERGENCES)
@pytest.mark.parametrize("eta", [1e-6, 1e-2, 10.0])
def test_normalised_relations_have_trace_m_and_no_negative_eigenvalue(name, eta):
    learner = romco.learner(name, D, M, eta=eta)
    learner.replay(ROUNDS["unequal tasks"])
    relation = learner.relation()
    np.testing.assert_allclose(np.trace(relation), M)
    np.testing.assert_array_equal(relation, relation.T)
    assert np.linalg.eigvalsh(relation).min() > -1e-12


@pytest.mark.parametrize("name", DIVERGENCES)
def test_a_relation_that_overflows_is_an_error_and_changes_nothing(name):
    learner = romco.learner(name, 2, 2, eta=1e300)
    learner.update(romco.Round(np.array([0]), np.array([[1e5, 0.0]]), np.array([-1.0])))
    before = learner.state()
    round = romco.Round(np.array([0]), np.array([[1e5, 1e5]]), np.array([1.0]))
    with pytest.raises(FloatingPointError, match="overflowed"):
        learner.update(round)
    assert_same_state(learner.state(), before)


@pytest.mark.parametrize("name", ["perceptron-coupled", *DIVERGENCES])
def test_growing_keeps_what_was_learned(name):
    learner = romco.learner(name, D, M, b=1.0)
    learner.replay(ROUNDS["unequal tasks"])
    grown = romco.grown(learner, D + 1, M + 2)
    np.testing.assert_array_equal(grown.weights()[:D, :M], learner.weights())
    assert not grown.weights()[:, M:].any()


@pytest.mark.parametrize(
    "wrong",
    [
        *({"eta": 0.0}, {"b": -1.0}, {"prime": -1}, {"prime": 0.5}),
        *({"trigger": "loss"}, {"step": "PA"}, {"C": 0.0}, {"refresh": "never"}),
    ],
)
def test_impossible_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        romco.learner("omtlvon", D, M, **wrong)
