"""Tables of docs/scaling.md, from what ``python -m benchmarks.scaling`` stored."""

from __future__ import annotations

import re

import numpy as np


def write(kept, page):
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


def error(figures):
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


def learners(figures):
    yield "| learner, stream | one process | merged | never merged |"
    yield "|---|--:|--:|--:|"
    for name, (alone, merged, apart) in figures.items():
        yield f"| {name} | {alone:.2f} | {merged:+.2f} | {apart:+.2f} |"


def speed(figures):
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


def ceiling(figures):
    yield "| shape, stream | one process, s | two at once, s | against one, as two threads above |"
    yield "|---|--:|--:|--:|"
    for name, run in figures.items():
        ratio = 2.0 * run["alone"] / run["both"]
        yield f"| {name} | {run['alone']:.2f} | {run['both']:.2f} | {ratio:.2f} |"


def merges(figures):
    yield "| touched by each shard | in place, ms | of what was sent, ms |"
    yield "|---|--:|--:|"
    for name, cpu in figures.items():
        yield f"| {name} | {1000 * cpu['here']:.1f} | {1000 * cpu['sent']:.1f} |"


def memory(figures):
    yield "| shards | shared, MB in each | of its own tasks, MB in each | largest |"
    yield "|--:|--:|--:|--:|"
    for n, sizes in figures.items():
        cells = [f"{sizes[part] / 1e6:.1f}" for part in ("shared", "own", "largest")]
        yield f"| {n} | " + " | ".join(cells) + " |"


def reading(figures):
    yield "| shards | CPU of one, us per row of the file | rows that are its own |"
    yield "|--:|--:|--:|"
    for n, found in figures.items():
        own = f"{found['own'] / found['rows']:.1%}"
        yield f"| {n} | {1e6 * found['cpu'] / found['rows']:.1f} | {own} |"


def actors(figures):
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


def recovery(figures):
    (found,) = figures.values()
    yield "| what | seconds |"
    yield "|---|--:|"
    yield f"| start of Ray and two workers | {found['start']:.1f} |"
    yield f"| the period before a worker was killed | {found['usual']:.2f} |"
    yield f"| the period in which it was killed and replaced | {found['after']:.2f} |"


TABLES = {
    "error": error,
    "drift": error,
    "learners": learners,
    "speed": speed,
    "ceiling": ceiling,
    "merges": merges,
    "memory": memory,
    "reading": reading,
    "actors": actors,
    "recovery": recovery,
}
