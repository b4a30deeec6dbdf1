"""Blocks, compiled, say what events say, one at a time and in plain Python."""

import gzip
import io
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from romco.io import formats, reader
from romco.io.cells import ENCODERS, BadCell, encode_cell
from romco.io.formats import BadFile, BadRow
from romco.kernels.io.encoder import Encoder
from romco.kernels.io.lexicon import Lexicon
from romco.model import Hashed, Model, Names
from tests.io.helpers import read_blocks, read_events, schema_of
from tests.reference.events import Event
from tests.reference.events import read as read_plainly


def dicts(block):
    """The rows of a block as mappings."""
    found, features = [], block.features
    for i in range(len(block)):
        row = {}
        for k in range(features.starts[i], features.starts[i + 1]):
            name = features.lexicon.names[features.names[k]]
            row[name] = row.get(name, 0.0) + features.values[k]
        found.append(row)
    return found


def events_of(block):
    parts = zip(block.tasks, dicts(block), block.labels, block.lines, strict=True)
    return [Event(*part) for part in parts]


def by_blocks(content, most=3, **options):
    """All events, and what stopped the reading."""
    found = []
    with read_blocks(io.BytesIO(content), **options) as blocks:
        while True:
            block, trouble = blocks.take(most)
            found += events_of(block)
            if trouble is not None or not len(block):
                return found, trouble, blocks.skipped


def by_events(content, **options):
    rest = {name: options.pop(name) for name in ("skip_bad", "labelled") if name in options}
    format = options.pop("format")
    return read_plainly(content, schema_of(**options), format, **rest)


def same(content, **options):
    ours, trouble, skipped = by_blocks(content, **options)
    theirs, expected, n = by_events(content, **options)
    assert ours == theirs
    assert skipped == n
    assert type(trouble) is type(expected)
    if isinstance(trouble, BadRow):
        assert (trouble.line, trouble.column) == (expected.line, expected.column)
        if expected.column is not None or "cells where" in expected.reason:
            assert trouble.reason == expected.reason
    return ours, trouble


CELLS = st.one_of(
    st.sampled_from(
        ["", " ", "NA", "n/a", "NULL", "nan", "inf", "-Infinity", "1e999", "1_0", "0x1", ".", "-",
         "+", "1.", ".5", "+.5e-3", "1e", "1e+", "e5", "00012", "9007199254740993",
         "123456789012345678901",
         "1e22", "1e23", "1e-22", "-0", "-0.0", "0.1", "12.50", "5e-324", "1.7976931348623157e308",
         "Rome", " Rome ", "nap", "n/b", "nul", "Hi, hi there", "été ÉTÉ", "日本 語", "a=b", "a:b",
         'say ""it""', "2024-02-29", "2024-02-29 13:05", "2024-13-01", "\x1cx\x1f", "a\x00b",
         "_under_ score", "x\u00a0y", "\u00a05\u00a0", "\u0661"]
    ),
    st.text(max_size=12),
    st.floats().map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(kind=st.sampled_from(sorted(ENCODERS)), cell=CELLS)
def test_a_cell_is_what_the_plain_function_says(kind, cell):
    try:
        expected = encode_cell(kind, "c", cell)
    except BadCell as refused:
        expected = refused
    encoder = Encoder(encode_cell, Lexicon())
    encoder.column("c", kind)
    if isinstance(expected, BadCell):
        with pytest.raises(BadCell) as caught:
            encoder.add_row({"c": cell}, ())
        assert (caught.value.column, caught.value.reason) == (expected.column, expected.reason)
        return
    encoder.add_row({"c": cell}, ())
    values, names = encoder.take()
    found = {encoder.lexicon.names[name]: value for name, value in zip(names, values, strict=True)}
    assert found == expected
    assert list(found) == list(expected)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(
        st.lists(
            st.sampled_from(
                ["1", "a b", "", '"q"', '"a,b"', '"x""y"', '"two\nlines"', '"cr\r\n"', '"bad"x',
                 "it's", 'mid"quote', "été", "nan", "inf"]
            ),
            min_size=1,
            max_size=5,
        ),
        max_size=6,
    ),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    last=st.booleans(),
    skip=st.booleans(),
    most=st.integers(1, 4),
    piece=st.integers(1, 40),
)  # fmt: skip
def test_any_table_is_read_as_by_the_plain_reader(rows, end, last, skip, most, piece):
    lines = ["u,y,c,d", *(",".join(row) for row in rows)]
    content = (end.join(lines) + (end if last else "")).encode()

    class Pieces(io.BytesIO):
        def read1(self, size=-1):
            return super().read1(piece)

    options = {"task": "u", "label": "y", "text": "d", "format": "csv", "skip_bad": skip}
    theirs, expected, skipped = by_events(content, **options)
    found = []
    with read_blocks(Pieces(content), **options) as blocks:
        trouble, block = None, [0]
        while trouble is None and len(block):
            block, trouble = blocks.take(most)
            found += events_of(block)
    assert found == theirs
    assert blocks.skipped == skipped
    assert type(trouble) is type(expected)
    if trouble is not None:
        assert (trouble.line, trouble.column) == (expected.line, expected.column)


