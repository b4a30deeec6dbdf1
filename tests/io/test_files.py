import csv
import gzip
import io
import json
import math
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romco.io.formats import BadFile, BadRow, separator
from romco.io.schema import Schema
from tests.io.helpers import read_blocks, read_events
from tests.reference.events import Event

ROWS = [
    {"user": "ann", "spam": "yes", "size": 1.5, "from": "bob", "says": "Buy, buy now"},
    {"user": "eve", "spam": "no", "size": -2.0, "from": "ann", "says": "hello"},
    {"user": "ann", "spam": "no", "size": 3.0, "from": "eve", "says": "be here now"},
]
BUY = math.log(3.0) / math.hypot(math.log(3.0), math.log(2.0))  # occurs twice
NOW, THREE = math.sqrt(1.0 - BUY * BUY), 3**-0.5
EXPECTED = [
    (
        "ann",
        {"says:buy": BUY, "says:now": NOW, "size": 1.5, "from=bob": 1},
        "yes",
    ),
    ("eve", {"says:hello": 1.0, "size": -2.0, "from=ann": 1.0}, "no"),
    (
        "ann",
        {"says:be": THREE, "says:here": THREE, "says:now": THREE, "size": 3.0, "from=eve": 1.0},
        "no",
    ),
]


def delimited(rows, mark):
    table = [list(rows[0]), *(list(row.values()) for row in rows)]
    cells = ([f'"{cell}"' if mark in str(cell) else str(cell) for cell in row] for row in table)
    return "".join(mark.join(row) + "\n" for row in cells).encode()


def parquet(rows):
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), buffer, row_group_size=2)
    return buffer.getvalue()


WRITTEN = {
    "mail.csv": delimited(ROWS, ","),
    "mail.tsv": delimited(ROWS, "\t"),
    "mail.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS).encode(),
    "mail.parquet": parquet(ROWS),
}


def events_of(content, task="user", label="spam", format="csv", **options):
    source = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    return read_events(source, task, label, format=format, **options)


def bad(content, **options):
    with pytest.raises(BadRow) as caught:
        list(events_of(content, **options))
    return caught.value


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_all_formats_say_the_same(tmp_path, name, packed):
    path = tmp_path / (name + ".gz" if packed else name)
    path.write_bytes(gzip.compress(WRITTEN[name]) if packed else WRITTEN[name])
    found = list(read_events(path, "user", "spam", text="says"))
    for event, (task, features, label) in zip(found, EXPECTED, strict=True):
        assert (event.task, event.label) == (task, label)
        assert event.features == pytest.approx(features)
    first = 2 if name[-3:] in ("csv", "tsv") else 1
    assert [event.line for event in found] == [first, first + 1, first + 2]


def test_svmlight():
    text = "# mail\n+1 qid:7 3:0.5 10:2 # a comment\n\n-1 qid:8\n"
    found = list(events_of(text, task=None, label=None, format="svmlight"))
    assert found == [Event("7", {"3": 0.5, "10": 2.0}, "1", 2), Event("8", {}, "-1", 4)]


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("1 3:0.5", "qid"),
        ("1 qid:7 3:x", "3"),
        ("1 qid:7 3:inf", "3"),
        ("1 qid:7 3:1 3:2", "3"),
        ("1 qid:7 a:1", "a"),
        ("1 qid:7 3", None),
        ("yes qid:7 3:1", "label"),
        ("1,2 qid:7 3:1", "label"),
    ],
)
def test_bad_svmlight_rows(row, column):
    error = bad("1 qid:1 1:1\n" + row, task=None, label=None, format="svmlight")
    assert (error.line, error.column) == (2, column)


def test_the_task_of_svmlight_is_its_own():
    with pytest.raises(ValueError, match="'qid', not 'user'"):
        events_of("1 qid:1", format="svmlight")


def test_stdin(monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO(WRITTEN["mail.csv"]))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert len(list(read_events("-", "user", "spam", format="csv"))) == 3
    assert not stdin.buffer.closed
    with pytest.raises(ValueError, match="stdin: the name does not tell the format"):
        read_events("-", "user")


