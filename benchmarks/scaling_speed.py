"""What learning in shards brings: speed on threads and on Ray, cost of merges, memory, recovery."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import signal
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

import romco
from benchmarks.workloads import large
from romco.learners import auto
from romco.learners.merging import merge
from romco.model import features
from romco.runs import Source
from romco.shards import Shards
from romco.shards import shards as shards_module
from romco.shards.files import read, start
from romco.shards.reader import EventFiles, FilePosition, ShardReader, list_files
from romco.shards.shard import Shard

AGAIN = 50_000  # rows after which a file of generated numbers comes again
ROWS = (200_000, 1_000_000)  # read by workers on Ray
BARRIER_CALLS = (
    "choose_after_merge",
    "gather_directions",
    "put_directions",
    "orthogonalise_directions",
)
LENGTHS = (40_000, 160_000, 640_000)  # events: merges become rarer as streams get longer
THREADS = (1, 2, "auto")


def sharded(n, d, **settings):
    """Shards that learn rows of d columns."""
    return Shards("romco-auto", n, romco.Columns(d), classes=(-1.0, 1.0), **settings)


def timed(threads, x, y, tasks):
    """Seconds of one run on threads: wall clock, CPU of all threads, barriers, CPU under the lock.

    ``locked`` is the CPU time outside of the calls that release the interpreter's lock: compiled
    ones, and the one product of BLAS that checks a batch. It is an upper bound: most of NumPy
    releases the lock, too.
    """
    released = []
    with (
        released_time(released, "romco.shards.shard.ChunkStep", "compiled"),
        released_time(released, "romco.model.transaction.ChunkStep", "compiled"),
        released_time(released, "romco.shards.shard.Events", "__init__"),
        released_time(released, "romco.learners.base.Events", "__init__"),
        released_time(released, "romco.shards.shard.FeatureCounts", "add", "clear", "rows"),
        released_time(released, "romco.learners.merging.TouchedRows", "__init__", "union"),
        released_time(released, "romco.learners.merging.kernel.RowMerge", "rows"),
        released_time(released, "romco.learners.auto.AutoKernel", *BARRIER_CALLS),
        released_time(released, "romco.learners.auto.TouchedRows", "__init__", "union"),
        mock.patch("romco.learners.auto.add_rows", timing(released, auto.add_rows)),
        mock.patch(
            "romco.model.features._check_numbers", timing(released, features._check_numbers)
        ),
        sharded(threads, x.shape[1], engine="threads") as shards,
    ):
        wall, cpu = time.perf_counter(), time.process_time()
        shards.learn(x, y, tasks)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    merging = shards.coordinator.merge_seconds
    locked = cpu - sum(released)
    return {"wall": wall, "cpu": cpu, "merging": merging, "locked": locked, "events": len(y)}


def released_time(released, name, *methods):
    """Patch a compiled class so that the CPU time of its methods is added to a list."""
    module, _, kind = name.rpartition(".")
    original = getattr(pkgutil.resolve_name(module), kind)
    timed_methods = {method: timing(released, getattr(original, method)) for method in methods}
    return mock.patch(name, type(kind, (original,), timed_methods))


def timing(released, function):
    """Return a function that adds its CPU time to a list."""

    def call(*arguments, **options):
        began = time.thread_time()
        try:
            return function(*arguments, **options)
        finally:
            released.append(time.thread_time() - began)

    return call


def shapes(n):
    """The frozen large workload (1000 tasks, Zipf features), and dense rows of as many tasks.

    The answers of the last ones are curves of the columns.
    """
    (rounds,) = large(warmup=0, events=n, segments=1).segments
    tasks = [f"user {t}" for t in rounds.task]
    yield "2^18 features, 100 non-zeros", rounds.x, rounds.y, tasks
    rng = np.random.default_rng(1)
    x, w = rng.normal(size=(n, 400)) / 20, rng.normal(size=400)
    yield "400 features, dense", x, np.where(x @ w + rng.normal(size=n) / 4 > 0, 1.0, -1.0), tasks
    x = rng.normal(size=(n, 30))
    score = np.sin(2.0 * x[:, :5]).sum(axis=1) + rng.normal(size=n)
    yield "30 columns with curves", x, np.where(score > 0, 1.0, -1.0), tasks


def speed(*_):
    """Events per second by threads, and where the time went; the best of two."""
    for name, *_ in shapes(10):
        for n in LENGTHS:
            x, y, tasks = next(given for kind, *given in shapes(n) if kind == name)
            runs = {str(threads): [] for threads in THREADS}
            for _ in range(2):  # taken in turn, so that a busy moment hits all
                for threads in THREADS:
                    runs[str(threads)].append(timed(threads, x, y, tasks))
            best = {k: min(some, key=lambda one: one["wall"]) for k, some in runs.items()}
            yield f"{name}, {n:,} events", best


def lock(*_, n=160_000):
    """CPU per event, and the share of it under the interpreter's lock."""
    for name, x, y, tasks in shapes(n):
        for threads in (2, 8):
            yield f"{name}, {n:,} events, {threads} threads", timed(threads, x, y, tasks)


