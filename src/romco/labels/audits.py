"""What a small random sample of labels tells about all predictions: error, log loss, intervals."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from romco.parameters import not_negative, whole
from romco.rounds import Round

Z = 1.959963984540054  # of a 95 % interval
KEPT = "audit"  # under which a model's memory keeps one
ENOUGH = 20  # labels of a task before anything is said of it alone


class Estimate(NamedTuple):
    """A mean over all events, from those audited, with its 95 % interval.

    Parameters
    ----------
    value:
        The mean.
    low, high:
        Bounds of its 95 % interval.
    labels:
        How many labels it is told from.

    >>> str(Estimate(0.1, 0.05, 0.18, 120))
    '10.00% [5.00%, 18.00%] from 120 labels'

    """

    value: float
    low: float
    high: float
    labels: int  # audited

    def __str__(self) -> str:
        return f"{self.value:.2%} [{self.low:.2%}, {self.high:.2%}] from {self.labels:,} labels"


@final
class Audit:
    """Errors of the predictions whose labels were asked for by chance alone.

    Labels that a policy asks for because it doubts them are no fair sample: among them errors are
    common. Audited events are drawn without a look at the margin, so that their mean is an
    unbiased estimate for all events, the unlabelled ones included.

    >>> audit = Audit()
    >>> for wrong in (0, 0, 0, 1):
    ...     audit.add(task=0, wrong=wrong, loss=0.3)
    >>> audit.error().value, audit.error().labels
    (0.25, 4)
    """

    def __init__(self) -> None:
        self._tasks: dict[int, list[float]] = {}  # labels, wrong, sum and sum of squares of losses

    def add(self, task: int, wrong: float, loss: float) -> None:
        """Count an audited event: was the prediction wrong, and its log loss.

        Parameters
        ----------
        task:
            Its number.
        wrong:
            1 where the prediction was wrong, else 0.
        loss:
            Log loss of the prediction.

        """
        counts = self._tasks.setdefault(task, [0.0, 0.0, 0.0, 0.0])
        for k, more in enumerate((1.0, wrong, loss, loss * loss)):
            counts[k] += more

    def add_round(
        self, round: Round, margins: NDArray[np.float64], audited: NDArray[np.bool_]
    ) -> None:
        """Count the audited events of a round of two classes whose labels are known.

        Parameters
        ----------
        round:
            Events of two classes, y (n,) NaN where a label is unknown.
        margins:
            Log-odds (n,) that were predicted before.
        audited:
            Which of them (n,) were asked for by chance alone.

        """
        at = np.flatnonzero(audited & ~np.isnan(round.y))
        self.add_answers(round.task[at], round.y[at], margins[at])

    def add_answers(
        self, task: NDArray[np.int64], y: NDArray[np.float64], margins: NDArray[np.float64]
    ) -> None:
        """Count audited events of two classes: labels -1 or +1, and log-odds predicted before.

        Parameters
        ----------
        task:
            Numbers (n,) of their tasks.
        y:
            Labels (n,), -1 or +1.
        margins:
            Log-odds (n,) that were predicted before.

        """
        wrong = np.where(margins >= 0.0, 1.0, -1.0) != y
        losses = np.logaddexp(0.0, -y * margins)
        for each, mistake, loss in zip(task.tolist(), wrong, losses.tolist(), strict=True):
            self.add(each, float(mistake), loss)

    def error(self, task: int | None = None) -> Estimate | None:
        """Error of all predictions, or of a task's; None where too little is known.

        The interval is Wilson's.

        Parameters
        ----------
        task:
            Its number; None for all tasks together.

        Returns
        -------
        :
            The estimate; None without a label, and of a single task with fewer than 20.

        """
        found = self._counts(task)
        if found is None:
            return None
        n, wrong = found[:2]
        share, z2 = wrong / n, Z * Z
        middle = (share + z2 / (2 * n)) / (1 + z2 / n)
        half = Z * sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        low = middle - half if wrong > 0.0 else 0.0  # not what rounding leaves
        high = middle + half if wrong < n else 1.0
        return Estimate(share, max(0.0, low), min(1.0, high), int(n))

    def log_loss(self, task: int | None = None) -> Estimate | None:
        """Mean log loss of all predictions, or of a task's, by the central limit theorem.

        Parameters
        ----------
        task:
            Its number; None for all tasks together.

        Returns
        -------
        :
            The estimate; None with fewer than two labels, and of a single task with fewer than 20.

        """
        found = self._counts(task)
        if found is None or found[0] < 2:
            return None
        n, _, total, squares = found
        mean = total / n
        half = Z * sqrt(max(0.0, squares / n - mean * mean) / (n - 1))
        return Estimate(mean, max(0.0, mean - half), mean + half, int(n))

    def tasks(self) -> list[int]:
        """Tasks of which enough is known to speak of each.

        Returns
        -------
        :
            Their numbers, sorted: those with 20 audited labels or more.

        """
        return sorted(task for task, counts in self._tasks.items() if counts[0] >= ENOUGH)

    def state(self) -> list[list[float]]:
        """A copy of everything, as JSON has it.

        Returns
        -------
        :
            One list per task: its number, labels, errors, sum and sum of squares of losses.

        """
        return [[task, *counts] for task, counts in sorted(self._tasks.items())]

    @classmethod
    def from_state(cls, state: list[list[float]]) -> Audit:
        """What gave ``state``.

        Parameters
        ----------
        state:
            What :meth:`state` gave.

        Returns
        -------
        :
            An audit that goes on from there.

        Raises
        ------
        ValueError
            Where it is the state of no audit.

        """
        made = cls()
        try:
            for task, *counts in state:
                labels, wrong, total, squares = (not_negative("audit", c) for c in counts)
                if wrong > labels:
                    raise ValueError(f"{wrong:g} of {labels:g} labels were wrong")
                made._tasks[whole("task", task, least=-1)] = [labels, wrong, total, squares]
        except (TypeError, ValueError) as error:
            raise ValueError(f"this is not the state of an audit: {error}") from None
        return made

    def _counts(self, task: int | None) -> list[float] | None:
        if task is None:
            sums = [sum(counts[k] for counts in self._tasks.values()) for k in range(4)]
            return sums if sums[0] else None
        counts = self._tasks.get(task)
        return counts if counts is not None and counts[0] >= ENOUGH else None


def audit_of(memory: Mapping[str, Any]) -> Audit:
    """The audit in a model's memory; an empty one where there is none.

    >>> audit_of({}).error() is None
    True
    """
    return Audit.from_state(memory.get(KEPT, []))


def summary(audit: Audit) -> Mapping[str, Any]:
    """Error and log loss of all predictions as plain numbers, for records and pages."""
    found = {"error": audit.error(), "log_loss": audit.log_loss()}
    return {name: None if each is None else each._asdict() for name, each in found.items()}
