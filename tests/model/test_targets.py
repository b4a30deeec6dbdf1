"""Models of many classes and of weighed events, by name."""

import numpy as np
import pytest

import romco
from romco.model.rows import Rows
from romco.model.target import ManyClasses, NumberTarget, make_target, target_from_json

RNG = np.random.default_rng(0)
ROWS = [{"a": a, "b": b} for a, b in RNG.normal(size=(200, 2)).tolist()]
MODES = ["car" if r["a"] > 0.3 else "bus" if r["b"] > 0.0 else "train" for r in ROWS]
TASKS = [f"t{i % 7}" for i in range(200)]
USERS = [f"t{i % 7}" for i in range(500)]


def test_classes_come_as_they_come_and_batch_equals_loop(tmp_path):
    batch, loop = romco.Model(target="classes"), romco.Model(target="classes")
    scores = batch.learn(ROWS, MODES, TASKS)
    for i, (x, y, task) in enumerate(zip(ROWS, MODES, TASKS, strict=True)):
        found = loop.learn_one(x, y, task)
        np.testing.assert_array_equal(scores[i, : len(found)], found)
        assert (scores[i, len(found) :] == -np.inf).all()
    assert set(batch.classes) == {"car", "bus", "train"}
    np.testing.assert_array_equal(batch.margins(ROWS, TASKS), loop.margins(ROWS, TASKS))
    assert np.mean(batch.predict(ROWS, TASKS) == MODES) > 0.85
    romco.save(batch, tmp_path / "modes.romco")
    again = romco.load(tmp_path / "modes.romco")
    np.testing.assert_array_equal(again.margins(ROWS, TASKS), batch.margins(ROWS, TASKS))
    np.testing.assert_array_equal(again.learn(ROWS, MODES, TASKS), batch.learn(ROWS, MODES, TASKS))


def test_a_model_goes_on_past_thirty_classes(tmp_path):
    rng = np.random.default_rng(1)
    number = np.minimum(rng.geometric(0.04, size=300), 45)
    rows = [
        {"a": float(a), "b": float(b)} for a, b in zip(number, rng.normal(size=300), strict=True)
    ]
    labels = [f"shop {k}" for k in number]
    model = romco.Model(target="classes")
    for x, y, task in zip(rows, labels, USERS[:300], strict=True):
        model.learn_one(x, y, task)
    assert model.engine.learner.form == "softmax"
    assert len(model.classes) > 30
    chances = model.engine.probabilities(Rows(rows[:9], USERS[:9]))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-9)
    romco.save(model, tmp_path / "shops.romco")
    again = romco.load(tmp_path / "shops.romco")
    np.testing.assert_array_equal(
        again.margins(rows, USERS[:300]), model.margins(rows, USERS[:300])
    )
    model.forget("t1")
    assert np.isfinite(model.margins(rows[:9], USERS[:9])).all()


@pytest.mark.parametrize("learner", ["arow-unique", "romco-logd"])  # romco-auto has curves of two
def test_two_of_many_are_the_two(learner):
    labels = ["no" if y == "bus" else "yes" for y in MODES]
    two, many = romco.Model(learner), romco.Model(learner, target="classes")
    margins, scores = two.learn(ROWS, labels, TASKS), many.learn(ROWS, labels, TASKS)
    assert two.classes == many.classes == ("no", "yes")
    both = max(labels.index("no"), labels.index("yes")) + 1  # from here on both are known
    np.testing.assert_array_equal(margins[both:] >= 0.0, scores[both:, 1] >= scores[both:, 0])
    np.testing.assert_allclose(
        two.engine.probabilities(Rows(ROWS, TASKS)),
        many.engine.probabilities(Rows(ROWS, TASKS))[:, 1],
        rtol=1e-9,
    )
    np.testing.assert_array_equal(two.predict(ROWS, TASKS), many.predict(ROWS, TASKS))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("n_classes", [3, 12, 40])
def test_a_new_label_is_not_visible_to_its_own_prediction(n_classes, together):
    labels = [f"c{k}" for k in range(n_classes)]
    rows, tasks = [{"a": k % 3, "b": 1} for k in range(n_classes)], ["t"] * n_classes
    model = romco.Model(target="classes")
    found = model.engine.predict_and_learn(Rows(rows, tasks, labels), together=together)
    chances = found.probabilities
    assert not np.triu(chances).any()  # class k comes first in row k
    if together:
        assert not chances.any()
    else:
        np.testing.assert_allclose(chances[1:].sum(axis=1), 1.0, rtol=1e-9)
    predicted = model.engine.target.labels_of(found.margins)
    assert predicted[0] is None
    assert not (predicted == labels).any()


