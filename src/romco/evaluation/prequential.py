"""Prequential evaluation: predict, score, learn each round; labels may cost or arrive late."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from heapq import heappop, heappush
from itertools import islice, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.evaluation.metrics import Metric
from romco.kernels.core.events import Events
from romco.labels import Audit, Policy
from romco.labels.policies import Consulting
from romco.learners import Learner
from romco.learners.base import CompiledLearner
from romco.learners.capabilities import LearnsDelayed
from romco.parameters import whole
from romco.rounds import Round, Rounds, chosen

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]  # numbers (n,) of events within a part of the stream


class Delay:
    """Time at which the label of each event of a stream arrives.

    ``Delay(1000)``: once 1000 further events were predicted; labels of one round arrive together.
    ``Delay.until(now, known)``: by the clock, where event e is predicted at ``now[e]`` and its
    label arrives at ``known[e]``.

    >>> Delay(2).known([0, 1]).tolist(), Delay.until([5, 6, 9], [8, 7, 9]).known([0]).tolist()
    ([4.0, 4.0], [8.0])
    """

    def __init__(self, events: int = 0) -> None:
        self.events = whole("delay", events, least=0)
        self._now: Numbers | None = None
        self._known: Numbers | None = None

    @classmethod
    def until(cls, now: ArrayLike, known: ArrayLike) -> Self:
        """Delay by the clock; event e is predicted at ``now[e]`` and learned from ``known[e]``."""
        delay = cls()
        times, arrivals = np.asarray(now, dtype=np.float64), np.asarray(known, dtype=np.float64)
        if times.ndim != 1 or times.shape != arrivals.shape:
            raise ValueError(
                f"expected 2 times for each event; got {times.shape} and {arrivals.shape}"
            )
        if (np.diff(times) < 0.0).any():
            raise ValueError("the events are not in the order of their times: sort them first")
        if not (arrivals >= times).all():
            at = int(np.flatnonzero(~(arrivals >= times))[0])
            raise ValueError(f"event {at}: its label is known at {arrivals[at]}, before the event")
        delay._now, delay._known = times, arrivals
        return delay

    @property
    def is_late(self) -> bool:
        """True if a label may arrive after the next event was predicted."""
        return self.events > 0 or self._known is not None

    def now(self, event: int) -> float:
        """Time at which an event is predicted: by the clock, or its number in the stream."""
        return float(event) if self._now is None else float(self._now[event])

    def known(self, events: ArrayLike) -> Numbers:
        """Times (n,) at which the labels of one round's events arrive, as :meth:`now` counts."""
        at = np.asarray(events)
        if self._known is not None:
            return self._known[at]
        return np.full(len(at), float(at.max(initial=0) + self.events + 1))


class StreamPart:
    """Some events of a stream for one learner: read in place if it is compiled, else copied."""

    def __init__(self, learner: Learner, events: Round) -> None:
        self.learner, self.events = learner, events
        self._in_place: Events | None = None
        if isinstance(learner, CompiledLearner) and not np.isnan(events.y).any():
            self._in_place = learner.events_of(events, labelled=True)

    def predict(self, begin: int, end: int) -> Numbers:
        """Margins of the events from begin to end."""
        if isinstance(self.learner, CompiledLearner) and self._in_place is not None:
            return self.learner.kernel.predict(self._in_place, begin, end)
        unlabelled = np.full(end - begin, np.nan)
        return self.learner.predict(self._copy(np.arange(begin, end), unlabelled))

    def learn(self, at: Places, y: Numbers | None = None, context: Numbers | None = None) -> None:
        """Learn events as one round; ``y`` replaces their labels."""
        learner = self.learner
        if context is not None and isinstance(learner, LearnsDelayed):
            learner.update_delayed(self._copy(at), context)
        elif (
            y is None
            and isinstance(learner, CompiledLearner)
            and self._in_place is not None
            and at[-1] - at[0] == len(at) - 1
        ):
            learner.kernel.update(self._in_place, at[0], at[-1] + 1)
        else:
            learner.update(self._copy(at, y))

    def observe(self, at: Places) -> None:
        """Update feature statistics by events without labels."""
        learner = self.learner
        if isinstance(learner, CompiledLearner) and self._in_place is not None:
            if learner.uses_unlabelled:
                for e in at.tolist():
                    learner.kernel.look_at(self._in_place, e, e + 1)
        else:
            self.learn(at, np.full(len(at), np.nan))

    def context(self, at: Places) -> Numbers | None:
        """Prediction context of events now, if the learner wants it with their labels."""
        if not isinstance(self.learner, LearnsDelayed):
            return None
        return self.learner.prediction_context(self._copy(at))

    def _copy(self, at: Places, y: Numbers | None = None) -> Round:
        some = chosen(self.events, at)
        return some if y is None else some._replace(y=y)


