"""Prequential evaluation: predict, score, learn each round; labels may cost or arrive late."""

from collections.abc import Iterable, Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.labels import Audit, Policy
from romco.learners import Learner
from romco.learners.capabilities import LearnsDelayed
from romco.parameters import whole
from romco.rounds import Round, Rounds, chosen
from romco.typing import Floats


class Metric(Protocol):
    """A quantity updated along a stream.

    A metric of your own, the number of events:

    >>> class Events:
    ...     def __init__(self):
    ...         self.n = 0
    ...
    ...     def add(self, round, scores):
    ...         self.n += len(scores)
    ...
    ...     def value(self):
    ...         return self.n
    >>> metric: Metric = Events()
    >>> metric.add(Round(np.array([0]), np.eye(1), np.array([1.0])), np.array([0.5]))
    >>> metric.value()
    1
    """

    def add(self, round: Round, scores: Floats) -> None:
        """Add a round and the learner's output (n,) or (n, K) from before it was learned."""

    def value(self) -> Any:
        """Current value, as JSON holds it."""


# Time of arrival, number, events, and the learner's prediction context (n, k) if it wants it back.
Pending = tuple[float, int, Round, Floats | None]


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
        self._now: Floats | None = None
        self._known: Floats | None = None

    @classmethod
    def until(cls, now: ArrayLike, known: ArrayLike) -> Self:
        """Delay by the clock; event e is predicted at ``now[e]`` and learned from ``known[e]``."""
        delay = cls()
        times = np.asarray(now, dtype=np.float64)
        arrivals = np.asarray(known, dtype=np.float64)
        if times.ndim != 1 or times.shape != arrivals.shape:
            raise ValueError(f"expected two times per event; got {times.shape}, {arrivals.shape}")
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
        if self._now is None:
            return float(event)
        return float(self._now[event])

    def known(self, events: ArrayLike) -> Floats:
        """Times (n,) at which the labels of one round's events arrive, as :meth:`now` counts."""
        at = np.asarray(events)
        if self._known is not None:
            return self._known[at]
        return np.full(len(at), float(at.max(initial=0) + self.events + 1))

    def known_before(self, starts: ArrayLike) -> NDArray[np.intp]:
        """Return how many of the first labels (T,) are known when each round is predicted.

        ``starts`` (T + 1,) are the first events of the rounds; labels must arrive in their order.

        >>> Delay(1).known_before([0, 1, 3, 4]).tolist()
        [0, 0, 1]
        """
        ends = np.asarray(starts, dtype=np.intp)
        firsts = ends[:-1]
        if self._now is None or self._known is None:
            arrived = np.searchsorted(ends, firsts - self.events, side="right") - 1
            return np.asarray(np.where(arrived < 0, 0, ends[np.maximum(arrived, 0)]))
        if (np.diff(self._known) < 0.0).any():
            raise ValueError("the labels do not arrive in the order of their events")
        arrived = np.searchsorted(self._known, self._now[firsts], side="right")
        return np.asarray(np.minimum(arrived, firsts))


