"""Error and speed of shards: ``python -m benchmarks.scaling PART...``.

Parts are error, drift, learners; lock, speed, merges, memory, reading, actors, recovery.
Each stores its figures in docs/scaling/results.json as it goes; ``error=emails,made`` measures some
streams of it. ``tables`` writes the stored figures into docs/scaling.md. ``demo`` kills workers
on a local Ray and compares the models with those of one process.
"""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from scipy.sparse import csr_array

import romco
from benchmarks import scaling_speed
from romco.learners.merging import Merged, apply_merged, shared_values
from romco.shards import Shards
from romco.shards import shards as shards_module
from romco.streams import datasets, interleaved
from romco.streams.stream import Stream

RESULTS = Path("docs/scaling/results.json")
PAGE = Path("docs/scaling.md")
SHUFFLES = tuple(range(9301, 9307))  # not used in development
DRAWN = SHUFFLES[:2]  # of streams that are made up, each of which is another world
NEVER = {"growth": 1e12, "every": 10**12}
VARIANTS = {
    "growth 3 %": {"growth": 0.03},
    "growth 10 %": {"growth": 0.1},
    "growth 25 %": {"growth": 0.25},
    "averaged": {"growth": 0.1},
    "never merged": NEVER,
}
CAPS = (100, 1000, 10_000)  # events per shard between barriers, where the world drifts


def made(n_tasks=2000, n_events=12_000, d=300, nonzeros=20, seed=1, arriving=False, turning=0.0):
    """Many tasks with few events each: three quarters of a task's weights are everybody's.

    With ``arriving`` tasks come one after the other; everybody's weights may turn by ``turning``
    radians over the stream.
    """
    rng = np.random.default_rng(seed)
    task = rng.integers(n_tasks, size=n_events)
    if arriving:
        task = np.minimum(task, (n_tasks * np.arange(n_events) / n_events).astype(int))
    columns = np.sort(rng.random((n_events, d)).argpartition(nonzeros)[:, :nonzeros], axis=1)
    values = rng.normal(size=columns.shape)
    first, other, own = rng.normal(size=d), rng.normal(size=d), rng.normal(size=(n_tasks, d))
    angle = turning * np.arange(n_events)[:, None] / n_events
    shared = np.cos(angle) * first[columns] + np.sin(angle) * other[columns]
    score = (values * (shared + 0.5 * own[task[:, None], columns])).sum(axis=1)
    starts = np.arange(0, columns.size + 1, nonzeros)
    x = csr_array((values.ravel(), columns.ravel().astype(np.int32), starts), shape=(n_events, d))
    y = np.where(score + rng.normal(size=n_events) > 0, 1.0, -1.0)
    return Stream("made", task, x, y, tuple(f"task {i}" for i in range(n_tasks)))


def streams(wanted=()):
    """Name, rounds by seed, shards, seeds."""
    for name, n in (("emails", 8), ("movies", 8), ("mhc", 8), ("spam", 4)):
        if not wanted or name in wanted:
            stream = datasets.DATASETS[name].load(None)
            yield (
                f"{name}, {n} shards",
                lambda seed, s=stream: (s, interleaved(s, seed)),
                n,
                SHUFFLES,
            )
    if not wanted or "made" in wanted:
        for n in (8, 64):
            yield f"2000 made-up tasks, {n} shards", drawn, n, DRAWN
        arriving = partial(drawn, arriving=True)
        yield "2000 tasks that arrive, 64 shards", arriving, 64, DRAWN


def shuffled(stream, seed):
    """A stream, and its events in some order."""
    return stream, interleaved(stream, seed)


def drawn(seed, **how):
    """A made-up stream, drawn anew from the seed, in the order in which it was drawn."""
    stream = made(seed=seed, **how)
    order = romco.Rounds(stream.task, stream.x, stream.y, np.arange(len(stream.y) + 1))
    return stream, order


def macro_error(rounds, margins, n_tasks):
    """Percent, the mean over tasks."""
    wrong = np.where(margins >= 0, 1.0, -1.0) != rounds.y
    events = np.bincount(rounds.task, minlength=n_tasks)
    bad = np.bincount(rounds.task, weights=wrong, minlength=n_tasks)
    return float(100 * (bad[events > 0] / events[events > 0]).mean())


