"""Events from files: CSV, TSV, JSON lines, Parquet, svmlight; read as they are needed."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, cast, final

from romco.closing import Closing
from romco.io.cells import ENCODERS, BadCell, encode, identity, is_missing
from romco.io.formats import FORMATS, BadFile, BadRow, Format, Row, Rows

__all__ = ["BadFile", "BadRow", "Event", "Events", "read_events"]

ONLY = "all"  # the task of events that have no column for it
Encoder = Callable[[str, object, dict[str, float]], None]


class Event(NamedTuple):
    """One row of a file, in names. Tasks and labels are text, whatever the format."""

    task: str
    features: dict[str, float]
    label: str | None  # None if no label column was named, or it need not be there and is not
    line: int  # where it stands, from 1; in Parquet the number of the row


@dataclass(frozen=True)
class Columns:
    """Which column plays which part. ``features=None``: all that play no other part."""

    task: str | None  # None: all events are of one task
    label: str | None = None
    features: tuple[str, ...] | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)  # where cells do not say it themselves
    labelled: bool = True  # whether a label must be there

    @property
    def named(self) -> tuple[str, ...]:
        """Every column that must be there."""
        label = self.label if self.labelled else None
        parts = (self.task, label, *(self.features or ()))
        return tuple(part for part in parts if part is not None)

    @cached_property
    def elsewhere(self) -> frozenset[str | None]:
        """Columns that are no features."""
        return frozenset((self.task, self.label))

    @cached_property
    def listed(self) -> frozenset[str]:
        """The features, if they are listed."""
        return frozenset(self.features or ())

    @cached_property
    def encoders(self) -> Mapping[str, Encoder]:
        """How the columns are read that do not say it themselves."""
        return {column: ENCODERS[kind] for column, kind in self.kinds.items()}


def read_events(
    source: str | Path | BinaryIO,
    task: str | None = None,
    label: str | None = None,
    text: str | Sequence[str] = (),
    features: Sequence[str] | None = None,
    *,
    kinds: Mapping[str, str] | None = None,
    format: str | None = None,
    skip_bad: bool = False,
    start: int = 0,
    labelled: bool = True,
    one_task: bool = False,
) -> Events:
    r"""The events of a file, one at a time; ``source`` is a path, ``"-"`` (stdin) or a stream.

    A number becomes a feature of its column's name, other text becomes ``column=value``
    with value 1, and a ``text`` column becomes its lower-case words, ``column:word``, with
    weights log(1 + count) of length 1. Nested JSON has dotted names. Cells that are empty, NA,
    nan or null are absent features. ``kinds`` says how columns are read instead: number,
    category, text, date or ignored. The format follows from the suffix (``.gz`` may follow it)
    unless ``format`` names it: csv, tsv, jsonl, parquet or svmlight, whose task is ``qid``.

    A row that cannot be read raises ``BadRow``; with ``skip_bad`` it is counted in
    ``Events.skipped`` instead. ``start`` passes over that many events, to resume.
    Without ``labelled`` the label may be missing, in all rows or in some; it is no feature.
    With ``one_task`` no column is the task: all events are of one, called "all".

    >>> import io
    >>> table = io.BytesIO(b"user,age,town,says,spam\nann,7,Rome,Hi hi,no\n")
    >>> [event] = read_events(table, "user", "spam", text="says", format="csv")
    >>> event.task, event.label, event.line
    ('ann', 'no', 2)
    >>> event.features
    {'age': 7.0, 'town=Rome': 1.0, 'says:hi': 1.0}
    """
    found = plan(
        source,
        task,
        label,
        text,
        features,
        kinds=kinds,
        format=format,
        labelled=labelled,
        one_task=one_task,
    )
    rows = found.kind.read(found.stream, found.name, found.wanted)
    owned = found.stream if found.owned else None
    return Events(rows, found.name, found.columns, owned, skip_bad).passed_over(start)


class Plan(NamedTuple):
    """A source that was opened, and how it is to be read."""

    name: str  # for messages
    kind: Format
    columns: Columns
    wanted: tuple[str, ...]  # columns that must be there
    stream: BinaryIO
    owned: bool  # whether the stream is ours to close


def plan(
    source: str | Path | BinaryIO,
    task: str | None,
    label: str | None,
    text: str | Sequence[str],
    features: Sequence[str] | None,
    *,
    kinds: Mapping[str, str] | None = None,
    format: str | None = None,
    labelled: bool = True,
    one_task: bool = False,
) -> Plan:
    """Open a source; arguments are those of :func:`read_events`."""
    name = "stdin" if source == "-" else str(getattr(source, "name", source))
    kind = FORMATS[format_of(name, format)]
    if kind.task and task not in (None, kind.task):
        raise ValueError(f"{name}: the task of this format is {kind.task!r}, not {task!r}")
    task, label = None if one_task else task or kind.task, label or kind.label
    if task is None and not one_task:
        raise ValueError(f"{name}: say which column is the task (task=...)")
    if task is not None and task == label:
        raise ValueError(f"{name}: column {task!r} cannot be both the task and the label")
    columns = _columns(task, label, text, features, kinds, labelled)
    # What a format fixes by itself is checked row by row, not as a column.
    wanted = () if kind.task else (*columns.named, *_words(text))
    return Plan(name, kind, columns, wanted, *opened(source, name))


def _columns(
    task: str | None,
    label: str | None,
    text: str | Sequence[str],
    features: Sequence[str] | None,
    kinds: Mapping[str, str] | None,
    labelled: bool,
) -> Columns:
    """The parts that columns play, checked."""
    words = _words(text)
    chosen = {**dict.fromkeys(words, "text"), **(kinds or {})}
    for column, kind in chosen.items():
        if kind not in ENCODERS:
            raise ValueError(
                f"column {column!r}: no kind {kind!r}; there are {', '.join(ENCODERS)}"
            )
    listed = None if features is None else tuple(dict.fromkeys((*words, *features)))
    return Columns(task, label, listed, chosen, labelled)


def _words(text: str | Sequence[str]) -> tuple[str, ...]:
    return (text,) if isinstance(text, str) else tuple(text)


@final
class Events(Closing, Iterator[Event]):
    """An iterator of events that counts the bad rows it skipped; closes its file at the end."""

    def __init__(
        self, rows: Rows, name: str, columns: Columns, owned: BinaryIO | None, skip_bad: bool
    ) -> None:
        self.skipped = 0  # bad rows so far
        self.first_bad: BadRow | None = None
        self._rows, self._name, self._columns = rows, name, columns
        self._owned, self._skip_bad = owned, skip_bad

    def __next__(self) -> Event:
        while True:
            row = self._next_row()
            try:
                if isinstance(row, BadRow):
                    raise row
                return _event(self._name, row, self._columns)
            except BadRow as bad:
                self._pass(bad)

    def next_of(self, mine: Callable[[str | None], bool]) -> Event | None:
        """The event of the next row, if its task is ``mine``; None if not, or if it is skipped.

        Of others' rows only the task is read; one that has none that can be read is ``mine(None)``.
        """
        row = self._next_row()
        try:
            task = None if isinstance(row, BadRow) else _task(self._columns, row[1])
        except BadCell:
            task = None
        if not mine(task):
            return None
        try:
            if isinstance(row, BadRow):
                raise row
            return _event(self._name, row, self._columns)
        except BadRow as bad:
            self._pass(bad)
            return None

    def _pass(self, bad: BadRow) -> None:
        """Count a bad row, or stop at it."""
        if not self._skip_bad:
            self.close()
            raise bad
        self.skipped += 1
        self.first_bad = self.first_bad or bad

    def passed_over(self, n: int) -> Self:
        """The same iterator after its first ``n`` events; fewer is an error."""
        for done in range(n):
            if next(self, None) is None:
                raise BadFile(f"{self._name} has {done} events, fewer than the {n} to pass over")
        return self

    def close(self) -> None:
        """Close the file, if it was opened here; the iterator must not be used after."""
        self._rows.close()
        if self._owned is not None:
            self._owned.close()

    def _next_row(self) -> Row | BadRow:
        try:
            return next(self._rows)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.close()
            raise BadFile(f"{self._name}: compressed data are damaged or cut ({error})") from error
        except (StopIteration, ValueError, OSError):
            self.close()
            raise


def format_of(name: str, format: str | None = None) -> str:
    """The format that is named, or that a file's name tells.

    >>> format_of("events.csv.gz")
    'csv'
    """
    known = ", ".join(FORMATS)
    if format is not None:
        if format not in FORMATS:
            raise ValueError(f"no format {format!r}; there are {known}")
        return format
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    for candidate, kind in FORMATS.items():
        if suffix in kind.suffixes:
            return candidate
    raise ValueError(f"{name}: the name does not tell the format; say format= one of {known}")


def opened(source: str | Path | BinaryIO, name: str) -> tuple[BinaryIO, bool]:
    """The stream, and whether it is ours to close."""
    if source == "-":
        return sys.stdin.buffer, False
    if not isinstance(source, str | Path):
        return source, False
    if name.endswith(".gz"):
        return cast(BinaryIO, gzip.open(source, "rb")), True
    return Path(source).open("rb"), True


def _event(name: str, row: Row, columns: Columns) -> Event:
    line, cells = row
    features: dict[str, float] = {}
    try:
        task = _task(columns, cells)
        label = label_of(columns, cells)
        names = cells if columns.features is None else columns.features
        elsewhere, encoders = columns.elsewhere, columns.encoders
        for column in names:
            if column not in elsewhere:
                encoders.get(column, encode)(column, cells.get(column), features)
    except BadCell as bad:
        raise BadRow(name, line, bad.column, bad.reason) from None
    return Event(task, features, label, line)


def _task(columns: Columns, cells: Mapping[str, object]) -> str:
    return ONLY if columns.task is None else identity(columns.task, cells)


def label_of(columns: Columns, cells: Mapping[str, object]) -> str | None:
    """The label of a row; None if there is none and there need not be."""
    if columns.label is None or (not columns.labelled and is_missing(cells.get(columns.label))):
        return None
    return identity(columns.label, cells)
