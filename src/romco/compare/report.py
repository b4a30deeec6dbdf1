"""Report of a comparison: the verdict, one picture, the table, tasks by what they gain."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from romco.compare.controls import ENGINE, MEANINGS
from romco.compare.refitted import MAX_CELLS, MAX_EVENTS, is_small
from romco.compare.results import Row, records, rows
from romco.compare.run import Comparison, Done, perform
from romco.compare.sources import stream_of
from romco.compare.verdict import MIN_TASK_EVENTS, TaskGain, Verdict, gain, task_gains, verdict
from romco.presentation import page
from romco.presentation.charts import Line, line_chart
from romco.presentation.screen import quantity
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
MEASURES = {"two classes": "log loss", "classes": "log loss", "number": "RMSE"}  # that decide
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
    return report(comparison, out / "runs", out / comparison.folder, command)


def report(comparison: Comparison, results: Path, out: Path, command: str) -> Report:
    """Read the runs' files; write table and page."""
    task = stream_of(comparison.dataset, comparison.data_dir).task
    table_rows = rows(comparison.runs(), results, task)
    result = verdict(table_rows)
    stream = table_rows[0].stream
    guide = HOW_TO_READ[_target(stream)]
    words = {"positive": "".join(stream["labels"][-1:]), "n": stream["answers"]}
    table = scores(comparison, table_rows)
    meanings = []
    for row in table_rows:
        if row.name in MEANINGS:
            meanings.append(f"{row.title}: {MEANINGS[row.name]}.")
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
            page.paragraph(guide.format(**words)),
            page.fold("What the rows mean", [page.items(meanings)]),
            *_tasks(result, stream),
            _details(table_rows),
        ],
        page.origin(command, table_rows[0].runs[0].versions),
    )
    return Report(result, table, path)


def scores(comparison: Comparison, table_rows: Sequence[Row]) -> Table:
    """Make the table: the measure that decides first, best marked."""
    stream = table_rows[0].stream
    target = _target(stream)
    columns = COLUMNS[target]
    head = ["predictions by", MEASURES[target]]
    best: list[int | None] = [None, -1]
    for column in columns:
        head.append(column.head)
        best.append(column.best)
    cells = [_cells(row, columns) for row in table_rows]
    notes = [_method_note(comparison), f"labels came {comparison.arrival}"]
    if target == "number":
        notes.append("numbers that come before any is known are not counted")
    else:
        notes.append("error: wrong answers of all events, and the mean over tasks")
    if target == "classes":
        notes.append("the first event of each class is an error, and has no log loss")
    if not is_small(comparison.stream):
        notes.append(
            "scikit-learn's regressions and LightGBM are left out: they are fitted again and again "
            f"up to {MAX_EVENTS:,} events and {MAX_CELLS:,} cells, times classes, without offset"
        )
    notes += stream["notes"]
    for row in table_rows:
        if row.failed:
            notes.append(f"{row.title} broke down: {row.failed}")
    return Table(f"{comparison.dataset}: who predicts best", head, mark_best(cells, best), notes)


def _method_note(comparison: Comparison) -> str:
    known = "every prediction was made before its answer was known"
    if comparison.order == "recorded":
        return f"in the order of the file; {known}"
    n = len(comparison.seeds)
    shuffles = "one shuffle"
    if n != 1:
        shuffles = f"mean over {n} shuffles"
    return f"{shuffles}, {comparison.order}; {known}"


def _target(stream: dict[str, Any]) -> str:
    return {0: "number", 1: "two classes"}.get(stream["answers"], "classes")


def _cells(row: Row, columns: Sequence[Column]) -> list[Any]:
    if row.failed:
        return [row.title, "failed", *[""] * len(columns)]
    cells: list[Any] = [row.title, (row.measure_text, row.measure)]
    for column in columns:
        value = row.mean(column.name)
        if value is None:
            cells.append("")
        else:
            cells.append((f"{column.scale * value:{column.form}}", value))
    return cells


def _data(comparison: Comparison, stream: dict[str, Any]) -> str:
    events = sum(stream["events"])
    tasks = quantity(len(stream["tasks"]), "task")
    features = quantity(stream["features"], "feature")
    size = f"{quantity(events, 'event')} of {tasks}, {features}"
    if _target(stream) == "two classes":
        share = sum(stream["positive"]) / max(events, 1)
        size += f"; {stream['labels'][1]} in {share:.1%} of events"
    return f"{comparison.dataset}: {size}."


