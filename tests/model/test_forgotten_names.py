"""Names of features, columns, categories and classes that only a forgotten task has had."""

import numpy as np
import pytest

import romco

OTHERS = [{"age": 30.0 + k, "town": "Rome" if k % 2 else "Oslo"} for k in range(12)]
OWN = {"age": 40.0, "town": "Anntown", "anns column": 1.0, "says": "anns-word"}


def learned(learner="romco-auto", **options):
    model = romco.Model(learner, **options)
    labels = [0.5 * k for k in range(12)] if options.get("target") == "number" else ["a", "b"] * 6
    own = 7.0 if options.get("target") == "number" else "a"
    model.learn(OTHERS[:6], labels[:6], ["bob", "cy"] * 3)
    model.learn_one(OWN, own, "ann")
    model.learn(OTHERS[6:], labels[6:], ["bob", "cy"] * 3)
    return model


def stored(model, folder):
    romco.save(model, folder / "m.romco")
    return (folder / "m.romco").read_bytes().lower()


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
@pytest.mark.parametrize("learner", ["romco-auto", "arow-global"])
def test_no_file_has_them(learner, target, tmp_path):
    model = learned(learner, target=target)
    assert b"anntown" in stored(model, tmp_path)
    before = model.margins(OTHERS, ["bob"] * 12)
    model = romco.load(tmp_path / "m.romco")  # who had what is stored, too
    model.forget("ann")
    assert b"ann" not in stored(model, tmp_path)
    assert {"age", "town=Rome", "town=Oslo"} <= set(map(model.features.name, range(3)))
    assert set(model.schema.columns) == {"age", "town"}
    if learner == "arow-global":  # has nothing of a single task
        assert np.array_equal(model.margins(OTHERS, ["bob"] * 12), before)
    again = romco.load(tmp_path / "m.romco")
    for each in (model, again):
        each.learn_one({"anns column": 2.0, "age": 31.0}, 2.0 if target == "number" else "b", "dan")
    assert stored(model, tmp_path) == stored(again, tmp_path)
    assert model.features.name(model.features.width - 1) == "anns column", "in a new column"


def test_a_class_that_only_one_task_had(tmp_path):
    model = romco.Model(target="classes")
    model.learn(OTHERS[:9], ["bus", "car", "train"] * 3, ["bob", "cy", "bob"] * 3)
    model.learn_one(OTHERS[9], "anns boat", "ann")
    model.forget("ann")
    assert model.classes == ("bus", "car", "train", "(forgotten 3)")
    assert b"ann" not in stored(model, tmp_path)
    model.learn_one(OTHERS[9], "anns boat", "cy")
    assert model.classes[-1] == "anns boat"
    assert model.predict_proba(OTHERS[:1], ["bob"]).shape == (1, 5)


def test_the_two_classes_and_given_names_stay(tmp_path):
    model = romco.Model(features=romco.Names(["given"]))
    model.learn([{"given": 1.0}, {"given": 2.0}], ["yes", "no"], ["ann"] * 2)
    model.forget("ann")
    assert model.classes == ("no", "yes")
    assert model.features.name(0) == "given"


def test_columns_that_were_given_stay():
    model = romco.Model(schema=romco.Schema({"zip": "category"}), history=["skill"])
    model.learn([{"zip": 7, "skill": "a", "says": "x"}] * 2, ["no", "yes"], ["ann"] * 2)
    model.forget("ann")
    assert set(model.schema.columns) == {"zip", "skill"}


def test_categories_of_histories(tmp_path):
    model = romco.Model(history=["skill"], classes=("no", "yes"))
    rows = [{"skill": f"s{k % 3}"} for k in range(12)]
    model.learn(rows, ["no", "yes"] * 6, ["bob", "cy"] * 6)
    model.learn([{"skill": "anns"}] * 2, ["no", "yes"], ["ann"] * 2)
    assert b"anns" in stored(model, tmp_path)
    before = model.margins(rows, ["cy"] * 12)
    model.forget("ann")
    assert b"anns" not in stored(model, tmp_path)
    assert len(before) == len(model.margins(rows, ["cy"] * 12))


def test_rows_without_labels_count(tmp_path):
    model = learned()
    model.engine.observe(
        [{"anns secret": 1.0}, {"shared": 1.0}, {"shared": 2.0}], ["ann", "ann", "cy"]
    )
    model.forget("ann")
    assert b"secret" not in stored(model, tmp_path)
    assert b"shared" in stored(model, tmp_path)


def test_a_file_without_owners_keeps_the_names():
    """As one of shards: nobody knows who had what."""
    state = learned().state()
    for name in ("features.owners",):
        del state["arrays"][name]
    model = romco.Model.from_state(state)
    model.forget("ann")
    assert "town=Anntown" in map(model.features.name, range(model.features.width))


@pytest.mark.parametrize("owner", [-3, 10**6])
def test_owners_that_cannot_be_are_refused(owner):
    state = learned().state()
    state["arrays"]["features.owners"][0] = owner
    with pytest.raises(ValueError, match="belongs to a task that is not there"):
        romco.Model.from_state(state)
