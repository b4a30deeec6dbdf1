"""Scores of classes and numbers against scikit-learn's, and the baselines."""

import numpy as np
import pytest
from sklearn import metrics

import romco
from benchmarks.other_targets import mean_of_the_task
from romco.evaluation import Score, baselines, prequential
from romco.model.rows import Rows


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def rounds(rng, y):
    n = len(y)
    return romco.Rounds(rng.integers(3, size=n), rng.normal(size=(n, 2)), y, np.arange(n + 1))


def test_scores_of_classes_are_scikit_learns(rng):
    y = rng.integers(4, size=300)
    chances = rng.dirichlet(np.ones(4), 300)
    round = rounds(rng, y.astype(float)).events
    score = Score("classes")
    for part in (slice(0, 100), slice(100, 300)):
        score.add(round._replace(y=round.y[part]), np.log(chances[part]))
    answer = chances.argmax(axis=1)
    assert score.error == pytest.approx(1.0 - metrics.accuracy_score(y, answer))
    assert score.f1 == pytest.approx(metrics.f1_score(y, answer, average="macro"))
    table = score.summary()["table"]
    counts = [[table[str(k)].get(str(j), 0) for j in range(4)] for k in range(4)]
    np.testing.assert_array_equal(counts, metrics.confusion_matrix(y, answer))
    assert score.log_loss == pytest.approx(metrics.log_loss(y, chances))
    stated = chances.max(axis=1)
    gaps = [abs((stated - (answer == y))[(stated * 15).astype(int) == b].sum()) for b in range(15)]
    assert score.calibration == pytest.approx(sum(gaps) / 300)


def test_an_impossible_class_costs_much_but_not_everything(rng):
    score = Score("classes")
    score.add(rounds(rng, np.array([1.0])).events, np.array([[0.0, -np.inf]]))
    assert score.log_loss == pytest.approx(-np.log(1e-15))


def test_scores_of_numbers_are_scikit_learns(rng):
    y, found = rng.normal(50.0, 2.0, 200), rng.normal(50.0, 2.0, 200)
    errors = Score("number")
    for part in (slice(0, 1), slice(1, 200)):
        errors.add(rounds(rng, y[part]).events, found[part])
    value = errors.value()
    assert value["mae"] == pytest.approx(metrics.mean_absolute_error(y, found))
    assert value["rmse"] == pytest.approx(np.sqrt(metrics.mean_squared_error(y, found)))
    assert value["r2"] == pytest.approx(metrics.r2_score(y, found))
    assert Score("number").value()["r2"] is None


def test_a_number_that_could_not_be_predicted_is_not_scored():
    score = Score("number")
    score.add_numbers(np.array([50.0, 52.0]), np.array([np.nan, 51.0]))
    value = score.value()
    assert (value["events"], value["rmse"], value["mae"]) == (1, 1.0, 1.0)
    assert value["baseline_rmse"] == 2.0  # the mean of the first
    first = Score("number")
    first.add_numbers(np.array([50.0]), np.array([50.5]))  # of a model that has learned before
    assert (first.error, first.baseline) == (0.5, 0.0)


def test_coverage_counts_only_numbers_with_an_interval():
    score = Score("number")
    assert score.coverage is None
    bounds = np.array([[49.0, 51.0], [50.0, 51.0]])
    score.add_numbers(np.array([50.0, 52.0]), np.array([50.0, 50.5]), bounds)
    score.add_numbers(np.array([50.0]), np.array([50.0]))
    assert score.coverage == 0.5
    assert "50.0% within their 90 % intervals" in score.line()


def test_a_class_that_nobody_knew_is_an_error_without_a_log_loss():
    model, score = romco.Model(target="classes"), Score("classes")
    rows, labels = [{"a": k % 3} for k in range(6)], ["x", "y", "z", "x", "y", "new"]
    answers = model.engine.predict_and_learn(Rows(rows, ["t"] * 6, labels))
    score.count(model, labels, answers)
    named = answers.probabilities[[3, 4], [0, 1]]
    assert score.log_loss == pytest.approx(-np.log(named).mean())
    assert score.summary()["error"] >= 4 / 6
    assert score.recent()["log_loss"] == score.log_loss


def test_the_loop_keeps_scores_of_every_target(rng):
    y = rng.integers(3, size=60).astype(float)
    many = romco.learner("classes", 2, 3, n_classes=3)
    *_, end = prequential(many, rounds(rng, y), {"score": Score("classes")}, every=20)
    assert sum(sum(row.values()) for row in end.metrics["score"]["table"].values()) == 60
    number = romco.learner("romco-auto-number", 2, 3)
    *_, end = prequential(number, rounds(rng, rng.normal(size=60)), {"errors": Score("number")})
    assert end.metrics["errors"]["rmse"] > 0.0


def test_baselines_know_only_the_past():
    y, task = [3, 1, 1, 3, 3], ["a", "a", "b", "a", "b"]
    assert baselines.majority(y) == [None, 3, 3, 1, 3]
    numbers = np.array(y, dtype=float)
    np.testing.assert_allclose(baselines.mean(numbers), [0.0, 3.0, 2.0, 5 / 3, 2.0])
    shrunk = baselines.shrunk_task_mean(numbers, task)
    changed = np.array([3.0, 1.0, 1.0, 3.0, 9.0])  # the last answer
    np.testing.assert_array_equal(baselines.shrunk_task_mean(changed, task), shrunk)


def test_past_answers_of_a_task_shrink_towards_all_tasks():
    rng = np.random.default_rng(3)
    rate = rng.dirichlet(np.ones(3) * 0.5, 40)
    task = rng.integers(40, size=1500)
    y = np.array([rng.choice(3, p=rate[t]) for t in task])
    rows = np.arange(len(y))
    everyone, own = baselines.class_rates(y, 3), baselines.task_class_rates(y, task, 3)
    for table in (everyone, own):
        np.testing.assert_allclose(table.sum(axis=1), 1.0)
        assert (table > 0.0).all()
    loss = [-np.log(table[rows, y]).mean() for table in (everyone, own)]
    assert loss[1] < 0.9 * loss[0]
    same = rng.integers(3, size=1500)  # tasks make no difference here
    loss = [
        -np.log(table[rows, same]).mean()
        for table in (baselines.class_rates(same, 3), baselines.task_class_rates(same, task, 3))
    ]
    assert loss[1] == pytest.approx(loss[0], rel=0.02)
    changed = y.copy()
    changed[-1] = (y[-1] + 1) % 3  # the last answer must not be known before
    np.testing.assert_array_equal(baselines.task_class_rates(changed, task, 3), own)


def test_shrunk_means_lie_between_the_task_and_all():
    rng = np.random.default_rng(4)
    level, task = rng.normal(size=30) * 5.0, rng.integers(30, size=900)
    y = level[task] + rng.normal(size=900)
    error = {
        name: np.sqrt(np.mean(np.square(predicted - y)))
        for name, predicted in (
            ("all", baselines.mean(y)),
            ("own", mean_of_the_task(task, y)),
            ("shrunk", baselines.shrunk_task_mean(y, task)),
        )
    }
    assert error["shrunk"] < error["own"] < error["all"]
