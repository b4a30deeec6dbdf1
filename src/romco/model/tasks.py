"""Numbers of the tasks by name."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Effect, Id, from_json, identity, known_as, to_json


@final
class Tasks:
    """Numbers of the tasks by name, in order of appearance; a freed number is used again.

    A name keeps the form in which it came first, and is found in any form that
    :func:`romco.model.names.known_as` takes for the same.

    >>> tasks = Tasks()
    >>> tasks.add("ann"), tasks.add("bob")
    (0, 1)
    >>> tasks.remove("ann"), tasks.add("cy")
    (0, 0)
    >>> tasks.add(7), tasks.find("7.0")
    (2, 2)
    """

    def __init__(self) -> None:
        self.number: dict[Id, int] = {}
        self._form: dict[Id, Id] = {}  # names as they came, by what they are known as
        self._free: list[int] = []  # a heap: the smallest first

    def __len__(self) -> int:
        return len(self.number)

    @property
    def next(self) -> int:
        """The number that the next new task gets."""
        return self._free[0] if self._free else len(self.number)

    def add(self, task: Id) -> int:
        """Number of a new task."""
        number = heapq.heappop(self._free) if self._free else len(self.number)
        self.number[task] = number
        self._form[known_as(task)] = task
        return number

    def find(self, task: Id) -> int:
        """Number of a task in any of its forms, -1 if it is not known."""
        number = self.number.get(task, -1)
        if number < 0:
            form = self._form.get(known_as(task))
            number = -1 if form is None else self.number.get(form, -1)
        return number

    def offered(self, tasks: Iterable[Id]) -> dict[Id, int]:
        """Numbers that those who are new would get, by every form they have; changes nothing.

        >>> Tasks().offered(["ann", "7", "ann", 7])
        {'ann': 0, '7': 1, 7: 1}
        """
        new = {task: known_as(task) for task in dict.fromkeys(tasks) if self.find(task) < 0}
        forms, count = list(dict.fromkeys(new.values())), len(self.number) + len(self._free)
        free = heapq.nsmallest(len(forms), self._free)
        numbers = dict(zip(forms, [*free, *range(count, count + len(forms))], strict=False))
        return {task: numbers[form] for task, form in new.items()}

    def adding(self, offered: dict[Id, int]) -> list[Effect]:
        """What gives new tasks the numbers that they were offered."""
        if not offered:
            return []
        named: dict[int, Id] = {}
        for task, number in offered.items():
            named.setdefault(number, task)  # the form in which it came first
        effects: list[Effect] = [
            (self.number.update, {task: number for number, task in named.items()}),
            (self._form.update, {known_as(task): task for task in named.values()}),
        ]
        if self._free:
            left = sorted(number for number in self._free if number not in named)
            effects.append((partial(setattr, self, "_free"), left))
        return effects

    def remove(self, task: Id) -> int:
        """Forget the name; its number is free again. May be done again if it is broken off."""
        form = self._form[known_as(task)]
        number = self.number[form]
        self._free = sorted({*self._free, number})
        del self.number[form]
        self._form.pop(known_as(task))
        return number

    def items(self) -> list[tuple[Id, int]]:
        """Tasks and their numbers, as they are at this moment, whatever other threads do."""
        return list(self.number.items())

    def numbers(self, tasks: Iterable[Id]) -> NDArray[np.int64]:
        """Number of each task, -1 where it is not known."""
        tasks = list(tasks)
        try:
            found = list(map(self.number.get, tasks, repeat(-1)))
            if -1 in found:
                found = [self.find(task) for task in tasks]
        except TypeError:  # one cannot be a name: say which
            found = [self.find(identity("task", task)) for task in tasks]
        return np.array(found, dtype=np.int64)

    def to_json(self) -> list[Any]:
        """Names by number; None where a number is free."""
        names: list[Any] = [None] * (len(self.number) + len(self._free))
        for task, number in self.number.items():
            names[number] = to_json(task)
        return names

    @classmethod
    def from_json(cls, names: Sequence[Any]) -> Tasks:
        """What :meth:`to_json` wrote."""
        tasks = cls()
        tasks.number = {
            from_json(name): number for number, name in enumerate(names) if name is not None
        }
        tasks._form = {known_as(name): name for name in tasks.number}
        tasks._free = [number for number, name in enumerate(names) if name is None]
        if len(tasks._form) + len(tasks._free) != len(names):
            raise ValueError("a task is named twice")
        return tasks
