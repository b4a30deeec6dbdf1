"""Events that were predicted and wait for their answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

import numpy as np

from romco.model.rows import Dense
from romco.parameters import whole


class Unanswered(NamedTuple):
    """One event as it was predicted."""

    x: Any  # its row, as it was given
    task: Any
    margin: Any  # what the model said then,
    said: Dense | None = None  # and what the learner did (1, k), if it learns more by being told


def said_of(opinions: Any, n: int) -> Dense | None:
    """What was said of n rows (n, k), NaN where it is not known; None where it is of none.

    >>> said_of([[1.0, 2.0], None], 2)
    array([[ 1.,  2.],
           [nan, nan]])
    """
    if opinions is None or all(one is None for one in opinions):
        return None
    if len(opinions) != n:
        raise ValueError(f"x has {n} rows but opinions has {len(opinions)} entries")
    known = [i for i, one in enumerate(opinions) if one is not None]
    some = np.array([opinions[i] for i in known], dtype=np.float64)
    if some.ndim != 2 or not np.isfinite(some).all():
        raise ValueError("opinions must be the numbers that were given for each row")
    said = np.full((n, some.shape[1]), np.nan)
    said[known] = some
    return said


@final
class Waiting:
    """Predicted events by id, at most ``limit``: the oldest are dropped first, and counted.

    >>> waiting = Waiting(limit=2)
    >>> for id in "abc":
    ...     waiting.put(id, Unanswered([{"x": 1.0}], "ann", 0.5))
    >>> waiting.dropped, len(waiting)
    (1, 2)
    >>> waiting.take("a") is None, waiting.take("c").task
    (True, 'ann')
    """

    def __init__(self, limit: int) -> None:
        self.limit = whole("waiting", limit)
        self.dropped = 0
        self._events: OrderedDict[Hashable, Unanswered] = OrderedDict()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, id: Hashable, event: Unanswered) -> None:
        """Keep an event; an earlier one of the same id is replaced."""
        self._events.pop(id, None)
        self._events[id] = event
        while len(self._events) > self.limit:
            self._events.popitem(last=False)
            self.dropped += 1

    def put_all(
        self,
        ids: Sequence[Any],
        x: Any,
        tasks: Sequence[Any],
        margins: Dense,
        said: Dense | None = None,
    ) -> None:
        """Keep rows, each with its task, the margin predicted for it, and what else was said."""
        if not len(ids) == len(tasks) == len(margins):
            raise ValueError(f"x has {len(margins)} rows but id has {len(ids)} entries")
        for i, (id, task, margin) in enumerate(zip(ids, tasks, margins, strict=True)):
            opinion = None if said is None else said[i : i + 1]
            self.put(id, Unanswered(x[i : i + 1], task, margin, opinion))

    def take(self, id: Hashable) -> Unanswered | None:
        """The event of an id, which waits no longer; None if there is none."""
        return self._events.pop(id, None)

    @contextmanager
    def answering(self, id: Any) -> Iterator[Unanswered]:
        """The event of an id, which waits on if learning it fails; KeyError if there is none."""
        event = self.take(id)
        if event is None:
            raise KeyError(f"no event {id!r} waits: it was answered, dropped, or never predicted")
        try:
            yield event
        except BaseException:
            self.put(id, event)  # nothing was learned, so it still waits
            raise
