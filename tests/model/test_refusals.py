"""What is refused changes nothing; what is learned can be saved, loaded and goes on alike."""

import json
import warnings
from datetime import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression

import romco
from romco.adapters import river
from romco.model import Columns, Hashed, Model, Names

CELLS = [
    1.0, 2, -3.5, True, None, np.nan, np.inf, 1e60, -1e60, 2e60, 1e308, 10**400, "", " NA ", "red",
    "5", "1e400", "five words make a text", "\ud800", "é", pd.NaT, pd.NA, datetime(2024, 5, 1),
    np.datetime64("NaT"), object(), {}, [], {"k": 1e60}, {"k": object()}, ["u", 2e60], b"x", 1j,
    Decimal("NaN"), Decimal("1.5"), np.float64(0.5), np.str_("blue"), "2024-05-01 10:00",
    "x" * 1000,
]  # fmt: skip
COLUMNS = ["a", "c", "d", "at", "", "é", "\ud800", 1, 1.5, None, ("a", 1), b"a", "a=red", "a.k"]
NAMES = [
    "t1", "t2", "t3", "", "1", 1, 1.0, True, "true", -0.0, 2.5, None, np.nan, np.inf, pd.NaT, pd.NA,
    "\ud800", "é", ("t", 1), ("t", None), (), [1], {}, object(), b"\xff", 10**4001, np.int64(3),
    np.str_("t1"), datetime(2024, 5, 1), Decimal("2"),
]  # fmt: skip
NUMBERS = [None, 0.0, 1.0, 0.5, 2, -1.0, np.nan, np.inf, 1e60, 2e60, 1e300, "x", "1", True, [1.0]]
BASE_ROWS = np.random.default_rng(0).normal(size=(20, 3))
BASE = LogisticRegression().fit(BASE_ROWS, np.where(BASE_ROWS[:, 0] > 0, "yes", "no"))
NUMBER_BASE = LinearRegression().fit(BASE_ROWS, BASE_ROWS[:, 0])
GOOD_COLUMNS, GOOD_CELLS = ["a", "c", "d"], [1.0, 0.5, -2.0, 3]
DOORS = {
    "names": lambda: Model("pa-unique"),
    "auto": lambda: Model("romco-auto"),
    "hashed": lambda: Model("romco-auto", Hashed(4)),
    "history": lambda: Model("romco-auto", history=["a"]),
    "history of classes": lambda: Model("pa-unique", target="classes", history=["a", "d"]),
    "classes": lambda: Model("romco-auto", target="classes"),
    "number": lambda: Model("romco-auto", target="number"),
    "history of numbers": lambda: Model("romco-auto", target="number", history=["a"]),
    "columns": lambda: Model("pa-unique", Columns(2, ["a", "c"])),
    "known names": lambda: Model("romco-nucl", Names(["a", "a=red"]), tasks=["t1"]),
    "budget": lambda: Model("pa-unique", labels=romco.labels.Budget(0.5, seed=0)),
    "river": lambda: river.ROMCOClassifier(),
    "river history": lambda: river.ROMCOClassifier("pa-unique", history=["a"]),
    "river number": lambda: river.ROMCORegressor(hashed=8),
    "scikit-learn": lambda: romco.ROMCOClassifier("pa-unique"),
    "scikit-learn number": lambda: romco.ROMCORegressor(),
    "shards": lambda: romco.Shards("romco-auto", 2, features=Hashed(16), engine="serial"),
    "shards of names": lambda: romco.Shards("pa-unique", 2, engine="serial", every=2),
    "personal layer": lambda: romco.PersonalLayer(BASE),
    "personal layer of numbers": lambda: romco.PersonalLayer(NUMBER_BASE),
}
ROWS = st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(CELLS), max_size=4)
GOOD_ROWS = st.dictionaries(st.sampled_from(GOOD_COLUMNS), st.sampled_from(GOOD_CELLS), min_size=1)
ANY_ROW = st.one_of(GOOD_ROWS, GOOD_ROWS, ROWS, st.sampled_from([None, 7, [1.0, 2.0], "row"]))
GOOD_LABELS = {"classes": ["yes", "no"], "number": [1.5, 2.0, -4.0]}


