"""The same rows are read alike, whatever way they come."""

import csv
import json
import math
import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import romco
from romco.io.reader import Source
from romco.io.schema import Schema
from romco.model import Hashed, Model, Names
from romco.runs import learn, predict

KINDS = {
    "age": "number", "new": "number", "town": "category", "says": "text", "at": "date",
    "day": "day", "order_id": "ignored", "floor": "category",
}  # fmt: skip
WORDS = ["late", "early", "good", "bad", "warm", "cold", "new", "old", "red", "blue"]


def rows_of(n=1000, seed=0):
    """Text, dates, categories, numbers, and gaps of all spellings; the answers and the tasks."""
    rng = np.random.default_rng(seed)
    rows, labels, tasks = [], [], []
    for i in range(n):
        words = rng.choice(WORDS, 6)
        at = datetime(2024, 1, 1) + timedelta(minutes=int(rng.integers(500_000)))
        row = {
            "age": int(rng.integers(90)) if rng.random() > 0.1 else None,
            "new": bool(rng.integers(2)),
            "town": str(rng.choice(["Rome", "Bonn", "Århus", ""])),
            "says": " ".join(words) + f", {i}!",
            "at": at if rng.random() > 0.1 else None,
            "day": datetime(2024, 1, 1) + timedelta(days=int(rng.integers(300))),
            "order_id": 7919 * i % 10007,
            "floor": str(rng.choice(["1", "2", "roof", "NA"], p=[0.4, 0.4, 0.1, 0.1])),
        }
        rows.append(row)
        score = (words == "good").sum() - (words == "bad").sum() + (row["town"] == "Rome")
        labels.append("yes" if score + rng.normal() > 0 else "no")
        tasks.append(f"u{i % 7}")
    return rows, labels, tasks


ROWS, LABELS, TASKS = rows_of()


def table(rows=ROWS):
    return [
        {"user": task, "clicked": label, **row}
        for row, label, task in zip(rows, LABELS, TASKS, strict=False)
    ]


def write_csv(path):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table()[0]))
        writer.writeheader()
        for row in table():
            day = row["day"].date().isoformat()
            at = "" if row["at"] is None else row["at"].isoformat(" ")
            writer.writerow({**row, "day": day, "at": at})


def write_jsonl(path):
    lines = (json.dumps(row, default=lambda when: when.isoformat()) for row in table())
    path.write_text("".join(line.replace('T00:00:00"', '"') + "\n" for line in lines))


def write_parquet(path):
    pq.write_table(pa.Table.from_pylist(table()), path)


