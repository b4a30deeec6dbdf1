"""Report of a comparison: the verdict, one picture, the table, tasks by what they gain."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from romco.compare.controls import ENGINE, MEANINGS
from romco.compare.results import UNSCORED_NUMBERS, Row, records, rows
from romco.compare.run import Comparison, Done, perform
from romco.compare.sources import stream_of
from romco.compare.verdict import MIN_TASK_EVENTS, TaskGain, Verdict, gain, task_gains, verdict
from romco.presentation import page
from romco.presentation.charts import Line, bars, line_chart
from romco.presentation.tables import Table, as_html, mark_best, markdown

MAX_TABLE_CLASSES = 12  # of a confusion table
MAX_TASKS = 1000  # on a page
MIN_CURVE_EVENTS = 30  # events that a point of the picture stands for, at least
HOW_TO_READ = {
    "two classes": "Every row reads the same events one by one: it gives a probability, and then "
    "learns the right answer. The log loss says how good these probabilities are; it decides, and "
    "less is better. The error is the share of wrong answers, over all events and as the mean over "
    "tasks. AUC is how often a {positive} event ranks above another one, 1 at best.",
    "classes": "Every row reads the same events one by one: it gives a probability to each of "
    "{n} classes, and then learns the right one. The log loss says how good these probabilities "
    "are; it decides, and less is better. The error is the share of wrong answers, over all "
    "events and as the mean over tasks.",
    "number": "Every row reads the same events one by one: it predicts a number, and then learns "
    "the right one. RMSE and MAE are how far it is off, in the unit of the answers; the RMSE "
    "decides, and less is better. R2 is the share of the variance that is explained.",
}


class Column(NamedTuple):
    """Column of the table: a figure of a row, and whether low (-1) or high (1) is best."""

    head: str
    name: str
    form: str
    best: int | None = None
    scale: float = 1.0


ERRORS = (
    Column("error %", "error", ".2f", -1, 100.0),
    Column("by task %", "error_of_tasks", ".2f", -1, 100.0),
)
SECONDS = Column("sec", "seconds", ".2f")
COLUMNS = {  # after the measure that decides
    "two classes": (*ERRORS, Column("AUC", "auc", ".3f", 1), SECONDS),
    "classes": (*ERRORS, Column("macro F1", "f1", ".3f", 1), SECONDS),
    "number": (Column("MAE", "mae", ".4g", -1), Column("R2", "r2", ".3f", 1), SECONDS),
}


@dataclass(frozen=True)
class Report:
    """Verdict and table of a comparison, and the page that shows them."""

    verdict: Verdict
    table: Table
    page: Path


def compare(
    comparison: Comparison,
    out: Path,
    command: str,
    jobs: int | None = None,
    done: Done | None = None,
) -> Report:
    """Run what is not finished, and write table and page into ``out``/data set."""
    done = done or (lambda run: None)
    perform(comparison.runs(), out / "runs", comparison.data_dir, jobs, done, records)
    return report(comparison, out / "runs", out / comparison.dataset, command)


def report(comparison: Comparison, results: Path, out: Path, command: str) -> Report:
    """Read the runs' files; write table and page."""
    task = stream_of(comparison.dataset, comparison.data_dir).task
    table_rows = rows(comparison.runs(), results, task)
    result, stream = verdict(table_rows), table_rows[0].stream
    words = {"positive": "".join(stream["labels"][-1:]), "n": stream["answers"]}
    table = scores(comparison, table_rows, result)
    gains = task_gains(result)
    known = [row for row in table_rows if row.name in MEANINGS]
    meanings = [f"{row.title}: {MEANINGS[row.name]}." for row in known]
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(markdown(table), encoding="utf-8")
    path = page.write_page(
        out / "index.html",
        result.title,
        _data(comparison, stream),
        [
            page.items(result.sentences),
            _picture(result),
            as_html(table),
            page.paragraph(HOW_TO_READ[_kind(stream)].format(**words)),
            page.fold("What the rows mean", [page.items(meanings)]),
            *_tasks(result, gains, stream),
            _details(table_rows),
        ],
        page.origin(command, table_rows[0].runs[0].versions),
    )
    return Report(result, table, path)


