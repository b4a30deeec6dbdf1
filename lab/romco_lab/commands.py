"""Commands that the lab adds to the command line: paper, beyond, label-study, kt."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from romco.cli.options import (
    DataDir,
    Jobs,
    ResultsFolder,
    check_known,
    typed_command,
)
from romco.cli.output import progress as progress_bar
from romco.streams import ORDERS

console = Console()
Shuffles = Annotated[int, typer.Option("--shuffles", min=1, help="How many orders of the events.")]


def paper(
    dataset: Annotated[str, typer.Argument(help="spam, mhc, movies, emails, or all.")] = "all",
    quick: Annotated[
        bool, typer.Option("--quick", help="2 shuffles, 5 trials, 40 % of rounds.")
    ] = False,
    shuffles: Shuffles = 10,
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
    out: ResultsFolder = Path("results/paper"),
) -> None:
    """Measure every table and figure of the paper, beside the printed numbers."""
    from romco.compare.run import chosen_learners
    from romco_lab.paper.experiment import Experiment, sources_for
    from romco_lab.paper.measure import measure
    from romco_lab.paper.readings import Study, study
    from romco_lab.paper.review import Extent

    check_known("order", order, ORDERS)
    check_known("tuning", tuning, ("equal", "grid"))
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
    progress = partial(progress_bar, console)
    if choices:
        page = study(Study(experiment), out, jobs, typed_command(), progress)
    else:
        extent = Extent() if review and not quick else None
        page = measure(experiment, out, jobs, typed_command(), progress, extent)
    console.print(f"page: {page}", soft_wrap=True)


def beyond(
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: ResultsFolder = Path("results/beyond"),
    docs: Annotated[Path, typer.Option(help="Folder of the page.")] = Path("docs"),
) -> None:
    """Compare romco-auto with all learners tuned in hindsight; real data only."""
    from romco_lab.beyond import report
    from romco_lab.beyond.contest import Contest, run_all

    contest = Contest(out / "runs", data_dir)
    run_all(contest, jobs, partial(progress_bar, console))
    page = report.write(contest, docs, typed_command())
    console.print(f"page: {page}", soft_wrap=True)


def label_study(
    datasets: Annotated[str, typer.Argument(help="Names of `romco datasets`, a,b,...")],
    labels: Annotated[
        str, typer.Option(help="Label budgets, shares of the events: 1%,5%,20%.")
    ] = "1%,2%,5%,10%,20%",
    policies: Annotated[
        str | None, typer.Option(help="Names of label policies, a,b; all if not given.")
    ] = None,
    learner: Annotated[str, typer.Option(help="One of `romco learners`.")] = "romco-auto",
    shuffles: Shuffles = 5,
    delay: Annotated[
        str, typer.Option(help="Events until a label is known; true for flights.")
    ] = "0",
    order: Annotated[str, typer.Option(help=f"One of: {', '.join(ORDERS)}.")] = "interleaved",
    data_dir: DataDir = None,
    jobs: Jobs = None,
    out: ResultsFolder = Path("results/labels"),
) -> None:
    """Compare label policies: error against the share of labels, on one or more data sets."""
    from romco.presentation.tables import as_text
    from romco_lab import label_study as study_of
    from romco_lab.learner_runs import perform

    check_known("order", order, ORDERS)
    names = study_of.KNOWN if policies is None else tuple(policies.split(","))
    for name in names:
        check_known("policy", name, study_of.KNOWN)
    shares = study_of.chosen_shares(labels)
    late = study_of.chosen_delay(delay)
    given = (shares, names, learner, shuffles, 0, order, late, data_dir)
    studies = {name: study_of.LabelStudy(name, *given) for name in datasets.split(",")}
    for dataset, study in studies.items():
        runs = [run for some in study.runs().values() for run in some]
        with progress_bar(console, f"{dataset}: runs", len(runs)) as done:
            perform(runs, out / "runs", data_dir, jobs, done)
        table, page = study_of.report(study, out / "runs", out / dataset, typed_command())
        print(as_text(table))
        console.print(f"page: {page}", soft_wrap=True)
    if len(studies) > 1 and "random" in names:
        for table in study_of.report_sets(studies, out / "runs", out / "all"):
            print(as_text(table))


def kt(
    folder: Annotated[
        Path, typer.Argument(help="Folder of NAME.csv.gz: part, user, item, skill, correct.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("results/kt"),
) -> None:
    """Predict students' next answers: AUC beside published figures, learning curves, speed."""
    from romco_lab import tracing

    paths = sorted(folder.glob("*.csv.gz"))
    if not paths:
        raise ValueError(f"{folder}: no file NAME.csv.gz of answers")
    page = tracing.write([tracing.run(path, console.print) for path in paths], out)
    console.print(page.read_text(encoding="utf-8"), markup=False)
    console.print(f"page: {page}", soft_wrap=True)
