"""The shard of each task, and its rows in a list of files that every shard reads.

The stream is the rows of the files in the order given. A row's *place* is its number in the
stream, counted before anything is skipped, so all shards agree on places without communication.
In CSV, JSON lines and Parquet only the task of other shards' rows is looked at.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.io.cells import read_name
from romco.io.formats import BadFile, BadRow, OpenFile, format_of, parquet_batches
from romco.io.formats import Rows as EventRows
from romco.io.reader import Block
from romco.kernels.merge.partition import encode
from romco.model.features import Dense, Rows, features_from_json
from romco.model.names import Id, canonical_name, identity, to_json
from romco.model.target import TwoClasses
from romco.runs import Source

HASH_MULTIPLIER = 2654435761  # 2^32 over the golden ratio: spreads names that differ in few bits
MAX_CACHED_TASKS = 1_000_000
Owns = Callable[[str | None], bool]  # whether a task is the shard's; None: a task nobody can read


def task_owner(task: Id, n: int) -> int:
    """Return the shard of a task; every spelling of a name has the same one.

    >>> [task_owner(name, 4) for name in ("ann", "bob", 7, "7.0", ("shop", 7))]
    [2, 3, 1, 1, 0]
    """
    name = canonical_name(task)
    if isinstance(name, str):
        text = name.encode("utf-8", "surrogatepass")
    else:
        text = b"\0" + json.dumps(to_json(name)).encode()
    return (zlib.crc32(text) * HASH_MULTIPLIER & 0xFFFFFFFF) * n >> 32


class TaskCodes:
    """Codes 0, 1, ... of task names in the order of their appearance, and the shard of each.

    After ``MAX_CACHED_TASKS`` names it starts anew with another ``version``.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.names: list[Id] = []  # by code
        self.version = 0
        self._codes: dict[Id, int] = {}
        self._owners = np.zeros(1024, dtype=np.uint16)  # by code; room is doubled

    def encode(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        """Return the code (k,) of each task; ValueError where one is no name."""
        names = tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks)
        if len(self.names) > MAX_CACHED_TASKS:
            self.names, self._codes, self.version = [], {}, self.version + 1
        return encode(self._codes, names, self._add)

    def owners(self, codes: NDArray[np.int64]) -> NDArray[np.uint16]:
        """Return the shard (k,) of each code."""
        return self._owners[codes]

    def spread(self, n: int) -> None:
        """Change the number of shards."""
        self.n = n
        for code, name in enumerate(self.names):
            self._owners[code] = task_owner(name, n)

    def _add(self, task: Any) -> int:
        name = identity("task", task)
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
            if code == len(self._owners):
                self._owners = np.concatenate([self._owners, np.zeros_like(self._owners)])
            self._owners[code] = task_owner(name, self.n) if self.n > 1 else 0
        return code


@dataclass(frozen=True)
class FilePosition:
    """Position in a list of files: complete files, then rows of the next one."""

    file: int = 0
    row: int = 0


@dataclass(frozen=True)
class EventFiles:
    """Files to learn from, and the meaning of their columns."""

    paths: tuple[str, ...]
    source: Source  # columns; its path is ignored
    classes: tuple[Any, Any]
    features: dict[str, Any]  # JSON of hashed features or of columns


class ParsedRows(NamedTuple):
    """Events of one shard, ready to be learned."""

    rows: Rows
    y: Dense  # -1 or +1
    tasks: list[Any]


def list_files(paths: list[str], format: str | None = None) -> tuple[str, ...]:
    """Return the files, and those in the folders, sorted by name; hidden files are left out."""
    files: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            files.append(path)
            continue
        visible = (p for p in Path(path).iterdir() if p.name[0] not in "._")
        inside = sorted(p for p in visible if p.is_file() or not p.exists())
        for one in inside:
            one.stat()  # raises for a link to nothing, whose rows would be missing
            format_of(str(one), format)  # raises where the name does not give the format
        files += map(str, inside)
    if not files:
        raise FileNotFoundError(f"there are no files in {', '.join(paths)}")
    return tuple(files)


