"""Commands that learn: learn, in one process or in shards, fit, and ask for labels."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer
from rich.markup import escape
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from romco import runs
from romco.cli.options import (
    Address,
    Delay,
    Ids,
    Labels,
    ModelOptions,
    ModelPath,
    Seed,
    Together,
    Weight,
    check_source,
    expand_options,
    parse_label_budget,
    resolve_source,
)
from romco.cli.output import console, note, note_schema, note_skipped, quantity, warn
from romco.evaluation.arrival import AT_ONCE, Arrival
from romco.files import save
from romco.io.inference import labels_that_occur_once
from romco.labels.audit import Audit
from romco.model import Hashed, Model
from romco.model.body import personal_tasks
from romco.model.features import Features
from romco.model.target import Kind
from romco.presentation.tables import Table, as_text, mark_best
from romco.runs import Progress, Source
from romco.runs import ask as requests
from romco.runs.fit import SAMPLED_ROWS, FitRun, HeldOut
from romco.runs.learn import OtherTasks, infer_classes, infer_target, learn_into, stop_on_sigterm
from romco.runs.predict import Learns
from romco.runs.resume import STDIN, load_model, locked_model

if TYPE_CHECKING:
    from romco.shards.files import ShardsProgress

Describe = Callable[[float], str]  # a line of progress, after so many seconds
DEFAULT_HASH_BITS = 18  # of the features in shards
MAX_CLASSES_NAMED = 20
GOES_ON = "stopped: what was saved before stays; the same command goes on from there"


@expand_options
def learn(
    source: Source,
    model: ModelPath,
    options: ModelOptions,
    weight: Weight = None,
    predictions: Annotated[
        Path | None, typer.Option(help="File of the predictions, JSON lines; - is stdout.")
    ] = None,
    checkpoint_every: Annotated[
        int | None, typer.Option(min=1, help="Events between saves; else 10,000 or more.")
    ] = None,
    threads: Annotated[
        str | None, typer.Option(help="Learn on so many threads; auto: as many as help.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Learn files in so many shards that read them.")
    ] = None,
    engine: Annotated[
        str, typer.Option(help="Runs the shards: serial, threads or ray.")
    ] = "threads",
    address: Address = None,
    growth: Annotated[
        float, typer.Option(help="Shards meet when the stream grew by this share,")
    ] = 0.1,
    every: Annotated[
        int | None, typer.Option(min=1, help="and after so many events per shard; else 10,000.")
    ] = None,
    together: Together = None,
    delay: Delay = None,
    asked: Annotated[
        Path | None, typer.Option(help="File of `romco ask` to which SOURCE has the labels.")
    ] = None,
    id: Ids = None,
    without: Annotated[
        list[str] | None,
        typer.Option(metavar="TASK", help="As if its rows were not there, repeatable."),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[SOURCE]...", help="More, learned in turn.")
    ] = None,
) -> None:
    """Predict each event, then learn it; the same command goes on where it was stopped.

    This is for streams, and to go on learning. To predict later without answers, take fit.
    """
    if without and asked is not None:
        raise ValueError("--without goes with whole events, not with --asked")
    if asked is not None:
        _learn_answers(source, model, asked, id)
        return
    schedule: dict[str, Any] = {"growth": growth}
    if every is not None:
        schedule["every"] = every
    kinds = options.kinds(source.kinds) or None
    source = replace(source, weight=weight, kinds=kinds, together=together)
    arrival = Arrival.parse(together, delay)
    if without:
        source = replace(source, chosen=OtherTasks(without))
    if isinstance(source.offset, dict):
        classes = tuple(source.offset)
        if options.target not in (None, "classes") or {*(options.classes or classes)} != {*classes}:
            raise ValueError("--offset CLASS=COLUMN is for --target classes, and names all of them")
        options = replace(options, target="classes", classes=classes)
    if shards is not None:
        known = None
        if model.exists():
            known = load_model(model)
        _check_target(known, options)
        if threads is not None or predictions is not None:
            raise ValueError("--shards goes neither with --threads nor with --predictions")
        if not arrival.at_once:
            raise ValueError("--shards goes neither with --together nor with --delay")
        paths = [source.path, *(more or [])]
        how: dict[str, Any] = {**schedule, "n": shards, "engine": engine, "address": address}
        _learn_in_shards(source, paths, model, known, options, how)
        return
    if more and predictions is not None:
        raise ValueError("--predictions are of one SOURCE: learn them one by one")
    for path in (source.path, *(more or [])):
        saved = {"predictions": predictions, "every": checkpoint_every, "arrival": arrival}
        _learn_one(replace(source, path=path), model, options, saved, threads, schedule)


def _learn_one(
    source: Source,
    path: Path,
    options: ModelOptions,
    how: dict[str, Any],
    threads: str | None,
    schedule: dict[str, Any],
) -> None:
    """Learn one source; ``how`` goes to :func:`romco.runs.learn.learn_into`."""
    with locked_model(path) as known:
        schema = None
        if known is not None:
            schema = known.schema
        check_source(source, True, schema)
        _check_target(known, options)
        source = source.resolve(schema)
        widened = False
        if known is not None:
            options.check(path, known)
            widened = options.target == "classes" and known.engine.target.kind == "two classes"
            if widened:
                known.engine.widen_for(("", 0, 1))  # goes on with any number of labels
        else:
            options = _resolve_options(source, options)
        learner: Learns
        if threads is None:
            learner = known or options.new(Model, source.schema)
        else:
            from romco.shards import Shards

            n, engine = _read_threads(threads), {**schedule, "engine": "threads"}
            if known is None:
                learner = options.new(Shards, source.schema, n, **engine)
            elif widened:
                learner = Shards.of(known, n, **engine)
            else:
                learner = Shards.load(path, n, **engine)
        stop = runs.Stop()
        steps = learn_into(learner, source, path, **how, stop=stop)
        _follow(steps, source, path, schema is None, stop)


def _resolve_options(source: Source, options: ModelOptions) -> ModelOptions:
    """Return the options of a new model with the target and the labels of a source."""
    kind, classes = options.target, options.classes
    if kind is None and len(classes or ()) > 2:
        kind = "classes"
    if kind is None and not (classes or options.positive):
        kind = infer_target(source)
    if kind in (None, "two classes"):
        kind = "two classes"
        classes = classes or infer_classes(source, options.positive)
    return replace(options, target=kind, classes=classes)


def _read_threads(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--threads takes a number from 1 on, or auto; got {text!r}")
    return int(text)


def _check_target(known: Model | None, options: ModelOptions) -> None:
    """Raise ValueError where a model cannot learn the target that was asked for."""
    if known is None:
        return
    kind, target = known.engine.target.kind, options.target
    if target not in (None, kind) and (kind, target) != ("two classes", "classes"):
        raise ValueError(f"the model predicts {kind}, not {target}: use another model file")


def _follow(
    steps: Iterator[Progress], source: Source, model: Path, new: bool, stop: runs.Stop
) -> None:
    """Show progress and the result; the columns of a ``new`` model first."""
    last = None
    with _show_progress(stop) as show:
        for last in steps:
            if new and source.schema is not None and last.events > last.resumed:
                note_schema(source.schema)
                new = False
            show(partial(_describe_run, last))
    assert last is not None
    if not last.events and not stop.wanted:
        skipped = ""
        if last.skipped:
            skipped = f", {last.skipped:,} bad rows skipped"
        text = f"nothing to learn from: {source.path} has no events{skipped}; {model}"
        if not model.exists():
            raise ValueError(f"{text} is not made")
        note(f"{text} stays as it was")
        return
    for line in _describe_progress(last):
        note(line)
    if last.late is not None and last.late.scattered:
        warn(
            f"rows of one {last.late.arrival.together} are not all next to each other: those that "
            "came again counted as another moment; sort the file to avoid that"
        )
    if stop.wanted:
        note(f"stopped: {model} is saved; the same command goes on from there")
        raise typer.Exit(143)
    note(f"model: {model}" + _describe_labels(last.model))
    note("it goes on learning; to predict later without answers, take romco fit")
    for label in labels_that_occur_once(last.score.label_counts):
        warn(
            f"label {label!r} occurs once in {last.score.events:,} events: is it mistyped? "
            "It makes a class of its own"
        )
    classes: tuple[Any, ...] = ()
    if isinstance(last.model, Model):
        classes = last.model.classes
    if last.model.engine.target.kind == "two classes" and len(classes) == 1:
        warn(
            f"all events have the label {classes[0]!r}, so every answer will be that one: "
            "learn events of the other label, too"
        )


def _describe_labels(model: Any) -> str:
    if model.engine.target.kind == "number":
        return ", predicts a number"
    if model.engine.target.kind == "classes":
        names = ", ".join(map(str, model.classes[:MAX_CLASSES_NAMED]))
        more = len(model.classes) - MAX_CLASSES_NAMED
        if more > 0:
            names += f" and {more:,} more"
        return f", classes: {names}"
    if model.engine.target.positive is None:
        return ", knows one label"
    return f", positive label: {model.engine.target.positive}"


@contextmanager
def _show_progress(stop: runs.Stop, stopped: str = GOES_ON) -> Iterator[Callable[[Describe], None]]:
    """Show a line of progress, at most ten times a second, until it ends or is stopped.

    It takes at most a fiftieth of the time: the rank of many features is not free. After Ctrl-C
    a line says what was ``stopped``.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    begin, due = time.perf_counter(), 0.0
    bar = Bar(*columns, console=console, transient=True, disable=not console.is_terminal)
    line = bar.add_task("reading")

    def show(describe: Describe) -> None:
        nonlocal due
        now = time.perf_counter()
        if console.is_terminal and now >= due:
            bar.update(line, description=escape(describe(now - begin)))
            due = now + max(0.1, 50.0 * (time.perf_counter() - now))

    try:
        with bar, stop_on_sigterm(stop):
            yield show
    except KeyboardInterrupt:
        note(stopped)
        raise typer.Exit(130) from None


