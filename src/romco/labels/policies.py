"""Label policies by name: their contract, the default one, and asking at random.

Other packages add theirs by the entry point group ``romco.label_policies``.
"""

import inspect
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil, exp
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from romco.parameters import not_negative, positive, whole
from romco.plugins import Registry
from romco.rounds import Round
from romco.typing import Floats

DRAWS_PER_EVENT = 4
RECENT_SHARE = 0.002  # weight of the newest event in a fading mean: a memory of 500 events
FADING = 1.0 - RECENT_SHARE
MAX_MARGIN_EARLY = (3.0, 15.0)  # intercept and slope by share: |margin| asked for while on budget
MAX_MARGIN_SPENT = 10.0  # slope by share: |margin| asked for when the advance is spent
STEEPNESS = 4.0  # how fast the probability falls beyond that margin
MIN_WEIGHT = 1e-12  # so that no event is certain for ever
NOT_PREDICTED = "a margin is not a number: predict before asking"


class Policy(ABC):
    """Choice of the events whose labels are asked for, under a budget.

    After t events at most ``max(advance, share * t + 1)`` labels were asked for, and never more
    than ``total`` where there is one. A share of 1 asks for all. ``seed`` is 0 or more; None draws
    one. Derived classes implement :meth:`wants`; the budget is enforced here. A policy that changes
    while it runs lists its numbers in ``remembered``, each with what checks it: attribute ``_b``
    as "b". The arguments of ``__init__`` are attributes of the same name.

    >>> from romco.labels import Random
    >>> policy = Random(0.1, seed=1)
    >>> round = Round(np.zeros(200, dtype=int), np.zeros((200, 1)), np.full(200, np.nan))
    >>> chosen = policy.ask(round, margins=np.zeros(200))
    >>> chosen.sum() <= policy.limit(), policy.events
    (np.True_, 200)
    """

    name: ClassVar[str]
    remembered: ClassVar[Mapping[str, Callable[[str, Any], float]]] = {}  # names of its own numbers

    def __init__(
        self, share: float, advance: int = 0, seed: int | None = None, total: int | None = None
    ) -> None:
        self.share = positive("share", share)
        if self.share > 1.0:
            raise ValueError(f"share must be at most 1, a part of the events; got {share!r}")
        if total is not None:
            total = whole("total", total)
        if seed is None:
            seed = secrets.randbits(63)
        self.total = total
        self.advance = min(whole("advance", advance, least=0), total or advance)
        self.seed = whole("seed", seed, least=0)
        self.events = 0  # seen
        self.spent = 0  # labels asked for
        self.by_chance = False  # the last event was asked for without a look at its margin
        self.audited: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)  # the same of the last round
        self._mean_width = 0.0  # fading mean of interval widths, where numbers are predicted

    @abstractmethod
    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Return True to ask for an event's label.

        ``doubt`` is the probability that the prediction is wrong; with less than 1 label ``left``
        it is not asked for. Sets ``by_chance`` where the choice does not depend on ``doubt``.
        """

    def memory(self) -> dict[str, Any]:
        """Return the policy's own state as numbers and lists of numbers, for JSON."""
        return {name: getattr(self, f"_{name}") for name in self.remembered}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Restore :meth:`memory`; ValueError where a number is out of its range."""
        for name, checked in self.remembered.items():
            setattr(self, f"_{name}", checked(name, memory[name]))

    def settings(self) -> dict[str, Any]:
        """Return the arguments of ``__init__`` by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def ask(self, round: Round, margins: Floats) -> NDArray[np.bool_]:
        """Choose the events (n,) to ask for, by log-odds (n,) or scores (n, K); y is not read."""
        return self.choose(round.task, margins)

    def choose(self, tasks: NDArray[np.int64], margins: Floats) -> NDArray[np.bool_]:
        """Choose by the tasks (n,) of events and their margins, as :meth:`ask` does."""
        doubts = doubt(margins).tolist()
        if len(doubts) != len(tasks):
            raise ValueError(f"{len(doubts)} margins for a round of {len(tasks)} events")
        chosen, audited = np.zeros((2, len(doubts)), dtype=np.bool_)
        for e, (task, chance) in enumerate(zip(tasks.tolist(), doubts, strict=True)):
            chosen[e] = self._choose_one(task, chance)
            audited[e] = chosen[e] and self.by_chance
        self.audited = audited
        return chosen

    def ask_by_width(self, round: Round, widths: Floats) -> NDArray[np.bool_]:
        """Choose among predicted numbers by the widths (n,) of their intervals.

        An interval that is wide beside the recent ones is doubtful.
        """
        chances = np.empty(len(widths))
        for e, width in enumerate(np.asarray(widths, dtype=np.float64).tolist()):
            if not width >= 0.0:
                raise ValueError(f"the width of interval {e} is {width}; expected 0 or more")
            mean = self._mean_width or width
            if self._mean_width:
                mean = FADING * mean + RECENT_SHARE * width
            self._mean_width = mean
            chances[e] = 0.5 * width / ((width + mean) or 1.0)
        return self.ask(round, np.log1p(-chances) - np.log(np.maximum(chances, 1e-300)))

    def limit(self) -> float:
        """Return how many labels may have been asked for by now, spent ones included."""
        allowed = max(float(self.advance), self.share * self.events + 1.0)
        if self.total is None:
            return allowed
        return min(allowed, float(self.total))

    def state(self) -> dict[str, Any]:
        """Return everything as JSON holds it; :func:`romco.labels.restore` continues from it."""
        return {
            "policy": self.name,
            "settings": self.settings(),
            "events": self.events,
            "spent": self.spent,
            "width": self._mean_width,
            "memory": self.memory(),
        }

    def chance(self, k: int = 0) -> float:
        """Return the k-th random number in [0, 1) of the present event."""
        return uniform(self.seed, self.events * DRAWS_PER_EVENT + k)

    def _choose_one(self, task: int, doubt: float) -> bool:
        self.events += 1
        left = self.limit() - self.spent
        self.by_chance = False
        chosen = (self.wants(task, doubt, left) or self.share == 1.0) and left >= 1.0
        self.spent += chosen
        return chosen


