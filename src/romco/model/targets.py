"""Targets: what is to be predicted, from outside answers to a learner's numbers and back.

This is the one place that knows what a learner's scores mean: a margin on one side of 0 or the
other, a log-probability for each class, or a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import LARGEST_FEATURE
from romco.model.labels import Labels, affirms
from romco.model.names import Id, from_json, identity, known_as, to_json

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

    @property
    def known(self) -> Known:
        """The number of each label, to the learner."""

    def read(self, answers: Iterable[Any]) -> tuple[NDArray[np.float64], Known]:
        """A number for each answer, and the labels as they are then known; changes nothing."""

    def adopt(self, known: Known) -> None:
        """Remember the labels that :meth:`read` gave."""

    def adopted(self, known: Known) -> dict[str, Any]:
        """What changes by that, as attributes."""

    def answers(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """What scores of n events predict."""

    def answer(self, score: Any) -> Any:
        """What the score of one event predicts."""

    def to_json(self) -> Any:
        """Everything needed to make the same again."""


@final
class ManyClasses:
    """Labels of any kind, numbered as they come; new ones may come at any time.

    The first two get the numbers that their sides are to the learner of two classes, so that
    these are learned alike. A label announced by ``classes`` is as likely as any before events.

    >>> target = ManyClasses()
    >>> y, known = target.read(["bus", "car", "train", "bus"])
    >>> target.adopt(known)
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
        form = _form(self.known, label)
        if form is None:
            raise ValueError(f"label {label!r} is not one of the model's: {_told(self.classes)}")
        return int(self.known[form])

    def adopt(self, known: Known) -> None:
        """Remember the labels that :meth:`read` gave."""
        self.known = known

    def adopted(self, known: Known) -> dict[str, Any]:
        """What changes by that, as attributes."""
        return {"known": known}

    def read(self, labels: Iterable[Any]) -> tuple[NDArray[np.float64], Known]:
        """The number of each label, and all numbers as they then are; changes nothing."""
        known = self.known
        labels = list(labels)
        try:
            return np.array([known[label] for label in labels], dtype=np.float64), known
        except (KeyError, TypeError):
            known = dict(known)
        forms = {known_as(label): label for label in known}
        numbers = [_number(known, forms, label) for label in labels]
        return np.array(numbers, dtype=np.float64), known

    def answer(self, score: NDArray[np.float64]) -> Id:
        """The label of the largest score; None before any label is known."""
        return self.classes[int(self._best(score[None])[0])] if self.known else None

    def answers(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """The label of the largest score of each event."""
        if not self.known:
            return np.full(len(scores), None)
        return _array(self.classes)[self._best(scores)]

    def probabilities(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Probability (n, K) of each label that is known; each row sums to one."""
        chances = np.exp(scores[:, self.columns()])
        return chances / np.maximum(chances.sum(axis=1, keepdims=True), np.finfo(float).tiny)

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
        bad = np.flatnonzero(~(np.abs(numbers) <= LARGEST_FEATURE))
        if len(bad):
            _finite(int(bad[0]), numbers[bad[0]])
        return numbers, self.known

    def adopt(self, known: Known) -> None:
        """There are no labels to remember."""

    def adopted(self, known: Known) -> dict[str, Any]:
        """There are no labels to remember."""
        return {}

    def answer(self, score: float) -> float:
        """The number itself."""
        return float(score)

    def answers(self, scores: NDArray[np.float64]) -> NDArray[Any]:
        """The numbers themselves."""
        return scores

    def to_json(self) -> dict[str, Any]:
        """There is nothing but the kind."""
        return {"kind": self.kind}


def target_of(kind: str | None, classes: Sequence[Any] | None, positive: Any = None) -> Target:
    """The target that a model is made for: two classes unless something else is said."""
    if kind is None or kind == "two classes":
        return Labels(classes, positive)
    if positive is not None:
        raise ValueError(f"positive={positive!r} makes sense with two classes only")
    if kind == "classes":
        return ManyClasses(classes)
    if kind == "number":
        if classes is not None:
            raise ValueError("a number has no classes: leave out classes, or target='number'")
        return Number()
    raise ValueError(f"target must be 'two classes', 'classes' or 'number'; got {kind!r}")


def widened(two: Labels) -> ManyClasses:
    """The same labels as the first of many."""
    many = ManyClasses()
    many.adopt({label: 0.5 + 0.5 * side for label, side in two.side.items()})
    return many


def target_from_json(found: Any) -> Target:
    """The target that ``to_json`` described; two classes are a plain list."""
    if isinstance(found, list):
        return Labels.from_json(found)
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
    except OverflowError:  # a whole number beyond all that a computer calculates with
        number = inf
    except (TypeError, ValueError):
        raise ValueError(f"answer {at} is {answer!r}: a number is expected") from None
    if not abs(number) <= LARGEST_FEATURE:  # nor NaN
        raise ValueError(
            f"answer {at} is {number}: it must be finite and at most {LARGEST_FEATURE:g} in size, "
            "so scale it or drop the event"
        )
    return number


def _number(known: Known, forms: dict[Id, Id], label: Any) -> float:
    """The number of a label; a new one gets the next."""
    label = identity("label", label)
    form = forms.setdefault(known_as(label), label)
    if form in known:
        return known[form]
    if not known:
        known[label] = 1.0 if affirms(label) else 0.0
    elif len(known) == 1:
        known[label] = 1.0 - next(iter(known.values()))
    else:
        known[label] = float(len(known))
    return known[label]


def _form(known: Known, label: Any) -> Id | None:
    """The form in which a label is known; None if it is not."""
    if label in known:
        return label
    name = known_as(label)
    return next((form for form in known if known_as(form) == name), None)


def _array(labels: Sequence[Id]) -> NDArray[Any]:
    """Labels as an array of their own kind, or of objects if they are mixed."""
    if any(isinstance(label, tuple) for label in labels):
        raise ValueError("labels that are tuples cannot be put in an array: use predict_one")
    kind = object if len({type(label) for label in labels}) > 1 else None
    return np.array(labels, dtype=kind)


def _told(labels: Sequence[Id]) -> str:
    return " and ".join(map(repr, labels)) or "none"
