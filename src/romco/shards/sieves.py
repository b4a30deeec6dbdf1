"""The rows of a file that are one shard's, found by looking at their task alone.

Of a line of text only the cell of the task is looked at, of a Parquet file only that column: rows
of others' tasks are dropped before anything else is read of them. A line whose task cannot be
told that cheaply is *open*: every shard reads it, and keeps it if it turns out to be its own.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, final

from romco.io.cells import BadCell, identity
from romco.io.files import Event, Events, Plan, format_of
from romco.io.formats import BadFile, BadRow, Row, Rows, parquet_batches
from romco.kernels.io.encoded import Encoded
from romco.runs import Source
from romco.shards.cells import Objects, OddError, Table, Tells

Mine = Callable[[str | None], bool]  # whether a task is this shard's; None: it cannot be read
MOST = 1_000_000  # tasks remembered, so that memory does not grow with all of them


class Found(NamedTuple):
    """Events that are a shard's: tasks and labels in names."""

    tasks: list[str]
    labels: list[str | None]
    lines: list[int]
    features: Encoded | list[dict[str, float]]


class Sieve(Protocol):
    """Reads one file."""

    @property
    def skipped(self) -> int:
        """Bad rows of the shard so far."""

    def read(self, rows: int) -> tuple[list[Found], int]:
        """What is the shard's among so many next rows, and how many there were: 0 at the end."""

    def pass_over(self, rows: int) -> None:
        """Go on after so many rows."""

    def close(self) -> None:
        """Close the file."""


def sieve_of(source: Source, mine: Mine) -> Sieve:
    """The cheapest way to read the shard's rows of a file."""
    plan, format = source.plan(), format_of(source.path, source.format)
    task = plan.columns.task
    if task is not None and plan.kind.delimiter is not None:
        return Lines(source, plan, mine, Table(plan.stream.readline(), plan.kind.delimiter, task))
    if task is not None and format == "jsonl":
        return Lines(source, plan, mine, Objects(task))
    if task is not None and format == "parquet":
        return Batches(source, plan, mine)
    plan.stream.close()
    return OneByOne(source, mine)


@final
class Lines:
    """Text whose rows are lines."""

    def __init__(self, source: Source, plan: Plan, mine: Mine, tells: Tells) -> None:
        self._source, self._plan, self._mine, self._tells = source, plan, mine, tells
        format = format_of(source.path, source.format)
        self._strict = replace(source, skip_bad=False, format=format)  # whose rows is told here
        self._line, self._row, self._bad = int(bool(tells.header)), 0, 0  # so far
        self._owners = _Owners(plan.columns.task or "", mine, tells.value)
        self._rest: OneByOne | None = None  # who reads on where rows may not be lines

    @property
    def skipped(self) -> int:
        """Bad rows of the shard so far."""
        return self._bad + (0 if self._rest is None else self._rest.skipped)

    def read(self, rows: int) -> tuple[list[Found], int]:
        """Line by line."""
        if self._rest is not None:
            return self._rest.read(rows)
        found: list[Found] = []
        kept: list[tuple[int, bytes]] = []
        begun = self._row
        for line, cell in self._lines(rows):
            if cell is None:
                found += [*self._parsed(kept), *self._parsed([(self._line, line)], alone=True)]
                kept = []
            elif self._owners.own(cell):
                kept.append((self._line, line))
        found += self._parsed(kept)
        if self._rest is not None and self._row == begun:
            return self._rest.read(rows)
        return found, self._row - begun

    def pass_over(self, rows: int) -> None:
        """Go on after so many rows."""
        for _ in self._lines(rows):
            pass
        if self._rest is not None:
            self._rest.pass_over(rows - self._row)

    def _lines(self, rows: int) -> Iterator[tuple[bytes, bytes | None]]:
        """So many lines with the cell of the task, up to the first that may be no row."""
        for _ in range(rows):
            line = self._next()
            if not line:
                return
            try:
                cell = self._tells.cell(line)
            except OddError:
                self._give_up()
                return
            self._row += 1
            yield line, cell

    def close(self) -> None:
        """Close the file."""
        self._plan.stream.close()
        if self._rest is not None:
            self._rest.close()

    def _next(self) -> bytes:
        """The next line that is a row; nothing at the end."""
        try:
            while line := self._plan.stream.readline():
                self._line += 1
                if self._tells.is_row(line):
                    return line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = f"compressed data are damaged or cut ({error})"
            raise BadFile(f"{self._plan.name}: {what}") from error
        return b""

    def _give_up(self) -> None:
        """Let somebody read on from this row who understands quotes."""
        self._plan.stream.close()
        self._rest = OneByOne(self._source, self._mine)
        self._rest.pass_over(self._row)

    def _parsed(self, kept: list[tuple[int, bytes]], alone: bool = False) -> Iterator[Found]:
        """The events of some lines; of an open one, which is alone, only if it is the shard's."""
        text = io.BytesIO(self._tells.header + b"".join(_ended(line) for _, line in kept))
        done, before = 0, 1 + bool(self._tells.header)
        with self._strict.blocks(stream=text) as blocks:
            while done < len(kept):
                block, trouble = blocks.take(len(kept))
                lines = [kept[at - before][0] for at in block.lines]
                if lines and not (alone and not self._mine(block.tasks[0])):
                    yield Found(block.tasks, block.labels, lines, block.features)
                done += len(lines)
                if isinstance(trouble, BadRow):
                    done += 1
                    self._judge(trouble, kept[trouble.line - before][0], alone)
                elif trouble is not None:
                    raise trouble
                elif not lines:
                    return

    def _judge(self, bad: BadRow, line: int, alone: bool) -> None:
        if alone and not self._mine(None):
            return
        if not self._source.skip_bad:
            raise BadRow(self._plan.name, line, bad.column, bad.reason)
        self._bad += 1


