"""Schedule of merges (barriers), and choice of the number of threads."""

import os
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar

from romco.parameters import positive, whole

MAX_EVENTS_PER_SHARD = 10_000  # between barriers: bounds how stale the shared part gets
MIN_ENTRIES_PER_THREAD = 12  # of a row: with fewer, threads wait for the interpreter's lock
MAX_AUTO_THREADS = 16
MIN_EVENTS_PER_PAIR = 5.0  # with fewer, to spread the pairs takes as long as threads gain soon


@dataclass(frozen=True)
class Schedule:
    """Places of barriers: each after ``growth`` of the stream so far.

    Shards that learn early events apart lose most accuracy, so one shard learns the ``first``
    events. A period has 1 to ``every`` events per shard.

    >>> schedule = Schedule(4)
    >>> [schedule.after(place) for place in (0, 1000, 19_999, 20_000, 100_000, 1_000_000)]
    [4, 1100, 20000, 22000, 110000, 1040000]
    """

    first: ClassVar[int] = 20_000
    n: int
    growth: float = 0.1
    every: int = MAX_EVENTS_PER_SHARD

    def __post_init__(self) -> None:
        whole("n", self.n)
        positive("growth", self.growth)
        whole("every", self.every)

    def after(self, place: int) -> int:
        """Return the barrier that follows ``place``."""
        growth = int(self.growth * place)
        following = place + min(self.n * self.every, max(self.n, growth))
        if place < self.first:
            return min(following, self.first)
        return following


@dataclass(frozen=True)
class StreamPosition:
    """Position of the shards in their stream, counted in events."""

    events: int  # learned
    place: int  # learned or skipped
    next: int  # place of the next barrier
    notes: dict[str, Any] = field(default_factory=dict)  # JSON of whoever reads the stream


def choose_threads(
    entries: float, pairs: float, places: float, largest: float, period: float
) -> int:
    """Return the number of threads that minimises the time on this machine.

    Parameters
    ----------
    entries:
        Mean number of non-zeros of a row.
    pairs:
        Stored pairs of task and feature, by event.
    places:
        Number of features and functions with covariances. A barrier of n shards costs as much as
        ``places * n / 2`` events.
    largest:
        Share of the most frequent task, which a single thread learns.
    period:
        Events between barriers.

    >>> choose_threads(entries=5, pairs=0.1, places=0, largest=0.01, period=400)
    1
    """
    if entries < MIN_EVENTS_PER_PAIR * pairs:
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = (
        cores or 1,
        MAX_AUTO_THREADS,
        entries / MIN_ENTRIES_PER_THREAD,
        sqrt(2.0 * period / max(1.0, places)),
        1.0 / largest,
    )
    return max(1, int(min(limits)))