@st.composite
def batches(draw):
    """Rows with labels, tasks, weights, offsets and ids of lengths that mostly agree."""
    n = draw(st.integers(1, 3))
    good = draw(st.booleans())
    rows = GOOD_ROWS if good and draw(st.booleans()) else ANY_ROW
    names = NAMES[:3] if good else NAMES
    answers = st.sampled_from([*GOOD_LABELS["classes"], *GOOD_LABELS["number"]])
    labels = answers if good else st.one_of(answers, st.sampled_from(NAMES))

    def listed(values, least=0):
        size = n if good or draw(st.integers(0, 4)) else draw(st.integers(least, 4))
        return [draw(values) for _ in range(size)]

    numbers = st.none() if good else st.one_of(st.none(), st.sampled_from(NUMBERS))
    several = st.one_of(st.none(), st.lists(st.sampled_from(NUMBERS), min_size=n, max_size=n))
    return {
        "rows": listed(rows),
        "labels": listed(labels, 1),
        "tasks": listed(st.sampled_from(names), 1),
        "weight": draw(st.none() if good else several),
        "offset": draw(st.none() if good else several),
        "one": (draw(numbers), draw(numbers)),
        "id": draw(st.sampled_from(["i1", "i2", None, [], 3])),
        "context": None if good else draw(st.sampled_from([None, None, [[1.0]], "x", [None] * n])),
        "together": draw(st.booleans()),
    }


ACTIONS = [
    "learn one",
    "learn",
    "learn",
    "frame",
    "predict",
    "pending",
    "answer",
    "forget",
    "observe",
    "fit",
]
STREAMS = st.tuples(
    st.sampled_from(sorted(DOORS)),
    st.lists(st.tuples(st.sampled_from(ACTIONS), batches()), min_size=1, max_size=6),
)


def act(door, action, batch):
    """Do one thing by a door."""
    rows, labels, tasks = batch["rows"], batch["labels"], batch["tasks"]
    weight, offset = batch["one"]
    heavy = 1.0 if weight is None else weight
    row = rows[0] if rows else {}
    if action == "frame":
        rows = pd.DataFrame([one for one in rows if isinstance(one, dict)])
    if isinstance(door, river.TaskStream):
        if action == "learn one":
            door.learn_one(row, labels[0], tasks[0], heavy, offset)
        elif action in ("learn", "frame"):
            door.learn_many(pd.DataFrame(rows), labels, tasks, batch["weight"], batch["offset"])
        else:
            door.predict_one(row, tasks[0], offset)
    elif isinstance(door, romco.Shards):
        if action == "learn one":
            door.learn_one(row, labels[0], tasks[0], heavy, offset=offset)
        elif action in ("learn", "frame"):
            door.learn(rows, labels, tasks, weight=batch["weight"], offset=batch["offset"])
        elif action == "forget":
            door.forget(tasks[0])
        else:
            door.predict(rows, tasks, offset=batch["offset"])
    elif isinstance(door, romco.PersonalLayer):
        x = [[1.0, *(0.5 if one is None else one for one in batch["one"])]] * len(labels)
        if action in ("learn", "learn one", "frame"):
            door.partial_fit(x, labels, tasks, batch["weight"])
        else:
            door.predict(x, tasks)
    elif not isinstance(door, Model):
        x = rows if action == "frame" else [[1.0, *batch["one"]]] * len(labels)
        if action in ("learn", "learn one", "frame"):
            given = {"classes": ["no", "yes"]} if isinstance(door, romco.ROMCOClassifier) else {}
            door.partial_fit(x, labels, task=tasks, sample_weight=batch["weight"], **given)
        elif action == "fit":
            x = pd.DataFrame(rows) if batch["together"] else x
            door.fit(x, labels, task=tasks, sample_weight=batch["weight"])
        else:
            door.predict(x, task=tasks)
    elif action == "learn one":
        door.learn_one(row, labels[0], tasks[0], heavy, offset=offset)
    elif action in ("learn", "frame"):
        how = {name: batch[name] for name in ("weight", "offset", "context", "together")}
        door.learn(rows, labels, tasks, **how)
    elif action == "predict":
        door.predict(rows, tasks, offset=batch["offset"])
        if door.labels is not None:
            door.ask(rows, tasks)
    elif action == "pending":
        door.predict_one(row, tasks[0], id=batch["id"], offset=offset)
    elif action == "answer":
        door.answer(batch["id"], labels[0], heavy)
    elif action == "forget":
        door.forget(tasks[0])
    elif action == "fit":
        door.fit(rows, labels, tasks, weight=batch["weight"], offset=batch["offset"])
    else:
        door.engine.observe(rows, tasks)


