"""Events from files in blocks, compiled: what ``romco.io.files`` reads one at a time."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.closing import Closing
from romco.io.background import Ahead
from romco.io.cells import ENCODERS, BadCell, identity
from romco.io.files import ONLY, Columns, Plan, format_of, label_of, plan
from romco.io.formats import FORMATS, LONGEST, BadFile, BadRow, Rows, check_header, separator
from romco.kernels.io.delimited import LABEL, TASK, UNUSED, Delimited
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.encoder import Encoder
from romco.kernels.io.lexicon import Lexicon

AT_ONCE = 2**18  # bytes read at a time
MOST_NAMES = 2**20  # kept; beyond it names are forgotten and found again, so that memory is bounded


@dataclass(frozen=True)
class Block:
    """Events (n,) of a file: tasks and labels in names, features in numbers of names."""

    tasks: list[str]
    labels: list[str | None]  # None where there is none
    lines: list[int]
    features: Encoded
    weights: NDArray[np.float64] | None = None  # how much each counts, where a column says so

    def __len__(self) -> int:
        return len(self.tasks)

    def rows(self, begin: int, end: int) -> Block:
        """Events begin to end."""
        part = slice(begin, end)
        features = self.features.rows(begin, end)
        weights = None if self.weights is None else self.weights[part]
        return Block(self.tasks[part], self.labels[part], self.lines[part], features, weights)


class Part(NamedTuple):
    """Rows read so far, whose entries are still in the encoder."""

    tasks: list[str]
    labels: list[str | None]
    lines: list[int]
    ends: list[int]  # of the rows, among the encoder's entries


Read = tuple[Part, BadRow | None, bool]  # rows, the bad one after them, whether more may come


class Taken(NamedTuple):
    """A block, what stopped the reading of it if it was trouble, and the bad rows skipped in it."""

    block: Block
    trouble: BadRow | BadFile | None
    bad: list[BadRow]


class _Reader(Protocol):
    """Reads rows of one kind of file."""

    encoder: Encoder

    def read(self, most: int) -> Read:
        """Up to ``most`` rows."""

    def close(self) -> None:
        """Let go of what was opened."""


def read_blocks(
    source: str | Path | BinaryIO,
    task: str | None = None,
    label: str | None = None,
    text: str | Sequence[str] = (),
    features: Sequence[str] | None = None,
    *,
    start: int = 0,
    skip_bad: bool = False,
    weight: str | None = None,
    **options: Any,
) -> Blocks:
    r"""The events of a file in blocks; arguments are those of :func:`romco.streams.read_events`.

    ``weight`` is a column of numbers that say how much each event counts; it is no feature.

    >>> import io
    >>> table = io.BytesIO(b"user,age,town,spam\nann,7,Rome,no\nbob,,Bonn,yes\n")
    >>> with read_blocks(table, "user", "spam", format="csv") as blocks:
    ...     block, trouble = blocks.take(10)
    >>> block.tasks, block.labels, block.lines
    (['ann', 'bob'], ['no', 'yes'], [2, 3])
    >>> block.features.names.tolist(), block.features.lexicon.names
    ([0, 1, 2], ['age', 'town=Rome', 'town=Bonn'])
    """
    if weight is not None:  # read as a feature, and taken out of them
        _check_weight(weight, task, label, source, options.get("format"))
        options["kinds"] = {**(options.get("kinds") or {}), weight: "number"}
        features = None if features is None else (*features, weight)
    found = plan(source, task, label, text, features, **options)
    owned = found.stream if found.owned else None
    live = not found.owned and not found.stream.seekable()
    at_hand = found.owned and Path(str(source)).is_file()
    try:
        blocks = Blocks(_reader(found), found.name, owned, skip_bad, live, weight, at_hand)
        blocks.pass_over(start)
    except BaseException:
        if owned is not None:
            owned.close()
        raise
    return blocks


def _reader(found: Plan) -> _Reader:
    encoder = Encoder(_plainly, Lexicon())
    if found.kind.delimiter is not None:
        return _Table(found, found.kind.delimiter, encoder)
    rows = found.kind.read(found.stream, found.name, found.wanted)
    return _Mappings(rows, found.name, found.columns, encoder)


def _check_weight(
    weight: str, task: str | None, label: str | None, source: Any, format: str | None
) -> None:
    if weight in (task, label):
        raise ValueError(f"column {weight!r} is the task or the label: it cannot be the weight too")
    if FORMATS[format_of(str(getattr(source, "name", source)), format)].task is not None:
        raise ValueError(f"{source}: this format has no column that could be the weight")


@final
class Blocks(Closing):
    """Blocks of events, on demand; counts the bad rows it skipped.

    What is ``at_hand``, a plain file, may be read ahead: see :meth:`prepare`.
    """

    def __init__(
        self,
        reader: _Reader,
        name: str,
        owned: BinaryIO | None,
        skip_bad: bool,
        live: bool,
        weight: str | None = None,
        at_hand: bool = False,
    ) -> None:
        self._weight = weight
        self._at_hand = at_hand
        self._ahead: Ahead[Taken] | None = None
        self.skipped = 0  # bad rows so far
        self.first_bad: BadRow | None = None
        self._reader, self._name, self._owned = reader, name, owned
        self._skip_bad, self._live = skip_bad, live
        self._ended = False

    def take(self, most: int) -> tuple[Block, BadRow | BadFile | None]:
        """Up to ``most`` events, none at the end, and what stopped the reading if it was trouble.

        A pipe gives what has come so far, at least one. What was prepared comes as it was asked
        for then.
        """
        if self._ahead is None:
            found = self._read(most)
        else:
            found, self._ahead = self._ahead.result(), None
        self.skipped += len(found.bad)
        self.first_bad = self.first_bad or next(iter(found.bad), None)
        return found.block, found.trouble

    def prepare(self, most: int) -> None:
        """Begin to read the next ``most`` events in another thread, for the next :meth:`take`.

        What comes from a pipe is left alone: whoever waits for it must be able to stop waiting.
        """
        if self._at_hand and self._ahead is None and not self._ended:
            self._ahead = Ahead(self._read, most)

    def _read(self, most: int) -> Taken:
        bad_rows: list[BadRow] = []
        encoder = self._reader.encoder
        if len(encoder.lexicon) > MOST_NAMES:
            encoder.lexicon = Lexicon()
        found = Part([], [], [], [])
        trouble: BadRow | BadFile | None = None
        while len(found.lines) < most and trouble is None and not self._ended:
            if self._live and found.lines:
                break
            try:
                part, bad, more = self._reader.read(
                    1 if self._live_rows() else most - len(found.lines)
                )
            except BadFile as file:
                trouble = file
                break
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                what = f"compressed data are damaged or cut ({error})"
                trouble = BadFile(f"{self._name}: {what}")
                break
            found = part if not found.lines else _joined(found, part)
            self._ended = not more
            if bad is not None and self._skip_bad:
                bad_rows.append(bad)
            else:
                trouble = bad
        values, names = encoder.take()
        starts = np.array([0, *found.ends], dtype=np.int64)
        features = Encoded(values, names, starts, encoder.lexicon)
        block = Block(found.tasks, found.labels, found.lines, features)
        block = block if self._weight is None else _weighed(block, self._weight)
        return Taken(block, trouble, bad_rows)

    def pass_over(self, n: int) -> None:
        """Go on after the next ``n`` events; fewer is an error."""
        done = 0
        while done < n:
            block, trouble = self.take(min(n - done, 10_000))
            done += len(block)
            if trouble is not None:
                self.close()
                raise trouble
            if not len(block):
                self.close()
                raise BadFile(f"{self._name} has {done} events, fewer than the {n} to pass over")

    def close(self) -> None:
        """Close the file, if it was opened here."""
        if self._ahead is not None:
            self._ahead.wait()
        self._reader.close()
        if self._owned is not None:
            self._owned.close()

    def _live_rows(self) -> bool:
        """Whether asking for more than one row would wait for them."""
        return self._live and isinstance(self._reader, _Mappings)


@final
class _Table:
    """A table that is text, from bytes; its columns may be separated by another sign than usual."""

    def __init__(self, plan: Plan, delimiter: str, encoder: Encoder) -> None:
        self.encoder = encoder
        self._stream, self._name, self._columns = plan.stream, plan.name, plan.columns
        self._wanted, self._delimiter = plan.wanted, delimiter.encode()
        self._names = Lexicon()  # of tasks and labels
        self._rows: Delimited | None = None
        self._header: list[str] = []
        self._data, self._at, self._last, self._size = b"", 0, False, AT_ONCE

    def read(self, most: int) -> Read:
        """Up to ``most`` rows of those that the bytes at hand hold; more bytes if it is none."""
        rows = self._rows or self._begin()
        while True:
            found = rows.read(self._data, self._at, self._last, most)
            tasks, labels, lines, ends, self._at, bad = found
            more = not (self._last and self._at >= len(self._data))
            if len(lines) or bad is not None or not more:
                self._size = AT_ONCE
                named = self._named(tasks, ONLY), self._named(labels, None)
                part = Part(*named, lines.tolist(), ends.tolist())
                return part, None if bad is None else self._bad(*bad), more
            if len(self._data) - self._at > LONGEST:
                return Part([], [], [], []), self._too_long(rows.line), True
            self._fetch()

    def close(self) -> None:
        """Nothing was opened here."""

    def _begin(self) -> Delimited:
        """Read the header."""
        self._delimiter = self._separator()
        first = Delimited(self.encoder, self._names, [], self._delimiter, True)
        while True:
            try:
                found = first.header(self._data, self._last) if self._data else None
            except ValueError as error:
                raise BadFile(f"{self._name}: the header cannot be read ({error})") from error
            if found is not None or self._last:
                break
            self._fetch()
        cells, self._at = found or ([], 0)
        texts = [_decoded(cell).strip() for cell in cells]
        self._header = check_header(texts, self._name, self._wanted)
        roles = [self._role(column) for column in self._header]
        labelled = self._columns.labelled
        self._rows = Delimited(self.encoder, self._names, roles, self._delimiter, labelled)
        self._rows.line = first.line
        return self._rows

    def _separator(self) -> bytes:
        """What separates the columns, as the first line tells."""
        while not self._last and not {10, 13} & set(self._data) and len(self._data) <= LONGEST:
            self._fetch()
        line = next(iter(self._data.splitlines()), b"")
        return separator(_decoded(line), self._delimiter.decode(), self._wanted).encode()

    def _role(self, column: str) -> int:
        parts = self._columns
        if column == parts.task:
            return TASK
        if column == parts.label:
            return LABEL
        if not column or (parts.features is not None and column not in parts.listed):
            return UNUSED
        return self.encoder.column(column, parts.kinds.get(column, "free"))

    def _named(self, numbers: NDArray[np.int32], nothing: str | None) -> list[Any]:
        names = self._names.names
        return [nothing if number < 0 else names[number] for number in numbers.tolist()]

    def _bad(self, line: int, *what: Any) -> BadRow:
        if len(what) == 2:
            return BadRow(self._name, line, *what)
        [error] = what
        if isinstance(error, BadCell):
            return BadRow(self._name, line, error.column, error.reason)
        if isinstance(error, ValueError) and len(error.args) == 2:
            return BadRow(self._name, line, self._header[error.args[0]], error.args[1])
        raise error

    def _too_long(self, line: int) -> BadRow:
        """Pass over a row that does not end, up to the next line."""
        self._at = len(self._data)
        end = b""
        while not self._last and b"\n" not in end:
            self._fetch()
            end = self._data
            self._at = len(end)
        self._at = end.find(b"\n") + 1 or len(end)
        size = f"longer than {LONGEST // 2**20} MB"
        return BadRow(self._name, line, None, f"{size}; is a quote never closed?")

    def _fetch(self) -> None:
        """More bytes: twice as many where a row is longer than those at hand."""
        more = self._stream.read1(self._size)  # type: ignore[attr-defined]
        start = not self._data and self._rows is None
        self._data, self._at = self._data[self._at :] + more, 0
        if start and self._data.startswith(b"\xef\xbb\xbf"):
            self._data = self._data[3:]
        self._last = not more
        self._size = min(2 * self._size, LONGEST)


@final
class _Mappings:
    """Rows that come as mappings: JSON lines, Parquet, svmlight."""

    def __init__(self, rows: Rows, name: str, columns: Columns, encoder: Encoder) -> None:
        self.encoder = encoder
        self._rows, self._name, self._columns = rows, name, columns
        for column, kind in columns.kinds.items():
            encoder.column(column, kind)

    def read(self, most: int) -> Read:
        """Up to ``most`` rows, as they come."""
        part = Part([], [], [], [])
        while len(part.lines) < most:
            row = next(self._rows, None)
            if row is None or isinstance(row, BadRow):
                return part, row, row is not None
            line, cells = row
            self.encoder.begin()
            try:
                self._add(part, line, cells)
            except BadCell as bad:
                self.encoder.undo()
                return part, BadRow(self._name, line, bad.column, bad.reason), True
        return part, None, True

    def close(self) -> None:
        """Let go of the file."""
        self._rows.close()

    def _add(self, part: Part, line: int, cells: Any) -> None:
        columns = self._columns
        task = ONLY if columns.task is None else identity(columns.task, cells)
        label = label_of(columns, cells)
        names: Iterable[str] = cells if columns.features is None else columns.features
        elsewhere, add = columns.elsewhere, self.encoder.add
        for column in names:
            if column not in elsewhere:
                add(column, cells.get(column))
        part.tasks.append(task)
        part.labels.append(label)
        part.lines.append(line)
        part.ends.append(self.encoder.count())


def _weighed(block: Block, column: str) -> Block:
    """The block without the column of weights among its features; NaN where a row has none."""
    values, names, starts, lexicon = block.features
    found = np.flatnonzero(names == lexicon.number(column))
    weights = np.full(len(block), np.nan)
    weights[np.searchsorted(starts, found, side="right") - 1] = values[found]
    rest = Encoded(
        np.delete(values, found),
        np.delete(names, found),
        starts - np.searchsorted(found, starts),
        lexicon,
    )
    return Block(block.tasks, block.labels, block.lines, rest, weights)


def _decoded(text: bytes) -> str:
    """Text; bytes that are not UTF-8 become lone surrogates, which whoever uses it refuses."""
    return text.decode("utf-8", "surrogateescape")


def _joined(one: Part, other: Part) -> Part:
    return Part(
        one.tasks + other.tasks,
        one.labels + other.labels,
        one.lines + other.lines,
        one.ends + other.ends,
    )


def _plainly(kind: str, column: str, value: object) -> dict[str, float]:
    """The features of a cell that compiled code leaves to us."""
    features: dict[str, float] = {}
    ENCODERS[kind](column, value, features)
    return features
