"""Label policies by name: their contract, the default one, and published ones to compare it with.

Other packages add theirs by the entry point group ``romco.policies``.
"""

import inspect
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from math import ceil, exp, log, sqrt
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from romco.parameters import not_negative, positive, truth, whole
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
PeerMargins = Callable[[int], Floats]  # event number to margins (m,) of every task's model
B_STEP = 0.05  # change of log b for each label over or under the budget
B_RANGE = (1e-6, 1e6)
THRESHOLD_STEP = 0.01
TRUST_STEP = 0.1  # learning rate of the exponential weights
MAX_LOSS = 10.0  # hinge losses are clipped here
MAX_MARGIN = 700.0  # exp overflows beyond


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
        self.total = None if total is None else whole("total", total)
        self.advance = min(whole("advance", advance, least=0), self.total or advance)
        self.seed = secrets.randbits(63) if seed is None else whole("seed", seed, least=0)
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
            mean = self._mean_width
            self._mean_width = width if mean == 0.0 else FADING * mean + RECENT_SHARE * width
            chances[e] = 0.5 * width / (width + self._mean_width) if width > 0.0 else 0.0
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
    if margins.ndim == 1:  # one by one, so that the same margin gives the same bits in any round
        odds = [exp(-abs(margin)) for margin in margins.tolist()]
        return np.array([o / (1.0 + o) for o in odds])
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
        return {**super().memory(), "labels": [list(one) for one in sorted(self._labels.items())]}

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
        room = self.advance if self.total is None else min(self.advance, self.total - earned)
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


