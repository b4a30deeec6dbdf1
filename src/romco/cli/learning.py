"""The command that learns a file."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from romco import runs
from romco.cli.asking import learn_answers, under_budget
from romco.cli.lines import console, report, say, warn
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
from romco.learners.capabilities import Decomposed
from romco.model import Hashed, Model, Names
from romco.model.engine import personal_tasks
from romco.runs import Progress, Source
from romco.runs.ask import BudgetedModel
from romco.runs.learn import Learns, infer_classes, learn_into, stop_on_sigterm
from romco.runs.resume import load_model, locked_model
from romco.shards.schedule import MAX_EVENTS_PER_SHARD


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
        typer.Option(help="auto (by the first labels), two classes, classes, or number."),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="Column that says how much each event counts.")
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
    checkpoint_every: Annotated[
        int | None,
        typer.Option(min=1, help="Events between saves; else 10,000 or more, as they cost little."),
    ] = None,
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
    every: Annotated[
        int, typer.Option(min=1, help="And after so many events per shard.")
    ] = MAX_EVENTS_PER_SHARD,
    labels: Annotated[
        str | None,
        typer.Option(help="Label budget: 5%, 0.05 or 500; others are not read."),
    ] = None,
    asked: Annotated[
        Path | None, typer.Option(help="SOURCE has answers to this file that romco ask wrote.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="With --asked: column of the ids.")] = None,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[SOURCE]...", help="More, learned one by one.")
    ] = None,
) -> None:
    """Predict each event, then learn it; the same command goes on where it was stopped."""
    if asked is not None:
        learn_answers(source, model, asked, id)
        return
    schedule = {"growth": growth, "every": every}
    name = learner or "romco-auto"
    wanted = Wanted(name, chosen(set_ or []), listed(classes), positive, schedule, learner)
    source = replace(source, weight=weight)
    if shards is not None:
        known = load_model(model) if model.exists() else None
        _check_alone(known, target, weight, threads, shards)
        if threads is not None or predictions is not None:
            raise ValueError("--shards goes neither with --threads nor with --predictions")
        paths = [source.path, *(more or [])]
        learn_in_shards(source, paths, model, wanted, hash_, shards, engine, address, console)
        return
    if more and predictions is not None:
        raise ValueError("--predictions are of one SOURCE: learn them one by one")
    for path in (source.path, *(more or [])):
        one = replace(source, path=path)
        _learn_one(
            one, model, wanted, hash_, target, predictions, checkpoint_every, threads, labels
        )


def _learn_one(
    source: Source,
    model: Path,
    wanted: Wanted,
    hash_: int | None,
    target: str | None,
    predictions: Path | None,
    checkpoint_every: int | None,
    threads: int | None,
    labels: str | None,
) -> None:
    """Learn one source, by a model or by threads."""
    with locked_model(model) as known:
        schema = None if known is None else known.schema
        check_source(source, True, schema)
        _check_alone(known, target, source.weight, threads, None)
        source = source.resolve(schema)
        two, positive = wanted.classes, wanted.positive
        features = Names() if hash_ is None else Hashed(2**hash_)
        if known is not None:
            check_same(model, known, wanted.asked, wanted.settings, hash_, two, positive)
            if target == "classes" and known.engine.target.kind == "two classes":
                known.engine.widen_for(("", 0, 1))  # goes on with any number of labels
            learner: Learns = known
        else:
            other = None if two or positive else wanted_target(target, source)
            _check_alone(None, other, source.weight, threads, None)
            if other is None:
                wanted = replace(wanted, classes=two or infer_classes(source, positive))
            parts: dict[str, Any] = {"target": other, "classes": wanted.classes}
            parts["positive"] = positive
            learner = Model(wanted.learner, features, **parts, **wanted.settings)
        if threads is not None:
            learner = on_threads(model, threads, wanted, features)
        if labels is not None:
            learner = under_budget(labels, source, learner)
        stop = runs.Stop()
        steps = learn_into(learner, source, model, predictions, checkpoint_every, stop=stop)
        _follow(steps, source, model, schema is None, stop)


def _check_alone(
    known: Model | None,
    target: str | None,
    weight: str | None,
    threads: int | None,
    shards: int | None,
) -> None:
    """Raise ValueError where something is asked of the model, or of shards, that cannot be."""
    wider = known is not None and (known.engine.target.kind, target) == ("two classes", "classes")
    if known is not None and target not in (None, "auto", known.engine.target.kind) and not wider:
        raise ValueError(
            f"the model predicts {known.engine.target.kind}, not {target}: use another model file"
        )
    if threads is None and shards is None:
        return
    asked = "--threads" if shards is None else "--shards"
    other = target if known is None else known.engine.target.kind
    if other not in (None, "auto", "two classes"):
        raise ValueError(
            f"{asked} goes with two classes only: how shards would agree on new classes or on the "
            f"unit of a number is not settled; leave it out to learn --target {other}"
        )
    if weight is not None and shards is not None:
        raise ValueError(
            "--shards does not go with --weight: shards that read files themselves do not carry "
            "weights yet; learn with --threads, or without either"
        )


def _follow(
    steps: Iterator[Progress],
    source: Source,
    model: Path,
    new: bool,
    stop: runs.Stop,
) -> None:
    """Show how learning goes on, and what came of it; of a ``new`` model the columns first."""
    last = None
    try:
        with _live() as show, stop_on_sigterm(stop):
            for last in steps:
                if new and source.schema is not None and last.events > last.resumed:
                    report(source.schema)
                    new = False
                show(last)
    except KeyboardInterrupt:
        kept = f"{model} is as it was last saved" if model.exists() else "nothing was saved yet"
        say(f"stopped: {kept}; the same command goes on from there")
        raise typer.Exit(130) from None
    assert last is not None
    if not last.events and not stop.wanted:
        _tell_nothing(last, source.path, model)
        return
    say(_line(last))
    if stop.wanted:
        say(f"stopped: {model} is saved; the same command goes on from there")
        raise typer.Exit(143)
    say(f"model: {model}" + _named(last.model))
    if isinstance(last.model, Model) and last.model.engine.target.kind == "two classes":
        _tell_one_class(last.model)


def _tell_one_class(model: Model) -> None:
    """Warn of a model that has met one label only: it has nothing to tell apart."""
    if len(model.classes) == 1:
        warn(
            f"all events have the label {model.classes[0]!r}, so every answer will be that one: "
            "learn events of the other label, too"
        )


def _tell_nothing(progress: Progress, source: str, model: Path) -> None:
    """Say that a source has no events; raise ValueError where therefore there is no model."""
    skipped = f", {progress.skipped:,} bad rows skipped" if progress.skipped else ""
    told = f"nothing to learn from: {source} has no events{skipped}"
    if not model.exists():
        raise ValueError(f"{told}; {model} is not made")
    say(f"{told}; {model} stays as it was")


def _named(model: Any) -> str:
    """What a model's answers are, for people."""
    if isinstance(model, Model) and model.engine.target.kind == "number":
        return ", predicts a number"
    if isinstance(model, Model) and model.engine.target.kind == "classes":
        return f", classes: {', '.join(map(str, model.classes))}"
    return f", positive label: {model.engine.positive}"


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
                text = f"{_left(progress, now - begin)}{_line(progress)}, {speed:,.0f} events/s"
                bar.update(line, description=text)
                due = now + max(0.1, 50.0 * (time.perf_counter() - now))

        yield show


