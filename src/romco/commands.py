"""Commands for files: learn, predict, evaluate, explain."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from romco import learning
from romco.learners import LEARNERS
from romco.learning import Progress, Score, Source
from romco.model import Hashed, Model, Names
from romco.modelfile import load

app = typer.Typer()
console = Console(stderr=True)  # stdout is for what other programs read

SourcePath = Annotated[str, typer.Argument(metavar="SOURCE", help="A file, or - for stdin.")]
Task = Annotated[str | None, typer.Option(help="Column of the task (svmlight: the qid).")]
Label = Annotated[str | None, typer.Option(help="Column of the label.")]
Text = Annotated[str | None, typer.Option(help="Column of text, taken as words.")]
FeatureColumns = Annotated[
    str | None, typer.Option("--features", help="Columns a,b,...; all others if not given.")
]
Format = Annotated[str | None, typer.Option(help="csv, tsv, jsonl, parquet or svmlight.")]
SkipBad = Annotated[bool, typer.Option("--skip-bad", help="Count bad rows instead of stopping.")]
ModelPath = Annotated[Path, typer.Option("--model", help="The model file.")]


@app.command()
def learn(
    source: SourcePath,
    model: ModelPath,
    task: Task = None,
    label: Label = None,
    text: Text = None,
    features: FeatureColumns = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    learner: Annotated[str | None, typer.Option(help="One of `romco learners`.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="parameter=value, repeatable.")
    ] = None,
    hash_: Annotated[
        int | None, typer.Option("--hash", help="Hash features to 2^BITS columns.", metavar="BITS")
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
    columns = Source(source, task, label, text, _listed(features), format, skip_bad)
    name = learner or "romco-auto"
    new = Model(
        name,
        Names() if hash_ is None else Hashed(2**hash_),
        classes=_listed(classes),
        **_parameters(name, set_ or []),
    )
    if model.exists() and learner is not None and load(model).learner.name != learner:
        raise ValueError(f"{model.name} holds another learner than {learner}")
    last = None
    with _live() as show:
        for last in learning.learn(columns, model, new, predictions, checkpoint_every):
            show(last)
    assert last is not None
    console.print(_line(last), highlight=False, soft_wrap=True)
    console.print(f"model: {model}", highlight=False, soft_wrap=True)


@app.command()
def predict(
    source: SourcePath,
    model: ModelPath,
    task: Task = None,
    text: Text = None,
    features: FeatureColumns = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    out: Annotated[Path | None, typer.Option(help="Where answers go; stdout if not given.")] = None,
) -> None:
    """Answers as JSON lines: line, task, label, margin, probability of the positive label."""
    columns = Source(source, task, None, text, _listed(features), format, skip_bad)
    lines = (json.dumps(row) + "\n" for row in learning.predict(load(model), columns))
    if out is None:
        sys.stdout.writelines(lines)
    else:
        with out.open("w", encoding="utf-8") as file:
            file.writelines(lines)


@app.command()
def evaluate(
    source: SourcePath,
    model: ModelPath,
    task: Task = None,
    label: Label = None,
    text: Text = None,
    features: FeatureColumns = None,
    format: Format = None,
    skip_bad: SkipBad = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead.")] = False,
) -> None:
    """Error and F1 of a model on labelled events, by task; nothing is learned."""
    columns = Source(source, task, label, text, _listed(features), format, skip_bad)
    scores = learning.evaluate(load(model), columns)
    if not scores:
        raise ValueError(f"{source} has no events")
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
        html.write_text(found.page(), encoding="utf-8")
        console.print(f"page: {html}", highlight=False, soft_wrap=True)
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for name, figure in found.figures().items():
            figure.savefig(figures / f"{name}.svg")
        console.print(f"figures: {figures}", highlight=False, soft_wrap=True)


@contextmanager
def _live() -> Iterator[Any]:
    """A line that shows where learning stands, at most ten times a second."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    begin, shown = time.perf_counter(), [0.0]
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("reading")

        def show(progress: Progress) -> None:
            now = time.perf_counter()
            if console.is_terminal and now - shown[0] > 0.1:
                shown[0] = now
                speed = (progress.events - progress.resumed) / max(now - begin, 1e-9)
                bar.update(line, description=f"{_line(progress)}, {speed:,.0f} events/s")

        yield show


def _line(progress: Progress) -> str:
    """Where learning stands, in one line."""
    score, learner = progress.score, progress.model.learner
    parts = [f"{progress.events:,} events", f"error {score.error:.2%}", f"F1 {score.f1:.3f}"]
    parts.append(f"{len(progress.model.tasks):,} tasks")
    if hasattr(learner, "singular_values"):
        parts.append(f"rank {len(learner.singular_values())}")
        parts.append(f"{int((learner.personal_norms() > 0).sum()):,} personal")  # type: ignore[attr-defined]
    if progress.skipped:
        parts.append(f"{progress.skipped:,} bad rows skipped")
    if progress.resumed:
        parts.append(f"{progress.resumed:,} learned before")
    return ", ".join(parts)


def _add_score(table: Table, name: str, score: Score) -> None:
    table.add_row(name, f"{score.counts.sum():,}", f"{score.error:.2%}", f"{score.f1:.3f}")


def _listed(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _parameters(learner: str, settings: list[str]) -> dict[str, Any]:
    """Parameters from ``name=value``; a value is a number, true, false, null, or a word."""
    if learner not in LEARNERS:
        raise ValueError(f"unknown learner {learner!r}; known are {', '.join(LEARNERS)}")
    parameters: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise ValueError(f"--set {setting}: expected parameter=value")
        try:
            parameters[name.strip()] = json.loads(value)
        except ValueError:
            parameters[name.strip()] = value.strip()
    return parameters
