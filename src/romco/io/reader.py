"""Reader of events: files of any format in blocks, encoded by compiled code."""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.io.cells import ONLY_TASK, BadCell, encode_cell, is_missing, read_name, read_task
from romco.io.durable import Closable
from romco.io.encoder import MAX_NAMES
from romco.io.formats import (
    BadFile,
    BadRow,
    DelimitedText,
    OpenFile,
    Owns,
    Rows,
    Sample,
    TaskFilter,
    read_sample,
)
from romco.io.frames import SAMPLE_ROWS, quoted
from romco.io.groupings import expand_groupings
from romco.io.inference import Column
from romco.io.schema import Schema
from romco.kernels.io.delimited import LABEL, TASK, UNUSED
from romco.kernels.io.encoded import Encoded, join_encoded
from romco.kernels.io.encoder import Encoder
from romco.kernels.io.lexicon import Lexicon
from romco.rounds import select

BLOCK_EVENTS = 1000  # read, then learned or predicted, at a time
MAPPING_ROWS = 16  # mappings that are encoded between two looks at the size of a block
MAX_BLOCK_ENTRIES = 2**22  # features of a block, from which on it is shorter


@dataclass(frozen=True)
class Block:
    """Events (n,) of a file: tasks and labels in names, features in numbers of names."""

    tasks: list[str]
    labels: list[str | None]  # None where there is none
    lines: list[int]
    features: Encoded
    weights: NDArray[np.float64] | None = None  # NaN where a row has none
    offsets: NDArray[np.float64] | None = None  # the same; of classes (n, K)
    moments: list[str] | None = None  # labels of rows of one moment arrive together

    def __len__(self) -> int:
        return len(self.tasks)

    def at(self, places: NDArray[np.intp]) -> Block:
        """Return the events at some places."""
        return Block(
            tasks=_pick(self.tasks, places),
            labels=_pick(self.labels, places),
            lines=_pick(self.lines, places),
            features=self.features.at(places),
            weights=select(self.weights, places),
            offsets=select(self.offsets, places),
            moments=self.moments and _pick(self.moments, places),
        )

    def rows(self, begin: int, end: int) -> Block:
        """Return events begin to end."""
        return self.at(np.arange(begin, end))


def join_blocks(blocks: list[Block]) -> Block:
    """Return blocks end to end."""
    lexicon = blocks[0].features.lexicon
    features = []
    for block in blocks:
        rows = block.features
        if rows.lexicon is not lexicon:  # it was too large to go on with
            renumbered = np.array(list(map(lexicon.number, rows.lexicon.names)), dtype=np.int32)
            rows = rows._replace(names=renumbered[rows.names], lexicon=lexicon)
        features.append(rows)
    joined: dict[str, Any] = {"features": join_encoded(features)}
    for name in ("tasks", "labels", "lines", "weights", "offsets", "moments"):
        parts = list(map(attrgetter(name), blocks))
        if isinstance(parts[0], np.ndarray):
            joined[name] = np.concatenate(parts)
        elif parts[0] is not None:
            joined[name] = list(chain.from_iterable(parts))
    return Block(**joined)


def _pick(values: list[Any], places: NDArray[np.intp]) -> list[Any]:
    return list(map(values.__getitem__, places))


