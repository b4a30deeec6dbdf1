"""Scores of many classes: a confusion table, log loss, Brier score, calibration."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.evaluation.sums import LEAST, Reliability, in_order, surprise
from romco.rounds import Round

Numbers = NDArray[np.float64]


def likeliest(scores: Numbers) -> NDArray[np.intp]:
    """The class (n,) of the largest score; of equal ones the last, as a margin of 0 is +1.

    >>> likeliest(np.array([[0.0, 0.0, -1.0]]))
    array([1])
    """
    return scores.shape[1] - 1 - np.argmax(scores[:, ::-1], axis=1)


@final
class ClassTable:
    """How often each class (row) was answered by each (column); error and F1 come from it.

    Metrics of many classes take rounds whose y are class numbers, and log-probabilities (n, K).

    Parameters
    ----------
    n_classes:
        How many classes there are at first.

    >>> table = ClassTable(3)
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([2.0, 0.0]))
    >>> table.add(round, np.log([[0.1, 0.2, 0.7], [0.3, 0.4, 0.3]]))
    >>> table.value()["error"], round.y.tolist(), table.counts[0].tolist()
    (0.5, [2.0, 0.0], [0, 1, 0])

    """

    def __init__(self, n_classes: int) -> None:
        self.counts = np.zeros((n_classes, n_classes), dtype=np.int64)

    def add(self, round: Round, scores: Numbers) -> None:
        """Count a round.

        Parameters
        ----------
        round:
            Events with their answers y (n,): class numbers.
        scores:
            What was predicted of them before: log-probabilities (n, K).

        """
        self.add_answers(round.y.astype(np.intp), likeliest(scores))

    def add_answers(self, truth: NDArray[np.intp], answer: NDArray[np.intp]) -> None:
        """Count classes (n,) and what was answered; the table grows where there are more.

        Parameters
        ----------
        truth:
            Numbers (n,) of the true classes.
        answer:
            Numbers (n,) of the answered ones.

        """
        more = max(truth.max(initial=-1), answer.max(initial=-1)) + 1 - len(self.counts)
        if more > 0:
            self.counts = np.pad(self.counts, (0, more))
        np.add.at(self.counts, (truth, answer), 1)

    def f1(self) -> Numbers:
        """F1 (K,) of each class; 0 where it was never answered rightly, NaN where it never came.

        Returns
        -------
        :
            From 0 to 1, one per class.

        """
        hit = np.diag(self.counts).astype(float)
        came, answered = self.counts.sum(axis=1), self.counts.sum(axis=0)
        return np.where(came > 0, 2.0 * hit / np.maximum(came + answered, 1), np.nan)

    def value(self) -> dict[str, Any]:
        """Error, F1 averaged over the classes that came, and the table.

        Returns
        -------
        :
            "error", "f1_macro" and "table".

        """
        total, f1 = self.counts.sum(), self.f1()
        return {
            "error": float(1.0 - np.trace(self.counts) / total) if total else float("nan"),
            "f1_macro": float(np.nanmean(f1)) if total else float("nan"),
            "table": self.counts.tolist(),
        }


@final
class LogLoss:
    """Mean of -log of the probability that the class which came was given.

    >>> metric = LogLoss()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([0.0, 1.0]))
    >>> metric.add(round, np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]))
    >>> float(np.exp(-metric.value()))
    0.5

    """

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def add(self, round: Round, scores: Numbers) -> None:
        """Add a round.

        Parameters
        ----------
        round:
            Events with their answers y (n,): class numbers.
        scores:
            What was predicted of them before: log-probabilities (n, K).

        """
        given = scores[np.arange(len(round.y)), round.y.astype(np.intp)]
        self._add(-np.maximum(given, np.log(LEAST)))

    def add_chances(self, chances: Numbers) -> None:
        """Add probabilities (n,) that were given to what came true.

        Parameters
        ----------
        chances:
            From 0 to 1 (n,).

        """
        self._add(surprise(chances))

    def _add(self, losses: Numbers) -> None:
        self.total = float(in_order(self.total, losses))
        self.n += len(losses)

    def value(self) -> float:
        """The mean so far.

        Returns
        -------
        :
            0 before the first event.

        """
        return self.total / max(self.n, 1)


@final
class Brier:
    """Mean squared distance of the probabilities from what came: 0 at best, 2 at worst.

    >>> metric = Brier()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([0.0, 1.0]))
    >>> metric.add(round, np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]))
    >>> metric.value()
    0.375

    """

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def add(self, round: Round, scores: Numbers) -> None:
        """Add a round.

        Parameters
        ----------
        round:
            Events with their answers y (n,): class numbers.
        scores:
            What was predicted of them before: log-probabilities (n, K).

        """
        distance = np.exp(scores)
        distance[np.arange(len(round.y)), round.y.astype(np.intp)] -= 1.0
        self.total += float(np.square(distance).sum())
        self.n += len(distance)

    def value(self) -> float:
        """The mean so far.

        Returns
        -------
        :
            0 before the first event.

        """
        return self.total / max(self.n, 1)


@final
class Calibration:
    """Expected calibration error: how far the stated chance of being right is from being right.

    Answers are sorted into ``bins`` of stated probability; the gaps are averaged by their size.

    Parameters
    ----------
    bins:
        How many.

    >>> metric = Calibration()
    >>> round = Round(np.array([0, 0]), np.eye(2), np.array([0.0, 2.0]))
    >>> metric.add(round, np.log([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]))
    >>> metric.value()  # half of the answers were right, as stated
    0.0

    """

    def __init__(self, bins: int = 15) -> None:
        self.reliability = Reliability(bins)

    def add(self, round: Round, scores: Numbers) -> None:
        """Add a round.

        Parameters
        ----------
        round:
            Events with their answers y (n,): class numbers.
        scores:
            What was predicted of them before: log-probabilities (n, K).

        """
        answer = likeliest(scores)
        stated = np.exp(scores[np.arange(len(answer)), answer])
        self.reliability.add(stated, answer == round.y)

    def value(self) -> float:
        """The mean gap so far.

        Returns
        -------
        :
            From 0 to 1.

        """
        return self.reliability.gap()
