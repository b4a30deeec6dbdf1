"""The command line; thin: it reads options, calls one function, prints."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from romco import LEARNERS, __version__, commands
from romco.streams import ORDERS

# What draws pictures or reads data sets is imported by the command that needs it, so that
# `romco learn` and `romco predict` start at once.

app = typer.Typer(
    help="Online multi-task learning: one linear model per task, shared where tasks agree.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(commands.app)
console = Console()
DataDir = Annotated[
    Path | None, typer.Option(help="Where real data are; else ROMCO_DATA, ../shared/data, cache.")
]
Jobs = Annotated[int | None, typer.Option(min=1, help="Processes; one per core if not given.")]


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def compare(
    dataset: Annotated[str, typer.Argument(help="One of `romco datasets`.")] = "simulated",
    learners: Annotated[
        str | None, typer.Option(help="Names from `romco learners`, a,b; or all; or paper.")
    ] = None,
    shuffles: Annotated[int, typer.Option(min=1, help="How many orders of the events.")] = 5,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="learner.parameter=value, repeatable.")
    ] = None,
    order: Annotated[str, typer.Option(help=f"One of: {', '.join(ORDERS)}.")] = "synchronous",
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/compare"),
) -> None:
    """Learners side by side on one data set: a table, figures and a page."""
    from romco.paper import compare as comparing
    from romco.paper import screen
    from romco.paper.run import perform
    from romco.streams.datasets import DATASETS

    if dataset not in DATASETS:
        raise ValueError(f"no data set {dataset!r}; there are {', '.join(DATASETS)}")
    _known("order", order, ORDERS)
    comparison = comparing.Comparison(
        dataset=dataset,
        learners=comparing.chosen_learners(learners),
        shuffles=shuffles,
        order=order,
        settings=comparing.chosen_settings(set_ or []),
        data_dir=data_dir,
    )
    runs = comparison.runs()
    with screen.progress(console, f"{dataset}: runs", len(runs)) as done:
        perform(runs, out / "runs", data_dir, jobs, done)
    table, page = comparing.report(comparison, out / "runs", out / dataset, _command())
    screen.show(console, table)
    console.print(f"page: {page}", soft_wrap=True)


@app.command()
def paper(
    dataset: Annotated[str, typer.Argument(help="spam, mhc, movies, emails, or all.")] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="2 shuffles, 5 trials, 40 % of rounds.")
    ] = False,
    shuffles: Annotated[int, typer.Option(min=1, help="How many orders of the events.")] = 10,
    trials: Annotated[int, typer.Option(min=1, help="Settings tried per method.")] = 20,
    tuning: Annotated[str, typer.Option(help="equal: same trials for all; or grid.")] = "equal",
    order: Annotated[str, typer.Option(help=f"One of: {', '.join(ORDERS)}.")] = "synchronous",
    learners: Annotated[str, typer.Option(help="Names a,b; or all; or paper.")] = "all",
    choices: Annotated[
        bool, typer.Option("--choices", help="Measure what the paper leaves open instead.")
    ] = False,
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/paper"),
) -> None:
    """Every table and figure of the paper, measured, beside the printed numbers."""
    from romco.paper import screen
    from romco.paper.choices import Study, study
    from romco.paper.compare import chosen_learners
    from romco.paper.experiment import Experiment, sources_for
    from romco.paper.measure import measure

    _known("order", order, ORDERS)
    _known("tuning", tuning, ("equal", "grid"))
    experiment = Experiment(
        sources=sources_for(dataset, data_dir),
        learners=chosen_learners(learners),
        shuffles=min(shuffles, 2) if quick else shuffles,
        trials=min(trials, 5) if quick else trials,
        tuning=tuning,
        order=order,
        tuned_on=0.1 if quick else 0.5,
        run_on=0.4 if quick else 1.0,
        data_dir=data_dir,
    )
    if choices:
        written = study(Study(experiment), out, jobs, _command(), partial(screen.progress, console))
        console.print(f"page: {written}", soft_wrap=True)
        return
    page = measure(experiment, out, jobs, _command(), partial(screen.progress, console))
    console.print(f"page: {page}", soft_wrap=True)


@app.command()
def beyond(
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Where results go.")] = Path("results/beyond"),
    docs: Annotated[Path, typer.Option(help="Where the page goes.")] = Path("docs"),
) -> None:
    """romco-auto with its one default against all learners tuned in hindsight; real data only."""
    from romco.paper import beyond_report, screen
    from romco.paper.beyond import Contest, run_all

    contest = Contest(out / "runs", data_dir)
    run_all(contest, jobs, partial(screen.progress, console))
    page = beyond_report.write(contest, docs, _command())
    console.print(f"page: {page}", soft_wrap=True)


@app.command()
def learners() -> None:
    """All learners: name, title in the paper, parameters and their defaults."""
    from romco.paper import screen

    screen.show(console, screen.learners_table(LEARNERS))


@app.command()
def datasets(data_dir: DataDir = None) -> None:
    """All data sets: what is here, its size, and where a missing one comes from."""
    from romco.paper import screen
    from romco.streams.datasets import describe

    screen.show(console, screen.datasets_table(describe(data_dir)))


def main() -> None:
    """Run the command line; what goes wrong is a line on stderr and exit code 2."""
    try:
        app()
    except BrokenPipeError:  # who read our output has had enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        text = f"[red]error:[/red] {escape(_reason(error))}"
        Console(stderr=True).print(text, soft_wrap=True, highlight=False)
        sys.exit(2)


def _reason(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        what = str(error) or type(error).__name__
    what = " ".join([what, *(f"({note})" for note in getattr(error, "__notes__", []))])
    return "".join(c if c.isprintable() else " " for c in what)


def _known(what: str, value: str, known: Iterable[str]) -> None:
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}; known are {', '.join(known)}")


def _command() -> str:
    """The command as it was typed, without the path of the program."""
    return shlex.join(["romco", *sys.argv[1:]])
