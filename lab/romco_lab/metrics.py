"""Metrics of the paper: errors and F1 by task, hinge loss, rank and sizes of U and V."""

from typing import Any

import numpy as np

from romco.learners.capabilities import Decomposed
from romco.losses import Hinge
from romco.rounds import Round
from romco.typing import Floats


class Confusion:
    """Confusion table of two classes for each task; error rates and F1 follow from it.

    >>> confusion = Confusion(n_tasks=2)
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, -1.0]))
    >>> confusion.add(round, scores=np.array([0.0, 1.0]))
    >>> confusion.error()
    array([0.5, nan])
    """

    def __init__(self, n_tasks: int) -> None:
        self.counts = np.zeros((n_tasks, 2, 2), dtype=np.int64)  # task, truth, answer

    def add(self, round: Round, scores: Floats) -> None:
        """Count a round with y -1 or +1 and its margins (n,)."""
        truth = (round.y > 0).astype(int)
        answer = (scores >= 0.0).astype(int)
        np.add.at(self.counts, (round.task, truth, answer), 1)

    def error(self) -> Floats:
        """Error rate (m,) of each task; NaN without events."""
        wrong = self.counts[:, 0, 1] + self.counts[:, 1, 0]
        return _ratio(wrong, self.counts.sum(axis=(1, 2)), empty=np.nan)

    def f1(self, label: int) -> Floats:
        """F1 (m,) of the class +1 or -1; 0 where it is undefined, NaN without events."""
        c = int(label > 0)
        hit = self.counts[:, c, c]
        other = self.counts[:, c, 1 - c] + self.counts[:, 1 - c, c]
        f1 = _ratio(2 * hit, 2 * hit + other, empty=0.0)
        return np.where(self.counts.sum(axis=(1, 2)) > 0, f1, np.nan)

    def value(self) -> dict[str, Any]:
        """Error and both F1 per task, their means over tasks, and the error over all events."""
        per_task = {"error": self.error(), "f1_positive": self.f1(1), "f1_negative": self.f1(-1)}
        wrong = self.counts[:, 0, 1].sum() + self.counts[:, 1, 0].sum()
        figures: dict[str, Any] = {"error_micro": float(wrong / max(self.counts.sum(), 1))}
        for name, values in per_task.items():
            figures[f"{name}_per_task"] = _json_list(values)
            figures[name] = _mean(values)
        return figures


class MeanLoss:
    """Mean hinge loss.

    >>> metric = MeanLoss()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, -1.0]))
    >>> metric.add(round, np.array([0.5, -3.0]))
    >>> metric.value()
    0.25
    """

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def add(self, round: Round, scores: Floats) -> None:
        """Add a round with y -1 or +1 and its margins (n,)."""
        self.total += float(Hinge().value(scores, round.y).sum())
        self.n += len(scores)

    def value(self) -> float:
        """Mean so far; 0 before the first event."""
        return self.total / max(self.n, 1)


class Structure:
    """Rank and size of U and V, read from the learner.

    >>> import romco
    >>> metric = Structure(romco.learner("romco-nucl", 3, 2))
    >>> metric.value()["rank"]
    0
    """

    def __init__(self, learner: Decomposed) -> None:
        self.learner = learner

    def add(self, round: Round, scores: Floats) -> None:
        """Do nothing: the learner is read when the value is."""

    def value(self) -> dict[str, Any]:
        """Rank and spectrum of U, norms of V's columns, and U's share of the squared norm."""
        spectrum = self.learner.singular_values()
        norms = self.learner.personal_norms()
        shared = float(np.sum(spectrum**2))
        personal = float(np.sum(norms**2))
        share = 0.0
        if shared + personal > 0:
            share = shared / (shared + personal)
        return {
            "rank": len(spectrum),
            "spectrum": _json_list(spectrum),
            "personal_norms": _json_list(norms),
            "shared_share": share,
        }


def _ratio(over: Any, under: Any, empty: float) -> Floats:
    return np.divide(over, under, out=np.full(len(under), empty), where=under > 0)


def _mean(values: Floats) -> float:
    numbers = values[~np.isnan(values)]
    if len(numbers):
        return float(numbers.mean())
    return float("nan")


def _json_list(values: Floats) -> list[float | None]:
    """Plain floats for JSON; None in place of NaN."""
    numbers: list[float | None] = []
    for value in values.tolist():
        if np.isnan(value):
            value = None
        numbers.append(value)
    return numbers