@dataclass(frozen=True)
class Source:
    """File of events with the user's options for its columns."""

    path: str  # "-" is stdin
    task: str | None = None
    label: str | None = None
    features: tuple[str, ...] | None = None
    format: str | None = None
    skip_bad: bool = False
    kinds: Mapping[str, str] | None = None  # of columns whose kind is not to be inferred
    one_task: bool = False  # there is no column of the task
    weight: str | None = None
    offset: str | Mapping[str, str] | None = None  # a column, or by class one for each
    groupings: tuple[str, ...] = ()  # columns of further groupings, beside the task
    chosen: Owns | None = None  # rows of other tasks are as if they were not there
    together: str | None = None  # column: labels of rows of one value arrive together
    schema: Schema | None = None  # once it is resolved
    sample_rows: int = SAMPLE_ROWS  # first rows from which kinds of columns are inferred

    def resolve(self, known: Schema | None = None) -> Source:
        """Return the source with a schema to learn by: the model's, or inferred from first rows.

        Columns that the model does not know yet are added.
        """
        if self.schema is not None:
            return self
        if known is None:
            return replace(self, schema=self._infer())
        for column, kind in (self.kinds or {}).items():
            had = known.kinds.get(column)
            if had not in (None, kind) and (had, kind) != ("day", "date"):
                raise ValueError(f"column {column!r} was learned as {had}, not as {kind}")
        schema = self._with_roles(known)
        schema.weight = self.weight
        if known.complete:
            schema.extend(self._sample(schema), self.kinds)
        return replace(self, schema=schema)

    def resolve_to_predict(self, known: Schema | None) -> Source:
        """Return the source with the model's schema; columns it does not know are not used."""
        if self.schema is not None or known is None:
            return self.resolve()
        schema = self._with_roles(known)
        if known.weight is not None and known.weight != self.weight:
            schema.add(known.weight, Column("ignored", "weight", "of learning"))
        schema.weight = self.weight
        schema.sample = self._sample(schema).rows
        for column, kind in (self.kinds or {}).items():
            schema.add(column, Column(kind, kind, "as asked"))
        if known.complete:
            named = schema.roles | schema.columns.keys()
            for column in schema.sample_columns:
                if column not in named:
                    schema.add(column, Column("ignored", "unknown", "never learned"))
        return replace(self, schema=schema)

    def open(self, start: int = 0, file: OpenFile | None = None, **options: Any) -> Reader:
        """Return a reader of the events from number ``start`` on; ``file`` is open already."""
        schema = self.schema or self.resolve().schema
        assert schema is not None
        options |= {"format": self.format, "start": start, "skip_bad": self.skip_bad}
        options["chosen"] = self.chosen
        options["together"] = self.together
        return Reader(file or self.path, schema, **options)

    def unknown_columns(self, known: Schema) -> str | None:
        """Return a message on columns that are not as learned; None if all are.

        Raises ValueError if none of the columns that were learned is there.
        """
        if not known.complete or self.schema is None or not self.schema.sample:
            return None
        learned = known.used
        there = self.schema.sample_columns
        gone = [column for column in learned if column not in there]
        if learned and len(gone) == len(learned):
            raise ValueError(
                f"{self.path} has none of the columns that were learned ({quoted(learned)}), "
                f"only {quoted(there)}: every answer would be the same"
            )
        new = known.unknown(column for column in there if column not in self.schema.roles)
        parts = []
        if gone:
            parts.append(f"not there: {quoted(gone)}")
        if new:
            parts.append(f"never learned, so not used: {', '.join(new[:20])}")
        if not parts:
            return None
        return f"{self.path}: columns are not as they were learned; " + "; ".join(parts)

    def _infer(self) -> Schema:
        task = list(filter(None, (self.task, *self.groupings)))
        if any("/" in name for name in task):
            first = read_sample(self.path, self.format, [], 1).rows
            columns = set(chain.from_iterable(first))
            task = list(expand_groupings(task, columns))
            if any("/" in name and name not in columns for name in task[1:]):
                raise ValueError(
                    f"{self.path}: only the first grouping may be nested, in one other"
                )
        roles = "label", "weight", "offset", "features", "kinds"
        parts = *roles, "one_task", "format", "sample_rows", "chosen"
        return Schema.infer(self.path, task=task, **{part: getattr(self, part) for part in parts})

    def _with_roles(self, known: Schema) -> Schema:
        """Return a copy of the model's schema with the columns that the user names instead."""
        schema = known.copy()
        for part in ("task", "label", "offset", "one_task", "groupings"):
            setattr(schema, part, getattr(self, part) or getattr(known, part))
        if isinstance(known.offset, Mapping) and isinstance(self.offset, Mapping):
            if self.offset.keys() != known.offset.keys():
                raise ValueError(f"the model has offsets of these classes: {quoted(known.offset)}")
            schema.offset = {one: self.offset[one] for one in known.offset}  # in the model's order
        if self.features is not None:
            schema.features = self.features
        return schema

    def _sample(self, schema: Schema) -> Sample:
        wanted = [name for name in (*schema.task_columns, schema.label, *schema.columns) if name]
        tasks = schema.filter(self.chosen)
        return read_sample(self.path, self.format, wanted, SAMPLE_ROWS, tasks)


