"""Published label policies keep their budget, in and out of the loop."""

import numpy as np
import pytest

import romco
from romco.evaluation import Delay
from romco_lab.label_policies import LABEL_POLICIES, PUBLISHED, evaluate

STREAM = romco.streams.simulated(n_tasks=4, n_features=6, n_events=60, seed=2)
ROUNDS = romco.streams.synchronous(STREAM, seed=0)
NAMES = [policy.name for policy in PUBLISHED]


def round_of(n):
    return romco.Round(np.arange(n) % 5, np.zeros((n, 1)), np.full(n, np.nan))


def made():
    return romco.learner("romco-auto", n_features=6, n_tasks=4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("margin", [0.0, 0.3, 1e9, np.inf])
@pytest.mark.parametrize("advance", [0, 100])
def test_never_above_the_budget(name, margin, advance):
    policy = LABEL_POLICIES[name](0.2, advance=advance, seed=7)
    asked = policy.ask(round_of(1500), np.where(np.arange(1500) % 2, margin, 0.1))
    limit = np.maximum(advance, 0.2 * np.arange(1, 1501) + 1.0)
    assert (np.cumsum(asked) <= limit + 1e-9).all()
    assert policy.spent == asked.sum()


@pytest.mark.parametrize("name", NAMES)
def test_never_silent_for_ever(name):
    policy = LABEL_POLICIES[name](0.05, seed=7)
    asked = policy.ask(round_of(30_000), np.full(30_000, np.inf))
    assert asked[10_000:].any()
    assert asked[20_000:].any()


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_decides_all_and_labels_nothing(name):
    round, margins = round_of(500), 9 * np.sin(np.arange(500.0))
    first = LABEL_POLICIES[name](0.2, seed=7).ask(round, margins)
    told = round._replace(y=np.sign(margins + 0.5))
    np.testing.assert_array_equal(LABEL_POLICIES[name](0.2, seed=7).ask(told, margins), first)
    assert (LABEL_POLICIES[name](0.2, seed=8).ask(round, margins) != first).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("delay", [0, Delay(5)])
def test_every_policy_in_the_loop(name, delay):
    policy = LABEL_POLICIES[name](0.2, seed=1)
    *_, record = evaluate(made(), ROUNDS, {}, 7, policy, delay)
    assert 0 < record.metrics["labels"]["asked"] <= 49
    assert 0 < record.metrics["labels"]["learned"] <= record.metrics["labels"]["asked"]


@pytest.mark.parametrize("name", ["peers", "committee"])
def test_trust_is_learned_from_the_labels_that_come(name):
    policy = LABEL_POLICIES[name](0.5, seed=1)
    list(evaluate(made(), ROUNDS, {}, 7, policy, delay=5))
    assert min(policy.trust(task, 4).min() for task in range(4)) < 1.0


def test_what_peers_say_is_learned_where_they_are_sure():
    def run(teach):
        learner = made()
        policy = LABEL_POLICIES["peers"](0.1, seed=1, teach=teach)
        list(evaluate(learner, ROUNDS, {}, 7, policy, delay=0))
        return learner.field("tasks", "level_precision").sum()

    assert run(teach=True) > run(teach=False) > 0.0
