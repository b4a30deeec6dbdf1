"""File formats: each reads bytes into rows, lazily, and goes on after a bad row.

A package can add formats by the entry point group ``romco.formats``: the entry's name is the
format's, its object a :class:`Format`.
"""

import base64
import codecs
import csv
import gzip
import io
import json
import re
import sys
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter, itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from romco.io.cells import BadCell, read_name, read_task
from romco.io.durable import Closable
from romco.io.frames import duplicates, quoted
from romco.kernels.io.delimited import Delimited
from romco.plugins import Registry

PARQUET_BATCH_ROWS = 1024  # held in memory at a time
CHUNK_BYTES = 2**18  # read at a time
MAX_ROW_BYTES = 16 * 2**20
MAX_BATCH_VALUES = 2**20  # of lists in Parquet, on average, held at a time
MAX_LIST_VALUES = 2**24  # of lists in a row group of Parquet, which may all be in one row
MAX_TASK_NAMES = 1_000_000  # remembered by a reader
SEPARATORS = (",", ";", "\t", "|")  # recognised in the first line
_LINE_END = re.compile(rb"[\r\n]")
UTF_16 = ("\udcff\udcfe", "\udcfe\udcff")  # its first bytes, read as UTF-8


class BadFile(ValueError):  # noqa: N818 - says what is wrong
    """A file that cannot be read at all: damaged, or without the columns asked for."""


class BadRow(ValueError):  # noqa: N818
    """A row that cannot be read: where it is and what is wrong with it."""

    def __init__(self, file: str, line: int, column: str | None, reason: str) -> None:
        self.file, self.line, self.column, self.reason = file, line, column, reason
        place = f"{file}, line {line}"
        if column is not None:
            place += f", column {column!r}"
        super().__init__(f"{place}: {reason}; mend the row, or skip bad rows (--skip-bad)")

    def __reduce__(self) -> "tuple[type[BadRow], tuple[str, int, str | None, str]]":
        return BadRow, (self.file, self.line, self.column, self.reason)


Row = tuple[int, Mapping[str, Any]]  # line number (from 1), value of each column
# A bad row is yielded, not raised: the reader can go on. None is a row that a TaskFilter drops.
Rows = Generator[Row | BadRow | None, None, None]
Owns = Callable[[str | None], bool]  # whether rows of a task are read; None: it has no name


@dataclass(frozen=True)
class Format:
    """Reader of a kind of file.

    ``read(stream, name, wanted)`` yields its rows and raises ``BadFile`` if it can tell
    that a ``wanted`` column is not there; ``name`` is for messages. One that ``filters`` takes a
    :class:`TaskFilter` as its fourth argument, too.
    """

    suffixes: tuple[str, ...]
    read: Callable[..., Rows]
    task: str | None = None  # column of the task where the format itself fixes it
    label: str | None = None
    delimiter: str | None = None  # of a table that is text
    lines: bool = True  # whether its bytes are its lines
    kinds: Callable[[BinaryIO], Mapping[str, str]] | None = None  # of columns whose type tells it
    filters: bool = False


def format_of(name: str, format: str | None = None) -> str:
    """Return the name of the format, from ``format`` or the file's suffix."""
    if format is not None:
        if format not in FORMATS:
            raise ValueError(f"no format {format!r}; there are {', '.join(FORMATS)}")
        return format
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    for candidate in FORMATS:
        if suffix in FORMATS[candidate].suffixes:
            return candidate
    known = ", ".join(FORMATS)
    raise ValueError(f"{name}: the name does not tell the format; say format= one of {known}")


