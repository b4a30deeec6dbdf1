"""The policy to take: early labels first, then doubtful events by chance, and an audit."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, exp
from typing import Any, ClassVar, Self, final

from romco.labels.draws import uniform
from romco.labels.policies import LATELY, Policy
from romco.parameters import not_negative, whole

WIDEST = (3.0, 15.0)  # |margin| up to which events are asked while spending is not ahead, by share,
NARROWEST = 10.0  # and when nothing is left, times the share
STEEP = 4.0  # how fast the chance falls beyond
LEAST = 1e-12  # least weight of an event, so that nobody can be sure for ever


@final
class Budget(Policy):
    r"""At most a share of the events' labels, where they teach most; a part of them an audit.

    An event is asked with a chance in proportion to the square of its chance of error,

    .. math:: q = \min(1,\; B\, b\, w / \bar w), \qquad w = (1 + e^{|m|})^{-2},

    B the share, b the labels left, and the mean of w that of late. ``advance`` labels may be asked
    for early and are paid back: when labels are spent matters more than which
    (docs/labels.md). While spending is ahead of time, by a part a of what it may be, sure events
    are left out: those with |m| above (3 + 15 B)(1 - a) + 10 B a, nearly always. Of every
    ``1 / (share * audit)`` events one is asked by chance alone;
    from these follows the error of all predictions (:class:`romco.labels.Audit`).
    ``audited`` tells which of the last round they were. With ``floor``, the first events of
    each task come first, as far as the budget goes.

    The rule spends at most ``max((1 - audit) share t, (1 - audit) advance - 1)`` labels and the
    audit at most ``audit share t + 1``, so that together they keep the promise of :class:`Policy`.

    Parameters
    ----------
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    advance:
        Labels that may be asked for early and are paid back later.
    audit:
        Part of the labels, below 1, that is asked for by chance alone.
    seed:
        Of what chance decides, 0 or more; None draws one.
    floor:
        So many first events of each task come first, as far as the budget goes.
    total:
        Labels that are never exceeded; None sets no end.

    Raises
    ------
    ValueError
        Where a setting is out of its range.

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
        drawn = self.share * self.audit  # part of the events whose labels are asked by chance alone
        if self.audit and drawn < LEAST:
            raise ValueError(f"share * audit must be at least {LEAST:g}; got {drawn}: leave it out")
        self.period = ceil(1.0 / drawn) if self.audit else 0
        self._audits = 0  # labels asked by chance alone
        self._weight = self._number = 0.0  # sums of late, fading
        self._labels: dict[int, int] = {}  # of each task, counted up to the floor

    @classmethod
    def of(cls, labels: int, events: int, **options: Any) -> Self:
        """So many labels in the next so many events, and none afterwards; all may be spent early.

        Parameters
        ----------
        labels:
            How many labels.
        events:
            In how many events, at least as many.
        options:
            Further settings of the class, by name.

        Returns
        -------
        :
            The policy.

        Raises
        ------
        ValueError
            Where there are more labels than events, or a setting is out of its range.

        >>> Budget.of(500, 20_000, seed=0).share
        0.025

        """
        labels = whole("labels", labels)
        share = labels / whole("events", events, least=labels)
        return cls(share, total=labels, **{"advance": labels, **options})

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """By chance alone at an audit, else by the rule."""
        weight = max(doubt * doubt, LEAST)
        self._weight = LATELY * self._weight + weight
        self._number = LATELY * self._number + 1.0
        self.by_chance = self._is_audit() and left >= 1.0
        self._audits += self.by_chance
        wanted = self.by_chance or self._by_rule(task, weight)
        if wanted and self.floor:
            self._labels[task] = min(self.floor, self._labels.get(task, 0) + 1)
        return wanted

    def memory(self) -> dict[str, Any]:
        """Audits, the mean weight of late, labels of young tasks."""
        labels = [[task, n] for task, n in sorted(self._labels.items())]
        return {
            "audits": self._audits,
            "weight": self._weight,
            "number": self._number,
            "labels": labels,
        }

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over what :meth:`memory` gave."""
        self._audits = whole("audits", memory["audits"], least=0)
        self._weight = not_negative("weight", memory["weight"])
        self._number = not_negative("number", memory["number"])
        self._labels = {
            whole("task", task, least=-1): whole("labels", n, least=0)
            for task, n in memory["labels"]
        }

    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with."""
        return {
            "share": self.share,
            "advance": self.advance,
            "audit": self.audit,
            "seed": self.seed,
            "floor": self.floor,
            "total": self.total,
        }

    def _by_rule(self, task: int, weight: float) -> bool:
        bank = self._allowed() - (self.spent - self._audits)
        if bank < 1.0:
            return False
        if self._labels.get(task, 0) < self.floor:
            return True
        chance = self.share * bank * weight * self._number / self._weight
        return self.chance() < min(chance, self._patience(weight))

    def _patience(self, weight: float) -> float:
        """The chance to be asked though labels abound: less, the further ahead spending is."""
        earned = self.share * self.events
        if self.spent <= earned:
            return 1.0
        room = self.advance if self.total is None else min(self.advance, self.total - earned)
        ahead = min(1.0, (self.spent - earned) / max(room, 1.0))
        widest, narrowest = WIDEST[0] + WIDEST[1] * self.share, NARROWEST * self.share
        sure = (1.0 + exp(widest + (narrowest - widest) * ahead)) ** -2.0
        return (weight / sure) ** STEEP if weight < sure else 1.0

    def _allowed(self) -> float:
        """Labels that the rule may have asked for by now; the rest is the audit's."""
        if not self.audit:
            return self.limit()
        rest = 1.0 - self.audit
        return max(rest * self.share * self.events, rest * self.advance - 1.0)

    def _is_audit(self) -> bool:
        """Whether the present event is the one drawn of its period."""
        if not self.period:
            return False
        period, place = divmod(self.events - 1, self.period)
        return place == int(uniform(~self.seed, period) * self.period)
