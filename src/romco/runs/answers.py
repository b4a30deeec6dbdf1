"""Answers of a model to the events of a file."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.explanations import reasons
from romco.io.blocks import Block, Blocks
from romco.io.files import BadRow
from romco.kernels.core.events import LARGEST_FEATURE
from romco.learners.capabilities import GivesIntervals
from romco.model import Model
from romco.model.target import Predictions
from romco.runs.source import CHUNK, Source, remembered

Numbers = NDArray[np.float64]


class LabelNames(Protocol):
    """Who knows what the labels are called."""

    @property
    def engine(self) -> Any:
        """The engine of a model, or whatever has its methods."""


class Named(Protocol):
    """Events by the line they are in, their tasks and labels."""

    @property
    def lines(self) -> Sequence[int]:
        """The line of each."""

    @property
    def tasks(self) -> list[str]:
        """The task of each."""

    @property
    def labels(self) -> Sequence[Any]:
        """The true label of each, or None."""


def predict(
    model: Model, source: Source, top: int | None = None
) -> Generator[dict[str, Any], None, int]:
    """One answer per event, in the words of :func:`told`.

    With ``top`` each has ``reasons``: what so many features add to the margin, and the rest.
    Returns at the end how many bad rows were skipped.
    """
    source = remembered(model, source)
    with source.blocks() as events:
        for chunk in chunks(events, source):
            rows = told(model, chunk, answered(model, chunk), _bounds(model, chunk))
            yield from rows if top is None else _reasoned(model, chunk, rows, top)
        return events.skipped


def _reasoned(
    model: Model, chunk: Block, rows: Iterator[dict[str, Any]], top: int
) -> Iterator[dict[str, Any]]:
    for at, row in enumerate(rows):
        found = reasons(model, chunk.features.rows(at, at + 1), chunk.tasks[at])
        yield {**row, "reasons": found.summary(top)}


def answered(model: Model, chunk: Block) -> Predictions:
    """What a model predicts for a chunk; numbers have no probabilities (NaN)."""
    margins = model.margins(chunk.features, chunk.tasks)
    if model.engine.target.kind == "number":
        return Predictions(margins, np.full(len(margins), np.nan))
    return Predictions(margins, model.engine.probability_of(margins))


def chunks(events: Blocks, source: Source) -> Iterator[Block]:
    """Blocks to the end; trouble is raised after what came before it."""
    while True:
        chunk, trouble = events.take(CHUNK)
        if trouble is None:
            events.prepare(CHUNK)
        if len(chunk):
            yield from _usable(chunk, events, source)
        if trouble is not None:
            raise trouble
        if not len(chunk):
            return


def _usable(chunk: Block, events: Blocks, source: Source) -> Iterator[Block]:
    """A chunk; if a number in it is too large, the rows without such one, or BadRow."""
    if _small(chunk.features.values):
        yield chunk
        return
    for at in range(len(chunk)):
        one = chunk.rows(at, at + 1)
        if _small(one.features.values):
            yield one
        elif source.skip_bad:
            events.skipped += 1
        else:
            largest = float(np.abs(one.features.values).max())
            why = f"a feature is {largest:g} in size; at most {LARGEST_FEATURE:g} can be used"
            raise BadRow(source.path, one.lines[0], None, why)


def _small(values: Numbers) -> bool:
    return bool((np.abs(values) <= LARGEST_FEATURE).all())


def _bounds(model: Model, chunk: Block) -> Numbers | None:
    """Bounds of nine answers in ten, where the learner gives them."""
    if model.engine.target.kind != "number" or not isinstance(model.engine.learner, GivesIntervals):
        return None
    return model.intervals(chunk.features, chunk.tasks, 0.9)


def told(
    model: LabelNames, events: Named, answers: Predictions, bounds: Numbers | None = None
) -> Iterator[dict[str, Any]]:
    r"""Answers in the one form that files, JSON and Python share.

    ``line`` and ``task`` say which event; ``predicted`` is the label that was answered,
    ``probability`` that of the label named ``positive``, ``margin`` above 0 where that is
    predicted; ``label`` is the true one, and there only where it is known. Of many classes there
    are ``probabilities`` instead, of numbers the bounds ``low`` and ``high`` if they are given.

    >>> import io
    >>> from romco.io.blocks import read_blocks
    >>> table = io.BytesIO(b"user,kind,age\nann,ham,3\n")
    >>> block, _ = read_blocks(table, "user", "kind", format="csv").take(1)
    >>> model = Model("pa-unique", classes=("ham", "spam"))
    >>> [row] = told(model, block, Predictions(np.ones(1), np.full(1, 0.7)))
    >>> row  # doctest: +NORMALIZE_WHITESPACE
    {'line': 2, 'task': 'ann', 'predicted': 'spam', 'probability': 0.7, 'positive': 'spam',
     'margin': 1.0, 'label': 'ham'}
    """
    if not isinstance(model, Model) or model.engine.target.kind == "two classes":
        rows = _sided(model, answers)
    elif model.engine.target.kind == "classes":
        rows = _classed(model, answers)
    else:
        rows = _numbered(model, answers, bounds)
    parts = zip(events.lines, events.tasks, events.labels, rows, strict=True)
    for line, task, label, answer in parts:
        row = {"line": line, "task": task, **answer}
        yield row if label is None else {**row, "label": label}


def _sided(model: LabelNames, answers: Predictions) -> Iterator[dict[str, Any]]:
    """Of two classes: what is predicted, and how probable the positive label is."""
    negative, positive = model.engine.label_of(-1.0), model.engine.label_of(1.0)
    for margin, chance in zip(*(part.tolist() for part in answers), strict=True):
        yield {
            "predicted": positive if margin >= 0.0 else negative,
            "probability": chance,
            "positive": model.engine.positive,
            "margin": margin,
        }


def _classed(model: Model, answers: Predictions) -> Iterator[dict[str, Any]]:
    """Of many classes: what is predicted, and how probable each is."""
    names, predicted = (
        list(map(str, model.classes)),
        model.engine.labels_of(answers.margins).tolist(),
    )
    for one, chances in zip(predicted, answers.probabilities.tolist(), strict=True):
        yield {"predicted": one, "probabilities": dict(zip(names, chances, strict=True))}


def _numbered(
    model: Model, answers: Predictions, bounds: Numbers | None
) -> Iterator[dict[str, Any]]:
    """A number, and its bounds where there are some."""
    for at, predicted in enumerate(model.engine.labels_of(answers.margins).tolist()):
        found = {"predicted": predicted}
        if bounds is not None:
            found["low"], found["high"] = bounds[at].tolist()
        yield found
