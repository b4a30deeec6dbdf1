"""Commands for files: learn, predict, evaluate, explain."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from romco import durable, sessions
from romco.cli.options import (
    ModelPath,
    check_same,
    check_source,
    chosen,
    known_learner,
    listed,
    reads_source,
)
from romco.learners.capabilities import Decomposed
from romco.model import Hashed, Model, Names
from romco.model.growing import personal_tasks
from romco.modelfile import load
from romco.sessions import Progress, Score, Source
from romco.sessions.source import load_model, remembered

app = typer.Typer()
console = Console(stderr=True)  # stdout is for what other programs read


@app.command()
@reads_source
def learn(
    source: Source,
    model: ModelPath,
    learner: Annotated[str | None, typer.Option(help="One of `romco learners`.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="parameter=value, repeatable.")
    ] = None,
    hash_: Annotated[
        int | None,
        typer.Option(
            "--hash", min=1, max=30, help="Hash features to 2^BITS columns.", metavar="BITS"
        ),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="The two labels, NEGATIVE,POSITIVE; else as they come.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Where predictions go, as JSON lines.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Events between saves.")] = 10_000,
) -> None:
    """Predict each event, then learn it; the same command goes on where it was stopped."""
    check_source(source, labelled=True)
    settings, labels = chosen(set_ or []), listed(classes)
    if model.exists() and (learner or settings or hash_ or labels):
        check_same(model, load_model(model), learner, settings, hash_, labels)
    features = Names() if hash_ is None else Hashed(2**hash_)
    new = Model(known_learner(learner or "romco-auto"), features, classes=labels, **settings)
    last = None
    try:
        with _live() as show:
            for last in sessions.learn(source, model, new, predictions, checkpoint_every):
                show(last)
    except KeyboardInterrupt:
        kept = f"{model} is as it was last saved" if model.exists() else "nothing was saved yet"
        _say(f"stopped: {kept}; the same command goes on from there")
        raise typer.Exit(130) from None
    assert last is not None
    _say(_line(last))
    _say(f"model: {model}")


@app.command()
@reads_source
def predict(
    source: Source,
    model: ModelPath,
    out: Annotated[Path | None, typer.Option(help="Where answers go; stdout if not given.")] = None,
) -> None:
    """Answers as JSON lines: line, task, label, margin, probability of the positive label."""
    found = load_model(model)
    check_source(remembered(found, source), labelled=False)
    lines = (json.dumps(row) + "\n" for row in _told(sessions.predict(found, source)))
    if out is None:
        sys.stdout.writelines(lines)
        return
    if not out.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent} to put the answers in")
    durable.replace(out, (line.encode() for line in lines))


@app.command()
@reads_source
def evaluate(
    source: Source,
    model: ModelPath,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead.")] = False,
) -> None:
    """Error and F1 of a model on labelled events, by task; nothing is learned."""
    found = load_model(model)
    check_source(remembered(found, source, labelled=True), labelled=True)
    scores, skipped = sessions.evaluate(found, source)
    _tell_skipped(skipped)
    if not scores:
        raise ValueError(f"{source.path} has no events that can be scored")
    whole = Score(sum(score.counts for score in scores.values()).ravel().tolist())  # type: ignore[union-attr]
    if as_json:
        by_task = {task: {"error": s.error, "f1": s.f1} for task, s in scores.items()}
        print(json.dumps({"error": whole.error, "f1": whole.f1, "tasks": by_task}))
        return
    table = Table("task", "events", "error", "F1", box=None)
    worst = sorted(scores, key=lambda task: -scores[task].error)
    for name in worst[:20]:
        _add_score(table, name, scores[name])
    _add_score(table, f"all {len(scores)} tasks", whole)
    Console().print(table)


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    top: Annotated[int, typer.Option(min=1, help="How many tasks in detail.")] = 20,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write figures into this folder.")] = None,
) -> None:
    """What was learned: rank, shared and personal part of each task, similar tasks."""
    from romco.insight import explain as explained

    found = explained(load(model), top=top)
    print(found)
    if html is not None:
        durable.replace(html, [found.page().encode()])
        _say(f"page: {html}")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for name, figure in found.figures().items():
            figure.savefig(figures / f"{name}.svg")
        _say(f"figures: {figures}")


@contextmanager
def _live() -> Iterator[Any]:
    """A line that shows where learning stands, at most ten times a second.

    And seldom enough to cost little: to tell the rank of many features takes a while.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    begin, due = time.perf_counter(), 0.0
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("reading")

        def show(progress: Progress) -> None:
            nonlocal due
            now = time.perf_counter()
            if console.is_terminal and now >= due:
                speed = (progress.events - progress.resumed) / max(now - begin, 1e-9)
                bar.update(line, description=f"{_line(progress)}, {speed:,.0f} events/s")
                due = now + max(0.1, 50.0 * (time.perf_counter() - now))

        yield show


def _line(progress: Progress) -> str:
    """Where learning stands, in one line."""
    score, learner = progress.score, progress.model.learner
    parts = [f"{progress.events:,} events", f"error {score.error:.2%}", f"F1 {score.f1:.3f}"]
    parts.append(f"{len(progress.model.tasks):,} tasks")
    if isinstance(learner, Decomposed):
        parts.append(f"rank {len(learner.singular_values())}")
    personal = personal_tasks(learner)
    if personal is not None:
        parts.append(f"{np.count_nonzero(personal):,} personal")
    if progress.skipped:
        parts.append(f"{progress.skipped:,} bad rows skipped")
    if progress.resumed:
        parts.append(f"{progress.resumed:,} learned before")
    return ", ".join(parts)


def _add_score(table: Table, name: str, score: Score) -> None:
    table.add_row(name, f"{score.counts.sum():,}", f"{score.error:.2%}", f"{score.f1:.3f}")


def _told(rows: Generator[dict[str, Any], None, int]) -> Iterator[dict[str, Any]]:
    """The rows, and at the end how many could not be read."""
    _tell_skipped((yield from rows))


def _tell_skipped(skipped: int) -> None:
    if skipped:
        _say(f"{skipped:,} bad rows skipped")


def _say(text: str) -> None:
    """A line for people."""
    console.print(text, highlight=False, soft_wrap=True, markup=False)