@final
class Batches:
    """Parquet: first the column of the task, then the rows that are the shard's."""

    def __init__(self, source: Source, plan: Plan, mine: Mine) -> None:
        self.skipped = 0
        self._plan, self._skip_bad, self._row = plan, source.skip_bad, 0
        self._owners = _Owners(plan.columns.task or "", mine, lambda value: value)
        self._batches = parquet_batches(plan.stream, plan.name, plan.wanted)
        self._batch: Any = None  # what is left of the one that is being read

    def read(self, rows: int) -> tuple[list[Found], int]:
        """A part of a batch."""
        if not self._more():
            return [], 0
        part, self._batch = self._batch.slice(0, rows), self._batch.slice(rows)
        tasks = part.column(self._plan.columns.task).to_pylist()
        own = [at for at, task in enumerate(tasks) if self._owners.own(task)]
        lines = [self._row + at + 1 for at in own]
        self._row += part.num_rows
        rest = zip(lines, part.take(own).to_pylist(), strict=True) if own else iter(())
        return self._events(rest), part.num_rows

    def pass_over(self, rows: int) -> None:
        """Go on after so many rows."""
        while rows and self._more():
            left = self._batch.num_rows
            self._batch = self._batch.slice(rows)
            self._row += left - self._batch.num_rows
            rows -= left - self._batch.num_rows

    def _more(self) -> bool:
        """Whether there is a batch to read from."""
        while self._batch is None or not self._batch.num_rows:
            self._batch = next(self._batches, None)
            if self._batch is None:
                return False
        return True

    def close(self) -> None:
        """Close the file."""
        self._batches.close()
        self._plan.stream.close()

    def _events(self, rows: Iterator[Row]) -> list[Found]:
        events = Events(_generated(rows), self._plan.name, self._plan.columns, None, self._skip_bad)
        found = list(events)
        self.skipped += events.skipped
        return _together(found)


@final
class OneByOne:
    """Any file, row by row: of others' rows only the task is made sense of."""

    def __init__(self, source: Source, mine: Mine) -> None:
        self._events, self._mine = source.events(), mine

    @property
    def skipped(self) -> int:
        """Bad rows of the shard so far."""
        return self._events.skipped

    def read(self, rows: int) -> tuple[list[Found], int]:
        """Row by row."""
        found, passed = [], 0
        try:
            while passed < rows:
                event = self._events.next_of(self._mine)
                passed += 1
                if event is not None:
                    found.append(event)
        except StopIteration:
            pass
        return _together(found), passed

    def pass_over(self, rows: int) -> None:
        """Go on after so many rows."""
        for _ in range(rows):
            self._events.next_of(lambda task: False)

    def close(self) -> None:
        """Close the file."""
        self._events.close()


@final
class _Owners:
    """Whether a task, as it is written, is the shard's."""

    def __init__(self, task: str, mine: Mine, value: Callable[[Any], Any]) -> None:
        self._task, self._mine, self._value = task, mine, value
        self._known: dict[Any, bool] = {}

    def own(self, cell: Any) -> bool:
        """Found once for each."""
        try:
            return self._known[cell]
        except (KeyError, TypeError):  # new, or nothing that could be a task
            return self._find(cell)

    def _find(self, cell: Any) -> bool:
        try:
            task = identity(self._task, {self._task: self._value(cell)})
        except (BadCell, ValueError):
            return self._mine(None)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[cell] = self._mine(task)
        return self._known[cell]


def _together(events: list[Event]) -> list[Found]:
    if not events:
        return []
    tasks, labels = [event.task for event in events], [event.label for event in events]
    lines, features = [event.line for event in events], [event.features for event in events]
    return [Found(tasks, labels, lines, features)]


def _generated(rows: Iterator[Row]) -> Rows:
    yield from rows


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"
