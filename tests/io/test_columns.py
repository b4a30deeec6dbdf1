"""Columns read as people mean them: the guess, what is asked, and what is suspicious."""

import io
import json
import pickle
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import romco
from romco.io.formats import BadFile, BadRow, Sample
from romco.io.inference import infer_column
from romco.io.reader import Reader, Source
from romco.io.schema import Schema
from tests.io.helpers import read_events
from tests.reference.events import reader_events

WORDS = ["the cat sat on it", "a dog ran off again", "birds fly high up there"]


@pytest.mark.parametrize(
    ("name", "values", "meaning", "kind"),
    [
        ("price", [str(3 * i % 7) for i in range(60)], "number", "number"),
        ("price", ["1", "2", "NA", "", "null", "3.5"], "number", "number"),
        ("new", ["True", "false", "", "TRUE"], "number", "number"),
        ("new", [True, False, None], "number", "number"),
        ("row", [str(i) for i in range(60)], "id-like", "ignored"),
        ("user_id", [str(7919 * i % 10007) for i in range(60)], "id-like", "ignored"),
        ("orderId", [7919 * i % 10007 for i in range(60)], "id-like", "ignored"),
        ("paid", [str(7919 * i % 10007) for i in range(60)], "number", "number"),
        ("session", [f"{hash((i, 1)):x}" for i in range(60)], "id-like", "ignored"),
        ("price", [f"{i},5" for i in range(60)], "comma or sign", "ignored"),
        ("price", ["1.234,50", "", "-0,5", "+7,25", "many"], "comma or sign", "ignored"),
        ("pair", ["1,2,3", "1,a"] * 30, "category", "category"),
        ("town", ["Rome", "Bonn", "Oslo"] * 30, "category", "category"),
        ("floor", ["3", "4", "roof"] * 30, "category", "category"),
        ("grade", ["K", *["1", "2", "12"] * 30], "category", "category"),
        ("age", [*map(str, range(18, 80)), "forty"], "number or category", "free"),
        ("size", ["1.5", "2.5"] * 30 + ["big"], "number or category", "free"),
        ("says", [f"{words} {i}" for i in range(10) for words in WORDS], "text", "text"),
        ("says", ["one text alone is enough"], "text", "text"),
        ("at", [f"2024-01-{i:02d} 10:00" for i in range(1, 29)], "date", "date"),
        ("at", ["2024-01-02T03:04:05.678Z", "2023-12-31"], "date", "date"),
        ("at", ["2024-01-02", "2023-12-31", ""], "date", "day"),
        ("at", [datetime(2024, 1, 2), datetime(2024, 1, 3)], "date", "day"),
        ("at", [datetime(2024, 1, 2), datetime(2024, 1, 3, 7)], "date", "date"),
        ("flag", ["x"] * 30, "constant", "category"),
        ("one", [1.0] * 30, "constant", "number"),
        ("gone", ["", None, "nan"], "empty", "free"),
        ("deep", [{"a": 1}], "nested", "free"),
    ],
)
def test_a_kind_is_inferred_in_any_order(name, values, meaning, kind):
    column = infer_column(name, values, typed=False)
    assert (column.meaning, column.kind) == (meaning, kind)
    assert column.reason
    assert ("ignored" in (column.warning or "")) == (kind == "ignored")
    back = infer_column(name, values[::-1], typed=False)
    assert (back.meaning, back.kind) == (meaning, kind) or column.reason.startswith("counts the")


@pytest.mark.parametrize(
    ("values", "meaning", "kind"),
    [
        (["10115", "04103"] * 30, "category", "category"),
        (["1", "2", "K"], "category", "category"),
        ([1, 2, "K"], "category", "category"),
        ([*range(60), "K"], "number or category", "free"),
        (["1.5", "2"], "numbers as text", "category"),
        ([True, False, None], "number", "number"),
    ],
)
def test_text_is_text_where_cells_have_types(values, meaning, kind):
    column = infer_column("c", values)
    assert (column.meaning, column.kind) == (meaning, kind)


