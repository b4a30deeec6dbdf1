"""Scores of a stream, kept up event by event; each is a small object with ``add`` and ``value``."""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.learners.capabilities import Decomposed
from romco.losses import Hinge
from romco.rounds import Round

Numbers = NDArray[np.float64]


class Metric(Protocol):
    """Something that is kept up along a stream.

    One of one's own, the number of events:

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

    def add(self, round: Round, scores: Numbers) -> None:
        """Take in a round and the margins predicted for it before it was learned.

        Parameters
        ----------
        round:
            Events with their answers y (n,): as the learner has them.
        scores:
            What was predicted of them before: as the learner gave it, (n,) or (n, K).

        """

    def value(self) -> Any:
        """What stands so far: a number, or a list with one number per task.

        Returns
        -------
        :
            What JSON can hold.

        """


def answers(scores: Numbers) -> Numbers:
    """-1 or +1; a margin of exactly 0 predicts +1.

    Parameters
    ----------
    scores:
        Margins, of any shape.

    Returns
    -------
    :
        -1 or +1, of the same shape.

    >>> answers(np.array([0.0, -2.0]))
    array([ 1., -1.])

    """
    return np.where(scores >= 0.0, 1.0, -1.0)


class Confusion:
    """Right and wrong answers of each class, for each task; error rates and F1 come from it.

    Parameters
    ----------
    n_tasks:
        How many tasks the rounds are of.

    >>> confusion = Confusion(n_tasks=2)
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, -1.0]))
    >>> confusion.add(round, scores=np.array([0.0, 1.0]))
    >>> confusion.error()
    array([0.5, nan])

    """

    def __init__(self, n_tasks: int) -> None:
        self.counts = np.zeros((n_tasks, 2, 2), dtype=np.int64)  # task, truth, answer

    def add(self, round: Round, scores: Numbers) -> None:
        """Count a round.

        Parameters
        ----------
        round:
            Events with their answers y (n,): -1 or +1.
        scores:
            What was predicted of them before: margins (n,).

        """
        truth, answer = (round.y > 0).astype(int), (scores >= 0.0).astype(int)
        np.add.at(self.counts, (round.task, truth, answer), 1)

    def error(self) -> Numbers:
        """Cumulative error rate (m,); NaN for a task without events.

        Returns
        -------
        :
            From 0 to 1, one per task.

        """
        wrong = self.counts[:, 0, 1] + self.counts[:, 1, 0]
        return _ratio(wrong, self.counts.sum(axis=(1, 2)), empty=np.nan)

    def f1(self, label: int) -> Numbers:
        """F1 (m,) of the class +1 or -1; 0 where it is undefined, NaN without events.

        Parameters
        ----------
        label:
            +1 or -1.

        Returns
        -------
        :
            From 0 to 1, one per task.

        """
        c = 1 if label > 0 else 0
        hit = self.counts[:, c, c]
        other = self.counts[:, c, 1 - c] + self.counts[:, 1 - c, c]
        f1 = _ratio(2 * hit, 2 * hit + other, empty=0.0)
        return np.where(self.counts.sum(axis=(1, 2)) > 0, f1, np.nan)

    def value(self) -> dict[str, Any]:
        """Error and both F1 per task, macro averages over tasks, micro error over events.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        per_task = {"error": self.error(), "f1_positive": self.f1(1), "f1_negative": self.f1(-1)}
        wrong = self.counts[:, 0, 1].sum() + self.counts[:, 1, 0].sum()
        return {
            **{f"{name}_per_task": _listed(values) for name, values in per_task.items()},
            **{name: _mean(values) for name, values in per_task.items()},
            "error_micro": float(wrong / max(self.counts.sum(), 1)),
        }


class MeanLoss:
    """Mean hinge loss of the events so far.

    >>> metric = MeanLoss()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([1.0, -1.0]))
    >>> metric.add(round, np.array([0.5, -3.0]))
    >>> metric.value()
    0.25

    """

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def add(self, round: Round, scores: Numbers) -> None:
        """Add a round's losses.

        Parameters
        ----------
        round:
            Events with their answers y (n,): -1 or +1.
        scores:
            What was predicted of them before: margins (n,).

        """
        self.total += float(Hinge().value(scores, round.y).sum())
        self.n += len(scores)

    def value(self) -> float:
        """The mean so far.

        Returns
        -------
        :
            0 before the first event.

        """
        return self.total / max(self.n, 1)


class Structure:
    """What a learner with U and V has found so far; read from the learner, not from events.

    Parameters
    ----------
    learner:
        The learner that is scored, one that keeps U and V apart.

    >>> import romco
    >>> metric = Structure(romco.learner("romco-nucl", 3, 2))
    >>> metric.value()["rank"]
    0

    """

    def __init__(self, learner: Decomposed) -> None:
        self.learner = learner

    def add(self, round: Round, scores: Numbers) -> None:
        """Nothing to count.

        Parameters
        ----------
        round:
            Not looked at.
        scores:
            Not looked at.

        """

    def value(self) -> dict[str, Any]:
        """Rank and spectrum of U, lengths of V's columns, and U's share of the two.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        spectrum, norms = self.learner.singular_values(), self.learner.personal_norms()
        shared, personal = float(np.sum(spectrum**2)), float(np.sum(norms**2))
        return {
            "rank": len(spectrum),
            "spectrum": _listed(spectrum),
            "personal_norms": _listed(norms),
            "shared_share": shared / (shared + personal) if shared + personal > 0 else 0.0,
        }


class Seconds:
    """Wall time since the metric was made, without what metrics themselves take elsewhere.

    >>> Seconds().value() < 60.0
    True

    """

    def __init__(self) -> None:
        self.begin = time.perf_counter()

    def add(self, round: Round, scores: Numbers) -> None:
        """Nothing to count.

        Parameters
        ----------
        round:
            Not looked at.
        scores:
            Not looked at.

        """

    def value(self) -> float:
        """Seconds so far.

        Returns
        -------
        :
            Of wall time.

        """
        return time.perf_counter() - self.begin


def _ratio(over: Any, under: Any, empty: float) -> Numbers:
    return np.divide(over, under, out=np.full(len(under), empty), where=under > 0)


def _mean(values: Numbers) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _listed(values: Numbers) -> list[float | None]:
    """Plain numbers for a JSON line; None where there is nothing to say."""
    return [None if np.isnan(v) else float(v) for v in values]
