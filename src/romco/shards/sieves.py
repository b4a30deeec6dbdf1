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

import numpy as np

from romco.io.formats import BadFile, BadRow, OpenFile, format_of
from romco.io.schema import read_name
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
    features: Encoded


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
    source = source.resolve()
    assert source.schema is not None
    task, format = source.schema.task, format_of(source.path, source.format)
    file = OpenFile(source.path, source.format)
    if task is not None and file.format.delimiter is not None:
        table = Table(file.stream.readline(), file.format.delimiter, task)
        return Lines(source, file, task, mine, table)
    if task is not None and format == "jsonl":
        return Lines(source, file, task, mine, Objects(task))
    file.close()
    return OneByOne(source, mine)


@final
class Lines:
    """Text whose rows are lines."""

    def __init__(self, source: Source, file: OpenFile, task: str, mine: Mine, tells: Tells) -> None:
        self._source, self._file, self._mine, self._tells = source, file, mine, tells
        format = format_of(source.path, source.format)
        self._strict = replace(source, skip_bad=False, format=format)  # whose rows is told here
        self._line, self._row, self._bad = int(bool(tells.header)), 0, 0  # so far
        self._owners = _Owners(task, mine, tells.value)
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
        self._file.close()
        if self._rest is not None:
            self._rest.close()

    def _next(self) -> bytes:
        """The next line that is a row; nothing at the end."""
        try:
            while line := self._file.stream.readline():
                self._line += 1
                if self._tells.is_row(line):
                    return line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = f"compressed data are damaged or cut ({error})"
            raise BadFile(f"{self._file.name}: {what}") from error
        return b""

    def _give_up(self) -> None:
        """Let somebody read on from this row who understands quotes."""
        self._file.close()
        self._rest = OneByOne(self._source, self._mine)
        self._rest.pass_over(self._row)

    def _parsed(self, kept: list[tuple[int, bytes]], alone: bool = False) -> Iterator[Found]:
        """The events of some lines; of an open one, which is alone, only if it is the shard's."""
        text = io.BytesIO(self._tells.header + b"".join(_ended(line) for _, line in kept))
        done, before = 0, 1 + bool(self._tells.header)
        with self._strict.open(stream=text) as blocks:
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
            raise BadRow(self._file.name, line, bad.column, bad.reason)
        self._bad += 1


@final
class OneByOne:
    """Any file: all rows are read, those of others are dropped."""

    def __init__(self, source: Source, mine: Mine) -> None:
        self.skipped, self._skip_bad = 0, source.skip_bad
        self._reader, self._mine = replace(source, skip_bad=False).open(), mine

    def read(self, rows: int) -> tuple[list[Found], int]:
        """A block; rows that cannot be read are the first shard's."""
        block, trouble = self._reader.take(rows)
        if trouble is not None and not isinstance(trouble, BadRow):
            raise trouble
        if trouble is not None and self._mine(None):
            if not self._skip_bad:
                raise trouble
            self.skipped += 1
        own = [at for at, task in enumerate(block.tasks) if self._mine(task)]
        found = Found(
            [block.tasks[at] for at in own],
            [block.labels[at] for at in own],
            [block.lines[at] for at in own],
            block.features.at(np.array(own, dtype=np.intp)),
        )
        return [found] if own else [], len(block) + (trouble is not None)

    def pass_over(self, rows: int) -> None:
        """Go on after so many rows."""
        while rows:
            block, trouble = self._reader.take(rows)
            passed = len(block) + (trouble is not None)
            if not passed:
                return
            rows -= passed

    def close(self) -> None:
        """Close the file."""
        self._reader.close()


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
            task = read_name(self._task, {self._task: self._value(cell)})
        except ValueError:
            return self._mine(None)
        if len(self._known) >= MOST:
            self._known.clear()
        self._known[cell] = self._mine(task)
        return self._known[cell]


def _ended(line: bytes) -> bytes:
    return line if line.endswith(b"\n") else line + b"\n"
