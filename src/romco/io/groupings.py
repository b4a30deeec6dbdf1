"""Groupings: columns that name the task of each row, and further levels of it."""

from collections.abc import Container, Mapping, Sequence
from itertools import chain
from typing import Any

from romco.io.cells import is_missing, plain_value
from romco.io.frames import SAMPLE_ROWS, rows_of

MAX_GROUPINGS = 8  # columns that a task may be given by


def split_groupings(task: str | Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the column of the task, and those of further groupings.

    >>> split_groupings(["lecturer", "student"])
    ('lecturer', ('student',))
    """
    if task is None or isinstance(task, str):
        return task, ()
    names = tuple(task)
    if len(set(names)) < len(names) or None in names[1:]:
        raise ValueError(f"groupings must be different columns; got {list(names)}")
    if not names:
        return None, ()
    return names[0], names[1:]


def take_groupings(
    rows: Any, names: Sequence[str]
) -> tuple[list[dict[Any, Any]], list[Any], tuple[str, tuple[str, ...]]]:
    """Take tasks and groupings out of rows that have them as columns.

    "school/class" is a class within its school: it becomes two groupings, itself and "school".
    Returns rows in which further groupings are text, the task of each, and the names of the
    groupings.

    >>> take_groupings([{"school": "A", "class": 1, "age": 7}], ["school/class"])
    ([{'age': 7, 'school': 'A'}], ['A/1'], ('school/class', ('school',)))
    """
    found = rows_of(rows)
    columns = set(chain.from_iterable(found[:SAMPLE_ROWS]))
    parts = expand_groupings(names, columns)
    task, *groupings = parts
    used = set(chain.from_iterable(parts.values()))
    made = []
    tasks = []
    for at, row in enumerate(found):
        levels = {name: _level(row, split) for name, split in parts.items()}
        own = levels[task]
        if own is None:
            raise ValueError(f"row {at}: no value of {task!r}, which is its task")
        if len(parts[task]) == 1:
            own = plain_value(row[task])  # as it is: it need not be text
        tasks.append(own)
        rest = {column: cell for column, cell in row.items() if column not in used}
        for name in groupings:
            rest[name] = levels[name]
        made.append(rest)
    return made, tasks, (task, tuple(groupings))


def _level(row: Mapping[Any, Any], columns: Sequence[str]) -> str | None:
    """Return the text of a row's level of a grouping; None where a part of it is missing."""
    cells = [plain_value(row.get(column)) for column in columns]
    if any(map(is_missing, cells)):
        return None
    return "/".join(map(str, cells))


def expand_groupings(
    names: Sequence[str], columns: Container[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the groupings that names stand for, and the columns that each consists of.

    >>> expand_groupings(["school/class"])
    {'school/class': ('school', 'class'), 'school': ('school',)}
    """
    parts: dict[str, tuple[str, ...]] = {}
    for name in names:
        split = tuple(name.split("/"))
        if name in columns:
            split = (name,)
        for k in range(len(split), 0, -1):
            parts["/".join(split[:k])] = split[:k]
    return parts


def names_columns(rows: Any, task: Any) -> bool:
    """Return whether ``task`` lists columns of rows, instead of the task of each row."""
    if not isinstance(task, list | tuple) or not 0 < len(task) <= MAX_GROUPINGS:
        return False
    if not all(isinstance(name, str) for name in task):
        return False
    columns = getattr(rows, "columns", None)
    if columns is None and isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping):
        columns = rows[0]
    if columns is None:
        return False
    for name in task:
        if name not in columns and not all(part in columns for part in name.split("/")):
            return False
    return True
