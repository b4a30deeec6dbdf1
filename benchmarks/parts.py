"""Which systems meet which workloads: one function per part of the report."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from typing import Any

from benchmarks import files, instructions, latency, memory, scaling_speed, workloads
from benchmarks.doors import doors
from benchmarks.measure import Entry, Say, interleave
from benchmarks.peers import RiverPerTask, SklearnGlobal, VowpalCalls, VowpalFile
from benchmarks.systems import Calls, Plain, Stream, System

REPEATS = 7
QUICK_REPEATS = 5
NO_PERSONAL = 1e3  # a lambda2 that keeps V empty
BASELINES = (
    "pa-unique",
    "pa-global",
    "ogd-unique",
    "ogd-global",
    "arow-unique",
    "arow-global",
    "coml",
    "cw-col",
    "omtl",
    "omtlvon",
    "omtllog",
    "osmtl-e",
    "osmtl-t",
    "perceptron-coupled",
)


def spam(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(a) few tasks, sparse single events: whole stream and one call per event."""
    workload = workloads.spam(0.2 if quick else 1.0)
    systems: list[System] = [
        Stream("romco-auto"),
        Calls("romco-auto"),
        *doors(limit=500 if quick else 2000),
        Stream("romco-nucl"),
        Calls("romco-nucl"),
        Stream("romco-logd"),
        RiverPerTask(),
        VowpalFile(),
        VowpalCalls(),
        SklearnGlobal(batch=256),
        SklearnGlobal(batch=1, limit=100 if quick else 500),
        Plain("gram", limit=2000),
        Plain("svd", limit=1000),
        *(Stream(name) for name in BASELINES),
        Calls("pa-unique"),
    ]
    return _side_by_side(workload, systems, quick, say)


def mhc(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(b) a dozen tasks, dense single events."""
    workload = workloads.mhc(0.1 if quick else 1.0)
    return _side_by_side(workload, _dense(quick, river=300), quick, say)


def movies(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(c) thirty tasks, dense rounds with one event of each."""
    workload = workloads.movies(0.1 if quick else 1.0)
    return _side_by_side(workload, _dense(quick, river=90), quick, say)


def large(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(d) a thousand tasks, 2^18 features, by rank of the shared part."""
    size = _size(quick)
    workload = workloads.large(**size)
    at_rank = [
        Entry(workload, Stream("romco-nucl", f"romco-nucl, rank {rank}", lambda1=strength))
        for rank, strength in workloads.STRENGTH.items()
    ]
    others: list[System] = [
        Stream("romco-auto"),
        Calls("romco-auto"),
        *doors(),  # the same events as River
        Stream("romco-nucl", "romco-nucl, rank 8, no personal part", lambda2=NO_PERSONAL),
        Calls("romco-nucl", "romco-nucl, rank 8, call per event"),
        RiverPerTask(),
        VowpalFile(bits=22),
        VowpalCalls(bits=22),
        SklearnGlobal(batch=256),
        SklearnGlobal(batch=1, limit=50 if quick else 200),
        Stream("pa-global"),
        Stream("ogd-global"),
    ]
    entries = [*at_rank, *(Entry(workload, system) for system in others)]
    return [asdict(row) for row in interleave(entries, _repeats(quick), say)]


def growth(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(e) the cost of an event as one size grows and the others stay."""
    rows = []
    for curve, values in curves(quick).items():
        entries = []
        for value in values:
            say(f"growth: events for {curve} = {value}")
            workload = workloads.large(**{**_size(quick), curve: value})
            for system in (
                Stream("romco-nucl", "romco-nucl"),
                Stream("romco-nucl", "romco-nucl, no personal part", lambda2=NO_PERSONAL),
                *([Stream("romco-auto")] if curve != "rank" else []),  # it has no rank to set
            ):
                entries.append(Entry(workload, system, curve, value))
        rows += [asdict(row) for row in interleave(entries, _repeats(quick), say)]
    return rows


def curves(quick: bool) -> dict[str, tuple[int, ...]]:
    """What grows, and the points measured."""
    if quick:
        return {"n_features": (2**14, 2**20), "n_tasks": (100, 100_000)}
    return {
        "n_features": tuple(2**k for k in range(10, 21, 2)),
        "n_tasks": (100, 1_000, 10_000, 100_000),
        "nnz": (10, 30, 100, 300),
        "rank": tuple(workloads.STRENGTH),
    }


def peak_memory(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(f) resident growth, each case in a process of its own."""
    return memory.peaks(quick, say)


def single_events(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(g) percentiles of single events, in a process of its own that has done other work too."""
    say("latency, in a process of its own")
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(latency.percentiles, quick, str).result()


def instruction_counts(quick: bool, say: Say) -> dict[str, Any]:
    """(h) instructions per event, against the stored counts."""
    return instructions.counts(say)


def from_files(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(i) from a text file to a model, each system by its usual road."""
    return files.compare(quick, say)


def threads(quick: bool, say: Say) -> list[dict[str, Any]]:
    """(j) shards on one thread and on two, in turn."""
    n, rows = 20_000 if quick else 640_000, []
    for shape, *stream in scaling_speed.shapes(n):
        for repeat in range(3):
            for number in (1, 2):
                say(f"threads: {shape}, {number}, repeat {repeat + 1} of 3")
                row = scaling_speed.timed(number, *stream)
                rows.append({"shape": shape, "threads": number, **row})
    return rows


PARTS: dict[str, Callable[[bool, Say], Any]] = {
    "a": spam,
    "b": mhc,
    "c": movies,
    "d": large,
    "e": growth,
    "f": peak_memory,
    "g": single_events,
    "h": instruction_counts,
    "i": from_files,
    "j": threads,
}


def _dense(quick: bool, river: int) -> list[System]:
    return [
        Stream("romco-auto"),
        Calls("romco-auto", "romco-auto, call per round"),
        *doors(limit=60 if quick else 300),
        Stream("romco-nucl"),
        Calls("romco-nucl", "romco-nucl, call per round"),
        Stream("romco-logd"),
        RiverPerTask(limit=river),
        VowpalFile(limit=1500),
        SklearnGlobal(batch=256),
        Plain("gram", limit=1500),
        Plain("svd", limit=300 if quick else 600),
        *(Stream(name) for name in BASELINES),
    ]


def _side_by_side(
    workload: workloads.Workload, systems: list[System], quick: bool, say: Say
) -> list[dict[str, Any]]:
    entries = [Entry(workload, system) for system in systems]
    return [asdict(row) for row in interleave(entries, _repeats(quick), say)]


def _repeats(quick: bool) -> int:
    return QUICK_REPEATS if quick else REPEATS


def _size(quick: bool) -> dict[str, int]:
    """Events before and during the measurement of the large shape."""
    if quick:
        return {"warmup": 2_000, "events": 500, "segments": QUICK_REPEATS}
    return {"warmup": 20_000, "events": 2_000, "segments": REPEATS}
