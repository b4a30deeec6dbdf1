"""Commands that read a model: predict, evaluate, explain, export."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

import romco
from romco import runs
from romco.cli.options import (
    AsJson,
    Delay,
    ModelPath,
    Together,
    Weight,
    expand_options,
    resolve_source,
    split_list,
)
from romco.cli.output import inert, note, note_skipped, quantity, warn
from romco.evaluation.arrival import Arrival
from romco.files import load
from romco.io import durable
from romco.io.cells import ONLY_TASK, read_name
from romco.io.encoder import encode_rows
from romco.io.frames import quoted, rows_of
from romco.io.schema import Schema
from romco.model import Model
from romco.presentation.tables import Table, as_text, mark_best
from romco.runs import Evaluation, Source
from romco.runs.predict import write_predictions
from romco.runs.resume import STDOUT, load_model

MAX_PRINTED = 20  # tasks, or effects
ERRORS = {"error": ("error", ".2%"), "baseline": ("baseline", ".2%")}
SHOWN_SCORES = {  # titles, with names and forms of figures
    "two classes": {**ERRORS, "log loss": ("log_loss", ".3f"), "F1": ("f1", ".3f")},
    "classes": {**ERRORS, "log loss": ("log_loss", ".3f"), "macro F1": ("f1_macro", ".3f")},
    "number": {
        "RMSE": ("rmse", ".4g"),
        "baseline": ("baseline_rmse", ".4g"),
        "MAE": ("mae", ".4g"),
        "R2": ("r2", ".3f"),
    },
}


@expand_options
def predict(
    source: Source,
    model: ModelPath,
    out: Annotated[
        Path | None, typer.Option(help="File: .jsonl, .csv or .parquet; stdout if not given.")
    ] = None,
    reasons: Annotated[
        int | None, typer.Option(min=1, help="Add the so many features that matter most.")
    ] = None,
) -> None:
    """Predict each event: JSON lines, or CSV or Parquet by the suffix of --out.

    Line, task, prediction, the probability of the label that is named positive,
    the margin (above 0 for the positive label), and the true label where the file has it.
    """
    loaded = load_model(model)
    known, warning = resolve_source(loaded, source, labelled=False)
    rows = _with_hints(loaded, _note_end(runs.predict(loaded, known, reasons)), warning)
    if out is not None and out != STDOUT:
        write_predictions(rows, out)
        return
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n")
        if source.path == "-":  # whoever feeds us line by line waits for the answer
            sys.stdout.flush()


@expand_options
def evaluate(
    source: Source,
    model: ModelPath,
    weight: Weight = None,
    together: Together = None,
    delay: Delay = None,
    as_json: AsJson = False,
) -> None:
    """Score a model on labelled events, by task; nothing is learned.

    The baseline is the error of always answering the label more frequent so far. Where the model
    has a history, labels enter it as they become known: see --together and --delay.
    """
    loaded = load_model(model)
    arrival = Arrival.parse(together, delay)
    source = replace(source, weight=weight, together=together)
    known, warning = resolve_source(loaded, source, labelled=True)
    scores = runs.evaluate(loaded, known, arrival)
    warn(warning)
    if scores.learned and not as_json:  # where it is a field
        warn(
            f"the model has learned {min(scores.learned, scores.whole.events):,} of these "
            f"{scores.whole.events:,} events: on new events it may be worse"
        )
    note_skipped(scores.skipped)
    whole = scores.whole
    if not whole.events:
        raise ValueError(f"{source.path} has no events that can be scored")
    target = loaded.engine.target
    summary = scores.summary()
    two = target.kind == "two classes"
    if as_json:
        about = {"target": target.kind}
        if two:
            about = {"positive": target.positive}
        print(json.dumps({**about, **summary}))
        return
    print(as_text(_table_of_tasks(scores, target.kind)))
    tasks = quantity(len(scores.tasks), "task")
    if len(scores.tasks) > 1:
        tasks = f"all {tasks}"
    print(f"{tasks}: {quantity(whole.events, 'event')}, {whole.line()}")
    if two:
        print(
            f"positive label: {inert(str(target.positive))}, {whole.positives:.2%} of events; "
            f"probabilities differ from frequencies by {whole.calibration:.3f} on average"
        )
    title, key, form = "error", "error", ".2%"
    if target.kind == "number":
        title, key, form = "RMSE", "rmse", ".4g"
    print(f"mean over tasks: {title} {summary[f'{key}_by_tasks']:{form}}")
    for value in scores.weighted().values():
        print(f"by weight: {title} {value:{form}}")
    if loaded.engine.history is not None:
        print(f"labels entered the history {arrival}")


def _table_of_tasks(scores: Evaluation, target: str) -> Table:
    """Return a table of the tasks with most events."""
    columns = SHOWN_SCORES[target]
    busiest = sorted(scores.tasks, key=lambda task: -scores.tasks[task].events)[:MAX_PRINTED]
    rows = []
    for task in busiest:
        figures = scores.tasks[task].summary()
        row = [task, f"{figures['events']:,}"]
        for name, form in columns.values():
            text = "-"
            if figures[name] is not None:
                text = f"{figures[name]:{form}}"
            row.append(text)
        rows.append(row)
    notes = []
    if len(scores.tasks) > MAX_PRINTED:
        notes.append(f"and {len(scores.tasks) - MAX_PRINTED:,} more tasks")
    return Table("", ["task", "events", *columns], mark_best(rows), notes)


def _with_hints(
    model: Model, rows: Iterator[dict[str, Any]], warning: str | None
) -> Iterator[dict[str, Any]]:
    """Yield the rows; print a warning before, and hints after.

    One if nearly no task is known, and one on how old the past of the task has become.
    """
    tasks: Counter[str] = Counter()
    for row in rows:
        if not tasks:
            warn(warning)
        tasks[row["task"]] += 1
        yield row
    if model.engine.history is not None and tasks:
        events = tasks.total()
        earlier = sum(n * (n - 1) // 2 for n in tasks.values()) / events
        if earlier:
            warn(
                f"no label of these rows entered the history: a prediction lacks {earlier:,.1f} "
                f"earlier labels of its task on average, {max(tasks.values()) - 1:,} at most. "
                f"Learn labels as they come; `romco evaluate --delay {events}` scores rows as here"
            )
    known = int(np.count_nonzero(model.engine.tasks.numbers(tasks) >= 0))
    if len(tasks) > 1 and known < 0.1 * len(tasks) and model.tasks:
        examples = f"{next(iter(tasks))!r} was asked for, {model.tasks[0]!r} learned"
        note(
            f"hint: {len(tasks) - known:,} of {len(tasks):,} tasks are unknown to the model and "
            f"were answered from what tasks have in common ({examples}); is --task right?"
        )


def _note_end(rows: Generator[dict[str, Any], None, int]) -> Iterator[dict[str, Any]]:
    """Yield the rows; print at the end how many could not be read."""
    note_skipped((yield from rows))


def effects(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    slopes: Annotated[
        str | None, typer.Option(help="Features a,b,... with slopes; else frequent ones.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all levels as CSV.")] = False,
) -> None:
    """Show the effects of tasks and groupings with standard errors, and variance components."""
    from romco.explanations import effects as find_effects

    result = find_effects(load(model), split_list(slopes))
    levels = rows_of(result.levels)
    variances = rows_of(result.variances)
    if as_csv:
        names = []
        if levels:
            names = list(levels[0])
        writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(levels)
        return
    components = []
    for row in variances:
        share = ""
        if (row["share"] or 0.0) > 0.0:
            share = f"{row['share']:.1%}"
        numbers = f"{row['variance']:.4g}", f"{row['sd']:.4g}"
        term = row["term"]
        if row["grouping"] == "residual":
            term = ""
        components.append([row["grouping"], term, *numbers, share])
    head = ["variance of", "term", "variance", "sd", "share"]
    print(as_text(Table("", head, mark_best(components))))
    far = sorted(levels, key=lambda row: -abs(row["estimate"]) / (row["se"] or 1.0))[:MAX_PRINTED]
    effects = []
    for row in far:
        numbers = f"{row['estimate']:.4g}", f"{row['se']:.2g}"
        events = f"{row['events']:,}"
        effects.append([row["grouping"], str(row["level"]), str(row["term"]), *numbers, events])
    title = f"\nthe {len(far)} effects furthest from the common, of {len(levels):,}"
    head = ["grouping", "level", "term", "effect", "se", "events"]
    print(as_text(Table(title, head, mark_best(effects))))


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    top: Annotated[int, typer.Option(min=1, help="How many tasks in detail.")] = 20,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    task: Annotated[str | None, typer.Option(help="Explain this task alone.")] = None,
    event: Annotated[
        str | None,
        typer.Option(help='Explain the prediction of this event: \'{"age": 7, "text": "..."}\'.'),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Explain this label; else the predicted one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what was learned: the shared and the personal part of each task, similar tasks.

    With --task and --event: what each feature adds to the margin, through the shared part and
    through the task's own. Cells are read as the columns were.
    """
    if event is not None or task is not None:
        if html is not None:
            raise ValueError("--html is of all tasks: leave --task and --event out")
        _explain_one(model, task, event, label, top, as_json)
        return
    if label is not None:
        raise ValueError("--label goes with --task and --event")
    from romco.explanations import explain as explained

    explanation = explained(load(model), top=top)
    from romco.choosing import ChooserExplanation  # here: slow to import

    if isinstance(explanation, ChooserExplanation):
        if html is not None or as_json:
            raise ValueError(f"{model.name} holds a chooser: --html and --json are for models")
        print(explanation)
        return
    if html is not None:  # before anything is printed: whoever reads it may stop reading
        durable.replace(html, [explanation.page().encode()])
        note(f"page: {html}")
    if as_json:
        print(json.dumps(explanation.summary(), default=str))
        return
    print(explanation)


