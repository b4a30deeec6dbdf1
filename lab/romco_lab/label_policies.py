"""Published label policies to compare ``romco.labels.Budget`` with, and the loop that runs them."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from math import exp, log, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.evaluation import Delay, Metric, Record, prequential
from romco.evaluation.prequential import LabelLoop
from romco.labels import POLICIES, Policy
from romco.learners import Learner
from romco.parameters import positive, truth
from romco.rounds import Round, chosen
from romco.typing import Floats

PeerMargins = Callable[[int], Floats]  # event number to margins (m,) of every task's model
B_STEP = 0.05  # change of log b for each label over or under the budget
B_RANGE = (1e-6, 1e6)
THRESHOLD_STEP = 0.01
TRUST_STEP = 0.1  # learning rate of the exponential weights
MAX_LOSS = 10.0  # hinge losses are clipped here
MAX_MARGIN = 700.0  # exp overflows beyond


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
    """

    name: ClassVar[str] = "selective"
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
    """

    name: ClassVar[str] = "uncertainty"
    _threshold = 1.0

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Ask if the most likely answer is less likely than the threshold."""
        if left < 1.0:
            return False
        wanted = 1.0 - doubt < self._threshold * (1.0 + self._normal())
        if wanted:
            self._threshold *= 1.0 - THRESHOLD_STEP
        else:
            self._threshold *= 1.0 + THRESHOLD_STEP
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
            self.given[self._at] = 2.0 * (vote >= 0.0) - 1.0
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


PUBLISHED: tuple[type[Policy], ...] = (
    FixedMargin,
    SelectiveSampling,
    VariableUncertainty,
    Peers,
    Committee,
)
LABEL_POLICIES: dict[str, type[Policy]] = {**POLICIES}
for _published in PUBLISHED:
    LABEL_POLICIES[_published.name] = _published


class ConsultingLoop(LabelLoop):
    """Label loop that gives a consulting policy the margins of all tasks' models, then the labels.

    Labels that other tasks agree on are learned at once, in place of those that a person gives.
    """

    policy: Consulting

    def __init__(self, learner: Learner, policy: Consulting, delay: Delay) -> None:
        super().__init__(learner, policy, delay)
        self._heard: dict[int, list[Floats | None]] = {}  # margins, by number of the pending events

    def choose(self, events: Round, margins: Floats) -> NDArray[np.bool_]:
        self.policy.consult(partial(_margins_of_all_tasks, self.learner, events), len(events.y))
        return super().choose(events, margins)

    def observe(self, events: Round, rest: NDArray[np.bool_]) -> None:
        given = rest & ~np.isnan(self.policy.given)
        if given.any():
            self.learner.update(chosen(events, given)._replace(y=self.policy.given[given]))
        super().observe(events, rest & ~given)

    def wait(self, events: Round, some: NDArray[np.bool_], time: float) -> int:
        number = super().wait(events, some, time)
        self._heard[number] = [self.policy.heard[e] for e in np.flatnonzero(some)]
        return number

    def learn(self, number: int, events: Round, context: Floats | None) -> None:
        super().learn(number, events, context)
        heard = self._heard.pop(number)
        for task, y, margins in zip(events.task, events.y, heard, strict=True):
            if margins is not None:
                self.policy.learn(int(task), float(y), margins)


def evaluate(
    learner: Learner,
    rounds: Iterable[Round],
    metrics: Mapping[str, Metric],
    every: int,
    labels: Policy | None,
    delay: int | Delay,
) -> Iterator[Record]:
    """Return the records of :func:`romco.prequential`, also for policies that consult."""
    if not isinstance(labels, Consulting):
        return prequential(learner, rounds, metrics, every, labels=labels, delay=delay)
    if not isinstance(delay, Delay):
        delay = Delay(delay)
    loop = ConsultingLoop(learner, labels, delay)
    return prequential(loop, rounds, metrics, every)


def _margins_of_all_tasks(learner: Learner, events: Round, e: int) -> Floats:
    """Return margins (m,) that the model of every task gives for the row of event e."""
    m = learner.n_tasks
    return learner.predict(Round(np.arange(m), events.x[[e] * m], np.full(m, np.nan)))
