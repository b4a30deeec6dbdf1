"""Answers of a model to the events of a file, and how good they are."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.learners.capabilities import GivesIntervals
from romco.model import Model
from romco.model.model import Answers
from romco.model.names import Id
from romco.sessions.score import Numbers, Score
from romco.sessions.source import CHUNK, Source, remembered
from romco.sessions.targets import OtherScore, other_score, told_others
from romco.streams.blocks import Block, Blocks
from romco.streams.files import BadRow


class Names(Protocol):
    """Who knows what the labels are called."""

    @property
    def positive(self) -> Id | None:
        """The label that a margin above 0 speaks for."""

    def label_of(self, margin: float) -> Id:
        """The label that a margin predicts."""

    def side(self, label: Any) -> float:
        """-1 or +1."""


def predict(model: Model, source: Source) -> Generator[dict[str, Any], None, int]:
    """One answer per event, in the words of :func:`told`.

    Returns at the end how many bad rows were skipped.
    """
    source = remembered(model, source)
    with source.blocks() as events:
        for chunk in _chunks(events):
            margins = model.margins(chunk.features, chunk.tasks)
            if model.target == "number":
                none = Answers(margins, np.full(len(margins), np.nan))
                yield from told_others(model, chunk, none, _bounds(model, chunk))
            else:
                yield from told(model, chunk, Answers(margins, model.probability_of(margins)))
        return events.skipped


def _bounds(model: Model, chunk: Block) -> Numbers | None:
    """Bounds of nine answers in ten, where the learner gives them."""
    if not isinstance(model.learner, GivesIntervals):
        return None
    return model.intervals(chunk.features, chunk.tasks, 0.9)


def evaluate_others(model: Model, source: Source) -> tuple[OtherScore, dict[str, OtherScore], int]:
    """The same as :func:`evaluate` for a model of many classes or of numbers."""
    source = remembered(model, source, labelled=True)
    whole, unknown = _scored(model), 0
    tasks: dict[str, OtherScore] = {}
    with source.blocks() as events:
        for chunk in _chunks(events):
            for i in range(len(chunk)):
                one = chunk.rows(i, i + 1)
                try:
                    model.number(one.labels[0])
                except ValueError as error:
                    if not source.skip_bad:
                        line = one.lines[0]
                        raise BadRow(source.path, line, source.label, str(error)) from None
                    unknown += 1
                    continue
                margins = model.margins(one.features, one.tasks)
                chances = model.probability_of(margins) if model.target == "classes" else margins
                for score in (whole, tasks.setdefault(one.tasks[0], _scored(model))):
                    score.count(model, one.labels, Answers(margins, chances))
        return whole, tasks, events.skipped + unknown


def _scored(model: Model) -> OtherScore:
    found = other_score(model)
    assert found is not None
    return found


def _chunks(events: Blocks) -> Iterator[Block]:
    """Blocks to the end; trouble is raised after what came before it."""
    while True:
        chunk, trouble = events.take(CHUNK)
        if len(chunk):
            yield chunk
        if trouble is not None:
            raise trouble
        if not len(chunk):
            return


def told(model: Names, events: Block, answers: Answers) -> Iterator[dict[str, Any]]:
    r"""Answers in the one form that files, JSON and Python share.

    ``line`` and ``task`` say which event; ``predicted`` is the label that was answered,
    ``probability`` that of the label named ``positive``, ``margin`` above 0 where that is
    predicted; ``label`` is the true one, and there only where it is known.

    >>> import io
    >>> from romco.streams.blocks import read_blocks
    >>> table = io.BytesIO(b"user,kind,age\nann,ham,3\n")
    >>> block, _ = read_blocks(table, "user", "kind", format="csv").take(1)
    >>> model = Model("pa-unique", classes=("ham", "spam"))
    >>> [row] = told(model, block, Answers(np.ones(1), np.full(1, 0.7)))
    >>> row  # doctest: +NORMALIZE_WHITESPACE
    {'line': 2, 'task': 'ann', 'predicted': 'spam', 'probability': 0.7, 'positive': 'spam',
     'margin': 1.0, 'label': 'ham'}
    """
    if isinstance(model, Model) and model.target != "two classes":
        yield from told_others(model, events, answers)
        return
    numbers = answers.margins.tolist(), answers.probabilities.tolist()
    parts = zip(events.lines, events.tasks, events.labels, *numbers, strict=True)
    negative, positive = model.label_of(-1.0), model.label_of(1.0)
    for line, task, label, margin, chance in parts:
        row = {
            "line": line,
            "task": task,
            "predicted": positive if margin >= 0.0 else negative,
            "probability": chance,
            "positive": model.positive,
            "margin": margin,
        }
        yield row if label is None else {**row, "label": label}


def sides(model: Names, labels: Sequence[str | None]) -> Numbers:
    """-1 or +1 of each label (n,); NaN where the model does not know it."""
    known: dict[str | None, float] = {}
    for label in set(labels):
        with suppress(ValueError):
            known[label] = model.side(label)
    return np.array([known.get(label, np.nan) for label in labels])


@dataclass
class Evaluation:
    """How good answers to labelled events were."""

    whole: Score = field(default_factory=Score)
    tasks: dict[str, Score] = field(default_factory=dict)  # without curves, which take room
    skipped: int = 0  # bad rows

    def add(self, tasks: list[str], y: Numbers, answers: Answers) -> None:
        """Count events (n,) but those whose side is NaN."""
        known = np.flatnonzero(~np.isnan(y))
        margins, chances = answers
        self.whole.add(y[known], margins[known], chances[known])
        for task, places in _places(tasks, known).items():
            score = self.tasks.setdefault(task, Score(curve=False))
            score.add(y[places], margins[places], chances[places])


def evaluate(model: Model, source: Source) -> Evaluation:
    """Scores of a labelled source, of all and by task; learns nothing."""
    source = remembered(model, source, labelled=True)
    found = Evaluation()
    with source.blocks() as events:
        for chunk in _chunks(events):
            y = sides(model, chunk.labels)
            unknown = np.flatnonzero(np.isnan(y))
            if len(unknown) and not source.skip_bad:
                _refuse(model, source, chunk, int(unknown[0]))
            margins = model.margins(chunk.features, chunk.tasks)
            found.add(chunk.tasks, y, Answers(margins, model.probability_of(margins)))
            found.skipped += len(unknown)
        found.skipped += events.skipped
        return found


def _refuse(model: Model, source: Source, chunk: Block, place: int) -> None:
    """Raise what is wrong with a label that the model does not know."""
    try:
        model.side(chunk.labels[place])
    except ValueError as error:
        raise BadRow(source.path, chunk.lines[place], source.label, str(error)) from None


def _places(tasks: list[str], known: NDArray[np.intp]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place in known.tolist():
        places.setdefault(tasks[place], []).append(place)
    return places
