"""What learning in shards costs and brings: measured by ``python -m benchmarks.scaling PART``.

Parts: error, learners, speed, merges, memory, recovery; each stores its figures in
docs/scaling/results.json. ``tables`` puts what is stored into docs/scaling.md.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

import romco
from romco.cluster import Shards, coordinators
from romco.cluster.demo import write_stream
from romco.cluster.files import begin, read
from romco.cluster.partitions import Files, files_of
from romco.kernels.touched import Touched
from romco.learners.merging import Merged, change, held, merge, take
from romco.sessions import Source
from romco.streams import datasets, interleaved
from romco.streams.stream import Stream

RESULTS = Path("docs/scaling/results.json")
PAGE = Path("docs/scaling.md")
SHUFFLES = (9001, 9002)
NEVER = {"growth": 1e12, "every": 10**12}
VARIANTS = {
    "growth 10 %": {"growth": 0.1},
    "growth 100 %": {"growth": 1.0},
    "averaged": {"growth": 0.1},
    "never merged": NEVER,
}


# --- streams -------------------------------------------------------------------------------------


def made(n_tasks=2000, n_events=12_000, d=300, nonzeros=20, seed=1):
    """Many tasks with few events each: three quarters of a task's weights are everybody's."""
    rng = np.random.default_rng(seed)
    task = rng.integers(n_tasks, size=n_events)
    columns = np.sort(rng.random((n_events, d)).argpartition(nonzeros)[:, :nonzeros], axis=1)
    values = rng.normal(size=columns.shape)
    shared, own = rng.normal(size=d), rng.normal(size=(n_tasks, d))
    score = (values * (shared[columns] + 0.5 * own[task[:, None], columns])).sum(axis=1)
    starts = np.arange(0, columns.size + 1, nonzeros)
    x = csr_array((values.ravel(), columns.ravel().astype(np.int32), starts), shape=(n_events, d))
    y = np.where(score + rng.normal(size=n_events) > 0, 1.0, -1.0)
    return Stream("made", task, x, y, tuple(f"task {i}" for i in range(n_tasks)))


def streams():
    for name, n in (("emails", 8), ("movies", 8), ("mhc", 8), ("spam", 4)):
        yield f"{name}, {n} shards", datasets.DATASETS[name].load(None), n
    whole = made()
    yield "2000 made-up tasks, 8 shards", whole, 8
    yield "2000 made-up tasks, 64 shards", whole, 64


def macro_error(rounds, margins, n_tasks):
    wrong = np.where(margins >= 0, 1.0, -1.0) != rounds.y
    events = np.bincount(rounds.task, minlength=n_tasks)
    bad = np.bincount(rounds.task, weights=wrong, minlength=n_tasks)
    return float(100 * (bad[events > 0] / events[events > 0]).mean())


# --- error ---------------------------------------------------------------------------------------


def averaged(common, changes):
    """The rule that one would try first: the mean of what shards hold of what they touched."""
    active = [one for one in changes if one.events]
    rows = np.unique(np.concatenate([one.rows for one in active]))
    values = held(common, rows)
    for name, value in values.items():
        if len(value) == len(rows) and active[0].values[name].shape[1:] == value.shape[1:]:
            total, number = np.zeros_like(value), np.zeros(len(rows))
            for one in active:
                at = np.searchsorted(rows, one.rows)
                total[at] += one.values[name]
                number[at] += 1
            values[name] = total / number.reshape(-1, *[1] * (value.ndim - 1))
        else:
            values[name] = np.mean([one.values[name] for one in active], axis=0)
    merged = Merged(rows, values)
    take(common, merged)
    return merged


def error_of(stream, rounds, n, learner="romco-auto", rule=None, **schedule):
    shards = Shards(learner, n, romco.Columns(stream.n_features), classes=(-1.0, 1.0), **schedule)
    if rule is not None:
        shards.leader.engine.here = None  # so that what shards changed is sent, and the rule seen
    with mock.patch.object(coordinators, "merge", rule or coordinators.merge):
        margins = shards.learn(rounds.x, rounds.y, [stream.tasks[t] for t in rounds.task])
    return macro_error(rounds, margins, stream.n_tasks)


def error():
    """Macro error above that of one process, by stream and schedule."""
    found = {}
    for name, stream, n in streams():
        table = {"one process": [], **{variant: [] for variant in VARIANTS}}
        for seed in SHUFFLES:
            rounds = interleaved(stream, seed)
            alone = error_of(stream, rounds, 1)
            table["one process"].append(alone)
            for variant, schedule in VARIANTS.items():
                rule = averaged if variant == "averaged" else None
                try:
                    loss = error_of(stream, rounds, n, rule=rule, **schedule) - alone
                except (FloatingPointError, ValueError, np.linalg.LinAlgError):
                    loss = None  # did not survive
                table[variant].append(loss)
        found[name] = table
        print(
            name,
            {
                k: v and np.round([x for x in v if x is not None], 2).tolist()
                for k, v in table.items()
            },
            flush=True,
        )
    return found


def learners():
    """The same of the other learners that share something, on two streams, at 10 % growth."""
    found = {}
    for name, n in (("emails", 8), ("movies", 8)):
        stream = datasets.DATASETS[name].load(None)
        for learner in ("arow-shared", "pa-shared", "arow-global", "pa-global"):
            losses = []
            for seed in SHUFFLES:
                rounds = interleaved(stream, seed)
                alone = error_of(stream, rounds, 1, learner)
                merged = error_of(stream, rounds, n, learner)
                apart = error_of(stream, rounds, n, learner, **NEVER)
                losses.append([alone, merged - alone, apart - alone])
            found[f"{learner}, {name}, {n} shards"] = np.mean(losses, axis=0).tolist()
            print(learner, name, np.round(found[f"{learner}, {name}, {n} shards"], 2), flush=True)
    return found


# --- speed, memory, recovery ---------------------------------------------------------------------


def events(n, d, nonzeros, n_tasks, seed=0, power=1.0):
    """Sparse rows, random labels, names of tasks."""
    rng = np.random.default_rng(seed)
    columns = (d * rng.random((n, nonzeros)) ** power).astype(np.int32)
    starts = np.arange(0, columns.size + 1, nonzeros)
    x = csr_array((rng.normal(size=columns.size) / 10, columns.ravel(), starts), shape=(n, d))
    x.sum_duplicates()
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return x, y, [f"u{t}" for t in rng.integers(n_tasks, size=n)]


def sharded(n, d, **settings):
    return Shards("romco-auto", n, romco.Columns(d), classes=(-1.0, 1.0), **settings)


def timed(threads, x, y, tasks):
    """Seconds of one run on threads: by the clock, of all threads' work, at barriers."""
    with sharded(threads, x.shape[1], engine="threads") as shards:
        wall, cpu = time.perf_counter(), time.process_time()
        shards.learn(x, y, tasks)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return {"wall": wall, "cpu": cpu, "merging": shards.leader.merging, "events": len(y)}


