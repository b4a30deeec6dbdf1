"""Means of the mixed learner of numbers, found from all rows at once."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

import romco
from romco.kernels.auto import constants
from romco.learners import joint


def people(n, seed=0, n_tasks=8):
    """Rows of five columns, tasks, and numbers that follow a curve and what is personal."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, 5))
    task = random.integers(n_tasks, size=n)
    own = random.normal(size=n_tasks)
    y = np.sin(2.0 * x[:, 0]) + x[:, 1] * own[task] + own[task] + 0.2 * random.normal(size=n)
    return pd.DataFrame(x, columns=list("abcde")), [f"t{i}" for i in task], y.tolist()


def test_the_mode_is_that_of_weighted_least_squares_solved_again_and_again():
    random = np.random.default_rng(3)
    design = random.normal(size=(60, 7)) * (random.random((60, 7)) < 0.5)
    y = design @ random.normal(size=7) + random.standard_t(3, size=60)
    prior, weight, noise = random.uniform(0.1, 2.0, 7), random.uniform(0.5, 2.0, 60), 0.3
    nu = constants.DEGREES_OF_FREEDOM
    expected = np.zeros(7)
    for _ in range(200):
        trust = weight * (nu + 1.0) / (nu * noise + (y - design @ expected) ** 2)
        precision = design.T @ (trust[:, None] * design) + np.diag(1.0 / prior)
        expected = np.linalg.solve(precision, design.T @ (trust * y))
    rows = joint.Rows(csr_array(design), y, weight)
    np.testing.assert_allclose(joint.mode(rows, prior, noise, np.zeros(7)), expected, atol=2e-3)


def test_few_rows_are_fitted_nearly_as_well_as_by_ridge_regression():
    ratios = []
    for seed in range(6):
        random = np.random.default_rng(seed)
        x = random.normal(size=(560, 10))
        y = x @ random.normal(size=10) + 0.3 * random.normal(size=560)
        frame = pd.DataFrame(x, columns=list("abcdefghij"))
        task = [f"t{i}" for i in random.integers(10, size=560)]
        model = romco.Model(target="number").fit(frame[:60], y[:60].tolist(), task[:60])
        wrong = np.asarray(model.margins(frame[60:], task[60:])) - y[60:]
        ridge = np.linalg.solve(x[:60].T @ x[:60] + np.eye(10), x[:60].T @ y[:60])
        ratios.append(np.std(wrong) / np.std(x[60:] @ ridge - y[60:]))
    assert np.mean(ratios) < 1.35  # 1.5 where rows are only learned in turn


def test_rows_that_are_too_many_are_fitted_as_before(monkeypatch):
    x, task, y = people(300)
    model = romco.Model(target="number").fit(x, y, task)
    monkeypatch.setattr(joint, "ENTRIES_MAX", 100)
    in_turn = romco.Model(target="number").fit(x, y, task)
    later, of, truth = people(300, n_tasks=8)
    wrong = [np.std(np.asarray(one.margins(later, of)) - truth) for one in (model, in_turn)]
    assert 0.0 < wrong[0] < wrong[1] < 0.5 * np.std(truth)


@pytest.mark.parametrize("size", [1e-50, 1e-3, 1e50])
def test_the_unit_of_answers_does_not_matter(size):
    x, task, y = people(300)
    scaled = [size * answer for answer in y]
    found = romco.Model(target="number").fit(x, scaled, task).margins(x, task)
    plain = romco.Model(target="number").fit(x, y, task).margins(x, task)
    np.testing.assert_allclose(found / size, plain, atol=1e-5 * np.std(y))


def test_an_intercept_that_moves_leaves_the_own_learner_where_it_was():
    x, task, y = people(300)
    model = romco.Model(target="number").fit(x, [answer + 1000.0 for answer in y], task)
    wrong = np.asarray(model.margins(x, task)) - y - 1000.0
    assert np.std(wrong) < 0.35
    assert abs(np.mean(wrong)) < 0.1
