"""Labels that cost and labels that come late, in the loop."""

import numpy as np
import pytest

import romco
from romco import labels
from romco.evaluation import Delay, Score

STREAM = romco.streams.simulated(n_tasks=4, n_features=6, n_events=60, seed=2)
ROUNDS = romco.streams.synchronous(STREAM, seed=0)


def made(name="arow-shared"):
    return romco.learner(name, n_features=6, n_tasks=4)


def last(**options):
    learner = made()
    *_, record = romco.prequential(learner, ROUNDS, {"all": Score()}, every=7, **options)
    return learner, record


def test_a_policy_that_asks_for_all_is_the_plain_loop():
    plain, record = last()
    asking, same = last(labels=labels.Budget(1.0, audit=0.0, seed=0))
    np.testing.assert_array_equal(asking.weights(), plain.weights())
    assert same.metrics["all"] == record.metrics["all"]
    assert same.metrics["labels"]["asked"] == same.events == 240


def test_only_what_was_asked_for_is_learned():
    learner, record = last(labels=labels.Budget(0.1, advance=0, seed=3))
    assert 0 < record.metrics["labels"]["asked"] <= 25
    assert record.metrics["labels"]["learned"] == record.metrics["labels"]["asked"]
    policy, by_hand = labels.Budget(0.1, advance=0, seed=3), made()
    for round in ROUNDS:
        asked = policy.ask(round, by_hand.predict(round))
        if asked.any():
            by_hand.update(romco.Round(round.task[asked], round.x[asked], round.y[asked]))
    np.testing.assert_array_equal(learner.weights(), by_hand.weights())


@pytest.mark.parametrize("delay", [4, 10])
def test_late_labels_are_learned_after_so_many_events(delay):
    learner, record = last(delay=delay)
    by_hand, waiting = made(), []
    for t, round in enumerate(ROUNDS):
        while waiting and waiting[0][0] <= 4 * t:
            by_hand.update(waiting.pop(0)[1])
        waiting.append((4 * (t + 1) + delay, round))
    np.testing.assert_array_equal(learner.weights(), by_hand.weights())
    assert record.metrics["labels"]["learned"] == 240 - 4 * len(waiting)
    assert record.events == 240


def test_a_learner_gets_its_prediction_context_back_with_a_late_label():
    rng = np.random.default_rng(1)
    x, task = rng.normal(size=(1500, 3)), rng.integers(3, size=1500)
    level = np.repeat(rng.normal(size=30) * 3.0, 50)
    y = np.where(level + rng.logistic(size=1500) > 0, 1.0, -1.0)
    rounds = romco.Rounds(task, x, y, np.arange(1501))
    learner, by_hand = (romco.learner("romco-auto", 3, 3) for _ in range(2))
    list(romco.prequential(learner, rounds, {}, delay=60))
    waiting = []
    for round in rounds:
        if len(waiting) > 60:
            by_hand.update_delayed(*waiting.pop(0))
        waiting.append((round, by_hand.prediction_context(round)))
    for array, other in zip(learner.arrays().values(), by_hand.arrays().values(), strict=True):
        np.testing.assert_array_equal(array, other)


def test_labels_by_the_clock_arrive_in_their_own_order():
    stream = romco.streams.simulated(n_tasks=1, n_features=2, n_events=3, outliers=0)
    rounds = romco.streams.synchronous(stream, seed=0)
    learner, by_hand = (romco.learner("arow-shared", 2, 1) for _ in range(2))
    late = Delay.until([0.0, 5.0, 9.0], [9.0, 6.0, 99.0])
    *_, record = romco.prequential(learner, rounds, {}, delay=late)
    assert record.metrics["labels"]["learned"] == 2
    for e in (1, 0):  # event 1 arrives at 6, event 0 at 9
        by_hand.update(rounds[e])
    np.testing.assert_array_equal(learner.weights(), by_hand.weights())
    now = np.arange(240.0)
    learner, _ = last(delay=Delay.until(now, now))
    plain, _ = last()
    np.testing.assert_allclose(learner.predict(ROUNDS[0]), plain.predict(ROUNDS[0]), atol=0.5)


def test_bad_times_are_refused():
    with pytest.raises(ValueError, match=r"event 1: its label is known at 1\.0, before"):
        Delay.until([0, 2], [5, 1])
    with pytest.raises(ValueError, match="sort them"):
        Delay.until([3, 2], [5, 5])
    with pytest.raises(ValueError, match="delay"):
        Delay(-1)


@pytest.mark.parametrize("name", ["romco-auto", "arow-shared", "romco-nucl"])
@pytest.mark.parametrize("order", ["synchronous", "interleaved"])
def test_events_read_in_place_give_the_same_bits_as_copies(name, order):
    sparse = romco.streams.simulated(4, 6, 40, sparsity=0.5, seed=2)
    rounds = romco.streams.ORDERS[order](sparse, 0)

    def run(learner, delay):
        policy = labels.Budget(0.3, advance=5, seed=3)
        list(romco.prequential(learner, rounds, {}, every=9, labels=policy, delay=delay))
        return policy.spent

    for delay in (0, 7):
        compiled, plain = made(name), Uncompiled(made(name))
        assert run(compiled, delay) == run(plain, delay)
        arrays, others = compiled.arrays(), plain.inner.arrays()
        for array, other in zip(arrays.values(), others.values(), strict=True):
            np.testing.assert_array_equal(array, other)


class Uncompiled(romco.Learner):
    """A learner that hides its kernel, so that events are copied."""

    def __init__(self, inner):
        self.inner = inner
        self.n_features, self.n_tasks = inner.n_features, inner.n_tasks
        if hasattr(inner, "prediction_context"):
            self.prediction_context, self.update_delayed = (
                inner.prediction_context,
                inner.update_delayed,
            )
            self.set_context = inner.set_context

    def predict(self, round):
        return self.inner.predict(round)

    def update(self, round):
        self.inner.update(round)

    def replay(self, rounds):
        return self.inner.replay(rounds)

    def load(self, arrays):
        self.inner.load(arrays)

    def weights(self):
        return self.inner.weights()

    def arrays(self):
        return self.inner.arrays()


def test_what_is_not_asked_for_is_noticed_once():
    learner = made("romco-auto")
    list(romco.prequential(learner, ROUNDS, {}, labels=labels.Budget(0.2, seed=1), delay=3))
    assert learner.arrays()["typical"][0] <= 240
    blind = made("romco-auto")
    policy = labels.Budget(0.2, advance=0, seed=1)
    list(romco.prequential(blind, ROUNDS, {}, labels=policy))
    assert blind.arrays()["typical"][0] == 240  # every row, asked for or not


@pytest.mark.parametrize("name", labels.POLICIES)
def test_every_policy_in_the_loop(name):
    _, record = last(labels=labels.policy(name, 0.2, advance=0, seed=1))
    assert 0 < record.metrics["labels"]["asked"] <= 49