def _left(progress: Progress, seconds: float) -> str:
    """Return the percentage that is read and the time left, where the size is known.

    >>> from types import SimpleNamespace
    >>> _left(SimpleNamespace(share=0.25, resumed=0), 60.0)
    '25%, 3:00 left: '
    """
    if not progress.share:
        return ""
    if progress.resumed:  # what was passed over took no time to learn
        return f"{progress.share:.0%}: "
    left = round(seconds * (1.0 / progress.share - 1.0))
    return f"{progress.share:.0%}, {left // 60}:{left % 60:02d} left: "


def _line(progress: Progress) -> str:
    """Where learning stands, in one line."""
    model = progress.model
    parts = [f"{progress.events - progress.refused:,} events learned"]
    if progress.score.events:
        parts.append(progress.score.line())
    if progress.error_by_tasks is not None:
        parts.append(f"error by tasks {progress.error_by_tasks:.2%}")
    if isinstance(model, BudgetedModel):
        parts[0] = f"{progress.events - progress.refused:,} events predicted"
        parts.append(model.summary())
        model = model.model
    if isinstance(model, Model):
        parts += _found(model)
    if progress.skipped:
        parts.append(f"{progress.skipped:,} bad rows skipped")
    if progress.resumed:
        parts.append(f"{progress.resumed:,} learned before")
    return ", ".join(parts)


def _found(model: Model) -> list[str]:
    """What was found of the tasks."""
    parts, learner = [f"{len(model.tasks):,} tasks"], model.engine.learner
    if isinstance(learner, Decomposed):
        parts.append(f"rank {len(learner.singular_values())}")
    personal = personal_tasks(learner)
    if personal is not None:
        parts.append(f"{np.count_nonzero(personal):,} on their own")
    return parts
