"""Metrics of a stream, updated event by event; each has ``add`` and ``value``."""

from typing import Any, Protocol

import numpy as np

from romco.learners.capabilities import Decomposed
from romco.losses import Hinge
from romco.rounds import Round
from romco.typing import Floats


class Metric(Protocol):
    """A quantity updated along a stream.

    A metric of your own, the number of events:

    >>> class Events:
    ...     def __init__(self):
    ...         self.n = 0
    ...
    ...     def add(self, round, scores):
    ...         self.n += len(scores)
    ...
    ...     def value(self):
    ...         return self.n
    >>> metric: Metric = Events()
    >>> metric.add(Round(np.array([0]), np.eye(1), np.array([1.0])), np.array([0.5]))
    >>> metric.value()
    1
    """

    def add(self, round: Round, scores: Floats) -> None:
        """Add a round and the learner's output (n,) or (n, K) from before it was learned."""

    def value(self) -> Any:
        """Current value, as JSON holds it."""


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


class _Mean:
    """Mean over events."""

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def value(self) -> float:
        """Mean so far; 0 before the first event."""
        return self.total / max(self.n, 1)


class MeanLoss(_Mean):
    """Mean hinge loss.

    >>> metric = MeanLoss()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, -1.0]))
    >>> metric.add(round, np.array([0.5, -3.0]))
    >>> metric.value()
    0.25
    """

    def add(self, round: Round, scores: Floats) -> None:
        """Add a round with y -1 or +1 and its margins (n,)."""
        self.total += float(Hinge().value(scores, round.y).sum())
        self.n += len(scores)


class Brier(_Mean):
    """Mean squared distance of class probabilities from the truth: 0 at best, 2 at worst.

    >>> metric = Brier()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([0.0, 1.0]))
    >>> metric.add(round, np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]))
    >>> metric.value()
    0.375
    """

    def add(self, round: Round, scores: Floats) -> None:
        """Add a round whose y are class numbers, with log-probabilities (n, K)."""
        distance = np.exp(scores)
        distance[np.arange(len(round.y)), round.y.astype(np.intp)] -= 1.0
        self.total += float(np.square(distance).sum())
        self.n += len(distance)


class Coverage:
    """Share of numbers inside their predicted intervals, and the mean width of these.

    >>> coverage = Coverage()
    >>> coverage.add_bounds(np.array([1.0, 5.0]), np.array([[0.0, 2.0], [0.0, 2.0]]))
    >>> coverage.value()
    {'coverage': 0.5, 'width': 2.0}
    """

    def __init__(self) -> None:
        self.n, self.inside, self.width = 0, 0, 0.0

    def add_bounds(self, y: Floats, bounds: Floats) -> None:
        """Count numbers (n,) and the bounds (n, 2) predicted before they were known."""
        self.n += len(y)
        self.inside += int(np.count_nonzero((bounds[:, 0] <= y) & (y <= bounds[:, 1])))
        self.width += float((bounds[:, 1] - bounds[:, 0]).sum())

    def value(self) -> dict[str, float]:
        """Coverage from 0 to 1, and mean width."""
        n = max(self.n, 1)
        return {"coverage": self.inside / n, "width": self.width / n}


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
        return {
            "rank": len(spectrum),
            "spectrum": _json_list(spectrum),
            "personal_norms": _json_list(norms),
            "shared_share": shared / (shared + personal) if shared + personal > 0 else 0.0,
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
    return [None if np.isnan(v) else float(v) for v in values]
