"""`romco learn` in shards: on threads, or by workers that read the files themselves."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from romco.cli.lines import inert
from romco.cli.options import check_same
from romco.model import Hashed, Model
from romco.model.features import Features
from romco.runs import Source, Stop
from romco.runs.learn import infer_classes, stop_on_sigterm
from romco.shards import Shards
from romco.shards.files import (
    EventFiles,
    ShardsProgress,
    folder_of,
    known_to,
    learn,
    list_files,
)

BITS = 18  # of the hash of features, where none is said


@dataclass(frozen=True)
class Wanted:
    """What was asked for."""

    learner: str
    settings: dict[str, Any]
    classes: tuple[str, ...] | None
    positive: str | None
    schedule: dict[str, Any]  # growth, every
    asked: str | None = None  # the learner, if one was named


def on_threads(path: Path, threads: int, wanted: Wanted, features: Features) -> Shards:
    """Return the model of a file, or a new one, in shards on threads."""
    if path.exists():
        return Shards.load(path, threads, engine="threads", **wanted.schedule)
    parts: dict[str, Any] = {"classes": wanted.classes, "positive": wanted.positive}
    parts |= {**wanted.settings, **wanted.schedule}
    return Shards(wanted.learner, threads, features, engine="threads", **parts)


def learn_in_shards(
    source: Source,
    sources: list[str],
    model: Path,
    wanted: Wanted,
    bits: int | None,
    n: int,
    engine: str,
    address: str | None,
    console: Console,
) -> None:
    """Learn files of which every shard reads its own part, with a line that shows how it goes."""
    paths = list_files(sources, source.format)
    known = known_to(model)
    if known is not None:
        check_same(
            model, known, wanted.asked, wanted.settings, bits, wanted.classes, wanted.positive
        )
        wanted = replace(wanted, learner=known.engine.learner.name)
    schema = None if known is None else known.schema
    source = replace(source, path=paths[0]).resolve(schema)
    classes = _known_classes(known) or wanted.classes or _classes(source, paths, wanted.positive)
    features = Hashed(2 ** (bits or BITS)) if known is None else known.features
    files = EventFiles(paths, source, (classes[0], classes[1]), features.to_json())
    begun, last, stop = time.perf_counter(), None, Stop()
    steps = learn(
        files,
        model,
        stop,
        learner=wanted.learner,
        n=n,
        engine=engine,
        address=address,
        parameters=wanted.settings,
        **wanted.schedule,
    )
    try:
        shown = Live(console=console, transient=True, refresh_per_second=4)
        with shown as live, stop_on_sigterm(stop):
            for last in steps:
                live.update(Text(line(last, time.perf_counter() - begun)))
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from the last checkpoint", markup=False)
        raise typer.Exit(130) from None
    if last is not None:
        told = line(last, time.perf_counter() - begun)
        console.print(told, highlight=False, soft_wrap=True, markup=False)
    if folder_of(model).exists():
        console.print("stopped; the same command goes on from the last checkpoint", markup=False)
        raise typer.Exit(143)
    told = inert(f"model: {model}, positive label: {classes[1]}")
    console.print(told, highlight=False, soft_wrap=True, markup=False)


def line(progress: ShardsProgress, seconds: float) -> str:
    """Where learning stands, in one line."""
    speed = (progress.rows - progress.resumed) / max(seconds, 1e-9)
    parts = [
        f"{progress.events:,} events learned",
        f"error {progress.error:.2%}" if progress.events else "there was nothing to learn from",
        f"{speed:,.0f} events/s of all shards",
        f"{progress.merging / max(seconds, 1e-9):.1%} of the time in merges",
        f"stale by {progress.staleness:,} events at most",
    ]
    if progress.skipped:
        parts.append(f"{progress.skipped:,} bad rows skipped")
    if progress.resumed:
        parts.append(f"{progress.resumed:,} rows read before")
    if progress.lost:
        parts.append(f"{progress.lost:,} workers lost and replaced")
    return ", ".join(parts)


def _known_classes(known: Model | None) -> tuple[Any, ...]:
    """The two labels of a model, the negative one first; none where it does not know both."""
    return known.classes if known is not None and len(known.classes) == 2 else ()


def _classes(source: Source, paths: tuple[str, ...], positive: str | None) -> tuple[Any, ...]:
    """The two labels, found by looking into the files."""
    for path in paths:
        found = infer_classes(replace(source, path=path), positive)
        if found is not None:
            return found
    raise ValueError("the first rows do not show two labels: say --classes NEGATIVE,POSITIVE")
