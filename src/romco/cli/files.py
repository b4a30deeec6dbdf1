"""Commands for files: learn, predict, evaluate, explain."""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from romco import durable, sessions
from romco.cli.options import (
    ModelPath,
    check_same,
    check_source,
    chosen,
    listed,
    reads_source,
    wanted_target,
)
from romco.cli.shards import Wanted, learn_in_shards, on_threads
from romco.cluster.schedules import EVERY
from romco.learners.capabilities import Decomposed
from romco.model import Hashed, Model, Names
from romco.model.growing import personal_tasks
from romco.modelfile import load
from romco.sessions import Progress, Score, Source
from romco.sessions.answers import evaluate_others
from romco.sessions.run import Learns
from romco.sessions.source import classes_of, load_model, mismatch, remembered, settled
from romco.streams.survey import Survey

LISTED = 30  # columns told one by one

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
    target: Annotated[
        str | None,
        typer.Option(help="classes (any number of them), number, or auto; else two classes."),
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="The two labels, NEGATIVE,POSITIVE; else told by a rule.")
    ] = None,
    positive: Annotated[
        str | None, typer.Option(help="The label that is positive; else 1, true, yes, the larger.")
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Where predictions go, as JSON lines; - is stdout.")
    ] = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Events between saves.")] = 10_000,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Learn in so many shards, each on a thread.")
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(min=1, help="Learn a file or a folder in so many shards that read it."),
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Who runs the shards: serial, threads or ray.")
    ] = "threads",
    address: Annotated[str | None, typer.Option(help="Of a running Ray cluster.")] = None,
    growth: Annotated[float, typer.Option(help="Shards meet when the stream grew by this.")] = 0.1,
    every: Annotated[int, typer.Option(min=1, help="And after so many events per shard.")] = EVERY,
) -> None:
    """Predict each event, then learn it; the same command goes on where it was stopped."""
    settings, labels = chosen(set_ or []), listed(classes)
    schedule = {"growth": growth, "every": every}
    name = learner or "romco-auto"
    if shards is not None:
        if threads is not None or predictions is not None:
            raise ValueError("--shards goes neither with --threads nor with --predictions")
        wanted = Wanted(name, settings, labels, positive, schedule)
        learn_in_shards(source, model, wanted, hash_, shards, engine, address, console)
        return
    check_source(source, labelled=True)
    source, looked = settled(source, load_model(model) if model.exists() else None)
    if model.exists() and (learner or settings or hash_ or labels or positive):
        check_same(model, load_model(model), learner, settings, hash_, labels, positive)
    other = None if model.exists() else wanted_target(target, source)
    if not model.exists() and other is None:
        labels = labels or classes_of(source, positive)
    features = Names() if hash_ is None else Hashed(2**hash_)
    new: Learns
    if other is not None:
        if threads is not None or positive is not None:
            raise ValueError("--target goes neither with --threads nor with --positive")
        new = Model(name, features, target=other, classes=labels, **settings)
        doors: dict[str, Any] = {}
    else:
        wanted = Wanted(name, settings, labels, positive, schedule)
        new, doors = on_threads(threads, wanted, features)
    last, stop = None, sessions.Stop()
    try:
        with _live() as show, _terminated(stop):
            more: dict[str, Any] = {**doors, "stop": stop}
            for last in sessions.learn(source, model, new, predictions, checkpoint_every, **more):
                if looked is not None and last.events > last.resumed:
                    _report(looked)
                    looked = None
                show(last)
    except KeyboardInterrupt:
        kept = f"{model} is as it was last saved" if model.exists() else "nothing was saved yet"
        _say(f"stopped: {kept}; the same command goes on from there")
        raise typer.Exit(130) from None
    assert last is not None
    _say(_line(last))
    if stop.wanted:
        _say(f"stopped: {model} is saved; the same command goes on from there")
        raise typer.Exit(143)
    _say(f"model: {model}" + _named(last.model))


@app.command()
@reads_source
def predict(
    source: Source,
    model: ModelPath,
    out: Annotated[Path | None, typer.Option(help="Where answers go; stdout if not given.")] = None,
) -> None:
    """Answers as JSON lines, one per event.

    Line, task, what is predicted, the probability of the label that is named positive,
    the margin (above 0 for the positive label), and the true label where the file has it.
    """
    found = load_model(model)
    known = remembered(found, source)
    check_source(known, labelled=False)
    rows = _hinted(found, _told(sessions.predict(found, source)), mismatch(found, known))
    lines = (json.dumps(row) + "\n" for row in rows)
    if out is None:
        for line in lines:
            sys.stdout.write(line)
            if source.path == "-":  # whoever feeds us line by line waits for the answer
                sys.stdout.flush()
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
    """How good a model is on labelled events, by task; nothing is learned.

    The baseline is the error of always answering the label more frequent so far.
    """
    found = load_model(model)
    known = remembered(found, source, labelled=True)
    check_source(known, labelled=True)
    warning = mismatch(found, known)
    if found.target != "two classes":
        _evaluate_others(found, source, warning, as_json)
        return
    scores = sessions.evaluate(found, source)
    _warn(warning)
    _tell_skipped(scores.skipped)
    if not scores.whole.events:
        raise ValueError(f"{source.path} has no events that can be scored")
    whole, by_task = scores.whole, scores.tasks
    if as_json:
        found_by_task = {task: score.summary() for task, score in by_task.items()}
        print(json.dumps({"positive": found.positive, **whole.summary(), "tasks": found_by_task}))
        return
    table = Table("task", "events", "error", "baseline", "log loss", "F1", box=None)
    worst = sorted(by_task, key=lambda task: -by_task[task].error)
    for name in worst[:20]:
        _add_score(table, name, by_task[name])
    _add_score(table, f"all {len(by_task)} tasks", whole)
    Console().print(table)
    print(_in_words(found, whole))


