"""Standard deviations of scores: the truth lies within two of them as often as it should."""

import numpy as np
import pytest

import romco

D, OFTEN, SELDOM, NEVER = 5, 60, 30, 30  # features, tasks of each kind
TASKS, EVENTS, WORLDS = OFTEN + SELDOM + NEVER, 6000, 48
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
def test_true_scores_lie_within_two_standard_deviations(kind):
    name = "romco-auto-number" if kind == "number" else "romco-auto"
    within = []
    for seed in range(2000, 2000 + WORLDS):
        stream, round, truth = world(kind, seed)
        learner = romco.learner(name, D, TASKS)
        learner.replay(stream)
        mean, deviation = learner.posterior(round, frozen=True)
        within.append(np.abs(mean - truth) < 2.0 * deviation)
    group = GROUPS[round.task]
    shares = {name: np.mean(np.array(within)[:, group == name]) for name in set(GROUPS)}
    least = 0.93 if kind == "number" else 0.92  # yes and no of five events are far from a Gaussian
    assert all(least < share < 0.97 for share in shares.values()), shares


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
    if target == "two classes":  # which hold what is not known
        mean /= np.sqrt(1.0 + np.pi / 8.0 * deviation**2)
    np.testing.assert_allclose(mean, margins, rtol=1e-12)
    shifted, _ = model.margins(**asked | {"offset": np.full(3, 2.0)}, return_std=True)
    np.testing.assert_allclose(shifted, model.margins(**asked, return_std=True)[0] + 2.0)
    known, new, odd = deviation
    assert 0.0 < 1.2 * known < min(new, odd)


def test_regressors_return_deviations_as_those_of_scikit_learn_do():
    rng = np.random.default_rng(1)
    x, task = rng.normal(size=(300, 2)), np.arange(300) % 3
    model = romco.ROMCORegressor().fit(x, x[:, 0] + task + 0.1 * rng.normal(size=300), task=task)
    mean, deviation = model.predict(x[:5], task[:5], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(x[:5], task[:5]))
    low, high = model.predict_interval(x[:5], task[:5], level=0.9).T
    assert ((deviation > 0.0) & (deviation < high - low)).all()


@pytest.mark.parametrize(("learner", "labels"), [("romco-auto", "xyz"), ("pa-unique", "xyx")])
def test_other_learners_have_none(learner, labels):
    target = "classes" if learner == "romco-auto" else "two classes"
    model = romco.Model(learner, target=target).fit([{"a": 1.0}] * 3, list(labels), ["ann"] * 3)
    with pytest.raises(ValueError, match="standard deviations"):
        model.margins([{"a": 1.0}], ["ann"], return_std=True)