def memory(*_, n=20_000, d=2**16):
    """Bytes of a shard's state: what is shared, and what is its tasks'."""
    rng = np.random.default_rng(0)
    columns = rng.integers(d, size=(n, 20)).astype(np.int32)
    starts = np.arange(0, columns.size + 1, 20)
    x = csr_array((rng.normal(size=columns.size) / 5, columns.ravel(), starts), shape=(n, d))
    x.sum_duplicates()
    y, tasks = np.where(rng.random(n) < 0.5, 1.0, -1.0), [f"u{t}" for t in rng.integers(n, size=n)]
    for shards_n in (1, 4, 16):
        shards = sharded(shards_n, d)
        shards.learn(x, y, tasks)
        states = shards.coordinator.engine.call_all(Shard.state)
        sizes = [{name: a.nbytes for name, a in one["arrays"].items()} for one in states]
        wide = [name for name, a in states[0]["arrays"].items() if a.shape[:1] == (d,)]
        shared = sum(sizes[0][name] for name in wide)
        own = [sum(size.values()) - shared for size in sizes]
        yield str(shards_n), {"shared": shared, "own": float(np.mean(own)), "largest": max(own)}


# --- files and Ray -------------------------------------------------------------------------------


def wide_files(folder, n, width=100):
    """CSV of n events of 1000 tasks with ``width`` numbers each; beyond 50,000 the same again."""
    times, n = max(1, n // AGAIN), min(n, AGAIN)
    rng = np.random.default_rng(2)
    folder.mkdir()
    x, w = np.round(rng.normal(size=(n, width)), 3), rng.normal(size=width)
    y = np.where(x @ w + rng.normal(size=n) > 0, "yes", "no")
    tasks = rng.integers(1000, size=n)
    lines = ["user,answer," + ",".join(f"x{j}" for j in range(width))]
    for task, label, row in zip(tasks.tolist(), y.tolist(), x.tolist(), strict=True):
        lines.append(f"user-{task},{label}," + ",".join(f"{value:g}" for value in row))
    (folder / "events-00.csv").write_text("\n".join(lines) + "\n")
    for k in range(1, times):
        os.link(folder / "events-00.csv", folder / f"events-{k:02}.csv")
    return given_files(folder)


def given_files(folder, bits=10, classes=("no", "yes"), target="two classes"):
    """A folder of the demonstration's columns; without classes answers are numbers."""
    source = Source(str(folder), "user", "answer")
    hashed = romco.Hashed(2**bits).to_json()
    return EventFiles(list_files([source.path]), source, classes, hashed, target)


def reading(*_, first=2000, n=20_000):
    """CPU microseconds per row that a shard spends on reading a CSV of 100 numbers in a row.

    The first rows, from which kinds of columns are inferred, are not counted.
    """
    with tempfile.TemporaryDirectory() as name:
        files = wide_files(Path(name) / "in", first + n)
        for shards in (1, 2, 8, 64):
            part = ShardReader(files, shards, 0, FilePosition())
            part.read(first)
            began = time.process_time()
            found, _ = part.read(n)
            cpu = time.process_time() - began
            own = sum(len(one.task) for one in found)
            yield str(shards), {"cpu": cpu, "rows": n, "own": own}


def worker_pids(shards):
    """Processes of the shards, which are Ray actors."""
    engine = shards.coordinator.engine
    return engine._ray.get([actor.pid.remote() for actor in engine._actors])


def ticks(pid):
    """CPU seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def actors(*_):
    """On a local Ray: events per second by workers, and the CPU of workers and driver."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        for n in ROWS:
            files = wide_files(room / str(n), n)
            for workers in (1, 2):
                run = watched(files, room / f"{workers}-{n}.romco", workers)
                yield (
                    f"{n:,} rows, {workers} worker" + "s" * (workers > 1),
                    {**run, "shards": workers},
                )


def watched(files, path, workers):
    """One run after the first period: seconds by the clock, at barriers, of workers and driver.

    ``driver`` is all of the driver's process, with Ray's own threads, ``leading`` the thread that
    leads the shards, ``merges`` what of it is merging.
    """
    merging = []

    def counted(*given):
        began = time.thread_time()
        merged = merge(*given)
        merging.append(time.thread_time() - began)
        return merged

    with (
        mock.patch.object(shards_module, "merge", counted),
        start(files, path, n=workers, engine="ray", checkpoint_every=10**6) as shards,
    ):
        steps = read(shards, files)
        first = next(steps)  # after it the shards have other workers
        merging.clear()
        pids = worker_pids(shards)
        before, wall = sum(map(ticks, pids)), time.perf_counter()
        cpu, own = time.process_time(), time.thread_time()
        *_, last = steps
        wall, driver = time.perf_counter() - wall, time.process_time() - cpu
        return {
            "events": last.events - first.events,
            "wall": wall,
            "waiting": last.merging - first.merging,
            "workers": sum(map(ticks, pids)) - before,
            "driver": driver,
            "leading": time.thread_time() - own,
            "merges": sum(merging),
            "barriers": len(merging),
        }


def recovery(*_, n_tasks=20_000):
    """On a local Ray, two workers that read files: start, periods, barriers, a lost worker."""
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        total = write_stream(room / "events", n_tasks)
        files, began = given_files(room / "events"), time.perf_counter()
        with start(files, room / "m.romco", n=2, engine="ray", checkpoint_every=20) as shards:
            found = {"start": time.perf_counter() - began, "events": total}
            began, steps, killed = time.perf_counter(), [], None
            for progress in read(shards, files):
                steps.append(time.perf_counter() - began - sum(steps))
                if killed is None and progress.rows > 0.7 * total:
                    os.kill(worker_pids(shards)[1], signal.SIGKILL)
                    killed = len(steps)
            found["after"], found["usual"] = steps[killed], steps[killed - 1]
        yield "two workers", found


# --- demonstration -----------------------------------------------------------------------------

DEMO_EVENTS, DEMO_FEATURES, DEMO_FILES = 2, 30, 8  # per task; of all; to write
KILLS = 5  # workers, one after the other
LABELS = {"two classes": ("no", "yes"), "classes": ("low", "middle", "high"), "number": None}


def write_stream(folder, n_tasks, target="two classes"):
    """Write files of events in random order, with labels or numbers; return how many."""
    rng = np.random.default_rng(0)
    shared = rng.normal(size=DEMO_FEATURES)
    tasks = rng.permutation(np.repeat(np.arange(n_tasks), DEMO_EVENTS))
    folder.mkdir()
    for k, part in enumerate(np.array_split(tasks, DEMO_FILES)):
        own = np.stack([np.random.default_rng(int(t)).normal(size=DEMO_FEATURES) for t in part])
        x = np.round(rng.normal(size=own.shape), 3) * (rng.random(own.shape) < 0.2)
        y = np.round((x * (shared + 0.5 * own)).sum(axis=1), 3)
        if target == "two classes":
            y = np.where(y > 0.0, "yes", "no")
        elif target == "classes":
            y = np.array(LABELS[target])[np.digitize(y, (-1.0, 1.0))]
        lines = ["user,answer," + ",".join(f"x{j}" for j in range(DEMO_FEATURES))]
        for task, label, row in zip(part.tolist(), y.tolist(), x.tolist(), strict=True):
            cells = ",".join(f"{value:g}" if value else "" for value in row)
            lines.append(f"user-{task},{label},{cells}")
        (folder / f"part-{k}.csv").write_text("\n".join(lines) + "\n")
    return len(tasks)


def demo(n_tasks=50_000, n=4):
    """Learn files here and on Ray, where workers are killed; True if the bits agree."""
    agree = [_demo(n_tasks, n, target) for target in LABELS]
    return all(agree)


def _demo(n_tasks, n, target):
    with tempfile.TemporaryDirectory(prefix="romco-") as name:
        room = Path(name)
        total = write_stream(room / "events", n_tasks, target)
        print(
            f"{target}: {total:,} events of {n_tasks:,} tasks in {DEMO_FILES} files, {n} shards",
            flush=True,
        )
        files = given_files(room / "events", classes=LABELS[target], target=target)
        digests = []
        for engine in ("serial", "ray"):
            began, path = time.perf_counter(), room / f"{engine}.romco"
            kills = np.linspace(0, total, KILLS + 2).astype(int).tolist()[1:-1]
            last = _run(files, path, n, engine, kills if engine == "ray" else [])
            digests.append(hashlib.sha256(path.read_bytes()).hexdigest())
            seconds = time.perf_counter() - began
            print(
                f"{engine}: {last.events:,} events in {seconds:.1f} s, loss {last.error:.4f}, "
                f"{last.merging:.1f} s in merges, {last.lost} workers lost; "
                f"{path.stat().st_size:,} bytes, SHA-256 {digests[-1][:16]}...",
                flush=True,
            )
    same = digests[0] == digests[1]
    print("the model files are identical" if same else "the model files DIFFER", flush=True)
    return same


def _run(files, path, n, engine, kills):
    """Learn the files; a worker is killed when each of these numbers of rows was read."""
    last = None
    with start(files, path, n=n, engine=engine, checkpoint_every=25) as shards:
        for last in read(shards, files):
            if kills and last.rows >= kills[0]:
                workers = worker_pids(shards)
                os.kill(workers[len(kills) % len(workers)], signal.SIGKILL)
                kills = kills[1:]
        shards.save(path)
    return last