def _evaluate_others(model: Model, source: Source, warning: str | None, as_json: bool) -> None:
    """Of many classes, or of numbers."""
    whole, by_task, skipped = evaluate_others(model, source)
    _warn(warning)
    _tell_skipped(skipped)
    if not whole.events:
        raise ValueError(f"{source.path} has no events that can be scored")
    if as_json:
        tasks = {task: score.summary() for task, score in by_task.items()}
        print(json.dumps({"target": model.target, **whole.summary(), "tasks": tasks}))
        return
    busiest = sorted(by_task, key=lambda task: -by_task[task].events)
    for task in busiest[:20]:
        print(f"{task}: {by_task[task].events:,} events, {by_task[task].line()}")
    print(f"all {len(by_task)} tasks: {whole.events:,} events, {whole.line()}")


def _named(model: Any) -> str:
    """What a model's answers are, for people."""
    if isinstance(model, Model) and model.target == "number":
        return ", predicts a number"
    if isinstance(model, Model) and model.target == "classes":
        return f", classes: {', '.join(map(str, model.classes))}"
    return f", positive label: {model.positive}"


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
def _terminated(stop: sessions.Stop) -> Iterator[None]:
    """What SIGTERM asks for is done in good order."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, stop.ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


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
    score, model = progress.score, progress.model
    told = _errors(score) if progress.others is None else progress.others.line()
    parts = [f"{progress.events - progress.refused:,} events learned", told]
    if isinstance(model, Model):
        parts += _found(model)
    if progress.skipped:
        parts.append(f"{progress.skipped:,} bad rows skipped")
    if progress.resumed:
        parts.append(f"{progress.resumed:,} learned before")
    return ", ".join(parts)


def _found(model: Model) -> list[str]:
    """What was found of the tasks."""
    parts, learner = [f"{len(model.tasks):,} tasks"], model.learner
    if isinstance(learner, Decomposed):
        parts.append(f"rank {len(learner.singular_values())}")
    personal = personal_tasks(learner)
    if personal is not None:
        parts.append(f"{np.count_nonzero(personal):,} on their own")
    return parts


def _add_score(table: Table, name: str, score: Score) -> None:
    numbers = f"{score.error:.2%}", f"{score.baseline:.2%}", f"{score.log_loss:.3f}"
    table.add_row(escape(_inert(name)), f"{score.events:,}", *numbers, f"{score.f1:.3f}")


def _errors(score: Score) -> str:
    """Error and the rest beside the baseline's, and of late."""
    recent = score.recent()
    parts = [f"error {score.error:.2%} (baseline {score.baseline:.2%}"]
    if recent["events"] < score.events:
        parts[0] += f"; last {recent['events']:,}: {recent['error']:.2%}"
    parts[0] += ")"
    parts.append(f"log loss {score.log_loss:.3f} ({score.baseline_log_loss:.3f})")
    if score.auc is not None:
        parts.append(f"AUC {score.auc:.3f}")
    return ", ".join([*parts, f"F1 {score.f1:.3f}"])


def _in_words(model: Model, score: Score) -> str:
    """What the numbers of an evaluation say."""
    curve = "" if score.auc is None else f"AUC {score.auc:.3f}; "
    return (
        f"Positive: {model.positive}, {score.positives:.2%} of events. {curve}"
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
            _warn(warning)
        tasks.add(row["task"])
        yield row
    known = int(np.count_nonzero(model.numbers(tasks) >= 0))
    if len(tasks) > 1 and known < 0.1 * len(tasks) and model.tasks:
        examples = f"{next(iter(tasks))!r} was asked for, {model.tasks[0]!r} learned"
        _say(
            f"hint: {len(tasks) - known:,} of {len(tasks):,} tasks are unknown to the model and "
            f"were answered from what tasks have in common ({examples}); is --task right?"
        )


def _told(rows: Generator[dict[str, Any], None, int]) -> Iterator[dict[str, Any]]:
    """The rows, and at the end how many could not be read."""
    _tell_skipped((yield from rows))


def _tell_skipped(skipped: int) -> None:
    if skipped:
        _say(f"{skipped:,} bad rows skipped")


def _report(looked: Survey) -> None:
    """How each column is read, and what is suspicious."""
    readings = looked.readings
    width = max((len(reading.column) for reading in readings[:LISTED]), default=0)
    if readings:
        _say(f"columns, as read from the first {looked.rows:,} rows:")
    for reading in readings[:LISTED]:
        _say(f"  {reading.column:{min(width, 40)}}  {reading.told:9}  {reading.why}")
    if len(readings) > LISTED:
        rest = Counter(reading.told for reading in readings[LISTED:])
        _say("  and " + ", ".join(f"{times:,} {told}" for told, times in rest.items()))
    for warning in looked.warnings[:LISTED]:
        _warn(warning)


def _warn(text: str | None) -> None:
    if text is not None:
        _say(f"warning: {text}")


def _say(text: str) -> None:
    """A line for people."""
    console.print(_inert(text), highlight=False, soft_wrap=True, markup=False)


def _inert(text: str) -> str:
    r"""Text whose control characters are spelled out: names must not command a terminal.

    >>> _inert("a" + chr(27) + "[31m")
    'a\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
