"""Results as tables of words, for the terminal and for the documentation alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from statistics import median
from typing import Any

from benchmarks.files import PANDAS, VW
from benchmarks.measure import Row, clock_ratio, cpu_ratio, times_faster
from benchmarks.targets import RIVER, Target

Cells = list[str]
BUSY = 1.15  # wall time over CPU time above which a run is called disturbed


@dataclass(frozen=True)
class Table:
    """A title, column names, rows, and what did not run."""

    title: str
    columns: Cells
    rows: list[Cells]
    notes: tuple[str, ...] = ()


TITLES = {
    "a": "(a) spam shape: 4 tasks, d = 1458, 100 non-zeros, single events",
    "b": "(b) MHC shape: 12 tasks, d = 400, dense, single events",
    "c": "(c) movie shape: 30 tasks, d = 1783, dense, rounds of 30",
    "d": "(d) large shape: 1000 tasks, d = 2^18, 100 non-zeros, Zipf features",
    "e": "(e) growth of the cost per event",
    "f": "(f) memory: resident growth of the process, megabytes",
    "g": "(g) single events on the large shape, in a process of its own, microseconds",
    "h": "(h) instructions per event (callgrind)",
    "i": "(i) from a text file to a model: 200 users, a number, a category, 60 words per row",
    "j": "(j) shards on threads of one process, 1000 tasks",
}


def tables(parts: dict[str, Any]) -> list[Table]:
    """One table per part that ran."""
    return [_MAKERS[part](TITLES[part], found) for part, found in parts.items()]


def target_table(found: list[Target]) -> Table:
    """Asked, reached, met or not."""
    words = {True: "yes", False: "NO", None: "not measured"}
    rows = []
    for target in found:
        sign = "<=" if target.at_most else ">="
        reached = "-" if target.reached is None else f"{target.reached:.2f}"
        met = "short of the aim" if target.aim and target.met is False else words[target.met]
        kind = "aim" if target.aim else "must"
        rows.append([target.what, kind, f"{sign} {target.asked:g}", reached, met])
    return Table("Targets", ["what", "kind", "asked", "reached", "met"], rows)


def _systems(title: str, found: list[dict[str, Any]]) -> Table:
    rows = [Row(**row) for row in found]
    reference = next((row for row in rows if row.system == RIVER), None)
    ran = sorted(
        (row for row in rows if row.microseconds), key=lambda row: median(row.microseconds)
    )
    columns = [
        "system",
        "us/event",
        "range",
        "CPU us",
        "times River",
        "events",
        "error",
        "updates",
        "rank",
    ]
    notes = _absent(rows)
    notes += [f"{row.system}: {row.note}" for row in ran if row.note]
    notes += _busy(ran)
    return Table(title, columns, [_cells(row, reference) for row in ran], tuple(notes))


def _busy(rows: list[Row]) -> list[str]:
    """A warning where the wall clock saw much more than the processor did."""
    waits = [sum(row.microseconds) / sum(row.cpu) for row in rows if sum(row.cpu)]
    worst = max(waits, default=1.0)
    warning = f"the machine was busy: wall time up to {worst:.1f} times CPU time; ratios are rough"
    return [warning] if worst > BUSY else []


def _absent(rows: list[Row]) -> list[str]:
    """Who did not run, by reason."""
    reasons = dict.fromkeys(row.skipped for row in rows if row.skipped)
    return [
        f"not run ({reason}): {', '.join(row.system for row in rows if row.skipped == reason)}"
        for reason in reasons
    ]


def _cells(row: Row, reference: Row | None) -> Cells:
    ratio = times_faster(row, reference) if reference else None
    low, high = min(row.microseconds), max(row.microseconds)
    return [
        row.system,
        f"{median(row.microseconds):.3g}",
        f"{low:.3g}-{high:.3g}",
        f"{median(row.cpu):.3g}" if row.cpu else "-",
        _or_dash(ratio),
        f"{row.events}",
        _or_dash(row.error, ".3f"),
        _or_dash(row.updates, ".0%"),
        _or_dash(row.rank),
    ]


def _growth(title: str, found: list[dict[str, Any]]) -> Table:
    rows = [Row(**row) for row in found]
    columns = ["grows", "at", "system", "us/event", "range", "times the first", "updates", "rank"]
    cells = []
    for row in rows:
        if not row.microseconds:
            continue
        first = next(r for r in rows if (r.curve, r.system) == (row.curve, row.system))
        ratio = times_faster(first, row)  # how many times cheaper the first point is
        low, high = min(row.microseconds), max(row.microseconds)
        middle = f"{median(row.microseconds):.3g}"
        cost = [middle, f"{low:.3g}-{high:.3g}", _or_dash(ratio)]
        shape = [_or_dash(row.updates, ".0%"), _or_dash(row.rank)]
        cells.append([row.curve, f"{row.at}", row.system, *cost, *shape])
    return Table(title, columns, cells)


def _memory(title: str, found: list[dict[str, Any]]) -> Table:
    ran = [row for row in found if "peak" in row]
    rows = [
        [row["shape"], row["system"], f"{row['peak']:.1f}", f"{row['end']:.1f}", f"{row['events']}"]
        for row in ran
    ]
    notes = [
        f"{row['shape']}, {row['system']}: not run, {row['skipped']}"
        for row in found
        if "skipped" in row
    ]
    notes += sorted(
        {f"{row['shape']}: dense U and V would take {row['dense']:.1f} MB" for row in ran}
    )
    return Table(title, ["shape", "system", "peak", "at the end", "events"], rows, tuple(notes))


def _latency(title: str, found: list[dict[str, Any]]) -> Table:
    columns = ["system", "clock", "events", "p50", "p99", "p99.9", "max", "max / p50"]
    rows, notes = [], []
    for row in found:
        if "skipped" in row:
            notes.append(f"{row['system']}: not run, {row['skipped']}")
            continue
        notes.append(f"{row['system']}: second half grew by {row['growth']:.1f} MB")
        for clock in ("wall", "cpu"):
            values = row[clock]
            cells = [f"{value:.1f}" for value in values.values()]
            rest = f"{values['max'] / values['p50']:.0f}"
            rows.append([row["system"], clock, f"{row['events']}", *cells, rest])
    return Table(title, columns, rows, tuple(notes))


def _instructions(title: str, found: dict[str, Any]) -> Table:
    columns = ["case", "per event", "stored", "ratio"]
    if "skipped" in found:
        return Table(title, columns, [], (f"not run: {found['skipped']}",))
    rows = [
        [
            case,
            f"{row['per_event']:.0f}",
            _or_dash(row["stored"], ".0f"),
            _or_dash(row["ratio"], ".3f"),
        ]
        for case, row in found.items()
    ]
    return Table(title, columns, rows)


def _files(title: str, found: list[dict[str, Any]]) -> Table:
    rows = [Row(**row) for row in found]
    ran = sorted((row for row in rows if row.cpu), key=lambda row: median(row.cpu))
    peers = [next((row for row in ran if row.system == name), None) for name in (VW, PANDAS)]
    columns = ["road", "rows/s", "rows/CPU s", "times VW", "times pandas"]
    columns += ["clock VW", "clock pandas", "rows", "error"]
    cells = [
        [
            row.system,
            f"{1e6 / median(row.microseconds):,.0f}",
            f"{1e6 / median(row.cpu):,.0f}",
            *(_or_dash(None if peer is None else cpu_ratio(row, peer), ".2f") for peer in peers),
            *(_or_dash(None if peer is None else clock_ratio(row, peer), ".2f") for peer in peers),
            f"{row.events}",
            _or_dash(None if row.error is None or isnan(row.error) else row.error, ".3f"),
        ]
        for row in ran
    ]
    notes = [
        "the same events as CSV and in VW's format; times: ratios of processor time, repeat by "
        "repeat; clock: of rows per second, where both read and learn at once",
        *_absent(rows),
        *_busy(ran),
    ]
    return Table(title, columns, cells, tuple(notes))


def _threads(title: str, found: list[dict[str, Any]]) -> Table:
    columns = ["shape", "threads", "events", "us/event", "CPU us", "barriers us", "under the lock"]
    rows = []
    for shape, number in dict.fromkeys((row["shape"], row["threads"]) for row in found):
        some = [row for row in found if (row["shape"], row["threads"]) == (shape, number)]
        n, best = some[0]["events"], min(some, key=lambda row: row["wall"])
        times = [f"{1e6 * best[clock] / n:.3g}" for clock in ("wall", "cpu", "merging")]
        share = median(row["locked"] / row["cpu"] for row in some)
        rows.append([shape, f"{number}", f"{n}", *times, f"{share:.1%}"])
    return Table(title, columns, rows)


def _or_dash(value: Any, form: str = "") -> str:
    return "-" if value is None else format(value, form) if form else str(value)


_MAKERS: dict[str, Callable[[str, Any], Table]] = {
    **dict.fromkeys("abcd", _systems),
    "e": _growth,
    "f": _memory,
    "g": _latency,
    "h": _instructions,
    "i": _files,
    "j": _threads,
}
