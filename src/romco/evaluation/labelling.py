"""The loop where labels cost or come late: predict all, ask for some, learn them when they come."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from romco.evaluation.delays import Delay, DelayedRounds
from romco.evaluation.predicted import Predicted
from romco.labels import Audit, Peers, Policy
from romco.labels.audits import summary
from romco.learners import Learner
from romco.rounds import Round, chosen

Numbers = NDArray[np.float64]


def labelled(
    learner: Learner,
    rounds: Iterable[Round],
    policy: Policy | None,
    delay: Delay,
) -> Iterator[Predicted]:
    """What became of each round, and what was spent on labels.

    Every event is predicted. Labels that were not asked for are never learned, the
    others once they are known; those still under way at the end are not learned.
    """
    waiting, audit, seen, learned = DelayedRounds(), Audit(), 0, 0
    for round in rounds:
        for late in waiting.arrived(delay.now(seen)):
            learner.update(late)
            learned += len(late.y)
        margins = learner.predict(round)
        asked = ask(policy, learner, round, margins)
        if policy is not None:
            audit.add_round(round, margins, policy.audited)
        if asked.any():
            events = seen + np.flatnonzero(asked)
            waiting.add(chosen(round, asked), delay.known(events))
        seen += len(margins)
        if not delay.is_late:
            for now in waiting.arrived(np.inf):
                learner.update(now)
                learned += len(now.y)
        spent = seen if policy is None else policy.spent
        told = {"asked": spent, "learned": learned, "share": spent / seen, **summary(audit)}
        yield Predicted(1, round, margins, told)


def ask(
    policy: Policy | None, learner: Learner, round: Round, margins: Numbers
) -> NDArray[np.bool_]:
    """Whose labels a policy asks for, (n,); all of them without one."""
    if policy is None:
        return np.ones(len(margins), dtype=np.bool_)
    blind = round._replace(y=np.full(len(margins), np.nan))
    if isinstance(policy, Peers):
        policy.consult(opinions(learner, blind))
    return policy.ask(blind, margins)


def opinions(learner: Learner, round: Round) -> Numbers:
    """Margins (n, m) that the model of every task gives for a round's rows."""
    columns = [
        learner.predict(round._replace(task=np.full_like(round.task, task)))
        for task in range(learner.n_tasks)
    ]
    return np.stack(columns, axis=1)