class PendingLabels(NamedTuple):
    """Events of one round whose labels arrive at the same time."""

    part: StreamPart
    at: Places
    peer_margins: tuple[Numbers | None, ...]  # of every task's model, if the policy wanted them
    context: Numbers | None  # (n, k) the learner's prediction context, if it wants it back


class LabelLoop:
    """State of a stream whose labels cost or arrive late.

    Every event is predicted. Labels that were not asked for are never learned; of these events
    only the feature statistics are. The others are learned once their labels arrive; labels
    still pending at the end are not learned.
    """

    def __init__(self, learner: Learner, policy: Policy | None, delay: Delay) -> None:
        self.learner, self.policy, self.delay = learner, policy, delay
        self.audit, self.seen, self.learned = Audit(), 0, 0
        self._pending: list[tuple[float, int, PendingLabels]] = []  # heap by time, then order
        self._added = 0

    def run(self, rounds: Rounds) -> Numbers:
        """Predict, then learn, a part of the stream; return its margins."""
        part = StreamPart(self.learner, rounds.events)
        starts = (rounds.starts - rounds.starts[0]).tolist()
        return np.concatenate([self._round(part, *ends) for ends in pairwise(starts)])

    def summary(self) -> dict[str, Any]:
        """Labels asked for and learned, and the audit's estimates."""
        spent = self.seen if self.policy is None else self.policy.spent
        share = spent / self.seen if self.seen else 0.0
        counts = {"asked": spent, "learned": self.learned, "share": share}
        return {**counts, **self.audit.summary()}

    def _round(self, part: StreamPart, begin: int, end: int) -> Numbers:
        self._learn_until(self.delay.now(self.seen))
        margins = part.predict(begin, end)
        chosen = self._choose(part, begin, end, margins)
        at = begin + np.flatnonzero(chosen)
        if len(at) < end - begin:
            self._observe(part, begin, ~chosen)
        if len(at):
            self._wait(part, at, begin)
        self.seen += end - begin
        if not self.delay.is_late:
            self._learn_until(np.inf)
        return margins

    def _choose(
        self, part: StreamPart, begin: int, end: int, margins: Numbers
    ) -> NDArray[np.bool_]:
        """Mask (n,) of the events whose labels are asked for; all of them without a policy."""
        policy, events = self.policy, part.events
        if policy is None:
            return np.ones(end - begin, dtype=np.bool_)
        if isinstance(policy, Consulting):
            policy.consult(partial(_margins_of_all_tasks, self.learner, events), begin, end - begin)
        chosen = policy.choose(events.task[begin:end], margins)
        if policy.audited.any() and margins.ndim == 1:
            at = begin + np.flatnonzero(policy.audited)
            self.audit.add_answers(events.task[at], events.y[at], margins[policy.audited])
        return chosen

    def _observe(self, part: StreamPart, begin: int, rest: NDArray[np.bool_]) -> None:
        """Learn what needs no label, or the label that other tasks agree on."""
        if isinstance(self.policy, Consulting):
            given = rest & ~np.isnan(self.policy.given)
            if given.any():
                part.learn(begin + np.flatnonzero(given), self.policy.given[given])
                rest = rest & ~given
        if rest.any():
            part.observe(begin + np.flatnonzero(rest))

    def _wait(self, part: StreamPart, at: Places, begin: int) -> None:
        known = self.delay.known(self.seen + at - begin)
        for time in np.unique(known).tolist():
            some = at[known == time]
            peers: tuple[Numbers | None, ...] = ()
            if isinstance(self.policy, Consulting):
                peers = tuple(self.policy.heard[e - begin] for e in some.tolist())
            context = part.context(some) if self.delay.is_late else None
            pending = PendingLabels(part, some, peers, context)
            heappush(self._pending, (time, self._added, pending))
            self._added += 1

    def _learn_until(self, now: float) -> None:
        while self._pending and self._pending[0][0] <= now:
            part, at, peers, context = heappop(self._pending)[2]
            part.learn(at, context=context)
            self.learned += len(at)
            if isinstance(self.policy, Consulting):
                for e, margins in zip(at.tolist(), peers, strict=True):
                    if margins is not None:
                        task, y = int(part.events.task[e]), float(part.events.y[e])
                        self.policy.learn(task, y, margins)


