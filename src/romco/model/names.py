"""Identities of tasks, features and labels: any hashable value, and its form in a file."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

Id = Hashable


def identity(what: str, value: Any) -> Id:
    """The value as it is kept: a NumPy scalar becomes Python's, a missing value is refused.

    >>> identity("task", np.int64(3))
    3
    """
    if type(value) is str or type(value) is int:
        return value
    if isinstance(value, np.generic):
        value = value.item()
    try:
        hash(value)
        missing = value is None or value != value
    except (TypeError, ValueError):
        raise ValueError(
            f"{what} {value!r} cannot be a name: give text, a number or a tuple"
        ) from None
    if missing:
        raise ValueError(f"{what} is missing ({value!r}): drop the event or name it")
    return value


def to_json(value: Id) -> Any:
    """An identity as JSON: text and numbers as they are, tuples and bytes with a tag.

    >>> to_json(("shop", 7))
    {'tuple': ['shop', 7]}
    """
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, tuple):
        return {"tuple": [to_json(part) for part in value]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    raise TypeError(
        f"{value!r} cannot be written to a file: names of tasks, features and labels "
        f"must be text, numbers, bytes or tuples of them, not {type(value).__name__}"
    )


def from_json(value: Any) -> Id:
    """The identity that :func:`to_json` wrote.

    >>> from_json({'tuple': ['shop', 7]})
    ('shop', 7)
    """
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict) and len(value) == 1:
        (tag, inner), *_ = value.items()
        if tag == "tuple" and isinstance(inner, list):
            return tuple(from_json(part) for part in inner)
        if tag == "bytes" and isinstance(inner, str):
            return bytes.fromhex(inner)
    raise ValueError(f"{value!r} is not the name of a task, feature or label")


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

    def remove(self, task: Id) -> int:
        """Forget the name; its number is free again."""
        number = self.number.pop(task)
        heapq.heappush(self._free, number)
        return number

    def numbers(self, tasks: Iterable[Id]) -> NDArray[np.int64]:
        """Number of each task, -1 where it is not known."""
        find = self.number.get
        return np.array([find(task, -1) for task in tasks], dtype=np.int64)

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


@final
class Labels:
    """Two labels of any kind, one on each side of margin 0.

    Without ``classes``, given as (negative, positive), labels are taken as they come: what
    reads as a positive number, true or yes is positive, anything else negative,
    and the second label is on the side that is left.

    >>> labels = Labels()
    >>> labels.take(["ham", "spam", "ham"])
    array([-1.,  1., -1.])
    >>> labels.classes
    ('ham', 'spam')
    """

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.side: dict[Id, float] = {}
        if classes is not None:
            negative, positive = _two(classes)
            self.side = {negative: -1.0, positive: 1.0}

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, the negative one first."""
        return tuple(sorted(self.side, key=lambda label: self.side[label]))

    def read(self, labels: Iterable[Any]) -> tuple[NDArray[np.float64], dict[Id, float]]:
        """-1 or +1 for each label, and the sides as they then are; changes nothing."""
        side = self.side
        labels = list(labels)
        try:
            return np.array([side[label] for label in labels], dtype=np.float64), side
        except (KeyError, TypeError):
            side = dict(side)
        return np.array([_place(side, label) for label in labels], dtype=np.float64), side

    def take(self, labels: Iterable[Any]) -> NDArray[np.float64]:
        """-1 or +1 for each label; new ones are remembered."""
        y, self.side = self.read(labels)
        return y

    def answer(self, margin: float) -> Id:
        """The label that a margin predicts; the only one known if there is but one."""
        classes = self.classes
        return None if not classes else classes[-1] if margin >= 0.0 else classes[0]

    def answers(self, margins: NDArray[np.float64]) -> NDArray[Any]:
        """The labels that margins predict."""
        classes = self.classes or (None,)
        kind = object if len({type(label) for label in classes}) > 1 else None
        if any(isinstance(label, tuple) for label in classes):
            raise ValueError("labels that are tuples cannot be put in an array: use predict_one")
        return np.array([classes[0], classes[-1]], dtype=kind)[(margins >= 0.0).astype(np.intp)]


def _two(classes: Sequence[Any]) -> tuple[Id, Id]:
    known = [identity("label", label) for label in classes]
    if len(known) != 2 or known[0] == known[1]:
        raise ValueError(f"classes must be two different labels, the negative first; got {known}")
    return known[0], known[1]


def _place(side: dict[Id, float], label: Any) -> float:
    """The side of a label; a new one gets a side that is free."""
    label = identity("label", label)
    if label not in side:
        if len(side) == 2:
            raise ValueError(
                f"a third label {label!r}: there are {' and '.join(map(repr, side))} already, "
                "and two classes are all a model can tell apart"
            )
        taken = next(iter(side.values()), None)
        side[label] = (1.0 if _affirms(label) else -1.0) if taken is None else -taken
    return side[label]


def _affirms(label: Id) -> bool:
    if isinstance(label, str):
        if label.lower() in ("true", "yes"):
            return True
        try:
            return float(label) > 0
        except ValueError:
            return False
    return isinstance(label, int | float) and label > 0
