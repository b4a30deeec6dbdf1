"""How good a model's answers to the events of a file are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.evaluation import Score
from romco.io.blocks import Block
from romco.io.files import BadRow
from romco.model import Model
from romco.model.answers import Answers
from romco.model.names import known_as
from romco.runs.answers import answered, chunks
from romco.runs.source import Source, remembered

Numbers = NDArray[np.float64]


@final
@dataclass
class Evaluation:
    """How good answers to labelled events were."""

    model: Model
    whole: Any = None  # the score of all
    tasks: dict[str, Any] = field(default_factory=dict)  # without curves, which take room
    skipped: int = 0  # bad rows
    weighed: tuple[float, float] = (0.0, 0.0)  # sum of weights, and of weights times losses

    def __post_init__(self) -> None:
        self.whole = Score.of(self.model)

    def add(self, events: Block, answers: Answers, known: Sequence[int]) -> None:
        """Count the ``known`` ones of events: those whose label is one of the model's."""
        self._count(self.whole, events, answers, known)
        if events.weights is not None and known:
            self._weigh(events, answers, known, events.weights[known])
        places: dict[str, list[int]] = {}
        for at in known:
            places.setdefault(events.tasks[at], []).append(at)
        for task, some in places.items():
            if task not in self.tasks:
                self.tasks[task] = Score.of(self.model, curve=False)
            self._count(self.tasks[task], events, answers, some)

    def weighted(self) -> dict[str, float]:
        """Error, or root mean squared error of numbers, by weight; nothing without weights."""
        total, loss = self.weighed
        if not total:
            return {}
        if self.model.target == "number":
            return {"weighted_rmse": float(np.sqrt(loss / total))}
        return {"weighted_error": loss / total}

    def _weigh(
        self, events: Block, answers: Answers, known: Sequence[int], weight: Numbers
    ) -> None:
        if not (np.isfinite(weight) & (weight >= 0.0)).all():
            line = events.lines[known[int(np.argmin(np.isfinite(weight) & (weight >= 0.0)))]]
            raise ValueError(f"line {line}: a weight must be 0 or a positive number")
        if self.model.target == "number":
            truth = np.array([self.model.number(events.labels[at]) for at in known])
            losses = np.square(answers.margins[known] - truth)
        else:
            said = self.model.answers(answers.margins[known]).tolist()
            right = [events.labels[at] for at in known]
            pairs = zip(said, right, strict=True)
            losses = np.array([float(known_as(a) != known_as(b)) for a, b in pairs])
        total, loss = self.weighed
        self.weighed = total + float(weight.sum()), loss + float(weight @ losses)

    def _count(self, score: Score, events: Block, answers: Answers, at: Sequence[int]) -> None:
        if at:
            some = Answers(answers.margins[at], answers.probabilities[at])
            score.count(self.model, [events.labels[i] for i in at], some)


def evaluate(model: Model, source: Source) -> Evaluation:
    """Scores of a labelled source, of all and by task; learns nothing."""
    source = remembered(model, source, labelled=True)
    found = Evaluation(model)
    with source.blocks() as events:
        for chunk in chunks(events, source):
            known = _known(model, source, chunk)
            found.add(chunk, answered(model, chunk), known)
            found.skipped += len(chunk) - len(known)
        found.skipped += events.skipped
        return found


def _known(model: Model, source: Source, chunk: Block) -> list[int]:
    """Where a chunk has answers that the model understands; BadRow if others are not skipped."""
    known = []
    wrong: dict[Any, ValueError | None] = {}
    for at, label in enumerate(chunk.labels):
        if label not in wrong:
            wrong[label] = _trouble(model, label)
        error = wrong[label]
        if error is None:
            known.append(at)
        elif not source.skip_bad:
            raise BadRow(source.path, chunk.lines[at], source.label, str(error))
    return known


def _trouble(model: Model, label: Any) -> ValueError | None:
    try:
        model.number(label)
    except ValueError as error:
        return error
    return None
