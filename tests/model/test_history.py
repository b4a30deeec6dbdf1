"""History in a model: batch, single, frames and files are the same; state, delay, rollback."""

import threading

import numpy as np
import pandas as pd
import pytest

import romco
from romco.io.modelfile import ModelFileError
from romco.model import transaction
from romco.model.history import TaskHistory, feature_name


def stream(seed, n=120, labels=("no", "yes")):
    rng = np.random.default_rng(seed)
    rows = [
        {"skill": int(a), "item": f"i{b}", "x": float(c)}
        for a, b, c in zip(
            rng.integers(0, 3, n), rng.integers(0, 5, n), rng.normal(size=n), strict=True
        )
    ]
    y = [labels[k] for k in rng.integers(0, len(labels), n)]
    return rows, y, [f"t{k}" for k in rng.integers(0, 6, n)]


TARGETS = {
    "two classes": {},
    "classes": {"target": "classes"},
    "number": {"target": "number"},
}


def model(kind="two classes", **options):
    return romco.Model(history=["skill", "item"], **TARGETS[kind], **options)


def labelled(kind, seed=0, n=120):
    labels = {"two classes": ("no", "yes"), "classes": "abcd", "number": (0.5, 1.0, 3.0)}
    return stream(seed, n, labels[kind])


@pytest.mark.parametrize("kind", TARGETS)
def test_batch_single_and_frames_are_the_same(kind):
    pandas = pytest.importorskip("pandas")
    rows, y, task = labelled(kind)
    batch, single, frame = model(kind), model(kind), model(kind)
    margins = batch.learn(rows, y, task)
    alone = [
        single.learn_one(row, label, name) for row, label, name in zip(rows, y, task, strict=True)
    ]
    for i in (0, 57, -1):
        np.testing.assert_array_equal(np.ravel(margins[i])[: np.size(alone[i])], alone[i])
    np.testing.assert_array_equal(frame.learn(pandas.DataFrame(rows), y, task), margins)
    np.testing.assert_array_equal(batch.margins(rows, task), single.margins(rows, task))
    np.testing.assert_array_equal(batch.margins(rows, task), frame.margins(rows, task))
    assert batch.predict_one(rows[0], task[0]) == single.predict(rows[:1], task[:1])[0]


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("features", [romco.model.Names, lambda: romco.model.Hashed(64)])
def test_one_event_takes_the_compiled_step_to_the_same_state(kind, features):
    schema = romco.Schema({"at": "time", "x": "number", "note": "ignored"})
    rows, y, task = labelled(kind)
    rows = [{**row, "at": 60.0 * i, "note": "-"} for i, row in enumerate(rows)]
    rows[70] |= {"item": "größer"}  # a new name that is not ASCII
    batch, single = (model(kind, features=features(), schema=schema) for _ in range(2))
    batch.learn(rows, y, task)
    left = []
    for i, event in enumerate(zip(rows, y, task, strict=True)):
        score = single.engine.learn_event(*event)
        if score is NotImplemented:
            left.append(i)
            single.learn_one(*event)
    seen = [i for i in range(len(rows)) if y[i] not in y[:i] or task[i] not in task[:i]]
    assert set(left) <= {*seen, 70}  # labels and tasks that are new, too
    one, other = single.engine.state(), batch.engine.state()
    for name, array in other.pop("arrays").items():
        np.testing.assert_array_equal(one["arrays"][name], array)
    assert {**one, "arrays": None} == {**other, "arrays": None}


def test_a_single_bad_event_changes_nothing():
    rows, y, task = stream(6)
    made = model()
    made.learn(rows, y, task)
    before = made.engine.history.arrays(), made.margins(rows, task)
    for more, label in (({"x": "much"}, "no"), ({"x": 1e200}, "no"), ({}, "maybe")):
        with pytest.raises(ValueError, match=r"third|number"):
            made.learn_one({**rows[0], **more}, label, task[0])
        for name, array in made.engine.history.arrays().items():
            np.testing.assert_array_equal(array, before[0][name])
        np.testing.assert_array_equal(made.margins(rows, task), before[1])


def test_a_prediction_is_the_margin_that_learning_returns():
    rows, y, task = stream(1)
    made = romco.Model("pa-unique", history=["skill"])
    for row, label, name in zip(rows[:60], y, task, strict=False):
        before = made.margins([row], [name])[0] if made.events else 0.0
        assert made.learn_one(row, label, name) == pytest.approx(before, abs=1e-12)


