"""A look at the first rows of a source, before it is read: its columns and how to read them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from romco.io.cells import as_number, is_missing
from romco.io.columns import Reading, asked, guess
from romco.io.files import format_of, opened
from romco.io.formats import FORMATS, LONGEST, BadRow, Format, delimited_rows, separator

SAMPLE = 1000  # rows looked at


@dataclass(frozen=True)
class Survey:
    """What the first rows of a source tell."""

    rows: int
    there: tuple[str, ...]  # all columns
    columns: tuple[str, ...]  # those of the features
    readings: tuple[Reading, ...] = ()
    warnings: tuple[str, ...] = ()
    separator: str | None = None  # of its columns, where it is not what its format has

    @property
    def kinds(self) -> dict[str, str]:
        """How each column is read."""
        return {reading.column: reading.kind for reading in self.readings}


def survey(
    source: str | Path | BinaryIO,
    task: str | None,
    label: str | None,
    format: str | None = None,
    features: Sequence[str] | None = None,
    chosen: Mapping[str, str] | None = None,
) -> Survey:
    r"""Look at the first rows; ``chosen`` tells the kind of columns that need no guess.

    A pipe is looked into as far as it has come, and nothing is taken from it.

    >>> table = io.BytesIO(b"user,age,at,clicked\nann,7,2024-05-01,yes\n")
    >>> survey(table, "user", "clicked", "csv").kinds
    {'age': 'free', 'at': 'date'}
    """
    name = "stdin" if source == "-" else str(getattr(source, "name", source))
    kind = FORMATS[format_of(name, format)]
    parts = (task or kind.task, label or kind.label)
    expected = [column for column in (*parts, *(features or ()), *(chosen or ())) if column]
    rows, separated = _sample(source, name, kind, expected)
    values: dict[str, list[object]] = {}
    for row in rows:
        for column, value in row.items():
            values.setdefault(column, []).append(value)
    chosen = dict(chosen or {})
    listed = [column for column in (*(features or values), *chosen) if column not in parts]
    readings = [
        asked(column, chosen[column], values.get(column, ()))
        if column in chosen
        else guess(column, values.get(column, ()))
        for column in dict.fromkeys(listed)
    ]
    if kind.task:  # indices and numbers, nothing to guess
        readings = []
    warnings = [reading.warning for reading in readings if reading.warning]
    warnings += _label_warnings(parts[1], values, readings)
    columns = tuple(reading.column for reading in readings)
    unusual = separated if separated != kind.delimiter else None
    told = (tuple(readings), tuple(warnings), unusual)
    return Survey(len(rows), tuple(values), columns, *told)


def _label_warnings(
    label: str | None, values: dict[str, list[object]], readings: Sequence[Reading]
) -> list[str]:
    """What is suspicious about the column to be predicted."""
    if label is None or label not in values:
        return []
    answers = [str(value).strip() for value in values[label] if not is_missing(value)]
    found = []
    numbers = {as_number(answer) for answer in answers}
    if len(numbers) > 20 and None not in numbers:
        found.append(
            f"the label {label!r} has {len(numbers)} different numbers: is it an amount to predict "
            "rather than one of two classes? --target number learns amounts"
        )
    for reading in readings:
        cells = [str(value).strip() for value in values.get(reading.column, ())]
        if reading.kind != "ignored" and len(set(answers)) > 1 and cells == answers:
            found.append(
                f"column {reading.column!r} has the label itself in all {len(cells):,} rows looked "
                f"at: --ignore {reading.column} unless it is known before the label is"
            )
    return found


def _sample(
    source: str | Path | BinaryIO, name: str, kind: Format, expected: Sequence[str]
) -> tuple[list[Mapping[str, object]], str | None]:
    """The first rows, and what separates their cells, where something does."""
    stream, owned = opened(source, name)
    sign = kind.delimiter
    at = stream.tell() if stream.seekable() else None
    try:
        if at is None:
            stream = _come_so_far(stream)
        if sign is None:
            found = kind.read(stream, name, ())
        else:
            sign = _separator(stream, sign, expected)
            found = delimited_rows(stream, name, (), sign)
        with closing(found) as rows:
            good = (row for row in islice(rows, SAMPLE) if not isinstance(row, BadRow))
            return [cells for _, cells in good], sign
    except (ValueError, EOFError, OSError, ImportError):  # told by whoever reads it in earnest
        return [], sign
    finally:
        if owned:
            stream.close()
        elif at is not None:
            stream.seek(at)


def _separator(stream: BinaryIO, usual: str, expected: Sequence[str]) -> str:
    at = stream.tell()
    line = next(iter(stream.readline(LONGEST).splitlines()), b"")  # they may end with \r alone
    stream.seek(at)
    return separator(line.decode("utf-8-sig", "replace"), usual, expected)


def _come_so_far(stream: BinaryIO) -> BinaryIO:
    """The whole lines that a pipe holds already."""
    held = stream.peek() if isinstance(stream, io.BufferedReader) else b""
    return io.BytesIO(held[: held.rfind(b"\n") + 1])
