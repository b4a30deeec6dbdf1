"""The first events of a stream, which one shard learns before the tasks are spread over all."""

import numpy as np
import pytest

import romco
from romco.io.modelfile import load_state
from romco.model import Hashed
from romco.shards import Shards
from romco.shards.files import learn, start
from romco.shards.files import read as read_files
from tests.shards.streams import assert_same, events
from tests.shards.streams import learn as learn_pieces
from tests.shards.test_files import BITS, direct, files, without_section, write

pytestmark = pytest.mark.first_events(100)
SETTINGS = {"every": 20, "classes": ("no", "yes")}


def in_classes(stream):
    x, y, task = stream
    return x, [f"{label} {k % 3 == 0}" for k, label in enumerate(y)], task


def in_numbers(stream):
    x, y, task = stream
    return x, [len(label) + sum(row.values()) for row, label in zip(x, y, strict=True)], task


TARGETS = {"two classes": lambda stream: stream, "classes": in_classes, "number": in_numbers}


def test_one_shard_equals_a_model_until_the_tasks_are_spread():
    x, y, task = events(160, seed=2)
    model = romco.Model(classes=("no", "yes"))
    with Shards(n=3, **SETTINGS) as shards:
        margins = shards.learn(x[:99], y[:99], task[:99])
        np.testing.assert_array_equal(margins, model.learn(x[:99], y[:99], task[:99]))
        assert shards.n == 1
        assert_same(without_section(shards.state()), without_section(model.state()))
        shards.learn(x[99:], y[99:], task[99:])
        assert shards.n == 3
        assert shards.events == 160


@pytest.mark.parametrize("target", TARGETS)
def test_the_shards_go_on_as_those_that_split_a_model(target):
    x, y, task = TARGETS[target](events(260, seed=3))
    settings = {"target": target}
    if target != "number":
        settings["classes"] = sorted(set(y))
    model = romco.Model(**settings)
    first = model.learn(x[:100], y[:100], task[:100])
    with Shards.of(model, 3, every=20) as split, Shards(n=3, every=20, **settings) as shards:
        expected = np.concatenate([first, split.learn(x[100:], y[100:], task[100:])])
        np.testing.assert_array_equal(learn_pieces(shards, (x, y, task)), expected)
        assert_same(shards.state(), split.state())
        np.testing.assert_array_equal(shards.margins(x, task), split.margins(x, task))


@pytest.mark.parametrize("saved_at", [60, 100, 130])
def test_shards_resume_before_and_after_the_tasks_are_spread(tmp_path, saved_at):
    x, y, task = events(200, seed=4)
    with Shards(n=3, **SETTINGS) as shards:
        expected = shards.learn(x, y, task)
        state = shards.state()
    with Shards(n=3, **SETTINGS) as stopped:
        before = stopped.learn(x[:saved_at], y[:saved_at], task[:saved_at])
        stopped.save(tmp_path / "m.romco")
    assert romco.load(tmp_path / "m.romco").events == saved_at
    with Shards.load(tmp_path / "m.romco") as resumed:
        assert resumed.coordinator.next == stopped.coordinator.next
        after = resumed.learn(x[saved_at:], y[saved_at:], task[saved_at:])
        np.testing.assert_array_equal(np.concatenate([before, after]), expected)
        assert_same(resumed.state(), state)


def test_another_number_of_shards_resumes_the_first_events(tmp_path):
    x, y, task = events(200, seed=4)
    with Shards(n=3, **SETTINGS) as stopped:
        stopped.learn(x[:60], y[:60], task[:60])
        stopped.save(tmp_path / "m.romco")
    with Shards.load(tmp_path / "m.romco", 2) as resumed, Shards(n=2, **SETTINGS) as shards:
        shards.learn(x, y, task)
        resumed.learn(x[60:], y[60:], task[60:])
        assert_same(resumed.state(), shards.state())


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_shards_that_read_files_go_on_in_the_middle_of_one(tmp_path, engine):
    given, model = files(write(tmp_path / "in")), tmp_path / "m.romco"
    expected = without_section(direct(3, every=20))
    steps = list(learn(given, model, n=3, engine=engine, every=20))
    rows = [step.rows for step in steps]
    at = rows.index(100)
    assert rows[at : at + 3] == [100, 110, 121]
    assert_same(without_section(load_state(model)), expected)
    with start(given, tmp_path / "other.romco", n=3, every=20) as shards:
        next(step for step in read_files(shards, given) if step.rows == 100)
        shards.coordinator.save()
    *_, last = learn(given, tmp_path / "other.romco", n=3, every=20)
    assert last.resumed == 100
    assert_same(without_section(load_state(tmp_path / "other.romco")), expected)


def test_tasks_are_forgotten_before_and_after_they_are_spread():
    stream = events(160, seed=5)
    x, y, task = stream
    with Shards(n=3, **SETTINGS) as shards:
        shards.learn(x[:50], y[:50], task[:50])
        shards.forget(task[0])
        assert task[0] not in shards.tasks
        learn_pieces(shards, stream)
        shards.forget(task[0])
        assert task[0] not in shards.tasks
        assert shards.events_of(task[1]) == task[:50].count(task[1]) + task.count(task[1])


def test_a_class_may_be_new_before_and_after_the_tasks_are_spread():
    x, y, task = in_classes(events(200, seed=6))
    y[120] = "another"
    hashed = Hashed(2**BITS)
    with Shards("romco-auto", 3, hashed, target="classes", every=20) as shards:
        shards.learn(x, y, task)
        assert set(shards.classes) == set(y)
        assert shards.n == 3


def test_names_of_features_may_come_after_the_tasks_are_spread():
    x, y, task = events(160, seed=7)
    for row in x[:130]:
        row.pop("f8", None)
    with Shards(n=3, **SETTINGS) as shards, Shards(n=3, **SETTINGS) as other:
        margins = shards.learn(x, y, task)
        np.testing.assert_array_equal(margins, learn_pieces(other, (x, y, task)))
        assert_same(shards.state(), other.state())
