"""The loop where labels cost or come late: predict all, ask for some, learn them when they come."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from romco.evaluation.delays import Delay, Delayed
from romco.evaluation.places import At, Cut, Places, opinions, places
from romco.labels import Audit, Consulting, Policy
from romco.labels.audits import summary
from romco.learners import Learner
from romco.rounds import Round, Rounds

Numbers = NDArray[np.float64]


class Late(NamedTuple):
    """Events whose labels are under way."""

    places: Places
    at: At
    round: Round  # of which they are
    heard: tuple[Numbers | None, ...]  # what the other tasks said of each, if they were asked
    said: Numbers | None  # what the learner said of them (n, k), if it wants to know


@final
class Labelling:
    """Where a stream stands whose labels cost or come late.

    Every event is predicted. Labels that were not asked for are never learned, and of these
    events only what needs no label; the others are learned once they are known. Those still
    under way at the end are not learned.
    """

    def __init__(self, learner: Learner, policy: Policy | None, delay: Delay) -> None:
        self.learner, self.policy, self.delay = learner, policy, delay
        self.waiting: Delayed[Late] = Delayed()
        self.audit, self.seen, self.learned = Audit(), 0, 0

    def run(self, part: Rounds) -> Numbers:
        """Margins of the events of a part of the stream, each round predicted, then learned."""
        here, events = places(self.learner, part), part.events
        starts = part.starts - part.starts[0]
        margins = [
            self._round(here, events, begin, end)
            for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)
        ]
        return np.concatenate(margins)

    def told(self) -> dict[str, Any]:
        """What was spent on labels, and what they tell."""
        spent = self.seen if self.policy is None else self.policy.spent
        share = spent / self.seen if self.seen else 0.0
        audit = summary(self.audit)
        return {"asked": spent, "learned": self.learned, "share": share, **audit}

    def _round(self, here: Places, events: Round, begin: int, end: int) -> Numbers:
        self._learn_until(self.delay.now(self.seen))
        margins = here.predict(begin, end)
        asked = self._ask(events, begin, end, margins)
        at = begin + np.flatnonzero(asked)
        if len(at) < end - begin:
            self._leave(here, events, begin, asked)
        if len(at):
            self._await(here, events, at, begin)
        self.seen += end - begin
        if not self.delay.is_late:
            self._learn_until(np.inf)
        return margins

    def _ask(self, events: Round, begin: int, end: int, margins: Numbers) -> NDArray[np.bool_]:
        """Whose labels the policy asks for, (n,); all of them without one."""
        policy = self.policy
        if policy is None:
            return np.ones(end - begin, dtype=np.bool_)
        if isinstance(policy, Consulting):
            policy.consult(partial(opinions, self.learner, events), begin, end - begin)
        asked = policy.choose(events.task[begin:end], margins)
        if policy.audited.any() and margins.ndim == 1:
            at = begin + np.flatnonzero(policy.audited)
            y = events.y[at]
            self.audit.add_answers(events.task[at], y, margins[policy.audited])
        return asked

    def _leave(self, here: Places, events: Round, begin: int, asked: NDArray[np.bool_]) -> None:
        """Learn of events whose labels will not come what can be learned."""
        rest = ~asked
        if isinstance(self.policy, Consulting):
            given = rest & ~np.isnan(self.policy.given)
            if given.any():
                at = begin + np.flatnonzero(given)
                Cut(self.learner, events).learn(at, self.policy.given[given])
                rest &= ~given
        if rest.any():
            here.notice(begin + np.flatnonzero(rest))

    def _await(self, here: Places, events: Round, at: At, begin: int) -> None:
        known = self.delay.known(self.seen + at - begin)
        for time in np.unique(known).tolist():
            some = at[known == time]
            heard: tuple[Numbers | None, ...] = ()
            if isinstance(self.policy, Consulting):
                heard = tuple(self.policy.heard[e - begin] for e in some.tolist())
            cut = Cut(self.learner, events)
            said = cut.opinions(some) if self.delay.is_late else None
            self.waiting.add(time, Late(here, some, events, heard, said))

    def _learn_until(self, now: float) -> None:
        for late in self.waiting.arrived(now):
            if late.said is None:
                late.places.learn(late.at)
            else:
                Cut(self.learner, late.round).learn_late(late.at, late.said)
            self.learned += len(late.at)
            if isinstance(self.policy, Consulting):
                for e, heard in zip(late.at.tolist(), late.heard, strict=True):
                    if heard is not None:
                        self.policy.learn(int(late.round.task[e]), float(late.round.y[e]), heard)