def test_before_and_after_the_first_label():
    model = romco.Model(target="classes")
    assert model.predict_one({"a": 1}, "t") is None
    assert model.predict([{"a": 1}], ["t"]).tolist() == [None]
    model.learn_one({"a": 1.0}, "yes", "t")
    assert model.predict_one({"a": -1}, "new") == "yes"
    assert model.predict_proba_one({"a": 1}, "t") == {"yes": 1.0}
    model.learn_one({"a": -1.0}, "perhaps", "t")
    assert sum(model.predict_proba_one({"a": 1}, "t").values()) == pytest.approx(1.0)


def test_announced_classes_are_known_without_events():
    model = romco.Model(target="classes", classes=["a", "b", "c"])
    assert model.classes == ("a", "b", "c")
    assert model.predict_one({"x": 1}, 0) == "c"  # all alike: the last
    np.testing.assert_allclose(model.engine.probabilities(Rows([{"x": 1}], [0])), 1 / 3)
    for bad in (["a"], ["a", "a"], []):
        with pytest.raises(ValueError, match="two or more"):
            romco.Model(target="classes", classes=bad)


def test_a_class_of_one_event_stays_rare():
    model = romco.Model(target="classes")
    model.learn(ROWS, MODES, TASKS)
    model.learn_one({"a": 9.0}, "boat", "t0")
    model.learn(ROWS, MODES, TASKS)
    assert np.mean(model.predict(ROWS, TASKS) == "boat") < 0.05


@pytest.mark.parametrize("classes", [2, 3, 10, 15])
def test_a_label_that_occurs_once_is_not_predicted_elsewhere(classes):
    rng = np.random.default_rng(classes)
    x, task = rng.normal(size=(2000, 6)), rng.integers(5, size=2000).astype(str)
    y = (x @ rng.normal(size=(6, classes)) + rng.gumbel(size=(2000, classes))).argmax(axis=1)
    model = romco.Model(features=romco.Columns(6), target="classes")
    model.learn(x[:1500], y[:1500].astype(str), task[:1500])
    before = np.mean(model.predict(x[1500:], task[1500:]) != y[1500:].astype(str))
    model.learn_one(x[0], "mistyped", "0")
    found = model.predict(x[1500:], task[1500:])
    assert np.mean(found == "mistyped") < 0.02
    assert np.mean(found != y[1500:].astype(str)) < before + 0.03


@pytest.mark.parametrize("bad", [None, float("nan"), ["list"]])
def test_bad_labels_change_nothing(bad):
    model = romco.Model(target="classes")
    model.learn(ROWS, MODES, TASKS)
    before = model.state()
    with pytest.raises(ValueError, match="label"):
        model.learn([*ROWS, {"new": 1.0}], [*MODES, bad], [*TASKS, "newer"])
    after = model.state()
    assert {k: v for k, v in before.items() if k != "arrays"} == {
        k: v for k, v in after.items() if k != "arrays"
    }


def test_too_many_classes_are_refused_and_change_nothing():
    model = romco.Model("arow-global", target="classes")
    model.learn_one({"a": 1.0}, 0, "t")
    with pytest.raises(ValueError, match="10000 classes"):
        model.learn([{"a": 1.0}] * 10_000, range(10_000), ["t"] * 10_000)
    assert model.events == 1
    assert model.classes == (0,)


def test_third_label_says_what_to_do():
    model = romco.Model()
    with pytest.raises(ValueError, match="target='classes'"):
        model.learn(ROWS, MODES, TASKS)