def test_a_file_is_not_read_ahead():
    class Counting(io.BytesIO):
        taken = 0

        def read1(self, size=-1):
            data = super().read1(size)
            self.taken += len(data)
            return data

    source = Counting(b"user,spam,n\n" + b"ann,no,1\n" * 100_000)
    with read_events(source, "user", "spam", format="csv") as events:
        assert len(events.take(10)[0]) == 10
    assert 0 < source.taken < 300_000  # of 900,000: one chunk


def test_chosen_features_only():
    [first, *_] = events_of(WRITTEN["mail.csv"], features=["size"])
    assert first.features == {"size": 1.5}
    [first, *_] = events_of(WRITTEN["mail.csv"], features=[], text="says")
    assert first.features == pytest.approx({"says:buy": BUY, "says:now": NOW})


def test_without_label_there_is_none():
    [first, *_] = events_of(WRITTEN["mail.csv"], label=None, features=["size"])
    assert first.label is None


def test_unknown_columns_list_the_known():
    with pytest.raises(BadFile, match=r"no column 'usr', 'age'; there are 'user', 'spam', 'size'"):
        list(events_of(WRITTEN["mail.csv"], task="usr", features=["age"]))
    with pytest.raises(BadFile, match=r"no column 'usr'; there are 'user'"):
        list(events_of(WRITTEN["mail.parquet"], task="usr", format="parquet"))
    error = bad('{"user": 1}', task="usr", format="jsonl")
    assert (error.column, error.reason) == ("usr", "is missing among 'user'")


@pytest.mark.parametrize("content", ["", "\ufeff", ",,\n"])
def test_a_table_needs_a_header(content):
    with pytest.raises(BadFile, match="empty"):
        list(events_of(content))


@pytest.mark.parametrize(
    ("content", "format"), [("user,spam\n", "csv"), ("", "jsonl"), ("\n\n", "jsonl")]
)
def test_no_events(content, format):
    assert list(events_of(content, format=format)) == []


def test_twice_the_same_name():
    with pytest.raises(BadFile, match=r"names occur twice: 'size'"):
        list(events_of("user,spam,size,size\n"))
    error = bad('{"user": 1, "spam": 0, "a": 1, "a": 2}', format="jsonl")
    assert "names occur twice: 'a'" in error.reason


def test_column_without_a_name_is_left_out():
    [event] = events_of(",user,spam,n\n17,ann,no,2\n")
    assert event.features == {"n": 2.0}


@pytest.mark.parametrize("format", ["csv", "jsonl"])
def test_byte_order_mark_and_windows_line_ends(format):
    text = "user,spam,n\nann,no,2\n" if format == "csv" else '{"user":"ann","spam":"no","n":2}\n'
    [event] = events_of(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode(), format=format)
    assert event[:3] == ("ann", {"n": 2.0}, "no")


def test_quoted_line_breaks_and_line_numbers():
    text = 'user,spam,says\nann,no,"one\n\ntwo, ""three"""\n\neve,no,four\n'
    first, second = events_of(text, text="says")
    assert first.features == pytest.approx(
        {f"says:{word}": THREE for word in ("one", "two", "three")}
    )
    assert (first.line, second.line) == (2, 6)


def test_missing_cells_are_absent_features():
    [event] = events_of("user,spam,a,b\nann,no,,3\n")
    assert event.features == {"b": 3.0}
    [event] = events_of('{"user": 1, "spam": true, "a": null}', format="jsonl")
    assert event == Event("1", {}, "true", 1)


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ("ann,no", None, "has 2 cells where the header has 3"),
        ("ann,no,1,2", None, "has 4 cells where the header has 3"),
        (",no,1", "user", "is missing"),
        ("ann, ,1", "spam", "is missing"),
        ("ann,no,1e999", "n", "inf is not a finite number"),
        ("ann,no,-inf", "n", "-inf is not a finite number"),
        ('ann,no,"never closed', None, "unexpected end of data"),
        ('ann,no,"a"b', None, "expected after"),
    ],
)
def test_bad_csv_rows(row, column, reason):
    error = bad("user,spam,n\neve,no,1\n" + row)
    assert (error.line, error.column) == (3, column)
    assert reason in error.reason
    assert "line 3" in str(error)
    assert "skip bad rows (--skip-bad)" in str(error)


