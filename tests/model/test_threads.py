"""One thread learns, others look: they wait for a moment, and never see half a step."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import romco
from romco.model import Columns, Model, Names
from romco.model.body import Body
from romco.model.lock import FairLock

STREAM = romco.streams.simulated(n_tasks=5, n_features=12, n_events=60, outliers=1, sparsity=0.5)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)
LABELS = np.where(ROUNDS.y > 0, "spam", "ham").tolist()
ROWS = [
    {f"f{j}": v for j, v in zip(row.indices.tolist(), row.data.tolist(), strict=True)}
    for row in (ROUNDS.x[[i]] for i in range(len(LABELS)))
]


@contextmanager
def others(*jobs):
    """Threads that do their jobs over and over; what they raise is raised here."""
    stop, errors = [], []

    def work(job):
        try:
            while not stop:
                job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(job,)) for job in jobs]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.append(True)
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def watch_while_learning(name, seconds, n_tasks):
    """Every margin a reader sees must be that of some state between two updates.

    A reader looks at most 20 times a step: romco-auto predicts otherwise after 100 events without
    a label.
    """
    model = Model(name, Names())
    probe, task = ROWS[0], 0
    states, seen, looks = {model.engine.margin_one(probe, task)}, [[], []], [0, 0]

    def reader(k):
        if looks[k] < 20:
            looks[k] += 1
            seen[k].append(model.engine.margin_one(probe, task))
        else:
            time.sleep(0.0001)

    end, i = time.monotonic() + seconds, 0
    with others(lambda: reader(0), lambda: reader(1)):
        while time.monotonic() < end or min(map(len, seen)) < 20:
            row, label = {**ROWS[i % 300], f"new {i % 500}": 0.01}, LABELS[i % 300]
            looks[:] = 0, 0
            model.learn_one(row, label, i % n_tasks if i % 3 else task)
            states.add(model.engine.margin_one(probe, task))
            i += 1
    assert all(margin in states for mine in seen for margin in mine)


@pytest.mark.parametrize("name", list(romco.LEARNERS))
def test_readers_never_see_half_a_step(name):
    watch_while_learning(name, seconds=0.1, n_tasks=11)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["romco-nucl", "romco-auto"])
def test_readers_never_see_half_a_step_for_a_minute(name):
    watch_while_learning(name, seconds=60, n_tasks=500)


@pytest.mark.parametrize(
    "name",
    [
        *("romco-nucl", "romco-auto"),
        *(pytest.param(n, marks=pytest.mark.slow) for n in ("arow-shared", "omtlvon", "trml")),
    ],
)
def test_explanations_and_attributes_are_read_while_another_thread_learns(name):
    estimator = romco.ROMCOClassifier(name)
    X, y, task = ROUNDS.x.toarray(), np.array(LABELS), ROUNDS.task
    estimator.partial_fit(X, y, task=task)
    found = []

    def look():
        explanation = estimator.explain(top=3)
        assert len(explanation.tasks) == explanation.n_tasks
        coefficients = estimator.shared_ if name == "romco-auto" else estimator.coef_
        assert coefficients.shape[1] == 12
        estimator.model_.state()
        found.append(len(coefficients))

    begin = 5
    with others(look, look):
        while len(found) < 6 or found[-1] == 5:
            begin += 1  # new tasks all the time: the learner inside is replaced as it grows
            estimator.partial_fit(X, y, task=task + begin % 60)


def test_who_waits_is_next():
    """A plain lock would be taken again by the one who just let go, most of the time."""
    turns, now, entered, asks = FairLock(), [0], [], threading.Event()

    def enter():
        asks.set()
        with turns:
            asks.clear()
            entered.append(now[0])

    with others(enter):
        for i in range(100):
            with turns:
                now[0] = i
                asks.wait(60.0)  # however busy the machine is
                time.sleep(0.001)
    assert len(set(entered)) > 50


def test_learning_many_rows_lets_readers_in():
    X = np.random.default_rng(0).normal(size=(20_000, 30))
    y, task = np.where(X[:, 0] > 0, 1, -1), (np.arange(20_000) % 50).tolist()
    model = Model("romco-nucl", Columns(30), classes=(-1, 1), max_rank=5)
    answered = []

    def read():
        model.margins(X[:1], [0])
        answered.append(model.events)

    def within():
        return {events for events in answered if events % len(X)}

    with others(read):
        for _ in range(20):  # on a busy machine the reader may sleep through one
            model.learn(X, y, task)
            if len(within()) > 5:
                break
    assert len(within()) > 5


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
def test_others_predict_while_a_model_makes_room(monkeypatch, target):
    model = Model(target=target)
    model.learn([{"a": 1.0}, {"a": -1.0}], [1, 2], ["ann", "bob"])
    grow, answers = Body.grown, []

    def grow_and_predict(body, *room, **how):
        larger = grow(body, *room, **how)
        if larger is not body:
            answers.append(pool.submit(model.predict, [{"a": 1.0}], ["ann"]).result(30.0))
        return larger

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(Body, "grown", grow_and_predict)
        for k in range(20):
            model.learn([{f"f{k}": 1.0}], [1 + k % 2], [f"new{k}"])
    assert len(answers) > 1