def _explain_one(
    path: Path, task: str | None, event: str | None, label: str | None, top: int, as_json: bool
) -> None:
    from romco.explanations import explain as explained
    from romco.explanations import reasons
    from romco.explanations.text import tasks_table

    model = load_model(path)
    if event is None:
        if label is not None or as_json:
            raise ValueError("--label and --json go with --event")
        if model.engine.tasks.numbers([task])[0] < 0:
            known = quoted(model.tasks) or "none yet"
            raise ValueError(f"no task {task!r} is known; there are {known}")
        explanation = explained(model, top=1, task=task)
        print(as_text(tasks_table(explanation, explanation.tasks[:1])))
        return
    schema, cells = model.schema or Schema(), _cells(event)
    if task is None and schema.task is not None and schema.task in cells:
        task = read_name(schema.task, cells)
    if task is None and not schema.one_task:
        raise ValueError("say whose event it is: --task NAME")
    if task is None:
        task = ONLY_TASK
    unknown = schema.unknown(cells)
    if schema.complete and unknown:
        raise ValueError(f"the model has no column {', '.join(unknown)}")
    row: Any = cells  # as features, where no file was learned
    if model.schema is not None:
        row = encode_rows([cells], schema)
    found = reasons(model, row, task, label)
    if as_json:
        print(json.dumps(found.summary(top)))
    else:
        print("\n".join(map(inert, found.lines(top))))


def _cells(event: str) -> dict[str, Any]:
    try:
        cells = json.loads(event)
    except json.JSONDecodeError as error:
        raise ValueError(f"--event is not JSON ({error}): write '{{\"age\": 7}}'") from None
    if not isinstance(cells, dict):
        raise ValueError("--event is one JSON object, its columns by name: '{\"age\": 7}'")
    return cells


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    to: Annotated[
        Literal["c", "js", "onnx", "sql"], typer.Option("--to", help="The language or format.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the files.")],
) -> None:
    """Write a model's predictions for C, JavaScript, ONNX or SQL.

    The files hold what is needed to predict known and new tasks where romco is not installed.
    """
    for path in romco.export(load(model), to, out):
        note(f"{path}: {path.stat().st_size:,} bytes")
