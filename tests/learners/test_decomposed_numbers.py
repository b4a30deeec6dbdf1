"""The paper's learners for numbers: what they promise, and that they learn."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.evaluation import baselines
from romco.learners.romco import Romco
from tests.learners.test_numbers import D, M, rounds

NAMES = ("romco-nucl-number", "romco-logd-number")
LOSSES = ("squared", "epsilon-insensitive")


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", NAMES)
def test_learns_better_than_the_mean(name, loss):
    stream = rounds(n=600)
    said = romco.learner(name, D, M, loss=loss).replay(stream)
    mean = baselines.shrunk_task_mean(stream.y, stream.task)
    errors = [np.sqrt(np.mean((one - stream.y)[100:] ** 2)) for one in (said, mean)]
    assert errors[0] < 0.7 * errors[1]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_is_romcos_on_measured_numbers(loss):
    """By hand: answers from the running mean in running spreads, rows in usual lengths."""
    stream = rounds(n=60)
    name = {"squared": "least-squares"}.get(loss, loss)
    inner = Romco(D + 1, M, loss=name, eta1=0.1, eta2=0.1, lambda1=0.01, lambda2=0.01)
    inner.answers = 0
    learner, expected = romco.learner("romco-nucl-number", D, M, loss=loss), []

    def row(e, seen):
        usual = np.sqrt(np.mean((stream.x[:seen] ** 2).sum(axis=1))) if seen else 1.0
        x = stream.x[e] / usual
        return np.concatenate([[1.0], x / max(1.0, np.linalg.norm(x) / 3.0)])

    def said(e, seen):
        y = stream.y[:seen]
        task = stream.task[e : e + 1]
        margin = inner.predict(romco.Round(task, row(e, seen)[None], np.empty(0)))[0]
        return (y.mean() + y.std() * margin) if seen else 0.0

    for e in range(60):
        expected.append(said(e, e))
        y = stream.y[: e + 1]
        if e and y.std():
            off = np.clip((stream.y[e] - expected[e]) / y.std(), -3.0, 3.0)
            z = np.array([(expected[e] - y.mean()) / y.std() + off])
            inner.update(romco.Round(stream.task[e : e + 1], row(e, e + 1)[None], z))
    np.testing.assert_allclose(learner.replay(stream), expected, rtol=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_place_and_unit_do_not_matter(name):
    stream = rounds()
    moved = romco.Rounds(stream.task, stream.x, 1e6 - 7.0 * stream.y, stream.starts)
    one, other = (romco.learner(name, D, M).replay(s) for s in (stream, moved))
    np.testing.assert_allclose(other[1:], 1e6 - 7.0 * one[1:], rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_promises(name):
    stream = rounds()
    whole, half = romco.learner(name, D, M), romco.learner(name, D, M)
    expected = whole.replay(stream)
    half.replay(stream[:70])
    resumed = romco.restore(half.state())
    np.testing.assert_array_equal(resumed.replay(stream[70:]), expected[70:])
    sparse = romco.Rounds(stream.task, csr_array(stream.x), stream.y, stream.starts)
    np.testing.assert_allclose(romco.learner(name, D, M).replay(sparse), expected, rtol=1e-7)
    W = whole.weights()
    left, right = whole.shared_factors()
    np.testing.assert_allclose(left @ right.T + whole.personal_sparse().toarray(), W, atol=1e-9)
    whole.forget_task(0)
    assert not whole.personal_sparse().toarray()[:, 0].any()


def test_bad_answers_change_nothing():
    learner = romco.learner("romco-nucl-number", D, M)
    learner.replay(rounds(n=20))
    before = learner.state()["arrays"]
    x = np.ones((1, D))
    for bad in (
        romco.Round(np.array([0]), x, np.array([np.inf])),
        romco.Round(np.array([M]), x, np.array([1.0])),
        romco.Round(np.array([0]), x * np.nan, np.array([1.0])),
    ):
        with pytest.raises(ValueError, match="event 0"):
            learner.update(bad)
    with pytest.raises(ValueError, match="count differently"):
        learner.update(romco.Round(np.array([0]), x, np.ones(1), np.ones(1)))
    for name, array in learner.arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_a_model_grows_with_names():
    model = romco.Model("romco-nucl", target="number")
    rng = np.random.default_rng(0)
    for k in range(120):
        x = {"a": float(rng.normal()), f"new {k // 40}": 1.0}
        model.learn_one(x, 10.0 + 2.0 * x["a"], f"u{k % 3}")
    assert abs(model.predict_one({"a": 1.0}, "u0") - 12.0) < 1.0