@pytest.mark.parametrize("features", [romco.model.Names, lambda: romco.model.Hashed(64)])
def test_history_is_learned(features):
    """Students differ in nothing but their past answers."""
    rng = np.random.default_rng(3)
    made, right = model(features=features()), []
    for _ in range(60):
        for student in range(20):
            row = {"skill": int(rng.integers(0, 2)), "item": int(rng.integers(0, 9))}
            chance = 0.9 if (student + row["skill"]) % 2 else 0.1
            label = "yes" if rng.random() < chance else "no"
            margin = made.learn_one(row, label, f"new {student} {len(right) // 600}")
            right.append((margin >= 0.0) == (label == "yes"))
    assert np.mean(right[600:]) > 0.75


@pytest.mark.parametrize("kind", TARGETS)
def test_a_file_goes_on_as_if_it_had_never_stopped(kind, tmp_path):
    rows, y, task = labelled(kind)
    whole, made = model(kind), model(kind, history_limit=10_000)
    whole.learn(rows, y, task)
    made.learn(rows[:70], y[:70], task[:70])
    romco.save(made, tmp_path / "m.romco")
    loaded = romco.load(tmp_path / "m.romco")
    assert loaded.engine.history.kernel.limit == 10_000
    loaded.learn(rows[70:], y[70:], task[70:])
    np.testing.assert_array_equal(loaded.margins(rows, task), whole.margins(rows, task))


def test_a_forged_history_is_refused():
    made = model()
    made.learn(*stream(0))
    for change in (
        {"columns": ["skill"]},
        {"columns": "skill"},
        {"limit": 3},
        {"tasks": []},
        {"categories": ["skill=1"] * 40},
        {"time": 7},
        {"tasks": None},
        {"tasks": [None, *made.state()["history"]["tasks"][1:]]},
    ):
        state = made.state()
        state["history"] |= change
        with pytest.raises((ValueError, TypeError)):
            romco.Model.from_state(state)
    for part in made.state()["history"]:
        state = made.state()
        del state["history"][part]
        with pytest.raises(ValueError, match=f"no '{part}'"):
            romco.Model.from_state(state)
    for name, change in {
        "table": lambda a: a - 3.0,
        "task": lambda a: a - 1,
        "category": lambda a: np.array(7),
    }.items():
        state = made.state()
        state["arrays"][f"history.{name}"] = change(state["arrays"][f"history.{name}"])
        with pytest.raises(ValueError, match="history"):
            romco.Model.from_state(state)
        del state["arrays"][f"history.{name}"]
        with pytest.raises(ValueError, match="history"):
            romco.Model.from_state(state)
    assert issubclass(ModelFileError, ValueError)


@pytest.mark.parametrize("together", [False, True])
def test_rows_of_weight_0_enter_the_history_but_are_not_learned(together):
    rows, y, task = stream(4)
    made, plain = model(), model()
    for one in (made, plain):
        one.learn(rows[:80], y[:80], task[:80])
    weight = np.zeros(40)
    frozen = made.learn(rows[80:], y[80:], task[80:], weight=weight, together=together)
    assert made.events == 80
    learned = {k: a for k, a in made.engine.state()["arrays"].items() if k.startswith("learner")}
    for name, array in learned.items():
        np.testing.assert_array_equal(array, plain.engine.state()["arrays"][name])
    if together:
        np.testing.assert_array_equal(frozen, plain.margins(rows[80:], task[80:]))
    else:  # one by one: each prediction sees the labels before it
        alone = []
        for row, label, name in zip(rows[80:], y[80:], task[80:], strict=True):
            alone.append(plain.margins([row], [name])[0])
            plain.learn_one(row, label, name, weight=0.0)
        np.testing.assert_array_equal(frozen, alone)
        plain.learn([], [], [])
    history, other = made.engine.history.arrays(), model().engine.history
    past = np.array([float(label == "yes") for label in y])
    for part in (slice(0, 80), slice(80, None)):  # the last ones count for their own tasks only
        encoded = made.features.encode(rows[part], False)
        other.expand(task[part], encoded, past[part], learned=part.stop == 80)
        other.commit(80)
    np.testing.assert_array_equal(
        np.sort(history["history.table"], axis=0), np.sort(other.arrays()["history.table"], axis=0)
    )


def test_a_weight_of_0_between_others_is_the_same_in_a_batch_and_alone():
    rows, y, task = stream(5, 60)
    weight = np.random.default_rng(0).integers(0, 2, 60).astype(float)
    weight[0] = 1.0
    batch, single = model(), model()
    batch.learn(rows, y, task, weight=weight)
    for k in range(60):
        single.learn_one(rows[k], y[k], task[k], weight=weight[k])
    np.testing.assert_array_equal(batch.margins(rows, task), single.margins(rows, task))