def test_numbers_that_come_as_text_are_warned_of():
    model = romco.Model("pa-unique")
    with pytest.warns(UserWarning, match="'price' has numbers as text, as '3.5'.*category"):
        model.learn_one({"price": "3.5"}, "yes", "ann")
    model.learn_one({"price": "4"}, "no", "ann")
    assert model.features.to_json()["names"] == ["price=3.5", "price=4"]


def test_one_text_among_numbers_and_one_rare_label_are_warned_of_with_the_line(tmp_path):
    table = ["user,age,clicked", *(f"u{i % 3},{20 + i % 50},{i % 2}" for i in range(400))]
    table[130] = "u1,forty,1"
    table[300] = "u1,40,y"
    path = tmp_path / "e.csv"
    path.write_text("\n".join(table) + "\n")
    schema = Schema.infer(path, task="user", label="clicked")
    stray, rare = schema.warnings
    assert "column 'age' has numbers, but 'forty' in line 131 is none (1 such cells)" in stray
    assert "label 'y' occurs once in 400 rows, in line 301: is it mistyped?" in rare
    table[301:] = [f"u1,40,{i}.5" for i in range(300)]
    path.write_text("\n".join(table) + "\n")
    _, label = Schema.infer(path, task="user", label="clicked").warnings
    assert "label 'y' in line 301 is no number, as 599 others are" in label
    rows = [{"age": float(i % 50)} for i in range(99)] + [{"age": "forty"}]
    with pytest.warns(UserWarning, match="'age' has numbers, but 'forty' in row 99 is none"):
        romco.Model("pa-unique").learn(rows, ["a", "b"] * 50, ["ann"] * 100)


def test_two_columns_of_one_name_are_refused(tmp_path):
    twice = pd.DataFrame([[1.0, 2.0, "x"]], columns=["a", "a", "b"])
    arrow = pa.table([[1.0], [2.0]], names=["a", "a"])
    pq.write_table(arrow, tmp_path / "e.pq")
    model = romco.Model("pa-unique")
    for refuse in (
        lambda: model.learn(twice, ["yes"], ["ann"]),
        lambda: model.learn(arrow, ["yes"], ["ann"]),
        lambda: Schema.infer(twice),
        lambda: romco.ROMCOClassifier().fit(twice, ["yes"], task="ann"),
        lambda: romco.ROMCOClassifier().fit(twice[["a"]], ["yes"], task="ann"),
    ):
        with pytest.raises(ValueError, match="columns of the same name: 'a'"):
            refuse()
    with pytest.raises(BadFile, match="columns of the same name: 'a'"):
        list(Source(str(tmp_path / "e.pq"), "a", "b", schema=Schema(task="a")).open().blocks())


def test_an_override_is_kept_and_warned_of():
    rows = [{"says": f"{words} {i}", "at": "2024-01-02"} for i in range(20) for words in WORDS]
    schema = Schema.infer(rows, kinds={"says": "category", "at": "category"})
    assert schema.kinds == {"says": "category", "at": "category"}
    text, date = schema.warnings
    assert "looks like text" in text
    assert "looks like date" in date
    assert Schema.infer(rows, kinds={"says": "text"}).columns["says"].warning is None
    with pytest.raises(ValueError, match="no column 'age'; there are 'says', 'at'"):
        Schema.infer(rows, kinds={"age": "number"})
    with pytest.raises(ValueError, match="no kind 'colour'; there are free, number"):
        Schema.infer(rows, kinds={"says": "colour"})


def test_a_schema_is_printed_stored_and_compared():
    rows = [{"user": "ann", "age": i % 5, "order_id": 7 * i % 31} for i in range(31)]
    schema = Schema.infer(rows, task="user", label="bought")
    assert str(schema).splitlines() == [
        "columns (task 'user', label 'bought'), as read from the first 31 rows:",
        "  age       number     0 to 4",
        "  order_id  id-like    31 different in 31 rows: ignored",
    ]
    again = Schema.from_json(json.loads(json.dumps(schema.to_json())))
    assert again == schema == pickle.loads(pickle.dumps(schema))
    assert repr(again).startswith("Schema({'age': 'number', 'order_id': 'ignored'}, task='user'")
    assert again.difference(schema) is None
    again.extend(Sample([{"user": "eve", "town": "Rome"}]))
    assert again.kinds["town"] == "category"
    again.label = "paid"
    assert schema.difference(again) == "label 'bought', not 'paid'"
    session = {}
    schema.store(session, "m.romco")
    with pytest.raises(ValueError, match=r"m\.romco was learned with label 'bought', not 'paid'"):
        again.store(session, "m.romco")
    assert schema.unknown(["agee", "user", "x"]) == ["'agee' (did you mean 'age'?)", "'x'"]


