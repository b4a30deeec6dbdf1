"""Running error and calibration, from predictions as they were when they were made."""

from __future__ import annotations

from math import log
from typing import Any

import msgspec

from romco.model.names import canonical_name
from romco.server.changes import Prediction, Task

BINS = 10
POINTS = 48  # of a learning curve; beyond, two are merged into one
FADE = 0.999  # weight of an event in the recent error, one event later


class Curve(msgspec.Struct, array_like=True):
    """Wrong answers among each ``width`` events; at most POINTS of them, whatever the length.

    Of numbers: the sum of distances.
    """

    width: int = 1
    filled: int = 0  # events of the last point
    wrong: list[float] = msgspec.field(default_factory=list)

    def add(self, wrong: float) -> None:
        """Count an event."""
        if not self.wrong or self.filled == self.width:
            self._next()
        self.wrong[-1] += wrong
        self.filled += 1

    def points(self) -> list[tuple[int, float]]:
        """Events so far, and the error among those since the point before."""
        counts, width, filled = list(self.wrong), self.width, self.filled  # others may add
        sizes = [width] * (len(counts) - 1) + [filled]
        return [
            (width * k + sizes[k], wrong / sizes[k]) for k, wrong in enumerate(counts) if sizes[k]
        ]

    def _next(self) -> None:
        if len(self.wrong) == POINTS:
            self.wrong = [a + b for a, b in zip(self.wrong[::2], self.wrong[1::2], strict=True)]
            self.width *= 2
        self.wrong.append(0.0)
        self.filled = 0


class Tally(msgspec.Struct, array_like=True):
    """Events whose prediction could be compared with the answer."""

    events: int = 0
    wrong: float = 0.0
    curve: Curve = msgspec.field(default_factory=Curve)

    def add(self, wrong: float) -> None:
        """Count an event."""
        self.events += 1
        self.wrong += wrong
        self.curve.add(wrong)

    @property
    def error(self) -> float | None:
        """Share of wrong answers; of numbers the mean distance."""
        return self.wrong / self.events if self.events else None


class Running(msgspec.Struct):
    """How good the predictions were, over all and by task.

    >>> running = Running()
    >>> running.add("ann", Prediction("yes", 0.8, 1.4), wrong=0.0, positive=True)
    >>> running.add("ann", Prediction("yes", 0.6, 0.4), wrong=1.0, positive=False)
    >>> running.whole.error, round(running.log_loss, 3)
    (0.5, 0.57)
    """

    whole: Tally = msgspec.field(default_factory=Tally)
    loss: float = 0.0
    judged: int = 0  # events with a probability
    faded_wrong: float = 0.0
    faded_events: float = 0.0
    count: list[int] = msgspec.field(default_factory=lambda: [0] * BINS)
    chance: list[float] = msgspec.field(default_factory=lambda: [0.0] * BINS)
    positive: list[int] = msgspec.field(default_factory=lambda: [0] * BINS)
    tasks: dict[str, Tally] = msgspec.field(default_factory=dict)

    def add(self, task: Task, made: Prediction, wrong: float, positive: bool | None) -> None:
        """Count a prediction; ``positive`` says whether what its probability is of came true."""
        self.whole.add(wrong)
        known = str(canonical_name(task))
        if known not in self.tasks:
            self.tasks[known] = Tally()
        self.tasks[known].add(wrong)
        self.faded_wrong = FADE * self.faded_wrong + wrong
        self.faded_events = FADE * self.faded_events + 1.0
        if made.probability is not None and positive is not None:
            self._judge(made.probability, positive)

    def forget(self, task: Task) -> None:
        """Forget a task's own score."""
        self.tasks.pop(str(canonical_name(task)), None)

    def score(self, task: Any) -> Tally | None:
        """A task's own score, if any of its predictions could be judged."""
        return self.tasks.get(str(canonical_name(task)))

    @property
    def recent(self) -> float | None:
        """Error among about the last thousand."""
        return self.faded_wrong / self.faded_events if self.faded_events else None

    @property
    def log_loss(self) -> float | None:
        """Mean log loss of the probabilities."""
        return self.loss / self.judged if self.judged else None

    def calibration(self) -> list[dict[str, float]]:
        """Mean probability and share of positive answers, by tenths of the probability."""
        return [
            {"events": n, "predicted": p / n, "observed": y / n}
            for n, p, y in zip(self.count, self.chance, self.positive, strict=True)
            if n
        ]

    def to_bytes(self) -> bytes:
        """As JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Running:
        """What :meth:`to_bytes` wrote; ValueError where it is anything else."""
        found = msgspec.json.decode(data, type=Running)
        if not len(found.count) == len(found.chance) == len(found.positive) == BINS:
            raise ValueError(f"expected {BINS} groups of probability")
        for tally in (found.whole, *found.tasks.values()):
            curve = tally.curve
            if not (0 <= curve.filled <= curve.width and len(curve.wrong) <= POINTS):
                raise ValueError(f"no curve has {len(curve.wrong)} points of {curve.width} events")
        return found

    def _judge(self, probability: float, positive: bool) -> None:
        k = min(int(probability * BINS), BINS - 1)
        self.count[k] += 1
        self.chance[k] += probability
        self.positive[k] += positive
        of_answer = probability if positive else 1.0 - probability
        self.loss -= log(max(of_answer, 1e-15))
        self.judged += 1
