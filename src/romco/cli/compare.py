"""Commands that compare learners, and lists of learners and data sets."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from romco.cli.options import kinds_of, listed
from romco.learners import LEARNERS
from romco.runs import Source
from romco.streams import ORDERS

# What draws pictures or reads data sets is imported by the command that needs it, so that
# `romco learn` and `romco predict` start at once.

console = Console()
DataDir = Annotated[
    Path | None, typer.Option(help="Where real data are; else ROMCO_DATA, else the user's cache.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; one per core if not given.")]
Engine = Annotated[str | None, typer.Option(help="ray: runs on a Ray cluster instead.")]
Address = Annotated[str | None, typer.Option(help="Of a running Ray cluster.")]


def compare(
    dataset: Annotated[
        str, typer.Argument(help="One of `romco datasets`, or a file of yours.")
    ] = "simulated",
    task: Annotated[str | None, typer.Option(help="Your file: column of the task.")] = None,
    label: Annotated[str | None, typer.Option(help="Your file: column of the label.")] = None,
    positive: Annotated[str | None, typer.Option(help="Your file: the positive label.")] = None,
    text: Annotated[str | None, typer.Option(help="Your file: columns taken as words.")] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Your file: columns whose every value is a feature.")
    ] = None,
    numeric: Annotated[
        str | None, typer.Option(help="Your file: columns that must be numbers.")
    ] = None,
    date: Annotated[
        str | None, typer.Option(help="Your file: columns taken as month, day of the week, hour.")
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Your file: columns not used.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Your file: columns a,b,...; all others if not given.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Your file: csv, tsv, jsonl, parquet or svmlight.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Your file: count bad rows instead of stopping.")
    ] = False,
    target: Annotated[
        str | None,
        typer.Option(help="What is predicted, if not one of two: classes, number, or auto."),
    ] = None,
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
        str, typer.Option(help=f"One of: {', '.join(ORDERS)}; recorded: as in the file.")
    ] = "interleaved",
    data_dir: DataDir = None,
    jobs: Jobs = None,
    engine: Engine = None,
    address: Address = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/compare"),
) -> None:
    """Compare ROMCO-Auto with baselines on a data set or a file of yours.

    Prints a table and a verdict: what knowing the task is worth, and what sharing adds to that.
    Writes a page with a picture and the tasks that gain most.
    """
    from romco.compare.plan import Comparison, chosen_learners, chosen_settings
    from romco.compare.report import compare
    from romco.compare.run import performing
    from romco.presentation import screen

    kinds = {"text": text, "category": categorical, "number": numeric}
    kinds |= {"date": date, "ignored": ignore}
    source = Source(
        dataset,
        task,
        label,
        features=listed(features),
        format=format,
        skip_bad=skip_bad,
        kinds=kinds_of(kinds) or None,
    )
    dataset, data_dir, answers = _find(source, positive, target, data_dir, out / "streams")
    check_known("order", order, ORDERS)
    comparison = Comparison(
        dataset,
        chosen_learners(learners, answers),
        shuffles,
        order,
        chosen_settings(set_ or [], answers),
        data_dir,
    )
    title, total = f"{dataset}: runs", len(comparison.runs())
    with performing(engine, address), screen.progress(console, title, total) as done:
        report = compare(comparison, out, typed_command(), jobs, done)
    screen.show(console, report.table)
    console.print(report.verdict.text, soft_wrap=True, highlight=False, markup=False)
    console.print(f"page: {report.page}", soft_wrap=True)


def learners() -> None:
    """All learners: name, title in the paper, parameters and their defaults."""
    from romco.cli.listings import learners_table
    from romco.presentation import screen

    screen.show(console, learners_table(LEARNERS))


def datasets(data_dir: DataDir = None) -> None:
    """All data sets: what is here, its size, and where a missing one comes from."""
    from romco.cli.listings import datasets_table
    from romco.presentation import screen
    from romco.streams.datasets import describe

    screen.show(console, datasets_table(describe(data_dir)))


def _find(
    source: Source,
    positive: str | None,
    target: str | None,
    data_dir: Path | None,
    streams: Path,
) -> tuple[str, Path | None, int]:
    """Return name, folder and answers of a data set, one with another target, or a file."""
    from romco.cli.own import own_stream
    from romco.compare.sources import stream_of
    from romco.streams.datasets import DATASETS

    name = source.path
    if source != Source(name) or name not in DATASETS:
        return Path(name).name, streams, own_stream(source, positive, streams, target)
    if target is not None:
        name = _variant(name, target)
    return name, data_dir, stream_of(name, data_dir).answers


def _variant(name: str, target: str) -> str:
    """Return the name of a data set's variant with another target."""
    from romco.streams.datasets import find

    check_known("target", target, ("classes", "number", "auto"))
    has = [kind for kind in ("classes", "number") if kind in find(name).variants]
    if not has or target not in ("auto", *has):
        raise ValueError(f"{name} has no target {target}; it has two classes" + _and(has))
    return f"{name}@{has[0] if target == 'auto' else target}"


def _and(has: list[str]) -> str:
    return "".join(f", and {kind}" for kind in has)


def check_known(what: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError that lists the known values where ``value`` is not one of them."""
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}; known are {', '.join(known)}")


def typed_command() -> str:
    """Return the command as it was typed, without the path of the program."""
    return shlex.join(["romco", *sys.argv[1:]])