WRITERS = {"e.csv": write_csv, "e.jsonl": write_jsonl, "e.pq": write_parquet}


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A model of the CSV file, as ``romco learn`` makes it, and its margins of that file."""
    folder = tmp_path_factory.mktemp("one")
    for name, write in WRITERS.items():
        write(folder / name)
    source = Source(str(folder / "e.csv"), "user", "clicked")
    new = Model("romco-auto", classes=("no", "yes"))
    for _ in learn(source, folder / "m.romco", new):
        pass
    model = romco.load(folder / "m.romco")
    margins = [row["margin"] for row in predict(model, Source(source.path))]
    return model, np.array(margins), folder


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_files_of_all_formats_have_one_schema_and_the_same_margins(learned, name):
    model, margins, folder = learned
    schema = Schema.infer(folder / name, task="user", label="clicked")
    assert schema.kinds == KINDS
    found = [row["margin"] for row in predict(model, Source(str(folder / name)))]
    np.testing.assert_allclose(found, margins, atol=1e-12)


@pytest.mark.parametrize(
    "frame", [ROWS, pd.DataFrame(ROWS), pl.DataFrame(ROWS), pa.Table.from_pylist(ROWS)],
    ids=["mappings", "pandas", "polars", "arrow"],
)  # fmt: skip
def test_frames_and_mappings_have_the_same_schema_and_margins(learned, frame):
    model, margins, _ = learned
    assert Schema.infer(frame).kinds == KINDS
    np.testing.assert_allclose(model.margins(frame, TASKS), margins, atol=1e-12)


def test_one_event_at_a_time_gives_the_same_margins(learned):
    model, margins, _ = learned
    found = [model.engine.margin_one(row, task) for row, task in zip(ROWS, TASKS, strict=True)]
    np.testing.assert_allclose(found, margins, atol=1e-12)


@pytest.mark.parametrize(
    "make", [Names, pytest.param(lambda: Hashed(2**12), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("frame", [ROWS, pd.DataFrame(ROWS), pl.DataFrame(ROWS)])
def test_learning_is_the_same_as_from_the_file(learned, make, frame):
    _, _, folder = learned
    model = Model("romco-auto", make(), classes=("no", "yes"))
    with pytest.warns(UserWarning, match="'order_id' looks like an id"):
        margins = model.learn(frame, LABELS, TASKS)
    assert model.schema.kinds == KINDS
    again = Model("romco-auto", make(), classes=("no", "yes"))
    path = folder / f"{again.features.width}-{type(frame).__module__}.romco"
    predictions = path.with_suffix(".jsonl")
    for _ in learn(Source(str(folder / "e.csv"), "user", "clicked"), path, again, predictions):
        pass
    lines = predictions.read_text().splitlines()
    np.testing.assert_allclose([json.loads(line)["margin"] for line in lines], margins, atol=1e-9)


def test_one_event_at_a_time_is_learned_as_many(learned):
    model = Model("romco-auto", classes=("no", "yes"), schema=learned[0].schema.copy())
    many = Model("romco-auto", classes=("no", "yes"), schema=learned[0].schema.copy())
    events = list(zip(ROWS, LABELS, TASKS, strict=True))[:300]
    found = [model.learn_one(*event) for event in events]
    rows, labels, tasks = map(list, zip(*events, strict=True))
    np.testing.assert_allclose(found, many.learn(rows, labels, tasks), atol=1e-12)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_estimators_read_ordinary_frames(learned, kind, tmp_path):
    frame, labels = kind([{"user": t, **r} for r, t in zip(ROWS, TASKS, strict=True)]), LABELS
    estimator = romco.ROMCOClassifier(task_column="user", shuffle=False)
    with pytest.warns(UserWarning, match="'order_id' looks like an id"):
        estimator.fit(frame, labels)
    model = Model("romco-auto", classes=("no", "yes"), schema=learned[0].schema.copy())
    model.learn(ROWS, LABELS, TASKS)
    expected = model.margins(ROWS, TASKS)
    np.testing.assert_allclose(estimator.decision_function(frame), expected, atol=1e-9)
    assert estimator.n_features_in_ == len(KINDS)
    romco.save(estimator, tmp_path / "e.romco")
    again = romco.load(tmp_path / "e.romco")
    np.testing.assert_array_equal(again.predict(frame), estimator.predict(frame))
    assert again.reasons(frame[:1])[0].margin == pytest.approx(expected[0])
    with pytest.raises(ValueError, match="give a frame with the same columns"):
        again.model_ and romco.ROMCOClassifier.predict(again.set_params(task_column=None), [[1.0]])


def test_the_regressor_and_shuffled_passes_read_frames():
    frame = pd.DataFrame([{k: r[k] for k in ("town", "says", "at")} for r in ROWS])
    numbers = [1.0 + 2.0 * (row["town"] == "Rome") for row in ROWS]
    score = romco.ROMCORegressor(random_state=0).fit(frame, numbers, task=TASKS)
    assert score.score(frame, numbers, task=TASKS) > 0.9
    labels = [row["town"] == "Rome" for row in ROWS]
    one, other = (
        romco.ROMCOClassifier("romco-nucl", random_state=0).fit(frame.iloc[order], y, task=tasks)
        for order, y, tasks in (
            (range(1000), labels, TASKS),
            (range(999, -1, -1), labels[::-1], TASKS[::-1]),
        )
    )
    assert one.score(frame, labels, task=TASKS) > 0.9
    found = one.decision_function(frame, task=TASKS)
    np.testing.assert_allclose(other.decision_function(frame, task=TASKS), found, atol=1e-6)


def test_river_reads_the_same_rows(learned):
    from romco.adapters.river import ROMCOClassifier

    theirs = ROMCOClassifier(task_column="user")
    ours = Model("romco-auto", classes=("no", "yes"))
    events = list(zip(ROWS, LABELS, TASKS, strict=True))[:200]
    for row, label, task in events:
        theirs.learn_one({"user": task, **row}, label)
        ours.learn_one(row, label, task)
    ours.engine.live = True  # as River's predictions are
    found = [theirs.predict_proba_one({"user": task, **row})["yes"] for row, _, task in events]
    expected = [ours.predict_proba_one(row, task)["yes"] for row, _, task in events]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_service_reads_the_same_rows(learned, tmp_path):
    from romco.server.protocol import Settings
    from tests.server.conftest import Running

    _, margins, folder = learned
    rows = [
        {**row, "day": row["day"].date().isoformat(), "at": row["at"] and row["at"].isoformat()}
        for row in ROWS
    ]
    running = Running(tmp_path, Settings(), new=lambda: romco.load(folder / "m.romco"))
    try:
        events = [{"task": task, "x": row} for row, task in zip(rows, TASKS, strict=True)]
        found = [answer["margin"] for answer in running.client.predict(events)]
        one = running.client.predict(events[3])["margin"]
        before = romco.load(folder / "m.romco")
        learned_row = {**events[5], "y": "yes"}
        running.client.learn([learned_row] * 2)
        before.learn([ROWS[5]] * 2, ["yes"] * 2, [TASKS[5]] * 2)
        after = running.client.predict(events[:20])
    finally:
        running.stop()
    np.testing.assert_allclose(found, margins, atol=1e-9)
    assert one == pytest.approx(margins[3])
    expected = before.margins(ROWS[:20], TASKS[:20])
    np.testing.assert_allclose([answer["margin"] for answer in after], expected, atol=1e-9)


def test_the_compiled_encoder_says_what_the_schema_says():
    from romco.io.encoder import encode_rows

    schema = Schema.infer(ROWS)
    encoded = encode_rows(ROWS, schema)
    for at, row in enumerate(ROWS):
        one = encoded.rows(at, at + 1)
        found = {encoded.lexicon.names[k]: v for k, v in zip(one.names, one.values, strict=True)}
        assert found == pytest.approx(schema.encode(row))


def test_rows_of_plain_numbers_need_no_schema():
    model = Model("pa-unique")
    model.learn([{"a": 1, "b": math.nan}, {"b": 2.0}], ["yes", "no"], ["ann", "ann"])
    assert model.schema is None
    assert model.features.to_json()["names"] == ["a", "b"]


def test_a_kind_is_fixed_when_the_column_is_first_seen():
    model = Model("pa-unique")
    model.learn_one({"n": 1.0}, "yes", "ann")
    model.learn_one({"n": 2, "town": "Rome", "at": datetime(2024, 2, 29, 13)}, "no", "ann")
    model.learn_one({"n": "3", "town": 7, "at": "2024-03-01 14:00"}, "yes", "ann")
    names = model.features.to_json()["names"]
    assert names[:2] == ["n", "town=Rome"]
    assert {"town=7", "at.month=02", "at.month=03", "at.hour=14"} <= set(names)
    before = model.state()["session"]
    with pytest.raises(ValueError, match="row 0: column 'n': 'many' is not a number"):
        model.learn_one({"x": "new", "n": "many"}, "yes", "ann")
    assert model.state()["session"] == before
    again = Model.from_state(model.state())
    assert again.schema == model.schema


def test_a_column_that_is_not_known_is_named_once(learned):
    model = learned[0]
    row = {"agee": 40, "town": "Rome"}
    with pytest.warns(UserWarning, match=r"'agee' \(did you mean 'age'\?\): it is not used"):
        found = model.predict_one(row, "u1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict_one(row, "u1") == found
        assert model.margins([row, row], ["u1", "u1"])[0] == model.margins([row], ["u1"])[0]
    with pytest.warns(UserWarning, match="'sise'"):
        model.margins([{"sise": 1.0}, {"sise": 2.0}], ["u1", "u1"])


GRADES = [[1, 2, 12][i % 3] for i in range(120)]  # codes, not amounts
ZIPS = [["10115", "04103", "53111"][i % 3] for i in range(120)]
ANSWERS = ["yes" if (i % 3 == 1) != (i % 7 == 0) else "no" for i in range(120)]
PEOPLE = [f"u{i % 5}" for i in range(120)]
CODED = {"grade": GRADES, "zip": ZIPS, "new": [i % 2 == 0 for i in range(120)]}


def coded_frames():
    """The same codes in all types that a category has."""
    plain = pd.DataFrame(CODED)
    arrow = pa.table({**CODED, "grade": pa.array(GRADES).dictionary_encode()})
    texts = pl.DataFrame(CODED).with_columns(pl.col("grade").cast(pl.String))
    yield "pandas", plain.astype({"grade": "category", "zip": "category"})
    yield "pandas nullable", plain.astype({"grade": "category", "zip": "string", "new": "boolean"})
    yield "pandas arrow", arrow.to_pandas(types_mapper=pd.ArrowDtype)
    yield "arrow", arrow
    yield "polars", texts.with_columns(pl.col("grade").cast(pl.Categorical))
    yield "polars enum", texts.with_columns(pl.col("grade").cast(pl.Enum(["1", "2", "12"])))
    rows = pl.DataFrame(CODED).to_dicts()
    yield "mappings", [{**row, "grade": str(row["grade"])} for row in rows]


CODED_KINDS = {"grade": "category", "zip": "category", "new": "number"}


@pytest.fixture(scope="module")
def coded():
    schema = Schema(CODED_KINDS, complete=True)
    model = Model("romco-auto", classes=("no", "yes"), schema=schema)
    model.learn(pd.DataFrame(CODED), ANSWERS, PEOPLE)
    return model.margins(pd.DataFrame(CODED), PEOPLE)


@pytest.mark.parametrize(("name", "frame"), list(coded_frames()), ids=lambda part: str(part)[:12])
def test_a_category_type_is_a_category_through_every_door(coded, name, frame, tmp_path):
    assert Schema.infer(frame).kinds == CODED_KINDS
    model = Model("romco-auto", classes=("no", "yes"))
    model.learn(frame, ANSWERS, PEOPLE)
    assert model.schema.kinds == CODED_KINDS
    np.testing.assert_allclose(model.margins(frame, PEOPLE), coded, atol=1e-12)
    if name == "mappings":
        return
    if name == "arrow":
        pq.write_table(frame.append_column("user", [PEOPLE]), tmp_path / "e.pq")
        assert Schema.infer(tmp_path / "e.pq", task="user").kinds == CODED_KINDS
        return
    estimator = romco.ROMCOClassifier(shuffle=False).fit(frame, ANSWERS, task=PEOPLE)
    np.testing.assert_allclose(estimator.decision_function(frame, PEOPLE), coded, atol=1e-9)


@pytest.mark.parametrize("name", ["sklearn", "groupings", "regressor", "river", "csv"])
def test_kinds_mark_a_category(coded, name, tmp_path):
    frame, kinds = pd.DataFrame(CODED), {"grade": "category", "zip": "category"}
    if name == "sklearn":
        made = romco.ROMCOClassifier(shuffle=False, kinds=kinds).fit(frame, ANSWERS, task=PEOPLE)
        romco.save(made, tmp_path / "m.romco")
        again = romco.load(tmp_path / "m.romco")
        assert again.kinds == kinds
        np.testing.assert_allclose(again.decision_function(frame, PEOPLE), coded, atol=1e-9)
        with pytest.raises(ValueError, match="give a frame"):
            romco.ROMCOClassifier(kinds=kinds).fit(np.ones((2, 2)), ["a", "b"])
        with pytest.raises(ValueError, match="'grade': no kind 'categories'; there are"):
            romco.ROMCOClassifier(kinds={"grade": "categories"}).fit(frame, ANSWERS)
    elif name == "groupings":
        wide = frame.astype({"grade": "category"}).assign(user=PEOPLE, town="Rome")
        estimator = romco.ROMCOClassifier(task_column=["user", "town"]).fit(wide, ANSWERS)
        assert estimator.model_.schema.kinds["grade"] == "category"
        model = Model()
        model.learn(wide, ANSWERS, ["user", "town"])
        assert model.schema.kinds["grade"] == "category"
    elif name == "regressor":
        numbers = [1.0 if answer == "yes" else 0.0 for answer in ANSWERS]
        made = romco.ROMCORegressor(kinds={"grade": "category"}).fit(frame, numbers, task=PEOPLE)
        assert made.model_.schema.kinds == CODED_KINDS
    elif name == "river":
        from romco.adapters.river import ROMCOClassifier

        made = ROMCOClassifier(kinds=kinds)
        for row, answer, task in zip(frame.to_dict("records"), ANSWERS, PEOPLE, strict=True):
            made.learn_one(row, answer, task)
        margins = made.model.margins(frame, PEOPLE)
        np.testing.assert_allclose(margins, coded, atol=1e-9)
    else:
        frame.assign(user=PEOPLE, y=ANSWERS).to_csv(tmp_path / "e.csv", index=False)
        source = Source(str(tmp_path / "e.csv"), "user", "y", kinds=kinds)
        for _ in learn(source, tmp_path / "m.romco", Model(classes=("no", "yes"))):
            pass
        margins = [row["margin"] for row in predict(romco.load(tmp_path / "m.romco"), source)]
        np.testing.assert_allclose(margins, coded, atol=1e-9)


@pytest.mark.parametrize("order", [["K", "1", "2"], ["1", "K", "2"], ["2", "1", "K"]])
def test_grades_are_one_kind_in_every_order(order, tmp_path):
    rows = [{"grade": grade} for grade in order]
    path = tmp_path / "e.csv"
    path.write_text("\n".join(["user,grade,y", *(f"ann,{grade},1" for grade in order)]) + "\n")
    assert Schema.infer(path, task="user", label="y").kinds == {"grade": "category"}
    one, many = Model("pa-unique"), Model("pa-unique")
    for row in rows:
        one.learn_one(row, "yes", "ann")
    many.learn(pd.DataFrame(rows), ["yes"] * 3, ["ann"] * 3)
    for model in (one, many):
        assert model.schema.kinds == {"grade": "category"}
        assert model.features.to_json()["names"] == [f"grade={grade}" for grade in order]


class CountingName(str):
    """Name of a feature that counts how often it is compared."""

    compared = 0

    def __eq__(self, other):
        CountingName.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.parametrize("history", [None, ["town"]])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("value", [1.0, "red"])
def test_unknown_features_cost_their_number(history, rows, value):
    model = Model("pa-unique", history=history)
    model.learn_one({"town": "Rome", "age": 7.0}, "yes", "ann")
    names, known = [CountingName(f"new {k}") for k in range(1000)], {"town": "Rome"}
    x = [dict.fromkeys(names, value) | known for _ in range(rows)]
    CountingName.compared = 0
    with pytest.warns(UserWarning, match="has not learned column 'new 0'"):
        margins = model.margins(x, ["ann"] * rows)
    assert CountingName.compared < 20 * rows * len(names)
    np.testing.assert_array_equal(margins, model.margins([known] * rows, ["ann"] * rows))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_column_missing_in_a_frame_is_named_once(learned, kind):
    model = Model.from_state(learned[0].state())
    frame = kind([{name: row[name] for name in row if name != "town"} for row in ROWS[:9]])
    with pytest.warns(UserWarning, match="no column 'town', which the model has learned"):
        found = model.margins(frame, TASKS[:9])
    np.testing.assert_array_equal(model.margins(frame, TASKS[:9]), found)


def test_a_file_is_opened_twice_and_a_model_is_loaded_once(tmp_path, monkeypatch):
    from pathlib import Path

    from typer.testing import CliRunner

    from romco.cli.main import app

    write_csv(tmp_path / "e.csv")
    command = ["learn", str(tmp_path / "e.csv"), "--task", "user", "--label", "clicked"]
    command += ["--model", str(tmp_path / "m.romco")]
    opened, real = [], Path.open

    def counted(path, *given, **options):
        opened.append(path.name)
        return real(path, *given, **options)

    monkeypatch.setattr(Path, "open", counted)
    assert CliRunner().invoke(app, command).exit_code == 0
    assert opened.count("e.csv") == 2
    opened.clear()
    assert CliRunner().invoke(app, command).exit_code == 0
    assert opened.count("m.romco") == 1


def test_a_column_that_one_event_decided_is_explained_when_others_differ():
    numbers = romco.Model()
    numbers.learn_one({"age": 3.0}, "yes", "ann")
    numbers.learn_one({"age": "4"}, "no", "ann")
    for refuse in (
        lambda: numbers.learn_one({"age": "four"}, "no", "ann"),
        lambda: numbers.predict_one({"age": "four"}, "ann"),
        lambda: numbers.learn([{"age": 1}, {"age": "four"}], ["no", "yes"], ["ann", "ann"]),
    ):
        with pytest.raises(ValueError, match=r"'four' is not a number.*Schema\(\{'age': 'category"):
            refuse()
    assert numbers.events == 2
    words = romco.Model()
    words.learn_one({"says": "fine"}, "yes", "ann")
    with pytest.warns(UserWarning, match=r"'says' is a category.*Schema\(\{'says': 'text'"):
        words.learn_one({"says": "it was all we had hoped for"}, "no", "ann")
    words.learn_one({"says": "it was even more than that"}, "no", "ann")  # warned of once