class OpenFile(Closable):
    """A source that is open: a path, "-" for stdin, or a binary stream, which is not closed."""

    def __init__(self, source: str | Path | BinaryIO, format: str | None = None) -> None:
        self.name = str(getattr(source, "name", source))
        if source == "-":
            self.name = "stdin"
        self.format = FORMATS[format_of(self.name, format)]
        self.raw: BinaryIO | None = None  # bytes as they are on disk, where it was opened here
        if source == "-":
            self.stream = sys.stdin.buffer
        elif isinstance(source, str | Path):
            self.stream = self.raw = Path(source).open("rb")  # noqa: SIM115 - close() does
            if self.name.endswith(".gz"):
                self.stream = cast(BinaryIO, gzip.GzipFile(fileobj=self.raw))
        else:
            self.stream = source

    @property
    def live(self) -> bool:
        """True for a pipe, whose rows may be waited for."""
        return self.raw is None and not self.stream.seekable()

    def close(self) -> None:
        """Close what was opened here."""
        if self.raw is not None:
            self.stream.close()
            self.raw.close()


class TaskFilter:
    """Filter of rows by the columns of the task; of other rows nothing else is looked at."""

    def __init__(self, columns: Sequence[str], owns: Owns) -> None:
        self.columns, self._owns = columns, owns
        self._owns_cell = lru_cache(MAX_TASK_NAMES)(self._owns_value)

    def owns(self, cell: Any) -> bool:
        """Return whether the row with this cell is wanted."""
        try:
            return self._owns_cell(cell)
        except TypeError:  # not hashable, so no name
            return self._owns(None)

    def owns_row(self, row: Row | BadRow | None) -> bool:
        """Return whether a row is wanted."""
        task = None
        if isinstance(row, tuple):
            with suppress(ValueError):
                task = read_task(self.columns, row[1])
        return self._owns(task)

    def select(self, rows: Rows) -> Rows:
        """Yield None in place of rows that are not wanted."""
        for row in rows:
            if self.owns_row(row):
                yield row
            else:
                yield None

    def _owns_value(self, cell: Any) -> bool:
        task = None
        with suppress(ValueError):
            task = read_name("", {"": cell})
        return self._owns(task)


class Sample(NamedTuple):
    """First rows of a source: of a file, a frame or a list."""

    rows: Sequence[Mapping[str, Any]]
    lines: Sequence[int] = ()  # of the rows, where they have lines
    name: str = ""
    typed: bool = True  # whether text is text; else it may spell numbers
    fixed: bool = False  # whether the format itself fixes how columns are read
    kinds: Mapping[str, str] = MappingProxyType({})  # of columns whose type tells it
    separator: str | None = None  # of the columns, where it is not the format's own

    def place(self, row: int) -> str:
        """Return where a row is, for messages."""
        if self.lines:
            return f"line {self.lines[row]}"
        return f"row {row}"


def read_sample(
    source: str | Path | BinaryIO,
    format: str | None,
    wanted: Sequence[str],
    most: int,
    tasks: TaskFilter | None = None,
) -> Sample:
    """Return the first good rows, of some tasks; nothing is taken from a stream or pipe.

    They end where something cannot be read: reading in earnest reports it.
    """
    found: list[Row] = []
    with OpenFile(source, format) as file:
        kind, stream, begin, sign = file.format, file.stream, None, None
        kinds: Mapping[str, str] = {}
        try:
            if file.live:  # its whole lines so far
                held = b""
                if isinstance(stream, io.BufferedReader):
                    held = stream.peek()
                end = max(held.rfind(b"\n"), held.rfind(b"\r"))
                stream = io.BytesIO(held[: end + 1])
            begin = stream.tell()
            if kind.delimiter is not None:
                table = DelimitedText(stream, file.name, (), kind.delimiter, wanted)
                rows, sign = table.rows(), table.separator
            else:
                rows = kind.read(stream, file.name, ())
            with closing(rows):
                chosen: Iterator[Row | BadRow | None] = rows
                if tasks is not None:
                    chosen = filter(tasks.owns_row, rows)
                for row in islice(chosen, most):
                    if isinstance(row, tuple):
                        found.append(row)
            if kind.kinds is not None:
                kinds = kind.kinds(stream)
        except (ValueError, EOFError, OSError, ImportError, zlib.error):
            pass
        finally:
            if begin is not None and not file.live:
                stream.seek(begin)
    if sign == kind.delimiter:
        sign = None
    return Sample(
        rows=list(map(itemgetter(1), found)),
        lines=list(map(itemgetter(0), found)),
        name=file.name,
        typed=kind.delimiter is None,
        fixed=kind.task is not None,
        kinds=kinds,
        separator=sign,
    )


