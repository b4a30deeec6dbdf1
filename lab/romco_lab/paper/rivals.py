"""Readings and ranges of each rival that its authors would call fair."""

from collections.abc import Mapping
from pathlib import Path

from romco.compare.controls import title_of
from romco.compare.results import read
from romco.compare.run import Run, place
from romco.learners import LEARNERS
from romco.presentation.tables import Table, mark_best
from romco_lab.paper.experiment import Experiment

# By learner: what its authors would insist on, and what else was tried and how it went.
FAIR: Mapping[str, tuple[str, str]] = {
    "pa-unique": (
        "the aggressiveness C tuned, PA-I or PA-II; the paper fixes C = 1",
        "plain PA is PA-I with a large C, which the range holds",
    ),
    "pa-global": ("the same", "one model for all tasks, every event of every task"),
    "cw-col": (
        "AROW's r, the pull to the global model eta2 over four decades, and the variance a at "
        "the start; diagonal covariances",
        "the published form was not to be had: two Gaussians fused by their precisions stand for "
        "it",
    ),
    "omtl": (
        "the norm of the round's losses (L1, L2, Linf, the r largest) and all three updates of its "
        "authors (implicit, finite and infinite horizon), C tuned",
        "which of them the paper ran is not said; implicit L1 is PA-I",
    ),
    "osmtl-e": (
        "alpha up to 0.99, lambda over four decades, C tuned, updates on margins or on mistakes",
        "its text says error-driven, its algorithm tests the margin",
    ),
    "omtlvon": (
        "updates on margin errors as well as on mistakes, constant or passive-aggressive steps of "
        "tuned size, the coupling b at the start, the relation refreshed at every step or once a "
        "round, its rate eta over six decades",
        "mistake-driven alone, as in the first report, it was worse than independent learners; "
        "priming for half of the stream is left out, since a stream's length is not known ahead; "
        "without normalisation it runs away",
    ),
    "omtllog": ("the same", "the same"),
    "mtfl": (
        "gamma over four decades, all events so far, a fit after every 100",
        "square loss, as in its authors' code; epsilon 1e-4",
    ),
    "trml": (
        "rho1 over five decades, logistic loss with free intercepts or least squares, all events "
        "so far, a fit after every 100",
        "windows of recent events were not tried",
    ),
}


def rivals_table() -> Table:
    """Return the table of what each rival was given."""
    rows = [
        [title_of(name), fair, tried, _space(name)]
        for name, (fair, tried) in FAIR.items()
        if name in LEARNERS
    ]
    head = ("method", "what its authors would call fair", "remarks", "what tuning may move")
    title = "What each rival was given"
    return Table(title, head, mark_best(rows, (None,) * len(head)))


def readings_table(experiment: Experiment, results: Path) -> Table:
    """The lowest error on the tuning shuffle, by reading: every value of every word to choose."""
    runs: dict[tuple[str, str, str], dict[str, float]] = {}
    for run in experiment.tuning_runs():
        error = read(place(run, results)).error()
        for key in _words(run):
            row = runs.setdefault((run.learner, *key), {})
            row[run.dataset] = min(error, row.get(run.dataset, error))
    rows = [
        [title_of(learner), f"{word} = {value}", *_cells(experiment, errors)]
        for (learner, word, value), errors in runs.items()
    ]
    head = ("method", "reading", *(source.title for source in experiment.sources))
    notes = [
        "lowest macro error, %, of all trials with that reading on the part of the held-out "
        "shuffle that tuning sees: less of the stream than the tables show, so higher",
    ]
    title = "The best of each reading in tuning"
    return Table(title, head, mark_best(rows, (None,) * len(head)), notes)


def _words(run: Run) -> list[tuple[str, str]]:
    """The run's choices among words."""
    space, setting = LEARNERS[run.learner].space, dict(run.parameters)
    return [
        (name, setting[name])
        for name, values in space.items()
        if all(isinstance(value, str) for value in values)
    ]


def _cells(experiment: Experiment, errors: Mapping[str, float]) -> list[str]:
    found = [errors.get(source.dataset, float("inf")) for source in experiment.sources]
    return ["failed" if error == float("inf") else f"{100 * error:.2f}" for error in found]


def _space(name: str) -> str:
    told = []
    for parameter, values in LEARNERS[name].space.items():
        if all(isinstance(value, str) for value in values):
            told.append(f"{parameter}: {', '.join(values)}")
        else:
            told.append(f"{parameter}: {min(values):g} to {max(values):g}")
    return "; ".join(told)
