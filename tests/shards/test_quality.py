"""Shards predict about as well as one process, in worlds that each need one part of the model."""

from functools import cache

import numpy as np
import pytest

import romco
from romco.model.rows import Rows
from romco.shards import Shards

EVENTS = 3000
EARLY = 500  # events that are not scored: shards that know little yet cost most
TASKS = 60
COLUMNS = 10


def low_rank(rng, x, task):
    """Tasks are mixtures of two vectors."""
    weights = rng.normal(size=(TASKS, 2)) @ rng.normal(size=(2, COLUMNS))
    return (x * weights[task]).sum(axis=1)


def groups(rng, x, task):
    """Every task has the vector of one of three groups."""
    weights = 1.5 * rng.normal(size=(3, COLUMNS))
    return (x * weights[task % 3]).sum(axis=1)


def outliers(rng, x, task):
    """All tasks are alike but for three, which are frequent."""
    weights = np.tile(rng.normal(size=COLUMNS), (TASKS, 1))
    weights[:3] *= -1.0
    task[::3] = rng.integers(3, size=len(task[::3]))
    return (x * weights[task]).sum(axis=1)


def correlated(rng, x, task):
    """All columns have two causes."""
    causes = rng.normal(size=(len(x), 2))
    x[:] = causes @ rng.normal(size=(2, COLUMNS)) + 0.3 * x
    return 2.0 * causes[:, 0] + x[:, 0] - x[:, 1]


def curves(rng, x, task):
    """Two columns act by curves, two by their product."""
    level = rng.normal(size=TASKS)
    waves = 2.0 * np.sin(2.0 * x[:, 0]) + 2.0 * np.cos(3.0 * x[:, 1])
    return waves + 1.5 * np.sign(x[:, 2] * x[:, 3]) + level[task]


def drift(rng, x, task):
    """The level of all tasks is a slow random walk."""
    walk = np.cumsum(0.02 * rng.normal(size=len(x)))
    return x @ rng.normal(size=COLUMNS) + walk


