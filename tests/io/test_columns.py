"""Columns read as people mean them: the guess, what is asked, and what is suspicious."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from romco.io.columns import asked, guess
from romco.io.files import BadFile, BadRow, read_events
from romco.streams.survey import survey

WORDS = ["the cat sat on it", "a dog ran off again", "birds fly high up there"]


@pytest.mark.parametrize(
    ("name", "values", "told", "kind"),
    [
        ("price", [str(3 * i % 7) for i in range(60)], "number", "free"),
        ("price", ["1", "2", "NA", "", "null", "3.5"], "number", "free"),
        ("row", [str(i) for i in range(60)], "id-like", "ignored"),
        ("user_id", [str(7919 * i % 10007) for i in range(60)], "id-like", "ignored"),
        ("orderId", [7919 * i % 10007 for i in range(60)], "id-like", "ignored"),
        ("paid", [str(7919 * i % 10007) for i in range(60)], "number", "free"),
        ("session", [f"{hash((i, 1)):x}" for i in range(60)], "id-like", "ignored"),
        ("price", [f"{i},5" for i in range(60)], "decimal comma", "ignored"),
        ("price", ["1.234,50", "", "-0,5", "+7,25", "many"], "decimal comma", "ignored"),
        ("pair", ["1,2,3", "1,a"] * 30, "category", "category"),
        ("town", ["Rome", "Bonn", "Oslo"] * 30, "category", "category"),
        ("floor", ["3", "4", "roof"] * 30, "number or category", "free"),
        ("says", [f"{words} {i}" for i in range(10) for words in WORDS], "text", "text"),
        ("says", ["one text alone is enough"], "text", "text"),
        ("at", [f"2024-01-{i:02d} 10:00" for i in range(1, 29)], "date", "date"),
        ("at", ["2024-01-02T03:04:05.678Z", "2023-12-31"], "date", "date"),
        ("flag", ["x"] * 30, "constant", "category"),
        ("one", [1.0] * 30, "constant", "free"),
        ("gone", ["", None, "nan"], "empty", "free"),
        ("deep", [{"a": 1}], "nested", "free"),
    ],
)
def test_guess(name, values, told, kind):
    reading = guess(name, values)
    assert (reading.told, reading.kind) == (told, kind)
    assert reading.why
    assert ("ignored" in (reading.warning or "")) == (kind == "ignored")


def test_what_is_asked_is_done_and_warned_of():
    texts = [f"{words} {i}" for i in range(20) for words in WORDS]
    reading = asked("says", "category", texts)
    assert reading.kind == "category"
    assert "looks like text" in reading.warning
    assert asked("says", "text", texts).warning is None
    assert "looks like date" in asked("at", "category", ["2024-01-02"] * 3).warning


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
    with pytest.raises(ValueError, match="no kind 'colour'; there are free, number"):
        features(text, kinds={"zip": "colour"})


@pytest.mark.parametrize("kind", ["date", "free"])
def test_dates_are_alike_in_csv_json_and_parquet(kind):
    from datetime import date, datetime

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


def test_survey_tells_kinds_and_warns():
    lines = ["user,clicked,copy,at,note"]
    lines += [
        f"u{i % 5},{i % 2},{i % 2},2024-01-0{i % 9 + 1},{WORDS[i % 3]} {i}" for i in range(80)
    ]
    found = survey(io.BytesIO("\n".join(lines).encode()), "user", "clicked", "csv")
    assert found.rows == 80
    assert found.kinds == {"copy": "free", "at": "date", "note": "text"}
    [warning] = found.warnings
    assert "column 'copy' has the label itself" in warning
    assert "--ignore copy" in warning
    ignoring = survey(
        io.BytesIO("\n".join(lines).encode()), "user", "clicked", "csv", None, {"copy": "ignored"}
    )
    assert ignoring.warnings == ()


def test_a_target_that_is_a_number_is_warned_of():
    text = "user,price,a\n" + "".join(f"u,{i * 1.5},{i % 3}\n" for i in range(40))
    [warning] = survey(io.BytesIO(text.encode()), "user", "price", "csv").warnings
    assert "is it an amount to predict" in warning


def test_survey_takes_nothing_away():
    source = io.BytesIO(b"u,a,y\nx,1,p\n")
    survey(source, "u", "y", "csv")
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
