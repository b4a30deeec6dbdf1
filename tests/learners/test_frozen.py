"""Frozen predictors: the documented formula gives the learner's margins."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from tests.reference.frozen import frozen_margin

TASKS = 6


def stream(seed, d, n, dense_share=0.4):
    """Rows of features of any size, some always there, some binary."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d) + rng.integers(0, 3, d)
    x *= rng.random((n, d)) < np.where(rng.random(d) < dense_share, 1.0, 0.3)
    x[:, 0] = rng.random(n) < 0.9
    task = rng.integers(TASKS, size=n)
    y = np.where(x[:, 1] * np.where(task % 2, 1.0, -1.0) + rng.normal(size=n) > 0.0, 1.0, -1.0)
    return task, x, y


def stored(rows):
    """Sparse rows that store all of their zeros."""
    n, d = rows.shape
    return csr_array((rows.ravel(), np.tile(np.arange(d), n), d * np.arange(n + 1)), shape=(n, d))


def margins_by_reference(predictor, tasks, rows):
    features = [dict(enumerate(row)) for row in rows]
    pairs = zip(tasks, features, strict=True)
    return [frozen_margin(predictor, task, row) for task, row in pairs]


@pytest.mark.parametrize(("d", "n"), [(5, 1), (5, 30), (5, 400), (130, 600)])
def test_romco_auto(d, n):
    """Few and many events; covariances, and so many frequent features that there are none."""
    task, x, y = stream(n, d, n + 20)
    learner = romco.learner("romco-auto", d, TASKS + 1)
    learner.replay(romco.Rounds(task[:n], x[:n], y[:n], np.arange(n + 1)))
    rows = x[n:]
    rows[0] = 0.0
    predictor = learner.frozen_predictor()
    known = learner.predict_frozen(romco.Round(task[n:], stored(rows), np.empty(0)))
    new = learner.predict_frozen(romco.Round(np.full(20, TASKS), stored(rows), np.empty(0)))
    assert margins_by_reference(predictor, task[n:], rows) == pytest.approx(known, abs=1e-12)
    assert margins_by_reference(predictor, [None] * 20, rows) == pytest.approx(new, abs=1e-12)


@pytest.mark.parametrize("name", ["pa-unique", "ogd-global", "pa-shared", "romco-nucl", "mtfl"])
def test_linear_learners(name):
    task, x, y = stream(1, 5, 120)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    learner = romco.learner(name, 5, TASKS)
    learner.replay(romco.Rounds(task, x, y, np.arange(121)))
    expected = learner.predict_frozen(romco.Round(task, x, y))
    found = margins_by_reference(learner.frozen_predictor(), task, x)
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("d", "n"), [(5, 1), (5, 2), (5, 30), (5, 400), (130, 600), (8, 1500)])
def test_numbers(d, n):
    """One answer, two; many events, of which curves are learned."""
    task, x, _ = stream(n, d, n + 20)
    turns = np.sin(6.0 * x[:, 2] / np.abs(x[:, 2]).max())
    y = 500.0 + 40.0 * turns + 0.1 * x[:, 1] * np.where(task % 2, 1.0, -1.0)
    learner = romco.learners.known("romco-auto-number")(d, TASKS + 1)
    learner.replay(romco.Rounds(task[:n], x[:n], y[:n], np.arange(n + 1)))
    rows = x[n:]
    rows[0] = 0.0
    predictor = learner.frozen_predictor()
    assert n < 1500 or len(predictor.functions.scales)
    known = learner.predict_frozen(romco.Round(task[n:], stored(rows), np.empty(0)))
    new = learner.predict_frozen(romco.Round(np.full(20, TASKS), stored(rows), np.empty(0)))
    assert margins_by_reference(predictor, task[n:], rows) == pytest.approx(known, rel=1e-13)
    assert margins_by_reference(predictor, [None] * 20, rows) == pytest.approx(new, rel=1e-13)


@pytest.mark.parametrize("name", ["romco-nucl-number", "classes"])
def test_others_say_that_they_have_none(name):
    learner = romco.learners.known(name)(5, TASKS)
    with pytest.raises(ValueError, match="cannot be exported yet"):
        learner.frozen_predictor()


def test_functions_of_columns():
    """Waves of one column, and a product of two."""
    rng = np.random.default_rng(3)
    n = 1200
    x, task = rng.normal(size=(n + 60, 4)), rng.integers(TASKS, size=n + 60)
    y = np.where(x[:, 0] * x[:, 1] + x[:, 2] ** 2 - 1.0 > 0.0, 1.0, -1.0)
    learner = romco.learner("romco-auto", 4, TASKS)
    learner.replay(romco.Rounds(task[:n], x[:n], y[:n], np.arange(n + 1)))
    predictor = learner.frozen_predictor()
    second = predictor.functions.factors[:, 2]
    assert (second >= 0).any()
    assert (second < 0).any()
    expected = learner.predict_frozen(romco.Round(task[n:], x[n:], np.empty(0)))
    found = margins_by_reference(predictor, task[n:], x[n:])
    assert found == pytest.approx(expected, abs=1e-12)
