"""Quality and speed of shards: ``python -m benchmarks.scaling PART...``.

Parts are quality, drift; lock, speed, memory, reading, actors, recovery. Each stores its figures in
docs/scaling/results.json as it goes; ``quality=accidents,calories`` measures some of its tables.
``tables`` writes the stored figures into docs/scaling.md. ``demo`` kills workers on a local Ray and
compares the models with those of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

import romco
from benchmarks import boosters, scaling_speed
from romco.model.rows import Rows
from romco.shards import Shards
from romco.shards.schedule import Schedule
from romco.streams.stream import Stream

RESULTS = Path("docs/scaling/results.json")
PAGE = Path("docs/scaling.md")
DRAWN = (9301, 9302)  # seeds that were not used in development
CAPS = (100, 1000, 10_000)  # events per shard between barriers, where the world drifts
SHARDS = (4, 16)
ROWS = 60_000  # of a table, at most
LONG_TABLES = ("accidents", "departures", "activity", "dear houses", "house prices", "calories")


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


def error_of(stream, rounds, n, **schedule):
    """Macro error of shards in one process."""
    given = {"features": romco.Columns(stream.n_features), "classes": (-1.0, 1.0)}
    with Shards("romco-auto", n, engine="serial", **given, **schedule) as shards:
        margins = shards.learn(rounds.x, rounds.y, [stream.tasks[t] for t in rounds.task])
    return macro_error(rounds, margins, stream.n_tasks)


def loss_of(x, y, task, number, n):
    """Log loss of classes 0 and 1, or root mean squared error of numbers, of n shards.

    The first events, which one shard learns, are not scored.
    """
    given = {"target": "number"} if number else {"classes": (0, 1)}
    with Shards("romco-auto", n, engine="serial", **given) as shards:
        predictions = shards.predict_and_learn(Rows(x, task.tolist(), y.tolist()))
    if number:
        return float(np.sqrt(np.mean((predictions.margins - y)[Schedule.first :] ** 2)))
    chance = np.where(y > 0, predictions.probabilities, 1.0 - predictions.probabilities)
    return float(-np.log(np.maximum(chance[Schedule.first :], 1e-12)).mean())


def quality(*wanted):
    """Loss on tables of more than 20,000 rows, of one process and of shards."""
    for name in wanted or LONG_TABLES:
        table = boosters.TABLES[name]
        x, y, task = boosters.read(table, Path(os.environ["ROMCO_DATA"]), ROWS)
        number = table.positive is None
        losses = {str(n): loss_of(x, y, task, number, n) for n in (1, *SHARDS)}
        yield name, {"rows": len(y), **losses}


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


PARTS = {
    part.__name__: part
    for part in (
        quality,
        drift,
        scaling_speed.lock,
        scaling_speed.speed,
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


def quality_table(figures):
    yield "| table | rows | one process | " + " | ".join(f"{n} shards" for n in SHARDS) + " |"
    yield "|---|--:|--:|" + "--:|" * len(SHARDS)
    rows = {}
    for name, losses in figures.items():
        rows[name] = [100.0 * (losses[str(n)] / losses["1"] - 1.0) for n in SHARDS]
        cells = [f"{change:+.1f}%" for change in rows[name]]
        yield f"| {name} | {losses['rows']:,} | {losses['1']:.4g} | " + " | ".join(cells) + " |"
    means = [f"{mean:+.2f}%" for mean in np.mean(list(rows.values()), axis=0)]
    yield "| mean | | | " + " | ".join(means) + " |"


def drift_table(figures):
    caps = [name for name in next(iter(figures.values())) if name != "one process"]
    yield "| stream | one process | " + " | ".join(caps) + " |"
    yield "|---|--:|" + "--:|" * len(caps)
    for stream, table in figures.items():
        cells = [f"{np.mean(table[cap]):+.2f}" for cap in caps]
        yield f"| {stream} | {np.mean(table['one process']):.2f} | " + " | ".join(cells) + " |"


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
    "quality": quality_table,
    "drift": drift_table,
    "lock": lock_table,
    "speed": speed_table,
    "memory": memory_table,
    "reading": reading_table,
    "actors": actors_table,
    "recovery": recovery_table,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART")
    for argument in parser.parse_args().parts:
        if argument == "tables":
            write_tables(json.loads(RESULTS.read_text()), PAGE)
        elif argument == "demo":
            sys.exit(not scaling_speed.demo())
        else:
            part, _, wanted = argument.partition("=")
            if part not in PARTS:
                parser.error(f"no part {part!r}; parts are {', '.join(PARTS)}")
            measure(part, wanted.split(",") if wanted else ())
