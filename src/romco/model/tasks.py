"""Numbers of the tasks by name."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Effect, Id, from_json, identity, to_json


@final
class Tasks:
    """Numbers of the tasks by name, in order of appearance; a freed number is used again.

    >>> tasks = Tasks()
    >>> tasks.add("ann"), tasks.add("bob")
    (0, 1)
    >>> tasks.remove("ann"), tasks.add("cy")
    (0, 0)
    """

    def __init__(self) -> None:
        self.number: dict[Id, int] = {}
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
        return number

    def offered(self, tasks: Iterable[Id]) -> dict[Id, int]:
        """Numbers that those who are new would get; changes nothing.

        >>> Tasks().offered(["ann", "bob", "ann"])
        {'ann': 0, 'bob': 1}
        """
        new = [task for task in dict.fromkeys(tasks) if task not in self.number]
        count = len(self.number) + len(self._free)
        numbers = [*heapq.nsmallest(len(new), self._free), *range(count, count + len(new))]
        return dict(zip(new, numbers, strict=False))

    def adding(self, offered: dict[Id, int]) -> list[Effect]:
        """What gives new tasks the numbers that they were offered."""
        effects: list[Effect] = [(self.number.update, offered)] if offered else []
        if offered and self._free:
            taken = set(offered.values())
            left = sorted(number for number in self._free if number not in taken)
            effects.append((partial(setattr, self, "_free"), left))
        return effects

    def remove(self, task: Id) -> int:
        """Forget the name; its number is free again. May be done twice."""
        number = self.number[task]
        self._free = sorted({*self._free, number})
        del self.number[task]
        return number

    def items(self) -> list[tuple[Id, int]]:
        """Tasks and their numbers, as they are at this moment, whatever other threads do."""
        return list(self.number.items())

    def numbers(self, tasks: Iterable[Id]) -> NDArray[np.int64]:
        """Number of each task, -1 where it is not known."""
        find, tasks = self.number.get, list(tasks)
        try:
            return np.array([find(task, -1) for task in tasks], dtype=np.int64)
        except TypeError:  # one cannot be a name: say which
            return np.array([find(identity("task", task), -1) for task in tasks], dtype=np.int64)

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
        tasks._free = [number for number, name in enumerate(names) if name is None]
        if len(tasks.number) + len(tasks._free) != len(names):
            raise ValueError("a task is named twice")
        return tasks
