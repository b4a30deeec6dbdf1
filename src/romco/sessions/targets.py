"""Scores and answers of models that predict many classes, or numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.model import Model
from romco.model.model import Answers
from romco.model.names import known_as
from romco.model.targets import Kind
from romco.sessions.source import Source
from romco.streams.blocks import Block

Numbers = NDArray[np.float64]
LEAST = 1e-15  # no answer counts as less likely than this
LOOK = 1000  # events among which the kind of target is looked for
MOST_CLASSES = 30  # different whole numbers that are taken for classes, not for numbers


@final
class ClassScore:
    """Which label was answered for which, and how likely the true ones were."""

    kind = "classes"

    def __init__(self) -> None:
        self.table: dict[str, Counter[str]] = {}  # truth, answers
        self.loss, self.usual = 0.0, 0  # sum of log losses; errors of the most frequent label

    def count(self, model: Model, labels: Sequence[Any], answers: Answers) -> None:
        """Count events in order, before which ``answers`` were given."""
        place = {known_as(label): i for i, label in enumerate(model.classes)}
        came: Counter[str] = Counter({label: row.total() for label, row in self.table.items()})
        for i, (label, answer) in enumerate(
            zip(labels, model.answers(answers.margins), strict=True)
        ):
            truth = str(known_as(label))
            self.usual += not came or max(came, key=came.__getitem__) != truth
            came[truth] += 1
            self.table.setdefault(truth, Counter())[str(known_as(answer))] += 1
            given = answers.probabilities[i, place[known_as(label)]]
            self.loss -= float(np.log(max(given, LEAST)))

    @property
    def events(self) -> int:
        """How many were counted."""
        return sum(row.total() for row in self.table.values())

    def summary(self) -> dict[str, Any]:
        """All of it by name."""
        n = max(self.events, 1)
        right = sum(row[label] for label, row in self.table.items())
        answered: Counter[str] = sum(self.table.values(), Counter())
        f1 = [2 * row[k] / (row.total() + answered[k]) for k, row in self.table.items()]
        return {
            "events": self.events,
            "error": 1.0 - right / n,
            "baseline": self.usual / n,
            "log_loss": self.loss / n,
            "f1_macro": float(np.mean(f1)) if f1 else 0.0,
            "table": {label: dict(row) for label, row in self.table.items()},
        }

    def line(self) -> str:
        """For people."""
        s = self.summary()
        return (
            f"error {s['error']:.2%} (baseline {s['baseline']:.2%}), log loss {s['log_loss']:.3f}, "
            f"macro F1 {s['f1_macro']:.3f}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything needed to go on counting."""
        table = {label: dict(row) for label, row in self.table.items()}
        return {"kind": self.kind, "table": table, "loss": self.loss, "usual": self.usual}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> ClassScore:
        """What :meth:`to_json` wrote."""
        score = cls()
        score.table = {label: Counter(row) for label, row in found["table"].items()}
        score.loss, score.usual = found["loss"], found["usual"]
        return score


@final
class NumberScore:
    """How far predicted numbers were off, beside the mean of the numbers so far."""

    kind = "number"

    def __init__(self, sums: list[float] | None = None) -> None:
        # events, absolute and squared errors, squared errors of the mean so far; that mean, spread
        self.sums = sums or [0.0] * 6

    def count(self, model: Model, labels: Sequence[Any], answers: Answers) -> None:
        """Count events in order, before which ``answers`` were given."""
        n, absolute, squares, usual, mean, spread = self.sums
        for label, predicted in zip(labels, answers.margins.tolist(), strict=True):
            y = model.number(label)
            absolute, squares = absolute + abs(y - predicted), squares + (y - predicted) ** 2
            usual, n, step = usual + (y - mean) ** 2, n + 1.0, y - mean
            mean += step / n
            spread += step * (y - mean)
        self.sums = [n, absolute, squares, usual, mean, spread]

    @property
    def events(self) -> int:
        """How many were counted."""
        return int(self.sums[0])

    def summary(self) -> dict[str, Any]:
        """All of it by name."""
        n, absolute, squares, usual, _, spread = self.sums
        n = max(n, 1.0)
        return {
            "events": self.events,
            "rmse": (squares / n) ** 0.5,
            "mae": absolute / n,
            "r2": 1.0 - squares / spread if spread > 0.0 else None,
            "baseline_rmse": (usual / n) ** 0.5,
        }

    def line(self) -> str:
        """For people."""
        s = self.summary()
        r2 = "" if s["r2"] is None else f", R2 {s['r2']:.3f}"
        return f"RMSE {s['rmse']:.4g} (baseline {s['baseline_rmse']:.4g}), MAE {s['mae']:.4g}{r2}"

    def to_json(self) -> dict[str, Any]:
        """Everything needed to go on counting."""
        return {"kind": self.kind, "sums": self.sums}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> NumberScore:
        """What :meth:`to_json` wrote."""
        return cls([float(value) for value in found["sums"]])


OtherScore = ClassScore | NumberScore


def other_score(model: Any, found: Any = None) -> OtherScore | None:
    """The score of a model that predicts no two classes, as far as it got; None for the others."""
    if not isinstance(model, Model) or model.target == "two classes":
        return None
    kind = ClassScore if model.target == "classes" else NumberScore
    return kind.from_json(found) if found else kind()


def told_others(
    model: Model, events: Block, answers: Answers, bounds: Numbers | None = None
) -> Iterator[dict[str, Any]]:
    """Answers as rows: line, task, what is predicted, probabilities or bounds, the true answer."""
    predicted = model.answers(answers.margins).tolist()
    for i, (line, task, label) in enumerate(
        zip(events.lines, events.tasks, events.labels, strict=True)
    ):
        row = {"line": line, "task": task, "predicted": predicted[i]}
        if model.target == "classes":
            chances = answers.probabilities[i].tolist()
            row["probabilities"] = dict(zip(map(str, model.classes), chances, strict=True))
        elif bounds is not None:
            row["low"], row["high"] = bounds[i].tolist()
        yield row if label is None else {**row, "label": label}


def target_of(source: Source) -> Kind | None:
    """What the first answers of a file look like: "classes", "number", or None for two classes."""
    if source.path == "-":
        raise ValueError("a pipe cannot be looked at first: say --target classes or number")
    with source.events() as events:
        labels = {known_as(event.label) for event in islice(events, LOOK)}
    if len(labels) <= 2:
        return None
    return "number" if _numbers(labels) else "classes"


def _numbers(labels: set[Any]) -> bool:
    """Whether labels are numbers, and no few whole ones."""
    try:
        found = [float(label) for label in labels]
    except ValueError:
        return False
    return len(found) > MOST_CLASSES or any(not one.is_integer() for one in found)