def model_of(door):
    if isinstance(door, Model):
        return door
    found = getattr(door, "model", vars(door).get("model_"))
    return found() if callable(found) else found


def content(door):
    """All that a file would hold."""
    model = model_of(door)
    if model is None:
        return None
    state = model.state()
    arrays = {name: (a.shape, a.tobytes()) for name, a in state.pop("arrays").items()}
    kept = []
    if isinstance(door, (BaseEstimator, romco.PersonalLayer)):
        kept = [repr(item) for item in vars(door).items() if item[1] is not model]
    return json.dumps([state, kept], sort_keys=True), arrays


def check_stream(stream, folder):
    """Run a stream; fail where something refused changed the model, or it cannot be saved."""
    name, actions = stream
    door = DOORS[name]()
    before = content(door)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for action, batch in actions:
            refused = None
            try:
                act(door, action, batch)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                refused = error
            now = content(door)
            changed = refused is not None and now != before
            assert not changed, f"{name}: {action} {batch} was refused by {refused!r}"
            before = now
        model = model_of(door)
        if model is None:
            return
        romco.save(model, folder / "m.romco")
        again = romco.load(folder / "m.romco")
        again.engine.live = model.engine.live
        assert content(again) == content(model)
        rows = [{"a": 1.0, "c": 0.5}, {"a": 2.0}, {"c": -1.0}]
        tasks = ["t1", "t2", "nobody"]
        if isinstance(model.features, Columns) and model.features.names is None:
            rows = np.ones((3, model.features.width))
        try:
            found = model.margins(rows, tasks)
        except ValueError:  # of a model with offsets, or of columns that are no numbers
            return
        np.testing.assert_array_equal(again.margins(rows, tasks), found)


LONE = {"c": 1.0, "d": "u"}