def doubt(margins: Floats) -> Floats:
    """Probability (n,) that the prediction is wrong, from log-odds (n,) or class scores (n, K).

    >>> doubt(np.array([0.0, np.inf])), doubt(np.zeros((1, 4)))
    (array([0.5, 0. ]), array([0.75]))
    """
    margins = np.asarray(margins, dtype=np.float64)
    if np.isnan(margins).any():
        raise ValueError(NOT_PREDICTED)
    if margins.ndim == 1:
        doubts = np.empty(len(margins))
        for e, margin in enumerate(margins.tolist()):  # the same bits in a round of any size
            odds = exp(-abs(margin))
            doubts[e] = odds / (1.0 + odds)
        return doubts
    best = margins.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        behind = np.where(margins == best, 0.0, margins - best)  # infinite ones may tie
    total: Floats = np.exp(behind).sum(axis=1)
    return 1.0 - 1.0 / total


def uniform(seed: int, k: int) -> float:
    """Return the k-th number in [0, 1) of a seeded sequence (splitmix64), so that state is data.

    >>> uniform(1, 0) == uniform(1, 0), uniform(1, 0) == uniform(1, 1)
    (True, False)
    """
    mask = (1 << 64) - 1
    z = (seed + (k + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


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
    remembered: ClassVar = {
        "audits": partial(whole, least=0),
        "weight": not_negative,
        "number": not_negative,
    }

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
        self.period = 0
        if self.audit:
            self.period = ceil(1.0 / drawn)
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
        return {**super().memory(), "labels": list(map(list, sorted(self._labels.items())))}

    def remember(self, memory: Mapping[str, Any]) -> None:
        super().remember(memory)
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
        room: float = self.advance
        if self.total is not None:
            room = min(self.advance, self.total - earned)
        ahead = min(1.0, (self.spent - earned) / max(room, 1.0))
        widest = MAX_MARGIN_EARLY[0] + MAX_MARGIN_EARLY[1] * self.share
        narrowest = MAX_MARGIN_SPENT * self.share
        sure = (1.0 + exp(widest + (narrowest - widest) * ahead)) ** -2.0
        if weight < sure:
            return (weight / sure) ** STEEPNESS
        return 1.0

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
        period, position = divmod(self.events - 1, self.period)
        return position == int(uniform(~self.seed, period) * self.period)


class Random(Policy):
    """Every event with the same probability, so that every label asked for is an audit.

    >>> Random(0.5, seed=0).state()["spent"]
    0
    """

    name: ClassVar[str] = "random"

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Ask at random; more often while labels are left."""
        self.by_chance = True
        return self.chance() < self.share * max(1.0, left)


BUILT_IN: dict[str, type[Policy]] = {Budget.name: Budget, Random.name: Random}
POLICIES: Registry[type[Policy]] = Registry("romco.label_policies", BUILT_IN)


def policy(name: str, share: float, **settings: Any) -> Policy:
    """Make a policy by its name in ``romco.labels.POLICIES``.

    >>> policy("random", 0.05, seed=1).share
    0.05
    """
    if name not in POLICIES:
        raise ValueError(f"unknown policy {name!r}; known are {', '.join(POLICIES)}")
    return POLICIES[name](share, **settings)


def restore(state: Mapping[str, Any]) -> Policy:
    """Make the policy whose :meth:`Policy.state` was saved; it continues with the same bits.

    >>> restore(policy("budget", 0.05, seed=1).state()).share
    0.05
    """
    try:
        restored = policy(state["policy"], **state["settings"])
        restored.events = whole("events", state["events"], least=0)
        restored.spent = whole("spent", state["spent"], least=0)
        restored._mean_width = not_negative("width", state["width"])
        restored.remember(state["memory"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not the state of a policy: {error!r}") from None
    return restored
