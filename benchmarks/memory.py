"""Peak memory of a model: resident growth from before it is made to its highest point.

Each case runs in a process of its own, its events loaded before the count begins.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import workloads
from benchmarks.measure import Say
from benchmarks.peers import RiverPerTask, VowpalCalls
from benchmarks.systems import Plain, Stream, System, Unavailable
from benchmarks.workloads import Workload

Make = Callable[[], System]
SPAM: dict[str, Make] = {
    "romco-auto": lambda: Stream("romco-auto"),
    "romco-nucl": lambda: Stream("romco-nucl"),
    "NumPy ROMCO, Gram": lambda: Plain("gram"),
    "pa-unique": lambda: Stream("pa-unique"),
    "River PA, one per task": RiverPerTask,
    "VW from Python, -q tf": VowpalCalls,
}
LARGE: dict[str, Make] = {
    "romco-auto": lambda: Stream("romco-auto"),
    "romco-nucl": lambda: Stream("romco-nucl"),
    "romco-nucl, no personal part": lambda: Stream("romco-nucl", lambda2=1e3),
    "pa-global": lambda: Stream("pa-global"),
    "River PA, one per task": RiverPerTask,
    "VW from Python, -q tf": lambda: VowpalCalls(bits=22),
}


def peaks(quick: bool, say: Say) -> list[dict[str, Any]]:
    """Megabytes of every case."""
    rows = []
    for shape, systems in (("spam", SPAM), ("large", LARGE)):
        for system in systems:
            say(f"memory: {shape}, {system}")
            rows.append({"shape": shape, "system": system, **_measured(shape, system, quick)})
    return rows


def _measured(shape: str, system: str, quick: bool) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.memory", shape, system, "quick" if quick else ""]
    here = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, capture_output=True, text=True, cwd=here, check=False)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or ["no message"]
        return {"skipped": f"the process failed: {reason[0]}"}
    return json.loads(done.stdout.splitlines()[-1])


def case(shape: str, quick: bool) -> Workload:
    """The events of a shape."""
    if shape == "spam":
        return workloads.spam(0.1 if quick else 1.0)
    events = 1_000 if quick else 10_000
    return workloads.large(warmup=events, events=events, segments=3)


def grown(workload: Workload, system: System) -> dict[str, Any]:
    """Run everything once; megabytes at the peak and at the end, above the start."""
    streams = [part for part in (workload.warmup, *workload.segments) if part is not None]
    prepared = [system.prepare(part) for part in streams]
    gc.collect()
    _release()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forget earlier peaks
    before = resident()
    system.start(workload)
    for part in prepared:
        system.run(part)
    events = sum(len(part.events.y) for part in streams)
    dense = 2 * 8e-6 * workload.n_features * workload.n_tasks
    return {
        "peak": _peak() - before,
        "end": resident() - before,
        "events": events,
        "dense": dense,  # what U and V as dense arrays would take
    }


def _release() -> None:
    """Give freed memory back, so that the model cannot hide in it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def resident() -> float:
    """Megabytes resident now."""
    for line in _status():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024e-6
    return _peak()


def _peak() -> float:
    """Highest number of resident megabytes."""
    for line in _status():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024e-6
    unit = 1e-6 if sys.platform == "darwin" else 1024e-6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _status() -> Iterator[str]:
    path = Path(f"/proc/{os.getpid()}/status")
    return iter(path.read_text().splitlines() if path.exists() else ())


def main() -> None:
    """One case, named on the command line; prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("shape", "system", "speed"):
        parser.add_argument(name)
    asked = parser.parse_args()
    chosen = {"spam": SPAM, "large": LARGE}[asked.shape][asked.system]()
    try:
        result = grown(case(asked.shape, asked.speed == "quick"), chosen)
    except Unavailable as reason:
        result = {"skipped": str(reason)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
