"""Events that were predicted and wait for their answers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, final

from romco.model.rows import Dense
from romco.parameters import whole


class Unanswered(NamedTuple):
    """One event as it was predicted."""

    x: Any  # its row, as it was given
    task: Any
    margin: Any  # what the model said then


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

    def put_all(self, ids: Sequence[Any], x: Any, tasks: Sequence[Any], margins: Dense) -> None:
        """Keep rows, each with its task and the margin predicted for it."""
        if not len(ids) == len(tasks) == len(margins):
            raise ValueError(f"x has {len(margins)} rows but id has {len(ids)} entries")
        for i, (id, task, margin) in enumerate(zip(ids, tasks, margins, strict=True)):
            self.put(id, Unanswered(x[i : i + 1], task, margin))

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
