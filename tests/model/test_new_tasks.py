"""A task that nobody has seen: what it is predicted from, and where it starts."""

import numpy as np
import pytest

import romco
from romco.learners.capabilities import StartedTasks, StartsTasks
from romco.model import Columns, Model, Names
from romco.rounds import Round

STREAM = romco.streams.simulated(n_tasks=6, n_features=12, n_events=60, outliers=1, seed=5)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
X, Y, TASK = ROUNDS.x, ROUNDS.y, ROUNDS.task.tolist()
NEW = ["new"] * len(Y)
BY_ITSELF = ["romco-auto", "pa-shared", "arow-shared", "ogd-global", "pa-global", "arow-global"]
DRAWN = ["coml", "cw-col"]  # towards a model of all tasks: a new one starts there
STARTING = [name for name in romco.LEARNERS if isinstance(romco.learner(name, 2, 2), StartsTasks)]
AT_MEAN = [name for name in STARTING if name not in (*BY_ITSELF, *DRAWN)]
SHARING = [*STARTING, *(name for name in BY_ITSELF if name not in STARTING)]


def learned(name, **more):
    parameters = {"every": 40} if name in ("mtfl", "trml") else {}
    model = Model(name, Columns(12), classes=(-1, 1), **parameters, **more)
    model.learn(X, Y, TASK)
    return model


@pytest.mark.parametrize("name", SHARING)
def test_a_new_task_is_predicted_from_the_others_and_starts_there(name):
    model = learned(name)
    model.engine.live = True
    predicted = model.margins(X, NEW)
    assert np.abs(predicted).max() > 1e-3
    assert model.learn(X[:1], Y[:1], ["new"])[0] == pytest.approx(predicted[0], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", list(romco.LEARNERS))
def test_what_it_is_predicted_from_is_where_it_starts_and_others_stay(name):
    model = learned(name)
    predicted, before = model.margins(X, NEW), model.margins(X, TASK)
    body = model.engine.body.grown(0, 7)
    if isinstance(body.learner, StartsTasks):
        body.learner.start_task(6, StartedTasks(body.counts.started, body.counts.n_started))
    margins = body.learner.predict_frozen(Round(np.full(len(Y), 6), X, Y))
    np.testing.assert_allclose(margins, predicted, rtol=1e-9, atol=1e-12)
    if name not in ("perceptron-coupled", "omtlvon", "omtllog"):  # room for more relates them anew
        np.testing.assert_allclose(
            body.learner.predict_frozen(Round(model.engine.tasks.numbers(TASK), X, Y)),
            before,
            rtol=1e-9,
            atol=1e-12,
        )


@pytest.mark.parametrize("name", AT_MEAN)
def test_the_mean_is_that_of_the_tasks_seen(name):
    model = Model(name, Columns(12), classes=(-1, 1), tasks=range(9))  # of which 6 learn
    if name in ("mtfl", "trml"):
        model = Model(name, Columns(12), classes=(-1, 1), tasks=range(9), every=40)
    model.learn(X, Y, TASK)
    learner = model.engine.learner
    part = learner.shared() if hasattr(learner, "shared") else learner.weights()
    expected = X @ part[:, :6].mean(axis=1)
    if hasattr(learner, "intercepts"):
        expected = expected + learner.intercepts()[:6].mean()
    np.testing.assert_allclose(model.margins(X, NEW), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", DRAWN)
def test_tasks_that_are_drawn_to_a_model_of_all_start_there(name):
    model = learned(name)
    np.testing.assert_allclose(
        model.margins(X, NEW), X @ model.engine.learner.arrays()["u"], rtol=1e-9
    )


@pytest.mark.parametrize("name", BY_ITSELF)
def test_learners_with_a_common_model_need_no_start(name):
    learner = learned(name).engine.learner
    assert (
        not isinstance(learner, StartsTasks)
        or learner.common(StartedTasks(np.ones(8, dtype=bool), 8)) is None
    )


@pytest.mark.parametrize("name", AT_MEAN)
def test_zero_is_the_learners_own_beginning(name):
    model = learned(name, new_task="zero")
    if name != "perceptron-coupled":  # there each mistake moves every task, seen or not
        np.testing.assert_array_equal(model.margins(X, NEW), 0.0)
    assert not isinstance(learned("romco-auto").engine.learner, StartsTasks)


@pytest.mark.parametrize("name", ["omtlvon", "omtllog"])
def test_inner_products_of_a_started_task_are_kept_up(name):
    model = learned(name)
    model.learn(X[:30], Y[:30], ["new", "newer"] * 15)
    arrays = model.engine.learner.arrays()
    np.testing.assert_allclose(arrays["G"], arrays["w"] @ arrays["w"].T, atol=1e-9)


@pytest.mark.parametrize("name", ["pa-unique", "romco-nucl", "romco-auto", "coml"])
def test_new_names_of_features_do_not_matter_to_a_new_task(name):
    model = Model(name, Names(), classes=(-1, 1))
    rows = [{f"f{j}": v for j, v in enumerate(row)} for row in X.tolist()]
    model.learn(rows, Y, TASK)
    model.engine.live = True
    plain = model.margins(rows[:5], ["new"] * 5)
    odd = model.margins([{**row, "never seen": 9.0} for row in rows[:5]], ["new"] * 5)
    np.testing.assert_allclose(odd, plain, rtol=1e-9)
    assert model.learn_one({**rows[0], "never seen": 0.0}, 1, "new") == pytest.approx(plain[0])


def test_tasks_of_one_round_start_alike():
    model = learned("pa-unique")
    predicted = model.margins(X[:3], ["a", "b", "c"])
    margins = model.learn(X[:3], Y[:3], ["a", "b", "c"], together=True)
    np.testing.assert_allclose(margins, predicted, rtol=1e-12)