@pytest.mark.parametrize(
    "row",
    [
        *(
            "{",
            "[1]",
            "7",
            '{"user": 1}',
            '{"user": 1, "spam": 0, "n": -Infinity}',
            "[" * 100_000,
            "no",
        ),
        '{"user": 1, "spam": 0, "\\ud800": 1}',
        '{"user": 1, "spam": 0, "n": {"\\udc00": 1}}',
        '{"user": "\\ud800", "spam": 0}',
        '{"user": 1, "spam": 0, "n": ' + "9" * 400 + "}",
    ],
    ids=[
        "cut",
        "list",
        "number",
        "no label",
        "infinite",
        "deep",
        "word",
        "name",
        "inner",
        "task",
        "long",
    ],
)
def test_bad_json_rows(row):
    assert bad('{"user": 1, "spam": 0}\n\n' + row, format="jsonl").line == 3


@pytest.mark.parametrize("format", ["csv", "jsonl", "svmlight"])
def test_bytes_that_are_not_utf8(format):
    good = {"csv": b"user,spam,n\na,no,1\n", "jsonl": b"", "svmlight": b""}[format]
    row = {"csv": b"\xff,no,1\n", "jsonl": b'{"user": "\xff"}', "svmlight": b"1 qid:\xff"}[format]
    names = {} if format != "svmlight" else {"task": None, "label": None}
    assert "UTF-8" in bad(good + row, format=format, **names).reason


def test_skipping_bad_rows_counts_them():
    text = 'user,spam,n\nann,no,1\nann,no\neve,no,inf\nann,"x"y,1\neve,yes,2\n'
    events = events_of(text, skip_bad=True)
    assert [event.line for event in events] == [2, 6]
    assert events.skipped == 3


@given(st.lists(st.booleans(), max_size=12), st.data())
def test_resumed_is_uninterrupted(good, data):
    rows = [f"ann,no,{i}" if fine else "ann" for i, fine in enumerate(good)]
    text = "\n".join(["user,spam,n", *rows])
    whole = events_of(text, skip_bad=True)
    expected = list(whole)
    done = data.draw(st.integers(0, len(expected)))
    resumed = events_of(text, skip_bad=True, start=done)
    assert list(resumed) == expected[done:]
    assert resumed.skipped == whole.skipped


def test_more_to_pass_over_than_there_is():
    with pytest.raises(BadFile, match="has 3 events, fewer than the 4"):
        events_of(WRITTEN["mail.csv"], start=4)


@given(st.lists(st.tuples(st.text(min_size=1), st.floats(allow_nan=False, allow_infinity=False))))
def test_json_gives_back_what_was_written(pairs):
    rows = [(task, value) for task, value in pairs if task.strip() and task.isprintable()]
    text = "".join(json.dumps({"user": task, "spam": 1, "n": value}) + "\n" for task, value in rows)
    found = [(event.task, event.features["n"]) for event in events_of(text, format="jsonl")]
    assert found == [(task.strip(), value) for task, value in rows]


@pytest.mark.parametrize("cut", [1, 9, 30])
def test_truncated_gzip(tmp_path, cut):
    path = tmp_path / "mail.csv.gz"
    path.write_bytes(gzip.compress(WRITTEN["mail.csv"])[:-cut])
    with pytest.raises(BadFile, match=r"mail\.csv\.gz: compressed data are damaged"):
        list(read_events(path, "user", "spam"))


