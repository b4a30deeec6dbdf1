"""Identities of tasks, features and labels: text, numbers, bytes, tuples; their form in a file."""

import heapq
import re
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from functools import partial
from itertools import chain, count, repeat
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

Id = Hashable
Action = tuple[Callable[[Any], object], Any]  # of a commit: a compiled function and its argument
_WHOLE = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.0*)?")
_TRUTH = {"true": "1", "false": "0"}
DIGITS = 4000  # of a whole number as a name: Python writes and reads no more than 4300
_LARGEST = 10**DIGITS


def identity(what: str, value: Any) -> Id:
    """Return the value as it is kept: NumPy scalars become Python's, missing values are refused."""
    if type(value) is str:
        if value.isascii():
            return value
        return _sound(what, value)
    if type(value) is int and -_LARGEST < value < _LARGEST:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or not _equals_itself(value):
        raise ValueError(f"{what} is missing ({value!r}): drop the event or name it")
    if isinstance(value, str):  # from here on: what could never be saved is not learned
        return _sound(what, str.__str__(value))
    if isinstance(value, tuple):
        return tuple(map(partial(identity, what), value))
    if isinstance(value, int):
        if -_LARGEST < value < _LARGEST:
            return value
        raise ValueError(f"{what} is a number of more than {DIGITS:,} digits: give it as text")
    if isinstance(value, bytes) or (isinstance(value, float) and isfinite(value)):
        return value
    raise ValueError(
        f"{what} {value!r} cannot be a name: give text, a finite number, bytes or a tuple of them"
    )


def identities(what: str, values: Iterable[Any]) -> list[Id]:
    """Return the identity of each value; quick where all are ASCII text, as they mostly are."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    given = list(values)
    if set(map(type, given)) == {str} and all(map(str.isascii, given)):
        return given
    return list(map(partial(identity, what), given))


def as_array(names: Sequence[Id]) -> NDArray[Any]:
    """Return names as an array of their own kind, or of objects if they are mixed or tuples."""
    if len(set(map(type, names))) == 1 and not isinstance(names[0], tuple):
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def canonical_name(value: Id) -> Id:
    """Return the one form of a task or label, however it was typed or written.

    A whole number, the text that spells it plainly, and a truth value are one name: 1, 1.0,
    "1", "+1", "1.0", True and "True" are the same, and so are 0, "0" and False. Other text
    is itself: "007" is not 7.

    >>> {canonical_name(one) for one in (1, 1.0, "1", "1.0", True, "true")}, canonical_name("007")
    ({'1'}, '007')
    """
    if isinstance(value, str):
        if value[:1] in "+-0123456789" and len(value) < DIGITS and _WHOLE.fullmatch(value):
            return str(int(value.partition(".")[0]))
        if len(value) < 6:
            return _TRUTH.get(value.lower(), value)
        return value
    if isinstance(value, int | float):
        if value == value // 1:
            return str(int(value))
        return str(value)
    if isinstance(value, np.generic):
        return canonical_name(value.item())
    if isinstance(value, tuple):
        return tuple(map(canonical_name, value))
    return value


def _sound(what: str, value: str) -> str:
    """Text that can be written as UTF-8: half a surrogate pair could be in no file and no page."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} {value!a} is no text: it holds half a surrogate pair; decode it anew"
        ) from None
    return value


def _equals_itself(value: Id) -> bool:
    """Return whether a value equals itself: False for NaN, NaT and pandas' NA."""
    try:
        return bool(value == value)
    except (TypeError, ValueError):
        return False


def forgotten_name(number: int, names: Container[Id]) -> str:
    """Return the name of a feature or class whose own name is forgotten; not one of ``names``.

    >>> forgotten_name(7, ["age"]), forgotten_name(7, ["(forgotten 7)"])
    ('(forgotten 7)', '((forgotten 7))')
    """
    name = f"(forgotten {number})"
    while name in names:
        name = f"({name})"
    return name


def is_forgotten(name: Id, number: int) -> bool:
    """Return whether :func:`forgotten_name` made the name of a feature or class.

    >>> is_forgotten("((forgotten 7))", 7), is_forgotten("age", 7)
    (True, False)
    """
    return isinstance(name, str) and name.strip("()") == f"forgotten {number}"


def to_json(value: Id) -> Any:
    """An identity as JSON: text and numbers as they are, tuples and bytes with a tag.

    >>> to_json(("shop", 7))
    {'tuple': ['shop', 7]}
    """
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return {"tuple": list(map(to_json, value))}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(
        f"{value!r} cannot be written to a file: names of tasks, features and labels "
        f"must be text, numbers, bytes or tuples of them, not {type(value).__name__}"
    )


