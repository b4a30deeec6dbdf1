"""Predicted events that wait for their labels."""

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.parameters import whole

Numbers = NDArray[np.float64]


class PendingEvent(NamedTuple):
    """One event as it was predicted."""

    x: Any  # its row, as it was given
    task: Any
    margin: Any
    context: Numbers | None = None  # prediction context (1, k), if the learner uses one
    offset: float | list[float] | None = None


def read_context(context: Any, n: int) -> Numbers | None:
    """Return prediction contexts of n rows as an array (n, k), NaN in rows without one.

    None where no row has one.
    """
    if context is None or all(row is None for row in context):
        return None
    if len(context) != n:
        raise ValueError(f"x has {n} rows but context has {len(context)} entries")
    places = [i for i, row in enumerate(context) if row is not None]
    rows = np.array([context[i] for i in places], dtype=np.float64)
    if rows.ndim != 2 or not np.isfinite(rows).all():
        raise ValueError("context must be the numbers that prediction_context gave for each row")
    filled = np.full((n, rows.shape[1]), np.nan)
    filled[places] = rows
    return filled


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

    def put_all(
        self,
        ids: Sequence[Any],
        x: Any,
        tasks: Sequence[Any],
        margins: Numbers,
        context: Numbers | None = None,
        offset: Any = None,
    ) -> None:
        """Keep rows, each with its task, its predicted margin and its prediction context."""
        for i, (id, task, margin) in enumerate(zip(ids, tasks, margins, strict=True)):
            row = None if context is None else context[i : i + 1]
            shift = None if offset is None else np.asarray(offset[i], dtype=np.float64).tolist()
            self.put(id, PendingEvent(x[i : i + 1], task, margin, row, shift))

    def take(self, id: Hashable) -> PendingEvent | None:
        """Remove and return the event of an id; None if there is none."""
        return self._events.pop(id, None)