def scores(comparison: Comparison, table_rows: Sequence[Row], result: Verdict) -> Table:
    """Make the table: the measure that decides first, best marked."""
    stream = table_rows[0].stream
    kind = _kind(stream)
    measure, columns = ("RMSE" if kind == "number" else "log loss"), COLUMNS[kind]
    head = ("predictions by", measure, *(column.head for column in columns))
    best = (None, -1, *(column.best for column in columns))
    cells = [_cells(row, columns) for row in table_rows]
    shuffles = len(comparison.seeds)
    order = "in the order of the file" if comparison.order == "recorded" else comparison.order
    notes = [
        f"mean over {shuffles} shuffle{'s' if shuffles > 1 else ''}, {order}; every prediction "
        "was made before its answer was known",
        f"the first {UNSCORED_NUMBERS} events are not counted"
        if kind == "number"
        else "error: wrong answers of all events, and the mean over tasks",
        *_coverage(table_rows),
        *stream["notes"],
        *(f"{row.title} broke down: {row.failed}" for row in table_rows if row.failed),
    ]
    return Table(f"{comparison.dataset}: who predicts best", head, mark_best(cells, best), notes)


def _kind(stream: dict[str, Any]) -> str:
    return {0: "number", 1: "two classes"}.get(stream["answers"], "classes")


def _cells(row: Row, columns: Sequence[Column]) -> list[Any]:
    if row.failed:
        return [row.title, "failed", *[""] * len(columns)]
    cells: list[Any] = [row.title, (row.measure_text, row.measure)]
    for column in columns:
        value = row.mean(column.name)
        cells.append("" if value is None else (f"{column.scale * value:{column.form}}", value))
    return cells


def _coverage(table_rows: Sequence[Row]) -> list[str]:
    inside = next((row.mean("coverage") for row in table_rows if row.name == ENGINE), None)
    return [] if inside is None else [f"90 % intervals of ROMCO-Auto hold {inside:.1%} of answers"]


def _data(comparison: Comparison, stream: dict[str, Any]) -> str:
    events, tasks = sum(stream["events"]), len(stream["tasks"])
    size = f"{events:,} events of {tasks:,} tasks, {stream['features']:,} features"
    if _kind(stream) == "two classes":
        share = sum(stream["positive"]) / max(events, 1)
        size += f"; {stream['labels'][1]} in {share:.1%} of events"
    return f"{comparison.dataset}: {size}."


def _picture(result: Verdict) -> str:
    """Loss by events seen of a task: without the task, with it, and with sharing."""
    number = result.sharing.stream["answers"] == 0
    roles = {"without the task": result.without_task, "with the task": result.with_task}
    lines = []
    for role, row in {**roles, "with sharing": result.sharing}.items():
        first, counts, means = row.by_experience()
        keep = counts >= MIN_CURVE_EVENTS
        heights = np.sqrt(means) if number else means
        points = list(zip(first[keep], heights[keep], strict=True))
        lines.append(Line(f"{role}: {row.title}", points))
    measure = "RMSE" if number else "Log loss"
    title = f"{measure} by the number of events seen of a task; lower is better"
    return line_chart(lines, "events of the task", title)