def from_json(value: Any) -> Id:
    """Return the identity that :func:`to_json` wrote."""
    if isinstance(value, str | bool | int | float):
        return identity("name", value)
    if isinstance(value, dict) and len(value) == 1:
        (tag, inner), *_ = value.items()
        if tag == "tuple" and isinstance(inner, list):
            return tuple(map(from_json, inner))
        if tag == "bytes" and isinstance(inner, str):
            return bytes.fromhex(inner)
    raise ValueError(f"{value!r} is not the name of a task, feature or label")


class TaskTable:
    """Numbers of the tasks by name, in order of appearance; a freed number is used again.

    A name keeps the form in which it came first, and is found in any form that
    :func:`romco.model.names.canonical_name` takes for the same.

    >>> tasks = TaskTable()
    >>> tasks.add("ann"), tasks.add("bob")
    (0, 1)
    >>> tasks.remove("ann"), tasks.add("cy")
    (0, 0)
    >>> tasks.add(7), tasks.find("7.0")
    (2, 2)
    """

    def __init__(self) -> None:
        self.number: dict[Id, int] = {}
        self._form: dict[Id, Id] = {}  # names as they came, by canonical name
        self._free: list[int] = []  # a heap: the smallest first

    def __len__(self) -> int:
        return len(self.number)

    @property
    def next(self) -> int:
        """The number that the next new task gets."""
        if self._free:
            return self._free[0]
        return len(self.number)

    def add(self, task: Id) -> int:
        """Number of a new task."""
        number = self.next
        if self._free:
            heapq.heappop(self._free)
        self.number[task] = number
        self._form[canonical_name(task)] = task
        return number

    def find(self, task: Id) -> int:
        """Number of a task in any of its forms, -1 if it is not known."""
        number = self.number.get(task, -1)
        if number < 0:
            form = self._form.get(canonical_name(task))
            number = self.number.get(form, -1)
        return number

    def offered(self, tasks: Iterable[Id]) -> dict[Id, int]:
        """Numbers that those who are new would get, by every form they have; changes nothing.

        >>> TaskTable().offered(["ann", "7", "ann", 7])
        {'ann': 0, '7': 1, 7: 1}
        """
        new = {task: canonical_name(task) for task in dict.fromkeys(tasks) if self.find(task) < 0}
        forms = dict.fromkeys(new.values())
        free = heapq.nsmallest(len(forms), self._free)
        beyond = count(len(self.number) + len(self._free))
        numbers = dict(zip(forms, chain(free, beyond), strict=False))
        return {task: numbers[form] for task, form in new.items()}

    def actions(self, offered: dict[Id, int]) -> list[Action]:
        """Return the actions of a commit that add new tasks by the numbers of :meth:`offered`."""
        if not offered:
            return []
        named: dict[int, Id] = {}
        for task, number in offered.items():
            named.setdefault(number, task)  # the form in which it came first
        actions: list[Action] = [
            (self.number.update, {task: number for number, task in named.items()}),
            (self._form.update, {canonical_name(task): task for task in named.values()}),
        ]
        if self._free:
            left = sorted(number for number in self._free if number not in named)
            actions.append((partial(setattr, self, "_free"), left))
        return actions

    def remove(self, task: Id) -> int:
        """Forget a name and free its number; idempotent until it has returned."""
        form = self._form[canonical_name(task)]
        number = self.number[form]
        self._free = sorted({*self._free, number})
        del self.number[form]
        self._form.pop(canonical_name(task))
        return number

    def items(self) -> list[tuple[Id, int]]:
        """Tasks and their numbers, as they are at this moment, whatever other threads do."""
        return list(self.number.items())

    def numbers(self, tasks: Iterable[Id]) -> NDArray[np.int64]:
        """Number of each task, -1 where it is not known."""
        tasks = list(tasks)
        try:
            numbers = list(map(self.number.get, tasks, repeat(-1)))
            if -1 in numbers:  # perhaps known in another form
                other = {task: self.find(task) for task in set(tasks) if task not in self.number}
                if max(other.values()) >= 0:
                    numbers = [other.get(task, n) for task, n in zip(tasks, numbers, strict=True)]
        except TypeError:  # one cannot be a name: say which
            numbers = [self.find(identity("task", task)) for task in tasks]
        return np.array(numbers, dtype=np.int64)

    def to_json(self) -> list[Any]:
        """Names by number; None where a number is free."""
        names: list[Any] = [None] * (len(self.number) + len(self._free))
        for task, number in self.number.items():
            names[number] = to_json(task)
        return names

    @classmethod
    def from_json(cls, names: Sequence[Any]) -> "TaskTable":
        """Restore what :meth:`to_json` wrote."""
        tasks = cls()
        tasks.number = {
            from_json(name): number for number, name in enumerate(names) if name is not None
        }
        tasks._form = {canonical_name(name): name for name in tasks.number}
        tasks._free = [number for number, name in enumerate(names) if name is None]
        if len(tasks._form) + len(tasks._free) != len(names):
            raise ValueError("a task is named twice")
        return tasks