def newcomers(rng, x, task):
    """New tasks come all the time, with levels of their own."""
    task[:] = (np.arange(len(task)) * TASKS // len(task) + rng.integers(3, size=len(task))) % TASKS
    level = 2.0 * rng.normal(size=TASKS)
    return x @ rng.normal(size=COLUMNS) + level[task]


WORLDS = (low_rank, groups, outliers, correlated, curves, drift, newcomers)


@cache
def loss_of(make, number, n):
    """Return the log loss, or of numbers the root mean squared error, of one world in n shards."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(EVENTS, COLUMNS))
    task = rng.integers(TASKS, size=EVENTS)
    signal = make(rng, x, task)
    if number:
        y, given = 100.0 + signal + 0.5 * rng.normal(size=EVENTS), {"target": "number"}
    else:
        y = np.where(rng.random(EVENTS) < 1.0 / (1.0 + np.exp(-signal)), 1.0, -1.0)
        given = {"classes": (-1.0, 1.0)}
    features = romco.Columns(COLUMNS)
    with Shards("romco-auto", n, features, engine="serial", **given) as shards:
        found = shards.predict_and_learn(Rows(x, [f"user {t}" for t in task], y))
    if number:
        return np.sqrt(np.mean((found.margins - y)[EARLY:] ** 2))
    chance = np.where(y > 0.0, found.probabilities, 1.0 - found.probabilities)
    return -np.log(np.maximum(chance[EARLY:], 1e-12)).mean()


CLASS_COLUMNS = 8


def class_groups(rng, x, task, k):
    """Every task has the vectors of one of three groups."""
    weights = 1.5 * rng.normal(size=(3, k, CLASS_COLUMNS))
    return np.einsum("nd,nkd->nk", x, weights[task % 3])


def class_means(rng, x, task, k):
    """Every task has its own mean of each class."""
    label = rng.integers(k, size=len(x))
    own = rng.normal(size=(k, CLASS_COLUMNS)) + 0.7 * rng.normal(size=(TASKS, k, CLASS_COLUMNS))
    x += 1.2 * own[task, label]
    return np.where(np.arange(k) == label[:, None], np.inf, 0.0)


def class_levels(rng, x, task, k):
    """Tasks share the vectors; each has a level of each class of its own."""
    level = 1.5 * rng.normal(size=(TASKS, k))
    return x @ rng.normal(size=(CLASS_COLUMNS, k)) + level[task]


def class_causes(rng, x, task, k):
    """All columns have three causes."""
    causes = rng.normal(size=(len(x), 3))
    x[:] = causes @ rng.normal(size=(3, CLASS_COLUMNS)) + 0.3 * x
    return 2.0 * causes @ rng.normal(size=(3, k)) + 0.5 * x @ rng.normal(size=(CLASS_COLUMNS, k))


CLASS_WORLDS = (class_groups, class_means, class_levels, class_causes)


@cache
def class_loss(make, k, n):
    """Return the log loss of one world of k classes in n shards."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(EVENTS, CLASS_COLUMNS))
    task = rng.integers(TASKS, size=EVENTS)
    scores = make(rng, x, task, k)
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    given = {"target": "classes", "classes": range(k)}
    features = romco.Columns(CLASS_COLUMNS)
    with Shards("romco-auto", n, features, engine="serial", **given) as shards:
        found = shards.predict_and_learn(Rows(x, [f"user {t}" for t in task], y.tolist()))
    chance = found.probabilities[np.arange(EVENTS), y]
    return -np.log(np.maximum(chance[EARLY:], 1e-12)).mean()


SLOW = pytest.mark.slow
SHARDS = [(4, 1.015), pytest.param(2, 1.05, marks=SLOW), pytest.param(16, 1.10, marks=SLOW)]


@pytest.mark.parametrize(("n", "most"), SHARDS)
@pytest.mark.parametrize(
    ("make", "number"),
    [
        *((make, False) for make in WORLDS[:4]),
        *((make, True) for make in WORLDS[4:6]),
        *(pytest.param(make, False, marks=SLOW) for make in WORLDS[4:]),
        *(pytest.param(make, True, marks=SLOW) for make in (*WORLDS[:4], *WORLDS[6:])),
    ],
)
def test_shards_predict_about_as_well_as_one_process(make, number, n, most):
    assert loss_of(make, number, n) < most * loss_of(make, number, 1)


CLASS_SHARDS = [(4, 1.02), pytest.param(2, 1.02, marks=SLOW), pytest.param(16, 1.08, marks=SLOW)]


@pytest.mark.parametrize(("n", "most"), CLASS_SHARDS)
@pytest.mark.parametrize("k", [pytest.param(4, marks=SLOW), 15])
@pytest.mark.parametrize(
    "make",
    [*CLASS_WORLDS[:2], *(pytest.param(make, marks=SLOW) for make in CLASS_WORLDS[2:])],
    ids=lambda make: make.__name__,
)
def test_shards_tell_classes_apart_about_as_well_as_one_process(make, k, n, most):
    assert class_loss(make, k, n) < most * class_loss(make, k, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_tasks_of_low_rank_are_learned_in_shards_as_by_one_process(seed):
    """The directions that tasks share are computed at every barrier: late ones cost 9 points."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 60)) / np.sqrt(3.0)
    task = rng.integers(400, size=16_000)
    x = rng.normal(size=(16_000, 60))
    y = np.where((x * weights[task]).sum(axis=1) + 0.5 * rng.normal(size=16_000) > 0.0, 1.0, -1.0)
    names = [f"user {t}" for t in task]
    wrong = []
    for n in (1, 4):
        features = romco.Columns(60)
        with Shards("romco-auto", n, features, engine="serial", classes=(-1.0, 1.0)) as shards:
            wrong.append(np.mean((shards.learn(x, y, names) >= 0.0) != (y > 0.0)))
    assert wrong[1] < wrong[0] + 0.005