# A block, what stopped the reading of it, the number of bad rows skipped and of all rows.
_Read = tuple[Block, BadRow | BadFile | None, int, int]


class Reader(Closable):
    r"""Events of a file, in blocks on demand.

    ``source`` is a path, "-" for stdin, a binary stream, or an :class:`OpenFile`; the format
    follows from the suffix (``.gz`` may follow it) unless ``format`` names it. ``start`` events are
    passed over, to resume. A row that cannot be read, or has no label where rows are ``labelled``,
    is an error that names file, line and column; with ``skip_bad`` it is counted in ``skipped``
    instead. ``owns(task)`` chooses the tasks whose events are read; rows whose task cannot be read
    belong to whoever owns None. Rows of tasks that are not ``chosen`` are not even counted.
    Values of the column ``together`` become the blocks' ``moments``.

    >>> import io
    >>> table = io.BytesIO(b"user,age,town,spam\nann,7,Rome,no\nbob,,Bonn,yes\n")
    >>> with Reader(table, Schema(task="user", label="spam"), format="csv") as reader:
    ...     block, _ = reader.take(10)
    >>> block.tasks, block.labels, block.lines
    (['ann', 'bob'], ['no', 'yes'], [2, 3])
    >>> [block.features.lexicon.names[k] for k in block.features.names]
    ['age', 'town=Rome', 'town=Bonn']
    """

    def __init__(
        self,
        source: str | Path | BinaryIO | OpenFile,
        schema: Schema,
        *,
        format: str | None = None,
        skip_bad: bool = False,
        labelled: bool = True,
        start: int = 0,
        owns: Owns | None = None,
        chosen: Owns | None = None,
        together: str | None = None,
    ) -> None:
        self.skipped = 0  # bad rows so far
        self.passed = 0  # rows so far: bad ones and those of tasks that are not owned, too
        if not isinstance(source, OpenFile):
            source = OpenFile(source, format)
        self.file = source
        self._skip_bad, self._filters, self._ended = skip_bad, owns is not None, False
        self._chosen = chosen
        self._ahead: Future[_Read] | None = None
        self._thread = ThreadPoolExecutor(1, "romco-ahead")  # starts with the first block
        try:
            read = chosen or owns
            if read is not None and schema.one_task:
                own = read(ONLY_TASK)
                self._rows = _rows_of(self.file, schema, labelled, lambda _: own, together)
            else:
                self._rows = _rows_of(self.file, schema, labelled, read, together)
            self._schema, self._together = schema, together
            raw = self.file.raw
            self._regular = raw is not None and stat.S_ISREG(os.fstat(raw.fileno()).st_mode)
            self.pass_over(start)
        except BaseException:
            self.file.close()
            raise

    def take(self, most: int) -> tuple[Block, BadRow | BadFile | None]:
        """Return up to ``most`` events, none at the end, and the error that stopped reading.

        A pipe gives what has come so far, at least one event. A prepared block comes as prepared.
        Where events are chosen by their task, the events among the next ``most`` rows.
        """
        if self._ahead is None:
            block, trouble, bad, passed = self._read(most)
        else:
            (block, trouble, bad, passed), self._ahead = self._ahead.result(), None
        self.skipped += bad
        self.passed += passed
        return block, trouble

    def prepare(self, most: int) -> None:
        """Read the next ``most`` events in another thread, for the next :meth:`take`.

        A pipe is left alone: whoever waits for it must be able to stop waiting.
        """
        if self._regular and self._ahead is None and not self._ended:
            self._ahead = self._thread.submit(self._read, most)

    def blocks(self, most: int = BLOCK_EVENTS) -> Iterator[Block]:
        """Yield blocks to the end; an error is raised after what came before it."""
        while True:
            block, trouble = self.take(most)
            if trouble is None:
                self.prepare(most)
            if len(block):
                yield block
            if trouble is not None:
                self.close()
                raise trouble
            if not len(block):
                return

    def pass_over(self, n: int) -> None:
        """Go on after the next ``n`` events; fewer is an error."""
        done = 0
        while done < n:
            block, trouble = self.take(min(n - done, 10_000))
            done += len(block)
            if trouble is not None:
                raise trouble
            if not len(block):
                raise BadFile(
                    f"{self.file.name} has {done} events, fewer than the {n} to pass over"
                )

    def progress(self) -> float | None:
        """Return the share of the file's bytes read so far; None for a pipe."""
        if not self._regular or self.file.raw is None or self.file.raw.closed:
            return None
        size = os.fstat(self.file.raw.fileno()).st_size
        if not size:
            return None
        return min(1.0, self.file.raw.tell() / size)

    def close(self) -> None:
        """Close the file, if it was opened here."""
        self._thread.shutdown()
        self._rows.close()
        self.file.close()

    def _read(self, most: int) -> _Read:
        encoder, live = self._rows.encoder, self.file.live
        if len(encoder.lexicon) > MAX_NAMES:
            encoder.lexicon = Lexicon()
        rows, passed, skipped, left = EncodedRows([], [], [], [], []), 0, 0, most
        trouble: BadRow | BadFile | None = None
        while left and trouble is None and not self._ended:
            if live and rows.lines:
                break
            if encoder.size > MAX_BLOCK_ENTRIES and not self._filters:
                break
            try:
                part, bad, n, more = self._rows.read(left, live)
            except BadFile as error:
                trouble = error
                break
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                what = f"compressed data are damaged or cut ({error})"
                trouble = BadFile(f"{self.file.name}: {what}")
                break
            for one, other in zip(rows, part, strict=True):
                one.extend(other)  # type: ignore[attr-defined]
            if self._chosen is not None:
                n = len(part.lines) + (bad is not None)
            self._ended = not more
            passed += n
            if not self._filters:
                n = len(part.lines)
            left -= n
            if bad is not None and self._skip_bad:
                skipped += 1
            else:
                trouble = bad
        values, names = encoder.take()
        starts = np.array([0, *rows.ends], dtype=np.int64)
        features = Encoded(values, names, starts, encoder.lexicon)
        features, numbers = _without(features, self._schema.number_roles)
        weights = offsets = moments = None
        if self._schema.weight is not None:
            weights = numbers.pop(0)
        if isinstance(self._schema.offset, Mapping):
            offsets = np.column_stack(numbers)
        elif numbers:
            offsets = numbers[0]
        if self._together is not None:
            moments = rows.moments
        block = Block(rows.tasks, rows.labels, rows.lines, features, weights, offsets, moments)
        return block, trouble, skipped, passed


