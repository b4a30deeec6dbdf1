"""Barriers of a stream, and the number of threads that helps."""

import os
from dataclasses import dataclass, field
from typing import Any

from romco.parameters import positive, whole

MAX_EVENTS_PER_SHARD = 10_000  # between barriers: bounds how stale the shared part gets
MIN_ENTRIES_PER_THREAD = 12  # of a row: the rest of an event holds the interpreter's lock
MAX_AUTO_THREADS = 16


@dataclass(frozen=True)
class Schedule:
    """Barriers after ``growth`` of the stream so far, and every ``every`` events per shard.

    The first period is one event per shard: early events teach most, and cost most when shards
    learn them apart.

    >>> schedule = Schedule(4, growth=0.5, every=10)
    >>> at, places = 0, []
    >>> while at < 100:
    ...     places.append(at := schedule.after(at))
    >>> places
    [4, 8, 12, 18, 27, 40, 60, 90, 130]
    """

    n: int
    growth: float = 0.1
    every: int = MAX_EVENTS_PER_SHARD

    def __post_init__(self) -> None:
        whole("n", self.n)
        positive("growth", self.growth)
        whole("every", self.every)

    def after(self, place: int) -> int:
        """Return the barrier that follows ``place``; one shard has nothing to merge."""
        if self.n == 1:
            return place + self.every
        return place + min(self.n * self.every, max(self.n, int(self.growth * place)))


@dataclass(frozen=True)
class StreamPosition:
    """Position of the shards in their stream. A *place* is an event, learned or skipped."""

    events: int  # learned
    place: int  # learned or skipped
    next: int  # place of the next barrier
    notes: dict[str, Any] = field(default_factory=dict)  # JSON of whoever reads the stream


def choose_threads(entries: float) -> int:
    """Return the number of threads for rows of so many entries on this machine.

    >>> choose_threads(5)
    1
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(cores or 1, MAX_AUTO_THREADS, int(entries / MIN_ENTRIES_PER_THREAD)))
