"""The shard of each task, and its rows in a list of files that every shard reads.

The stream is the rows of the files in the order given. A row's *place* is its number in the
stream, counted before anything is skipped, so all shards agree on places without communication.
In CSV, JSON lines and Parquet only the task of other shards' rows is looked at.
"""

import json
import zlib
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.io.formats import BadRow, format_of
from romco.io.reader import Block, Reader
from romco.kernels.core.events import LARGEST_FEATURE, LARGEST_WEIGHT
from romco.model.features import features_from_json
from romco.model.history import TaskHistory
from romco.model.names import Id, canonical_name, identity, to_json
from romco.model.rows import Rows
from romco.model.target import Kind, make_target
from romco.rounds import select
from romco.runs import Source

HASH_MULTIPLIER = 2654435761  # 2^32 over the golden ratio: spreads names that differ in few bits
MAX_CACHED_TASKS = 1_000_000


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

    def __init__(self) -> None:
        self.names: list[Id] = []  # by code
        self.version = 0
        self._codes: dict[Id, int] = {}
        self._n = 1  # shards
        self._owners = array("H")  # by code

    def encode(self, tasks: Iterable[Any]) -> NDArray[np.int64]:
        """Return the code (k,) of each task; ValueError where one is no name."""
        names = tasks.tolist() if isinstance(tasks, np.ndarray) else list(tasks)
        if len(self.names) > MAX_CACHED_TASKS:
            self.names = []
            self._codes = {}
            self._owners = array("H")
            self.version += 1
        try:
            codes: list[int | None] = list(map(self._codes.get, names))
        except TypeError:  # a name that cannot be hashed
            codes = [None] * len(names)
        for at in [k for k, code in enumerate(codes) if code is None]:
            codes[at] = self._add(names[at])
        return np.array(codes, dtype=np.int64)

    def owners(self, codes: NDArray[np.int64], n: int) -> NDArray[np.uint16]:
        """Return which of n shards (k,) has each code."""
        if n == 1:
            return np.zeros(len(codes), dtype=np.uint16)
        if n != self._n:
            self._n = n
            self._owners = array("H")
        self._owners.extend(task_owner(name, n) for name in self.names[len(self._owners) :])
        return np.asarray(self._owners)[codes]

    def _add(self, task: Any) -> int:
        name = identity("task", task)
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        return code


class FilePosition(NamedTuple):
    """Position in a list of files: complete files, then rows of the next one."""

    file: int = 0
    row: int = 0


@dataclass(frozen=True)
class EventFiles:
    """Files to learn from, and the meaning of their columns."""

    paths: tuple[str, ...]
    source: Source  # columns; its path is ignored
    classes: tuple[Any, ...] | None  # all labels; None: the label is a number
    features: dict[str, Any]  # JSON of hashed features or of columns
    target: Kind = "two classes"  # where there are classes

    @property
    def kind(self) -> Kind:
        """Kind of target."""
        if self.classes is None:
            return "number"
        return self.target


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

    def __init__(
        self,
        files: EventFiles,
        n: int,
        k: int,
        position: FilePosition,
        history: TaskHistory | None = None,
    ) -> None:
        self.position, self.skipped = position, 0  # bad rows of the shard's tasks
        self.history = history
        self._files, self._n, self._k = files, n, k
        self._target = make_target(files.kind, files.classes)
        self._features = features_from_json(files.features)
        self._reader: Reader | None = None

    @property
    def ended(self) -> bool:
        """True after the last file."""
        return self.position.file >= len(self._files.paths)

    def read(self, rows: int) -> tuple[list[Rows], int]:
        """Return the shard's events among the next ``rows`` rows, and the number of rows read.

        An error closes the file; nothing more can be read.
        """
        parsed, done = [], 0
        try:
            while done < rows and not self.ended:
                block, passed = self._take(self._open(), rows - done)
                parsed.append(self._parse(block))
                done += passed
                self.position = self.position._replace(row=self.position.row + passed)
                if not passed:
                    self.close()
                    self.position = FilePosition(self.position.file + 1)
        except BaseException:
            self.close()
            raise
        return [one for one in parsed if one.task], done

    def close(self) -> None:
        """Close the current file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _open(self) -> Reader:
        """Return the current file, read up to the position."""
        if self._reader is None:
            path = self._files.paths[self.position.file]
            source = replace(self._files.source, path=path).resolve()
            self._reader, passed = source.open(owns=self._owns), 1
            while passed and self._reader.passed < self.position.row:
                left = self.position.row - self._reader.passed
                _, passed = self._take(self._reader, left, strict=False)
        return self._reader

    def _take(self, reader: Reader, rows: int, strict: bool = True) -> tuple[Block, int]:
        """Return the events among the next rows, and the number of rows; 0 at the end."""
        passed, skipped = reader.passed, reader.skipped
        block, trouble = reader.take(rows)
        if trouble is not None and (strict or not isinstance(trouble, BadRow)):
            raise trouble
        chosen = self._files.source.chosen is not None  # then rows of all shards are read
        if strict and (self._k == 0 or not chosen):
            self.skipped += reader.skipped - skipped
        if chosen:
            block = block.at(np.flatnonzero([self._owns(task) for task in block.tasks]))
        return block, reader.passed - passed

    def _parse(self, block: Block) -> Rows:
        """Turn names into numbers; a label, weight or offset that cannot be used is a bad row."""
        y = np.array([self._number(*one) for one in zip(block.labels, block.lines, strict=True)])
        source = self._files.source
        for column, numbers, least, largest in (
            (source.weight, block.weights, 0.0, LARGEST_WEIGHT),
            (str(source.offset), block.offsets, -LARGEST_FEATURE, LARGEST_FEATURE),
        ):
            if numbers is None:
                continue
            for i, number in enumerate(numbers):
                fits = (least <= number) & (number <= largest)  # of many classes one of each
                if not np.isnan(y[i]) and not np.all(fits):
                    why = f"{number} is missing, or not from {least:g} to {largest:g}"
                    self._skip_or_raise(block.lines[i], column, why)
                    y[i] = np.nan
        kept = np.flatnonzero(~np.isnan(y))
        rows = block.features
        if len(kept) < len(block):
            rows = rows.at(kept)
        y = y[kept]
        tasks = [block.tasks[i] for i in kept]
        if self.history is not None:
            counted = 0.5 + 0.5 * y if self._files.kind == "two classes" else y
            rows = self.history.expand(tasks, rows, counted, learned=self._n == 1)
            self.history.commit(len(tasks))
        weights = select(block.weights, kept)
        offsets = select(block.offsets, kept)
        return Rows(self._features.read(rows), tasks, y, weights, offsets)

    def _number(self, label: str | None, line: int) -> float:
        """Return a label as the learner sees it; NaN where it is bad."""
        try:
            return self._target.number_of(label)
        except ValueError as error:
            self._skip_or_raise(line, self._files.source.label, str(error))
            return np.nan

    def _skip_or_raise(self, line: int, column: str | None, reason: str) -> None:
        if not self._files.source.skip_bad:
            raise BadRow(self._files.paths[self.position.file], line, column, reason)
        self.skipped += 1

    def _owns(self, task: str | None) -> bool:
        """Rows whose task cannot be read belong to the first shard."""
        if task is None:
            return self._k == 0
        return task_owner(task, self._n) == self._k
