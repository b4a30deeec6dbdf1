"""Groupings: columns that name the task of each row, and further levels of it."""

from collections.abc import Container, Mapping, Sequence
from typing import Any

from romco.io.cells import is_missing, plain_value
from romco.io.frames import SAMPLE_ROWS, rows_of

MAX_GROUPINGS = 8  # columns that a task may be given by


def split_groupings(task: str | Sequence[str] | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the column of the task, and those of further groupings.

    >>> split_groupings(["lecturer", "student"])
    ('lecturer', ('student',))
    """
    names = (task,) if task is None or isinstance(task, str) else tuple(task)
    if len(set(names)) < len(names) or (None in names[1:]):
        raise ValueError(f"groupings must be different columns; got {list(names)}")
    return (names[0], names[1:]) if names else (None, ())


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
    columns = set().union(*map(set, found[:SAMPLE_ROWS])) if len(found) else set()
    parts = expand_groupings(names, columns)
    task, *groupings = parts
    used = {column for split in parts.values() for column in split}
    made, tasks = [], []
    for at, row in enumerate(found):
        levels = {
            name: [plain_value(row.get(column)) for column in split]
            for name, split in parts.items()
        }
        texts = {
            name: None if any(map(is_missing, cells)) else "/".join(map(str, cells))
            for name, cells in levels.items()
        }
        if texts[task] is None:
            raise ValueError(f"row {at}: no value of {task!r}, which is its task")
        tasks.append(levels[task][0] if len(parts[task]) == 1 else texts[task])
        rest = {column: cell for column, cell in row.items() if column not in used}
        made.append(rest | {name: texts[name] for name in groupings})
    return made, tasks, (task, tuple(groupings))


def expand_groupings(
    names: Sequence[str], columns: Container[str] = ()
) -> dict[str, tuple[str, ...]]:
    """Return the groupings that names stand for, and the columns that each consists of.

    >>> expand_groupings(["school/class"])
    {'school/class': ('school', 'class'), 'school': ('school',)}
    """
    parts: dict[str, tuple[str, ...]] = {}
    for name in names:
        split = (name,) if name in columns else tuple(name.split("/"))
        parts |= {"/".join(split[:k]): split[:k] for k in range(len(split), 0, -1)}
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
    return all(name in columns or all(part in columns for part in name.split("/")) for name in task)
