"""Policies that hear what the models of all tasks say of an event."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.labels.policies import Policy
from romco.parameters import positive

Numbers = NDArray[np.float64]
Hear = Callable[[int], Numbers]  # by the number of an event, margins (m,) of every task's model
STEP = 0.05  # by how much log b follows the budget, per label over or under
TRUST_STEP = 0.1  # of the exponential weights
WORST = 10.0  # hinge loss that is counted at most


class Consulting(Policy):
    """Asks by what the models of other tasks say, each heard by how well it did before (abstract).

    Before ``ask``, :meth:`consult` tells how to hear them; when a label has come, :meth:`learn`.
    ``heard`` are then the opinions of the last round's events, None where nobody was heard, and
    ``given`` (n,) the labels that other tasks gave in place of a person, NaN without one. The
    papers set b by hand; here it follows the budget.

    Parameters
    ----------
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    b:
        How wide doubt is at the beginning, above 0; it then follows the budget.
    advance:
        Labels that may be asked for early and are paid back later.
    seed:
        Of what chance decides, 0 or more; None draws one.

    Raises
    ------
    ValueError
        Where a setting is out of its range.

    >>> from romco.labels import Peers
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

    def __init__(self, share: float, b: float, advance: int, seed: int | None) -> None:
        super().__init__(share, advance, seed)
        self.b = positive("b", b)
        self.heard: list[Numbers | None] = []
        self.given: Numbers = np.zeros(0)
        self._trust: dict[int, Numbers] = {}  # of a task in all tasks, exponential weights
        self._hear: Hear | None = None
        self._first = self._at = 0

    @abstractmethod
    def decide(self, task: int, doubt: float, hear: Callable[[], Numbers | None]) -> bool:
        """Whether to ask for an event's label; ``hear`` gives what all tasks say, if they can.

        Parameters
        ----------
        task:
            Its number.
        doubt:
            The chance that the prediction is wrong.
        hear:
            Gives margins (m,) of every task's model, or None where nobody can be heard.

        Returns
        -------
        :
            Whether to ask.

        """

    def consult(self, hear: Hear, first: int = 0, n: int = 1) -> None:
        """How to hear what each task's model says of the n events of the next round.

        Parameters
        ----------
        hear:
            By the number of an event, margins (m,) of every task's model.
        first:
            Number of the round's first event.
        n:
            How many events the round has.

        """
        self._hear, self._first, self._at = hear, first, -1
        self.heard, self.given = [None] * n, np.full(n, np.nan)

    def wants(self, task: int, doubt: float, left: float) -> bool:
        """By a chance that follows the budget."""
        self._at += 1
        wanted = self.decide(task, doubt, self._opinions)
        factor = 1.0 + STEP * (self.share - wanted)
        self.b = min(max(self.b * factor, 1e-6), 1e6)
        return wanted

    def learn(self, task: int, y: float, opinions: Numbers) -> None:
        """Trust those less who were wrong about a task's label.

        Parameters
        ----------
        task:
            Its number.
        y:
            Its label, -1 or +1.
        opinions:
            What every task's model said (m,).

        """
        losses = np.clip(1.0 - y * opinions, 0.0, WORST)
        trust = self.trust(task, len(opinions)) * np.exp(-TRUST_STEP * losses)
        self._trust[task] = trust / trust.max()

    def trust(self, task: int, m: int) -> Numbers:
        """How much a task trusts each of m, the most trusted 1; new ones as much as that one.

        Parameters
        ----------
        task:
            Its number.
        m:
            How many tasks there are.

        Returns
        -------
        :
            Trust (m,), above 0 and at most 1.

        """
        known = self._trust.get(task, np.ones(0))
        return np.concatenate([known, np.ones(max(0, m - len(known)))])

    def memory(self) -> dict[str, Any]:
        """The present b, and who trusts whom."""
        trust = [[task, *weights.tolist()] for task, weights in sorted(self._trust.items())]
        return {"b": self.b, "trust": trust}

    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over what :meth:`memory` gave."""
        self.b = positive("b", memory["b"])
        self._trust = {int(task): np.array(w, dtype=np.float64) for task, *w in memory["trust"]}

    def unsure(self, margin: float, k: int) -> bool:
        """True with chance b / (b + |margin|), by the k-th number of chance.

        Parameters
        ----------
        margin:
            What the chance falls with.
        k:
            Which number of chance decides.

        Returns
        -------
        :
            Whether it is doubtful.

        """
        return self.chance(k) < self.b / (self.b + min(abs(margin), 700.0))

    def _opinions(self) -> Numbers | None:
        if self._hear is None or self._at >= len(self.heard):
            return None
        said = np.clip(self._hear(self._first + self._at), -700.0, 700.0)
        self.heard[self._at] = said
        return said


def margin_of(doubt: float) -> float:
    """|margin| whose chance of error is ``doubt``.

    >>> round(margin_of(0.25), 6)  # log 3
    1.098612
    """
    return abs(log(doubt / (1.0 - doubt))) if 0.0 < doubt < 1.0 else 700.0
