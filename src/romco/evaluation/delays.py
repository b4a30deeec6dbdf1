"""Labels that come late: when each is known, in events or by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Generic, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romco.parameters import whole


@final
class Delay:
    """When the label of each event of a stream is known.

    ``Delay(1000)``: once 1000 further events were predicted; labels of one round arrive together.
    ``Delay.until(now, known)``: by the clock, where event e is predicted at ``now[e]`` and its
    label arrives at ``known[e]``.

    Parameters
    ----------
    events:
        How many further events are predicted before a label is known.

    Raises
    ------
    ValueError
        Where it is no whole number from 0 on.

    >>> Delay(2).known([0, 1]).tolist(), Delay.until([5, 6, 9], [8, 7, 9]).known([0]).tolist()
    ([4.0, 4.0], [8.0])

    """

    def __init__(self, events: int = 0) -> None:
        self.events = whole("delay", events, least=0)
        self._now: NDArray[np.float64] | None = None
        self._known: NDArray[np.float64] | None = None

    @classmethod
    def until(cls, now: ArrayLike, known: ArrayLike) -> Delay:
        """Labels that arrive by the clock; ``now`` does not fall, none is known beforehand.

        Parameters
        ----------
        now:
            When each event is predicted (n,), in order.
        known:
            When its label is known (n,), not before.

        Returns
        -------
        :
            The delay.

        Raises
        ------
        ValueError
            Where lengths differ, times fall, or a label is known before its event.

        """
        made = cls()
        times, arrivals = np.asarray(now, dtype=np.float64), np.asarray(known, dtype=np.float64)
        if times.ndim != 1 or times.shape != arrivals.shape:
            raise ValueError(
                f"expected 2 times for each event; got {times.shape} and {arrivals.shape}"
            )
        if (np.diff(times) < 0.0).any():
            raise ValueError("the events are not in the order of their times: sort them first")
        if not (arrivals >= times).all():
            at = int(np.flatnonzero(~(arrivals >= times))[0])
            raise ValueError(f"event {at}: its label is known at {arrivals[at]}, before the event")
        made._now, made._known = times, arrivals
        return made

    @property
    def is_late(self) -> bool:
        """Whether any label arrives after the next event was predicted."""
        return self.events > 0 or self._known is not None

    def now(self, event: int) -> float:
        """The time at which an event is predicted.

        Parameters
        ----------
        event:
            Its number in the stream.

        Returns
        -------
        :
            By the clock; its number where there is none.

        """
        return float(event) if self._now is None else float(self._now[event])

    def known(self, events: ArrayLike) -> NDArray[np.float64]:
        """The times (n,) at which some events' labels are known.

        Parameters
        ----------
        events:
            Their numbers in the stream (n,), of one round.

        Returns
        -------
        :
            Times (n,), to be compared with :meth:`now`.

        """
        at = np.asarray(events)
        if self._known is not None:
            return self._known[at]
        return np.full(len(at), float(at.max(initial=0) + self.events + 1))


T = TypeVar("T")


@final
class Delayed(Generic[T]):
    """What waits for a time, handed out in the order of these times.

    >>> waiting = Delayed[str]()
    >>> waiting.add(9.0, "late")
    >>> waiting.add(5.0, "early")
    >>> list(waiting.arrived(6.0)), len(waiting)
    (['early'], 1)
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, time: float, what: T) -> None:
        """Keep something until a time; of equal times the first to be added is the first."""
        heappush(self._heap, (time, self._count, what))
        self._count += 1

    def arrived(self, now: float) -> Iterator[T]:
        """What has waited until now, the earliest first."""
        while self._heap and self._heap[0][0] <= now:
            yield heappop(self._heap)[2]