class ShardReader:
    """Events of the k-th of n shards, from a position on."""

    def __init__(self, files: EventFiles, n: int, k: int, position: FilePosition) -> None:
        self.position, self.skipped = position, 0  # bad rows of the shard's tasks
        self._files, self._n, self._k = files, n, k
        self._labels = TwoClasses(files.classes)
        self._features = features_from_json(files.features)
        self._file: _LineFilter | _ColumnFilter | _BlockFilter | None = None

    @property
    def ended(self) -> bool:
        """True after the last file."""
        return self.position.file >= len(self._files.paths)

    def read(self, rows: int) -> tuple[list[ParsedRows], int]:
        """Return the shard's events among the next ``rows`` rows, and the number of rows read.

        An error closes the file; nothing more can be read.
        """
        parsed, done = [], 0
        try:
            while done < rows and not self.ended:
                blocks, bad, passed = self._open().read(rows - done)
                for one in bad:
                    self._skip_or_raise(one)
                parsed += [self._parse(block) for block in blocks]
                done += passed
                self.position = replace(self.position, row=self.position.row + passed)
                if not passed:
                    self.close()
                    self.position = FilePosition(self.position.file + 1)
        except BaseException:
            self.close()
            raise
        return [one for one in parsed if one.tasks], done

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> _LineFilter | _ColumnFilter | _BlockFilter:
        """Return the current file, read up to the position."""
        if self._file is None:
            path = self._files.paths[self.position.file]
            source = replace(self._files.source, path=path, skip_bad=False)
            self._file = _open_filter(source, self._owns)
            self._file.skip(self.position.row)
        return self._file

    def _parse(self, block: Block) -> ParsedRows:
        """Turn names into numbers; a row whose label is neither of the two is a bad row."""
        y = np.array([self._side(*one) for one in zip(block.labels, block.lines, strict=True)])
        if y.all():
            return ParsedRows(self._features.read(block.features), y, block.tasks)
        kept = np.flatnonzero(y)
        tasks = [block.tasks[i] for i in kept]
        return ParsedRows(self._features.read(block.features.at(kept)), y[kept], tasks)

    def _side(self, label: str | None, line: int) -> float:
        try:
            return self._labels.number_of(label)
        except ValueError as error:
            path = self._files.paths[self.position.file]
            self._skip_or_raise(BadRow(path, line, self._files.source.label, str(error)))
            return 0.0

    def _skip_or_raise(self, bad: BadRow) -> None:
        if not self._files.source.skip_bad:
            raise bad
        self.skipped += 1

    def _owns(self, task: str | None) -> bool:
        """Rows whose task cannot be read belong to the first shard."""
        return (0 if task is None else task_owner(task, self._n)) == self._k


Filtered = tuple[list[Block], list[BadRow], int]  # the shard's events and bad rows; rows passed


def _open_filter(source: Source, owns: Owns) -> _LineFilter | _ColumnFilter | _BlockFilter:
    source = source.resolve()
    assert source.schema is not None
    file, format = OpenFile(source.path, source.format), format_of(source.path, source.format)
    task, delimiter = source.schema.task, file.format.delimiter
    if task is not None and delimiter is not None:
        table = TableFieldLocator(file.stream.readline(), delimiter, task)
        return _LineFilter(source, file, table, task, owns)
    if task is not None and format == "jsonl":
        return _LineFilter(source, file, JsonFieldLocator(task), task, owns)
    if task is not None and format == "parquet":
        return _ColumnFilter(source, file, task, owns)
    file.close()
    return _BlockFilter(source, owns)


class _BlockFilter:
    """Any file: parse all rows, keep the shard's."""

    def __init__(self, source: Source, owns: Owns) -> None:
        self._blocks, self._owns = source.open(), lru_cache(MAX_CACHED_TASKS)(owns)

    def read(self, rows: int) -> Filtered:
        block, trouble = self._blocks.take(rows)
        if trouble is not None and not isinstance(trouble, BadRow):
            raise trouble
        bad = [trouble] if trouble is not None and self._owns(None) else []
        kept = np.array([i for i, task in enumerate(block.tasks) if self._owns(task)], np.intp)
        return [_select(block, kept)], bad, len(block) + (trouble is not None)

    def skip(self, rows: int) -> None:
        while rows:
            block, trouble = self._blocks.take(rows)
            passed = len(block) + (trouble is not None)
            rows -= passed
            if not passed:
                return

    def close(self) -> None:
        self._blocks.close()