def _rows_of(
    file: OpenFile, schema: Schema, labelled: bool, owns: Owns | None, together: str | None
) -> _TableRows | _MappingRows:
    """Check that the format gives what the schema wants, and open its rows."""
    kind = file.format
    if kind.task and schema.task not in (None, kind.task):
        wrong = f"is {kind.task!r}, not {schema.task!r}"
        raise ValueError(f"{file.name}: the task of this format {wrong}")
    label = schema.label or kind.label
    parts = schema.task_columns
    if kind.task:
        parts = (kind.task,)
    if schema.one_task:
        parts = ()
    elif not parts:
        raise ValueError(f"{file.name}: say which column is the task (task=...)")
    wanted = [*schema.number_roles, *filter(None, [together])]
    if kind.task and wanted:
        raise ValueError(f"{file.name}: this format has no column {wanted[0]!r}")
    if not kind.task:  # else its columns are checked row by row
        wanted += [*parts, *(schema.features or ())]
        if labelled and label is not None:
            wanted.append(label)
    columns = schema, parts, label, labelled, together
    if kind.delimiter is not None and len(parts) < 2 and together is None:
        return _TableRows(file, kind.delimiter, wanted, columns, owns)
    if owns is not None and kind.filters and len(parts) == 1:
        rows = kind.read(file.stream, file.name, wanted, TaskFilter(parts, owns))
    else:
        rows = kind.read(file.stream, file.name, wanted)
        if owns is not None:
            rows = TaskFilter(parts, owns).select(rows)
    return _MappingRows(rows, file.name, columns)


class EncodedRows(NamedTuple):
    """Rows whose entries are in an encoder."""

    tasks: list[str]
    labels: list[str | None]
    lines: list[int]
    ends: list[int]  # of the rows, among the encoder's entries
    moments: list[str]  # values of the column by which labels arrive; empty without one


# The schema, the columns of the task (none for one task, two for a nested one) and of the label,
# whether each row must have a label, and the column of moments.
_Columns = tuple[Schema, tuple[str, ...], str | None, bool, str | None]


