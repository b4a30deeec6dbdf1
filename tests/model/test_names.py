import numpy as np
import pandas as pd
import pytest

from romco.model import Model
from romco.model.names import TaskTable, as_array, canonical_name, from_json, identity, to_json
from romco.model.target import TwoClasses


@pytest.mark.parametrize("name", ["ann", 3, 2.5, True, ("shop", 3), b"\x00\xff", (("a",), b"b")])
def test_identity_survives_a_file(name):
    again = from_json(to_json(name))
    assert again == name
    assert type(again) is type(name)


def test_identity_of_other_kinds_cannot_be_saved():
    with pytest.raises(TypeError, match="frozenset"):
        to_json(frozenset("a"))
    for damaged in (None, [], {"tuple": 3}, {"a": 1, "b": 2}, {"other": []}):
        with pytest.raises(ValueError, match="not the name"):
            from_json(damaged)


@pytest.mark.parametrize("missing", [None, float("nan"), np.float64("nan"), pd.NA, ["a"]])
def test_missing_identity_is_refused(missing):
    with pytest.raises(ValueError, match="task"):
        identity("task", missing)


def test_numpy_and_python_names_are_the_same():
    tasks = TaskTable()
    tasks.add(identity("task", np.int64(3)))
    assert tasks.numbers([3, np.int32(3), "4"]).tolist() == [0, 0, -1]


SAME = [1, 1.0, "1", "1.0", "+1", "1.", True, "true", "True", np.int8(1), np.True_, np.float32(1)]


@pytest.mark.parametrize("first", SAME)
def test_a_task_is_the_same_however_it_is_typed_and_keeps_its_first_form(first):
    model = Model("pa-unique")
    for form in SAME:
        model.learn([{"a": 1}, {"a": 2}], [first, 0], [first, form])
    assert len(model.tasks) == 1
    assert model.tasks[0] == first
    assert model.engine.events_of(1) == model.engine.events_of("1") == 2 * len(SAME)
    assert (
        model.margins([{"a": 1}] * 2, ["1", True]) == model.margins([{"a": 1}] * 2, [1, 1])
    ).all()
    again = Model.from_state(model.state())
    assert again.engine.tasks.numbers(SAME).tolist() == [0] * len(SAME)
    again.forget("1.0")
    assert again.engine.tasks.numbers(SAME).tolist() == [-1] * len(SAME)


def test_other_text_is_itself():
    names = ["007", "7", "7.5", "1e3", "1_000", "", "-", "\u0661", "true story", "7 "]
    tasks = TaskTable()
    for name in names:
        tasks.add(name)
    assert tasks.numbers(names).tolist() == list(range(len(names)))
    assert canonical_name("-0") == canonical_name(0) == canonical_name(False) == "0"


@pytest.mark.parametrize("labels", [(0, 1), ("0", "1"), (0.0, True), ("false", 1), (False, "True")])
def test_labels_are_the_same_however_they_are_typed(labels):
    model = Model("pa-unique", classes=(0, 1))
    model.learn([{"a": 1}, {"a": -1}], labels, ["ann", "ann"])
    assert model.classes == (0, 1)
    assert [model.engine.two_classes.number_of(label) for label in labels] == [-1.0, 1.0]
    with pytest.raises(ValueError, match="a third label 'yes'"):
        model.learn([{"a": 1}], ["yes"], ["ann"])


PAIRS = [
    ("no", "yes"),
    (False, True),
    ("0", "1"),
    (-1, 1),
    ("ham", "spam"),
    ("1", "2"),
    ("9", "10"),
    ("n", "p"),
    ("neg", "pos"),
    ("none", "click"),
    ("B", "yes"),
]


@pytest.mark.parametrize("learner", ["romco-nucl", "romco-auto", "pa-unique"])
@pytest.mark.parametrize(("negative", "positive"), PAIRS)
@pytest.mark.parametrize("alone", [True, False])
def test_the_positive_label_does_not_depend_on_which_comes_first(
    learner, negative, positive, alone
):
    rows = [{"a": 1.0, "b": 0.5}, {"a": 0.5}, {"b": 1.0}, {"a": -1.0, "b": 2.0}]
    found = []
    for first, second in ((negative, positive), (positive, negative)):
        model, labels = Model(learner), [first, first, second, second]
        for cut in [[0], [1], [2, 3]] if alone else [[0, 1, 2, 3]]:
            model.learn([rows[i] for i in cut], [labels[i] for i in cut], ["ann"] * len(cut))
        assert model.classes == (negative, positive)
        assert model.engine.target.positive == positive
        again = Model.from_state(model.state())
        assert again.engine.target.positive == positive
        margins = again.margins(rows, ["ann"] * 4)
        np.testing.assert_array_equal(margins, model.margins(rows, ["ann"] * 4))
        assert again.predict(rows, ["ann"] * 4)[0] == (positive if margins[0] >= 0 else negative)
        found.append(margins)
    np.testing.assert_allclose(found[0], -found[1], atol=1e-12)  # labels swapped, nothing else