class _ColumnFilter:
    """Parquet: look at the column of tasks, then parse the shard's rows."""

    def __init__(self, source: Source, file: OpenFile, task: str, owns: Owns) -> None:
        self._task, self._owns = task, owns
        self._owns_value = lru_cache(MAX_CACHED_TASKS)(lambda value: owns(_name(task, value)))
        self._kept: deque[tuple[int, Any]] = deque()  # rows to parse
        self._row = 0  # rows read
        self._batch: Any = ()  # rows of it that are left
        file.format = replace(file.format, read=self._open)
        self._parser = source.open(file=file)

    def _open(self, stream: BinaryIO, name: str, wanted: Sequence[str]) -> EventRows:
        self._batches = parquet_batches(stream, name, wanted)
        return (self._kept.popleft() for _ in count())

    def _next(self, rows: int) -> Any:
        """Return up to so many rows of a batch; none at the end."""
        while not len(self._batch) and (batch := next(self._batches, None)) is not None:
            self._batch = batch
        part, self._batch = self._batch[:rows], self._batch[rows:]
        self._row += len(part)
        return part

    def read(self, rows: int) -> Filtered:
        before = self._row
        part = self._next(rows)
        if not len(part):
            return [], [], 0
        kept = [i for i, task in enumerate(part.column(self._task).to_pylist()) if self._own(task)]
        lines = [before + i + 1 for i in kept]
        self._kept.extend(zip(lines, part.take(kept).to_pylist() if kept else (), strict=True))
        blocks, bad = [], []
        while self._kept:
            block, trouble = self._parser.take(len(self._kept))
            blocks.append(block)
            if isinstance(trouble, BadRow):
                bad.append(trouble)
            elif trouble is not None:
                raise trouble
        return blocks, bad, len(part)

    def skip(self, rows: int) -> None:
        while self._row < rows and len(self._next(rows - self._row)):
            pass

    def close(self) -> None:
        self._parser.close()

    def _own(self, task: Any) -> bool:
        try:
            return self._owns_value(task)
        except TypeError:  # no name, as a list
            return self._owns(None)


class _LineFilter:
    """Text: keep the shard's lines, then parse them.

    A line whose task cannot be located is parsed by every shard and kept by its owner. Where rows
    may not be lines, a :class:`_BlockFilter` reads the rest of the file.
    """

    def __init__(
        self, source: Source, file: OpenFile, locator: TaskFieldLocator, task: str, owns: Owns
    ) -> None:
        format = format_of(source.path, source.format)
        self._source, self._file = replace(source, format=format), file
        self._locator, self._owns = locator, owns
        self._owns_cell = lru_cache(MAX_CACHED_TASKS)(
            lambda cell: owns(_name(task, locator.value(cell)))
        )
        self._line, self._row = int(bool(locator.header)), 0  # read so far
        self._rest: _BlockFilter | None = None

    def read(self, rows: int) -> Filtered:
        if self._rest is not None:
            return self._rest.read(rows)
        kept: list[tuple[int, bytes, bool]] = []  # number, text, whether the task was located
        begin = self._row
        while self._row - begin < rows and (found := self._next()) is not None:
            line, cell = found
            if cell is None or self._owns_cell(cell):
                kept.append((self._line, line, cell is not None))
        if self._rest is not None and self._row == begin:
            return self._rest.read(rows)
        blocks, bad = self._parse(kept) if kept else ([], [])
        return blocks, bad, self._row - begin

    def skip(self, rows: int) -> None:
        while self._row < rows and self._next() is not None:
            pass
        if self._rest is not None:
            self._rest.skip(rows - self._row)

    def close(self) -> None:
        self._file.close()
        if self._rest is not None:
            self._rest.close()

    def _next(self) -> tuple[bytes, bytes | None] | None:
        """Return the next row and its task field; None at the end, or where quotes begin."""
        try:
            while line := self._file.stream.readline():
                self._line += 1
                if self._locator.is_row(line):
                    cell = self._locator.find(line)
                    self._row += 1
                    return line if line.endswith(b"\n") else line + b"\n", cell
        except QuotedFieldError:
            self._file.close()
            self._rest = _BlockFilter(self._source, self._owns)
            self._rest.skip(self._row)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = f"compressed data are damaged or cut ({error})"
            raise BadFile(f"{self._source.path}: {what}") from error
        return None

    def _parse(self, kept: list[tuple[int, bytes, bool]]) -> tuple[list[Block], list[BadRow]]:
        text = io.BytesIO(self._locator.header + b"".join(line for _, line, _ in kept))
        first = 1 + bool(self._locator.header)  # number of the first line in the text
        blocks, bad, done = [], [], 0
        with self._source.open(stream=text) as parser:
            while done < len(kept):
                block, trouble = parser.take(len(kept))
                rows = [kept[line - first] for line in block.lines]
                own = [
                    i
                    for i, (_, _, located) in enumerate(rows)
                    if located or self._owns(block.tasks[i])
                ]
                numbered = replace(block, lines=[number for number, _, _ in rows])
                blocks.append(_select(numbered, np.array(own, np.intp)))
                done += len(rows) + (trouble is not None)
                if isinstance(trouble, BadRow):
                    number, _, located = kept[trouble.line - first]
                    if located or self._owns(None):
                        reason = trouble.column, trouble.reason
                        bad.append(BadRow(self._source.path, number, *reason))
                elif trouble is not None:
                    raise trouble
                elif not rows:
                    break
        return blocks, bad


