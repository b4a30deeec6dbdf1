"""Where in a stream shards meet: a function of the number of shards and two settings alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from romco.parameters import positive, whole

EVERY = 10_000  # events per shard between barriers at most: what changes must be told in time


@final
@dataclass(frozen=True)
class Schedule:
    """Shards meet when the stream has grown by ``growth``, and every ``every`` events per shard.

    The first period is one event per shard: what is learned first matters most, and costs most
    when it is learned apart.

    >>> schedule = Schedule(4, growth=0.5, every=10)
    >>> at, places = 0, []
    >>> while at < 100:
    ...     places.append(at := schedule.after(at))
    >>> places
    [4, 8, 12, 18, 27, 40, 60, 90, 130]
    """

    n: int
    growth: float = 0.1
    every: int = EVERY

    def __post_init__(self) -> None:
        whole("n", self.n)
        positive("growth", self.growth)
        whole("every", self.every)

    def after(self, at: int) -> int:
        """The barrier that follows one after ``at`` events; one shard has nobody to meet."""
        if self.n == 1:
            return at + self.every
        return at + min(self.n * self.every, max(self.n, int(self.growth * at)))