@pytest.mark.parametrize("target", [None, "classes"])
def test_weight_zero_changes_nothing_and_is_predicted_in_its_turn(target):
    labels = MODES if target else [y == "car" for y in MODES]
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 200)
    weight[0] = 1.0
    model, loop = romco.Model(target=target), romco.Model(target=target)
    rows = [
        {**r, **({"unseen": 1.0} if h == 0.0 else {})} for r, h in zip(ROWS, weight, strict=True)
    ]
    tasks = [t if h else f"{t} again" for t, h in zip(TASKS, weight, strict=True)]
    scores = model.learn(rows, labels, tasks, weight=weight)
    for i, (x, y, task, h) in enumerate(zip(rows, labels, tasks, weight, strict=True)):
        found = np.atleast_1d(loop.learn_one(x, y, task, h))
        np.testing.assert_array_equal(np.atleast_1d(scores[i])[: len(found)], found)
    assert model.events == np.count_nonzero(weight)
    assert not any("again" in task for task in model.tasks)
    assert model.features.width == 2
    np.testing.assert_array_equal(model.margins(ROWS, TASKS), loop.margins(ROWS, TASKS))


def test_bad_weights_and_learners_without():
    model = romco.Model()
    with pytest.raises(ValueError, match="row 1: weight -1"):
        model.learn(ROWS[:2], [True, False], TASKS[:2], weight=[1.0, -1.0])
    with pytest.raises(ValueError, match=r"row 0: weight .* up to 1e\+12"):
        model.learn(ROWS[:2], [True, False], TASKS[:2], weight=[1e13, 1.0])
    with pytest.raises(ValueError, match=r"1 entries|has 1"):
        model.learn(ROWS[:2], [True, False], TASKS[:2], weight=[1.0])
    with pytest.raises(ValueError, match="romco-nucl cannot"):
        romco.Model("romco-nucl").learn(ROWS[:1], [True], TASKS[:1], weight=[2.0])
    assert model.events == 0


def test_targets_read_what_they_wrote():
    target = ManyClasses()
    target.adopt(target.read([True, ("a", 1), "x"])[1])
    again = target_from_json(target.to_json())
    assert again.known == target.known
    assert isinstance(target_from_json(NumberTarget().to_json()), NumberTarget)
    for bad in ({"kind": "classes", "labels": [["a", 0], ["b", 0]]}, {"kind": "?"}):
        with pytest.raises(ValueError, match=r"number|unknown"):
            target_from_json(bad)
    with pytest.raises(ValueError, match="target must be"):
        make_target("colour", None)


NUMBERS = [3.0 * r["a"] - r["b"] + 50.0 for r in ROWS]


@pytest.mark.parametrize("learner", ["romco-auto", "pa-global", "arow-unique", "ogd-global"])
def test_numbers_by_name(learner, tmp_path):
    batch, loop = (romco.Model(learner, target="number") for _ in range(2))
    margins = batch.learn(ROWS, NUMBERS, TASKS)
    for i, (x, y, task) in enumerate(zip(ROWS, NUMBERS, TASKS, strict=True)):
        assert loop.learn_one(x, y, task) == margins[i]
    romco.save(batch, tmp_path / "numbers.romco")
    again = romco.load(tmp_path / "numbers.romco")
    np.testing.assert_array_equal(again.predict(ROWS, TASKS), batch.predict(ROWS, TASKS))
    assert again.engine.target.kind == "number"
    assert batch.classes == ()
    assert isinstance(batch.predict_one(ROWS[0], "somebody new"), float)
    assert np.isnan(
        batch.engine.predict_and_learn(Rows(ROWS[:1], ["t0"], [1.0])).probabilities
    ).all()


def test_intervals_of_numbers():
    model = romco.Model(target="number")
    model.learn(ROWS, NUMBERS, TASKS)
    bounds = model.intervals(ROWS, TASKS, level=0.9)
    predicted = model.predict(ROWS, TASKS)
    assert ((bounds[:, 0] < predicted) & (predicted < bounds[:, 1])).all()
    assert np.mean((bounds[:, 0] <= NUMBERS) & (bounds[:, 1] >= NUMBERS)) > 0.8
    assert model.intervals(ROWS[:2], ["new", "newer"]).shape == (2, 2)
    with pytest.raises(ValueError, match="no intervals"):
        romco.Model().intervals(ROWS[:1], ["t"])
    with pytest.raises(ValueError, match="no probability"):
        model.engine.probabilities(Rows(ROWS[:1], ["t"]))


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), 1e61, -1e200, 10**400, "seven", None, 1j, [1.0]]
)
def test_bad_numbers_change_nothing(bad):
    model = romco.Model(target="number")
    model.learn(ROWS, NUMBERS, TASKS)
    before = model.state()
    with pytest.raises(ValueError, match="answer 200 is"):
        model.learn([*ROWS, {"new": 1.0}], [*NUMBERS, bad], [*TASKS, "newer"])
    after = model.state()
    for part, array in before["arrays"].items():
        np.testing.assert_array_equal(after["arrays"][part], array)
    assert after["features"] == before["features"]
    assert after["tasks"] == before["tasks"]