def _describe_run(progress: Progress, seconds: float) -> str:
    """Return share, time left, progress and speed after so many seconds."""
    speed = (progress.events - progress.resumed) / max(seconds, 1e-9)
    text = f"{'; '.join(_describe_progress(progress))}, {speed:,.0f} events/s"
    if not progress.share:
        return text
    if progress.resumed:  # what was passed over took no time to learn
        return f"{progress.share:.0%}: {text}"
    left = round(seconds * (1.0 / progress.share - 1.0))
    return f"{progress.share:.0%}, {left // 60}:{left % 60:02d} left: {text}"


def _describe_progress(progress: Progress) -> list[str]:
    """Return two lines: how much was learned and how, and how good the predictions were."""
    counts = [f"{quantity(progress.events - progress.refused, 'event')} learned"]
    model = progress.model
    if isinstance(model, Model):
        counts.append(quantity(len(model.tasks), "task"))
        personal = personal_tasks(model.engine.learner)
        if len(model.tasks) > 1 and personal is not None and personal.any():
            counts.append(f"{np.count_nonzero(personal):,} of them unlike the others")
    if progress.skipped:
        counts.append(f"{quantity(progress.skipped, 'bad row')} skipped")
    if progress.resumed:
        counts.insert(1, f"{progress.resumed:,} of them before")
    scores = []
    if progress.score.events:
        scores.append(progress.score.line())
    arrival = AT_ONCE
    if progress.late is not None:
        arrival = progress.late.arrival
    scores.append(f"labels came {arrival}")
    return [", ".join(counts), ", ".join(scores)]


