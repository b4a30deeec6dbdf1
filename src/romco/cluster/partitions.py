"""A shard's own part of a folder of files: it reads them all, and keeps the rows of its tasks.

The stream is the rows of the files, in the order of the files' names; a row's *place* is its
number in it, counted before anything is skipped, so that all shards agree on places without
asking each other. Rows of other shards' tasks are read no further than their task.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from romco.cluster.owners import Owners
from romco.model.features import features_from_json
from romco.model.labels import Labels
from romco.model.rows import Dense, Rows
from romco.sessions import Source
from romco.streams.files import BadRow, Event, Events, format_of


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


@final
class Partition:
    """The events of one shard's tasks, from a position on."""

    def __init__(self, files: Files, n: int, k: int, position: Position) -> None:
        self._files, self._owners, self._k = files, Owners(n), k
        self._labels = Labels(files.classes)
        self._features = features_from_json(files.features)
        self.position, self._skipped, self._refused = position, 0, 0
        self._events: Events | None = None

    @property
    def ended(self) -> bool:
        """Whether there are no more files."""
        return self.position.file >= len(self._files.paths)

    def read(self, rows: int) -> tuple[list[Event], int]:
        """The own events among so many next rows, and how many rows there were."""
        own, done = [], 0
        while done < rows and not self.ended:
            events = self._open()
            try:
                event = events.next_of(self._mine)
            except StopIteration:
                self._skipped += events.skipped
                self._events, self.position = None, Position(self.position.file + 1)
                continue
            self.position = replace(self.position, row=self.position.row + 1)
            done += 1
            if event is not None:
                own.append(event)
        return own, done

    def numbers(self, events: list[Event]) -> tuple[Rows, Dense, list[Any]]:
        """Events as a shard learns them; those whose label is neither of the two are bad rows."""
        sides = [self._side(event) for event in events]
        kept = [(event, side) for event, side in zip(events, sides, strict=True) if side]
        rows = self._features.read([event.features for event, _ in kept])
        return rows, np.array([side for _, side in kept]), [event.task for event, _ in kept]

    def _side(self, event: Event) -> float:
        try:
            return self._labels.known_side(event.label)
        except ValueError as error:
            if self._files.source.skip_bad:
                self._refused += 1
                return 0.0
            path = self._files.paths[min(self.position.file, len(self._files.paths) - 1)]
            raise BadRow(path, event.line, self._files.source.label, str(error)) from None

    @property
    def skipped(self) -> int:
        """Bad rows of own tasks so far."""
        return self._skipped + self._refused + (self._events.skipped if self._events else 0)

    def close(self) -> None:
        """Close the file that is open."""
        if self._events is not None:
            self._events.close()

    def _open(self) -> Events:
        """The file at the position, read up to it."""
        if self._events is None:
            path = self._files.paths[self.position.file]
            self._events = replace(self._files.source, path=path).events()
            for _ in range(self.position.row):
                self._events.next_of(_nobodys)
        return self._events

    def _mine(self, task: str | None) -> bool:
        """Rows whose task cannot be read are the first shard's."""
        return int(self._owners.of([task])[0]) == self._k if task is not None else self._k == 0


def _nobodys(task: str | None) -> bool:
    return False


def files_of(paths: list[str], format: str | None = None) -> tuple[str, ...]:
    """The files that are named, and those of folders that are, by name; hidden ones left out."""
    found: list[str] = []
    for path in paths:
        if not Path(path).is_dir():
            found.append(path)
            continue
        inside = sorted(p for p in Path(path).iterdir() if p.is_file() and p.name[0] not in "._")
        for one in inside:
            format_of(str(one), format)  # raises where the name does not tell it
        found += map(str, inside)
    if not found:
        raise FileNotFoundError(f"there are no files in {', '.join(paths)}")
    return tuple(found)
