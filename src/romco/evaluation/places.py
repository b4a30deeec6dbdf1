"""The events of a stream by their places: predicted, learned and noticed without cutting it."""

from __future__ import annotations

from typing import Protocol, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.events import Events
from romco.learners import Learner
from romco.learners.base import CompiledLearner
from romco.learners.capabilities import LearnsLate
from romco.rounds import Round, Rounds

Numbers = NDArray[np.float64]
At = NDArray[np.int64]


class Places(Protocol):
    """What a loop does with the events of one part of a stream; ``at`` (n,) are places in it."""

    def predict(self, begin: int, end: int) -> Numbers:
        """Margins of the events from begin to end."""

    def learn(self, at: At) -> None:
        """Learn some events as one round."""

    def notice(self, at: At) -> None:
        """Learn of some events what needs no label."""


def places(learner: Learner, part: Rounds) -> Places:
    """The events of a part of a stream, for a learner: in place where it is compiled."""
    events = part.events
    if isinstance(learner, CompiledLearner) and not np.isnan(events.y).any():
        return _InPlace(learner, events)
    return Cut(learner, events)


@final
class _InPlace:
    """Checked once, then read where they are."""

    def __init__(self, learner: CompiledLearner, events: Round) -> None:
        sizes = (learner.n_features, learner.n_tasks)
        self._kernel, self._looks = learner.kernel, learner.looks
        self._events = Events(events, *sizes, True, learner.answers)
        self._cut = Cut(learner, events)

    def predict(self, begin: int, end: int) -> Numbers:
        return self._kernel.predict_between(self._events, begin, end)

    def learn(self, at: At) -> None:
        if at[-1] - at[0] == len(at) - 1:
            self._kernel.update_between(self._events, at[0], at[-1] + 1)
        else:
            self._cut.learn(at)

    def notice(self, at: At) -> None:
        if not self._looks:
            return
        for e in at.tolist():
            self._kernel.look_between(self._events, e, e + 1)


@final
class Cut:
    """Cut out of the stream, for any learner."""

    def __init__(self, learner: Learner, events: Round) -> None:
        self._learner, self._events = learner, events

    def predict(self, begin: int, end: int) -> Numbers:
        """Margins of the events from begin to end."""
        blind = np.full(end - begin, np.nan)
        return self._learner.predict(self._some(np.arange(begin, end))._replace(y=blind))

    def learn(self, at: At, y: Numbers | None = None) -> None:
        """Learn some events as one round, with labels of their own or others."""
        some = self._some(at)
        self._learner.update(some if y is None else some._replace(y=y))

    def opinions(self, at: At) -> Numbers | None:
        """What is said of some events now, if that helps to learn them later."""
        if not isinstance(self._learner, LearnsLate):
            return None
        return self._learner.opinions(self._some(at))

    def learn_late(self, at: At, said: Numbers) -> None:
        """Learn some events as one round, of which this was said when they were predicted."""
        if isinstance(self._learner, LearnsLate):
            self._learner.update_late(self._some(at), said)

    def notice(self, at: At) -> None:
        """Learn of some events what needs no label."""
        self.learn(at, np.full(len(at), np.nan))

    def _some(self, at: At) -> Round:
        task, x, y, weight = self._events
        return Round(task[at], x[at], y[at], None if weight is None else weight[at])


def opinions(learner: Learner, part: Round, e: int) -> Numbers:
    """Margins (m,) that the model of every task gives for an event's row."""
    m, x = learner.n_tasks, part.x[e : e + 1]
    if not isinstance(x, np.ndarray):
        from scipy.sparse import csr_array

        indptr = np.arange(m + 1) * x.nnz
        x = csr_array((np.tile(x.data, m), np.tile(x.indices, m), indptr), shape=(m, x.shape[1]))
    else:
        x = np.repeat(x, m, axis=0)
    return learner.predict(Round(np.arange(m), x, np.full(m, np.nan)))
