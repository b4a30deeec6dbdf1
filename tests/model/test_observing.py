"""Rows without labels: names, tasks and sizes are learned, and nothing else."""

import numpy as np
import pytest

import romco

ROWS = [{"length": 300.0, "free": 1.0}, {"length": 500.0, "lunch": 1.0}]


def test_names_tasks_and_sizes_are_learned_and_no_weight():
    model = romco.Model()
    model.engine.observe(ROWS, ["ann", "bob"])
    assert model.tasks == ["ann", "bob"]
    assert model.features.width == 3
    assert model.events == 0
    assert not model.engine.learner.weights().any()
    assert model.engine.learner.arrays()["typical"][0] == 2
    assert model.margins(ROWS, ["ann", "eve"]) == pytest.approx(0.0)


def test_it_grows_as_learning_does():
    model = romco.Model()
    model.engine.observe([{f"word{k}": 1.0 for k in range(200)}], ["ann"])
    model.engine.observe([{"word7": 2.0}] * 30, [f"user {k}" for k in range(30)])
    assert len(model.tasks) == 31
    assert model.engine.learner.n_features >= 200
    again = romco.Model.from_state(model.state())
    assert again.tasks == model.tasks


def test_noticing_and_learning_is_a_round_with_gaps():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4))
    y = np.where(x[:, 0] > 0, 1.0, -1.0)
    model = romco.Model(features=romco.model.Columns(4), classes=(-1, 1), tasks=[0, 1])
    learner = romco.learner("romco-auto", 4, model.engine.learner.n_tasks)
    for i in range(60):
        task, row = np.array([i % 2]), x[i : i + 1]
        gap = i % 3 > 0
        if gap:
            model.engine.observe(row, task.tolist())
        else:
            model.learn(row, [int(y[i])], task.tolist())
        learner.update(romco.Round(task, row, np.array([np.nan if gap else y[i]])))
    for name, array in learner.arrays().items():
        np.testing.assert_array_equal(model.engine.learner.arrays()[name], array)


def test_a_task_that_must_be_started_gets_no_number_before_its_first_label():
    model = romco.Model("romco-nucl")
    model.learn(ROWS, ["spam", "ham"], ["ann", "ann"])
    model.engine.observe([{"length": 1.0, "new": 1.0}], ["bob"])
    assert model.tasks == ["ann"]
    assert model.features.width == 4


def test_bad_rows_change_nothing():
    model = romco.Model()
    model.engine.observe(ROWS, ["ann", "bob"])
    before = model.state()
    with pytest.raises(ValueError, match=r"finite|number"):
        model.engine.observe([{"length": float("inf"), "other": 1.0}], ["eve"])
    with pytest.raises(ValueError, match="2 rows but task has 1"):
        model.engine.observe(ROWS, ["ann"])
    after = model.state()
    assert after["tasks"] == before["tasks"]
    assert after["features"] == before["features"]
    for name, array in before["arrays"].items():
        np.testing.assert_array_equal(after["arrays"][name], array)
