"""Shards forget a task as one model does, in the shared part too."""

import numpy as np
import pytest

from romco.shards import Shards
from romco.shards.reader import task_owner
from romco.shards.schedule import Schedule
from tests.shards.streams import assert_same, events
from tests.shards.test_classes import classes

GONE = "user 3"
PERIOD = 20  # events between barriers, per shard
MANY = classes(400, 4)
STREAMS = {
    "two classes": events(400),
    "classes": MANY,
    "number": (MANY[0], [float(label[-1]) for label in MANY[1]], MANY[2]),
}


def rows_of(stream, places):
    return [[part[k] for k in places] for part in stream]


def last_barrier(schedule, most):
    place = 0
    while schedule.after(place) <= most:
        place = schedule.after(place)
    return place


def classes_seen(shards):
    return shards.model().state()["arrays"]["learner.softmax_seen"][:4]


@pytest.mark.parametrize("target", STREAMS)
def test_shards_forget_as_the_model_does(target):
    """Also if the shard of the task learns nothing before the next barrier."""
    stream = STREAMS[target]
    begin = last_barrier(Schedule(2, every=PERIOD), 200)
    shards = Shards("romco-auto", 2, target=target, every=PERIOD)
    shards.learn(*rows_of(stream, range(begin)))
    model = shards.model()
    model.forget(GONE)
    shards.forget(GONE)
    assert_same(shards.model().state(), model.state())
    expected = Shards.of(model.state(), 2, every=PERIOD)
    elsewhere = []
    for k in range(begin, 400):
        if task_owner(stream[2][k], 2) != task_owner(GONE, 2):
            elsewhere.append(k)
    assert len(elsewhere) > 2 * PERIOD
    for each in (shards, expected):
        each.learn(*rows_of(stream, elsewhere))
    rows, _, tasks = stream
    np.testing.assert_array_equal(shards.margins(rows, tasks), expected.margins(rows, tasks))


def test_classes_are_counted_without_a_task_forgotten_between_barriers():
    rows, labels, tasks = MANY
    shards = Shards("romco-auto", 2, target="classes", every=PERIOD)
    shards.learn(rows[:205], labels[:205], tasks[:205])
    before = classes_seen(shards)
    shards.forget(GONE)
    after = classes_seen(shards)
    assert (after < before).any()
    kept = [k for k in range(205, 400) if tasks[k] != GONE]
    shards.learn(*rows_of(MANY, kept))
    _, more, _ = rows_of(MANY, kept)
    assert len(shards.classes) == 4
    counts = [more.count(label) for label in shards.classes]
    np.testing.assert_allclose(classes_seen(shards) - after, counts, atol=1e-9)


def test_an_unknown_task_changes_nothing():
    shards = Shards("romco-auto", 2, target="classes", every=PERIOD)
    shards.learn(*rows_of(MANY, range(215)))
    before = shards.state()
    with pytest.raises(KeyError, match="no task 'nobody' is known"):
        shards.forget("nobody")
    assert_same(shards.state(), before)