def averaged(common, changes, ranges):
    """The rule that one would try first: the mean of what shards hold of what they touched."""
    active = [one for one in changes if one.events]
    rows = np.unique(np.concatenate([one.rows for one in active]))
    values = shared_values(common, rows)
    for name, value in values.items():
        if len(value) == len(rows) and all(
            len(one.values[name]) == len(one.rows) for one in active
        ):
            total, number = np.zeros_like(value), np.zeros(len(rows))
            for one in active:
                at = np.searchsorted(rows, one.rows)
                total[at] += one.values[name]
                number[at] += 1
            values[name] = total / number.reshape(-1, *[1] * (value.ndim - 1))
        else:
            values[name] = np.mean([one.values[name] for one in active], axis=0)
    merged = Merged(rows, values)
    apply_merged(common, merged)
    return merged


def error_of(stream, rounds, n, learner="romco-auto", rule=None, **schedule):
    """Macro error of shards in one process; ``rule`` merges instead of the learner's own."""
    features = romco.Columns(stream.n_features)
    shards = Shards(learner, n, features, classes=(-1.0, 1.0), **schedule)
    if rule is not None:
        shards.coordinator.engine.local_shards = (
            None  # so that changes are sent, and the rule is used
        )
    with mock.patch.object(shards_module, "merge", rule or shards_module.merge):
        margins = shards.learn(rounds.x, rounds.y, [stream.tasks[t] for t in rounds.task])
    return macro_error(rounds, margins, stream.n_tasks)


def loss_of(stream, rounds, n):
    """Log loss of romco-auto in shards of one process."""
    shards = Shards("romco-auto", n, romco.Columns(stream.n_features), classes=(-1.0, 1.0))
    margins = shards.learn(rounds.x, rounds.y, [stream.tasks[t] for t in rounds.task])
    return float(np.logaddexp(0.0, -rounds.y * margins).mean())


def error(*wanted):
    """Macro error above that of one process, by stream and schedule."""
    for name, of_seed, n, seeds in streams(wanted):
        table = {"one process": [], **{variant: [] for variant in VARIANTS}}
        for seed in seeds:
            stream, rounds = of_seed(seed)
            alone = error_of(stream, rounds, 1)
            table["one process"].append(alone)
            for variant, schedule in VARIANTS.items():
                rule = averaged if variant == "averaged" else None
                try:
                    loss = error_of(stream, rounds, n, rule=rule, **schedule) - alone
                except (FloatingPointError, ValueError, np.linalg.LinAlgError):
                    loss = None  # did not survive
                table[variant].append(loss)
        yield name, table


def drift(*_):
    """The same where everybody's weights turn by a right angle, by ``every``."""
    for n in (2, 8):
        table = {"one process": [], **{f"every {cap:,}": [] for cap in CAPS}}
        for seed in DRAWN:
            stream, rounds = drawn(seed, n_tasks=200, n_events=40_000, turning=np.pi / 2)
            alone = error_of(stream, rounds, 1)
            table["one process"].append(alone)
            for cap in CAPS:
                table[f"every {cap:,}"].append(error_of(stream, rounds, n, every=cap) - alone)
        yield f"{n} shards", table


def log_loss(*_):
    """Log loss where features are correlated, of one process and of four shards.

    Of data the second halves, shuffled: the first ones were used in development.
    """
    made_up = partial(correlated, seed=SHUFFLES[0])
    halves = {name: partial(second_half, name) for name in ("swissmetro", "fars", "flights")}
    for name, load in {**halves, "made-up, 30 features from 4 causes": made_up}.items():
        stream, table = load(), []
        for seed in SHUFFLES:
            rounds = interleaved(stream, seed)
            table.append([loss_of(stream, rounds, n) for n in (1, 4)])
        yield name, np.mean(table, axis=0).tolist()


