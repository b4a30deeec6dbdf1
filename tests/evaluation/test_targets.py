"""Scores of classes and numbers against scikit-learn's, and the baselines."""

import numpy as np
import pytest
from sklearn import metrics

import romco
from romco.evaluation import (
    Brier,
    Calibration,
    ClassTable,
    Coverage,
    LogLoss,
    NumberErrors,
    baselines,
    prequential,
)

RNG = np.random.default_rng(0)


def rounds(y):
    n = len(y)
    return romco.Rounds(RNG.integers(3, size=n), RNG.normal(size=(n, 2)), y, np.arange(n + 1))


def test_scores_of_classes_are_scikit_learns():
    y = RNG.integers(4, size=300)
    chances = RNG.dirichlet(np.ones(4), 300)
    round = rounds(y.astype(float)).events
    table, loss, brier, calibration = ClassTable(4), LogLoss(), Brier(), Calibration(10)
    for metric in (table, loss, brier, calibration):
        for part in (slice(0, 100), slice(100, 300)):
            metric.add(round._replace(y=round.y[part]), np.log(chances[part]))
    answer = chances.argmax(axis=1)
    value = table.value()
    assert value["error"] == pytest.approx(1.0 - metrics.accuracy_score(y, answer))
    assert value["f1_macro"] == pytest.approx(metrics.f1_score(y, answer, average="macro"))
    np.testing.assert_array_equal(value["table"], metrics.confusion_matrix(y, answer))
    assert loss.value() == pytest.approx(metrics.log_loss(y, chances))
    assert brier.value() == pytest.approx(np.square(chances - np.eye(4)[y]).sum(axis=1).mean())
    stated = chances.max(axis=1)
    gaps = [abs((stated - (answer == y))[(stated * 10).astype(int) == b].sum()) for b in range(10)]
    assert calibration.value() == pytest.approx(sum(gaps) / 300)


def test_an_impossible_class_costs_much_but_not_everything():
    loss = LogLoss()
    loss.add(rounds(np.array([1.0])).events, np.array([[0.0, -np.inf]]))
    assert loss.value() == pytest.approx(-np.log(1e-15))


def test_scores_of_numbers_are_scikit_learns():
    y, found = RNG.normal(50.0, 2.0, 200), RNG.normal(50.0, 2.0, 200)
    errors = NumberErrors()
    for part in (slice(0, 1), slice(1, 200)):
        errors.add(rounds(y[part]).events, found[part])
    value = errors.value()
    assert value["mae"] == pytest.approx(metrics.mean_absolute_error(y, found))
    assert value["rmse"] == pytest.approx(np.sqrt(metrics.mean_squared_error(y, found)))
    assert value["r2"] == pytest.approx(metrics.r2_score(y, found))
    assert np.isnan(NumberErrors().value()["r2"])
    assert Coverage().value() == {"coverage": 0.0, "width": 0.0}


def test_the_loop_keeps_scores_of_every_target():
    y = RNG.integers(3, size=60).astype(float)
    many = romco.learner("classes", 2, 3, n_classes=3)
    *_, end = prequential(many, rounds(y), {"table": ClassTable(3), "loss": LogLoss()}, every=20)
    assert sum(map(sum, end.metrics["table"]["table"])) == 60
    number = romco.learner("romco-auto-number", 2, 3)
    *_, end = prequential(number, rounds(RNG.normal(size=60)), {"errors": NumberErrors()})
    assert end.metrics["errors"]["rmse"] > 0.0


def test_baselines_know_only_the_past():
    y, task = [3, 1, 1, 3, 3], ["a", "a", "b", "a", "b"]
    assert baselines.majority(y) == [None, 3, 3, 1, 3]
    assert baselines.last(y) == [None, 3, 1, 1, 3]
    assert baselines.last(y, task) == [None, 3, None, 1, 1]
    numbers = np.array(y, dtype=float)
    np.testing.assert_allclose(baselines.mean(numbers), [0.0, 3.0, 2.0, 5 / 3, 2.0])
    np.testing.assert_allclose(baselines.task_mean(numbers, task), [0.0, 3.0, 2.0, 2.0, 1.0])
