"""A shard's own part of a folder of files: it reads them all, and keeps the rows of its tasks.

The stream is the rows of the files, in the order of the files' names; a row's *place* is its
number in it, counted before anything is skipped, so that all shards agree on places without
asking each other. Rows of other shards' tasks are read no further than their task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from romco.io.files import BadRow, format_of
from romco.model.features import Dense, Rows, features_from_json
from romco.model.target import TwoClasses
from romco.runs import Source
from romco.shards.owners import Owners
from romco.shards.rows import pick
from romco.shards.sieves import Found, Sieve, sieve_of


@final
@dataclass(frozen=True)
class Position:
    """Where in a folder: after so many files and so many rows of the next one."""

    file: int = 0
    row: int = 0


@final
@dataclass(frozen=True)
class Files:
    """Files to learn from, and what their columns mean."""

    paths: tuple[str, ...]
    source: Source  # columns; its path is not looked at
    classes: tuple[Any, Any]
    features: dict[str, Any]  # as JSON: hashed, or columns


class Learnable(NamedTuple):
    """Events as a shard learns them."""

    rows: Rows
    y: Dense
    tasks: list[Any]


@final
class Partition:
    """The events of one shard's tasks, from a position on."""

    def __init__(self, files: Files, n: int, k: int, position: Position) -> None:
        self._files, self._owners, self._k = files, Owners(n), k
        self._labels = TwoClasses(files.classes)
        self._features = features_from_json(files.features)
        self.position, self._skipped = position, 0
        self._sieve: Sieve | None = None

    @property
    def ended(self) -> bool:
        """Whether there are no more files."""
        return self.position.file >= len(self._files.paths)

    def read(self, rows: int) -> tuple[list[Learnable], int]:
        """The own events among so many next rows, and how many rows there were.

        Where it raises, the file is closed, and nothing more can be read.
        """
        try:
            return self._read(rows)
        except BaseException:
            self.close()
            raise

    def _read(self, rows: int) -> tuple[list[Learnable], int]:
        found, done = [], 0
        while done < rows and not self.ended:
            own, passed = self._open().read(rows - done)
            found += [self._numbers(one) for one in own]
            done += passed
            self.position = replace(self.position, row=self.position.row + passed)
            if not passed:
                self._next_file()
        return [one for one in found if one.tasks], done

    def _numbers(self, found: Found) -> Learnable:
        """Events as a shard learns them; those whose label is neither of the two are bad rows."""
        sides = np.array([self._side(*one) for one in zip(found.labels, found.lines, strict=True)])
        rows = self._features.read(found.features)
        if sides.all():
            return Learnable(rows, sides, found.tasks)
        kept = np.flatnonzero(sides)
        return Learnable(pick(rows, kept), sides[kept], [found.tasks[at] for at in kept])

    def _side(self, label: str | None, line: int) -> float:
        try:
            return self._labels.number_of(label)
        except ValueError as error:
            if self._files.source.skip_bad:
                self._skipped += 1
                return 0.0
            path = self._files.paths[self.position.file]
            raise BadRow(path, line, self._files.source.label, str(error)) from None

    @property
    def skipped(self) -> int:
        """Bad rows of own tasks so far."""
        return self._skipped + (self._sieve.skipped if self._sieve else 0)

    def close(self) -> None:
        """Close the file that is open."""
        if self._sieve is not None:
            self._sieve.close()

    def _open(self) -> Sieve:
        """The file at the position, read up to it."""
        if self._sieve is None:
            path = self._files.paths[self.position.file]
            self._sieve = sieve_of(replace(self._files.source, path=path), self._mine)
            self._sieve.pass_over(self.position.row)
        return self._sieve

    def _next_file(self) -> None:
        assert self._sieve is not None
        self._skipped += self._sieve.skipped
        self._sieve.close()
        self._sieve, self.position = None, Position(self.position.file + 1)

    def _mine(self, task: str | None) -> bool:
        """Rows whose task cannot be read are the first shard's."""
        return int(self._owners.of([task])[0]) == self._k if task is not None else self._k == 0


def files_of(paths: list[str], format: str | None = None) -> tuple[str, ...]:
    """The files that are named, and those of folders that are, by name; hidden ones left out."""
    found: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        shown = (p for p in Path(path).iterdir() if p.name[0] not in "._")
        inside = sorted(p for p in shown if p.is_file() or not p.exists())
        for one in inside:
            one.stat()  # raises where it is a link to nothing: its rows would be missing
            format_of(str(one), format)  # raises where the name does not tell it
        found += map(str, inside)
    if not found:
        raise FileNotFoundError(f"there are no files in {', '.join(paths)}")
    return tuple(found)
