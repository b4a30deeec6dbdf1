"""Running error, log loss and calibration, from predictions as they were made."""

from __future__ import annotations

from math import log
from typing import Any

import msgspec

from romco.server.protocol import name_key

CALIBRATION_BINS = 10
CURVE_POINTS = 48  # beyond, two neighbours are merged into one
RECENT_DECAY = 0.999  # weight of an event in the recent error, one event later
MIN_PROBABILITY = 1e-15


class ErrorCurve(msgspec.Struct, array_like=True):
    """Sum of errors among each ``width`` events, in at most CURVE_POINTS points."""

    width: int = 1
    filled: int = 0  # events of the last point
    errors: list[float] = msgspec.field(default_factory=list)

    def add(self, error: float) -> None:
        """Count an event."""
        if not self.errors or self.filled == self.width:
            if len(self.errors) == CURVE_POINTS:
                pairs = zip(self.errors[::2], self.errors[1::2], strict=True)
                self.errors = [a + b for a, b in pairs]
                self.width *= 2
            self.errors.append(0.0)
            self.filled = 0
        self.errors[-1] += error
        self.filled += 1

    def points(self) -> list[tuple[int, float]]:
        """Return events so far and the mean error since the point before, per point."""
        sums, width, filled = list(self.errors), self.width, self.filled  # another thread may add
        sizes = [width] * (len(sums) - 1) + [filled]
        return [(width * k + sizes[k], e / sizes[k]) for k, e in enumerate(sums) if sizes[k]]


class ErrorCount(msgspec.Struct, array_like=True):
    """Mean error and its curve: share of wrong labels, or mean absolute error of numbers."""

    events: int = 0
    errors: float = 0.0
    curve: ErrorCurve = msgspec.field(default_factory=ErrorCurve)

    def add(self, error: float) -> None:
        """Count an event."""
        self.events += 1
        self.errors += error
        self.curve.add(error)

    @property
    def mean(self) -> float | None:
        """Mean error; None before any event."""
        return self.errors / self.events if self.events else None


class Scores(msgspec.Struct):
    """Quality of predictions, over all events and by task.

    >>> scores = Scores()
    >>> scores.add("ann", error=0.0, probability=0.8, came_true=True)
    >>> scores.add("ann", error=1.0, probability=0.6, came_true=False)
    >>> scores.total.mean, round(scores.log_loss, 3)
    (0.5, 0.57)
    """

    total: ErrorCount = msgspec.field(default_factory=ErrorCount)
    loss: float = 0.0
    judged: int = 0  # events with a probability
    recent_errors: float = 0.0
    recent_events: float = 0.0
    bin_events: list[int] = msgspec.field(default_factory=lambda: [0] * CALIBRATION_BINS)
    bin_predicted: list[float] = msgspec.field(default_factory=lambda: [0.0] * CALIBRATION_BINS)
    bin_observed: list[int] = msgspec.field(default_factory=lambda: [0] * CALIBRATION_BINS)
    tasks: dict[str, ErrorCount] = msgspec.field(default_factory=dict)

    def add(
        self, task: Any, error: float, probability: float | None, came_true: bool | None
    ) -> None:
        """Count a prediction; ``came_true``: whether the event of its probability happened."""
        self.total.add(error)
        name = name_key(task)
        if name not in self.tasks:
            self.tasks[name] = ErrorCount()
        self.tasks[name].add(error)
        self.recent_errors = RECENT_DECAY * self.recent_errors + error
        self.recent_events = RECENT_DECAY * self.recent_events + 1.0
        if probability is not None and came_true is not None:
            self._calibrate(probability, came_true)

    def forget(self, task: Any) -> None:
        """Remove a task's own score."""
        self.tasks.pop(name_key(task), None)

    def of_task(self, task: Any) -> ErrorCount | None:
        """Return a task's own score, if any of its predictions was compared with an answer."""
        return self.tasks.get(name_key(task))

    @property
    def recent(self) -> float | None:
        """Mean error of about the last thousand events."""
        return self.recent_errors / self.recent_events if self.recent_events else None

    @property
    def log_loss(self) -> float | None:
        """Mean log loss of the probabilities."""
        return self.loss / self.judged if self.judged else None

    def calibration(self) -> list[dict[str, float]]:
        """Return mean probability and observed share, by tenths of the probability."""
        bins = zip(self.bin_events, self.bin_predicted, self.bin_observed, strict=True)
        return [{"events": n, "predicted": p / n, "observed": y / n} for n, p, y in bins if n]

    def to_bytes(self) -> bytes:
        """Return the scores as JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Scores:
        """Return the scores that :meth:`to_bytes` wrote; ValueError for anything else."""
        scores = msgspec.json.decode(data, type=Scores)
        bins = len(scores.bin_events), len(scores.bin_predicted), len(scores.bin_observed)
        if set(bins) != {CALIBRATION_BINS}:
            raise ValueError(f"expected {CALIBRATION_BINS} calibration bins")
        for count in (scores.total, *scores.tasks.values()):
            curve = count.curve
            if not (0 <= curve.filled <= curve.width and len(curve.errors) <= CURVE_POINTS):
                raise ValueError(
                    f"a curve of {len(curve.errors)} points, {curve.width} events each"
                )
        return scores

    def _calibrate(self, probability: float, came_true: bool) -> None:
        k = min(int(probability * CALIBRATION_BINS), CALIBRATION_BINS - 1)
        self.bin_events[k] += 1
        self.bin_predicted[k] += probability
        self.bin_observed[k] += came_true
        self.loss -= log(max(probability if came_true else 1.0 - probability, MIN_PROBABILITY))
        self.judged += 1
