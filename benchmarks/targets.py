"""What was asked for, and whether this run reached it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.files import DEFAULT, PANDAS, VW
from benchmarks.measure import Row, clock_ratio, cpu_ratio, times_faster

RIVER = "River PA, one per task"
VW_CALLS = "VW from Python, -q tf"


@dataclass(frozen=True)
class Target:
    """A number that was asked for; ``reached`` is None where this run cannot tell."""

    what: str
    asked: float
    reached: float | None
    at_most: bool = False  # else at least
    aim: bool = False  # wished for, not required

    @property
    def met(self) -> bool | None:
        """Whether it was reached."""
        if self.reached is None:
            return None
        return self.reached <= self.asked if self.at_most else self.reached >= self.asked


def targets(parts: dict[str, Any]) -> list[Target]:
    """All targets, in the order of the parts."""
    return [
        *_speed(parts),
        *_size(parts),
        *_growth(parts),
        *_steadiness(parts),
        *_files(parts),
        *_threads(parts),
    ]


def _speed(parts: dict[str, Any]) -> Iterator[Target]:
    spam, large = _rows(parts, "a"), _rows(parts, "d")
    stream, calls = "romco-nucl", "romco-nucl, call per event"
    yield Target("(a) whole stream: times River PA per task", 6, _faster(spam, stream, RIVER))
    yield Target("(a) single calls: times River PA per task", 3, _faster(spam, calls, RIVER))
    gram = _faster(spam, stream, "NumPy ROMCO, Gram")
    yield Target("(a) whole stream: times plain NumPy, Gram", 10, gram)
    yield Target("(a) romco-auto, whole stream: times River PA", 3, _faster(spam, DEFAULT, RIVER))
    for way, asked in (
        ("Model, call per event", 4.0),
        ("Model.predict_one", 6.0),
        ("River estimator, call per event", 2.5),
        ("scikit-learn estimator, call per event", 2.5),
    ):
        ratio = _faster(spam, f"{DEFAULT}, {way}", RIVER)
        yield Target(f"(a) romco-auto, {way}: times River PA", asked, ratio)
    eighth = "romco-nucl, rank 8"
    yield Target("(d) rank 8: times River PA per task", 1, _faster(large, eighth, RIVER))
    from_python = _faster(large, eighth, VW_CALLS)
    yield Target("(d) rank 8: times VW from Python", 1, from_python, aim=True)
    auto = _faster(large, DEFAULT, VW_CALLS)
    yield Target("(d) romco-auto, whole stream: times VW from Python", 2, auto)
    one = _faster(large, f"{DEFAULT}, Model, call per event", RIVER)
    yield Target("(d) romco-auto, Model, call per event: times River PA", 2, one)
    for rank, asked in ((32, 150.0), (64, 800.0)):
        row = large.get(f"romco-nucl, rank {rank}")
        reached = median(row.cpu) if row is not None and row.cpu else None
        yield Target(f"(d) rank {rank}: CPU microseconds", asked, reached, at_most=True)


def _size(parts: dict[str, Any]) -> Iterator[Target]:
    found = None
    for row in parts.get("f", ()):
        if (row["shape"], row["system"]) == ("large", "romco-nucl"):
            found = row.get("peak")
    yield Target("(f) 1000 tasks, d = 2^18: peak megabytes", 300, found, at_most=True)


def _growth(parts: dict[str, Any]) -> Iterator[Target]:
    rows = [Row(**row) for row in parts.get("e", ())]
    for system in ("romco-nucl", "romco-nucl, no personal part"):
        aim = system != "romco-nucl"
        wide = _cost_ratio(rows, system, "n_features", 2**14, 2**20)
        yield Target(f"(e) {system}: cost at d = 2^20 / 2^14", 1.5, wide, at_most=True, aim=aim)
        many = _cost_ratio(rows, system, "n_tasks", 100, 100_000)
        yield Target(f"(e) {system}: cost at m = 10^5 / 10^2", 1.3, many, at_most=True, aim=aim)


def _steadiness(parts: dict[str, Any]) -> Iterator[Target]:
    for learner, asked in (("romco-nucl", 20.0), (DEFAULT, 100.0)):
        slowest = None
        for row in parts.get("g", ()):
            if row["system"].startswith(learner) and "cpu" in row:
                slowest = row["cpu"]["max"] / row["cpu"]["p50"]
        what = f"(g) {learner}: slowest event / median, CPU time"
        yield Target(what, asked, slowest, at_most=True)
    ratios = [
        row["ratio"]
        for row in parts.get("h", {}).values()
        if isinstance(row, dict) and row["ratio"] is not None
    ]
    worst = max(ratios, default=None)
    yield Target("(h) instructions / stored count, worst case", 1.05, worst, at_most=True)


def _files(parts: dict[str, Any]) -> Iterator[Target]:
    rows = {name: row for name, row in _rows(parts, "i").items() if row.cpu}
    for name, times_vw, aim in (
        (f"{DEFAULT}, hashed", 0.5, False),
        ("pa-shared, hashed", 1.0, False),
        ("pa-global, hashed", 1.0, True),
        ("romco, reading alone", 1.0, True),
    ):
        for peer, asked in ((VW, times_vw), (PANDAS, 3.0)):
            ready = name in rows and peer in rows
            reached = cpu_ratio(rows[name], rows[peer]) if ready else None
            clock = clock_ratio(rows[name], rows[peer]) if ready else None
            what = f"(i) from a file: {name}: times {peer}"
            yield Target(what, asked, reached, aim=aim or peer != VW)
            yield Target(f"{what}, on the clock", asked, clock, aim=True)


def _threads(parts: dict[str, Any]) -> Iterator[Target]:
    for shape, two, sixteen in (("dense", 1.7, 8.0), ("100 non-zeros", 1.5, 5.0)):
        rows = [row for row in parts.get("j", ()) if row["shape"].endswith(shape)]
        one, both = ([row for row in rows if row["threads"] == n] for n in (1, 2))
        pairs = list(zip(one, both, strict=True))
        ratio = median(a["wall"] / b["wall"] for a, b in pairs) if pairs else None
        share = median(row["locked"] / row["cpu"] for row in both) if both else None
        bound = None if share is None else 1.0 / (share + (1.0 - share) / 16)
        yield Target(f"(j) {shape}: two threads, times one on the clock", two, ratio)
        what = f"(j) {shape}: share of CPU time under the interpreter's lock"
        yield Target(what, 0.05, share, at_most=True)
        yield Target(f"(j) {shape}: times one thread on 16 cores, by that share", sixteen, bound)


def _rows(parts: dict[str, Any], part: str) -> dict[str, Row]:
    return {row["system"]: Row(**row) for row in parts.get(part, ())}


def _faster(rows: dict[str, Row], ours: str, theirs: str) -> float | None:
    if ours not in rows or theirs not in rows:
        return None
    ratio = times_faster(rows[ours], rows[theirs])
    return None if ratio is None else ratio.middle


def _cost_ratio(rows: list[Row], system: str, curve: str, low: int, high: int) -> float | None:
    at = {row.at: row.microseconds for row in rows if (row.system, row.curve) == (system, curve)}
    pairs = list(zip(at.get(high, ()), at.get(low, ()), strict=False))
    return median(above / below for above, below in pairs) if pairs else None
