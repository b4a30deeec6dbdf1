"""A stream: the labelled events of several tasks, and the orders in which they may arrive."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Features, Rounds, select


@dataclass(frozen=True)
class Truth:
    """True weights (d, m): low-rank ``shared`` ones, and ``personal`` ones of the ``outliers``.

    >>> from romco.streams import simulated
    >>> simulated(n_tasks=4, n_features=10, n_events=5, outliers=1).truth.personal.shape
    (10, 4)
    """

    shared: NDArray[np.float64]  # (d, m) the low-rank part of the true weights
    personal: NDArray[np.float64]  # (d, m) non-zero for outlier tasks only
    outliers: NDArray[np.int64]  # (k,)   the tasks that are different


@dataclass(frozen=True)
class Stream:
    """Labelled events of several tasks; an order turns them into rounds.

    Events are kept in the order they were recorded or made, which matters only
    where the world drifts.

    >>> x, y = np.eye(2), np.array([1.0, -1.0])
    >>> stream = Stream("mine", np.array([0, 1]), x, y, tasks=("ann", "bob"))
    >>> stream.n_tasks, stream.n_features, stream.n_events
    (2, 2, 2)
    """

    name: str
    task: NDArray[np.int64]  # (n,)
    x: Features  # (n, d)
    y: NDArray[np.float64]  # (n,) -1 or +1; class numbers or numbers where ``answers`` says so
    tasks: tuple[str, ...]  # names of the m tasks
    labels: tuple[str, ...] = ("-1", "+1")  # what -1 and +1 mean, or each class, for people
    notes: tuple[str, ...] = ()  # what the data cannot show; printed beside every result
    truth: Truth | None = None
    answers: int = 1  # as of a learner: 1 for -1 or +1, k for one of k classes, 0 for any number
    offset: NDArray[np.float64] | None = None  # (n,) known part of the margin or of the number
    moment: NDArray[np.float64] | None = None  # (n,) its labels come together

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.tasks)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.x.shape[1])

    @property
    def n_events(self) -> int:
        """Number of events of all tasks."""
        return len(self.y)


# Orders of arrival: synchronous rounds, or one event at a time, shuffled by a seed


def synchronous(stream: Stream, seed: int) -> Rounds:
    """The paper's setting: round t holds the t-th event of every task that still has one.

    Each task's events are shuffled; tasks with fewer events drop out earlier.

    >>> from romco.streams import simulated
    >>> len(synchronous(simulated(n_tasks=4, n_features=10, n_events=5), seed=0))
    5
    """
    if stream.moment is not None:
        raise ValueError("events of one moment are in one round already: use another order")
    shuffled = _shuffle(stream.n_events, seed)
    earlier = count_earlier(stream.task[shuffled])
    order = shuffled[np.lexsort((stream.task[shuffled], earlier))]
    sizes = np.bincount(earlier)
    return _arrange(stream, order, np.concatenate([[0], np.cumsum(sizes)]))


def interleaved(stream: Stream, seed: int) -> Rounds:
    """One event, or moment, at a time, tasks in random order.

    >>> from romco.streams import simulated
    >>> len(interleaved(simulated(n_tasks=4, n_features=10, n_events=5), seed=0))
    20
    """
    starts = _starts(stream)
    sizes = np.diff(starts)
    order = _shuffle(len(sizes), seed)
    if len(sizes) == stream.n_events:
        return _arrange(stream, order, starts)
    place = np.empty(len(sizes), dtype=np.int64)
    place[order] = np.arange(len(sizes))
    by_moment = np.argsort(np.repeat(place, sizes), kind="stable")
    return _arrange(stream, by_moment, np.concatenate([[0], np.cumsum(sizes[order])]))


def recorded(stream: Stream, seed: int = 0) -> Rounds:
    """One event, or moment, at a time, as recorded; the seed plays no part.

    >>> from romco.streams import simulated
    >>> len(recorded(simulated(n_tasks=4, n_features=10, n_events=5)))
    20
    """
    return _arrange(stream, np.arange(stream.n_events), _starts(stream))


ORDERS: dict[str, Callable[[Stream, int], Rounds]] = {
    "synchronous": synchronous,
    "interleaved": interleaved,
    "recorded": recorded,
}


def _starts(stream: Stream) -> NDArray[np.int64]:
    """Return the first event of each moment, and the number of events."""
    n = stream.n_events
    if stream.moment is None:
        return np.arange(n + 1)
    changes = np.flatnonzero(np.diff(stream.moment)) + 1
    return np.concatenate([[0], changes, [n]])


def _shuffle(n: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng([seed, n]).permutation(n)


def count_earlier(task: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of earlier events of the same task, for each event."""
    by_task = np.argsort(task, kind="stable")
    counts = np.bincount(task)
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    turns = np.empty(len(task), dtype=np.int64)
    turns[by_task] = np.arange(len(task)) - firsts[task[by_task]]
    return turns


def _arrange(stream: Stream, order: NDArray[np.int64], starts: NDArray[np.int64]) -> Rounds:
    offset = select(stream.offset, order)
    return Rounds(stream.task[order], stream.x[order], stream.y[order], starts, offset=offset)