def _learn_in_shards(
    source: Source,
    sources: list[str],
    model: Path,
    known: Model | None,
    options: ModelOptions,
    how: dict[str, Any],
) -> None:
    """Learn files of which every shard reads its own part; ``how`` many, where, and how often."""
    from romco.shards.files import learn as learn_files
    from romco.shards.reader import EventFiles, list_files

    paths = list_files(sources, source.format)
    schema = None
    features: Features = Hashed(2 ** (options.hash_bits or DEFAULT_HASH_BITS))
    if known is not None:
        options.check(model, known)
        options = replace(options, learner=known.engine.learner_name)
        how = {**how, "new_task": known.engine.new_task}
        schema, features = known.schema, known.features
    source = replace(source, path=paths[0]).resolve(schema)
    kind, classes = _labels_in_shards(known, options, source, paths)
    files = EventFiles(paths, source, classes, features.to_json(), kind)
    begin, last, stop = time.perf_counter(), None, runs.Stop()
    how |= {"learner": options.learner or "romco-auto", **options.parameters(source.schema)}
    steps = learn_files(files, model, stop, **how)
    with _show_progress(stop) as show:
        for last in steps:
            show(partial(_describe_shards, last, classes is None))
    if last is not None:
        note(_describe_shards(last, classes is None, time.perf_counter() - begin))
    if last is None or not last.ended:
        note(f"stopped: {model} is saved; the same command goes on from there")
        raise typer.Exit(143)
    predicts = "predicts a number"
    if classes is not None:
        predicts = f"positive label: {classes[1]}"
    if kind == "classes":
        predicts = f"predicts one of {', '.join(map(str, classes or ()))}"
    note(f"model: {model}, {predicts}")