@pytest.mark.parametrize("cut", [1, 9, 30])
def test_kinds_are_inferred_from_the_rows_before_the_damage(tmp_path, cut):
    lines = [f"u{i % 7},{i % 17 + 0.5},t{i % 3},no\n" for i in range(90)]
    text = "".join(["user,age,town,spam\n", *lines])
    path = tmp_path / "mail.csv.gz"
    path.write_bytes(gzip.compress(text.encode())[:-cut])
    schema = Schema.infer(path, task="user", label="spam")
    assert schema.kinds == {"age": "number", "town": "category"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_kinds_are_inferred_from_a_pipe(end):
    lines = ["user,age,town,spam", *(f"u{i % 7},{i % 17 + 0.5},t{i % 3},no" for i in range(90))]
    reading, writing = os.pipe()
    os.write(writing, (end.join(lines) + end).encode())
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        schema = Schema.infer(stream, task="user", label="spam", format="csv")
    assert schema.kinds == {"age": "number", "town": "category"}


def test_damage_anywhere_in_a_gzip_is_reported_by_the_reader(tmp_path):
    path = tmp_path / "mail.csv.gz"
    packed = gzip.compress(WRITTEN["mail.csv"])
    for place in range(len(packed)):
        damaged = bytearray(packed)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        Schema.infer(path)  # raised zlib.error


def test_not_gzip_at_all(tmp_path):
    path = tmp_path / "mail.csv.gz"
    path.write_bytes(WRITTEN["mail.csv"])
    with pytest.raises(BadFile, match="compressed data are damaged"):
        list(read_events(path, "user", "spam"))


@pytest.mark.parametrize(
    "change", [lambda c: b"", lambda c: c[:-9], lambda c: b"not parquet at all"]
)
def test_damaged_parquet(tmp_path, change):
    path = tmp_path / "mail.parquet"
    path.write_bytes(change(WRITTEN["mail.parquet"]))
    with pytest.raises(BadFile, match="damaged or not Parquet"):
        list(read_events(path, "user", "spam"))


def test_parquet_cannot_be_piped():
    class Pipe(io.BytesIO):
        def seekable(self):
            return False

    with pytest.raises(BadFile, match="save it to a file"):
        list(read_events(Pipe(WRITTEN["mail.parquet"]), "user", "spam", format="parquet"))


def test_parquet_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"romco\[files\]"):
        list(events_of(WRITTEN["mail.parquet"], format="parquet"))


def test_missing_file_and_unknown_formats(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_events(tmp_path / "mail.csv", "user")
    with pytest.raises(ValueError, match=r"no format 'xls'; there are csv, tsv"):
        read_events(tmp_path / "mail.csv", "user", format="xls")
    with pytest.raises(ValueError, match="does not tell the format"):
        read_events(tmp_path / "mail.xls", "user")
    (tmp_path / "mail.csv").write_bytes(b"user,spam\n")
    with pytest.raises(ValueError, match="say which column is the task"):
        read_events(tmp_path / "mail.csv")


SAME = [["user", "spam", "price, EUR", "says"]] + [
    [f"u{i}", "yes" if i % 2 else "no", f"{i}.5", 'a;b,c\td|e "f"\nnext'] for i in range(5)
]


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["odd.csv", "odd.tsv", "odd.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_columns_may_be_separated_by_other_signs(sign, name, end, encoding, tmp_path):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=sign, lineterminator=end).writerows(SAME)
    path, content = tmp_path / name, text.getvalue().encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    events = list(read_events(path, "user", "spam"))
    assert [(event.task, event.label) for event in events] == [(row[0], row[1]) for row in SAME[1:]]
    assert [event.features["price, EUR"] for event in events] == [0.5, 1.5, 2.5, 3.5, 4.5]
    with read_blocks(path, "user", "spam") as blocks:
        block, trouble = blocks.take(10)
    assert trouble is None
    assert block.tasks == [event.task for event in events]
    names = block.features.lexicon.names
    assert {names[k] for k in block.features.names} == {n for e in events for n in e.features}
    looked = Schema.infer(path, task="user", label="spam")
    assert looked.sample_columns == SAME[0]
    assert looked.separator == (None if sign == ("\t" if name == "odd.tsv" else ",") else sign)


@pytest.mark.parametrize(
    ("line", "usual", "wanted", "sign"),
    [
        ("user;price, EUR;spam", ",", ["user"], ";"),
        ("user;price, EUR;spam", ",", [], ","),
        ("user", ",", ["user"], ","),
        ("a;b", ",", ["a;b"], ","),
        ("a|b;c;d", ",", [], ";"),
        ('"a,b";c', ",", [], ";"),
        ("a,b", "\t", [], ","),
        ("", ",", ["user"], ","),
    ],
)
def test_the_first_line_tells_the_separator(line, usual, wanted, sign):
    assert separator(line, usual, wanted) == sign


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_utf_16_is_told(encoding, tmp_path):
    path = tmp_path / "odd.csv"
    mark = "" if encoding == "utf-16" else "\ufeff"
    path.write_bytes(f"{mark}user,spam\nann,yes\n".encode(encoding))
    with pytest.raises(BadFile, match=r"UTF-16 text.*save it as UTF-8"):
        list(read_events(path, "user", "spam"))
    with read_blocks(path, "user", "spam") as blocks:
        assert "UTF-16" in str(blocks.take(1)[1])
