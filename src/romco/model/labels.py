"""The two labels, and the side of margin 0 on which each is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Id, from_json, identity, to_json


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

    def known_side(self, label: Any) -> float:
        """The side of a label that must be known."""
        if label not in self.side:
            known = " and ".join(map(repr, self.classes)) or "none"
            raise ValueError(f"label {label!r} is not one of the model's: {known}")
        return self.side[label]

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

    def to_json(self) -> list[list[Any]]:
        """Labels and their sides."""
        return [[to_json(label), side] for label, side in self.side.items()]

    @classmethod
    def from_json(cls, found: Iterable[Any]) -> Labels:
        """What :meth:`to_json` wrote."""
        labels = cls()
        for label, side in found:
            if side not in (-1.0, 1.0):
                raise ValueError(f"label {label!r} has side {side!r}, expected -1 or 1")
            labels.side[from_json(label)] = float(side)
        if len(labels.side) > 2 or len(set(labels.side.values())) < len(labels.side):
            raise ValueError("expected at most two labels, on different sides")
        return labels


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