def _select(block: Block, kept: Any) -> Block:
    """Return some rows of a block."""
    if len(kept) == len(block.tasks):
        return block
    return Block(
        [block.tasks[i] for i in kept],
        [block.labels[i] for i in kept],
        [block.lines[i] for i in kept],
        block.features.at(kept),
    )


def _name(column: str, value: Any) -> str | None:
    try:
        return read_name(column, {column: value})
    except ValueError:
        return None


class QuotedFieldError(Exception):
    """A table with quotes: a row may span several lines."""


class TableFieldLocator:
    r"""Fields between commas or tabs, below a header.

    >>> table = TableFieldLocator(b"age,user\n", ",", "user")
    >>> table.find(b"7,ann\n"), table.find(b"7\n")
    (b'ann\n', None)
    """

    def __init__(self, header: bytes, delimiter: str, task: str) -> None:
        text = header.decode("utf-8-sig", "surrogateescape")
        names = [] if '"' in text else next(csv.reader([text], delimiter=delimiter), [])
        columns = [name.strip() for name in names]
        self.header = header
        self._index = columns.index(task) if task in columns else -1
        self._delimiter = delimiter.encode()

    def find(self, line: bytes) -> bytes | None:
        """Raise QuotedFieldError where the line may be part of a row."""
        if self._index < 0 or b'"' in line or b"\r" in line[:-2]:
            raise QuotedFieldError
        fields = line.split(self._delimiter, self._index + 1)
        return fields[self._index] if len(fields) > self._index else None

    def value(self, field: bytes) -> str:
        """Return the text."""
        return field.decode("utf-8", "surrogateescape")

    def is_row(self, line: bytes) -> bool:
        """Return True also for spaces, which are a bad row."""
        return line not in (b"\n", b"\r\n")


class JsonFieldLocator:
    """JSON lines: a name that occurs once belongs to the task, or the row is bad.

    >>> lines = JsonFieldLocator("user")
    >>> lines.find(b'{"age": 7, "user": "ann"}'), lines.find(b'{"user": {"id": 3}}')
    (b'"ann"', None)
    """

    header = b""

    def __init__(self, task: str) -> None:
        self._name = json.dumps(task, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._escape = rb"\u00" if task.isascii() else rb"\u"  # another spelling of its letters
        self._pair = re.compile(
            re.escape(self._name) + rb'\s*:\s*("[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false)\s*[,}]'
        )

    def find(self, line: bytes) -> bytes | None:
        """Return the value after the name."""
        if line.count(self._name) != 1 or self._escape in line:
            return None
        match = self._pair.search(line)
        return None if match is None else match[1]

    def value(self, field: bytes) -> Any:
        """Return text, a number, true or false."""
        return json.loads(field)

    def is_row(self, line: bytes) -> bool:
        """Return False for blank lines."""
        return not line.isspace()


TaskFieldLocator = TableFieldLocator | JsonFieldLocator
