"""The two labels, and the side of margin 0 on which each is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Id, from_json, identity, known_as, to_json

AFFIRMS = frozenset(("true", "t", "yes", "y", "positive", "pos", "on"))
DENIES = frozenset(("false", "f", "no", "n", "negative", "neg", "off", "none"))


@final
class Labels:
    """Two labels of any kind, one on each side of margin 0.

    Which is positive is told by ``classes``, given as (negative, positive), or by ``positive``.
    Else it follows from the labels, not from their order: a number above 0, true or yes is
    positive where the other is not; a number up to 0, false or no is negative where the
    other is not; else the larger one (the later in the alphabet) is positive.
    A label is found in any form that :func:`romco.model.names.known_as` takes for the same.

    The learner cannot wait for the second label: to it, the first is +1 if it affirms as
    above, else -1, for ever. ``turn`` is -1 where that is not the side that people see.

    >>> labels = Labels()
    >>> labels.take(["spam", "ham", "spam"])
    array([ 1., -1.,  1.])
    >>> labels.classes
    ('ham', 'spam')
    """

    def __init__(self, classes: Sequence[Any] | None = None, positive: Any = None) -> None:
        self.side: dict[Id, float] = {}  # as the learner sees it
        self.turn = 1.0  # times that: as people see it
        self._named = classes is not None or positive is not None
        if classes is not None:
            negative, above = _two(classes)
            self.side = {negative: -1.0, above: 1.0}
            if positive is not None and known_as(positive) != known_as(above):
                raise ValueError(f"classes say that {above!r} is positive, not {positive!r}")
        elif positive is not None:
            self.side = {identity("label", positive): 1.0}

    kind: Literal["two classes", "classes", "number"] = "two classes"

    @property
    def known(self) -> dict[Id, float]:
        """The learner's side of each label."""
        return self.side

    @property
    def classes(self) -> tuple[Id, ...]:
        """The labels known so far, the negative one first."""
        side = self.side  # which others may exchange
        labels = tuple(side)
        first = self.turn * side[labels[0]] if labels else -1.0
        return labels if first < 0.0 else labels[::-1]

    @property
    def positive(self) -> Id | None:
        """The label above margin 0, if it is known."""
        sides = self.side.items()
        return next((label for label, side in sides if side * self.turn > 0.0), None)

    def known_side(self, label: Any) -> float:
        """The side, as people see it, of a label that must be known."""
        found = _form(self.side, label)
        if found is None:
            known = " and ".join(map(repr, self.classes)) or "none"
            raise ValueError(f"label {label!r} is not one of the model's: {known}")
        return self.turn * self.side[found]

    def read(self, labels: Iterable[Any]) -> tuple[NDArray[np.float64], dict[Id, float]]:
        """The learner's -1 or +1 for each label, and the sides they then have; changes nothing."""
        side = self.side
        labels = list(labels)
        try:
            return np.array([side[label] for label in labels], dtype=np.float64), side
        except (KeyError, TypeError):
            side = dict(side)
        return np.array([_place(side, label) for label in labels], dtype=np.float64), side

    def adopt(self, side: dict[Id, float]) -> None:
        """Remember the sides that :meth:`read` gave."""
        self.__dict__.update(self.adopted(side))

    def adopted(self, side: dict[Id, float]) -> dict[str, Any]:
        """What changes by that, as attributes."""
        if len(side) == 2 > len(self.side) and not self._named:
            return {"turn": side[positive_of(*side)], "side": side}
        return {"side": side}

    def take(self, labels: Iterable[Any]) -> NDArray[np.float64]:
        """-1 or +1 for each label, as people see it; new ones are remembered."""
        y, side = self.read(labels)
        self.adopt(side)
        return self.turn * y

    def outward(
        self, margins: NDArray[np.float64], y: NDArray[np.float64], before: float
    ) -> NDArray[np.float64]:
        """The learner's margins as people see them, where ``before`` was the turn until now.

        Margins of the rows before the second label keep their sign, as in a loop of single rows.
        """
        if self.turn == before:
            return margins if before == 1.0 else before * margins
        first = next(iter(self.side.values()))  # the side of the label that came first
        second = int(np.argmax(y != first))
        return np.where(np.arange(len(y)) < second, before, self.turn) * margins

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

    def to_json(self) -> list[list[Any]]:
        """Labels and their sides; a third entry is the side people see, where that is no rule."""
        told = self.turn < 0.0 or (self._named and len(self.side) == 1)
        return [
            [to_json(label), side, *([self.turn * side] if told else [])]
            for label, side in self.side.items()
        ]

    @classmethod
    def from_json(cls, found: Iterable[Any]) -> Labels:
        """What :meth:`to_json` wrote."""
        labels = cls()
        for label, side, *seen in found:
            if not {side, *seen} <= {-1.0, 1.0}:
                raise ValueError(f"label {label!r} has side {side!r}, expected -1 or 1")
            labels.side[from_json(label)] = float(side)
            if seen:
                labels._named, labels.turn = True, float(side * seen[0])
        if len(labels.side) > 2 or len(set(labels.side.values())) < len(labels.side):
            raise ValueError("expected at most two labels, on different sides")
        if len({known_as(label) for label in labels.side}) < len(labels.side):
            raise ValueError("expected two different labels")
        return labels


def _two(classes: Sequence[Any]) -> tuple[Id, Id]:
    known = [identity("label", label) for label in classes]
    if len(known) != 2 or known_as(known[0]) == known_as(known[1]):
        raise ValueError(f"classes must be two different labels, the negative first; got {known}")
    return known[0], known[1]


def positive_of(one: Id, other: Id) -> Id:
    """Which of two labels is positive; see :class:`Labels`.

    >>> positive_of("no", "yes"), positive_of(1, -1), positive_of("spam", "ham"), positive_of(9, 10)
    ('yes', 1, 'spam', 10)
    """
    for says, answer in ((affirms, True), (_denies, False)):
        if says(one) != says(other):
            return one if says(one) is answer else other
    return max(one, other, key=_rank)


def _form(side: dict[Id, float], label: Any) -> Id | None:
    """The form in which a label is known; None if it is not."""
    if label in side:
        return label
    return next((known for known in side if known_as(known) == known_as(label)), None)


def _place(side: dict[Id, float], label: Any) -> float:
    """The side of a label; a new one gets a side that is free."""
    label = identity("label", label)
    known = _form(side, label)
    if known is not None:
        return side[known]
    if len(side) == 2:
        raise ValueError(
            f"a third label {label!r}: there are {' and '.join(map(repr, side))} already, "
            "and that is all this model can tell apart; for more, say target='classes'"
        )
    taken = next(iter(side.values()), None)
    side[label] = (1.0 if affirms(label) else -1.0) if taken is None else -taken
    return side[label]


def affirms(label: Id) -> bool:
    """Whether a label by itself is positive: a number above 0, true, yes.

    >>> affirms("yes"), affirms("spam")
    (True, False)
    """
    number = _number(label)
    return number > 0 if number is not None else str(label).lower() in AFFIRMS


def _denies(label: Id) -> bool:
    number = _number(label)
    return number <= 0 if number is not None else str(label).lower() in DENIES


def _rank(label: Id) -> tuple[float, str]:
    """Numbers by size, then text by alphabet."""
    number = _number(label)
    return (-np.inf if number is None else number, str(label))


def _number(label: Id) -> float | None:
    try:
        return float(label) if isinstance(label, str | int | float) else None
    except (ValueError, OverflowError):
        return None
