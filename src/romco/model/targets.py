"""Targets: what is to be predicted, from outside answers to a learner's numbers and back.

This is the one place that knows what a learner's scores mean: a margin on one side of 0 or the
other, a log-probability for each class, or a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Id, from_json, identity, to_json

Known = dict[Id, float]
Kind = Literal["two classes", "classes", "number"]


class Target(Protocol):
    """Turns outside answers into a learner's numbers, and its scores into answers."""

    @property
    def kind(self) -> Kind:
        """What is predicted."""

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, in the order of their numbers; none for numbers."""

    known: Known  # the number of each label

    def read(self, answers: Iterable[Any]) -> tuple[NDArray[np.float64], Known]:
        """A number for each answer, and the labels as they are then known; changes nothing."""

    def answers(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """What scores of n events predict."""

    def answer(self, score: Any) -> Any:
        """What the score of one event predicts."""

    def to_json(self) -> Any:
        """Everything needed to make the same again."""


@final
class TwoClasses:
    """Two labels of any kind, one on each side of margin 0.

    Without ``classes``, given as (negative, positive), labels are taken as they come: what
    reads as a positive number, true or yes is positive, anything else negative,
    and the second label is on the side that is left.

    >>> target = TwoClasses()
    >>> y, target.known = target.read(["ham", "spam", "ham"])
    >>> y, target.classes
    (array([-1.,  1., -1.]), ('ham', 'spam'))
    """

    kind: Kind = "two classes"

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.known: dict[Id, float] = {}
        if classes is not None:
            negative, positive = _two(classes)
            self.known = {negative: -1.0, positive: 1.0}

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, the negative one first."""
        return tuple(sorted(self.known, key=lambda label: self.known[label]))

    def known_side(self, label: Any) -> float:
        """The side of a label that must be known."""
        if label not in self.known:
            raise ValueError(f"label {label!r} is not one of the model's: {_told(self.classes)}")
        return self.known[label]

    def read(self, labels: Iterable[Any]) -> tuple[NDArray[np.float64], dict[Id, float]]:
        """-1 or +1 for each label, and the sides as they then are; changes nothing."""
        side = self.known
        labels = list(labels)
        try:
            return np.array([side[label] for label in labels], dtype=np.float64), side
        except (KeyError, TypeError):
            side = dict(side)
        return np.array([_place(side, label) for label in labels], dtype=np.float64), side

    def answer(self, margin: float) -> Id:
        """The label that a margin predicts; the only one known if there is but one."""
        classes = self.classes
        return None if not classes else classes[-1] if margin >= 0.0 else classes[0]

    def answers(self, margins: NDArray[np.float64]) -> NDArray[Any]:
        """The labels that margins predict."""
        classes = self.classes or (None,)
        return _array((classes[0], classes[-1]))[(margins >= 0.0).astype(np.intp)]

    def to_json(self) -> list[list[Any]]:
        """Labels and their sides."""
        return [[to_json(label), side] for label, side in self.known.items()]

    @classmethod
    def from_json(cls, found: Iterable[Any]) -> TwoClasses:
        """What :meth:`to_json` wrote."""
        labels = cls()
        for label, side in found:
            if side not in (-1.0, 1.0):
                raise ValueError(f"label {label!r} has side {side!r}, expected -1 or 1")
            labels.known[from_json(label)] = float(side)
        if len(labels.known) > 2 or len(set(labels.known.values())) < len(labels.known):
            raise ValueError("expected at most two labels, on different sides")
        return labels


