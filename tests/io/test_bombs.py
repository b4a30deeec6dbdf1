"""Files that say more than they hold: memory is bounded by what a row may be."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from romco.io import formats, reader
from romco.io.formats import BadFile, BadRow
from romco.io.reader import Reader
from romco.io.schema import Schema

SCHEMA = Schema({"s": "text"}, task="user", label="y")
READ = r"""
import re, sys
from romco.io.reader import Reader
from romco.io.schema import Schema
schema = Schema({"s": "category"}, task="user", label="y", complete=True)
with Reader(sys.argv[1], schema) as rows:
    block, _ = rows.take(30)
status = open("/proc/self/status").read()  # getrusage counts what the parent held before exec
print(len(block), int(re.search(r"VmHWM:\s+(\d+)", status)[1]) // 1024)
"""


def test_one_long_value_a_million_times_takes_the_memory_of_one(tmp_path):
    n, path = 1_000_000, tmp_path / "e.pq"
    places = pa.array(np.zeros(n, np.int32))
    text = pa.DictionaryArray.from_arrays(places, pa.array(["x" * 500_000]))
    name = pa.DictionaryArray.from_arrays(places, pa.array(["ann"]))
    table = pa.table({"user": name, "y": name, "s": text})
    pq.write_table(table, path, row_group_size=n, store_schema=False)
    assert path.stat().st_size < 100_000
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True)
    rows, megabytes = map(int, done.stdout.split())
    assert rows == 30
    assert megabytes < 400, done.stderr


def test_a_text_of_parquet_that_is_too_long_is_one_bad_row(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "MAX_ROW_BYTES", 2**20)
    texts = ["a", "x" * 2**21, "b", None]
    table = pa.table({"user": ["ann"] * 4, "y": ["no"] * 4, "s": texts, "n": [1, 2, 3, 4]})
    pq.write_table(table, tmp_path / "e.pq")
    with Reader(tmp_path / "e.pq", SCHEMA, skip_bad=True) as rows:
        lines = [line for block in rows.blocks() for line in block.lines]
    assert (lines, rows.skipped) == ([1, 3, 4], 1)
    with Reader(tmp_path / "e.pq", SCHEMA) as rows:
        _, trouble = rows.take(9)
    assert "line 2: longer than 1 MB; mend the row, or skip bad rows" in str(trouble)


def test_lists_that_could_not_be_held_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "MAX_LIST_VALUES", 1000)
    lists = pa.ListArray.from_arrays(pa.array([0, 2000], pa.int32()), pa.array(np.zeros(2000)))
    pq.write_table(pa.table({"user": ["ann"], "y": ["no"], "s": lists}), tmp_path / "e.pq")
    with Reader(tmp_path / "e.pq", SCHEMA) as rows:
        _, trouble = rows.take(1)
    assert isinstance(trouble, BadFile)
    assert "lists of 2,000 values in 1 rows; at most 1,000 fit: write" in str(trouble)


def test_texts_longer_than_all_rows_may_be_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(formats, "MAX_ROW_BYTES", 2**20)
    texts = ["a", "x" * 2**23, "b"]
    table = pa.table({"user": ["ann"] * 3, "y": ["no"] * 3, "s": texts})
    pq.write_table(table, tmp_path / "e.pq")
    with Reader(tmp_path / "e.pq", SCHEMA) as rows:
        _, trouble = rows.take(1)
    assert isinstance(trouble, BadFile)
    assert "column 's': 8 MB in 3 rows; a row may have 1 MB: leave the column out" in str(trouble)


@pytest.mark.parametrize("name", ["e.jsonl", "e.jsonl.gz", "e.svm"])
def test_a_line_without_an_end_is_one_bad_row(tmp_path, monkeypatch, name):
    monkeypatch.setattr(formats, "MAX_ROW_BYTES", 2**20)
    good = json.dumps({"user": "ann", "y": "no", "s": "hi"}).encode()
    if name == "e.svm":
        good = b"1 qid:7 1:2"
    data = good + b"\n" + good[:-1] + b" " * 3 * 2**20 + b"\n" + good + b"\n"
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    schema = Schema() if name == "e.svm" else SCHEMA
    with Reader(path, schema, skip_bad=True) as rows:
        blocks = list(rows.blocks())
    assert [line for block in blocks for line in block.lines] == [1, 3]
    assert rows.skipped == 1
    with Reader(path, schema) as rows:
        block, trouble = rows.take(9)
    assert len(block) == 1
    assert isinstance(trouble, BadRow)
    assert "line 2: longer than 1 MB; mend the row, or skip bad rows (--skip-bad)" in str(trouble)


@pytest.mark.parametrize("name", ["e.csv", "e.jsonl", "e.pq"])
def test_blocks_of_long_rows_are_shorter(tmp_path, monkeypatch, name):
    monkeypatch.setattr(reader, "MAX_BLOCK_ENTRIES", 5000)
    monkeypatch.setattr(formats, "CHUNK_BYTES", 2**14)
    words = " ".join(f"w{k}" for k in range(1000))
    rows = [{"user": "ann", "y": "no", "s": words}] * 100
    path = tmp_path / name
    if name == "e.pq":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif name == "e.jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("user,y,s\n" + f"ann,no,{words}\n" * 100)
    with Reader(path, SCHEMA) as source:
        blocks = list(source.blocks())
    assert sum(map(len, blocks)) == 100
    assert max(map(len, blocks)) < 40


def test_text_that_is_no_utf_8_names_line_and_what_to_do(tmp_path):
    path = tmp_path / "e.jsonl"
    path.write_bytes(b'{"user": "ann", "y": "no", "s": "a"}\n{"user": "J\xf6rg"}\n')
    with Reader(path, SCHEMA) as rows:
        _, trouble = rows.take(9)
    assert "line 2: not UTF-8 text (byte 12 of the line): save the file as UTF-8" in str(trouble)
    table = tmp_path / "e.csv"
    table.write_bytes(b"user,y,s\nann,no,J\xf6rg\n")
    with Reader(table, SCHEMA) as rows:
        _, trouble = rows.take(9)
    assert "line 2, column 's': is not UTF-8 text" in str(trouble)
    assert "--skip-bad" in str(trouble)