def _tasks(result: Verdict, gains: Sequence[TaskGain], stream: dict[str, Any]) -> list[str]:
    if len(stream["tasks"]) == 1:
        return []
    few = len(stream["tasks"]) - len(gains)
    note = f"{few:,} tasks with fewer than {MIN_TASK_EVENTS} events are not listed"
    if not gains:
        return [page.paragraph(f"Nothing is said of single tasks: {note}.")]
    number = stream["answers"] == 0
    clear = [one.sign for one in gains]
    counted = (
        f"{clear.count(1):,} tasks gain clearly from sharing, {clear.count(-1):,} lose, "
        f"{clear.count(0):,} show no clear difference."
    )
    title = "RMSE" if number else "log loss"
    losses = (f"{title}, {row.title}" for row in (result.reference, result.sharing))
    head = ("task", "events", *losses, "gain", "")
    cells = [_task_row(one, number) for one in gains[:MAX_TASKS]]
    notes = [*([note] if few else []), "a difference is clear beyond two standard errors"]
    notes += [f"the first {MAX_TASKS:,} tasks"] if len(gains) > MAX_TASKS else []
    table = _html("Tasks by what they gain from sharing", head, cells, notes)
    return [page.heading("Who gains"), page.paragraph(counted), table]


def _task_row(one: TaskGain, number: bool) -> tuple[str, ...]:
    before, after = (x**0.5 if number else x for x in (one.before, one.after))
    words = {1: "gains", -1: "better without sharing", 0: "no clear difference"}
    share = 1.0 - after / before if before > 0 else 0.0
    return (
        one.task,
        f"{one.events:,}",
        *(f"{loss:.4g}" if number else f"{loss:.3f}" for loss in (before, after)),
        f"{share:.0%}",
        words[one.sign],
    )


def _details(table_rows: Sequence[Row]) -> str:
    """Fold: differences with intervals, confusion, singular values, norms of V, parameters."""
    engine = next(row for row in table_rows if row.name == ENGINE)
    parts = []
    if not engine.failed:
        others = [row for row in table_rows if row is not engine and not row.failed]
        gains = [(row.title, gain(engine, row)) for row in others]
        words = {1: "lower loss", -1: "higher loss", 0: "no clear difference"}
        cells = [(title, str(saved), words[saved.sign]) for title, saved in gains]
        head = ("compared with", "difference [95 % interval]", "")
        title = "Part of the loss that ROMCO-Auto saves"
        parts.append(_html(title, head, cells))
        parts += [*_confusion(engine), *_structure(engine)]
    settings = [(row.title, _parameters(row)) for row in table_rows]
    parts.append(_html("Parameters", ("row", "parameters"), settings))
    return page.fold("Details: intervals, parameters, singular values, norms", parts)


def _html(
    title: str, head: Sequence[str], cells: Sequence[Sequence[str]], notes: Sequence[str] = ()
) -> str:
    """Return a table without marks."""
    return as_html(Table(title, head, mark_best(cells), notes))


def _parameters(row: Row) -> str:
    return ", ".join(f"{name}={value}" for name, value in row.runs[0].run.parameters) or "none"


def _confusion(row: Row) -> list[str]:
    if "table" not in row.runs[0].end:
        return []
    counts, labels = np.array(row.runs[0].end["table"]), row.stream["labels"]
    shown = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:MAX_TABLE_CLASSES])
    cells = [[labels[k], *(f"{counts[k, j]:,}" for j in shown)] for k in shown]
    notes = [f"the {len(shown)} most frequent of {len(labels)}"] if len(shown) < len(labels) else []
    head = ("", *(labels[k] for k in shown))
    title = f"True classes (rows) and answers of {row.title} (columns), first shuffle"
    return [_html(title, head, cells, notes)]


def _structure(row: Row) -> list[str]:
    structure = row.runs[0].end.get("structure")
    if not structure:
        return []
    spectrum = [(f"dimension {k + 1}", value) for k, value in enumerate(structure["spectrum"][:40])]
    norms = zip(row.stream["tasks"], structure["personal_norms"], strict=True)
    personal = sorted(((str(task), norm or 0.0) for task, norm in norms), key=lambda one: -one[1])
    return [
        bars(spectrum, f"Singular values of the shared part U, rank {structure['rank']}"),
        bars(personal[:100], "Norms of the personal part V, by task"),
    ]
