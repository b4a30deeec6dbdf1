"""The compiled step gives the numbers of the plain twin, and refuses what only rounds can do."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import romco
from romco.model import Columns, Hashed, Model, Names
from romco.model.rows import Rows

from ..reference.step import PlainModel

LEARNERS = ["romco-auto", "pa-global", "arow-shared"]  # whose new tasks need no start
WORDS = [f"word {k}" if k % 3 else f"w{k}" for k in range(150)] + ["é", "a long name, not cached"]


def events(seed, n=400):
    """Rows of any shape: new names and tasks, gaps, whole numbers, empty rows, bad ones."""
    rng = np.random.default_rng(seed)
    for at in range(n):
        names = rng.choice(WORDS[: 10 + at // 2], size=rng.integers(0, 9), replace=False)
        row = dict(zip(map(str, names), rng.normal(size=len(names)).tolist(), strict=True))
        if at % 7 == 0:
            row["gap"] = None
        if at % 11 == 0:
            row["whole"] = int(rng.integers(5))
        if at % 29 == 3:
            row["bad"] = 1e61
        yield row, f"task {rng.integers(3 + at // 30)}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", LEARNERS)
def test_two_classes_agree_with_the_plain_twin(name, seed):
    model, plain = Model(name, classes=("no", "yes")), PlainModel(name)
    plain.labels = {"no": -1.0, "yes": 1.0}
    refused = 0
    for row, task in events(seed):
        y = "yes" if sum(v for v in row.values() if isinstance(v, float)) > 0 else "no"
        try:
            margin = model.learn_one(row, y, task)
        except ValueError:
            with pytest.raises(ValueError, match="bad"):
                plain.learn_one(row, y, task)
            refused += 1
            continue
        assert margin == pytest.approx(plain.learn_one(row, y, task), rel=1e-9, abs=1e-12)
        probe = {**row, "unknown": 2.0}
        assert model.engine.margin_one(probe, task) == pytest.approx(
            plain.margin_one(probe, task), rel=1e-9, abs=1e-12
        )
    assert refused > 3
    assert model.tasks == list(plain.tasks)
    assert [model.features.name(k) for k in range(model.features.width)] == list(plain.features)
    assert {task: model.engine.events_of(task) for task in plain.seen} == plain.seen
    assert model.engine.scale.log_a == pytest.approx(plain.log_a, rel=1e-9)


def test_numbers_agree_with_the_plain_twin():
    model, plain = Model(target="number"), PlainModel("romco-auto-number", target="number")
    for row, task in events(5):
        y = float(sum(v for v in row.values() if isinstance(v, float)))
        if not abs(y) < 1e60:
            continue
        margin = model.learn_one(row, y, task)
        assert margin == pytest.approx(plain.learn_one(row, y, task), rel=1e-9, abs=1e-9)
    assert model.events == sum(plain.seen.values())


@pytest.mark.parametrize("features", [Names, lambda: Hashed(64)])
@pytest.mark.parametrize("name", ["romco-auto", "romco-nucl", "pa-unique", "trml"])
def test_one_by_one_and_in_a_batch_are_the_same_bits(name, features):
    rows, tasks = zip(*(e for e in events(1, 120) if "bad" not in e[0]), strict=True)
    labels = [("no", "yes")[k % 2] for k in range(len(rows))]
    weights = None if name in ("trml",) else [1.0, 2.5, 1.0] * len(rows)
    one, batch = Model(name, features()), Model(name, features())
    if weights is None or not one.engine.learner.supports_sample_weight:
        weights = [1.0] * len(rows)
    weights = weights[: len(rows)]
    given = zip(rows, labels, tasks, weights, strict=True)
    margins = [one.learn_one(*event) for event in given]
    weighed = None if set(weights) == {1.0} else weights
    assert margins == batch.learn(rows, labels, tasks, weight=weighed).tolist()
    first, second = one.state(), batch.state()
    for key, array in first.pop("arrays").items():
        np.testing.assert_array_equal(array, second["arrays"][key])
    second.pop("arrays")
    assert first == second


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_rows_of_arrays_are_read_in_place(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 6)) * (rng.random((80, 6)) < 0.5)
    made = {"features": Columns(6), "classes": (0, 1), "tasks": ["a", "b"]}
    one, batch = Model(**made), Model(**made)
    y, tasks = (x[:, 0] > 0).astype(int).tolist(), ["a", "b"] * 40
    rows = kind(x)
    margins = [one.engine.learn_one(rows[[k]], y[k], tasks[k]) for k in range(80)]
    assert margins == batch.learn(x, y, tasks).tolist()
    probe = [one.engine.margin_one(rows[[k]], tasks[k]) for k in range(80)]
    assert probe == batch.margins(x, tasks).tolist()


def test_events_are_predicted_as_arrays_are():
    rng = np.random.default_rng(1)
    rows = [{f"f{k}": float(rng.normal()) for k in rng.integers(0, 30, 8)} for _ in range(200)]
    tasks = [f"t{k}" for k in rng.integers(0, 9, 200)]
    model = Model(classes=("no", "yes"))
    model.learn(rows, [("no", "yes")[row.get("f1", 0.0) > 0] for row in rows], tasks)
    labels, chances, margins, sizes = zip(*model.engine.predict_events(rows, tasks), strict=True)
    assert labels == tuple(model.predict(rows, tasks))
    assert margins == tuple(model.margins(rows, tasks))
    np.testing.assert_allclose(chances, model.engine.probabilities(Rows(rows, tasks)), rtol=1e-15)
    assert sizes == tuple(map(len, rows))


def test_several_events_with_text_are_left_to_the_general_way():
    rows = [{"colour": ("red", "blue")[k % 2], "age": float(k % 5)} for k in range(40)]
    model = Model(classes=("no", "yes"))
    model.learn(rows, ["yes", "no"] * 20, ["ann"] * 40)
    assert model.engine.predict_events(rows[:2], ["ann"] * 2) is NotImplemented
    plain = Model(classes=("no", "yes"))
    plain.learn([{"age": row["age"]} for row in rows], ["yes", "no"] * 20, ["ann"] * 40)
    assert plain.engine.predict_events(rows[:2], ["ann"] * 2) is NotImplemented


def test_numbers_that_are_categories_stay_so_where_there_are_many_names(monkeypatch):
    rows = [{"code": k % 3, "age": float(k % 5)} for k in range(40)]
    models = [
        Model(classes=("no", "yes"), schema=romco.Schema({"code": "category"})) for _ in range(2)
    ]
    margins = []
    for model, most in zip(models, (100, 1), strict=True):
        monkeypatch.setattr("romco.io.encoder.MAX_NAMES", most)
        margins.append([model.learn_one(r, "yes" if r["code"] else "no", task=0) for r in rows])
        margins[-1] += [model.engine.margin_one(row, 0) for row in rows]
    assert margins[0] == margins[1]


def test_the_compiled_way_is_taken_for_known_names_and_only_for_these():
    model = Model(classes=("no", "yes"), tasks=["ann", 7])
    engine = model.engine
    assert engine.learn_event({"a": 1.0}, "yes", "ann") == 0.0  # a new feature has room
    assert engine.label_of_event({"a": 1.0}, "ann") == "yes"
    margin = model.margins([{"a": 1.0}], [7])[0]
    expected = ("yes", engine.probability_of(margin), margin, 1)
    assert engine.predict_events([{"a": 1.0}, {"a": 1.0, "new": 2.0}], [7, 7]) == [expected] * 2
    assert engine.predict_events([{"a": 1.0}, [1.0]], [7, 7]) is NotImplemented
    for x, y, task in (
        ({"a": 1.0}, "yes", "bo\u00e9"),  # a name to be looked at
        ({"a": 1.0}, "maybe", "ann"),
        ({"é": 1.0}, "yes", "ann"),  # a name to be looked at
        ({"a": 1.0}, ["yes"], "ann"),
        ({"a": 1.0}, "yes", ["ann"]),
        ([1.0], "yes", "ann"),
    ):
        assert engine.learn_event(x, y, task) is NotImplemented
    assert engine.learn_event({"a": 1.0}, "yes", "ann", 0.0) is NotImplemented
    assert (model.events, model.tasks) == (1, ["ann", 7])
    assert model.features.width == 1
    assert model.engine.learner.n_tasks == 2
    for task in ("7", "bob"):  # in another form, and a new one, for which room is made
        assert engine.learn_event({"a": 1.0}, "yes", task) is not NotImplemented
    assert (model.events, model.tasks) == (3, ["ann", 7, "bob"])
    wide = {f"f{k}": 1.0 for k in range(100)}  # more than there is room for
    assert engine.learn_event(wide, "yes", "ann") is not NotImplemented
    assert (model.features.width, engine.learner.n_features) == (101, 128)
    many = Model(target="classes", classes="abc", tasks=["ann"])
    assert many.engine.learn_event({"a": 1.0}, "d", "ann") is NotImplemented
    assert many.engine.margin_of_event({"a": 1.0}, "ann").shape == (3,)
    assert Model("trml", tasks=["ann"], classes=(0, 1)).engine.margin_of_event({}, "ann") is (
        NotImplemented
    )


def test_names_of_any_length_keep_apart():
    names = ["", "a", "a" * 16, "a" * 17, "a" * 16 + "b", "\x00", "\x00\x00", "b" + "\x00" * 3]
    model = Model("pa-unique", classes=(0, 1), tasks=["t"])
    for name in names:
        model.learn_one({name: 1.0}, 1, "t")
    assert model.features.width == len(names)
    for _ in range(2):
        read = [model.features.read([{name: 1.0}]).columns.tolist() for name in names]
        assert read == [[k] for k in range(len(names))]


def test_a_step_that_fails_changes_nothing():
    model = Model("ogd-unique", eta=1e300, classes=("no", "yes"))
    model.learn_one({"a": 1e8}, "yes", "ann")
    before = model.state()
    with pytest.raises(FloatingPointError):
        model.learn_one({"a": 1e50, "new": 1.0}, "no", "ann")
    after = model.state()
    np.testing.assert_equal(after.pop("arrays"), before.pop("arrays"))
    assert after == before
    assert romco.Model.from_state(model.state()).features.width == 1


def test_text_of_columns_that_are_known_is_read_by_the_step():
    model = Model("pa-unique", classes=("no", "yes"), tasks=["ann"])
    engine = model.engine
    assert engine.learn_event({"town": "Rome"}, "yes", "ann") is NotImplemented  # a new column
    assert (model.schema, model.features.width) == (None, 0)
    model.learn_one({"town": "Rome", "age": 1.0}, "yes", "ann")
    assert engine.learn_event({"town": "Bonn", "age": 2.0}, "no", "ann") is not NotImplemented
    assert engine.learn_event({"town": "Bonn", "rooms": 2.0}, "no", "ann") is NotImplemented
    assert model.schema.kinds == {"town": "category", "age": "number"}
    assert (model.events, model.features.width) == (2, 3)


def test_new_tasks_are_named_by_the_step_and_freed_numbers_used_again():
    model = Model(classes=("no", "yes"))
    for task in ("ann", "bob", "cy"):
        assert model.engine.learn_event({"a": 1.0}, "yes", task) is not NotImplemented
    model.forget("bob")
    assert model.engine.learn_event({"a": 1.0}, "yes", "dan") is not NotImplemented
    assert model.engine.tasks.numbers(["ann", "dan", "cy", "bob"]).tolist() == [0, 1, 2, -1]
    started = Model("pa-unique", classes=("no", "yes"))  # whose new tasks are started
    assert started.engine.learn_event({"a": 1.0}, "yes", "ann") is NotImplemented
    assert started.tasks == []


@pytest.mark.parametrize("name", [*LEARNERS, "romco-nucl", "pa-unique"])
def test_a_task_that_nobody_knows_is_predicted_as_in_a_batch(name):
    model = Model(name, classes=("no", "yes"))
    for k, (row, task) in enumerate(events(3, 60)):
        if "bad" not in row:
            model.learn_one(row, ("no", "yes")[k % 2], task)
            for other in ("nobody", "Ünbekannt", 7, task):
                one = model.engine.margin_one(row, other)
                assert one == model.margins([row], [other])[0]
    assert "nobody" not in model.tasks
    assert model.predict_one({}, "nobody") in ("no", "yes")


@pytest.mark.parametrize("form", ["pairs", "rest", "softmax"])
def test_many_classes_one_by_one_and_in_a_batch_are_the_same_bits(form):
    rows, tasks = zip(*(e for e in events(2, 200) if "bad" not in e[0]), strict=True)
    labels = ["abcd"[(k * k) % 4 if k < 90 else k % 4] for k in range(len(rows))]
    one, batch = (Model(target="classes", form=form) for _ in range(2))
    compiled = 0
    for x, y, task in zip(rows, labels, tasks, strict=True):
        expected = batch.learn([x], [y], [task])[0]
        margins = one.engine.learn_event(x, y, task)
        compiled += margins is not NotImplemented
        if margins is NotImplemented:
            margins = one.learn_one(x, y, task)
        assert margins.tolist() == expected.tolist()
        assert one.predict_one(x, task) == batch.predict([x], [task])[0]
    assert compiled > 100
    assert one.classes == batch.classes
    first, second = one.state()["arrays"], batch.state()["arrays"]
    assert all(np.array_equal(first[name], second[name]) for name in second)