def speed(n=8000):
    """Events per second by threads, and where the time went; 1000 tasks; best of three."""
    x, y, tasks = events(n, 2**18, 100, 1000, power=3.0)
    dense = np.random.default_rng(1).normal(size=(n, 400)) / 20
    found = {}
    for name, rows in (("2^18 features, 100 non-zeros", x), ("400 features, dense", dense)):
        runs = {"1": [], "2": []}
        for _ in range(3):  # taken in turn, so that a busy moment hits both
            for threads in (1, 2):
                runs[str(threads)].append(timed(threads, rows, y, tasks))
        found[name] = {k: min(some, key=lambda one: one["wall"]) for k, some in runs.items()}
        print(name, found[name], flush=True)
    return found


def merges():
    """Seconds of a merge by rows touched, at 2^18 features: it is not the features that cost."""
    found, rng, d = {}, np.random.default_rng(0), 2**18
    for rows_touched in (1000, 10_000, 100_000):
        for n in (2, 8):
            common, changes = romco.learner("romco-auto", d, 1), []
            for _ in range(n):
                rows = np.sort(rng.choice(d, rows_touched, replace=False)).astype(np.int32)
                touched = Touched(d)
                touched.add(np.ones(rows_touched), rows)
                changes.append(change(common, touched, 1000))
            began = time.perf_counter()
            merge(common, changes)
            found[f"{rows_touched:,} rows, {n} shards"] = time.perf_counter() - began
    print(found)
    return found


def memory(n=20_000, d=2**16):
    """Bytes of a shard's state: what is shared, and what is its tasks'."""
    given, found = events(n, d, 20, n), {}
    for shards_n in (1, 4, 16):
        shards = sharded(shards_n, d)
        shards.learn(*given)
        states = shards.leader.engine.all(coordinators.Shard.state)
        sizes = [{name: a.nbytes for name, a in one["arrays"].items()} for one in states]
        wide = [name for name, a in states[0]["arrays"].items() if a.shape[:1] == (d,)]
        shared = sum(sizes[0][name] for name in wide)
        own = [sum(size.values()) - shared for size in sizes]
        found[str(shards_n)] = {"shared": shared, "own": float(np.mean(own)), "largest": max(own)}
        print(shards_n, found[str(shards_n)], flush=True)
    return found


def recovery(n_tasks=6000):
    """On a local Ray, two workers that read files: start, periods, barriers, a lost worker."""
    with tempfile.TemporaryDirectory() as name:
        room, began = Path(name), time.perf_counter()
        total = write_stream(room / "events", n_tasks)
        source = Source(str(room / "events"), "user", "answer")
        files = Files(files_of([source.path]), source, ("no", "yes"), romco.Hashed(2**10).to_json())
        with begin(files, room / "m.romco", n=2, engine="ray", checkpoint_every=20) as shards:
            found = {"start": time.perf_counter() - began, "events": total}
            cpu, began, steps, killed = time.process_time(), time.perf_counter(), [], None
            for progress in read(shards, files):
                steps.append(time.perf_counter() - began - sum(steps))
                if killed is None and progress.rows > 0.7 * total:
                    found |= {"wall": sum(steps), "driver": time.process_time() - cpu}
                    found |= {"merging": progress.merging, "barriers": len(steps)}
                    found |= {"rows": progress.rows}
                    os.kill(shards.leader.engine.pids()[1], signal.SIGKILL)
                    killed = len(steps)
            found["after"], found["usual"] = steps[killed], steps[killed - 1]
    print(found)
    return found


# --- what is stored ------------------------------------------------------------------------------

PARTS = {f.__name__: f for f in (error, learners, speed, merges, memory, recovery)}


def store(part, figures):
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    load = Path("/proc/loadavg")
    kept[part] = {
        "figures": figures,
        "version": romco.__version__,
        "load": float(load.read_text().split()[0]) if load.exists() else None,
    }
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    for part in sys.argv[1:]:
        if part == "tables":
            from benchmarks.scaling_tables import write

            write(json.loads(RESULTS.read_text()), PAGE)
        else:
            store(part, PARTS[part]())