@pytest.mark.parametrize(
    "content",
    [
        b"u,y,a\nann,no,1\n\n\neve,yes,2",
        b"\xef\xbb\xbfu,y,a\r\nann,no,1\r\n",
        b",u,y,a\n0,ann,no,1\n",
        b"u,y,a\nann,no\neve,yes,2\n",
        b"u,y,a\nann,,1\n",
        b"u,y,a\n\xff,no,1\n",
        b"u,y,a\nann,no,\xff\n",
        b"u,y,a\nann,\xc3\xa9,\xc3\xa9\n",
        b'u,y,a\nann,no,"never closed\nmore\n',
        b'u,y,a\nann,no,"x"y\neve,no,3\n',
        b"u,y,a,a\n",
        b"u,x,a\nann,1,2\n",
        b"",
        b"\n",
        b"u,y,a",
        b'"u","y","a"\n"ann","n""o","1"\n',
        b"\xff\xfe\n",
        b'"u\n',
    ],
)
@pytest.mark.parametrize("skip", [False, True])
def test_tables_good_and_bad(content, skip):
    same(content, task="u", label="y", format="csv", skip_bad=skip)


ROWS = [
    {"u": "ann", "y": True, "n": 1.5, "w": "Rome", "t": "Hi hi there", "d": "2024-02-29"},
    {"u": 7, "y": False, "n": None, "w": 3, "t": "", "d": None, "deep": {"a": 1, "b": ["x", 2]}},
    {"u": 7.0, "y": 0, "n": float("nan"), "w": True, "t": None, "d": "no day"},
    {"u": "eve", "y": 1, "n": 10**400, "t": "x"},
    {"u": "eve", "n": 1},
]
KINDS = {"w": "category", "t": "text", "d": "date"}


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("features", [None, ["n", "w"]])
def test_json_lines(skip, features):
    content = "".join(json.dumps(row) + "\n" for row in ROWS).encode() + b"{bad\n"
    options = {"task": "u", "label": "y", "format": "jsonl", "kinds": KINDS, "skip_bad": skip}
    found, _ = same(content, features=features, **options)
    assert len(found) == 3


def test_parquet_and_svmlight():
    table = pa.table({"u": ["a", "b"], "y": [1, 0], "n": [1.5, None], "t": ["a b", "c"]})
    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    same(buffer.getvalue(), task="u", label="y", format="parquet", kinds={"t": "text"})
    same(b"1 qid:3 1:0.5 7:2\n-1 qid:4 2:1\n1 qid:x 3:a\n", format="svmlight")


def test_without_task_or_label():
    same(b"a,b\n1,x\n2,y\n", one_task=True, format="csv")
    found, _ = same(b"u,y,a\nann,,1\neve,no,2\n", task="u", label="y", labelled=False, format="csv")
    assert [event.label for event in found] == [None, "no"]


def test_start_and_gzip(tmp_path):
    lines = ["u,y,a", *(f"u{i % 3},{i % 2},{i}" for i in range(1000))]
    path = tmp_path / "e.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    with read_blocks(path, "u", "y", start=700) as blocks:
        block, _ = blocks.take(10)
    assert block.lines == list(range(702, 712))
    with pytest.raises(BadFile, match="has 1000 events, fewer than the 1001"):
        read_blocks(path, "u", "y", start=1001)
    path.write_bytes(path.read_bytes()[:-9])
    with read_blocks(path, "u", "y") as blocks:
        trouble = None
        while trouble is None:
            _, trouble = blocks.take(100)
    assert "compressed data are damaged" in str(trouble)


