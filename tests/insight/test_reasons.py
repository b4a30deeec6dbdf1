"""What features add to a margin adds up to it."""

import numpy as np
import pytest

import romco
from romco.insight import reasons

STREAM = romco.streams.simulated(n_tasks=4, n_features=6, n_events=60, outliers=1, seed=8)


def taught(name):
    model = romco.Model(name, features=romco.Columns(6), classes=["no", "yes"])
    labels = np.where(STREAM.y > 0, "yes", "no")
    model.learn(STREAM.x, labels, [f"user {i}" for i in STREAM.task])
    return model


@pytest.mark.parametrize("name", ["romco-auto", "romco-nucl", "arow-shared", "pa-unique", "mtfl"])
def test_they_add_up(name):
    model = taught(name)
    for row in (0, 7, 100):
        task = f"user {STREAM.task[row]}"
        found = reasons(model, STREAM.x[row], task)
        assert found.margin == model.margin_one(STREAM.x[row], task)
        total = found.intercept + sum(each.total for each in found.features)
        assert total == pytest.approx(found.margin, abs=1e-9)
        assert 1 <= len(found.features) <= 6
        assert "personal" in str(found)
    if name in ("romco-nucl", "pa-unique"):  # no intercept: features alone make the margin
        assert found.intercept == pytest.approx(0.0, abs=1e-9)


def test_what_cannot_be_told_says_why():
    model = taught("romco-auto")
    with pytest.raises(ValueError, match="no task 'nobody' is known"):
        reasons(model, STREAM.x[0], "nobody")
    many = romco.Model(target="classes")
    many.learn([{"a": 1}, {"b": 1}, {"c": 1}], list("abc"), ["ann"] * 3)
    with pytest.raises(ValueError, match="predicts classes"):
        reasons(many, {"a": 1}, "ann")


@pytest.mark.parametrize("features", [romco.Names(), romco.Hashed(64)])
@pytest.mark.parametrize("name", ["pa-unique", "ogd-global", "romco-nucl", "cw-col", "mtfl"])
def test_rows_by_name_add_up_too(name, features):
    model = romco.Model(name, features, classes=["no", "yes"])
    rows = [{"a": 1.0, "b": 0.5}, {"b": -2.0}, {"a": -1.0}]
    model.learn(rows, ["yes", "no", "no"], ["ann", "bob", "ann"])
    found = reasons(model, {"a": 2.0, "never seen": 1.0}, "ann")
    total = found.intercept + sum(each.total for each in found.features)
    assert total == pytest.approx(found.margin, abs=1e-9)
