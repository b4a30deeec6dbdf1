"""The commands that ask a model for answers to a file, and how good these are."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from romco import runs
from romco.cli.lines import inert, say, tell_skipped, warn
from romco.cli.options import ModelPath, check_source, reads_source
from romco.evaluation import Score
from romco.model import Model
from romco.runs import Evaluation, Source
from romco.runs.predict import write_predictions
from romco.runs.resume import load_model


@reads_source
def predict(
    source: Source,
    model: ModelPath,
    out: Annotated[Path | None, typer.Option(help="Where answers go; stdout if not given.")] = None,
    reasons: Annotated[
        int | None, typer.Option(min=1, help="With each answer, what its top so many features add.")
    ] = None,
) -> None:
    """Answers, one per event: JSON lines; CSV or Parquet by the suffix of --out.

    Line, task, what is predicted, the probability of the label that is named positive,
    the margin (above 0 for the positive label), and the true label where the file has it.
    """
    found = load_model(model)
    known, warning = _resolved(found, source, labelled=False)
    rows = _hinted(found, _told(runs.predict(found, known, reasons)), warning)
    if out is not None:
        write_predictions(rows, out)
        return
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n")
        if source.path == "-":  # whoever feeds us line by line waits for the answer
            sys.stdout.flush()


def _resolved(model: Model, source: Source, labelled: bool) -> tuple[Source, str | None]:
    """Return the source read as the model's columns were, and a warning where they differ."""
    schema = model.schema
    check_source(source, labelled, schema)
    known = source.resolve_to_predict(schema)
    return known, None if schema is None else known.unknown_columns(schema)


@reads_source
def evaluate(
    source: Source,
    model: ModelPath,
    weight: Annotated[
        str | None, typer.Option(help="Column of weights: the error is told by weight too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead.")] = False,
) -> None:
    """How good a model is on labelled events, by task; nothing is learned.

    The baseline is the error of always answering the label more frequent so far.
    """
    found = load_model(model)
    known, warning = _resolved(found, replace(source, weight=weight), labelled=True)
    scores = runs.evaluate(found, known)
    warn(warning)
    if scores.learned and not as_json:  # where it is a field
        warn(
            f"the model has learned {min(scores.learned, scores.whole.events):,} of these "
            f"{scores.whole.events:,} events: on new events it may be worse"
        )
    tell_skipped(scores.skipped)
    if not scores.whole.events:
        raise ValueError(f"{source.path} has no events that can be scored")
    two = found.engine.target.kind == "two classes"
    if as_json:
        about = {"positive": found.engine.positive} if two else {"target": found.engine.target.kind}
        print(json.dumps({**about, **scores.summary()}))
    elif two:
        _show_table(found, scores)
    else:
        _show_lines(scores)
    if not as_json:
        for name, value in scores.weighted().items():
            told = f"{value:.4g}" if found.engine.target.kind == "number" else f"{value:.2%}"
            print(f"by weight: {name.removeprefix('weighted_').replace('rmse', 'RMSE')} {told}")


def _show_table(model: Model, scores: Evaluation) -> None:
    """Of two classes: the worst tasks, and all."""
    whole, tasks = scores.whole, scores.tasks
    table = Table("task", "events", "error", "baseline", "log loss", "F1", box=None)
    for name in sorted(tasks, key=lambda task: -tasks[task].error)[:20]:
        _add_score(table, name, tasks[name])
    _add_score(table, f"all {len(tasks)} tasks", whole)
    Console().print(table)
    print(_in_words(model, whole))


def _show_lines(scores: Evaluation) -> None:
    """Of many classes, or of numbers: the busiest tasks, and all."""
    tasks = scores.tasks
    for task in sorted(tasks, key=lambda task: -tasks[task].events)[:20]:
        print(f"{inert(task)}: {tasks[task].events:,} events, {tasks[task].line()}")
    print(f"all {len(tasks)} tasks: {scores.whole.events:,} events, {scores.whole.line()}")


def _add_score(table: Table, name: str, score: Score) -> None:
    numbers = f"{score.error:.2%}", f"{score.baseline:.2%}", f"{score.log_loss:.3f}"
    table.add_row(escape(inert(name)), f"{score.events:,}", *numbers, f"{score.f1:.3f}")


def _in_words(model: Model, score: Score) -> str:
    """What the numbers of an evaluation say."""
    curve = "" if score.auc is None else f"AUC {score.auc:.3f}; "
    return (
        f"Positive: {inert(str(model.engine.positive))}, {score.positives:.2%} of events. {curve}"
        f"log loss {score.log_loss:.3f}, {score.baseline_log_loss:.3f} with no features; "
        f"probabilities are off by {score.calibration:.3f}."
    )


def _hinted(
    model: Model, rows: Iterator[dict[str, Any]], warning: str | None
) -> Iterator[dict[str, Any]]:
    """The rows; with the first a warning, at the end a hint if nearly no task was learned."""
    tasks: set[str] = set()
    for row in rows:
        if not tasks:
            warn(warning)
        tasks.add(row["task"])
        yield row
    known = int(np.count_nonzero(model.engine.numbers(tasks) >= 0))
    if len(tasks) > 1 and known < 0.1 * len(tasks) and model.tasks:
        examples = f"{next(iter(tasks))!r} was asked for, {model.tasks[0]!r} learned"
        say(
            f"hint: {len(tasks) - known:,} of {len(tasks):,} tasks are unknown to the model and "
            f"were answered from what tasks have in common ({examples}); is --task right?"
        )


def _told(rows: Generator[dict[str, Any], None, int]) -> Iterator[dict[str, Any]]:
    """The rows, and at the end how many could not be read."""
    tell_skipped((yield from rows))