def test_a_row_without_end_is_refused_and_passed_over(monkeypatch):
    monkeypatch.setattr(formats, "MAX_ROW_BYTES", 10_000)
    monkeypatch.setattr(formats, "CHUNK_BYTES", 1000)
    content = b'u,y,a\nann,no,1\nann,no,"' + b"x" * 20_000 + b"\neve,no,2\n"
    found, _, skipped = by_blocks(content, task="u", label="y", format="csv", skip_bad=True)
    assert skipped == 1
    assert [event.task for event in found] == ["ann", "eve"]
    _, trouble, _ = by_blocks(content, task="u", label="y", format="csv")
    assert trouble.line == 3
    assert "is a quote never closed?" in trouble.reason


def test_names_are_forgotten_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(reader, "MAX_NAMES", 5)
    content = "u,y,a\n" + "".join(f"ann,{i % 2},word{i % 9}\n" for i in range(60))
    model, other = Model("pa-unique"), Model("pa-unique")
    with read_blocks(io.BytesIO(content.encode()), "u", "y", format="csv") as blocks:
        while len(block := blocks.take(4)[0]):
            model.learn(block.features, block.labels, block.tasks)
            assert len(block.features.lexicon) < 10
    for event in read_events(io.BytesIO(content.encode()), "u", "y", format="csv"):
        other.learn_one(event.features, event.label, event.task)
    assert model.features.to_json() == other.features.to_json()
    np.testing.assert_array_equal(model.engine.learner.weights(), other.engine.learner.weights())


@pytest.mark.parametrize("make", [Names, lambda: Hashed(64)])
@pytest.mark.parametrize("most", [1, 7, 100])
def test_a_model_learns_the_same_from_blocks_as_from_events(make, most):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    lines = ["u,y,n,town,says"]
    for _ in range(200):
        says = " ".join(rng.choice(words, 6))
        lines.append(
            f"u{rng.integers(4)},{rng.integers(2)},{rng.random():.3f},t{rng.integers(5)},{says}"
        )
    content = "\n".join(lines).encode()
    options = {"task": "u", "label": "y", "text": "says", "format": "csv"}
    ours, theirs = (Model("romco-nucl", make()) for _ in range(2))
    margins = []
    with read_blocks(io.BytesIO(content), **options) as blocks:
        while len(block := blocks.take(most)[0]):
            margins += ours.learn(block.features, block.labels, block.tasks).tolist()
    events = list(read_events(io.BytesIO(content), **options))
    expected = [theirs.learn_one(e.features, e.label, e.task) for e in events]
    np.testing.assert_allclose(margins, expected, atol=1e-12)
    content += b"\nu9,1,2,nowhere,never heard"
    with read_blocks(io.BytesIO(content), **options) as blocks:
        block, _ = blocks.take(1000)  # another lexicon, names that were never learned
    again = ours.margins(block.features, block.tasks)
    rows = [event.features for event in read_events(io.BytesIO(content), **options)]
    np.testing.assert_allclose(again, ours.margins(rows, block.tasks), atol=1e-12)


@pytest.mark.parametrize(
    ("format", "head", "row"),
    [("csv", b"u,y,a\n", b"ann,no,1\n"), ("jsonl", b"", b'{"u":1,"y":0}\n')],
)
def test_a_pipe_gives_what_has_come(format, head, row):
    ours, theirs = os.pipe()
    with os.fdopen(ours, "rb") as stream, os.fdopen(theirs, "wb", buffering=0) as feed:
        feed.write(head + row)
        with read_blocks(stream, "u", "y", format=format) as blocks:
            assert len(blocks.take(100)[0]) == 1  # does not wait for more
            feed.write(row * 2)
            taken = len(blocks.take(100)[0])
            while taken < 2:
                taken += len(blocks.take(100)[0])
            feed.close()
            assert len(blocks.take(100)[0]) == 0
