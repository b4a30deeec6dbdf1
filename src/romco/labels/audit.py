"""Error and log loss of all predictions, estimated from a small random sample of labels."""

from collections.abc import Mapping
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.labels.policies import Policy
from romco.parameters import not_negative, whole
from romco.rounds import Round

Z_95 = 1.959963984540054  # quantile of a 95 % interval
AUDIT_KEY = "audit"  # where a model's session holds its audit
MIN_TASK_LABELS = 20  # labels of a task before it has an estimate of its own


class Estimate(NamedTuple):
    """Mean over all events, from the audited ones, with its 95 % interval.

    >>> str(Estimate(0.1, 0.05, 0.18, 120))
    '10.00% [5.00%, 18.00%] from 120 labels'
    """

    value: float
    low: float
    high: float
    labels: int  # audited

    def __str__(self) -> str:
        return f"{self.value:.2%} [{self.low:.2%}, {self.high:.2%}] from {self.labels:,} labels"


class Audit:
    """Errors of the predictions whose labels were asked for at random.

    Labels that a policy asks for because it doubts them are no fair sample: errors are common
    among them. Audited events are drawn without a look at the margin, so that their mean is an
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
        """Count an audited event: ``wrong`` is 0 or 1, ``loss`` its log loss."""
        counts = self._tasks.setdefault(task, [0.0, 0.0, 0.0, 0.0])
        for k, more in enumerate((1.0, wrong, loss, loss * loss)):
            counts[k] += more

    def add_round(
        self, round: Round, margins: NDArray[np.float64], audited: NDArray[np.bool_]
    ) -> None:
        """Count the audited events (n,) of a round of two classes whose labels are not NaN."""
        at = np.flatnonzero(audited & ~np.isnan(round.y))
        self.add_answers(round.task[at], round.y[at], margins[at])

    def add_answers(
        self, task: NDArray[np.int64], y: NDArray[np.float64], margins: NDArray[np.float64]
    ) -> None:
        """Count audited events of two classes: labels -1 or +1, and predicted log-odds (n,)."""
        wrong = np.where(margins >= 0.0, 1.0, -1.0) != y
        losses = np.logaddexp(0.0, -y * margins)
        for each, mistake, loss in zip(task.tolist(), wrong, losses.tolist(), strict=True):
            self.add(each, float(mistake), loss)

    def error(self, task: int | None = None) -> Estimate | None:
        """Estimate the error of all predictions, or of a task's, with Wilson's interval.

        None without a label, and for a task with fewer than 20.
        """
        counts = self._counts(task)
        if counts is None:
            return None
        n, wrong = counts[:2]
        share = wrong / n
        z2 = Z_95 * Z_95
        middle = (share + z2 / (2 * n)) / (1 + z2 / n)
        half = Z_95 * sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
        low, high = 0.0, 1.0  # free of rounding
        if wrong > 0.0:
            low = middle - half
        if wrong < n:
            high = middle + half
        return Estimate(share, max(0.0, low), min(1.0, high), int(n))

    def log_loss(self, task: int | None = None) -> Estimate | None:
        """Estimate the mean log loss of all predictions, or of a task's (central limit theorem).

        None with fewer than two labels, and for a task with fewer than 20.
        """
        counts = self._counts(task)
        if counts is None or counts[0] < 2:
            return None
        n, _, total, squares = counts
        mean = total / n
        half = Z_95 * sqrt(max(0.0, squares / n - mean * mean) / (n - 1))
        return Estimate(mean, max(0.0, mean - half), mean + half, int(n))

    def summary(self) -> dict[str, Any]:
        """Return both estimates as plain numbers, for records and pages."""
        estimates = {"error": self.error(), "log_loss": self.log_loss()}
        summary: dict[str, Any] = dict.fromkeys(estimates)
        for name, estimate in estimates.items():
            if estimate is not None:
                summary[name] = estimate._asdict()
        return summary

    def describe(self, policy: Policy) -> str:
        """Describe in one line the labels spent by a policy, and the error of all predictions."""
        text = f"{policy.spent:,} labels asked for"
        if policy.events:
            text += f" ({policy.spent / policy.events:.1%} of events)"
        estimate = self.error()
        if estimate is not None:
            text += f", error of all predictions by audit {estimate}"
        return text

    def state(self) -> list[list[float]]:
        """Return task, labels, errors, sum and sum of squares of losses of each task, for JSON."""
        return [[task, *counts] for task, counts in sorted(self._tasks.items())]

    @classmethod
    def from_state(cls, state: list[list[float]]) -> "Audit":
        """Make an audit that continues from :meth:`state`; ValueError where it is none."""
        audit = cls()
        try:
            for task, *counts in state:
                labels, wrong, total, squares = (not_negative("audit", c) for c in counts)
                if wrong > labels:
                    raise ValueError(f"{wrong:g} of {labels:g} labels were wrong")
                audit._tasks[whole("task", task, least=-1)] = [labels, wrong, total, squares]
        except (TypeError, ValueError) as error:
            raise ValueError(f"this is not the state of an audit: {error}") from None
        return audit

    @classmethod
    def of(cls, session: Mapping[str, Any]) -> "Audit":
        """Return the audit in a model's session; an empty one where there is none."""
        return cls.from_state(session.get(AUDIT_KEY, []))

    def _counts(self, task: int | None) -> list[float] | None:
        if task is None:
            sums = [float(sum(column)) for column in zip(*self._tasks.values(), strict=True)]
            if sums and sums[0]:
                return sums
            return None
        counts = self._tasks.get(task)
        if counts is not None and counts[0] >= MIN_TASK_LABELS:
            return counts
        return None
