"""How long single events take, to the slowest of a million."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import romco
from benchmarks import workloads
from benchmarks.measure import Say
from benchmarks.memory import resident
from benchmarks.peers import RiverPerTask
from benchmarks.systems import Calls, System, Unavailable
from benchmarks.workloads import Workload

PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}
UNCOUNTED = 1000  # first calls: caches, lazy imports


def percentiles(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Microseconds of one event, predicted and learned by single calls, on the large shape.

    Wall time holds what else the machine was doing; the thread's CPU time does not. The process
    has done other work before, so that its heap is that of a program and not of a benchmark.
    """
    other_work()
    events = 5_000 if quick else 50_000
    workload = workloads.large(warmup=0, events=events, segments=1)
    counts = {"romco": 20_000 if quick else 1_000_000, "river": 5_000 if quick else 100_000}
    rows = []
    for system, count in (
        (Calls("romco-nucl"), counts["romco"]),
        (Calls("romco-auto"), counts["romco"]),
        (RiverPerTask(), counts["river"]),
    ):
        say(f"latency: {system.name}, {count} events")
        rows.append({"system": system.name, **measured(system, workload, count)})
    return rows


def other_work() -> None:
    """Learners made, used and dropped, arrays of many sizes kept and freed in turn."""
    small = workloads.spam(0.05)
    for name in ("romco-nucl", "romco-auto", "pa-unique", "osmtl-e"):
        learner = romco.learner(name, small.n_features, small.n_tasks)
        learner.replay(small.segments[0])
    rng = np.random.default_rng(0)
    kept = [np.ones(int(n)) for n in rng.integers(1, 50_000, 2_000)]
    del kept[::2]


def measured(system: System, workload: Workload, count: int) -> dict[str, Any]:
    try:
        system.start(workload)
    except Unavailable as reason:
        return {"skipped": str(reason)}
    prepared = list(system.prepare(workload.segments[0]))  # type: ignore[call-overload]
    step = _step(system)
    gc.collect()
    gc.disable()
    try:
        half = count // 2  # memory is read between two halves: it must not grow for ever
        first = _clocked(step, prepared, 0, half)
        middle = resident()
        second = _clocked(step, prepared, half, count)
    finally:
        gc.enable()
    wall, cpu = (np.concatenate(pair)[UNCOUNTED:] for pair in zip(first, second, strict=True))
    return {
        "events": len(wall),
        "wall": _summary(wall),
        "cpu": _summary(cpu),
        "growth": resident() - middle,
    }


def _step(system: System) -> Callable[[Any], None]:
    """Predict and learn one prepared event."""
    if isinstance(system, Calls):
        predict, update = system.model.predict, system.model.update

        def step(round: Any) -> None:
            predict(round)
            update(round)

        return step

    def run(event: Any) -> None:
        system.run([event])

    return run


def _clocked(
    step: Callable[[Any], None], prepared: list[Any], begin: int, end: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Nanoseconds (wall, CPU of this thread) of each event; the stream is gone round again."""
    wall, cpu = np.empty(end - begin, dtype=np.int64), np.empty(end - begin, dtype=np.int64)
    clock, thread = time.perf_counter_ns, time.thread_time_ns
    for n in range(end - begin):
        event = prepared[(begin + n) % len(prepared)]
        c0, t0 = thread(), clock()
        step(event)
        wall[n], cpu[n] = clock() - t0, thread() - c0
    return wall, cpu


def _summary(nanoseconds: NDArray[np.int64]) -> dict[str, float]:
    values = np.percentile(nanoseconds, list(PERCENTILES.values())) / 1e3
    return dict(zip(PERCENTILES, values.tolist(), strict=True))