@final
class ManyClasses:
    """Labels of any kind, numbered as they come; new ones may come at any time.

    The first two get the numbers that they have as :class:`TwoClasses`, so that two classes are
    learned alike. Without events a label that was announced by ``classes`` is as likely as any.

    >>> target = ManyClasses()
    >>> y, target.known = target.read(["bus", "car", "train", "bus"])
    >>> y, target.classes
    (array([0., 1., 2., 0.]), ('bus', 'car', 'train'))
    """

    kind: Kind = "classes"

    def __init__(self, classes: Sequence[Any] | None = None) -> None:
        self.known: Known = {}
        for number, label in enumerate(classes or ()):
            self.known[identity("label", label)] = float(number)
        if classes is not None and len(self.known) < max(len(classes), 2):
            raise ValueError(f"classes must be two or more different labels; got {list(classes)}")

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, in the order of their numbers."""
        return tuple(sorted(self.known, key=lambda label: self.known[label]))

    def number(self, label: Any) -> int:
        """The number of a label that must be known."""
        if label not in self.known:
            raise ValueError(f"label {label!r} is not one of the model's: {_told(self.classes)}")
        return int(self.known[label])

    def read(self, labels: Iterable[Any]) -> tuple[NDArray[np.float64], Known]:
        """The number of each label, and all numbers as they then are; changes nothing."""
        known = self.known
        labels = list(labels)
        try:
            return np.array([known[label] for label in labels], dtype=np.float64), known
        except (KeyError, TypeError):
            known = dict(known)
        return np.array([_number(known, label) for label in labels], dtype=np.float64), known

    def answer(self, score: NDArray[np.float64]) -> Id:
        """The label of the largest score; None before any label is known."""
        return self.classes[int(self._best(score[None])[0])] if self.known else None

    def answers(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """The label of the largest score of each event."""
        if not self.known:
            return np.full(len(scores), None)
        return _array(self.classes)[self._best(scores)]

    def columns(self) -> NDArray[np.intp]:
        """Where the scores of the labels are, in the order of :attr:`classes`."""
        return np.array(sorted(self.known.values()), dtype=np.intp)

    def _best(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """Which of the labels is best; of equal ones the last."""
        backwards = scores[:, self.columns()[::-1]]
        return len(self.known) - 1 - np.argmax(backwards, axis=1)

    def to_json(self) -> dict[str, Any]:
        """Labels and their numbers."""
        labels = [[to_json(label), number] for label, number in self.known.items()]
        return {"kind": self.kind, "labels": labels}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> ManyClasses:
        """What :meth:`to_json` wrote."""
        target = cls()
        target.known = {from_json(label): float(number) for label, number in found["labels"]}
        numbers = set(target.known.values())
        if not numbers <= set(range(len(target.known))) | ({1.0} if len(numbers) == 1 else set()):
            raise ValueError("expected labels with the numbers 0, 1, ...")
        if len(numbers) < len(found["labels"]):
            raise ValueError("two labels have the same number")
        return target


@final
class Number:
    """A number, in whatever unit it comes.

    >>> Number().read([1, 2.5, "3"])[0]
    array([1. , 2.5, 3. ])
    """

    kind: Kind = "number"
    classes: tuple[Id, ...] = ()

    def __init__(self) -> None:
        self.known: Known = {}

    def read(self, answers: Iterable[Any]) -> tuple[NDArray[np.float64], Known]:
        """The answers as numbers; raises ValueError where one is none, or not finite."""
        if isinstance(answers, np.ndarray) and answers.dtype.kind in "fiu" and answers.ndim == 1:
            numbers = answers.astype(np.float64)
        else:
            numbers = np.array([_finite(i, a) for i, a in enumerate(answers)], dtype=np.float64)
        bad = np.flatnonzero(~np.isfinite(numbers))
        if len(bad):
            _finite(int(bad[0]), numbers[bad[0]])
        return numbers, self.known

    def answer(self, score: float) -> float:
        """The number itself."""
        return float(score)

    def answers(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """The numbers themselves."""
        return scores

    def to_json(self) -> dict[str, Any]:
        """There is nothing but the kind."""
        return {"kind": self.kind}


def target_of(kind: str | None, classes: Sequence[Any] | None) -> Target:
    """The target that a model is made for: two classes unless something else is said."""
    if kind is None or kind == "two classes":
        return TwoClasses(classes)
    if kind == "classes":
        return ManyClasses(classes)
    if kind == "number":
        if classes is not None:
            raise ValueError("a number has no classes: leave out classes, or target='number'")
        return Number()
    raise ValueError(f"target must be 'two classes', 'classes' or 'number'; got {kind!r}")


def target_from_json(found: Any) -> Target:
    """The target that ``to_json`` described; two classes are a plain list."""
    if isinstance(found, list):
        return TwoClasses.from_json(found)
    if found["kind"] == "classes":
        return ManyClasses.from_json(found)
    if found["kind"] == "number":
        return Number()
    raise ValueError(f"unknown kind of target {found['kind']!r}")


def _finite(at: int, answer: Any) -> float:
    """An answer as a number."""
    try:
        if answer is None or isinstance(answer, complex):
            raise TypeError
        number = float(answer)
    except (TypeError, ValueError):
        raise ValueError(f"answer {at} is {answer!r}: a number is expected") from None
    if not isfinite(number):
        raise ValueError(f"answer {at} is {number}: it must be finite, so drop the event")
    return number


def _number(known: Known, label: Any) -> float:
    """The number of a label; a new one gets the next."""
    label = identity("label", label)
    if label not in known:
        if not known:
            known[label] = 1.0 if _affirms(label) else 0.0
        elif len(known) == 1:
            known[label] = 1.0 - next(iter(known.values()))
        else:
            known[label] = float(len(known))
    return known[label]


def _array(labels: Sequence[Id]) -> NDArray[Any]:
    """Labels as an array of their own kind, or of objects if they are mixed."""
    if any(isinstance(label, tuple) for label in labels):
        raise ValueError("labels that are tuples cannot be put in an array: use predict_one")
    kind = object if len({type(label) for label in labels}) > 1 else None
    return np.array(labels, dtype=kind)


def _told(labels: Sequence[Id]) -> str:
    return " and ".join(map(repr, labels)) or "none"


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
                "and that is all this model can tell apart; for more, say target='classes'"
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