# Delimited text


class DelimitedText:
    """Table with a header whose cells are separated by a sign; split by compiled code.

    The ``wanted`` columns must be there; ``hints``, else they, tell the separator.
    """

    def __init__(
        self,
        stream: BinaryIO,
        name: str,
        wanted: Sequence[str],
        delimiter: str,
        hints: Sequence[str] = (),
    ) -> None:
        self._stream, self._name = stream, name
        self._data, self._at, self._last, self._size = b"", 0, False, CHUNK_BYTES
        while not (self._last or _LINE_END.search(self._data) or len(self._data) >= MAX_ROW_BYTES):
            self._fetch()
        self._data = self._data.removeprefix(codecs.BOM_UTF8)
        first = _LINE_END.split(self._data, 1)[0]
        self.separator = separator(_decoded(first), delimiter, hints or wanted)
        self.splitter = Delimited(self.separator.encode())
        (rows,), bad, _ = self.read(self.splitter.split_rows, 1)
        if bad is not None:
            raise BadFile(f"{name}: the header cannot be read ({bad.reason})")
        header = []
        if rows and rows[0][0] == 1:  # not after an empty line
            header = [_decoded(cell).strip() for cell in rows[0][1]]
        self.header = check_header(header, name, wanted)

    def rows(self) -> Rows:
        """Yield rows as mappings of text; a column without a name is left out."""
        more, width = True, len(self.header)
        while more:
            (rows,), bad, more = self.read(self.splitter.split_rows, PARQUET_BATCH_ROWS)
            for line, cells in rows:
                if len(cells) == width:
                    pairs = zip(self.header, cells, strict=True)
                    yield line, {name: _decoded(cell) for name, cell in pairs if name}
                else:
                    reason = f"has {len(cells)} cells where the header has {width}"
                    yield BadRow(self._name, line, None, reason)
            if bad is not None:
                yield bad

    def read(self, step: Callable[..., Any], most: int) -> tuple[Any, BadRow | None, bool]:
        """Take up to ``most`` rows by a ``step`` of the splitter; read more bytes if there is none.

        Returns what the step gave, the bad row after it, and whether more may come.
        """
        bad_row = None
        while True:
            *found, self._at, bad = step(self._data, self._at, self._last, most)
            more = not (self._last and self._at >= len(self._data))
            if self.splitter.passed or bad is not None or not more:
                self._size = CHUNK_BYTES
                if bad is not None:
                    bad_row = self._bad(*bad)
                return found, bad_row, more
            if len(self._data) - self._at > MAX_ROW_BYTES:
                reason = self._skip_long_row()
                self.splitter.passed = 1
                if self.splitter.owns is None or self.splitter.owns(None):
                    bad_row = self._bad(self.splitter.line, reason)
                return found, bad_row, True
            self._fetch()

    def _bad(self, line: int, error: str | Exception) -> BadRow:
        if isinstance(error, str):
            return BadRow(self._name, line, None, error)
        if isinstance(error, BadCell):
            return BadRow(self._name, line, error.column, error.reason)
        if isinstance(error, ValueError) and len(error.args) == 2:
            return BadRow(self._name, line, self.header[error.args[0]], error.args[1])
        raise error

    def _skip_long_row(self) -> str:
        """Pass over a row that does not end, up to the next line; return what is wrong with it."""
        end = b""
        self._at = len(self._data)
        while not self._last and b"\n" not in end:
            self._fetch()
            end = self._data
            self._at = len(end)
        self._at = end.find(b"\n") + 1 or len(end)
        return f"longer than {MAX_ROW_BYTES // 2**20} MB; is a quote never closed?"

    def _fetch(self) -> None:
        """Read more bytes: twice as many where a row is longer than those at hand."""
        more = self._stream.read1(self._size)  # type: ignore[attr-defined]
        self._data, self._at = self._data[self._at :] + more, 0
        self._last = not more
        self._size = min(2 * self._size, MAX_ROW_BYTES)


