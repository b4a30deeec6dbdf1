"""What a model says of events, and what can be learned of them: all the service asks of a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from romco.explanations import reasons
from romco.model import Model
from romco.model.features import Dense
from romco.model.names import canonical_name
from romco.server.changes import Answer, Event, Prediction, Row, Task

PLAIN = (str, int, float)
TOP = 50  # features that are told one by one


class Refused(ValueError):  # noqa: N818
    """An event that cannot be predicted or learned; ``index`` is its place in the request."""

    def __init__(self, reason: str, index: int) -> None:
        super().__init__(reason)
        self.reason, self.index = reason, index


def predict(model: Model, rows: Sequence[Row], tasks: Sequence[Task]) -> list[Prediction]:
    """Predictions of rows; raises :class:`Refused` for the first that is bad.

    The probability is that of the positive label of two, and of the label told of many; a number
    has none.
    """
    try:
        margins = model.margins(rows, tasks)
    except ValueError as error:
        raise refused(model, rows, error) from None
    return meant(model, margins)


def meant(model: Model, margins: Dense) -> list[Prediction]:
    """The predictions that margins stand for."""
    if model.engine.target.kind == "number":
        return [Prediction(number, None, number) for number in margins.tolist()]
    chances = model.engine.probability_of(margins)
    if model.engine.target.kind == "classes":
        labels = [model.engine.label_of(row) for row in margins]
        return [
            Prediction(_plain(label), float(chance.max(initial=0.0)), float(row.max(initial=0.0)))
            for label, chance, row in zip(labels, chances, margins, strict=True)
        ]
    below, above = sides(model)
    return [
        Prediction(above if margin >= 0.0 else below, chance, margin)
        for margin, chance in zip(margins.tolist(), chances.tolist(), strict=True)
    ]


def explain(model: Model, row: Row, task: Task) -> dict[str, Any]:
    """What each feature of a row adds to its margin; the most important ones, and all others."""
    try:
        return reasons(model, row, task).summary(TOP)
    except ValueError as error:
        raise Refused(str(error), 0) from None


def judge(model: Model, made: Prediction, answer: Answer) -> tuple[float, bool | None]:
    """How wrong a prediction was, and whether what its probability is of came true.

    Of numbers the first is the distance, else 0 or 1.
    """
    if model.engine.target.kind == "number" and made.label is not None:
        return abs(float(made.label) - float(answer)), None
    wrong = made.label is None or canonical_name(made.label) != canonical_name(answer)
    if model.engine.target.kind == "classes":
        return float(wrong), not wrong
    return float(wrong), model.engine.side(answer) > 0


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
    model: Model, also: Iterable[Answer], events: Sequence[Event], places: Sequence[int]
) -> set[Any]:
    """The labels that would be known then; raises :class:`Refused` where one cannot be learned.

    ``also`` are labels that are accepted but not learned yet, ``places`` where each event
    stands in its request.
    """
    if model.engine.target.kind != "two classes":
        for place, event in zip(places, events, strict=True):
            try:
                model.engine.check([event.x], [event.y], [event.task])
            except ValueError as error:
                raise Refused(str(error), place) from None
        return set()
    known: set[Any] = {canonical_name(label) for label in (*model.classes, *also)}
    for place, event in zip(places, events, strict=True):
        known.add(canonical_name(event.y))
        if len(known) > 2:
            others = " and ".join(sorted(str(other) for other in known - {canonical_name(event.y)}))
            raise Refused(f"y is {event.y!r}, a third label: there are {others} already", place)
    return known


def opinions(model: Model, rows: Any, tasks: Sequence[Task]) -> list[list[float] | None]:
    """What the learner says of rows, to be kept until their answers come; None where nothing."""
    said = model.engine.prediction_context(rows, tasks)
    if said is None:
        return [None] * len(tasks)
    return [one.tolist() if np.isfinite(one).all() else None for one in said]  # JSON has no other


def learn(model: Model, events: Sequence[Event]) -> None:
    """Learn events in order, or raise ValueError and learn none.

    What was said of an event is left out where the learner does not understand it, as it may be
    after an update of romco: the event itself is learned all the same.
    """
    given = [e.x for e in events], [e.y for e in events], [e.task for e in events]
    said = [None if e.prediction is None else e.prediction.said for e in events]
    before = model.events
    try:
        try:
            model.learn(*given, context=said)
        except ValueError:
            if not any(said) or model.events != before:
                raise
            model.learn(*given)
    except (ArithmeticError, TypeError) as error:
        raise ValueError(str(error)) from error


def sides(model: Model) -> tuple[Answer | None, Answer | None]:
    """The labels below and above margin 0; the only one for both, None before any is known."""
    classes = model.classes
    return (_plain(classes[0]), _plain(classes[-1])) if classes else (None, None)


def _plain(label: Any) -> Answer | None:
    """Labels of other kinds can come with a model file: they are told as text."""
    return label if label is None or isinstance(label, PLAIN) else str(label)
