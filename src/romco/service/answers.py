"""What a model says of events, and what can be learned of them: all the service asks of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from romco.model import Model
from romco.model.names import known_as
from romco.service.changes import Answer, Event, Prediction, Row, Task


class Refused(ValueError):  # noqa: N818
    """An event that cannot be predicted or learned; ``index`` is its place in the request."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.reason, self.index = reason, index


def predict(model: Model, rows: Sequence[Row], tasks: Sequence[Task]) -> list[Prediction]:
    """Predictions of rows; raises :class:`Refused` for the first that is bad."""
    try:
        margins = model.margins(rows, tasks)
    except ValueError as error:
        raise refused(model, rows, error) from None
    chances = model.probability_of(margins).tolist()
    return [
        Prediction(_plain(model.label_of(margin)), chance, margin)
        for margin, chance in zip(margins.tolist(), chances, strict=True)
    ]


def refused(model: Model, rows: Sequence[Row], error: ValueError) -> Refused:
    """Which of the rows is at fault."""
    for index, row in enumerate(rows):
        try:
            model.features.read([row])
        except ValueError as fault:
            return Refused(str(fault), index)
    return Refused(str(error), 0)


def new_features(model: Model, rows: Sequence[Row]) -> int:
    """How many new features rows would bring; raises :class:`Refused` if one is bad."""
    new: dict[Any, int] = {}
    try:
        model.features.read(rows, new)
    except ValueError as error:
        raise refused(model, rows, error) from None
    return len(new)


def check_labels(
    model: Model, also: Iterable[Answer], labels: Sequence[Answer], places: Sequence[int]
) -> set[Any]:
    """The labels that would be known then; raises :class:`Refused` where there is a third.

    ``also`` are labels that are accepted but not learned yet, ``places`` where each label
    stands in its request.
    """
    known: set[Any] = {known_as(label) for label in (*model.classes, *also)}
    for place, label in zip(places, labels, strict=True):
        known.add(known_as(label))
        if len(known) > 2:
            others = " and ".join(sorted(str(other) for other in known - {known_as(label)}))
            raise Refused(f"y is {label!r}, a third label: there are {others} already", place)
    return known


def learn(model: Model, events: Sequence[Event]) -> None:
    """Learn events in order, or raise ValueError and learn none."""
    try:
        model.learn([e.x for e in events], [e.y for e in events], [e.task for e in events])
    except (ArithmeticError, TypeError) as error:
        raise ValueError(str(error)) from error


def positive(model: Model, answer: Answer) -> bool | None:
    """Whether an answer is the positive label; None if it is not known to be any."""
    try:
        return model.side(answer) > 0
    except ValueError:
        return None


def _plain(label: Any) -> Answer | None:
    """Labels of other kinds can come with a model file: they are told as text."""
    return label if label is None or isinstance(label, str | int | float) else str(label)