def _margins_of_all_tasks(learner: Learner, events: Round, e: int) -> Numbers:
    """Margins (m,) that the model of every task gives for the row of event e."""
    m = learner.n_tasks
    return learner.predict(Round(np.arange(m), events.x[[e] * m], np.full(m, np.nan)))


class Record(NamedTuple):
    """Rounds and events so far, and the value of each metric by name.

    >>> Record(25, 75, {"error": 0.2}).metrics["error"]
    0.2
    """

    rounds: int
    events: int
    metrics: dict[str, Any]


def prequential(
    learner: Learner,
    rounds: Iterable[Round],
    metrics: Mapping[str, Metric],
    every: int = 100,
    *,
    labels: Policy | None = None,
    delay: int | Delay = 0,
) -> Iterator[Record]:
    """Yield the running metrics every so many rounds, and once at the end.

    Each round is predicted before it is learned, ``every`` rounds in one call of
    ``learner.replay``; metrics are counted after each such call. Every event is predicted and
    scored. With a policy ``labels`` of :mod:`romco.labels`, only the labels that it asks for are
    learned; with ``delay`` they arrive after so many events, or as a
    :class:`romco.evaluation.Delay` defines. The metric "labels" then holds how many were asked for
    and learned, and the estimates of the audit.

    >>> import romco
    >>> from romco.evaluation import Confusion
    >>> stream = romco.streams.simulated(n_tasks=3, n_features=10, n_events=50)
    >>> rounds = romco.streams.synchronous(stream, seed=0)
    >>> learner = romco.learner("ogd-unique", n_features=10, n_tasks=3)
    >>> for record in prequential(learner, rounds, {"all": Confusion(3)}, every=25):
    ...     print(record.rounds, record.events)
    25 75
    50 150
    """
    if every < 1:
        raise ValueError(f"every must be at least 1; got {every}")
    _check(rounds)
    loop = None
    if labels is not None or delay:
        loop = LabelLoop(learner, labels, delay if isinstance(delay, Delay) else Delay(delay))
    done = events = 0
    for part in _parts(rounds, every):
        scores = learner.replay(part) if loop is None else loop.run(part)
        done, events = done + len(part), events + len(scores)
        for metric in metrics.values():
            metric.add(part.events, scores)
        values = {name: metric.value() for name, metric in metrics.items()}
        yield Record(done, events, values if loop is None else {**values, "labels": loop.summary()})


def _check(rounds: Any) -> None:
    """Raise TypeError where arrays were given that are to be made to rounds first."""
    if isinstance(rounds, Round):
        raise TypeError("rounds must be a sequence of them: write [round] for a single one")
    if isinstance(rounds, (tuple, list)) and rounds and not isinstance(rounds[0], Round):
        raise TypeError(
            f"rounds must be of romco.Round, but the first is of {type(rounds[0]).__name__}; for "
            "arrays X, y and task write [romco.Round(task[i:i+1], X[i:i+1], y[i:i+1]) for i in "
            "range(len(y))], with tasks as numbers from 0 and labels -1 or +1; or let "
            "romco.Model().learn(X, y, task) read names and labels of any kind"
        )


def _parts(rounds: Iterable[Round], every: int) -> Iterator[Rounds]:
    """Parts of ``every`` rounds; the last may be shorter."""
    if isinstance(rounds, Rounds):
        for first in range(0, len(rounds), every):
            yield rounds[first : first + every]
    else:
        rest = iter(rounds)
        while part := list(islice(rest, every)):
            yield Rounds.pack(part)
