"""Published label policies, to compare :class:`romco.labels.Budget` with, and all by name.

Other packages add theirs by the entry point group ``romco.policies``.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import exp, log, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.labels.policy import Budget, Policy
from romco.parameters import not_negative, positive, truth, whole
from romco.plugins import Registry

Numbers = NDArray[np.float64]
PeerMargins = Callable[[int], Numbers]  # event number to margins (m,) of every task's model
B_STEP = 0.05  # change of log b for each label over or under the budget
B_RANGE = (1e-6, 1e6)
THRESHOLD_STEP = 0.01
TRUST_STEP = 0.1  # learning rate of the exponential weights
MAX_LOSS = 10.0  # hinge losses are clipped here
MAX_MARGIN = 700.0  # exp overflows beyond


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
    space: ClassVar[Mapping[str, Any]] = {"width": (0.2, 0.5, 1.0, 2.0)}

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

    def __init__(self, share: float, advance: int = 0, seed: int | None = None) -> None:
        super().__init__(share, advance, seed)
        self._b = 1.0

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

    def __init__(self, share: float, advance: int = 0, seed: int | None = None) -> None:
        super().__init__(share, advance, seed)
        self._threshold = 1.0

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
        u, v = 2.0 * self.chance(0) - 1.0, 2.0 * self.chance(1) - 1.0
        square = u * u + v * v
        return u * sqrt(-2.0 * log(square) / square) if 0.0 < square < 1.0 else 0.0


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
        self.heard: list[Numbers | None] = []
        self.given: Numbers = np.zeros(0)
        self._trust: dict[int, Numbers] = {}  # of each task in every task
        self._peer_margins: PeerMargins | None = None
        self._at = 0

    @abstractmethod
    def decide(self, task: int, doubt: float) -> bool:
        """Return True to ask for an event's label; :meth:`peers` gives all tasks' margins."""

    def consult(self, peer_margins: PeerMargins, n: int = 1) -> None:
        """Set how margins (m,) of all tasks' models are computed for each of the next n events."""
        self._peer_margins, self._at = peer_margins, -1
        self.heard, self.given = [None] * n, np.full(n, np.nan)

    def wants(self, task: int, doubt: float, left: float) -> bool:
        self._at += 1
        return super().wants(task, doubt, left)

    def learn(self, task: int, y: float, margins: Numbers) -> None:
        """Lower a task's trust in the models whose margins (m,) were wrong about its label y."""
        losses = np.clip(1.0 - y * margins, 0.0, MAX_LOSS)
        trust = self.trust(task, len(margins)) * np.exp(-TRUST_STEP * losses)
        self._trust[task] = trust / trust.max()

    def trust(self, task: int, m: int) -> Numbers:
        """Return a task's trust (m,) in each of m tasks; the most trusted and new ones have 1."""
        known = self._trust.get(task, np.ones(0))
        return np.concatenate([known, np.ones(max(0, m - len(known)))])

    def memory(self) -> dict[str, Any]:
        trust = [[task, *weights.tolist()] for task, weights in sorted(self._trust.items())]
        return {**super().memory(), "trust": trust}

    def remember(self, memory: Mapping[str, Any]) -> None:
        super().remember(memory)
        self._trust = {int(task): np.array(w, dtype=np.float64) for task, *w in memory["trust"]}

    def peers(self) -> Numbers | None:
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
    return abs(log(doubt / (1.0 - doubt))) if 0.0 < doubt < 1.0 else MAX_MARGIN


BUILT_IN: tuple[type[Policy], ...] = (
    *(Budget, Random, FixedMargin, SelectiveSampling, VariableUncertainty, Peers, Committee),
)
POLICIES: Registry[type[Policy]] = Registry(
    "romco.policies", {kind.name: kind for kind in BUILT_IN}
)


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
        made = policy(state["policy"], **state["settings"])
        made.events = whole("events", state["events"], least=0)
        made.spent = whole("spent", state["spent"], least=0)
        made._mean_width = not_negative("width", state["width"])
        made.remember(state["memory"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this is not the state of a policy: {error!r}") from None
    return made