def test_what_is_positive_can_be_named():
    model = Model("pa-unique", positive="ham")
    model.learn_one({"a": 1}, "spam", "ann")
    assert model.classes == ("spam", "ham")
    assert Model.from_state(model.state()).engine.target.positive == "ham"
    waiting = Model.from_state(Model("pa-unique", positive="ham").state())
    waiting.learn_one({"a": 1}, "spam", "ann")
    assert waiting.engine.target.positive == "ham"
    with pytest.raises(ValueError, match="'spam' is positive, not 'ham'"):
        Model("pa-unique", classes=("ham", "spam"), positive="ham")


def test_freed_numbers_are_used_again_smallest_first_also_after_a_file():
    tasks = TaskTable()
    for name in "abcd":
        tasks.add(name)
    tasks.remove("c")
    tasks.remove("a")
    again = TaskTable.from_json(tasks.to_json())
    assert tasks.to_json() == [None, "b", None, "d"]
    assert [again.add("x"), again.add("y"), again.add("z")] == [0, 2, 4]


@pytest.mark.parametrize(
    ("seen", "classes"),
    [
        ([True, False], (False, True)),
        ([0, 1], (0, 1)),
        (["1", "0"], ("0", "1")),
        ([-1, 1], (-1, 1)),
        (["yes", "no"], ("no", "yes")),
        (["ham", "spam"], ("ham", "spam")),
    ],
)
def test_sides_of_labels_as_they_come(seen, classes):
    labels = TwoClasses()
    labels.adopt(labels.read(seen)[1])
    assert labels.classes == classes


def test_third_label_is_refused_and_changes_nothing():
    labels = TwoClasses(("ham", "spam"))
    with pytest.raises(ValueError, match="third label 'eggs'"):
        labels.adopt(labels.read(["ham", "eggs"])[1])
    assert labels.classes == ("ham", "spam")
    for classes in (["a"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="two different labels"):
            TwoClasses(classes)


def test_answers_before_and_after_labels_are_known():
    labels = TwoClasses()
    assert labels.label_of(1.0) is None
    labels.adopt(labels.read(["ham"])[1])
    assert (labels.label_of(1.0), labels.label_of(-1.0)) == ("ham", "ham")
    labels.adopt(labels.read(["spam"])[1])
    assert labels.labels_of(np.array([0.0, -0.1])).tolist() == ["spam", "ham"]


class Text(str):
    """Text of another library."""


UNFIT = [
    *(
        float("inf"),
        np.float64("-inf"),
        ("a", float("nan")),
        ("a", ("b", float("inf"))),
        ("a", None),
    ),
    *(
        np.str_("\ud800"),
        Text("\ud800"),
        ("\ud800",),
        10**5000,
        frozenset(),
        1j,
        np.datetime64("2024-01-01"),
    ),
]


@pytest.mark.parametrize("name", UNFIT, ids=lambda name: type(name).__name__)
def test_what_no_file_could_hold_is_no_name(name):
    """Else the model could never be saved, or its file not loaded."""
    model = Model("pa-unique")
    model.learn([{"a": 1}], ["yes"], ["ann"])
    for row, label, task in (
        ({"a": 1}, "no", name),
        ({"a": 1}, name, "ann"),
        ({name: 1}, "no", "ann"),
    ):
        with pytest.raises(ValueError, match=r"task|label|feature"):
            model.learn([row], [label], [task])
    assert (model.events, model.tasks, model.classes) == (1, ["ann"], ("yes",))
    model.state()


@pytest.mark.parametrize("damaged", ["\ud800", float("inf"), {"tuple": ["\ud800"]}])
def test_what_is_no_name_is_none_in_a_file(damaged):
    with pytest.raises(ValueError, match="name"):
        from_json(damaged)


def test_text_of_another_kind_is_plain_text():
    assert type(identity("task", Text("ann"))) is str
    assert identity("task", (np.int64(1), Text("é"))) == (1, "é")


def test_digits_without_end_are_text():
    assert canonical_name("9" * 5000) == "9" * 5000
    assert canonical_name("9" * 50) == canonical_name(int("9" * 50))


def test_one_label_in_two_forms_is_not_two():
    with pytest.raises(ValueError, match="two different labels"):
        TwoClasses.from_json([["1", -1.0], [1, 1.0]])


def test_names_that_are_tuples_or_mixed_become_arrays_of_objects():
    assert as_array(["a", "b"]).dtype.kind == "U"
    for names in ([("a", 1), ("b", 2)], ["a", 1], []):
        found = as_array(names)
        assert found.dtype == object
        assert found.tolist() == names