def separator(line: str, usual: str, wanted: Collection[str] = ()) -> str:
    """Return the sign between the columns that the first line of a table names.

    It is the one that finds most of the ``wanted`` columns; then the ``usual`` one, if the line
    holds it, else the one of comma, semicolon, tab and bar that gives most columns.

    >>> separator("user;price, EUR;clicked", ",", ["user", "clicked"])
    ';'
    """

    def columns(sign: str) -> set[str]:
        try:
            cells = next(csv.reader([line], delimiter=sign), [])
        except csv.Error:  # reported by whoever reads it in earnest
            return set()
        return set(map(str.strip, cells))

    found = {sign: columns(sign) for sign in dict.fromkeys((usual, *SEPARATORS))}

    def fit(sign: str) -> tuple[int, bool, int]:
        held = found[sign]
        return len(held.intersection(wanted)), sign == usual and len(held) > 1, len(held)

    return max(found, key=fit)


def check_header(header: list[str], name: str, wanted: Sequence[str]) -> list[str]:
    """Return the column names if they can be used; one may be empty, as of a row index."""
    if "".join(header)[:2] in UTF_16:
        raise BadFile(f"{name} is UTF-16 text, as some programs write it: save it as UTF-8")
    if not "".join(header).isprintable():
        raise BadFile(f"{name}: the header is not UTF-8 text; is it another format?")
    if not any(header):
        raise BadFile(f"{name} is empty: its first line must name the columns")
    named = list(filter(None, header))
    twice = duplicates(named)
    if twice:
        raise BadFile(f"{name}: column names occur twice: {quoted(sorted(twice))}; rename")
    _check_columns(name, named, wanted)
    return header