@pytest.mark.parametrize(
    "stored",
    [[], 3, {}, {"columns": []}, {"columns": {"a": ["colour"]}}, {"columns": {"a": 3}},
     {"columns": {3: ["free", "free"]}}, {"columns": {}, "task": 7}, {"columns": {}, "features": 3},
     {"columns": {}, "features": [3]}],
)  # fmt: skip
def test_nothing_in_a_file_is_trusted(stored):
    with pytest.raises(ValueError, match="no schema"):
        Schema.from_json(stored)


def features(text, label="y", format="csv", **options):
    source = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    return [event.features for event in read_events(source, "u", label, format=format, **options)]


def test_a_category_stays_one_where_its_values_are_numbers():
    text = "u,zip,y\nann,10115,1\nbob,N1 9GU,0\n"
    kinds = {"zip": "category"}
    assert features(text, kinds=kinds) == [{"zip=10115": 1.0}, {"zip=N1 9GU": 1.0}]
    with pytest.raises(BadRow, match="line 3, column 'zip': 'N1 9GU' is not a number"):
        features(text, kinds={"zip": "number"})
    assert features(text, kinds={"zip": "ignored"}) == [{}, {}]


@pytest.mark.parametrize("kind", ["date", "free"])
def test_dates_are_alike_in_csv_json_and_parquet(kind):
    days = [date(2024, 2, 29), date(2023, 12, 31)]
    times = [datetime(2024, 2, 29, 13, 5), datetime(2023, 12, 31, 0, 0, 1)]
    table = pa.table({"u": ["a", "b"], "day": days, "at": times, "y": [True, False]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    rows = [f"{u},{day},{at.isoformat()}" for u, day, at in zip("ab", days, times, strict=True)]
    text = "u,day,at,y\n" + "".join(f"{row},true\n" for row in rows)
    kinds = {"day": kind, "at": kind}
    found = features(text, kinds=kinds)
    assert found == features(buffer.getvalue(), format="parquet", kinds=kinds)
    if kind == "date":
        assert found[0] == {
            "day.month=02": 1.0,
            "day.weekday=Thu": 1.0,
            "at.month=02": 1.0,
            "at.weekday=Thu": 1.0,
            "at.hour=13": 1.0,
        }
    else:
        assert "day=2024-02-29" in found[0]


@pytest.mark.parametrize("value", ["2024-02-30", "2024-13-01", "24-01-01", "2024-01-01 25:00"])
def test_what_is_no_date_is_a_category(value):
    assert features(f"u,at,y\na,{value},1\n", kinds={"at": "date"}) == [{f"at={value}": 1.0}]


def test_inference_from_a_file_warns():
    lines = ["user,clicked,copy,at,note"]
    lines += [
        f"u{i % 5},{i % 2},{i % 2},2024-01-0{i % 9 + 1},{WORDS[i % 3]} {i}" for i in range(80)
    ]
    content, roles = "\n".join(lines).encode(), {"task": "user", "label": "clicked"}
    schema = Schema.infer(io.BytesIO(content), **roles, format="csv")
    assert len(schema.sample) == 80
    assert schema.kinds == {"copy": "number", "at": "day", "note": "text"}
    [warning] = schema.warnings
    assert "column 'copy' has the label itself" in warning
    assert "--ignore copy" in warning
    ignoring = {"copy": "ignored"}
    assert Schema.infer(io.BytesIO(content), **roles, format="csv", kinds=ignoring).warnings == ()


def test_text_in_a_number_column_is_an_error_that_names_its_place():
    rows = [f"ann,{i % 7},1" for i in range(1200)]
    content = "\n".join(["u,n,y", *rows, "ann,seven,0", "ann,8,1"]).encode()
    schema = Schema.infer(io.BytesIO(content), task="u", label="y", format="csv")
    with pytest.raises(BadRow, match="line 1202, column 'n': 'seven' is not a number"):
        list(reader_events(Reader(io.BytesIO(content), schema, format="csv")))
    reader = Reader(io.BytesIO(content), schema, format="csv", skip_bad=True)
    assert (len(list(reader_events(reader))), reader.skipped) == (1201, 1)


def test_a_text_without_bounds_is_refused_by_name():
    for kind in ("text", "category", "free"):
        with pytest.raises(BadRow, match="column 't': has a text of 1,000,001 characters"):
            features(f"u,t,y\na,{'x' * 1_000_001},1\n", kinds={"t": kind})


def test_inference_takes_nothing_away():
    source = io.BytesIO(b"u,a,y\nx,1,p\n")
    Schema.infer(source, task="u", label="y", format="csv")
    assert source.tell() == 0
    assert not source.closed


def test_without_a_task_all_events_are_of_one():
    source = io.BytesIO(b"a,y\n1,p\n2,n\n")
    events = list(read_events(source, label="y", one_task=True, format="csv"))
    assert [event.task for event in events] == ["all", "all"]
    with pytest.raises(ValueError, match="both the task and the label"):
        read_events(io.BytesIO(b"a,y\n"), "y", "y", format="csv")


def test_long_cells_are_read_up_to_the_limit():
    long = "word " * 100_000
    [found] = features(f'u,t,y\na,"{long}",1\n', kinds={"t": "text"})
    assert found == {"t:word": 1.0}


def test_many_columns_take_no_more_than_their_number():
    names = [f"c{i}" for i in range(100_000)]
    text = "u,y," + ",".join(names) + "\na,1" + ",1" * len(names) + "\n"
    [found] = features(text, features=None)  # a minute, when each name was compared with each
    assert len(found) == len(names)
    with pytest.raises(BadFile, match="names occur twice: 'c7'"):
        features(text.replace("c99999", "c7"))


def test_a_frame_without_rows_teaches_nothing():
    model = romco.Model()
    assert len(model.learn(pd.DataFrame({"town": []}), [], [])) == 0
    assert model.events == 0


@pytest.mark.parametrize(
    ("label", "leak"),
    [("dear", "price"), ("dear", "band"), ("log_price", "price"), ("log_price", "minus")],
)
def test_a_column_that_tells_every_label_is_named(label, leak):
    rng = np.random.default_rng(0)
    price = np.exp(rng.normal(10.0, 1.0, size=200)).round(2)
    columns = {
        "user": rng.integers(5, size=200),
        "rooms": rng.integers(1, 6, size=200),
        "size": np.log(price) + rng.normal(size=200),
        "price": price,
        "minus": -price,
        "band": np.where(price > 60_000, "A", np.where(price > 20_000, "B", "C")),
        "dear": np.where(price > 20_000, "yes", "no"),
        "log_price": np.log(price),
    }
    names = ["user", "rooms", "size", leak, label]
    lines = [",".join(names)]
    lines += [",".join(map(str, row)) for row in zip(*map(columns.get, names), strict=True)]
    content = io.BytesIO("\n".join(lines).encode())
    schema = Schema.infer(content, task="user", label=label, format="csv")
    [warning] = schema.warnings
    assert f"column '{leak}' tells every label in all 200 rows" in warning
    assert f"--ignore {leak}" in warning


@pytest.mark.parametrize(
    "date", ["31.1.2024", "1/31/24", "2024/01/31 13:05", "20240131", "31 Jan 2024"]
)
def test_dates_of_another_form_are_warned_of(date):
    column = infer_column("when", [date] * 30, typed=False)
    assert "column 'when' seems to hold dates, as" in column.warning
    assert infer_column("version", ["1.2.3", "1.12"] * 15, typed=False).warning is None


def test_codes_with_zeros_in_front_are_categories():
    codes = [f"{371 * k + 501:05d}" for k in range(40)] * 3
    assert infer_column("zip", codes, typed=False).kind == "category"
    assert infer_column("month", ["01", "12"] * 20, typed=False).kind == "number"
