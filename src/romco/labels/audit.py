"""Error and log loss of all predictions, estimated from a small random sample of labels."""

from collections.abc import Mapping
from functools import partial
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.labels.policies import Policy
from romco.parameters import not_negative
from romco.rounds import Round

Z_95 = 1.959963984540054  # quantile of a 95 % interval
AUDIT_KEY = "audit"  # where a model's session holds its audit


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
    ...     audit.add(wrong, loss=0.3)
    >>> audit.error().value, audit.error().labels
    (0.25, 4)
    """

    def __init__(self) -> None:
        self._sums = [0.0, 0.0, 0.0, 0.0]  # labels, wrong ones, losses and their squares

    def add(self, wrong: float, loss: float) -> None:
        """Count an audited event: ``wrong`` is 0 or 1, ``loss`` its log loss."""
        for k, more in enumerate((1.0, wrong, loss, loss * loss)):
            self._sums[k] += more

    def add_round(
        self, round: Round, margins: NDArray[np.float64], audited: NDArray[np.bool_]
    ) -> None:
        """Count the audited events (n,) of a round of two classes whose labels are not NaN."""
        at = np.flatnonzero(audited & ~np.isnan(round.y))
        self.add_answers(round.y[at], margins[at])

    def add_answers(self, y: NDArray[np.float64], margins: NDArray[np.float64]) -> None:
        """Count audited events of two classes: labels -1 or +1, and predicted log-odds (n,)."""
        wrong = np.where(margins >= 0.0, 1.0, -1.0) != y
        losses = np.logaddexp(0.0, -y * margins)
        for mistake, loss in zip(wrong, losses.tolist(), strict=True):
            self.add(float(mistake), loss)

    def error(self) -> Estimate | None:
        """Estimate the error of all predictions with Wilson's interval; None without a label."""
        n, wrong, *_ = self._sums
        if not n:
            return None
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

    def log_loss(self) -> Estimate | None:
        """Estimate the mean log loss of all predictions (central limit theorem).

        None with fewer than two labels.
        """
        n, _, total, squares = self._sums
        if n < 2:
            return None
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

    def state(self) -> list[float]:
        """Return labels, errors, sum and sum of squares of losses, for JSON."""
        return list(self._sums)

    @classmethod
    def from_state(cls, state: list[float]) -> "Audit":
        """Make an audit that continues from :meth:`state`; ValueError where it is none."""
        audit = cls()
        try:
            labels, wrong, total, squares = map(partial(not_negative, "audit"), state)
        except (TypeError, ValueError) as error:
            raise ValueError(f"this is not the state of an audit: {error}") from None
        if wrong > labels:
            raise ValueError(f"this is not the state of an audit: {wrong:g} of {labels:g} wrong")
        audit._sums = [labels, wrong, total, squares]
        return audit

    @classmethod
    def of(cls, session: Mapping[str, Any]) -> "Audit":
        """Return the audit in a model's session; an empty one where there is none."""
        if AUDIT_KEY not in session:
            return cls()
        return cls.from_state(session[AUDIT_KEY])