def test_learners_that_predict_no_numbers_say_so():
    with pytest.raises(ValueError, match="cw-col cannot predict numbers; these can: romco-auto"):
        romco.Model("cw-col", target="number")
    with pytest.raises(ValueError, match="does not predict two classes"):
        romco.Model("romco-auto-number")
    with pytest.raises(ValueError, match="no classes"):
        romco.Model(target="number", classes=["a", "b"])


def test_weighed_numbers():
    weight = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 200)
    model, loop = romco.Model(target="number"), romco.Model(target="number")
    margins = model.learn(ROWS, NUMBERS, TASKS, weight=weight)
    for i, (x, y, task, h) in enumerate(zip(ROWS, NUMBERS, TASKS, weight, strict=True)):
        assert loop.learn_one(x, y, task, h) == margins[i]


def test_explanations_of_classes_and_numbers():
    model = romco.Model(target="classes")
    model.learn(ROWS, MODES, TASKS)
    found = romco.explain(model)
    told = [name for task in found.tasks for name, _ in task.features]
    assert told
    assert {name.split(" for ")[0] for name in told} <= {"a", "b"}
    assert {name.split(" for ")[1] for name in told} <= set(MODES)
    number = romco.Model(target="number")
    number.learn(
        ROWS,
        [y + 9.0 * x["a"] * (t == "t1") for x, y, t in zip(ROWS, NUMBERS, TASKS, strict=True)],
        TASKS,
    )
    found = romco.explain(number)
    assert found.tasks[0].task == "t1"
    assert found.tasks[0].features[0][0] == "a"
    assert "<html" in found.page()


@pytest.mark.parametrize("name", ["ogd", "pa", "arow"])
def test_a_number_model_for_all_forgets_a_task_and_keeps_its_weights(name):
    model = romco.Model(f"{name}-global", target="number")
    model.learn(ROWS, NUMBERS, TASKS)
    before = model.margins(ROWS[:5], ["t2"] * 5)
    model.forget("t1")
    assert "t1" not in model.tasks
    assert (model.margins(ROWS[:5], ["t2"] * 5) == before).all()


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
def test_models_are_shown_by_the_name_of_their_learner(target):
    model = romco.Model(target=target)
    model.learn([{"a": 1.0}] * 3, [1, 2, 3] if target != "two classes" else [1, 2, 1], ["t"] * 3)
    assert repr(model).startswith(f"<romco.Model: romco-auto for {target}")
    assert romco.explain(model).learner == "romco-auto"


@pytest.mark.parametrize(
    ("labels", "target"), [((1.5, 2.0, 3.0), "number"), (("a", "b", "c"), "classes")]
)
def test_a_third_label_is_answered_by_the_target_it_needs(labels, target):
    model = romco.Model("pa-unique")
    with pytest.raises(ValueError, match=f"for more, say target='{target}'"):
        model.learn([{"a": 1.0}] * 3, labels, ["ann"] * 3)


@pytest.mark.parametrize("way", ["learn", "fit"])
def test_a_label_that_may_be_mistyped_is_named(way):
    rows = [{"a": float(k % 7) - 3.0} for k in range(400)]
    labels = [["yes", "no"][k % 2] for k in range(399)] + ["No"]
    model = romco.Model("pa-unique", target="classes")
    with pytest.warns(UserWarning, match="label 'No' occurs once in 400 rows, in row 399"):
        getattr(model, way)(rows, iter(labels), ["t"] * 400)
    assert len(model.classes) == 3


@pytest.mark.parametrize("labels", ["", "a", "ab", "abc"])
def test_no_rows_of_classes_have_no_predictions(labels):
    model = romco.Model(target="classes")
    for label in labels:
        model.learn([{"x": 1.0}], [label], ["ann"])
    assert model.margins([], []).shape == (0, max(2, len(labels)))
    assert model.predict_proba([], []).shape == (0, len(labels))
    assert model.predict([], []).tolist() == []
