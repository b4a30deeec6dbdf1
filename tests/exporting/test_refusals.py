"""What cannot be exported says so, and nothing is written."""

import numpy as np
import pytest

import romco
from tests.exporting.streams import learned


def refused(model, reason, folder, to="c"):
    with pytest.raises(ValueError, match=reason):
        romco.export(model, to, folder / "out")
    assert not (folder / "out").exists()


def two_classes(**options):
    model = romco.Model(**options)
    model.learn([{"a": 1.0}, {"b": 1.0}] * 4, ["yes", "no"] * 4, ["ann"] * 8)
    return model


def test_targets(tmp_path):
    number = romco.Model("romco-nucl", target="number")
    number.learn([{"a": 1.0}], [2.5], ["ann"])
    refused(number, "romco-nucl-number cannot be exported yet", tmp_path)
    many = romco.Model("pa-unique", target="classes")
    many.learn([{"a": 1.0}] * 3, ["x", "y", "z"], ["ann"] * 3)
    refused(many, "pa-unique for 3 classes one against the rest cannot be exported yet", tmp_path)
    many = romco.Model(target="classes")
    many.learn([{"a": 1.0}] * 300, range(300), ["ann"] * 300)
    refused(many, "300 classes cannot be exported to SQL: its tables have columns", tmp_path, "sql")
    one = romco.Model(target="classes")
    one.learn([{"a": 1.0}], ["x"], ["ann"])
    refused(one, "does not know two classes yet", tmp_path)
    refused(romco.Model(), "does not know two classes yet", tmp_path)
    refused(romco.Model(target="number"), "has learned nothing yet", tmp_path)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"age": 1.0, "Age": 2.0}, "columns 'age' and 'Age' are one in SQL"),
        ({"": 1.0}, "column '' cannot be a column in SQL"),
        (dict.fromkeys(map(str, range(1501)), 1.0), "1501 columns cannot be exported to SQL"),
    ],
)
def test_columns_that_sql_does_not_have(row, reason, tmp_path):
    model = romco.Model()
    model.learn([row] * 4, ["yes", "no"] * 2, ["ann"] * 4)
    refused(model, reason, tmp_path, "sql")


@pytest.mark.parametrize("to", ["sql", "onnx"])
def test_columns_of_one_feature(to, tmp_path):
    model = romco.Model()
    model.learn([{"a": "b", "a=b": 2.0}, {"a": "c"}], ["yes", "no"], ["ann"] * 2)
    refused(model, "column 'a=b' cannot be told from a category of another column", tmp_path, to)


@pytest.mark.parametrize("to", ["sql", "onnx"])
def test_columns_that_are_forgotten(to, tmp_path):
    model = romco.Model()
    model.learn([{"a": 1.0, "b": "x"}, {"b": "y"}], ["yes", "no"], ["ann"] * 2)
    model.forget("ann")
    refused(model, "the model knows no column any more", tmp_path, to)


def test_a_model_without_features(tmp_path):
    model = romco.Model()
    model.learn([{}, {}], ["yes", "no"], ["ann"] * 2)
    refused(model, "the model knows no feature yet", tmp_path, "onnx")


def test_histories_offsets_and_hashes(tmp_path):
    model = romco.Model(history=["skill"])
    model.learn([{"skill": "a"}, {"skill": "b"}], ["yes", "no"], ["ann"] * 2)
    refused(model, "with history= cannot be exported", tmp_path)
    model = romco.Model()
    model.learn([{"a": 1.0}, {"b": 1.0}], ["yes", "no"], ["ann"] * 2, offset=[0.1, 0.2])
    refused(model, "learned with offsets", tmp_path)
    refused(two_classes(features=romco.Hashed(16)), "hashed features", tmp_path)


def test_names_that_are_no_text(tmp_path):
    model = two_classes()
    model.learn_one({"a": 1.0}, "yes", ("shop", 7))
    refused(model, r"task \('shop', 7\) cannot be exported", tmp_path)
    model = two_classes()
    model.learn([{1: 1.0}, {"1": 1.0}], ["yes", "no"], ["ann"] * 2)
    refused(model, "two features are called '1' as text", tmp_path)


def test_what_is_no_model(tmp_path):
    refused(romco.learner("pa-unique", 3, 2), "an estimator, not PassiveAggressive", tmp_path)
    refused(romco.Chooser(), "an estimator, not Chooser", tmp_path)
    with romco.Shards(n=2, engine="serial") as shards:
        shards.learn([{"a": 1.0}, {"a": 2.0}], ["yes", "no"], ["ann", "bob"])
        refused(shards, r"not Shards; shards have \.model\(\)", tmp_path)
        assert romco.export(shards.model(), "c", tmp_path)


def test_an_unknown_format(tmp_path):
    refused(learned(n=50), "no format 'pmml': there are c, js, onnx and sql", tmp_path, "pmml")


def test_a_live_model_is_left_as_it_was(tmp_path):
    model = learned("pa-unique", n=50)
    before = model.state()["arrays"]
    romco.export(model, "c", tmp_path)
    after = model.state()["arrays"]
    assert all(np.array_equal(before[name], after[name]) for name in before)
