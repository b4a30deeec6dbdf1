"""``python -m benchmarks.hardware``: what memory allows, and how close each shape comes to it.

Reads lines of 64 bytes here and there, and one after the other, in as much memory as fits the
second cache and in far more, by a few lines of C; then counts the lines that an event of each shape
touches and compares what they would take alone with what an event takes.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

import romco
from benchmarks import workloads
from benchmarks.workloads import Workload

SOURCE = """
double here_and_there(const double* p, const unsigned* at, long n) {
    double s = 0.0;
    for (long i = 0; i < n; i++) s += p[8 * (unsigned long) at[i]];
    return s;
}
double in_turn(const double* p, const unsigned* at, long n) {
    double s = 0.0;
    for (long i = 0; i < n; i++) s += p[8 * i];
    return s;
}
"""
CACHED = 2**19  # bytes: within the second cache of most processors
FAR = 2**28  # and far more than any cache
TURNS = 5


@dataclass(frozen=True)
class Shape:
    """A learner on a workload, and the lines that each entry of an event touches."""

    what: str
    learner: str
    make: Callable[[], Workload]
    lines: float  # by entry
    cached: bool  # whether what is touched fits the second cache


# romco-auto: unit 1, shared numbers 2, own numbers 1.5, and a place in its task's table 1 where
# there is one. romco-nucl: a row of B of 4 to 25 numbers 2 to 4; V 1, or 2 in a table; slot 1.
SHAPES = (
    Shape("(a) romco-auto", "romco-auto", workloads.spam, 4.5, True),
    Shape("(a) romco-nucl", "romco-nucl", workloads.spam, 4.0, True),
    Shape("(d) romco-auto", "romco-auto", workloads.large, 5.5, False),
    Shape("(d) romco-nucl, rank 8", "romco-nucl", workloads.large, 7.0, False),
)


def nanoseconds_per_line(library: ctypes.CDLL, size: int, name: str) -> float:
    """What a line costs, the best of a few turns."""
    lines = size // 64
    block = np.ones(8 * lines)
    at = np.random.default_rng(0).integers(0, lines, 2**20).astype(np.uint32)
    n = min(lines, len(at)) if name == "in_turn" else len(at)
    read = getattr(library, name)
    read.restype, read.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    taken = []
    for _ in range(TURNS):
        begin = time.process_time_ns()
        read(block.ctypes.data, at.ctypes.data, n)
        taken.append(time.process_time_ns() - begin)
    return min(taken) / n


def microseconds_per_event(shape: Shape) -> tuple[float, float]:
    """Processor time of an event in the steady state, and its entries."""
    workload = shape.make()
    parameters = workload.parameters if shape.learner == "romco-nucl" else {}
    learner = romco.learner(shape.learner, workload.n_features, workload.n_tasks, **parameters)
    learner.replay(workload.warmup or workload.segments[0])
    taken = []
    for k in range(TURNS):
        rounds = workload.segment(k)
        begin = time.process_time()
        margins: NDArray[np.float64] = learner.replay(rounds)
        taken.append(1e6 * (time.process_time() - begin) / len(margins))
    x = workload.segments[0].events.x
    return median(taken), x.nnz / x.shape[0]


def compiled(folder: Path) -> ctypes.CDLL:
    """The C functions above."""
    source, library = folder / "lines.c", folder / "lines.so"
    source.write_text(SOURCE)
    command = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", library, source]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def main() -> None:
    """Print both tables."""
    with tempfile.TemporaryDirectory() as folder:
        library = compiled(Path(folder))
        cost = {
            (size, name): nanoseconds_per_line(library, size, name)
            for size in (CACHED, FAR)
            for name in ("here_and_there", "in_turn")
        }
    print("| lines of 64 bytes | ns each | GB/s |\n|---|---|---|")
    for (size, name), each in cost.items():
        print(f"| {size >> 10} KB, {name.replace('_', ' ')} | {each:.1f} | {64 / each:.1f} |")
    print("\n| shape | lines per event | µs for them alone | µs per event | share |")
    print("|---|---|---|---|---|")
    for shape in SHAPES:
        taken, entries = microseconds_per_event(shape)
        lines = shape.lines * entries
        alone = lines * cost[CACHED if shape.cached else FAR, "here_and_there"] / 1e3
        print(f"| {shape.what} | {lines:.0f} | {alone:.1f} | {taken:.1f} | {alone / taken:.0%} |")


if __name__ == "__main__":
    main()