@pytest.mark.parametrize("kind", TARGETS)
def test_a_late_label_is_learned_with_the_features_of_its_prediction(kind):
    rows, y, task = labelled(kind)
    late, now = model(kind), model(kind)
    for one in (late, now):
        one.learn(rows[:100], y[:100], task[:100])
    late.predict_one(rows[100], task[100], id="a")
    context = now.engine.prediction_context([rows[100]], [task[100]])
    late.learn_one({**rows[100], "x": 0.0}, y[101], task[100])  # the same student, meanwhile
    pending = late.pending._events["a"].context
    np.testing.assert_array_equal(pending, context)
    late.answer("a", y[100])
    assert late.events == 102
    kernel = late.engine.history.kernel
    whole = int(np.flatnonzero(kernel.arrays()["category"] == -1)[-1])
    assert kernel.arrays()["task"][whole] == late.engine.history.tasks.find(task[100])


def test_columns_may_look_like_history_features():
    made = romco.Model("pa-unique", history=["b", "a.b", "skill"], classes=("no", "yes"))
    rows = [{"skill": "1.x", "b": "q", "a.b": "r", "history.recent[x]": 2.0, "history": "c"}] * 3
    made.learn(rows, ["yes", "no", "yes"], ["t"] * 3)
    names = [feature_name(made, k) for k in range(made.features.width)]
    slope = "skill=1.x times how much more often yes than in all tasks"
    assert {"history.recent[x]", "history=c", slope} <= set(names)
    assert {"count of no so far for this a.b", "last labels: none"} <= set(names)
    assert "how much more often yes than in all tasks for this a.b" in names
    before = made.margins(rows, ["t"] * 3)
    for bad in (
        "history.task.level",
        "history.a.b.gap",
        "history.b=q.recent[01]",
        "history.skill=1.x.own",
    ):
        with pytest.raises(ValueError, match=r"history\..*rename"):
            made.learn([{**rows[0], bad: 1.0}], ["yes"], ["new"])
        # What was refused is not known: a column that is not used, which is warned of.
        with pytest.raises((ValueError, UserWarning), match=r"history\..*(rename|not used)"):
            made.margins([{**rows[0], bad: 1.0}], ["t"])
    np.testing.assert_array_equal(made.margins(rows, ["t"] * 3), before)
    with pytest.raises(ValueError, match="'task'"):
        romco.Model(history=["task"])
    with pytest.raises(ValueError, match="different names"):
        romco.Model(history=["skill", "skill"])


def test_bad_rows_change_nothing():
    rows, y, task = stream(6)
    made = model()
    made.learn(rows[:60], y[:60], task[:60])
    before = made.engine.history.arrays(), made.margins(rows, task)
    for x, labels, names in (
        (rows[60:], [*y[61:], "maybe"], task[60:]),
        ([*rows[61:], {"x": "much"}], y[60:], task[60:]),
        (rows[60:], y[60:], task[61:]),
    ):
        with pytest.raises(ValueError, match=r"third|number|entries"):
            made.learn(x, labels, names)
        for name, array in made.engine.history.arrays().items():
            np.testing.assert_array_equal(array, before[0][name])
        np.testing.assert_array_equal(made.margins(rows, task), before[1])


def test_an_interrupt_leaves_the_history_of_the_learned_rows(monkeypatch):
    rows, y, task = stream(7, 900)
    made, part = model(), model()
    calls = []

    def interrupt(*given, learn=transaction.learn_chunk):
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return learn(*given)

    monkeypatch.setattr(transaction, "learn_chunk", interrupt)
    with pytest.raises(KeyboardInterrupt):
        made.learn(rows, y, task)
    monkeypatch.undo()
    n = made.events
    assert 0 < n < 900
    part.learn(rows[:n], y[:n], task[:n])
    for name, array in part.engine.history.arrays().items():
        np.testing.assert_array_equal(made.engine.history.arrays()[name], array)
    np.testing.assert_array_equal(made.margins(rows, task), part.margins(rows, task))


def test_forget_drops_the_history_of_a_task():
    rows, y, task = stream(8)
    made = model()
    made.learn(rows, y, task)
    made.forget("t1")
    row = made.engine.read_rows(rows[:1], ["t1"])
    names = [made.features.name(column) for column in row.columns]
    assert "history.task.recent[]" in names
    assert not any(name.startswith("history.skill.count") for name in names)
    with pytest.raises(KeyError):
        made.forget("t1")


