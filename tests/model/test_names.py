import numpy as np
import pandas as pd
import pytest

from romco.model.names import from_json, identity, to_json
from romco.model.targets import TwoClasses
from romco.model.tasks import Tasks


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
    tasks = Tasks()
    tasks.add(identity("task", np.int64(3)))
    assert tasks.numbers([3, np.int32(3), "3"]).tolist() == [0, 0, -1]


def test_freed_numbers_are_used_again_smallest_first_also_after_a_file():
    tasks = Tasks()
    for name in "abcd":
        tasks.add(name)
    tasks.remove("c")
    tasks.remove("a")
    again = Tasks.from_json(tasks.to_json())
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
    _, labels.known = labels.read(seen)
    assert labels.classes == classes


def test_third_label_is_refused_and_changes_nothing():
    labels = TwoClasses(("ham", "spam"))
    with pytest.raises(ValueError, match="third label 'eggs'"):
        _, labels.known = labels.read(["ham", "eggs"])
    assert labels.classes == ("ham", "spam")
    for classes in (["a"], ["a", "a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="two different labels"):
            TwoClasses(classes)


def test_answers_before_and_after_labels_are_known():
    labels = TwoClasses()
    assert labels.answer(1.0) is None
    _, labels.known = labels.read(["ham"])
    assert (labels.answer(1.0), labels.answer(-1.0)) == ("ham", "ham")
    _, labels.known = labels.read(["spam"])
    assert labels.answers(np.array([0.0, -0.1])).tolist() == ["spam", "ham"]
