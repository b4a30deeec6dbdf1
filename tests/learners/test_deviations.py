"""Standard deviations of scores: the truth lies within two of them as often as it should."""

import numpy as np
import pytest
from scipy.special import logit, softmax

import romco
from tests.reference.auto import Auto, AutoNumber

D, OFTEN, SELDOM, NEVER = 5, 60, 30, 30  # features, tasks of each kind
TASKS, EVENTS = OFTEN + SELDOM + NEVER, 6000
# Worlds, and the bounds of a share: few worlds tell less.
SIZES = [(8, 0.92, 0.99), pytest.param(48, 0.93, 0.97, marks=pytest.mark.slow)]
GROUPS = np.repeat(["often", "seldom", "never"], [OFTEN, SELDOM, NEVER])


def world(kind, seed):
    """A stream of tasks that differ more or less, and rows of all tasks with their true scores."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=D) + rng.uniform(0.0, 0.8) * rng.normal(size=(TASKS, D))
    levels = rng.normal(0.0, 0.7, TASKS)
    five = np.repeat(OFTEN + np.arange(SELDOM), 5)  # events of those who are seldom seen
    task = np.concatenate([rng.integers(0, OFTEN, EVENTS - len(five)), five])
    rng.shuffle(task)
    x = rng.normal(size=(EVENTS, D))
    score = np.sum(x * weights[task], axis=1) + levels[task]
    if kind == "number":
        y = score + rng.normal(size=EVENTS)
    else:
        y = np.where(rng.random(EVENTS) < 1.0 / (1.0 + np.exp(-score)), 1.0, -1.0)
    asked, rows = np.repeat(np.arange(TASKS), 20), rng.normal(size=(20 * TASKS, D))
    truth = np.sum(rows * weights[asked], axis=1) + levels[asked]
    stream = romco.rounds.Rounds(task, x, y, np.arange(EVENTS + 1))
    return stream, romco.Round(asked, rows, np.empty(0)), truth


@pytest.mark.parametrize("kind", ["two classes", "number"])
@pytest.mark.parametrize(("worlds", "low", "high"), SIZES)
def test_true_scores_lie_within_two_standard_deviations(kind, worlds, low, high):
    name = "romco-auto-number" if kind == "number" else "romco-auto"
    within = []
    for seed in range(2000, 2000 + worlds):
        stream, round, truth = world(kind, seed)
        learner = romco.learner(name, D, TASKS)
        learner.replay(stream)
        mean, deviation = learner.posterior(round, frozen=True)
        within.append(np.abs(mean - truth) < 2.0 * deviation)
    group = GROUPS[round.task]
    shares = {name: np.mean(np.array(within)[:, group == name]) for name in set(GROUPS)}
    assert all(low < share < high for share in shares.values()), shares


def classes_world(n_classes, seed):
    """A world of several classes; differences of their scores are as in ``world``."""
    rng = np.random.default_rng(seed)
    shape = n_classes, TASKS, D
    weights = rng.normal(size=(n_classes, 1, D)) + rng.uniform(0.0, 0.8) * rng.normal(size=shape)
    levels = rng.normal(0.0, 0.7, (n_classes, TASKS))
    five = np.repeat(OFTEN + np.arange(SELDOM), 5)
    task = np.concatenate([rng.integers(0, OFTEN, EVENTS - len(five)), five])
    rng.shuffle(task)

    def scores(x, task):
        found = np.einsum("nd,knd->nk", x, weights[:, task]) + levels[:, task].T
        return found / np.sqrt(2.0)

    x = rng.normal(size=(EVENTS, D))
    score = scores(x, task)
    y = np.argmax(score + rng.gumbel(size=score.shape), axis=1).astype(float)
    asked, rows = np.repeat(np.arange(TASKS), 20), rng.normal(size=(20 * TASKS, D))
    truth = logit(softmax(scores(rows, asked), axis=1))
    stream = romco.rounds.Rounds(task, x, y, np.arange(EVENTS + 1))
    return stream, romco.Round(asked, rows, np.empty(0)), truth


@pytest.mark.parametrize(("worlds", "low", "high"), SIZES)
def test_true_log_odds_of_classes_lie_within_two_standard_deviations(worlds, low, high):
    within = []
    for seed in range(worlds):
        n_classes = 3 + seed % 3
        stream, round, truth = classes_world(n_classes, 2000 + seed)
        learner = romco.learner("classes", D, TASKS, inner="romco-auto", n_classes=n_classes)
        learner.replay(stream)
        mean, deviation = learner.posterior(round, frozen=True)
        within.append(np.mean(np.abs(mean - truth) < 2.0 * deviation, axis=1))
    group = GROUPS[round.task]
    shares = {name: np.mean(np.array(within)[:, group == name]) for name in set(GROUPS)}
    assert all(low < share < high for share in shares.values()), shares


def test_two_classes_have_the_deviation_of_their_one_learner():
    stream, round, _ = world("two classes", 0)
    learner = romco.learner("classes", D, TASKS)
    learner.replay(romco.rounds.Rounds(stream.task, stream.x, stream.y > 0.0, stream.starts))
    mean, deviations = learner.posterior(round)
    _, deviation = learner.members()[0].posterior(round)
    np.testing.assert_allclose(deviations, np.column_stack([deviation] * 2))
    np.testing.assert_allclose(mean[:, 0], -mean[:, 1])


@pytest.mark.parametrize("offset", [False, True])
def test_a_model_of_classes_knows_less_of_what_it_has_not_seen(offset):
    rng = np.random.default_rng(0)
    x = [{"a": a, "b": b} for a, b in rng.normal(size=(600, 2)).tolist()]
    y = ["xyz"[int(row["a"] > 0) + int(row["b"] > rng.normal())] for row in x]
    known = np.tile([0.0, 1.0, 2.0], (600, 1)) if offset else None
    model = romco.Model(target="classes", classes=list("xyz"))
    model.fit(x, y, [f"person {k % 6}" for k in range(600)], offset=known)
    rows, people = [x[0], x[0], x[0] | {"c": 1.0}], ["person 0", "new", "person 0"]
    asked = {"x": rows, "task": people, "offset": known[:3] if offset else None}
    mean, deviation = model.margins(**asked, return_std=True)
    assert mean.shape == deviation.shape == (3, 3)
    assert (deviation[0] < deviation[1:]).all()
    np.testing.assert_allclose(mean[0], mean[2], rtol=0.01)
    margins = model.margins(**asked)
    assert (mean.argmax(axis=1) == margins.argmax(axis=1)).all()


@pytest.mark.parametrize(
    ("name", "twin"), [("romco-auto", Auto), ("romco-auto-number", AutoNumber)]
)
def test_deviations_equal_their_transcription(name, twin):
    rng = np.random.default_rng(3)
    n, d, m = 100, 4, 3
    x = np.round(rng.normal(size=(n, d)), 2) * (rng.random((n, d)) < 0.6)
    x[:60, 3] = 0.0  # this column comes late
    task, y = rng.integers(0, m, n), np.sign(x[:, 0] + rng.normal(size=n))
    learner, slow = romco.learner(name, d, m), twin(d, m)
    for e in range(n):
        round = romco.Round(task[e : e + 1], x[e : e + 1], y[e : e + 1])
        for asked in (x[e], np.array([1.0, 0.0, 2.0, -3.0])):
            unlabelled = romco.Round(task[e : e + 1], asked[None], np.empty(0))
            for frozen in (False, True):
                _, found = learner.posterior(unlabelled, frozen)
                expected = slow.deviation(task[e], asked, frozen) if slow.variance() else 0.0
                np.testing.assert_allclose(found, expected, rtol=1e-8)
        learner.update(round)
        slow.update(round.task, round.x, round.y)


@pytest.mark.parametrize("target", ["two classes", "number"])
def test_a_model_knows_less_of_what_it_has_not_seen(target):
    rng = np.random.default_rng(0)
    x = [{"a": a, "b": b} for a, b in rng.normal(size=(600, 2)).tolist()]
    task = [f"person {k % 6}" for k in range(600)]
    y = [row["a"] - row["b"] + (k % 6) for k, row in enumerate(x)]
    if target == "two classes":
        y = [score > 2.0 for score in y]
    model = romco.Model(target=target).fit(x, y, task, offset=np.zeros(600))
    rows, people = [x[0], x[0], {"a": 3.0, "c": 1.0}], ["person 0", "new", "person 0"]
    asked = {"x": rows, "task": people, "offset": np.zeros(3)}
    mean, deviation = model.margins(**asked, return_std=True)
    margins = model.margins(**asked)
    shifted, _ = model.margins(**asked | {"offset": np.full(3, 2.0)}, return_std=True)
    np.testing.assert_allclose(shifted, mean + 2.0)
    if target == "two classes":  # which hold what is not known
        mean /= np.sqrt(1.0 + np.pi / 8.0 * deviation**2)
    np.testing.assert_allclose(mean[:2], margins[:2], rtol=1e-12)  # the third has a new column
    known, new, odd = deviation
    assert 0.0 < 1.2 * known < min(new, odd)


def numbers_model(schema, learn):
    rng = np.random.default_rng(2)
    x = [{"a": float(a), "shop": "xyz"[k % 3]} for k, a in enumerate(rng.normal(size=600))]
    if not schema:
        x = [{"a": row["a"]} for row in x]
    y = [row["a"] + rng.normal() for row in x]
    model = romco.Model(target="number")
    if learn:
        model.learn(x, y, ["ann"] * 600)
    else:
        model.fit(x, y, ["ann"] * 600)
    return model


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("schema", [True, False])
def test_a_column_that_was_never_seen_makes_predictions_less_sure(schema, learn):
    model = numbers_model(schema, learn)
    before = model.engine.state()
    row = {"a": 0.5} | ({"shop": "x"} if schema else {})
    rows = [row, row | {"new": 1.0}, row | {"new": -2.0, "newer": 1e9}]
    if schema:
        rows.append({"a": 0.5, "shop": "never met"})
    mean, deviation = model.margins(rows, ["ann"] * len(rows), return_std=True)
    widths = np.diff(model.intervals(rows, ["ann"] * len(rows)), axis=1)[:, 0]
    assert (deviation[1:] > 2.0 * deviation[0]).all()
    many = [row | {f"new {k}": 1.0} for k in range(3000)]
    _, each = model.margins(many, ["ann"] * len(many), return_std=True)
    np.testing.assert_allclose(each, deviation[1])
    assert (widths[1:] > 1.2 * widths[0]).all()
    np.testing.assert_allclose(mean[1:3], mean[0], rtol=1e-6)
    after = model.engine.state()
    assert after["features"] == before["features"]
    for name, array in before["arrays"].items():
        np.testing.assert_array_equal(after["arrays"][name], array)


def test_regressors_return_deviations_as_those_of_scikit_learn_do():
    rng = np.random.default_rng(1)
    x, task = rng.normal(size=(300, 2)), np.arange(300) % 3
    model = romco.ROMCORegressor().fit(x, x[:, 0] + task + 0.1 * rng.normal(size=300), task=task)
    mean, deviation = model.predict(x[:5], task[:5], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(x[:5], task[:5]))
    low, high = model.predict_interval(x[:5], task[:5], level=0.9).T
    assert ((deviation > 0.0) & (deviation < high - low)).all()


NONE = [("pa-unique", "xyx", "two classes"), ("pa-unique", "xyz", "classes")]
NONE.append(("romco-auto", "abcdefghijk", "classes"))


@pytest.mark.parametrize(("learner", "labels", "target"), NONE)
def test_other_learners_have_none(learner, labels, target):
    n = len(labels)
    model = romco.Model(learner, target=target).fit([{"a": 1.0}] * n, list(labels), ["ann"] * n)
    with pytest.raises(ValueError, match="standard deviations"):
        model.margins([{"a": 1.0}], ["ann"], return_std=True)
