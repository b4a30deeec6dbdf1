"""What learning in shards costs and brings: measured by ``python -m benchmarks.scaling PART``.

Parts: error, learners, speed, recovery, memory; each stores its figures in docs/scaling/results.json.
``docs`` puts the tables of what is stored into docs/scaling.md. Nothing was chosen by
looking at these shuffles.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

import romco
from romco.cluster import Shards, coordinators
from romco.learners.merging import Merged, held, take
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
    features = romco.Columns(stream.n_features)
    with mock.patch.object(coordinators, "merge", rule or coordinators.merge):
        shards = Shards(learner, n, features, classes=(-1.0, 1.0), **schedule)
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
        print(name, {k: v and np.round([x for x in v if x is not None], 2).tolist() for k, v in table.items()}, flush=True)
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


def shapes(n=16_000):
    rng = np.random.default_rng(0)
    d, nonzeros = 2**18, 100
    columns = np.sort((d * rng.random((n, nonzeros)) ** 3).astype(np.int32), axis=1)
    starts = np.arange(0, columns.size + 1, nonzeros)
    x = csr_array((rng.normal(size=columns.size) / 10, columns.ravel(), starts), shape=(n, d))
    x.sum_duplicates()
    yield "2^18 features, 100 non-zeros", x
    yield "400 features, dense", rng.normal(size=(n, 400)) / 20


def speed():
    """Events per second by threads, and where the time went; 1000 tasks."""
    found = {}
    rng = np.random.default_rng(1)
    for name, x in shapes():
        n = x.shape[0]
        y, tasks = np.where(rng.random(n) < 0.5, 1.0, -1.0), [f"u{t}" for t in rng.integers(1000, size=n)]
        rows = {}
        for threads in (1, 2):
            best = None
            for _ in range(3):
                shards = Shards("romco-auto", threads, romco.Columns(x.shape[1]), engine="threads", classes=(-1.0, 1.0))
                wall, cpu = time.perf_counter(), time.process_time()
                shards.learn(x, y, tasks)
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
                now = {"wall": wall, "cpu": cpu, "merging": shards.leader.merging, "events": n}
                shards.close()
                best = now if best is None or wall < best["wall"] else best
            rows[str(threads)] = best
            print(name, threads, best, flush=True)
        found[name] = rows
    return found


def merges():
    """Seconds of a merge by rows touched, at 2^18 features: not by features."""
    from romco.kernels.merging import Touched
    from romco.learners.merging import change, merge

    found, rng, d = {}, np.random.default_rng(0), 2**18
    for touched_rows in (1000, 10_000, 100_000):
        for n in (2, 8):
            common, changes = romco.learner("romco-auto", d, 1), []
            for _ in range(n):
                rows = np.sort(rng.choice(d, touched_rows, replace=False)).astype(np.int32)
                touched = Touched(d)
                touched.add(np.ones(touched_rows), rows)
                changes.append(change(common, touched, 1000))
            began = time.perf_counter()
            merge(common, changes)
            found[f"{touched_rows:,} rows, {n} shards"] = time.perf_counter() - began
    print(found)
    return found


def memory():
    """Bytes of the state of each shard and of all, for many tasks over 2^16 features."""
    rng = np.random.default_rng(2)
    n, d, n_tasks = 20_000, 2**16, 20_000
    x = csr_array((rng.normal(size=n * 20), rng.integers(d, size=n * 20), np.arange(0, n * 20 + 1, 20)), shape=(n, d))
    x.sum_duplicates()
    tasks, y = [f"u{t}" for t in rng.integers(n_tasks, size=n)], np.where(rng.random(n) < 0.5, 1.0, -1.0)
    found = {}
    for shards_n in (1, 4, 16):
        shards = Shards("romco-auto", shards_n, romco.Columns(d), classes=(-1.0, 1.0))
        shards.learn(x, y, tasks)
        sizes = [
            {name: a.nbytes for name, a in one["arrays"].items()}
            for one in shards.leader.engine.all(coordinators.Shard.state)
        ]
        shared = sizes[0]["learner.shared"]
        own = [sum(size.values()) - size["learner.shared"] for size in sizes]
        found[str(shards_n)] = {"shared": shared, "own": float(np.mean(own)), "largest": max(own)}
        print(shards_n, found[str(shards_n)], flush=True)
    return found


def recovery():
    """On a local Ray: start, a period, a barrier; and how long a lost worker holds up the rest."""
    import os
    import signal

    rng, n, d = np.random.default_rng(3), 12_000, 2**14
    x = csr_array((rng.normal(size=n * 30), rng.integers(d, size=n * 30), np.arange(0, n * 30 + 1, 30)), shape=(n, d))
    x.sum_duplicates()
    tasks, y = [f"u{t}" for t in rng.integers(500, size=n)], np.where(rng.random(n) < 0.5, 1.0, -1.0)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, Shards(
        "romco-auto", 2, romco.Columns(d), classes=(-1.0, 1.0), engine="ray", checkpoint=folder
    ) as shards:
        start = time.perf_counter() - began
        half = n // 2
        cpu, began = time.process_time(), time.perf_counter()
        shards.learn(x[:half], y[:half], tasks[:half])
        wall, cpu = time.perf_counter() - began, time.process_time() - cpu
        barriers = shards.leader._barriers
        merging = shards.leader.merging
        os.kill(shards.leader.engine.pids()[1], signal.SIGKILL)
        began = time.perf_counter()
        shards.learn(x[half : half + 500], y[half : half + 500], tasks[half : half + 500])
        after = time.perf_counter() - began
        found = {"start": start, "events": half, "wall": wall, "driver cpu": cpu, "barriers": barriers,
                 "merging": merging, "500 events after a kill": after}
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
        store(part, PARTS[part]())