def test_tasks_are_the_same_in_all_their_forms():
    made = romco.Model(history=[])
    made.learn([{"x": 1.0}] * 3, ["yes", "no", "yes"], [7, "7", 7.0])
    assert len(made.engine.history.tasks) == 1


def test_time_since_the_last_label():
    schema = romco.Schema({"at": "time"})
    made = romco.Model("pa-unique", history=["skill"], schema=schema)
    made.learn_one({"skill": "a", "at": "2024-05-01 12:00:00"}, "yes", "ann")
    made.learn_one({"skill": "a", "at": "2024-05-01 12:00:09"}, "no", "ann")
    row = made.engine.read_rows([{"skill": "a", "at": 1714564819}], ["ann"])
    found = {made.features.name(c): v for c, v in zip(row.columns, row.values, strict=True)}
    assert found["history.task.time"] == pytest.approx(np.log1p(10.0))
    assert "at" not in found
    with pytest.raises(ValueError, match="neither seconds nor a date"):
        made.learn_one({"skill": "a", "at": "soon"}, "yes", "ann")
    with pytest.raises(ValueError, match="history="):
        romco.Model(schema=schema)


def test_bad_options_are_refused():
    for options, message in (
        ({"history": "skill"}, "list of columns"),
        ({"history": ["skill", "skill"]}, "different"),
        ({"history": ["skill"], "features": romco.model.Columns(3)}, "by name"),
        ({"history": ["skill"], "history_limit": 1}, "room"),
        ({"history": ["skill"], "schema": romco.Schema({"skill": "number"})}, "category"),
        ({"history": ["skill"], "schema": romco.Schema(task="skill")}, "is the task"),
    ):
        with pytest.raises(ValueError, match=message):
            romco.Model(**options)


def test_memory_is_bounded():
    past = TaskHistory(["item"], 10, numeric=False)
    made = romco.Model(history=["item"], history_limit=10)
    for k in range(100):
        made.learn_one({"item": k}, "yes" if k % 2 else "no", f"t{k}")
    assert made.engine.history.kernel.used == past.kernel.limit
    assert len(made.engine.history.tasks) <= 21
    assert len(made.engine.history.kernel.categories) <= 21


def test_readers_beside_a_writer_change_nothing():
    rows, y, task = stream(9, 600)
    made, alone, stop, failed = model(), model(), threading.Event(), []

    def read():
        try:
            while not stop.is_set():
                made.margins(rows[:20], task[:20])
                made.engine.prediction_context(rows[:5], task[:5])
        except BaseException as error:
            failed.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    made.learn(rows[:10], y[:10], task[:10])
    alone.learn(rows[:10], y[:10], task[:10])
    for thread in readers:
        thread.start()
    try:
        for begin in range(10, 600, 59):
            part = slice(begin, begin + 59)
            made.learn(rows[part], y[part], task[part])
    finally:
        stop.set()
        for thread in readers:
            thread.join()
    assert not failed
    for begin in range(10, 600, 59):
        part = slice(begin, begin + 59)
        alone.learn(rows[part], y[part], task[part])
    np.testing.assert_array_equal(made.margins(rows, task), alone.margins(rows, task))
    for name, array in alone.engine.history.arrays().items():
        np.testing.assert_array_equal(made.engine.history.arrays()[name], array)


def test_a_history_of_a_column_that_is_not_there_is_refused():
    row, frame = {"hour": "9", "day": "Mo"}, pd.DataFrame({"hour": ["9", "10"], "day": ["a", "b"]})
    model = romco.Model("pa-unique", history=["hourr"])
    for refuse in (
        lambda: model.learn_one(row, "yes", "ann"),
        lambda: model.learn([row, row], ["yes", "no"], ["ann", "ann"]),
        lambda: romco.ROMCOClassifier("pa-unique", history=["hourr"]).fit(frame, ["a", "b"]),
        lambda: romco.ROMCOClassifier(history=["hour"], time="at").fit(frame, ["a", "b"]),
    ):
        with pytest.raises(ValueError, match=r"no row has the column '(hourr|at)'.*'hour', 'day'"):
            refuse()
    assert model.events == 0
    good = romco.Model("pa-unique", history=["hour"])
    good.learn([row, {"day": "Tu"}], ["yes", "no"], ["ann", "ann"])
    good.learn_one({"day": "We"}, "yes", "ann")  # a row may lack it
    assert good.events == 3
