"""Answers of a model to the events of a file, and how good they are."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

from romco.model import Model
from romco.model.model import Answers
from romco.sessions.score import Numbers, Score
from romco.sessions.source import CHUNK, Source, remembered
from romco.streams.files import BadRow, Event


def predict(model: Model, source: Source) -> Generator[dict[str, Any], None, int]:
    """One answer per event, in the words of :func:`told`.

    Returns at the end how many bad rows were skipped.
    """
    source = remembered(model, source)
    with source.events() as events:
        while chunk := list(islice(events, CHUNK)):
            margins = model.margins([e.features for e in chunk], [e.task for e in chunk])
            yield from told(model, chunk, Answers(margins, model.probability_of(margins)))
        return events.skipped


def told(model: Model, events: list[Event], answers: Answers) -> Iterator[dict[str, Any]]:
    """Answers in the one form that files, JSON and Python share.

    ``line`` and ``task`` say which event; ``predicted`` is the label that was answered,
    ``probability`` that of the label named ``positive``, ``margin`` above 0 where that is
    predicted; ``label`` is the true one, and there only where it is known.

    >>> model = Model("pa-unique", classes=("ham", "spam"))
    >>> [row] = told(model, [Event("ann", {}, "ham", 2)], Answers(np.ones(1), np.full(1, 0.7)))
    >>> row  # doctest: +NORMALIZE_WHITESPACE
    {'line': 2, 'task': 'ann', 'predicted': 'spam', 'probability': 0.7, 'positive': 'spam',
     'margin': 1.0, 'label': 'ham'}
    """
    numbers = zip(events, answers.margins.tolist(), answers.probabilities.tolist(), strict=True)
    positive = model.positive
    for event, margin, chance in numbers:
        row = {
            "line": event.line,
            "task": event.task,
            "predicted": model.answer(margin),
            "probability": chance,
            "positive": positive,
            "margin": margin,
        }
        yield row if event.label is None else {**row, "label": event.label}


@dataclass
class Evaluation:
    """How good answers to labelled events were."""

    whole: Score = field(default_factory=Score)
    tasks: dict[str, Score] = field(default_factory=dict)  # without curves, which take room
    skipped: int = 0  # bad rows

    def add(self, tasks: list[str], y: Numbers, answers: Answers) -> None:
        """Count events (n,)."""
        self.whole.add(y, *answers)
        for task, places in _places(tasks).items():
            score = self.tasks.setdefault(task, Score(curve=False))
            score.add(y[places], answers.margins[places], answers.probabilities[places])


def evaluate(model: Model, source: Source) -> Evaluation:
    """Scores of a labelled source, of all and by task; learns nothing."""
    source = remembered(model, source, labelled=True)
    found = Evaluation()
    with source.events() as events:
        while chunk := list(islice(events, CHUNK)):
            known = _known(model, source, chunk)
            found.skipped += len(chunk) - len(known)
            tasks = [event.task for event in known]
            margins = model.margins([event.features for event in known], tasks)
            y = np.array([model.side(event.label) for event in known])
            found.add(tasks, y, Answers(margins, model.probability_of(margins)))
        found.skipped += events.skipped
        return found


def _known(model: Model, source: Source, chunk: list[Event]) -> list[Event]:
    """The events whose label the model knows; another one is bad."""
    known = []
    for event in chunk:
        try:
            model.side(event.label)
        except ValueError as error:
            if not source.skip_bad:
                raise BadRow(source.path, event.line, source.label, str(error)) from None
        else:
            known.append(event)
    return known


def _places(tasks: list[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, task in enumerate(tasks):
        places.setdefault(task, []).append(place)
    return places
