"""The whole of the paper from one call: tune, run, sweep, review, report."""

from pathlib import Path

from romco.compare.run import Run
from romco_lab.learner_runs import Progress, perform
from romco_lab.paper.experiment import Experiment
from romco_lab.paper.report import findings, write
from romco_lab.paper.review import Extent, Review


def measure(
    experiment: Experiment,
    out: Path,
    jobs: int | None,
    command: str,
    progress: Progress,
    extent: Extent | None = None,
) -> Path:
    """Run what has not run yet, then write the report; gives its page.

    With an ``extent`` also whether everybody had a fair chance is run and told.
    """
    results = out / "runs"

    def execute_all(what: str, runs: list[Run]) -> None:
        with progress(what, len(dict.fromkeys(runs))) as done:
            perform(runs, results, experiment.data_dir, jobs, done)

    execute_all("tuning", experiment.tuning_runs())
    chosen = experiment.chosen(results)
    execute_all("tables", experiment.main_runs(chosen))
    curves = experiment.sensitivity(chosen)
    execute_all(
        "sensitivity", [run for curve in curves for _, runs in curve.points for run in runs]
    )
    review = None if extent is None else Review(experiment, chosen, extent)
    if review is not None:
        for what, runs in review.passes(results):
            execute_all(what, runs)
    return write(findings(experiment, chosen, results, out), results, out, command, review)
