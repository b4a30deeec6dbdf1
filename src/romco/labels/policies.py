"""The contract of a policy: whom to ask, with what it has spent as data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import exp
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from romco.labels.draws import seeded, uniform
from romco.parameters import positive, whole
from romco.rounds import Round

Numbers = NDArray[np.float64]
DRAWS = 4  # numbers of chance that one event may use
LATE = 0.002  # share of the last event in a mean of late: a memory of 500 events
LATELY = 1.0 - LATE
NOT_PREDICTED = "a margin is not a number: predict before asking"


class Policy(ABC):
    """Asks for the labels of some events, never for more than its budget.

    After t events at most ``max(advance, share * t + 1)`` labels were asked for, and never more
    than ``total`` where there is one: *advance* labels may be asked for early, and are paid back.
    A share of 1 asks for all.
    Derived classes say by :meth:`wants` which events they would like to know; whether there
    is a label left is decided here. All that changes is in :meth:`state`.

    Parameters
    ----------
    share:
        Part of the events whose labels may be asked for, above 0 and at most 1.
    advance:
        Labels that may be asked for early and are paid back later.
    seed:
        Of what chance decides, 0 or more; None draws one.
    total:
        Labels that are never exceeded; None sets no end.

    Raises
    ------
    ValueError
        Where a setting is out of its range.

    >>> from romco.labels import Random
    >>> policy = Random(0.1, seed=1)
    >>> round = Round(np.zeros(200, dtype=int), np.zeros((200, 1)), np.full(200, np.nan))
    >>> asked = policy.ask(round, margins=np.zeros(200))
    >>> asked.sum() <= policy.limit(), policy.events
    (np.True_, 200)

    """

    name: ClassVar[str]
    space: ClassVar[Mapping[str, Any]] = {}  # settings to try, by parameter

    def __init__(
        self, share: float, advance: int, seed: int | None, total: int | None = None
    ) -> None:
        self.share = positive("share", share)
        if self.share > 1.0:
            raise ValueError(f"share must be at most 1, a part of the events; got {share!r}")
        self.total = None if total is None else whole("total", total)
        self.advance = min(whole("advance", advance, least=0), self.total or advance)
        self.seed = seeded(seed)
        self.events = 0  # seen
        self.spent = 0  # labels asked for
        self._width = 0.0  # of intervals of late, where numbers are predicted
        self.by_chance = False  # whether the last event was asked for by chance alone
        self.audited: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)  # the same of the last round

    @abstractmethod
    def wants(self, task: int, doubt: float, left: float) -> bool:
        """Whether to ask for an event's label; ``left`` may still be asked, if it is 1 or more.

        ``doubt`` is the chance that the prediction is wrong, as its margin says. Sets
        ``by_chance`` where the answer does not depend on it.

        Parameters
        ----------
        task:
            Its number.
        doubt:
            The chance that the prediction is wrong, 0 to 1.
        left:
            Labels that are left.

        Returns
        -------
        :
            Whether to ask, if a label is left.

        """

    @abstractmethod
    def memory(self) -> dict[str, Any]:
        """What the policy itself remembers, as numbers and lists of numbers.

        Returns
        -------
        :
            By name; JSON can hold it.

        """

    @abstractmethod
    def remember(self, memory: Mapping[str, Any]) -> None:
        """Take over what :meth:`memory` gave.

        Parameters
        ----------
        memory:
            What :meth:`memory` gave.

        Raises
        ------
        ValueError
            Where a number is out of its range.

        """

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """The arguments this policy was made with.

        Returns
        -------
        :
            By name.

        """

    def ask(self, round: Round, margins: Numbers) -> NDArray[np.bool_]:
        """Whose labels to ask for, (n,); ``margins`` (n,) or (n, K) were predicted before.

        The round's labels are not looked at.

        Parameters
        ----------
        round:
            Its events; the labels are not looked at.
        margins:
            Log-odds (n,), or scores (n, K) of K classes, as predicted.

        Returns
        -------
        :
            Whether to ask for each label (n,).

        Raises
        ------
        ValueError
            Where there are not as many margins as events, or one is no number.

        """
        return self.choose(round.task, margins)

    def choose(self, tasks: NDArray[np.int64], margins: Numbers) -> NDArray[np.bool_]:
        """The same, from the tasks (n,) of a round's events.

        Parameters
        ----------
        tasks:
            Their numbers (n,).
        margins:
            As in :meth:`ask`.

        Returns
        -------
        :
            Whether to ask for each label (n,).

        Raises
        ------
        ValueError
            Where there are not as many margins as events, or one is no number.

        """
        doubts = doubt(margins).tolist()
        if len(doubts) != len(tasks):
            raise ValueError(f"{len(doubts)} margins for a round of {len(tasks)} events")
        asked, audited = np.zeros((2, len(doubts)), dtype=np.bool_)
        for e, (task, chance) in enumerate(zip(tasks.tolist(), doubts, strict=True)):
            asked[e] = self._ask_one(task, chance)
            audited[e] = asked[e] and self.by_chance
        self.audited = audited
        return asked

    def ask_by_width(self, round: Round, widths: Numbers) -> NDArray[np.bool_]:
        """The same for predicted numbers, from the widths (n,) of their intervals.

        A number is doubtful as far as its interval is wide beside those of late.

        Parameters
        ----------
        round:
            Its events; the labels are not looked at.
        widths:
            Of the predicted intervals (n,), 0 or more.

        Returns
        -------
        :
            Whether to ask for each answer (n,).

        Raises
        ------
        ValueError
            Where a width is negative or no number.

        """
        chances = np.empty(len(widths))
        for e, width in enumerate(np.asarray(widths, dtype=np.float64).tolist()):
            if not width >= 0.0:
                raise ValueError(f"the width of interval {e} is {width}; expected 0 or more")
            self._width = width if self._width == 0.0 else LATELY * self._width + LATE * width
            chances[e] = 0.5 * width / (width + self._width) if width > 0.0 else 0.0
        return self.ask(round, np.log1p(-chances) - np.log(np.maximum(chances, 1e-300)))

    def limit(self) -> float:
        """How many labels may have been asked for by now.

        Returns
        -------
        :
            Labels, spent ones included.

        """
        allowed = max(float(self.advance), self.share * self.events + 1.0)
        return allowed if self.total is None else min(allowed, float(self.total))

    def state(self) -> dict[str, Any]:
        """A copy of everything, as JSON has it.

        Returns
        -------
        :
            Name, settings, counts and memory, from which :func:`romco.labels.restore` goes on.

        """
        return {
            "policy": self.name,
            "settings": self.settings(),
            "events": self.events,
            "spent": self.spent,
            "width": self._width,
            "memory": self.memory(),
        }

    def chance(self, k: int = 0) -> float:
        """The k-th number of chance for the present event.

        Parameters
        ----------
        k:
            Which of them.

        Returns
        -------
        :
            A number from 0 to 1, 1 not included.

        """
        return uniform(self.seed, self.events * DRAWS + k)

    def _ask_one(self, task: int, doubt: float) -> bool:
        self.events += 1
        left = self.limit() - self.spent
        self.by_chance = False
        asked = (self.wants(task, doubt, left) or self.share == 1.0) and left >= 1.0
        self.spent += asked
        return asked


def doubt(margins: Numbers) -> Numbers:
    """Chance (n,) that the prediction is wrong, from margins taken as log-odds.

    Margins (n, K) are one score for each of K classes, taken as logarithms of odds between them.

    >>> doubt(np.array([0.0, np.inf])), doubt(np.zeros((1, 4)))
    (array([0.5, 0. ]), array([0.75]))
    """
    margins = np.asarray(margins, dtype=np.float64)
    if margins.ndim == 1:  # one by one, so that the same margin gives the same bits in any round
        return np.array([_doubt_of(margin) for margin in margins.tolist()])
    if np.isnan(margins).any():
        raise ValueError(NOT_PREDICTED)
    best = margins.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        behind = np.where(margins == best, 0.0, margins - best)  # infinite ones may tie
    total: Numbers = np.exp(behind).sum(axis=1)
    return 1.0 - 1.0 / total


def _doubt_of(margin: float) -> float:
    odds = exp(-abs(margin))
    if odds != odds:
        raise ValueError(NOT_PREDICTED)
    return odds / (1.0 + odds)
