"""File formats: each reader turns bytes into rows, lazily, and goes on after a bad one."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, BinaryIO

BATCH = 1024  # rows of a Parquet file held in memory at a time
LONGEST = 16 * 2**20  # bytes of a cell, and of a row
SEPARATORS = (",", ";", "\t", "|")  # of columns, that are known by the first line
UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")  # how it begins, to whoever reads it as UTF-8


class BadFile(ValueError):  # noqa: N818 - says what is wrong
    """A file that cannot be read at all: damaged, or without the columns asked for."""


class BadRow(ValueError):  # noqa: N818
    """A row that cannot be read: where it is and what is wrong with it."""

    def __init__(self, file: str, line: int, column: str | None, reason: str) -> None:
        self.file, self.line, self.column, self.reason = file, line, column, reason
        place = f"{file}, line {line}" + (f", column {column!r}" if column is not None else "")
        super().__init__(f"{place}: {reason}; mend the row, or skip bad rows")

    def __reduce__(self) -> tuple[type[BadRow], tuple[str, int, str | None, str]]:
        return BadRow, (self.file, self.line, self.column, self.reason)


Row = tuple[int, Mapping[str, object]]  # line number (from 1), value of each column
Rows = Generator[Row | BadRow, None, None]  # a bad row is yielded, not raised: the reader can go on


@dataclass(frozen=True)
class Format:
    """How to read a kind of file.

    ``read(stream, name, wanted)`` yields its rows and raises ``BadFile`` if it can tell
    that a ``wanted`` column is not there; ``name`` is for messages.
    """

    suffixes: tuple[str, ...]
    read: Callable[[BinaryIO, str, Sequence[str]], Rows]
    task: str | None = None  # column of the task where the format itself fixes it
    label: str | None = None
    delimiter: str | None = None  # of a table that is text


def csv_rows(stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    r"""Rows of a comma-separated file with a header; quoted cells may hold line breaks.

    >>> list(csv_rows(io.BytesIO(b"user,age\nann,7\n"), "ages.csv", ["user"]))
    [(2, {'user': 'ann', 'age': '7'})]
    """
    return delimited_rows(stream, name, wanted, ",")


def tsv_rows(stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    """Rows of a tab-separated file with a header."""
    return delimited_rows(stream, name, wanted, "\t")


def json_rows(stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    """One object per line; blank lines are passed over.

    >>> list(json_rows(io.BytesIO(b'{"user": "ann", "age": 7}'), "ages.jsonl", []))
    [(1, {'user': 'ann', 'age': 7})]
    """
    decoder = json.JSONDecoder(object_pairs_hook=_object)  # to make one takes as long as a row
    for line, text in _lines(stream, name):
        if isinstance(text, BadRow):
            yield text
            continue
        try:
            row = decoder.decode(text)
        except (ValueError, RecursionError) as error:
            yield BadRow(name, line, None, f"not valid JSON ({error})")
            continue
        if isinstance(row, dict):
            yield line, row
        else:
            yield BadRow(name, line, None, "not a JSON object, that is {...}")


def svmlight_rows(stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    """``label qid:task index:value ... # comment``.

    >>> list(svmlight_rows(io.BytesIO(b"+1 qid:3 1:0.5 7:2 # hello"), "a.svm", []))
    [(1, {'label': 1.0, 'qid': '3', '1': 0.5, '7': 2.0})]
    """
    for line, text in _lines(stream, name):
        if isinstance(text, BadRow):
            yield text
            continue
        words = text.partition("#")[0].split()
        if words:
            yield _svmlight_row(name, line, words)


def parquet_rows(stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    """Rows of a Parquet file, a batch at a time; the line number is that of the row."""
    line = 0
    for batch in parquet_batches(stream, name, wanted):
        for row in batch.to_pylist():
            line += 1
            yield line, row


def parquet_batches(
    stream: BinaryIO, name: str, wanted: Sequence[str]
) -> Generator[Any, None, None]:
    """The rows of a Parquet file in Arrow's batches."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'romco[files]'") from error
    if not stream.seekable():
        raise BadFile(f"{name}: Parquet cannot be read from a pipe; save it to a file first")
    line = 0
    try:
        table = pq.ParquetFile(stream)
        _check_columns(name, table.schema_arrow.names, wanted)
        for batch in table.iter_batches(batch_size=BATCH):
            yield batch
            line += batch.num_rows
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{name}: damaged or not Parquet, after row {line} ({error})") from error


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "csv": Format((".csv",), csv_rows, delimiter=","),
        "tsv": Format((".tsv", ".tab"), tsv_rows, delimiter="\t"),
        "jsonl": Format((".jsonl", ".ndjson"), json_rows),
        "parquet": Format((".parquet", ".pq"), parquet_rows),
        "svmlight": Format((".svmlight", ".svm", ".libsvm"), svmlight_rows, "qid", "label"),
    }
)


