"""Several groupings: the first is the task, levels of the others are features."""

import numpy as np
import pandas as pd
import pytest

import romco

RNG = np.random.default_rng(0)
N = 3000
SCHOOL, PUPIL = RNG.integers(0, 15, N), RNG.integers(0, 60, N)
X = RNG.normal(size=N)
SCORE = X + RNG.normal(size=15)[SCHOOL] + RNG.normal(size=60)[PUPIL]
NUMBER = (SCORE + 0.3 * RNG.normal(size=N)).tolist()
YES = (SCORE + RNG.logistic(size=N) > 0.0).tolist()
ROWS = [
    {"x": x, "pupil": int(p), "school": f"s{s}"} for x, p, s in zip(X, PUPIL, SCHOOL, strict=True)
]


def split(rows):
    return [{"x": row["x"], "school": row["school"]} for row in rows], [r["pupil"] for r in rows]


@pytest.mark.parametrize("number", [True, False])
def test_columns_of_rows_are_groupings(number, tmp_path):
    y, target = (NUMBER, "number") if number else (YES, None)
    one, other = romco.Model(target=target), romco.Model(target=target)
    found = one.learn(ROWS, y, task=["pupil", "school"])
    rows, task = split(ROWS)
    np.testing.assert_allclose(found, other.learn(rows, y, task), rtol=1e-9, atol=1e-12)
    assert set(one.tasks) == set(range(60))
    assert (one.schema.task, one.schema.groupings) == ("pupil", ("school",))
    romco.save(one, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    margins = one.margins(ROWS, ["pupil", "school"])
    np.testing.assert_array_equal(again.margins(ROWS, ["pupil", "school"]), margins)
    np.testing.assert_allclose(margins, other.margins(rows, task), rtol=1e-9, atol=1e-12)
    single = one.predict_one(ROWS[7], ["pupil", "school"])
    assert single == other.predict_one(rows[7], task[7])
    new = {"x": 0.0, "pupil": "new", "school": "s3"}  # levels may be new, and gaps
    one.learn_one(new, y[0], ["pupil", "school"])
    assert "new" in one.tasks
    assert np.isfinite(one.margins([new, {**new, "school": None}], ["pupil", "school"])).all()


def test_both_groupings_help():
    half = N // 2
    losses = {}
    for name, task in (("both", ["pupil", "school"]), ("one", ["pupil"])):
        model = romco.Model(target="number")
        drop = () if name == "both" else ("school",)
        rows = [{k: v for k, v in row.items() if k not in drop} for row in ROWS]
        model.learn(rows[:half], NUMBER[:half], task)
        errors = model.margins(rows[half:], task) - NUMBER[half:]
        losses[name] = np.sqrt(np.mean(errors**2))
    assert losses["both"] < 0.45 < 0.9 < losses["one"]


def test_nested_levels():
    """The same class number in two schools is two classes."""
    rows = [{"school": s, "class": c} for s in "AB" for c in (1, 2)] * 50
    y = [{"A1": 0.0, "A2": 1.0, "B1": 5.0, "B2": 9.0}[r["school"] + str(r["class"])] for r in rows]
    model = romco.Model(target="number")
    model.learn(rows, y, task=["school/class"])
    assert model.tasks == ["A/1", "A/2", "B/1", "B/2"]
    assert model.schema.groupings == ("school",)
    found = model.margins(rows[:4], ["school/class"])
    np.testing.assert_allclose(found, [0.0, 1.0, 5.0, 9.0], atol=0.3)
    unknown = model.margins([{"school": s, "class": 9} for s in "AB"], ["school/class"])
    assert unknown[1] > unknown[0] + 0.3  # a new class is like its school


def test_bad_groupings_change_nothing():
    model = romco.Model(target="number")
    with pytest.raises(ValueError, match="row 1: no value of 'pupil'"):
        model.learn([ROWS[0], {**ROWS[1], "pupil": None}], [1.0, 2.0], ["pupil", "school"])
    with pytest.raises(ValueError, match="answer 1 is"):
        model.learn(ROWS[:2], [1.0, "a"], ["pupil", "school"])
    assert model.schema is None
    model.learn(ROWS[:50], NUMBER[:50], ["pupil", "school"])
    with pytest.raises(ValueError, match="other groupings"):
        model.learn(ROWS[:50], NUMBER[:50], ["school", "pupil"])
    assert model.events == 50


def test_frames_and_estimators(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("sklearn")
    frame = pd.DataFrame(ROWS)
    model = romco.Model(target="number")
    model.learn(frame, NUMBER, task=["pupil", "school"])
    fitted = romco.ROMCORegressor(task_column=["pupil", "school"], shuffle=False)
    fitted.fit(frame, NUMBER)
    np.testing.assert_allclose(
        fitted.predict(frame), model.predict(frame, ["pupil", "school"]), rtol=1e-6
    )
    romco.save(fitted, tmp_path / "m.romco")
    again = romco.load(tmp_path / "m.romco")
    np.testing.assert_array_equal(again.predict(frame), fitted.predict(frame))
    table = romco.effects(fitted).levels
    assert set(table.grouping) == {"pupil", "school"}
    with pytest.raises(ValueError, match="no frame with the columns"):
        fitted.predict(frame[["x"]])


def test_river():
    pytest.importorskip("river")
    from romco.adapters import river

    stream = river.ROMCORegressor(task_column=["pupil", "school"])
    model = romco.Model(target="number")
    for row, y in zip(ROWS[:300], NUMBER, strict=False):
        stream.learn_one(row, y)
        model.learn_one(row, y, ["pupil", "school"])
    found = [stream.predict_one(row) for row in ROWS[:50]]
    model.engine.live = True  # as River predicts
    expected = [model.predict_one(row, ["pupil", "school"]) for row in ROWS[:50]]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("target", ["two classes", "number"])
def test_labels_are_asked_for_rows_with_groupings(target):
    rows = [{"lecturer": "A", "student": s, "age": 1.0} for s in ("x", "y", "z")]
    labels, task = [1.0, 0.0, 1.0], ["lecturer", "student"]
    model = romco.Model(target=target, labels=romco.labels.Budget(1.0, seed=0))
    model.learn(rows, labels, task)
    assert model.ask(rows, task).shape == (3,)
    assert model.ask(pd.DataFrame(rows), task).shape == (3,)
