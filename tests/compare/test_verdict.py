"""The verdict on data whose answer is known, and its controls."""

import base64
from dataclasses import replace

import numpy as np
import pytest

import romco
from romco.compare import controls, refitted, results
from romco.compare.controls import (
    CONTROLS,
    ENGINE,
    FREQUENCY,
    HISTORY,
    ONE_HOT,
    POOLED,
    REFITTED,
    TREES,
)
from romco.compare.results import Finished, Row
from romco.compare.verdict import NO_BATCH, ONE_TASK, gain, task_gains, verdict
from romco.evaluation import Delay
from romco.streams import Stream


def two_classes(margin, task, x, seed=0, name="made"):
    rng = np.random.default_rng(seed)
    y = np.where(margin + rng.logistic(size=len(task)) > 0, 1.0, -1.0)
    names = tuple(f"t{k}" for k in range(int(task.max()) + 1))
    return Stream(name, task, x, y, names, ("no", "yes"))


def personal(n=3000, m=30, d=6, seed=0):
    """Tasks differ in direction, but within a plane that they share."""
    rng = np.random.default_rng(seed)
    task, x = rng.integers(m, size=n), rng.normal(size=(n, d))
    w = rng.normal(size=(m, 2)) @ rng.normal(size=(2, d)) * 1.5
    return two_classes((x * w[task]).sum(axis=1), task, x, seed)


def impersonal(n=3000, m=30, d=6, seed=0):
    """All tasks have the same weights."""
    rng = np.random.default_rng(seed)
    task, x = rng.integers(m, size=n), rng.normal(size=(n, d))
    return two_classes(x @ (1.2 * rng.normal(size=d)), task, x, seed)


def rare(n=3000, m=60, seed=0):
    """4 % positives by chance alone."""
    rng = np.random.default_rng(seed)
    task, x = rng.integers(m, size=n), rng.normal(size=(n, 4))
    return two_classes(np.full(n, -3.2), task, x, seed)


def level(n=3000, m=60, seed=0):
    """Each task has its own frequency, and columns say nothing."""
    rng = np.random.default_rng(seed)
    task, x = rng.integers(m, size=n), rng.normal(size=(n, 4))
    return two_classes(4.0 * rng.normal(size=m)[task], task, x, seed)


def judged(stream, shuffles=2):
    """Rows and verdict of a stream, without files."""
    table = []
    for name in (*CONTROLS, POOLED, ENGINE):
        runs = []
        for seed in range(shuffles):
            rounds = romco.streams.interleaved(stream, seed)
            values = controls.predict(name, stream, rounds, {})
            known = np.arange(stream.n_events)
            losses, wrong = results.event_losses(stream, rounds.events.y, values, known)
            order = np.random.default_rng([seed, stream.n_events]).permutation(stream.n_events)
            about = {"answers": stream.answers, "tasks": list(stream.tasks)}
            code = base64.b64encode(losses[np.argsort(order)].astype("<f8").tobytes())
            end = {"losses": code.decode(), "error": wrong.mean()}
            runs.append(Finished(None, about, {}, [], end, None))
        table.append(Row(name, runs, stream.task))
    return {row.name: row for row in table}, verdict(table)


def test_a_gain_is_seen_where_tasks_share_directions():
    rows, found = judged(personal())
    assert found.title.startswith("Sharing between tasks lowers the log loss by ")
    share = gain(found.sharing, found.reference)
    assert share.low > 0.03
    assert rows[ENGINE].loss < min(row.loss for name, row in rows.items() if name != ENGINE)
    assert "ROMCO-Auto (log loss " in found.text
    assert found.text.count(". ") == 3  # a title, two sentences, and that no batch model was fitted
    assert NO_BATCH in found.text


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_difference_where_tasks_are_all_alike(seed):
    rows, found = judged(impersonal(seed=seed))
    assert "lowers" not in found.title
    assert rows[ENGINE].loss < 1.02 * rows[POOLED].loss


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_no_difference_where_always_no_is_as_good(seed):
    rows, found = judged(rare(seed=seed))
    assert found.title.startswith("No clear difference: nothing is sure to beat the overall freq")
    wrong = {name: row.mean("error") for name, row in rows.items()}
    assert wrong[POOLED] <= wrong[FREQUENCY] + 0.005  # not wrong on the first event of each task


def test_past_answers_of_the_task_are_given_their_due():
    rows, found = judged(level())
    assert found.with_task.name == HISTORY
    assert (
        found.title == "Knowing the task helps; sharing between tasks makes no clear difference"
        or (found.title == "Sharing does not help here: Past answers of the task is better")
    )
    assert "with it, but without sharing, Past answers of the task" in found.text
    assert rows[HISTORY].loss < 0.9 * rows[FREQUENCY].loss


def test_one_task_has_nothing_to_share():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    _, found = judged(two_classes(x[:, 0] * 2.0, np.zeros(200, dtype=np.int64), x))
    assert found.title == ONE_TASK


def test_numbers_are_judged_by_their_rmse():
    rng = np.random.default_rng(5)
    task, x = rng.integers(60, size=1500), rng.normal(size=(1500, 10))
    w = rng.normal(size=(60, 1)) @ rng.normal(size=(1, 10))
    y = 500.0 + 10.0 * ((x * w[task]).sum(axis=1) + 3.0 * rng.normal(size=1500))
    names = tuple(f"t{k}" for k in range(60))
    rows, found = judged(Stream("made", task, x, y, names, (), answers=0))
    assert found.title.startswith("Sharing between tasks lowers the RMSE by ")
    assert rows[FREQUENCY].measure == pytest.approx(y.std(), rel=0.02)
    assert np.isnan(rows[ENGINE].losses).sum() == 2  # the first of each shuffle
    share = gain(found.sharing, rows[FREQUENCY])
    ratio = rows[ENGINE].measure / rows[FREQUENCY].measure
    assert share.value == pytest.approx(1.0 - ratio, rel=0.02)


