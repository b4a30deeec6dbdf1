"""Time systems side by side: interleaved repeats in one process, so that noise hits all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from benchmarks.systems import Margins, System, Unavailable
from benchmarks.workloads import Workload
from romco import Rounds

Say = Callable[[str], None]


@dataclass
class Row:
    """What was measured of one system on one workload, per event and repeat.

    ``microseconds`` are by the clock on the wall, ``cpu`` those of the processor, summed
    over threads: where the first is much larger, others were using the machine.
    """

    workload: str
    system: str
    note: str = ""
    curve: str = ""  # for growth curves: what grows
    at: int = 0  # and where on the curve this is
    microseconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    events: int = 0  # per repeat
    error: float | None = None  # share of wrong signs in the last repeat
    updates: float | None = None  # share of events with a loss, for ROMCO
    rank: int | None = None
    skipped: str = ""


@dataclass(frozen=True)
class Entry:
    """One row to be: a system on a workload."""

    workload: Workload
    system: System
    curve: str = ""
    at: int = 0


def interleave(entries: Sequence[Entry], repeats: int, say: Say) -> list[Row]:
    """Each system's first run is not counted; then ``repeats`` times all systems in turn."""
    lanes = [_Lane(entry) for entry in entries]
    for lane in lanes:
        say(f"{lane.row.workload}: {lane.row.system}, warm-up")
        lane.warm_up()
    for repeat in range(repeats):
        for lane in lanes:
            if not lane.row.skipped:
                say(f"{lane.row.workload}: {lane.row.system}, repeat {repeat + 1} of {repeats}")
                lane.time(repeat)
    for lane in lanes:
        lane.system.finish()
    return [lane.row for lane in lanes]


class _Lane:
    """One system on its way through the repeats."""

    def __init__(self, entry: Entry) -> None:
        self.workload, self.system = entry.workload, entry.system
        self.row = Row(
            entry.workload.name, entry.system.name, entry.system.note, entry.curve, entry.at
        )

    def warm_up(self) -> None:
        try:
            self.system.start(self.workload)
        except Unavailable as reason:
            self.row.skipped = str(reason)
            return
        rounds = self.workload.warmup or self.workload.segment(0)
        self.prepared = self.system.prepare(first(rounds, self.system.limit))
        self.system.run(self.prepared)

    def time(self, repeat: int) -> None:
        rounds = first(self.workload.segment(repeat), self.system.limit)
        if self.workload.warmup is None:
            self.system.start(self.workload)  # and the events are those of the warm-up
        else:
            self.prepared = self.system.prepare(rounds)
        wall, cpu, margins = timed(self.system, self.prepared)
        self.row.events = len(rounds.events.y)
        self.row.microseconds.append(1e6 * wall / self.row.events)
        self.row.cpu.append(1e6 * cpu / self.row.events)
        self._judge(rounds, margins)

    def _judge(self, rounds: Rounds, margins: Margins) -> None:
        row, y = self.row, rounds.events.y
        row.rank = self.system.rank()
        if len(margins):
            row.error = float(np.mean(np.where(margins >= 0, 1.0, -1.0) != y))
            if row.rank is not None:
                row.updates = float(np.mean(1.0 - y * margins > 0.0))


def timed(system: System, prepared: object) -> tuple[float, float, Margins]:
    """Seconds of one run on the wall and of the processor, the collector held off."""
    gc.collect()
    gc.disable()
    try:
        cpu, wall = time.process_time(), time.perf_counter()
        margins = system.run(prepared)
        return time.perf_counter() - wall, time.process_time() - cpu, margins
    finally:
        gc.enable()


def first(rounds: Rounds, limit: int | None) -> Rounds:
    """The leading rounds with at most ``limit`` events together, at least one round."""
    if limit is None:
        return rounds
    sizes = rounds.starts[1:] - rounds.starts[0]
    return rounds[: max(1, int(np.searchsorted(sizes, limit, side="right")))]


@dataclass(frozen=True)
class Ratio:
    """How many times faster, as median and range over the repeats."""

    middle: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.middle:.3g} ({self.low:.3g}-{self.high:.3g})"


def cpu_ratio(row: Row, reference: Row) -> float:
    """How many times less processor time, the median over repeats."""
    pairs = zip(row.cpu, reference.cpu, strict=False)
    return median(theirs / ours for ours, theirs in pairs)


def clock_ratio(row: Row, reference: Row) -> float | None:
    """How many times as many events per second, the median over repeats."""
    found = times_faster(row, reference)
    return None if found is None else found.middle


def times_faster(row: Row, reference: Row) -> Ratio | None:
    """Repeat by repeat, so that what slowed both cancels."""
    pairs = list(zip(row.microseconds, reference.microseconds, strict=False))
    if not pairs:
        return None
    ratios = [theirs / ours for ours, theirs in pairs]
    return Ratio(median(ratios), min(ratios), max(ratios))