class LabelLoop:
    """State of a stream whose labels cost or arrive late.

    Every event is predicted. Labels that were not asked for are never learned; of these events
    only the feature statistics are. The others are learned once their labels arrive; labels
    still pending at the end are not learned.
    """

    def __init__(self, learner: Learner, policy: Policy | None, delay: Delay) -> None:
        self.learner, self.policy, self.delay = learner, policy, delay
        self.audit, self.seen, self.learned = Audit(), 0, 0
        self._pending: list[Pending] = []  # heap by time, then order
        self._added = 0

    def replay(self, rounds: Rounds) -> Floats:
        """Predict, then learn, a part of the stream; return its margins."""
        return np.concatenate(list(map(self._round, rounds)))

    def summary(self) -> dict[str, Any]:
        """Labels asked for and learned, and the audit's estimates."""
        spent = self.seen
        if self.policy is not None:
            spent = self.policy.spent
        share = 0.0
        if self.seen:
            share = spent / self.seen
        counts = {"asked": spent, "learned": self.learned, "share": share}
        return {**counts, **self.audit.summary()}

    def _round(self, events: Round) -> Floats:
        self._learn_until(self.delay.now(self.seen))
        margins = self.learner.predict(_unlabelled(events))
        mask = self.choose(events, margins)
        self.observe(events, ~mask)
        known = np.full(len(mask), np.nan)
        known[mask] = self.delay.known(self.seen + np.flatnonzero(mask))
        for time in np.unique(known[mask]).tolist():
            self.wait(events, known == time, time)
        self.seen += len(events.y)
        if not self.delay.is_late:
            self._learn_until(np.inf)
        return margins

    def choose(self, events: Round, margins: Floats) -> NDArray[np.bool_]:
        """Mask (n,) of the events whose labels are asked for; all of them without a policy."""
        policy = self.policy
        if policy is None:
            return np.ones(len(events.y), dtype=np.bool_)
        mask = policy.choose(events.task, margins)
        if policy.audited.any() and margins.ndim == 1:
            self.audit.add_round(events, margins, policy.audited)
        return mask

    def observe(self, events: Round, rest: NDArray[np.bool_]) -> None:
        """Learn what needs no label from the events of a mask (n,)."""
        if rest.any():
            self.learner.update(_unlabelled(chosen(events, rest)))

    def wait(self, events: Round, some: NDArray[np.bool_], time: float) -> int:
        """Keep the events of a mask (n,) until their labels arrive; return their number."""
        kept = chosen(events, some)
        context = None
        if self.delay.is_late and isinstance(self.learner, LearnsDelayed):
            context = self.learner.prediction_context(kept)
        heappush(self._pending, (time, self._added, kept, context))
        self._added += 1
        return self._added - 1

    def learn(self, number: int, events: Round, context: Floats | None) -> None:
        """Learn events whose labels have arrived; ``number`` is that of :meth:`wait`."""
        if context is not None and isinstance(self.learner, LearnsDelayed):
            self.learner.update_delayed(events, context)
        else:
            self.learner.update(events)
        self.learned += len(events.y)

    def _learn_until(self, now: float) -> None:
        while self._pending and self._pending[0][0] <= now:
            _, number, events, context = heappop(self._pending)
            self.learn(number, events, context)


def _unlabelled(events: Round) -> Round:
    return events._replace(y=np.full(len(events.y), np.nan))


class Record(NamedTuple):
    """Rounds and events so far, and the value of each metric by name.

    >>> Record(25, 75, {"error": 0.2}).metrics["error"]
    0.2
    """

    rounds: int
    events: int
    metrics: dict[str, Any]


def prequential(
    learner: Learner | LabelLoop,
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
    >>> from romco.evaluation import Score
    >>> stream = romco.streams.simulated(n_tasks=3, n_features=10, n_events=50)
    >>> rounds = romco.streams.synchronous(stream, seed=0)
    >>> learner = romco.learner("ogd-unique", n_features=10, n_tasks=3)
    >>> for record in prequential(learner, rounds, {"all": Score()}, every=25):
    ...     print(record.rounds, record.events)
    25 75
    50 150
    """
    if every < 1:
        raise ValueError(f"every must be at least 1; got {every}")
    _check(rounds)
    if not isinstance(learner, LabelLoop) and (labels is not None or delay):
        if not isinstance(delay, Delay):
            delay = Delay(delay)
        learner = LabelLoop(learner, labels, delay)
    done = events = 0
    for part in _parts(rounds, every):
        scores = learner.replay(part)
        done += len(part)
        events += len(scores)
        for metric in metrics.values():
            metric.add(part.events, scores)
        values = {name: metric.value() for name, metric in metrics.items()}
        if isinstance(learner, LabelLoop):
            values["labels"] = learner.summary()
        yield Record(done, events, values)


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
