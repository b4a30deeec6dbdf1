"""Events of a file, read plainly: the twin of ``romco.io.reader`` and of the compiled encoder.

Tables are split by Python's csv module, cells are read by ``Schema.encode``.
"""

import csv
import gzip
import io
import zlib
from itertools import chain
from typing import NamedTuple

from romco.io.cells import ONLY_TASK, BadCell, is_missing, read_name
from romco.io.formats import (
    FORMATS,
    MAX_ROW_BYTES,
    BadFile,
    BadRow,
    OpenFile,
    check_header,
    separator,
)


class Event(NamedTuple):
    """One row of a file, in names. Tasks and labels are text, whatever the format."""

    task: str
    features: dict[str, float]
    label: str | None  # None if the row has none and need not
    line: int  # from 1; in Parquet the number of the row


def block_events(block):
    """The events of a block one by one."""
    values, numbers, starts, lexicon = block.features
    for at, (task, label, line) in enumerate(
        zip(block.tasks, block.labels, block.lines, strict=True)
    ):
        features = {}
        for k in range(starts[at], starts[at + 1]):
            name = lexicon.names[numbers[k]]
            features[name] = features.get(name, 0.0) + float(values[k])
        yield Event(task, features, label, line)


def reader_events(reader):
    """The events of a reader one by one."""
    with reader:
        for block in reader.blocks():
            yield from block_events(block)


def delimited_rows(stream, name, wanted, delimiter):
    """Rows of a table; its columns may be separated by another sign than usual."""
    # Bytes that are not UTF-8 become lone surrogates, which whoever uses the cell refuses.
    text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
    try:
        csv.field_size_limit(max(csv.field_size_limit(), MAX_ROW_BYTES))
        first = text.readline()
        delimiter = separator(first, delimiter, wanted)
        # strict: a quote that is never closed is an error, not a cell as long as the file.
        cells = csv.reader(chain([first] if first else [], text), delimiter=delimiter, strict=True)
        try:
            header = [column.strip() for column in next(cells, [])]
        except csv.Error as error:
            raise BadFile(f"{name}: the header cannot be read ({error})") from error
        header = check_header(header, name, wanted)
        while True:
            line = cells.line_num + 1  # where the row begins; a quoted cell may span lines
            try:
                row = next(cells)
            except StopIteration:
                return
            except csv.Error as error:
                yield BadRow(name, line, None, f"not valid {delimiter!r}-separated text ({error})")
                continue
            if len(row) == len(header):
                pairs = zip(header, row, strict=True)
                yield line, {column: cell for column, cell in pairs if column}
            elif row:
                reason = f"has {len(row)} cells where the header has {len(header)}"
                yield BadRow(name, line, None, reason)
    finally:
        text.detach()  # the stream belongs to the caller


def read(content, schema, format, skip_bad=False, labelled=True):
    """Events, the error that stopped reading or None, and the bad rows skipped."""
    file = OpenFile(io.BytesIO(content), format)
    kind = FORMATS[format]
    task = None if schema.one_task else schema.task or kind.task
    label = schema.label or kind.label
    needed = [task, label if labelled else None, *(schema.features or ())]
    wanted = [] if kind.task else [name for name in needed if name is not None]
    if kind.delimiter is None:
        rows = kind.read(file.stream, file.name, wanted)
    else:
        rows = delimited_rows(file.stream, file.name, wanted, kind.delimiter)
    found, skipped = [], 0
    while True:
        try:
            row = next(rows, None)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            what = f"compressed data are damaged or cut ({error})"
            return found, BadFile(f"{file.name}: {what}"), skipped
        except BadFile as error:
            return found, error, skipped
        if row is None:
            return found, None, skipped
        if not isinstance(row, BadRow):
            row = event_of(row, schema, task, label, labelled, file.name)
        if isinstance(row, Event):
            found.append(row)
        elif not skip_bad:
            return found, row, skipped
        else:
            skipped += 1


def event_of(row, schema, task, label, labelled, name):
    line, cells = row
    try:
        who = ONLY_TASK if task is None else read_name(task, cells)
        there = label is not None and (labelled or not is_missing(cells.get(label)))
        truth = read_name(label, cells) if there else None
        rest = {column: cell for column, cell in cells.items() if column not in (task, label)}
        return Event(who, schema.encode(rest), truth, line)
    except BadCell as bad:
        return BadRow(name, line, bad.column, bad.reason)