def _picture(result: Verdict) -> str:
    """Loss by events seen of a task: without the task, with it, and with sharing."""
    target = _target(result.sharing.stream)
    roles = {
        "without the task": result.without_task,
        "with the task": result.with_task,
        "with sharing": result.sharing,
    }
    lines = []
    for role, row in roles.items():
        first, counts, losses = row.by_experience()
        keep = counts >= MIN_CURVE_EVENTS
        if target == "number":
            losses = np.sqrt(losses)
        points = list(zip(first[keep], losses[keep], strict=True))
        lines.append(Line(f"{role}: {row.title}", points))
    measure = MEASURES[target]
    title = f"{measure[0].upper()}{measure[1:]} by the number of events seen of a task"
    return line_chart(lines, "events of the task", f"{title}; lower is better")


def _tasks(result: Verdict, stream: dict[str, Any]) -> list[str]:
    if len(stream["tasks"]) == 1:
        return []
    gains = task_gains(result)
    few = len(stream["tasks"]) - len(gains)
    note = f"tasks with fewer than {MIN_TASK_EVENTS} events are not listed: {few:,}"
    if not gains:
        return [page.paragraph(f"Nothing is said of single tasks: {note}.")]
    target = _target(stream)
    tasks = Counter(map(attrgetter("sign"), gains))
    counted = (
        f"{tasks[1]:,} tasks gain clearly from sharing, {tasks[-1]:,} lose, "
        f"{tasks[0]:,} show no clear difference."
    )
    before = f"{MEASURES[target]}, {result.reference.title}"
    after = f"{MEASURES[target]}, {result.sharing.title}"
    head = ("task", "events", before, after, "gain", "")
    cells = [_task_row(one, target) for one in gains[:MAX_TASKS]]
    notes = ["a difference is clear beyond two standard errors"]
    if few:
        notes.insert(0, note)
    if len(gains) > MAX_TASKS:
        notes.append(f"the first {MAX_TASKS:,} tasks")
    table = _html("Tasks by what they gain from sharing", head, cells, notes)
    return [page.heading("Who gains"), page.paragraph(counted), table]


def _task_row(one: TaskGain, target: str) -> tuple[str, ...]:
    before, after = one.before, one.after
    form = ".3f"
    if target == "number":
        before **= 0.5
        after **= 0.5
        form = ".4g"
    share = 0.0
    if before > 0:
        share = 1.0 - after / before
    words = {1: "gains", -1: "better without sharing", 0: "no clear difference"}
    losses = f"{before:{form}}", f"{after:{form}}"
    return one.task, f"{one.events:,}", *losses, f"{share:.0%}", words[one.sign]


def _details(table_rows: Sequence[Row]) -> str:
    """Fold: differences with intervals, confusion, parameters."""
    engine = next(row for row in table_rows if row.name == ENGINE)
    parts = []
    if not engine.failed:
        words = {1: "lower loss", -1: "higher loss", 0: "no clear difference"}
        cells = []
        for row in table_rows:
            if row is not engine and not row.failed:
                saved = gain(engine, row)
                cells.append((row.title, str(saved), words[saved.sign]))
        head = ("compared with", "difference [95 % interval]", "")
        title = "Part of the loss that ROMCO-Auto saves"
        parts.append(_html(title, head, cells))
        parts += _confusion(engine)
    settings = [(row.title, _parameters(row)) for row in table_rows]
    parts.append(_html("Parameters", ("row", "parameters"), settings))
    return page.fold("Details: intervals and parameters", parts)


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
    counts = np.array(row.runs[0].end["table"])
    labels = row.stream["labels"]
    shown = np.sort(np.argsort(-counts.sum(axis=1), kind="stable")[:MAX_TABLE_CLASSES])
    names = list(map(labels.__getitem__, shown))
    cells = []
    for name, own in zip(names, counts[np.ix_(shown, shown)], strict=True):
        cells.append([name, *map("{:,}".format, own)])
    notes = []
    if len(shown) < len(labels):
        notes.append(f"the {len(shown)} most frequent of {len(labels)}")
    head = ("", *names)
    title = f"True classes (rows) and answers of {row.title} (columns), first shuffle"
    return [_html(title, head, cells, notes)]
