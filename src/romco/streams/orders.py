"""Orders of arrival: the same events as synchronous rounds or one at a time, shuffled by seed."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from romco.rounds import Rounds
from romco.streams.stream import Stream

Order = Callable[[Stream, int], Rounds]


def synchronous(stream: Stream, seed: int) -> Rounds:
    """The paper's setting: round t holds the t-th event of every task that still has one.

    Each task's events are shuffled; tasks with fewer events drop out earlier.

    >>> from romco.streams import simulated
    >>> len(synchronous(simulated(n_tasks=4, n_features=10, n_events=5), seed=0))
    5
    """
    shuffled = _shuffle(stream.n_events, seed)
    turn = count_earlier(stream.task[shuffled])
    order = shuffled[np.lexsort((stream.task[shuffled], turn))]
    sizes = np.bincount(turn)
    return _arrange(stream, order, np.concatenate([[0], np.cumsum(sizes)]))


def interleaved(stream: Stream, seed: int) -> Rounds:
    """One event at a time, tasks in random order.

    >>> from romco.streams import simulated
    >>> len(interleaved(simulated(n_tasks=4, n_features=10, n_events=5), seed=0))
    20
    """
    return _arrange(stream, _shuffle(stream.n_events, seed), np.arange(stream.n_events + 1))


def recorded(stream: Stream, seed: int = 0) -> Rounds:
    """One event at a time, as recorded; the seed plays no part.

    >>> from romco.streams import simulated
    >>> len(recorded(simulated(n_tasks=4, n_features=10, n_events=5)))
    20
    """
    return _arrange(stream, np.arange(stream.n_events), np.arange(stream.n_events + 1))


ORDERS: dict[str, Order] = {
    "synchronous": synchronous,
    "interleaved": interleaved,
    "recorded": recorded,
}


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
    offset = None if stream.offset is None else stream.offset[order]
    return Rounds(stream.task[order], stream.x[order], stream.y[order], starts, offset=offset)