@pytest.mark.parametrize(
    ("make", "learn"),
    [
        ("auto", lambda m: m.learn([LONE, {"c": 2.0}], ["x", "z"], ["t1"])),
        ("auto", lambda m: m.learn([LONE, {"c": 2e60}], ["x", "z"], ["t1", "t1"])),
        ("history", lambda m: m.learn_one({"a": "", "d": "u", "c": 2e60}, "x", "t9")),
        ("history", lambda m: m.learn([{"a": "p"}, {"a": "q"}], ["x", "z", "w"], ["t8", "t9"])),
        (
            "history of classes",
            lambda m: m.learn([{"a": "p", "d": "x"}] * 2, [1, 2, 3], ["t9"] * 2),
        ),
        ("auto", lambda m: m.learn([LONE, {"c": 9e99}], ["x", "z"], ["t1"] * 2, weight=[1.0, 0.0])),
        ("auto", lambda m: m.learn([LONE], ["x"], ["t1"], context=[[1.0, 2.0]])),
        ("auto", lambda m: m.learn([], ["x", "z"], ["t1"] * 2, weight=[0.0, 1.0])),
        ("auto", lambda m: m.learn([LONE] * 3, ["x", "z"], ["t1"] * 2, weight=[0.0, 1.0])),
        ("known names", lambda m: m.predict([{"a": 1.0}], ["t9"], id=[[]])),
        (
            "personal layer of numbers",
            lambda m: m.partial_fit([[1.0, 0.5, 0.5]], [10**400], ["t1"]),
        ),
        (
            "scikit-learn number",
            lambda m: m.partial_fit(pd.DataFrame([{}, {"a": 10**400}]), [1, 2], ["t1"] * 2),
        ),
        ("river", lambda m: [m.learn_one({"a": 1.0}, y, "t1") for y in (1, 2)] and m),
    ],
)
def test_these_are_refused_and_change_nothing(make, learn):
    door = DOORS[make]()
    if make == "river":
        learn(door)
        before = content(door)
        with pytest.raises(ValueError, match="'c' is"):
            door.learn_one({"c": 2e60}, 3, "t2")
        with pytest.raises(ValueError, match="task is missing"):
            door.learn_many(pd.DataFrame([{"a": 1.0}]), [3], [None])
    else:
        before = content(door)
        with pytest.raises(ValueError, match=r"has|is|must|cannot"):
            learn(door)
    assert content(door) == before


def test_a_task_in_two_forms_is_one_from_the_beginning(tmp_path):
    tasks = ["t1", "1", 1]
    estimator = romco.ROMCOClassifier("pa-unique").fit(np.eye(3), ["yes", "yes", "no"], task=tasks)
    for model in (estimator.model_, Model("pa-unique", tasks=tasks)):
        romco.save(model, tmp_path / "m.romco")
        assert romco.load(tmp_path / "m.romco").tasks == model.tasks == ["t1", "1"]


@pytest.mark.parametrize("bad", ["task", "label", "gap", "column"])
@pytest.mark.parametrize("make", [romco.ROMCOClassifier, romco.ROMCORegressor])
def test_a_fitted_estimator_outlives_a_fit_that_is_refused(make, bad):
    frame = pd.DataFrame({"colour": ["red", "blue"] * 4, "size": np.arange(8.0)})
    labels, tasks = [1, 2] * 4, ["ann", "bob"] * 4
    estimator = make().fit(frame, labels, task=tasks)
    before = estimator.predict(frame, task=tasks), content(estimator)
    x = {"gap": np.full((8, 3), np.nan), "column": frame[["size"]]}.get(bad, np.ones((8, 3)))
    y = [None] * 8 if bad in ("label", "column") else labels
    with pytest.raises(ValueError, match=r"NaN|task has|label"):
        estimator.fit(x, y, task=tasks[:3] if bad == "task" else tasks)
    np.testing.assert_array_equal(estimator.predict(frame, task=tasks), before[0])
    assert content(estimator) == before[1]


def test_sums_that_are_too_large_are_refused_when_they_are_read():
    model = Model("romco-auto", Hashed(2))
    row = {f"f{k}": 1e60 for k in range(9)}
    for refuse in (
        lambda: model.learn_one(row, "yes", "ann"),
        lambda: model.learn([row, row], ["yes", "no"], ["ann", "ann"]),
        lambda: model.predict_one(row, "ann"),
        lambda: model.learn_one({"a.k": 1e60, "a": {"k": 1e60}}, "yes", "ann"),
    ):
        with pytest.raises(
            ValueError, match=r"feature '#\d' is .*: features are numbers up to 1e\+60"
        ):
            refuse()
    assert model.events == 0


@given(STREAMS)
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
def test_what_is_refused_changes_nothing(tmp_path_factory, stream):
    check_stream(stream, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@given(STREAMS)
@settings(max_examples=10_000, suppress_health_check=list(HealthCheck), derandomize=False)
def test_many_streams_that_are_refused_change_nothing(tmp_path_factory, stream):
    check_stream(stream, tmp_path_factory.getbasetemp())