class _TableRows:
    """Rows of delimited text; the header is read with the first of them."""

    def __init__(
        self,
        file: OpenFile,
        delimiter: str,
        wanted: list[str],
        columns: _Columns,
        owns: Owns | None,
    ) -> None:
        self._given = file.stream, file.name, wanted, delimiter
        self._schema, self._task, self._label, self._labelled, _ = columns
        self.encoder = Encoder(encode_cell, Lexicon(), self._schema.columns)
        self._table: DelimitedText | None = None
        self._owns = owns

    def read(self, most: int, live: bool) -> tuple[EncodedRows, BadRow | None, int, bool]:
        """Return rows, the bad one after them, the number of rows passed, whether more may come."""
        if self._table is None:
            table = DelimitedText(*self._given)
            roles = list(map(self._role, table.header))
            table.splitter.encode_into(self.encoder, roles, self._labelled, self._owns)
            self._table = table
        splitter = self._table.splitter
        (tasks, labels, lines, ends), bad, more = self._table.read(splitter.read, most)
        if not self._task:
            tasks = [ONLY_TASK] * len(lines)
        return EncodedRows(tasks, labels, lines, ends, []), bad, splitter.passed, more

    def close(self) -> None:
        """Nothing was opened here."""

    def _role(self, column: str) -> int:
        schema = self._schema
        if column in self._task:
            return TASK
        if column == self._label:
            return LABEL
        if column in schema.number_roles:
            return self.encoder.column(column, "number")
        if not column or (schema.features is not None and column not in schema.features):
            return UNUSED
        return self.encoder.column(column)


class _MappingRows:
    """Rows that come as mappings: JSON lines, Parquet, svmlight, any with moments."""

    def __init__(self, rows: Rows, name: str, columns: _Columns) -> None:
        schema, self._task, self._label, self._labelled, self._together = columns
        self.encoder = Encoder(encode_cell, Lexicon(), schema.columns)
        self._rows, self._name = rows, name
        for role in schema.number_roles:
            self.encoder.column(role, "number")
        self._roles, self._features = (*self._task[-1:], self._label), schema.features
        if self._features is not None:
            self._features += tuple(schema.number_roles)

    def read(self, most: int, live: bool) -> tuple[EncodedRows, BadRow | None, int, bool]:
        """As :meth:`_TableRows.read`."""
        part, passed = EncodedRows([], [], [], [], []), 0
        most = min(most, MAPPING_ROWS)
        if live or self.encoder.size > MAX_BLOCK_ENTRIES // 2:
            most = 1
        for row in islice(self._rows, most):
            passed += 1
            if isinstance(row, BadRow):
                return part, row, passed, True
            if row is None:
                continue
            line, cells = row
            try:
                task = read_task(self._task, cells) or ONLY_TASK
                label = self._read_label(cells)
                moment = []
                if self._together is not None:
                    moment = [read_name(self._together, cells)]
                end = self.encoder.add_row(cells, self._roles, self._features)
            except BadCell as bad:
                return part, BadRow(self._name, line, bad.column, bad.reason), passed, True
            values = [task], [label], [line], [end], moment
            for one, value in zip(part, values, strict=True):
                one.extend(value)  # type: ignore[attr-defined]
        return part, None, passed, passed > 0

    def close(self) -> None:
        self._rows.close()

    def _read_label(self, cells: Mapping[str, Any]) -> str | None:
        label = self._label
        if label is None or not (self._labelled or not is_missing(cells.get(label))):
            return None
        return read_name(label, cells)


def _without(rows: Encoded, columns: list[str]) -> tuple[Encoded, list[NDArray[np.float64]]]:
    """Return rows without columns of numbers, and these; NaN where a row has none."""
    values, names, starts, lexicon = rows
    taken = []
    for column in columns:
        found = np.flatnonzero(names == lexicon.number(column))
        numbers = np.full(len(starts) - 1, np.nan)
        numbers[np.searchsorted(starts, found, side="right") - 1] = values[found]
        taken.append(numbers)
        values = np.delete(values, found)
        names = np.delete(names, found)
        starts = starts - np.searchsorted(found, starts)
    return Encoded(values, names, starts, lexicon), taken