class FixedMargin(Policy):
    """Events whose absolute margin is below ``width``.

    One event in ``10 / share`` is asked for at random, so that a model that is sure and wrong is
    found out.

    >>> FixedMargin(0.1, width=2.0, seed=0).width
    2.0
    """

    name: ClassVar[str] = "margin"

    def __init__(
        self, share: float, width: float = 1.0, advance: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(share, advance, seed)
        self.width = positive("width", width)

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Ask within the width, or with a small probability."""
        self.by_chance = self.chance() < 0.1 * self.share
        return self.by_chance or doubt > 1.0 / (1.0 + exp(min(self.width, MAX_MARGIN)))


class SelectiveSampling(Policy):
    """Probability b / (b + |margin|), where b follows the budget.

    Cesa-Bianchi, Gentile and Zaniboni (2006).

    >>> SelectiveSampling(0.1, seed=0).memory()
    {'b': 1.0}
    """

    name: ClassVar[str] = "selective"
    remembered: ClassVar = {"b": positive}
    _b = 1.0

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Decide, then let b follow the budget."""
        wanted = self.decide(task, doubt)
        low, high = B_RANGE
        self._b = min(max(self._b * (1.0 + B_STEP * (self.share - wanted)), low), high)
        return wanted

    def decide(self, task: int, doubt: float) -> bool:
        """Return True to ask for an event's label."""
        return self.unsure(margin_of(doubt))

    def unsure(self, margin: float, k: int = 0) -> bool:
        """Return True with probability b / (b + |margin|), by the k-th random number."""
        return self.chance(k) < self._b / (self._b + min(abs(margin), MAX_MARGIN))


class VariableUncertainty(Policy):
    """Confidence below a moving, randomised threshold (Zliobaite et al. 2014).

    The threshold falls by a hundredth at each label and rises by as much without one; a normal
    number of mean 1 randomises it.

    >>> VariableUncertainty(0.1, seed=0).memory()
    {'threshold': 1.0}
    """

    name: ClassVar[str] = "uncertainty"
    remembered: ClassVar = {"threshold": positive}
    _threshold = 1.0

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Ask if the most likely answer is less likely than the threshold."""
        if left < 1.0:
            return False
        wanted = 1.0 - doubt < self._threshold * (1.0 + self._normal())
        self._threshold *= 1.0 - THRESHOLD_STEP if wanted else 1.0 + THRESHOLD_STEP
        self._threshold = min(max(self._threshold, 1e-6), 1e6)
        return wanted

    def _normal(self) -> float:
        """Normal number by the polar method; 0 where the two draws lie outside the circle."""
        u = 2.0 * self.chance(0) - 1.0
        v = 2.0 * self.chance(1) - 1.0
        square = u * u + v * v
        if 0.0 < square < 1.0:
            return u * sqrt(-2.0 * log(square) / square)
        return 0.0


class Consulting(SelectiveSampling):
    """Policy that uses the margins of every task's model, weighted by past accuracy (abstract).

    Before ``ask``, :meth:`consult` sets how to compute these margins; :meth:`learn` takes the
    labels. ``heard`` then holds the margins of the last round's events, None where they were not
    needed, and ``given`` (n,) the labels that other tasks gave in place of a person, else NaN.
    ``b``, above 0, is the width of doubt at the beginning; it then follows the budget.

    >>> import romco
    >>> policy = Peers(1.0, seed=0)
    >>> policy.consult(lambda event: np.array([0.3, -2.0]))  # margins of two tasks' models
    >>> round = romco.Round(np.zeros(1, dtype=int), np.zeros((1, 1)), np.full(1, np.nan))
    >>> policy.ask(round, margins=np.array([0.0]))
    array([ True])
    >>> policy.learn(0, 1.0, policy.heard[0])
    >>> policy.trust(0, 2).round(2)  # the second was wrong
    array([1.  , 0.79])
    """

    def __init__(
        self, share: float, b: float = 1.0, advance: int = 0, seed: int | None = None
    ) -> None:
        super().__init__(share, advance, seed)
        self.b = self._b = positive("b", b)
        self.heard: list[Floats | None] = []
        self.given: Floats = np.zeros(0)
        self._trust: dict[int, Floats] = {}  # of each task in every task
        self._peer_margins: PeerMargins | None = None
        self._at = 0

    @abstractmethod
    def decide(self, task: int, doubt: float) -> bool:
        """Return True to ask for an event's label; :meth:`peers` gives all tasks' margins."""

    def consult(self, peer_margins: PeerMargins, n: int = 1) -> None:
        """Set how margins (m,) of all tasks' models are computed for each of the next n events."""
        self._peer_margins, self._at = peer_margins, -1
        self.heard = [None] * n
        self.given = np.full(n, np.nan)

    def wants(self, task: int, doubt: float, left: float) -> bool:
        self._at += 1
        return super().wants(task, doubt, left)

    def learn(self, task: int, y: float, margins: Floats) -> None:
        """Lower a task's trust in the models whose margins (m,) were wrong about its label y."""
        losses = np.clip(1.0 - y * margins, 0.0, MAX_LOSS)
        trust = self.trust(task, len(margins)) * np.exp(-TRUST_STEP * losses)
        self._trust[task] = trust / trust.max()

    def trust(self, task: int, m: int) -> Floats:
        """Return a task's trust (m,) in each of m tasks; the most trusted and new ones have 1."""
        trust = self._trust.get(task, np.ones(0))
        return np.concatenate([trust, np.ones(max(0, m - len(trust)))])

    def memory(self) -> dict[str, Any]:
        trust = [[task, *weights.tolist()] for task, weights in sorted(self._trust.items())]
        return {**super().memory(), "trust": trust}

    def remember(self, memory: Mapping[str, Any]) -> None:
        super().remember(memory)
        self._trust = {int(task): np.array(w, dtype=np.float64) for task, *w in memory["trust"]}

    def peers(self) -> Floats | None:
        """Return the margins (m,) of every task's model for the present event, if known."""
        if self._peer_margins is None or self._at >= len(self.heard):
            return None
        clipped = np.clip(self._peer_margins(self._at), -MAX_MARGIN, MAX_MARGIN)
        self.heard[self._at] = clipped
        return clipped


class Peers(Consulting):
    """PEER: other tasks first, then a person (Murugesan and Carbonell, NIPS 2017).

    An event is doubtful with probability b / (b + |margin|). Then the other tasks' models vote,
    weighted by trust, and a person is asked with probability b / (b + |vote|). With ``teach`` the
    vote is learned as the label where no person is asked.

    >>> Peers(0.1, seed=0).state()["policy"]
    'peers'
    """

    name: ClassVar[str] = "peers"

    def __init__(
        self,
        share: float,
        b: float = 1.0,
        advance: int = 0,
        seed: int | None = None,
        *,
        teach: bool = True,
    ) -> None:
        super().__init__(share, b, advance, seed)
        self.teach = truth("teach", teach)

    def decide(self, task: int, doubt: float) -> bool:
        """Ask where neither the task nor its peers are sure."""
        if not self.unsure(margin_of(doubt), 0):
            return False
        margins = self.peers()
        if margins is None or len(margins) < 2:
            return True
        trust = self.trust(task, len(margins))
        trust[task] = 0.0
        vote = float(trust @ margins / max(trust.sum(), 1e-300))
        wanted = self.unsure(vote, 1)
        if self.teach and not wanted:
            self.given[self._at] = 1.0 if vote >= 0.0 else -1.0
        return wanted


class Committee(Consulting):
    """COMMITTEE: all tasks vote, and a close vote asks a person (after Xu, Tang, Jebara, 2021).

    The paper also teaches the label to similar tasks; here the learner shares among tasks itself.

    >>> Committee(0.1, seed=0).state()["policy"]
    'committee'
    """

    name: ClassVar[str] = "committee"

    def decide(self, task: int, doubt: float) -> bool:
        """Ask where the committee is unsure."""
        margins = self.peers()
        if margins is None:
            return self.unsure(margin_of(doubt))
        trust = self.trust(task, len(margins))
        return self.unsure(float(trust @ margins / trust.sum()))


def margin_of(doubt: float) -> float:
    """Return the absolute margin whose probability of error is ``doubt``."""
    if 0.0 < doubt < 1.0:
        return abs(log(doubt / (1.0 - doubt)))
    return MAX_MARGIN


PUBLISHED = (FixedMargin, SelectiveSampling, VariableUncertainty, Peers, Committee)
BUILT_IN: dict[str, type[Policy]] = {kind.name: kind for kind in (Budget, Random, *PUBLISHED)}
POLICIES: Registry[type[Policy]] = Registry("romco.policies", BUILT_IN)


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