def separator(line: str, usual: str, wanted: Collection[str] = ()) -> str:
    """What separates the columns that the first line of a table names.

    It is what finds most of the ``wanted`` columns; then the ``usual`` one, if the line holds it,
    else what gives most columns of comma, semicolon, tab and bar.

    >>> separator("user;price, EUR;clicked", ",", ["user", "clicked"])
    ';'
    """

    def columns(sign: str) -> set[str]:
        try:
            cells = next(csv.reader([line], delimiter=sign), [])
        except csv.Error:  # told by whoever reads it in earnest
            return set()
        return {cell.strip() for cell in cells}

    found = {sign: columns(sign) for sign in dict.fromkeys((usual, *SEPARATORS))}

    def fit(sign: str) -> tuple[int, bool, int]:
        held = found[sign]
        return len(held.intersection(wanted)), sign == usual and len(held) > 1, len(held)

    return max(found, key=fit)


def delimited_rows(stream: BinaryIO, name: str, wanted: Sequence[str], delimiter: str) -> Rows:
    """Rows of a table that is text; its columns may be separated by another sign than usual."""
    # Bytes that are not UTF-8 become lone surrogates, which whoever uses the cell refuses.
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
        first = text.readline()
        delimiter = separator(first, delimiter, wanted)
        # strict: a quote that is never closed is an error, not a cell as long as the file.
        cells = csv.reader(chain([first] if first else [], text), delimiter=delimiter, strict=True)
        header = _header(cells, name, wanted)
        while True:
            line = cells.line_num + 1  # where the row begins; a quoted cell may span lines
            try:
                row = next(cells)
            except StopIteration:
                return
            except csv.Error as error:
                yield BadRow(name, line, None, f"not valid {delimiter!r}-separated text ({error})")
                continue
            if len(row) == len(header):
                yield (
                    line,
                    {column: cell for column, cell in zip(header, row, strict=True) if column},
                )
            elif row:
                reason = f"has {len(row)} cells where the header has {len(header)}"
                yield BadRow(name, line, None, reason)
    finally:
        text.detach()  # the stream belongs to the caller


def _header(cells: Iterator[list[str]], name: str, wanted: Sequence[str]) -> list[str]:
    try:
        header = [column.strip() for column in next(cells, [])]
    except csv.Error as error:
        raise BadFile(f"{name}: the header cannot be read ({error})") from error
    return check_header(header, name, wanted)


def check_header(header: list[str], name: str, wanted: Sequence[str]) -> list[str]:
    """Names of the columns; one without a name (a row index, say) is left out of the rows."""
    if "".join(header)[:2] in UTF_16:
        raise BadFile(f"{name} is UTF-16 text, as some programs write it: save it as UTF-8")
    if not "".join(header).isprintable():
        raise BadFile(f"{name}: the header is not UTF-8 text; is it another format?")
    if not any(header):
        raise BadFile(f"{name} is empty: its first line must name the columns")
    named = [column for column in header if column]
    twice = _twice(named)
    if twice:
        raise BadFile(f"{name}: column names occur twice: {', '.join(map(repr, twice))}; rename")
    _check_columns(name, named, wanted)
    return header


def _twice(names: Sequence[str]) -> list[str]:
    """The names that occur more than once, sorted."""
    return sorted(name for name, times in Counter(names).items() if times > 1)


def _check_columns(name: str, columns: Sequence[str], wanted: Sequence[str]) -> None:
    there_are = frozenset(columns)
    unknown = [column for column in wanted if column not in there_are]
    if unknown:
        there = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        raise BadFile(f"{name}: no column {', '.join(map(repr, unknown))}; there are {there}")


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str | BadRow]]:
    for line, raw in enumerate(stream, start=1):
        try:
            text = raw.decode("utf-8-sig" if line == 1 else "utf-8")
        except UnicodeDecodeError as error:
            yield line, BadRow(name, line, None, f"not UTF-8 text ({error.reason})")
            continue
        if text.strip():
            yield line, text


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = _twice([name for name, _ in pairs])
        raise ValueError(f"names occur twice: {', '.join(map(repr, twice))}")
    names = "".join(row)
    if not names.isascii():
        names.encode()  # half a surrogate pair is no text
    return row


def _svmlight_row(name: str, line: int, words: list[str]) -> Row | BadRow:
    row: dict[str, object] = {}
    for place, word in enumerate(words):
        column, _, value = word.rpartition(":") if place else ("label", ":", word)
        if column in row or not (column in ("label", "qid") or column.isdecimal()):
            return BadRow(name, line, column or None, f"{word!r} is not a new index:value")
        try:
            row[column] = value if column == "qid" else float(value)
        except ValueError:
            return BadRow(name, line, column, f"{value!r} is not a number")
    return line, row
