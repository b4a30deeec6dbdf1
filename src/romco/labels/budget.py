"""Default label policy: early labels first, then doubtful events at random, and an audit."""

from collections.abc import Mapping
from math import ceil, exp
from typing import Any, ClassVar, Self

from romco.labels.policy import FADING, Policy, uniform
from romco.parameters import not_negative, whole

MAX_MARGIN_EARLY = (3.0, 15.0)  # intercept and slope by share: |margin| asked for while on budget
MAX_MARGIN_SPENT = 10.0  # slope by share: |margin| asked for when the advance is spent
STEEPNESS = 4.0  # how fast the probability falls beyond that margin
MIN_WEIGHT = 1e-12  # so that no event is certain for ever


class Budget(Policy):
    r"""At most a share of the events' labels, where they teach most; a part of them is an audit.

    An event is asked for with a probability proportional to its squared probability of error,

    .. math:: q = \min(1,\; B\, b\, w / \bar w), \qquad w = (1 + e^{|m|})^{-2},

    with B the share, b the labels left, and the recent mean of w. ``advance`` labels may be asked
    for early and are paid back: when labels are spent matters more than which (docs/labels.md).
    While spending is ahead of time by a part a of the advance, events with |m| above
    (3 + 15 B)(1 - a) + 10 B a are left out. One in ``1 / (share * audit)`` events is asked for at
    random; the error of all predictions follows from these (:class:`romco.labels.Audit`).
    ``audited`` marks them in the last round. The first ``floor`` events of each task come first.

    The rule spends at most ``max((1 - audit) share t, (1 - audit) advance - 1)`` labels and the
    audit at most ``audit share t + 1``, so that together they keep the promise of :class:`Policy`.

    >>> import numpy as np, romco
    >>> budget = Budget(0.1, advance=0, seed=1)
    >>> round = romco.Round(np.zeros(1000, dtype=int), np.zeros((1000, 1)), np.full(1000, np.nan))
    >>> asked = budget.ask(round, margins=np.linspace(-3.0, 3.0, 1000))
    >>> bool(60 <= asked.sum() <= 101), budget.spent == int(asked.sum())
    (True, True)
    """

    name: ClassVar[str] = "budget"

    def __init__(
        self,
        share: float,
        advance: int = 100,
        audit: float = 0.1,
        seed: int | None = None,
        *,
        floor: int = 0,
        total: int | None = None,
    ) -> None:
        super().__init__(share, advance, seed, total)
        self.audit = not_negative("audit", audit)
        if self.audit >= 1.0:
            raise ValueError(f"audit must be below 1: it is a part of the labels; got {audit!r}")
        self.floor = whole("floor", floor, least=0)
        drawn = self.share * self.audit  # part of the events whose labels are asked at random
        if self.audit and drawn < MIN_WEIGHT:
            raise ValueError(
                f"share * audit must be at least {MIN_WEIGHT:g}; got {drawn}: leave it out"
            )
        self.period = ceil(1.0 / drawn) if self.audit else 0
        self._audits = 0  # labels asked at random
        self._weight = self._number = 0.0  # fading sums
        self._labels: dict[int, int] = {}  # of each task, counted up to the floor

    @classmethod
    def of(cls, labels: int, events: int, **options: Any) -> Self:
        """Make a budget of so many labels in the next so many events, and none afterwards.

        All of them may be spent early. Further settings are those of the class.

        >>> Budget.of(500, 20_000, seed=0).share
        0.025
        """
        labels = whole("labels", labels)
        share = labels / whole("events", events, least=labels)
        return cls(share, total=labels, **{"advance": labels, **options})

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Ask at random at an audit, else by the rule."""
        weight = max(doubt * doubt, MIN_WEIGHT)
        self._weight = FADING * self._weight + weight
        self._number = FADING * self._number + 1.0
        self.by_chance = self._is_audit() and left >= 1.0
        self._audits += self.by_chance
        wanted = self.by_chance or self._by_rule(task, weight)
        if wanted and self.floor:
            self._labels[task] = min(self.floor, self._labels.get(task, 0) + 1)
        return wanted

    def memory(self) -> dict[str, Any]:
        """Return audits, the recent mean weight, and the labels of young tasks."""
        labels = [[task, n] for task, n in sorted(self._labels.items())]
        sums = {"weight": self._weight, "number": self._number}
        return {"audits": self._audits, **sums, "labels": labels}

    def remember(self, memory: Mapping[str, Any]) -> None:
        self._audits = whole("audits", memory["audits"], least=0)
        self._weight = not_negative("weight", memory["weight"])
        self._number = not_negative("number", memory["number"])
        self._labels = {
            whole("task", task, least=-1): whole("labels", n, least=0)
            for task, n in memory["labels"]
        }

    def _by_rule(self, task: int, weight: float) -> bool:
        bank = self._allowed() - (self.spent - self._audits)
        if bank < 1.0:
            return False
        if self._labels.get(task, 0) < self.floor:
            return True
        chance = self.share * bank * weight * self._number / self._weight
        return self.chance() < min(chance, self._max_chance(weight))

    def _max_chance(self, weight: float) -> float:
        """Bound of the probability: the lower, the further spending is ahead of time."""
        earned = self.share * self.events
        if self.spent <= earned:
            return 1.0
        room = self.advance if self.total is None else min(self.advance, self.total - earned)
        ahead = min(1.0, (self.spent - earned) / max(room, 1.0))
        widest = MAX_MARGIN_EARLY[0] + MAX_MARGIN_EARLY[1] * self.share
        narrowest = MAX_MARGIN_SPENT * self.share
        sure = (1.0 + exp(widest + (narrowest - widest) * ahead)) ** -2.0
        return (weight / sure) ** STEEPNESS if weight < sure else 1.0

    def _allowed(self) -> float:
        """Labels that the rule may have asked for by now, without those of the audit."""
        if not self.audit:
            return self.limit()
        rest = 1.0 - self.audit
        return max(rest * self.share * self.events, rest * self.advance - 1.0)

    def _is_audit(self) -> bool:
        """Return True for the one event drawn from its period."""
        if not self.period:
            return False
        period, place = divmod(self.events - 1, self.period)
        return place == int(uniform(~self.seed, period) * self.period)
