"""Where in a line of text the task stands."""

from __future__ import annotations

import csv
import json
import re
from typing import Any, Protocol, final


class Tells(Protocol):
    """Finds the task of a line."""

    header: bytes  # what the lines must follow to be understood

    def cell(self, line: bytes) -> bytes | None:
        """The task as it is written; None where the line is open."""

    def value(self, cell: bytes) -> Any:
        """What is written there."""

    def is_row(self, line: bytes) -> bool:
        """Whether there is anything in the line."""


class OddError(Exception):
    """A table with quotes: its rows may not be its lines."""


@final
class Table:
    r"""Cells between commas or tabs, below a header.

    >>> table = Table(b"age,user\n", ",", "user")
    >>> table.cell(b"7,ann\n"), table.cell(b"7\n")
    (b'ann\n', None)
    """

    def __init__(self, header: bytes, delimiter: str, task: str) -> None:
        text = header.decode("utf-8-sig", "surrogateescape")
        names = [] if '"' in text else next(csv.reader([text], delimiter=delimiter), [])
        columns = [name.strip() for name in names]
        self.header = header
        self._at = columns.index(task) if task in columns else -1
        self._delimiter = delimiter.encode()

    def cell(self, line: bytes) -> bytes | None:
        """As long as there are no quotes."""
        if self._at < 0 or b'"' in line or b"\r" in line[:-2]:
            raise OddError
        cells = line.split(self._delimiter, self._at + 1)
        return cells[self._at] if len(cells) > self._at else None

    def value(self, cell: bytes) -> str:
        """Text."""
        return cell.decode("utf-8", "surrogateescape")

    def is_row(self, line: bytes) -> bool:
        """Spaces are a row, too, though a bad one."""
        return line not in (b"\n", b"\r\n")


@final
class Objects:
    """JSON: where the name of the task occurs once, it is the task's, or the row is bad.

    >>> lines = Objects("user")
    >>> lines.cell(b'{"age": 7, "user": "ann"}'), lines.cell(b'{"user": {"id": 3}}')
    (b'"ann"', None)
    """

    header = b""

    def __init__(self, task: str) -> None:
        self._name = json.dumps(task, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self._escape = rb"\u00" if task.isascii() else rb"\u"  # how else its letters may be written
        self._pair = re.compile(
            re.escape(self._name) + rb'\s*:\s*("[^"\\]*"|-?[0-9][0-9.eE+-]*|true|false)\s*[,}]'
        )

    def cell(self, line: bytes) -> bytes | None:
        """The value behind the name."""
        if line.count(self._name) != 1 or self._escape in line:
            return None
        found = self._pair.search(line)
        return None if found is None else found[1]

    def value(self, cell: bytes) -> Any:
        """Text, a number, true or false."""
        return json.loads(cell)

    def is_row(self, line: bytes) -> bool:
        """Blank lines are not."""
        return not line.isspace()