def second_half(name):
    """Events of a data set."""
    stream = datasets.DATASETS[name].load(None)
    half = slice(stream.n_events // 2, None)
    return replace(stream, task=stream.task[half], x=stream.x[half], y=stream.y[half])


def correlated(n_tasks=200, n_events=8_000, d=30, seed=1):
    """Features that four causes have in common; weights of tasks differ by little."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n_events, 4)) @ rng.normal(size=(4, d))
    x += 0.5 * rng.normal(size=x.shape)
    w = rng.normal(size=d) + 0.3 * rng.normal(size=(n_tasks, d))
    task = rng.integers(n_tasks, size=n_events)
    margin = 0.5 * (x * w[task]).sum(axis=1)
    y = np.where(rng.random(n_events) < 1.0 / (1.0 + np.exp(-margin)), 1.0, -1.0)
    return Stream("correlated", task, x, y, tuple(f"task {i}" for i in range(n_tasks)))


def learners(*_):
    """The same of the other learners that share something, on two streams, at 10 % growth."""
    for name, n in (("emails", 8), ("movies", 8)):
        stream = datasets.DATASETS[name].load(None)
        for learner in ("arow-shared", "pa-shared", "arow-global", "pa-global"):
            losses = []
            for seed in DRAWN:
                rounds = interleaved(stream, seed)
                alone = error_of(stream, rounds, 1, learner)
                merged = error_of(stream, rounds, n, learner)
                apart = error_of(stream, rounds, n, learner, **NEVER)
                losses.append([alone, merged - alone, apart - alone])
            yield f"{learner}, {name}, {n} shards", np.mean(losses, axis=0).tolist()


PARTS = {
    part.__name__: part
    for part in (
        error,
        drift,
        log_loss,
        learners,
        scaling_speed.lock,
        scaling_speed.speed,
        scaling_speed.merges,
        scaling_speed.memory,
        scaling_speed.reading,
        scaling_speed.actors,
        scaling_speed.recovery,
    )
}


def store(part, name, figures):
    """Keep one line of a part."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    load = Path("/proc/loadavg")
    told = kept.setdefault(part, {"figures": {}})
    told["figures"][name] = figures
    told["version"] = romco.__version__
    told["load"] = float(load.read_text().split()[0]) if load.exists() else None
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")


def measure(part, wanted):
    """Measure a part, line by line."""
    for name, figures in PARTS[part](*wanted):
        print(part, name, figures, flush=True)
        store(part, name, figures)


def write_tables(kept, page):
    """Replace what is between the marks of each part by its table."""
    text = page.read_text(encoding="utf-8")
    for part, table in TABLES.items():
        if part in kept:
            body = "\n".join(table(kept[part]["figures"]))
            version, load = kept[part]["version"], kept[part]["load"]
            note = f"\n\n*Measured with version {version}; load of the machine {load}.*"
            marked = f"<!-- {part} -->\n{body}{note}\n<!-- end of {part} -->"
            pattern = f"<!-- {part} -->.*?<!-- end of {part} -->"
            text = re.sub(pattern, lambda _, m=marked: m, text, flags=re.S)
    page.write_text(text, encoding="utf-8")


def error_table(figures):
    variants = [name for name in next(iter(figures.values())) if name != "one process"]
    yield "| stream | runs | one process | " + " | ".join(variants) + " |"
    yield "|---|--:|--:|" + "--:|" * len(variants)
    for stream, table in figures.items():
        cells = [str(len(table["one process"])), f"{np.mean(table['one process']):.2f}"]
        for variant in variants:
            losses = [loss for loss in table[variant] if loss is not None]
            worst = f" (worst {max(losses):+.2f})" if variant == "growth 10 %" else ""
            failed = len(table[variant]) - len(losses)
            mean = f"{np.mean(losses):+.2f}{worst}" if losses else "-"
            cells.append(mean + (f", {failed} failed" if failed else ""))
        yield f"| {stream} | " + " | ".join(cells) + " |"


def log_loss_table(figures):
    yield "| stream | one process | 4 shards | |"
    yield "|---|--:|--:|--:|"
    for name, (alone, merged) in figures.items():
        yield f"| {name} | {alone:.4f} | {merged:.4f} | {100 * (merged / alone - 1):+.1f}% |"


def learners_table(figures):
    yield "| learner, stream | one process | merged | never merged |"
    yield "|---|--:|--:|--:|"
    for name, (alone, merged, apart) in figures.items():
        yield f"| {name} | {alone:.2f} | {merged:+.2f} | {apart:+.2f} |"


def speed_table(figures):
    yield "| shape, stream | threads | events/s | CPU, us per event | at barriers | against one |"
    yield "|---|--:|--:|--:|--:|--:|"
    for shape, runs in figures.items():
        for threads, run in runs.items():
            ratio = runs["1"]["wall"] / run["wall"]
            share = run["merging"] / run["wall"]
            yield (
                f"| {shape} | {threads} | {run['events'] / run['wall']:,.0f} | "
                f"{1e6 * run['cpu'] / run['events']:.1f} | {share:.1%} | {ratio:.2f} |"
            )


def lock_table(figures):
    yield "| shape, stream | CPU, us per event | under the lock, us | share |"
    yield "|---|--:|--:|--:|"
    for name, run in figures.items():
        cpu, locked = (1e6 * run[part] / run["events"] for part in ("cpu", "locked"))
        yield f"| {name} | {cpu:.1f} | {locked:.2f} | {locked / cpu:.1%} |"


def merges_table(figures):
    yield "| touched by each shard | in place, ms | of what was sent, ms |"
    yield "|---|--:|--:|"
    for name, cpu in figures.items():
        yield f"| {name} | {1000 * cpu['here']:.1f} | {1000 * cpu['sent']:.1f} |"


def memory_table(figures):
    yield "| shards | shared, MB in each | of its own tasks, MB in each | largest |"
    yield "|--:|--:|--:|--:|"
    for n, sizes in figures.items():
        cells = [f"{sizes[part] / 1e6:.1f}" for part in ("shared", "own", "largest")]
        yield f"| {n} | " + " | ".join(cells) + " |"


def reading_table(figures):
    yield "| shards | CPU of one, us per row of the file | rows that are its own |"
    yield "|--:|--:|--:|"
    for n, found in figures.items():
        own = f"{found['own'] / found['rows']:.1%}"
        yield f"| {n} | {1e6 * found['cpu'] / found['rows']:.1f} | {own} |"


def actors_table(figures):
    yield (
        "| stream | events/s | CPU of the workers, us per event | of the driver, of theirs | "
        "without Ray's threads | ms per barrier and shard beside the merge | "
        "without Ray's threads |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for name, run in figures.items():
        places = run["barriers"] * run["shards"]
        beside = [
            f"{1000 * (run[part] - run['merges']) / places:.2f}" if places else "-"
            for part in ("driver", "leading")
        ]
        yield (
            f"| {name} | {run['events'] / run['wall']:,.0f} | "
            f"{1e6 * run['workers'] / run['events']:.1f} | {run['driver'] / run['workers']:.1%} | "
            f"{run['leading'] / run['workers']:.1%} | {beside[0]} | {beside[1]} |"
        )


def recovery_table(figures):
    (found,) = figures.values()
    yield "| what | seconds |"
    yield "|---|--:|"
    yield f"| start of Ray and two workers | {found['start']:.1f} |"
    yield f"| the period before a worker was killed | {found['usual']:.2f} |"
    yield f"| the period in which it was killed and replaced | {found['after']:.2f} |"


TABLES = {
    "error": error_table,
    "drift": error_table,
    "log_loss": log_loss_table,
    "learners": learners_table,
    "lock": lock_table,
    "speed": speed_table,
    "merges": merges_table,
    "memory": memory_table,
    "reading": reading_table,
    "actors": actors_table,
    "recovery": recovery_table,
}


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        if argument == "tables":
            write_tables(json.loads(RESULTS.read_text()), PAGE)
        elif argument == "demo":
            sys.exit(not scaling_speed.demo())
        else:
            part, _, wanted = argument.partition("=")
            measure(part, wanted.split(",") if wanted else ())