def test_nothing_is_said_of_tasks_with_few_events():
    stream = personal(n=400, m=30)
    _, found = judged(stream)
    gains = task_gains(found)
    counts = np.bincount(stream.task)
    assert {one.events for one in gains} <= {n for n in counts.tolist() if n >= 20}
    assert len(gains) == np.count_nonzero(counts >= 20) < 30


def test_tasks_come_by_what_they_gain():
    _, found = judged(personal())
    parts = [one.after / one.before for one in task_gains(found)]
    assert parts == sorted(parts)
    assert len(parts) == 30


def rows_of(losses):
    about = {"answers": 1, "tasks": ["a", "b"]}
    task = np.arange(losses[0].shape[1]) % 2
    runs = [[Finished(None, about, {}, [], {}, None)] for _ in losses]
    made = [Row(name, run, task) for name, run in zip("abcdefgh", runs, strict=False)]
    for row, loss in zip(made, losses, strict=True):
        row.__dict__["losses"] = loss  # as if read from files
    return made


def test_the_interval_covers_the_order_and_the_events():
    rng = np.random.default_rng(0)
    old = 1.0 + rng.normal(size=(3, 2000)) * 0.1
    small = gain(*rows_of([old - 0.005, old]))
    assert small.low > 0.0  # certain,
    assert small.sign == 0  # but not worth speaking of
    noisy = gain(*rows_of([old - 0.05 + rng.normal(size=(1, 2000)) * 2.0, old]))
    assert noisy.sign == 0  # each shuffle agrees, the events do not
    assert gain(*rows_of([old - 0.05, old])).sign == 1
    assert gain(*rows_of([old + 0.05, old])).sign == -1
    shaken = old - np.array([[0.2], [-0.1], [0.05]])
    assert gain(*rows_of([shaken, old])).sign == 0  # shuffles disagree


def test_every_control_predicts_before_it_learns():
    stream = personal(n=300, m=5)
    rounds = romco.streams.interleaved(stream, 0)
    turned = romco.Rounds(
        rounds.task, rounds.x, np.append(rounds.y[:-1], -rounds.y[-1]), rounds.starts
    )
    for name in (*CONTROLS, POOLED, ONE_HOT, REFITTED, ENGINE, "pa-unique"):
        first = controls.predict(name, stream, rounds, {})
        assert first.shape == (300, 2)
        np.testing.assert_allclose(first.sum(axis=1), 1.0)
        np.testing.assert_array_equal(controls.predict(name, stream, turned, {}), first)


@pytest.mark.parametrize("answers", [1, 3, 0])
@pytest.mark.parametrize("delay", [pytest.param(Delay(0), marks=pytest.mark.slow), Delay(7)])
def test_every_control_knows_only_labels_that_have_come(answers, delay):
    """Moments of ten events; the labels from event 100 on, or 93, are others."""
    rng = np.random.default_rng(0)
    x, task = rng.normal(size=(150, 3)), rng.integers(4, size=150)
    y = x[:, 0] + rng.normal(size=150)
    if answers == 1:
        y = np.where(y > 0, 1.0, -1.0)
    elif answers:
        y = np.digitize(y, [-0.5, 0.5]).astype(float)
    moment = np.arange(150.0) // 10
    tasks, labels = tuple("abcd"), ("n", "y", "z")[: max(answers, 2)]
    stream = Stream("made", task, x, y, tasks, labels, answers=answers, moment=moment)
    known = 100 if delay.events == 0 else 90
    changed = replace(stream, y=np.concatenate([y[:known], np.roll(y[known:], 1)]))
    trees = [TREES] if refitted.has_trees() else []
    for name in (*CONTROLS, POOLED, ONE_HOT, REFITTED, *trees, ENGINE, "pa-unique"):
        one, other = (
            controls.predict(name, made, romco.streams.recorded(made), {}, delay)
            for made in (stream, changed)
        )
        np.testing.assert_array_equal(one[:110], other[:110], name)
        assert (one[110:] != other[110:]).any(), name


def test_a_regression_per_task_is_that_of_scikit_learn():
    from sklearn.linear_model import LogisticRegression

    stream = personal(n=400, m=4)
    rounds = romco.streams.recorded(stream)
    chance = controls.predict(REFITTED, stream, rounds, {})[:, 1]
    task, x, y = stream.task, stream.x, stream.y
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    own = np.flatnonzero(task == 0)
    fits = [1]
    while fits[-1] < len(own):
        fits.append(max(fits[-1] + 1, int(np.ceil(1.25 * fits[-1]))))
    n = fits[-2]  # events of the last fit
    model = LogisticRegression().fit(scaled[own[:n]], y[own[:n]])
    last = own[-1]
    rate = (1.0 + (y[:last] > 0).sum()) / (last + 2.0)
    expected = (n * model.predict_proba(scaled[[last]])[0, 1] + rate) / (n + 1.0)
    assert chance[last] == pytest.approx(expected, rel=1e-6)


def test_the_verdict_names_a_batch_model_that_is_better():
    rng = np.random.default_rng(0)
    base = 1.0 + 0.1 * rng.normal(size=(1, 2000))
    names = (*CONTROLS, REFITTED, ENGINE)
    made = rows_of([base] * len(CONTROLS) + [base - 0.3, base - 0.1])
    table = [replace(row, name=name) for row, name in zip(made, names, strict=True)]
    for new, old in zip(table, made, strict=True):
        new.__dict__["losses"] = old.losses
    found = verdict(table)
    assert found.title == "Sharing does not help here: Logistic regression per task is better"