def _labels_in_shards(
    known: Model | None, options: ModelOptions, source: Source, paths: tuple[str, ...]
) -> tuple[Kind, tuple[Any, ...] | None]:
    """Return the target, and the labels that shards will read, which must know them all."""
    if known is None:
        options = _resolve_options(source, options)
        known = options.new(Model, source.schema)
    kind = known.engine.target.kind
    classes: tuple[Any, ...] | None = known.classes or options.classes
    if kind == "number":
        return kind, None
    if classes and len(classes) >= 2:
        return kind, classes
    if kind == "classes":
        raise ValueError(
            "--shards with more than two labels needs all of them, as shards read files apart: say "
            "--classes A,B,C; or use --threads, which takes labels as they come"
        )
    for path in paths:
        classes = infer_classes(replace(source, path=path), options.positive)
        if classes is not None:
            return kind, classes
    raise ValueError("the first rows do not show two labels: say --classes NEGATIVE,POSITIVE")


def _describe_shards(progress: "ShardsProgress", number: bool, seconds: float) -> str:
    """Return events, error and merges of all shards in one line."""
    speed = (progress.rows - progress.resumed) / max(seconds, 1e-9)
    error = f"error {progress.error:.2%}"
    if number:
        error = f"RMSE {progress.error**0.5:.4g}"
    if not progress.events:
        error = "there was nothing to learn from"
    parts = [
        f"{quantity(progress.events, 'event')} learned",
        error,
        f"{speed:,.0f} events/s of all shards",
        f"{progress.merging / max(seconds, 1e-9):.1%} of the time in merges",
        f"stale by {progress.staleness:,} events at most",
    ]
    if progress.skipped:
        parts.append(f"{quantity(progress.skipped, 'bad row')} skipped")
    if progress.resumed:
        parts.append(f"{progress.resumed:,} rows read before")
    if progress.lost:
        parts.append(f"{quantity(progress.lost, 'worker')} lost and replaced")
    return ", ".join(parts)


