"""Commands for experiments: compare, paper, beyond, learners, datasets."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console

from romco.cli.options import kinds_of, listed
from romco.learners import LEARNERS
from romco.runs import Source
from romco.streams import ORDERS

# What draws pictures or reads data sets is imported by the command that needs it, so that
# `romco learn` and `romco predict` start at once.

app = typer.Typer()
console = Console()
DataDir = Annotated[
    Path | None, typer.Option(help="Where real data are; else ROMCO_DATA, else the user's cache.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; one per core if not given.")]
Engine = Annotated[str | None, typer.Option(help="ray: runs on a Ray cluster instead.")]
Address = Annotated[str | None, typer.Option(help="Of a running Ray cluster.")]


@app.command()
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
        str | None, typer.Option(help="Names from `romco learners`, a,b; or all; or paper.")
    ] = None,
    shuffles: Annotated[int, typer.Option(min=1, help="How many orders of the events.")] = 5,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="learner.parameter=value, repeatable.")
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(help=f"One of: {', '.join(ORDERS)}; your file: interleaved if not given."),
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="Percents of labels, 1,5,20: compare policies that ask for them."),
    ] = None,
    policies: Annotated[
        str | None, typer.Option(help="With --labels: names a,b; all if not given.")
    ] = None,
    delay: Annotated[
        str, typer.Option(help="With --labels: events until a label is known; true for flights.")
    ] = "0",
    data_dir: DataDir = None,
    jobs: Jobs = None,
    engine: Engine = None,
    address: Address = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/compare"),
) -> None:
    """Learners side by side on one data set or your own file.

    A table, a sentence that says whether sharing helps and by how much, figures and a page.
    """
    from romco.compare import compare as comparing
    from romco.compare.elsewhere import performing
    from romco.compare.run import perform
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
    singly, several = order or "interleaved", labels is not None
    found = _found(source, positive, target, several, order, data_dir, out / "streams")
    dataset, data_dir, order, answers = found
    if answers != 1:
        if labels is not None:
            raise ValueError("--labels asks for labels of two classes: leave out --target")
        given = (dataset, learners, shuffles, order, set_ or [], data_dir)
        with performing(engine, address):
            _compare_others(*given, jobs, out)
        return
    if labels is not None:
        study = (dataset, labels, policies, learners or "romco-auto", shuffles, delay, singly)
        _compare_labels(*study, data_dir, jobs, out)
        return
    comparison = comparing.Comparison(
        dataset=dataset,
        learners=comparing.chosen_learners(learners),
        shuffles=shuffles,
        order=order,
        settings=comparing.chosen_settings(set_ or []),
        data_dir=data_dir,
    )
    runs = comparison.runs()
    title = f"{dataset}: runs"
    with performing(engine, address), screen.progress(console, title, len(runs)) as done:
        perform(runs, out / "runs", data_dir, jobs, done)
    table, page = comparing.report(comparison, out / "runs", out / dataset, _command())
    screen.show(console, table)
    told = comparing.verdict(comparison, out / "runs")
    if told is not None:
        console.print(told, soft_wrap=True, highlight=False, markup=False)
    console.print(f"page: {page}", soft_wrap=True)


@app.command()
def paper(
    dataset: Annotated[str, typer.Argument(help="spam, mhc, movies, emails, or all.")] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="2 shuffles, 5 trials, 40 % of rounds.")
    ] = False,
    shuffles: Annotated[int, typer.Option(min=1, help="How many orders of the events.")] = 10,
    batch_shuffles: Annotated[
        int | None,
        typer.Option(min=1, help="So many for batch methods; all if not given."),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Settings tried for each parameter of a method.")
    ] = 20,
    tuning: Annotated[str, typer.Option(help="equal: same trials for all; or grid.")] = "equal",
    order: Annotated[str, typer.Option(help=f"One of: {', '.join(ORDERS)}.")] = "synchronous",
    learners: Annotated[str, typer.Option(help="Names a,b; or all; or paper.")] = "all",
    choices: Annotated[
        bool, typer.Option("--choices", help="Measure what the paper leaves open instead.")
    ] = False,
    review: Annotated[
        bool, typer.Option(help="Also whether everybody had a fair chance; never with --quick.")
    ] = True,
    data_dir: DataDir = None,
    jobs: Jobs = None,
    engine: Engine = None,
    address: Address = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/paper"),
) -> None:
    """Every table and figure of the paper, measured, beside the printed numbers."""
    from romco.compare.compare import chosen_learners
    from romco.compare.elsewhere import performing
    from romco.paper.experiment import Experiment, sources_for
    from romco.paper.measure import measure
    from romco.paper.readings import Study, study
    from romco.paper.review import Extent
    from romco.presentation import screen

    _known("order", order, ORDERS)
    _known("tuning", tuning, ("equal", "grid"))
    experiment = Experiment(
        sources=sources_for(dataset, data_dir),
        learners=chosen_learners(learners),
        shuffles=min(shuffles, 2) if quick else shuffles,
        batch_shuffles=batch_shuffles,
        trials=min(trials, 5) if quick else trials,
        tuning=tuning,
        order=order,
        tuned_on=0.1 if quick else 0.5,
        run_on=0.4 if quick else 1.0,
        data_dir=data_dir,
    )
    with performing(engine, address):
        if choices:
            plan, progress = Study(experiment), partial(screen.progress, console)
            page = study(plan, out, jobs, _command(), progress)
        else:
            extent = Extent() if review and not quick else None
            progress = partial(screen.progress, console)
            page = measure(experiment, out, jobs, _command(), progress, extent)
    console.print(f"page: {page}", soft_wrap=True)


@app.command()
def beyond(
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/beyond"),
    docs: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("docs"),
) -> None:
    """romco-auto with its one default against all learners tuned in hindsight; real data only."""
    from romco.beyond import report
    from romco.beyond.contest import Contest, run_all
    from romco.presentation import screen

    contest = Contest(out / "runs", data_dir)
    run_all(contest, jobs, partial(screen.progress, console))
    page = report.write(contest, docs, _command())
    console.print(f"page: {page}", soft_wrap=True)


@app.command()
def learners() -> None:
    """All learners: name, title in the paper, parameters and their defaults."""
    from romco.cli.listings import learners_table
    from romco.presentation import screen

    screen.show(console, learners_table(LEARNERS))


@app.command()
def datasets(data_dir: DataDir = None) -> None:
    """All data sets: what is here, its size, and where a missing one comes from."""
    from romco.cli.listings import datasets_table
    from romco.presentation import screen
    from romco.streams.datasets import describe

    screen.show(console, datasets_table(describe(data_dir)))


def _compare_labels(
    datasets: str,
    labels: str,
    policies: str | None,
    learner: str,
    shuffles: int,
    delay: str,
    order: str,
    data_dir: Path | None,
    jobs: int | None,
    out: Path,
) -> None:
    """Policies that ask for labels, side by side under several budgets, on one data set or more."""
    from romco.compare import label_sets, labelling
    from romco.compare.run import perform
    from romco.presentation import screen

    names = labelling.KNOWN if policies is None else tuple(policies.split(","))
    for name in names:
        _known("policy", name, labelling.KNOWN)
    shares = labelling.chosen_shares(labels)
    late = labelling.chosen_delay(delay)
    given = (shares, names, learner, shuffles, 0, order, late, data_dir)
    studies = {name: labelling.LabelStudy(name, *given) for name in datasets.split(",")}
    for dataset, study in studies.items():
        runs = [run for some in study.runs().values() for run in some]
        with screen.progress(console, f"{dataset}: runs", len(runs)) as done:
            perform(runs, out / "runs", data_dir, jobs, done)
        table, page = labelling.report(study, out / "runs", out / f"{dataset}-labels", _command())
        screen.show(console, table)
        console.print(f"page: {page}", soft_wrap=True)
    if len(studies) > 1 and "random" in names:
        for table in label_sets.report(studies, out / "runs", out / "labels"):
            screen.show(console, table)


class _Found(NamedTuple):
    """A data set: its name, where it is, the order of its events, and what is answered."""

    dataset: str
    data_dir: Path | None
    order: str
    answers: int


def _found(
    source: Source,
    positive: str | None,
    target: str | None,
    several: bool,
    order: str | None,
    data_dir: Path | None,
    streams: Path,
) -> _Found:
    """A data set by name, several of them, one with another target, or a file."""
    from romco.cli.own import asked_stream, own_stream
    from romco.streams.datasets import DATASETS

    name = source.path
    known = all(one in DATASETS for one in (name.split(",") if several else [name]))
    if source != Source(name) or not known:
        answers = own_stream(source, positive, streams, target)
        found = _Found(Path(name).name, streams, order or "interleaved", answers)
    elif target is not None:
        answers, made = asked_stream(name, target, data_dir, streams)
        found = _Found(made, streams, order or "interleaved", answers)
    else:
        found = _Found(name, data_dir, order or "synchronous", 1)
    _known("order", found.order, ORDERS)
    return found


def _compare_others(
    dataset: str,
    learners: str | None,
    shuffles: int,
    order: str,
    settings: list[str],
    data_dir: Path | None,
    jobs: int | None,
    out: Path,
) -> None:
    """Learners side by side on many classes, or on numbers."""
    from romco.compare import others
    from romco.compare.other_reports import other_report
    from romco.compare.run import perform
    from romco.compare.sources import stream_of
    from romco.presentation import screen

    answers = stream_of(dataset, data_dir).answers
    comparison = others.OtherComparison(
        dataset,
        others.chosen_others(learners, answers),
        shuffles,
        order,
        others.other_settings(settings, answers),
        data_dir,
    )
    runs = comparison.runs()
    with screen.progress(console, f"{dataset}: runs", len(runs)) as done:
        perform(runs, out / "runs", data_dir, jobs, done, others.other_records)
    tables, told, page = other_report(comparison, out / "runs", out / dataset, _command())
    for table in tables:
        screen.show(console, table)
    if told is not None:
        console.print(told, soft_wrap=True, highlight=False, markup=False)
    console.print(f"page: {page}", soft_wrap=True)


def _known(what: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}; known are {', '.join(known)}")


def _command() -> str:
    """The command as it was typed, without the path of the program."""
    return shlex.join(["romco", *sys.argv[1:]])