def table_rows(delimiter: str, stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    """Yield rows of delimited text; quoted cells may hold line breaks."""
    yield from DelimitedText(stream, name, wanted, delimiter).rows()


# Other formats


def json_rows(
    stream: BinaryIO, name: str, wanted: Sequence[str], tasks: TaskFilter | None = None
) -> Rows:
    """Yield one object per line; blank lines are passed over.

    With a filter most lines of other tasks are recognised before they are parsed.

    >>> list(json_rows(io.BytesIO(b'{"user": "ann", "age": 7}'), "ages.jsonl", []))
    [(1, {'user': 'ann', 'age': 7})]
    """
    decoder = json.JSONDecoder(object_pairs_hook=_object)  # to make one takes as long as a row
    if tasks is None:
        for line, text in _lines(stream, name):
            yield _json_row(decoder, name, line, text)
        return
    find = _task_finder(*tasks.columns)
    for line, text in _lines(stream, name):
        cell = None
        if isinstance(text, str):
            cell = find(text)
        if cell is not None and not tasks.owns(json.loads(cell)):
            yield None
            continue
        row = _json_row(decoder, name, line, text)
        if cell is not None or tasks.owns_row(row):
            yield row
        else:
            yield None


def _json_row(decoder: json.JSONDecoder, name: str, line: int, text: str | BadRow) -> Row | BadRow:
    if isinstance(text, BadRow):
        return text
    try:
        row = decoder.decode(text)
    except (ValueError, RecursionError) as error:
        return BadRow(name, line, None, f"not valid JSON ({error})")
    if isinstance(row, dict):
        return line, row
    return BadRow(name, line, None, "not a JSON object, that is {...}")


def _task_finder(column: str) -> Callable[[str], str | None]:
    """Return a function that finds the task in a line of JSON; None where it is not clear.

    A name that occurs once belongs to the task, or the row is bad.

    >>> find = _task_finder("user")
    >>> find('{"age": 7, "user": "ann"}'), find('{"user": {"id": 3}}')
    ('"ann"', None)
    """
    name = json.dumps(column, ensure_ascii=False)
    escape = r"\u"  # another spelling of its letters
    if column.isascii():
        escape = r"\u00"
    value = r'("[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false)'
    pair = re.compile(rf"{re.escape(name)}\s*:\s*{value}\s*[,}}]")

    def find(text: str) -> str | None:
        if text.count(name) != 1 or escape in text:
            return None
        match = pair.search(text)
        if match is None:
            return None
        return match[1]

    return find


def svmlight_rows(stream: BinaryIO, name: str, wanted: Sequence[str]) -> Rows:
    """Yield rows of ``label qid:task index:value ... # comment``."""
    for line, text in _lines(stream, name):
        if isinstance(text, BadRow):
            yield text
            continue
        words = text.partition("#")[0].split()
        if words:
            yield _svmlight_row(name, line, words)


def parquet_rows(
    stream: BinaryIO, name: str, wanted: Sequence[str], tasks: TaskFilter | None = None
) -> Rows:
    """Yield rows of a Parquet file, read in batches; the line number is that of the row."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("reading Parquet needs pyarrow: pip install 'romco[files]'") from error
    if not stream.seekable():
        raise BadFile(f"{name}: Parquet cannot be read from a pipe; save it to a file first")
    line = 0
    try:
        fields = pq.read_schema(stream)
        texts = [field.name for field in fields if _is_text(field.type)]
        stream.seek(0)
        table = pq.ParquetFile(stream, read_dictionary=texts)  # a long text is held once
        columns = table.schema_arrow.names
        twice = duplicates(columns)
        if twice:
            raise BadFile(f"{name}: columns of the same name: {quoted(sorted(twice))}; rename")
        _check_columns(name, columns, wanted)
        for batch in table.iter_batches(batch_size=_parquet_batch_rows(table.metadata, name)):
            own = [True] * len(batch)
            if tasks is not None:
                own = list(map(tasks.owns, batch.column(*tasks.columns).to_pylist()))
                batch = batch.filter(pa.array(own, pa.bool_()))
            cells = _batch_rows(batch)
            for wants in own:
                line += 1
                row = next(cells) if wants else None
                if wants and row is None:
                    yield BadRow(name, line, None, f"longer than {MAX_ROW_BYTES // 2**20} MB")
                else:
                    yield None if row is None else (line, row)
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{name}: damaged or not Parquet, after row {line} ({error})") from error


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def _parquet_batch_rows(metadata: Any, name: str) -> int:
    """Return how many rows to read at a time, fewer where lists in them are long.

    Raises BadFile where the lists or the bytes of a row group could not be held.
    """
    rows = PARQUET_BATCH_ROWS
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        columns = list(map(group.column, range(group.num_columns)))
        for column in columns:
            size = column.total_uncompressed_size
            if size > MAX_ROW_BYTES * max(1, group.num_rows):
                raise BadFile(
                    f"{name}, column {column.path_in_schema!r}: {size // 2**20:,} MB in "
                    f"{group.num_rows:,} rows; a row may have {MAX_ROW_BYTES // 2**20} MB: "
                    "leave the column out, or shorten its texts"
                )
        values = max(map(attrgetter("num_values"), columns), default=0)
        if values - group.num_rows > MAX_LIST_VALUES:
            raise BadFile(
                f"{name}: lists of {values:,} values in {group.num_rows:,} rows; at most "
                f"{MAX_LIST_VALUES:,} fit: write smaller row groups, or leave the column out"
            )
        rows = min(rows, max(1, MAX_BATCH_VALUES * group.num_rows // max(1, values)))
    return rows


def _batch_rows(batch: Any) -> Iterator[Mapping[str, Any] | None]:
    """Yield rows of a batch as mappings, few at a time where texts are long; None if too long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
            texts.append((pc.binary_length(column.dictionary), column.indices))
    longest = sum(pc.max(lengths).as_py() or 0 for lengths, _ in texts)
    if longest <= MAX_ROW_BYTES:
        step = max(1, min(len(batch), MAX_ROW_BYTES // max(1, longest)))
        for begin in range(0, len(batch), step):
            yield from batch.slice(begin, step).to_pylist()
        return
    sizes = np.zeros(len(batch), dtype=np.int64)
    for lengths, places in texts:
        sizes += pc.fill_null(lengths.take(places), 0).to_numpy(zero_copy_only=False)
    for at, size in enumerate(sizes):
        yield batch.slice(at, 1).to_pylist()[0] if size <= MAX_ROW_BYTES else None


def parquet_kinds(stream: BinaryIO) -> dict[str, str]:
    """Return the kind of columns that were written as dictionaries of categories."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(stream)
    written = (table.metadata.metadata or {}).get(b"ARROW:schema")
    fields = table.schema_arrow  # which has dictionaries of text only
    if written is not None:
        fields = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(written)))
    return {field.name: "category" for field in fields if pa.types.is_dictionary(field.type)}


FORMATS: Registry[Format] = Registry(
    "romco.formats",
    {
        "csv": Format((".csv",), partial(table_rows, ","), delimiter=","),
        "tsv": Format((".tsv", ".tab"), partial(table_rows, "\t"), delimiter="\t"),
        "jsonl": Format((".jsonl", ".ndjson"), json_rows, filters=True),
        "parquet": Format(
            (".parquet", ".pq"), parquet_rows, lines=False, filters=True, kinds=parquet_kinds
        ),
        "svmlight": Format((".svmlight", ".svm", ".libsvm"), svmlight_rows, "qid", "label"),
    },
)


def _check_columns(name: str, columns: Sequence[str], wanted: Sequence[str]) -> None:
    known = frozenset(columns)
    unknown = [column for column in wanted if column not in known]
    if unknown:
        raise BadFile(f"{name}: no column {quoted(unknown)}; there are {quoted(columns)}")


def _lines(stream: BinaryIO, name: str) -> Iterator[tuple[int, str | BadRow]]:
    long = f"longer than {MAX_ROW_BYTES // 2**20} MB"
    for line, raw in enumerate(iter(lambda: stream.readline(MAX_ROW_BYTES), b""), start=1):
        if len(raw) == MAX_ROW_BYTES and not raw.endswith(b"\n"):
            while raw and not raw.endswith(b"\n"):
                raw = stream.readline(MAX_ROW_BYTES)
            yield line, BadRow(name, line, None, long)
            continue
        if line == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            why = f"not UTF-8 text (byte {error.start + 1} of the line): save the file as UTF-8"
            yield line, BadRow(name, line, None, why)
            continue
        if text.strip():
            yield line, text


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        twice = duplicates(map(itemgetter(0), pairs))
        raise ValueError(f"names occur twice: {quoted(sorted(twice))}")
    names = "".join(row)
    if not names.isascii():
        names.encode()  # half a surrogate pair is no text
    return row


def _svmlight_row(name: str, line: int, words: list[str]) -> Row | BadRow:
    row: dict[str, object] = {}
    for place, word in enumerate(words):
        column, value = "label", word
        if place > 0:
            column, _, value = word.rpartition(":")
        if column in row or not (column in ("label", "qid") or column.isdecimal()):
            return BadRow(name, line, column or None, f"{word!r} is not a new index:value")
        if column == "qid":
            row[column] = value
            continue
        try:
            row[column] = float(value)
        except ValueError:
            return BadRow(name, line, column, f"{value!r} is not a number")
    return line, row


def _decoded(text: bytes) -> str:
    """Decode text; bytes that are not UTF-8 become lone surrogates, which users of it refuse."""
    return text.decode("utf-8", "surrogateescape")
