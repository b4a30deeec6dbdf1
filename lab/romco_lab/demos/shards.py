"""``make cluster-demo``: shards on a local Ray lose a worker, and nothing else.

``python -m romco_lab.demos.shards [TASKS [SHARDS]]`` writes a stream of that many tasks (100,000)
to files, learns them in shards (4) one after the other in this process, then on Ray, where half-way
a worker is killed, and compares the two model files byte by byte.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from romco.model import Hashed
from romco.runs import Source
from romco.shards.files import ShardsProgress, begin, finish, read
from romco.shards.partitions import Files, files_of
from romco.shards.ray import Ray
from romco.shards.shards import Shards

EVENTS, FEATURES, FILES = 2, 30, 8  # per task; of all; to write


def write_stream(folder: Path, n_tasks: int, seed: int = 0) -> int:
    """Files of events in random order: half of a task's weights is its own; gives the number."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=FEATURES)
    tasks = rng.permutation(np.repeat(np.arange(n_tasks), EVENTS))
    folder.mkdir()
    for k, part in enumerate(np.array_split(tasks, FILES)):
        own = np.stack([np.random.default_rng(int(t)).normal(size=FEATURES) for t in part])
        x = np.round(rng.normal(size=own.shape), 3) * (rng.random(own.shape) < 0.2)
        y = np.where((x * (shared + 0.5 * own)).sum(axis=1) > 0.0, "yes", "no")
        lines = ["user,answer," + ",".join(f"x{j}" for j in range(FEATURES))]
        for task, label, row in zip(part.tolist(), y.tolist(), x.tolist(), strict=True):
            cells = ",".join(f"{value:g}" if value else "" for value in row)
            lines.append(f"user-{task},{label},{cells}")
        (folder / f"part-{k}.csv").write_text("\n".join(lines) + "\n")
    return len(tasks)


def main(n_tasks: int = 100_000, n: int = 4) -> bool:
    """Run the demonstration; gives whether the two files are the same."""
    with tempfile.TemporaryDirectory(prefix="romco-") as name:
        room = Path(name)
        total = write_stream(room / "events", n_tasks)
        print(f"{total:,} events of {n_tasks:,} tasks in {FILES} files, {n} shards", flush=True)
        source = Source(str(room / "events"), "user", "answer")
        paths = files_of([source.path])
        files = Files(paths, source, ("no", "yes"), Hashed(2**10).to_json())
        digests = []
        for engine in ("serial", "ray"):
            began, path = time.perf_counter(), room / f"{engine}.romco"
            last = _run(files, path, n, engine, total // 2 if engine == "ray" else None)
            digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
            seconds = time.perf_counter() - began
            print(
                f"{engine}: {last.events:,} events in {seconds:.1f} s, error {last.error:.2%}, "
                f"{last.merging:.1f} s in merges, {last.lost} worker lost; "
                f"{path.stat().st_size:,} bytes, SHA-256 {digests[-1][:16]}...",
                flush=True,
            )
    same = digests[0] == digests[1]
    print("the model files are identical" if same else "the model files DIFFER")
    return same


def _run(files: Files, path: Path, n: int, engine: str, kill_at: int | None) -> ShardsProgress:
    """Learn the files; a worker is killed when so many rows were read."""
    last = None
    with begin(files, path, n=n, engine=engine, checkpoint_every=25) as shards:
        for last in read(shards, files):
            if kill_at is not None and last.rows >= kill_at:
                _kill(shards, n // 2)
                kill_at = None
        finish(shards, path)
    assert last is not None
    return last


def _kill(shards: Shards, k: int) -> None:
    engine = shards.leader.engine
    assert isinstance(engine, Ray)
    pid = engine.pids()[k]
    os.kill(pid, signal.SIGKILL)
    print(f"ray: killed process {pid}, the worker of shard {k}", flush=True)


if __name__ == "__main__":
    sys.exit(not main(*map(int, sys.argv[1:])))
