"""Evaluate a model on the labelled events of a file."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.evaluation import Score
from romco.io.formats import BadRow
from romco.io.reader import Block, Source
from romco.model import Model
from romco.model.names import canonical_name
from romco.model.target import Predictions
from romco.runs.predict import answers_of, usable_blocks
from romco.runs.resume import events_learned


@dataclass
class Evaluation:
    """Scores of answers to labelled events, of all events and by task."""

    model: Model
    whole: Any = None  # the score of all
    tasks: dict[str, Any] = field(default_factory=dict)  # without curves, which take memory
    skipped: int = 0  # bad rows
    learned: int = 0  # of the file's first events: learned by the model before
    weight_sum: float = 0.0
    weighted_loss: float = 0.0

    def __post_init__(self) -> None:
        self.whole = Score.of(self.model)

    def add(self, events: Block, answers: Predictions, known: Sequence[int]) -> None:
        """Count the ``known`` events: those whose label is one of the model's."""
        self._count(self.whole, events, answers, known)
        if events.weights is not None and known:
            self._add_weights(events, answers, known, events.weights[known])
        places: dict[str, list[int]] = {}
        for at in known:
            places.setdefault(events.tasks[at], []).append(at)
        for task, some in places.items():
            if task not in self.tasks:
                self.tasks[task] = Score.of(self.model, curve=False)
            self._count(self.tasks[task], events, answers, some)

    def summary(self) -> dict[str, Any]:
        """Return all numbers by name; ``error`` is by events, ``error_by_tasks`` over tasks."""
        whole = self.whole.summary()
        name = "rmse" if self.model.engine.target.kind == "number" else "error"
        tasks = {task: score.summary() for task, score in self.tasks.items()}
        by_tasks = float(np.mean([score[name] for score in tasks.values()])) if tasks else None
        learned = {"events_learned_before": self.learned}
        return {**whole, f"{name}_by_tasks": by_tasks, **self.weighted(), **learned, "tasks": tasks}

    def weighted(self) -> dict[str, float]:
        """Return the error, or root mean squared error, by weight; nothing without weights."""
        if not self.weight_sum:
            return {}
        mean = self.weighted_loss / self.weight_sum
        if self.model.engine.target.kind == "number":
            return {"weighted_rmse": float(np.sqrt(mean))}
        return {"weighted_error": mean}

    def _add_weights(
        self, events: Block, answers: Predictions, known: Sequence[int], weight: NDArray[np.float64]
    ) -> None:
        good = np.isfinite(weight) & (weight >= 0.0)
        if not good.all():
            line = events.lines[known[int(np.argmin(good))]]
            raise ValueError(f"line {line}: a weight must be 0 or a positive number")
        labels = [events.labels[at] for at in known]
        if self.model.engine.target.kind == "number":
            truth = np.array([self.model.engine.number_of(label) for label in labels])
            losses = np.square(answers.margins[known] - truth)
        else:
            predicted = self.model.engine.labels_of(answers.margins[known]).tolist()
            pairs = zip(predicted, labels, strict=True)
            losses = np.array([float(canonical_name(a) != canonical_name(b)) for a, b in pairs])
        self.weight_sum += float(weight.sum())
        self.weighted_loss += float(weight @ losses)

    def _count(self, score: Score, events: Block, answers: Predictions, at: Sequence[int]) -> None:
        if at:
            some = Predictions(answers.margins[at], answers.probabilities[at])
            score.count(self.model, [events.labels[i] for i in at], some)


def evaluate(model: Model, source: Source) -> Evaluation:
    """Return scores of a labelled source, of all events and by task; learns nothing."""
    source = source.resolve_to_predict(model.schema)
    found = Evaluation(model, learned=events_learned(model.session, source.path))
    with source.open() as reader:
        for block in usable_blocks(reader, source):
            known = _known(model, source, block)
            found.add(block, _answers(model, block), known)
            found.skipped += len(block) - len(known)
        found.skipped += reader.skipped
        return found


def _answers(model: Model, block: Block) -> Predictions:
    """Predict a block; with a history, each label enters it once its event is predicted."""
    if model.engine.history is None:
        return answers_of(model, block)
    return model.engine.predict_and_observe(
        block.features, block.tasks, block.offsets, block.labels
    )


def _known(model: Model, source: Source, block: Block) -> list[int]:
    """Return where a block has labels that the model knows; BadRow if others are not skipped."""
    unknown = set()
    for label in dict.fromkeys(block.labels):
        try:
            model.engine.number_of(label)
        except ValueError as error:
            if not source.skip_bad:
                column = source.schema.label if source.schema else None
                line = block.lines[list(block.labels).index(label)]
                raise BadRow(source.path, line, column, str(error)) from None
            unknown.add(label)
    return [at for at, label in enumerate(block.labels) if label not in unknown]
