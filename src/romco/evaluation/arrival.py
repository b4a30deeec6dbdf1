"""When labels become known: at once, with all rows of one moment, or after a delay."""

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.io.cells import BadCell, encode_time
from romco.io.reader import Block

SECONDS_PER_UNIT = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
MAX_VALUES = 100_000  # different moments that are remembered, to see whether one comes again
DURATION = re.compile(rf"(\d+(?:\.\d+)?)\s*({'|'.join(SECONDS_PER_UNIT)})")


@dataclass(frozen=True)
class Arrival:
    """Time of arrival of labels.

    Rows that follow each other with one value of the column ``together`` are one moment: all are
    predicted before the label of any is known. Labels become known once ``events`` further
    events were predicted, or ``seconds`` later by the column ``together``.

    >>> str(Arrival("day")), str(Arrival(events=1000))
    ('with all rows of one day', '1,000 events late')
    """

    together: str | None = None
    events: int = 0
    seconds: float = 0.0

    @classmethod
    def parse(cls, together: str | None, delay: str | None) -> "Arrival":
        """Return the arrival that options name; ``delay`` is a number of events, or "7d".

        >>> Arrival.parse("day", "7d").seconds, Arrival.parse(None, "100").events
        (604800.0, 100)
        """
        text = (delay or "0").strip()
        if text.isdecimal():
            return cls(together, int(text))
        match = DURATION.fullmatch(text)
        if match is None:
            units = ", ".join(f"7{unit}" for unit in SECONDS_PER_UNIT)
            raise ValueError(f"--delay {text}: expected a number of events, or a time ({units})")
        if together is None:
            raise ValueError(
                f"--delay {text} is a time: name the column of the time, --together COLUMN"
            )
        return cls(together, seconds=float(match[1]) * SECONDS_PER_UNIT[match[2]])

    @property
    def is_delayed(self) -> bool:
        """True if other labels may be learned between a prediction and its label."""
        return self.events > 0 or self.seconds > 0.0

    @property
    def at_once(self) -> bool:
        """True if each label is known before the next event is predicted."""
        return self == AT_ONCE

    def __str__(self) -> str:
        if self.at_once:
            return "right after each prediction"
        parts = []
        if self.together is not None:
            parts.append(f"with all rows of one {self.together}")
        if self.events:
            parts.append(f"{self.events:,} events late")
        if self.seconds:
            parts.append(f"{describe_seconds(self.seconds)} late")
        return ", ".join(parts)


AT_ONCE = Arrival()


def describe_seconds(seconds: float) -> str:
    """Return a duration in its largest unit.

    >>> describe_seconds(604_800.0), describe_seconds(5400.0)
    ('7 days', '1.5 hours')
    """
    units = (("day", 86_400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
    unit, size = next((one for one in units if seconds >= one[1]), units[-1])
    amount = f"{seconds / size:.3g}"
    if amount == "1":
        return f"{amount} {unit}"
    return f"{amount} {unit}s"


Context = NDArray[np.float64] | None  # of a learner's prediction
Learn = Callable[[Block, Context], object]


class LateLabels:
    """Rows that were predicted and whose labels are not known yet.

    :meth:`pieces` cuts blocks into moments, and calls ``learn`` with earlier rows once their labels
    arrive. Whoever predicts a piece hands it to :meth:`wait`.
    """

    def __init__(self, arrival: Arrival, learn: Learn) -> None:
        self.arrival = arrival
        self.moments = 0  # so far
        self._learn = learn
        self._predicted = 0  # events
        self._value: Any = None  # of the present moment
        self.time = 0.0  # of the present moment: events before it, or seconds
        self._present: list[tuple[Block, Context]] = []  # its rows
        self._past: deque[tuple[float, list[tuple[Block, Context]]]] = deque()  # with their arrival
        self._values: set[Any] | None = set()

    @property
    def scattered(self) -> bool:
        """True if rows of one value were not all next to each other."""
        return self._values is not None and self.moments > len(self._values) > 0

    def check(self, block: Block) -> None:
        """Raise ValueError where the times of a block's moments cannot be used."""
        if not self.arrival.seconds:
            return
        before = self.time
        if not self.moments:
            before = -np.inf
        for begin, _ in _runs(block):
            assert block.moments is not None
            value = block.moments[begin]
            try:
                time = self._time_of(value)
            except BadCell as error:
                raise ValueError(f"row {begin}: {error.column!r}: {error.reason}") from None
            if time < before:
                raise ValueError(
                    f"row {begin}: {self.arrival.together} {value} is before the row above it; a "
                    "delay by time needs rows in the order of time"
                )
            before = time

    def pieces(self, block: Block) -> Iterator[Block]:
        """Yield the rows of each moment of a block, after what arrives before them is learned."""
        for begin, end in _runs(block):
            piece = block.rows(begin, end)
            value: str | int = self._predicted
            if piece.moments is not None:
                value = piece.moments[0]
            if value != self._value:
                self._begin(value, piece)
            yield piece
            self._predicted += len(piece)

    def wait(self, piece: Block, context: Context) -> None:
        """Keep rows that were predicted until their labels arrive."""
        self._present.append((piece, context))

    def drain(self) -> None:
        """Learn all that waits."""
        self._end()
        self._learn_until(np.inf)

    def _begin(self, value: Any, piece: Block) -> None:
        time = self._time_of(value)
        self._end()
        self._value = value
        self.time = time
        self.moments += 1
        if self._values is not None and piece.moments is not None:
            self._values.add(value)
            if len(self._values) > MAX_VALUES:
                self._values = None
        self._learn_until(time)

    def _end(self) -> None:
        if self._present:
            arrival = float(self._predicted + self.arrival.events)
            if self.arrival.seconds:
                arrival = self.time + self.arrival.seconds
            self._past.append((arrival, self._present))
            self._present = []

    def _learn_until(self, time: float) -> None:
        while self._past and self._past[0][0] <= time:
            for piece, context in self._past.popleft()[1]:
                self._learn(piece, context)

    def _time_of(self, value: Any) -> float:
        """Return the time of a moment: events so far, or that of its value."""
        if not self.arrival.seconds:
            return float(self._predicted)
        column = str(self.arrival.together)
        found: dict[str, float] = {}
        encode_time(column, value, found)
        return found[column]


def _runs(block: Block) -> Iterator[tuple[int, int]]:
    """Yield begin and end of rows of one moment; single rows where there are no moments."""
    n = len(block)
    if block.moments is None:
        yield from zip(range(n), range(1, n + 1), strict=True)
        return
    moments = np.array(block.moments, dtype=object)
    ends = [*(np.flatnonzero(moments[1:] != moments[:-1]) + 1).tolist(), n]
    yield from zip([0, *ends[:-1]], ends, strict=True)
