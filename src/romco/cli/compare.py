"""Commands that compare learners, and lists of learners and data sets."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console

from romco.cli.options import (
    DataDir,
    Delay,
    Jobs,
    Positive,
    ResultsFolder,
    Target,
    Together,
    check_known,
    check_source,
    expand_options,
    parse_target,
    typed_command,
)
from romco.cli.output import note_schema, progress
from romco.evaluation.arrival import AT_ONCE, Arrival
from romco.learners import LEARNERS
from romco.presentation.tables import Table, as_text, mark_best
from romco.runs import Source
from romco.runs.learn import infer_target
from romco.streams import ORDERS

EVENTS_AT_A_TIME = 10_000

console = Console()


@expand_options
def compare(
    source: Source = "simulated",  # type: ignore[assignment]  # replaced by expand_options
    positive: Positive = None,
    target: Target = "auto",
    learners: Annotated[
        str | None,
        typer.Option(help="Further rows: names from `romco learners`, a,b; or all; or paper."),
    ] = None,
    shuffles: Annotated[
        int | None, typer.Option(min=1, help="Orders of the events; 5, fewer for large files.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="learner.parameter=value, repeatable.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help=f"One of: {', '.join(ORDERS)}; recorded: as in the file, and the default with "
            "--together or --delay; else interleaved."
        ),
    ] = None,
    together: Together = None,
    delay: Delay = None,
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: ResultsFolder = Path("results/compare"),
) -> None:
    """Compare ROMCO-Auto with baselines on a file, or on one of `romco datasets`.

    Prints a table and a verdict: what knowing the task is worth, and what sharing adds to that.
    Writes a page with a picture and the tasks that gain most.
    """
    from romco.compare.report import compare
    from romco.compare.run import Comparison, chosen_learners, chosen_settings

    arrival = Arrival.parse(together, delay)
    if order is None and arrival.at_once:
        order = "interleaved"
    order = order or "recorded"
    check_known("order", order, ORDERS)
    if arrival.seconds and order != "recorded":
        raise ValueError(f"--delay {delay} is a time: use --order recorded")
    source = replace(source, together=together)
    streams = out / "streams"
    dataset, data_dir, answers = _find(source, positive, target, data_dir, streams, arrival)
    comparison = Comparison(
        dataset,
        chosen_learners(learners, answers),
        shuffles,
        order,
        chosen_settings(set_ or [], answers),
        data_dir,
        arrival,
    )
    title, total = f"{dataset}: runs", len(comparison.runs())
    with progress(console, title, total) as done:
        report = compare(comparison, out, typed_command(), jobs, done)
    print(as_text(report.table))
    print(report.verdict.text)
    print(f"page: {report.page}")


def learners() -> None:
    """List all learners: name, title in the paper, parameters and their defaults."""
    rows = []
    for name, method in LEARNERS.items():
        parameters = ", ".join(f"{key}={value}" for key, value in method.parameters.items())
        rows.append((name, method.title, method.role, parameters))
    head = ("name", "title", "role", "parameters and defaults")
    print(as_text(Table("", head, mark_best(rows))))


def datasets(data_dir: DataDir = None) -> None:
    """List all data sets: what is here, its size, and where a missing one comes from."""
    from romco.streams.datasets import describe

    rows, notes = [], []
    for dataset, stream, problem in describe(data_dir):
        if stream is None:
            status, _, reason = problem.partition(": ")
            rows.append([dataset.name, dataset.summary, status, "", "", ""])
            notes.append(f"{dataset.name}: {reason}")
            continue
        events = np.bincount(stream.task, minlength=stream.n_tasks)
        sizes = [str(stream.n_tasks), f"{events.min()}-{events.max()}", str(stream.n_features)]
        positive = f"{np.mean(stream.y > 0):.0%}"
        rows.append([dataset.name, dataset.summary, *sizes, positive])
    head = ("data set", "what", "tasks", "events/task", "features", "positive")
    print(as_text(Table("", head, mark_best(rows), notes)))


def _find(
    source: Source,
    positive: str | None,
    target: str,
    data_dir: Path | None,
    streams: Path,
    arrival: Arrival,
) -> tuple[str, Path | None, int]:
    """Return name, folder and answers of a data set, one with another target, or a file."""
    from romco.compare.sources import stream_of
    from romco.streams.datasets import DATASETS

    name, kind = source.path, parse_target(target)
    if source != Source(name) or name not in DATASETS:
        return Path(name).name, streams, read_file(source, positive, target, streams, arrival)
    if kind in ("classes", "number"):
        if kind not in DATASETS[name].variants:
            raise ValueError(f"{name} has no target {target}: leave --target out")
        name = f"{name}@{kind}"
    return name, data_dir, stream_of(name, data_dir).answers


def read_file(
    source: Source,
    positive: str | None,
    target: str,
    folder: Path,
    arrival: Arrival = AT_ONCE,
) -> int:
    """Read a file into a stream in ``folder``; return the answers of a learner of it.

    Prints how each column is read, as ``romco learn`` does.
    """
    from romco.compare.sources import gather, save_stream
    from romco.streams.datasets import DATASETS

    path = Path(source.path)
    if not path.is_file():
        known = ", ".join(DATASETS)
        raise ValueError(f"no data set {source.path!r}; there are {known}; and no such file")
    check_source(source, labelled=True)
    source = source.resolve()
    assert source.schema is not None
    note_schema(source.schema)
    kind = parse_target(target) or infer_target(source)
    with source.open() as reader:
        stream = gather(path.name, reader.blocks(EVENTS_AT_A_TIME), positive, kind, arrival)
    save_stream(stream, folder)
    return stream.answers
