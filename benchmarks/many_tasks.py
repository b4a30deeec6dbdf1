"""100,000 tasks with 2^18 hashed features and 50 names per event, through ``romco.Model``.

``python -m benchmarks.many_tasks LEARNER ...`` prints a row of a table for each learner; a learner
runs in a process of its own, so that its memory is its own. Times are processor time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import romco

TASKS, NAMES, PER_EVENT, BATCH = 100_000, 400_000, 50, 1000
EVENTS = 200_000
COLUMNS = (
    "learner", "tasks met", "µs per event", "of it names", "one event", "predict one", "new task",
    "state MB", "peak MB", "explain s", "save s", "file MB",
)  # fmt: skip

Batch = tuple[list[dict[str, float]], list[int], list[int]]


def batches(n: int, seed: int = 0) -> Iterator[Batch]:
    """Batches of events: few names are common, most are rare."""
    rng = np.random.default_rng(seed)
    words = [f"w{j}" for j in range(NAMES)]
    for _ in range(n):
        at = (NAMES * rng.random((BATCH, PER_EVENT)) ** 3).astype(int)
        rows = [dict.fromkeys((words[j] for j in row), 0.14) for row in at.tolist()]
        yield rows, np.where(at[:, 0] % 2, 1, -1).tolist(), rng.integers(0, TASKS, BATCH).tolist()


def spent(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row(name: str) -> tuple[Any, ...]:
    """What one learner takes."""
    model = romco.Model(name, romco.Hashed(2**18), classes=(-1, 1))
    before = next(batches(1)) and peak()
    learning = naming = 0.0
    for batch in batches(EVENTS // BATCH):
        learning += spent(lambda batch=batch: model.learn(*batch))
        naming += spent(lambda batch=batch: model.features.read(batch[0]))
    most = peak() - before
    rows, labels, tasks = next(batches(1, seed=1))
    one = spent(lambda: [model.learn_one(*e) for e in zip(rows, labels, tasks, strict=True)])
    answer = spent(lambda: [model.predict_one(*e) for e in zip(rows, tasks, strict=True)])
    new = spent(lambda: [model.predict_one(x, "nobody") for x in rows])
    explained = spent(lambda: romco.explain(model))
    path = Path(tempfile.mkdtemp()) / "model.romco"
    saved = spent(lambda: romco.save(model, path))
    state = sum(array.nbytes for array in model.state()["arrays"].values())
    per_event = [1e6 * t / EVENTS for t in (learning, naming)]
    per_call = [1e6 * t / BATCH for t in (one, answer, new)]
    times = [f"{t:.0f}" for t in (*per_event, *per_call)]
    sizes = [f"{state / 1e6:.0f}", f"{most:.0f}"]
    last = [f"{explained:.1f}", f"{saved:.1f}", f"{path.stat().st_size / 1e6:.0f}"]
    return (name, f"{len(model.tasks):,}", *times, *sizes, *last)


def main(learners: list[str]) -> None:
    if os.environ.get("ROMCO_ONE"):
        print("| " + " | ".join(map(str, row(*learners))) + " |")
        return
    print("| " + " | ".join(COLUMNS) + " |\n|" + "---|" * len(COLUMNS), flush=True)
    for name in learners:
        command = [sys.executable, "-m", "benchmarks.many_tasks", name]
        subprocess.run(command, env={**os.environ, "ROMCO_ONE": "1"}, check=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["romco-nucl", "romco-auto", "arow-shared"])