@expand_options
def fit(
    source: Source,
    model: ModelPath,
    options: ModelOptions,
    weight: Weight = None,
    seed: Seed = 0,
) -> None:
    """Fit a new model to all rows of a file, to predict later without answers.

    For streams, and to go on learning, take learn. The model replaces that in the file; a table
    shows its errors on rows held out, beside one plain regression.
    """
    if source.path == STDIN:
        raise ValueError("romco fit needs a file, which it reads twice; romco learn takes stdin")
    check_source(source, True)
    kinds = options.kinds(source.kinds) or None
    source = replace(source, weight=weight, kinds=kinds, sample_rows=SAMPLED_ROWS)
    stop = runs.Stop()
    stopped = f"stopped: {model} is as it was"
    with _show_progress(stop, stopped) as show, locked_model(model):
        source = source.resolve()
        options = _resolve_options(source, options)
        make = partial(options.new, Model, source.schema)

        def report(text: str, share: float) -> None:
            show(lambda _: f"{text}: {share:.0%}")
            if stop.wanted:
                note(stopped)
                raise typer.Exit(143)

        run = FitRun(source, make, seed, report)
        rows = run.read()
        held_out = list(run.hold_out(rows))
        fitted = run.fit(rows)
        run.save(fitted, rows, model)
    assert source.schema is not None
    note_schema(source.schema)
    note_skipped(run.skipped)
    if held_out:
        print(as_text(_table_of_errors(held_out, fitted.engine.target.kind == "number")))
    else:
        note("too few rows to hold some out: how well it predicts is not known")
    events = quantity(fitted.events, "event")
    tasks = quantity(len(fitted.tasks), "task")
    note(f"model: {model}, fitted to {events} of {tasks}")
    note("it predicts later without answers; to go on learning, take romco learn")


def _table_of_errors(held_out: list[HeldOut], number: bool) -> Table:
    """Return a table of errors on rows held out."""
    names = ["error", "log loss"]
    if number:
        names = ["RMSE"]
    head = ["held out", "events", *names, *(f"regression {name}" for name in names)]
    rows = []
    for one in held_out:
        row = [one.name, f"{one.rows:,}"]
        for errors in (one.model, one.regression):
            if errors is None:
                row += ["-"] * len(names)
            elif number:
                row.append(f"{errors.error:.4g}")
            else:
                row += [f"{errors.error:.2%}", f"{errors.log_loss:.4f}"]
        rows.append(row)
    notes = ["regression: one for all, the task one-hot"]
    return Table("", head, mark_best(rows), notes)


@expand_options
def ask(
    source: Source,
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="File of the events to label: .csv or .jsonl.")],
    labels: Labels = "5%",
    id: Ids = None,
    floor: Annotated[int, typer.Option(min=0, help="So many of each task come first.")] = 0,
    audit: Annotated[float, typer.Option(help="Share of the labels drawn at random.")] = 0.1,
    seed: Seed = 0,
) -> None:
    """Write the events of a file that are worth a label, the most urgent first.

    Fill in the label column and give the file back: romco learn OUT --asked OUT --model MODEL;
    or give the answers alone, a file with columns ask_id and the label, in any order.
    """
    loaded = load_model(model)
    known, warning = resolve_source(loaded, source, labelled=False)
    assert known.schema is not None
    warn(warning)
    if loaded.engine.target.kind != "two classes":
        raise ValueError(
            f"romco ask is for two classes; {model.name} predicts {loaded.engine.target.kind}"
        )
    options: dict[str, Any] = {"floor": floor, "audit": audit, "seed": seed}
    budget = parse_label_budget(labels or "5%")
    chosen = requests.choose_requests(loaded, known, budget, id, **options)
    requests.write_requests(chosen, out)
    chance = sum(request[requests.WHY] == requests.BY_CHANCE for request in chosen)
    audited = f"{chance:,} of them at random to estimate the error"
    note(f"{quantity(len(chosen), 'event')} to label, {audited}: {out}")


def _learn_answers(source: Source, path: Path, request_file: Path, id: str | None) -> None:
    """Learn the labels of events that ``romco ask`` wrote into a model file."""
    with locked_model(path) as model:
        if model is None:
            raise FileNotFoundError(f"there is no model file {path}")
        if source.label is None and model.schema is not None:
            source = replace(source, label=model.schema.label)
        file = Source(str(request_file), skip_bad=source.skip_bad)
        result = requests.learn_answers(model, source, file, id)
        save(model, path)
    note(str(result))
    error = Audit.of(model.session).error()
    if error is not None:
        note(f"error of all predictions by audit: {error}")
