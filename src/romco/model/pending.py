"""Predicted events that wait for their labels."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from romco.model.rows import Rows
from romco.parameters import whole
from romco.typing import Floats


class PendingEvent(NamedTuple):
    """One event as it was predicted."""

    x: Any  # its row, as it was given
    task: Any
    margin: Any
    context: Floats | None = None  # prediction context (1, k), if the learner uses one
    offset: float | list[float] | None = None


class PendingLabels:
    """Predicted events by id, at most ``limit``: the oldest are dropped first, and counted.

    >>> pending = PendingLabels(limit=2)
    >>> for id in "abc":
    ...     pending.put(id, PendingEvent([{"x": 1.0}], "ann", 0.5))
    >>> pending.dropped, len(pending)
    (1, 2)
    >>> pending.take("a") is None, pending.take("c").task
    (True, 'ann')
    """

    def __init__(self, limit: int) -> None:
        self.limit = whole("pending", limit)
        self.dropped = 0
        self._events: OrderedDict[Hashable, PendingEvent] = OrderedDict()

    def __len__(self) -> int:
        return len(self._events)

    def put(self, id: Hashable, event: PendingEvent) -> None:
        """Keep an event; an earlier one of the same id is replaced."""
        self._events.pop(id, None)
        self._events[id] = event
        while len(self._events) > self.limit:
            self._events.popitem(last=False)
            self.dropped += 1

    def check_ids(self, ids: Sequence[Any]) -> None:
        """Raise ValueError where one cannot be an id."""
        for id in ids:
            try:
                hash(id)
            except TypeError:
                raise ValueError(
                    f"id {id!r} cannot be found again: give text or a number"
                ) from None

    def put_all(self, rows: Rows, margins: Floats) -> None:
        """Keep rows, each with its predicted margin, by their ids."""
        for i, (id, task, margin) in enumerate(zip(rows.id, rows.task, margins, strict=True)):
            context = offset = None
            if rows.context is not None:
                context = rows.context[i : i + 1]
            if rows.offset is not None:
                offset = np.asarray(rows.offset[i], dtype=np.float64).tolist()
            self.put(id, PendingEvent(rows.x[i : i + 1], task, margin, context, offset))

    def take(self, id: Hashable) -> PendingEvent | None:
        """Remove and return the event of an id; None if there is none."""
        return self._events.pop(id, None)
