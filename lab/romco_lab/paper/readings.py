"""Gaps and contradictions of the paper: each choice, and what it changes, measured."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.compare.controls import title_of
from romco.compare.results import read
from romco.compare.run import Run, complete, place
from romco.compare.sources import stream_of
from romco.presentation.tables import Table, mark_best, markdown
from romco.streams.datasets import DATASETS
from romco_lab.learner_runs import Progress, outcomes, paired, perform
from romco_lab.paper.experiment import ROMCO, Experiment, PaperData


@dataclass(frozen=True)
class Choice:
    """A point that the paper leaves open, the reading taken here, and another one."""

    point: str
    paper: str  # what the text says
    reading: str  # what is the default here
    other: str  # what is measured against it
    change: Mapping[str, Any] = field(default_factory=dict)  # parameters that make the other
    order: str = "synchronous"
    tied: bool = False  # one step size for both parts
    unscaled: bool = False  # rows as long as they are
    learners: tuple[str, ...] = ROMCO


MEASURED = (
    Choice(
        "When to update",
        'the prose says "mistake-driven", Algorithms 1 and 2 test for a positive loss',
        "a round with any positive hinge loss",
        "a round with any mistake",
        {"update": "mistake"},
    ),
    Choice(
        "Prox in rounds without loss",
        "the algorithms skip such rounds; the regret bound needs the prox in every round",
        "skipped, as printed",
        "prox in every round",
        {"always_prox": True},
    ),
    Choice(
        "Step sizes along the stream",
        "fixed and tuned; the bound wants steps that fall with the length of the stream",
        "constant",
        "eta / sqrt(t)",
        {"step": "inverse-sqrt"},
    ),
    Choice(
        "One step size or two",
        "the theory has one eta, the algorithms two",
        "two",
        "one: eta2 = eta1",
        tied=True,
    ),
    Choice(
        "rho of the log-determinant, falling fast",
        'rho = eta1 lambda1, tuned; and also "initialise 1/rho = 1 and increase it"',
        "rho = eta1 lambda1, constant",
        "rho = 1/t",
        {"rho": "1/t"},
        learners=("romco-logd",),
    ),
    Choice(
        "rho of the log-determinant, falling slowly",
        "as above",
        "rho = eta1 lambda1, constant",
        "rho = 1/sqrt(t)",
        {"rho": "1/sqrt(t)"},
        learners=("romco-logd",),
    ),
    Choice(
        "Rounds or single events",
        '"m instances at one time" for tasks of unequal length',
        "round t holds the t-th event of every task that still has one",
        "one event at a time, tasks in random order",
        order="interleaved",
    ),
    Choice(
        "Length of rows",
        "not said for any data set",
        "rows of unit length",
        "rows as long as they are; steps and penalties searched in the matching units",
        unscaled=True,
    ),
    Choice(
        "C, if it is the weight of the loss",
        '"C = 1" for ROMCO, though no formula has a C',
        "C = 1",
        "C = 0.1: steps and penalties then stand in another proportion",
        {"C": 0.1},
    ),
)
SETTLED = (
    ("sign(0)", "undefined", "+1 for every learner; costs a task at most one event"),
    ("indices", "init u_0, loop from t = 1, output w_T", "U = V = 0 at the start; the final state"),
    ("Omega", "a closed convex set, never used", "no constraint"),
    (
        "term weights of the spam set",
        '"TF-IDF", no formula',
        "count times idf, of four forms the one whose PA error came nearest to the printed "
        "mean: that it is near is therefore no evidence of a reproduction",
    ),
    ("who is shrunk", "any loss triggers the prox of everything", "as written: all columns"),
    (
        "the penalty as a function of W",
        "r(W) = g([I I]W)",
        "a penalty on the pair (U, V): it is not a function of U + V",
    ),
    (
        "batch methods",
        '"retrain after observing 100 samples", default parameters',
        "all events so far, refitted after every 100 new ones of any task, tuned like the rest",
    ),
    (
        "standard deviations in the tables",
        "unclear; too large to be over shuffles",
        "both are given: over shuffles and over tasks",
    ),
)


@dataclass(frozen=True)
class Study:
    """The experiment once more for every choice, each reading tuned anew by the same trials."""

    experiment: Experiment
    choices: tuple[Choice, ...] = MEASURED

    def tuning_runs(self, choice: Choice | None, source: PaperData, learner: str) -> list[Run]:
        """Trials of one reading; None is the default one."""
        base = self._alone(choice, source, learner)
        units = _units(choice, base)
        return list(dict.fromkeys(_altered(run, choice, units) for run in base.tuning_runs()))

    def main_runs(
        self, choice: Choice | None, source: PaperData, learner: str, results: Path
    ) -> list[Run]:
        """The shuffles of one reading as tuned."""
        trials = [read(place(run, results)) for run in self.tuning_runs(choice, source, learner)]
        best = min(trials, key=lambda trial: trial.error()).run.parameters
        base = self._alone(choice, source, learner)
        runs = base.main_runs({(base.sources[0].dataset, learner): best})
        return [replace(run, records=1) for run in runs]

    def _alone(self, choice: Choice | None, source: PaperData, learner: str) -> Experiment:
        """The experiment of one reading of one learner on one data set."""
        has_variant = source.dataset in DATASETS and "unscaled" in DATASETS[source.dataset].variants
        if choice is not None and choice.unscaled and has_variant:
            source = PaperData(source.name, f"{source.dataset}@unscaled")
        return replace(
            self.experiment, sources=(source,), learners=(learner,), order=_order(choice)
        )

    def parts(self) -> list[tuple[Choice | None, PaperData, str]]:
        """Every reading of every learner on every data set, the default first."""
        return [
            (choice, source, learner)
            for choice in (None, *self.choices)
            for source in self.experiment.sources
            for learner in (ROMCO if choice is None else choice.learners)
        ]


def passes(plan: Study, results: Path) -> Iterator[tuple[str, list[Run]]]:
    """Yield lists of runs, in order; the second depends on the results of the first."""
    parts = plan.parts()
    yield "choices: tuning", [run for part in parts for run in plan.tuning_runs(*part)]
    yield "choices: shuffles", [run for part in parts for run in plan.main_runs(*part, results)]


def study(plan: Study, out: Path, jobs: int | None, command: str, progress: Progress) -> Path:
    """Run what has not run yet; write ``reproduction.md``."""
    results = out / "runs"
    for what, runs in passes(plan, results):
        with progress(what, len(dict.fromkeys(runs))) as done:
            perform(runs, results, plan.experiment.data_dir, jobs, done)
    path = out / "reproduction.md"
    path.write_text(page_text(plan, results, command), encoding="utf-8")
    return path


def page_text(plan: Study, results: Path, command: str) -> str:
    """The page, from results."""
    experiment = plan.experiment
    names = ", ".join(source.title for source in experiment.sources)
    parts = [
        "# Where the paper leaves a choice",
        "Every point on which the paper is silent or contradicts itself, the reading taken here, "
        "and, where another reading is possible, what it changes.",
        f"Measured on {names}: {experiment.shuffles} shuffles; each reading is tuned anew by "
        f"{experiment.trials} trials for each of its parameters on a held-out shuffle. Figures are "
        "points of percent of macro error, the other reading minus the default one on the same "
        "shuffles (negative: the other reading is better), with a 95 % interval over shuffles.",
        "## In short",
        markdown(_summary(plan, results)),
        "## Choice by choice",
    ]
    for choice in plan.choices:
        parts += [f"### {choice.point}", f"- The paper: {choice.paper}.\n- Here: {choice.reading}."]
        parts.append(markdown(_differences(plan, choice, results)))
    parts += ["## Settled without measuring", markdown(_settled())]
    parts.append(f"---\n\nMade by `{command}`; not edited by hand.")
    return "\n\n".join(parts) + "\n"


def _differences(plan: Study, choice: Choice, results: Path) -> Table:
    rows = []
    for learner in choice.learners:
        row = [title_of(learner)]
        for source in plan.experiment.sources:
            default, other = (_errors(plan, c, source, learner, results) for c in (None, choice))
            row.append(f"{100 * other.mean():.2f} against {100 * default.mean():.2f}: ")
            row[-1] += str(paired(other, default)).rpartition(",")[0]
        rows.append(row)
    head = ("learner", *(source.title for source in plan.experiment.sources))
    return Table(f"Other reading: {choice.other}", head, mark_best(rows, (None,) * len(head)))


def _summary(plan: Study, results: Path) -> Table:
    rows = []
    for choice in plan.choices:
        for learner in choice.learners:
            row = [choice.point, choice.other, title_of(learner)]
            for source in plan.experiment.sources:
                default, other = (
                    _errors(plan, c, source, learner, results) for c in (None, choice)
                )
                found = paired(other, default)
                mark = {"holds": " better", "does not hold": " worse"}.get(found.status, "")
                row.append(f"{found.mean:+.2f}{mark}")
            rows.append(row)
    head = ("point", "other reading", "learner", *(s.title for s in plan.experiment.sources))
    note = "better, worse: of the other reading, where the interval leaves no doubt"
    return Table(
        "What the other reading changes", head, mark_best(rows, (None,) * len(head)), [note]
    )


def _settled() -> Table:
    head = ("point", "the paper", "here")
    return Table("Points with one sensible reading", head, mark_best(SETTLED, (None,) * 3))


def _errors(
    plan: Study, choice: Choice | None, source: PaperData, learner: str, results: Path
) -> NDArray[np.float64]:
    [found] = outcomes(plan.main_runs(choice, source, learner, results), results)
    return found.macro("error_rate")


def _order(choice: Choice | None) -> str:
    if choice is None:
        return "synchronous"
    return choice.order


def _units(choice: Choice | None, experiment: Experiment) -> float:
    """The median squared length of a row: by it steps are divided, by its root penalties grow.

    That leaves ROMCO-NuCl on rows of any one length as it was on rows of unit length.
    """
    if choice is None or not choice.unscaled:
        return 1.0
    x = stream_of(experiment.sources[0].dataset, experiment.data_dir).x
    squares = x**2 if isinstance(x, np.ndarray) else x.multiply(x)
    return float(np.median(np.asarray(squares.sum(axis=1))))


def _altered(run: Run, choice: Choice | None, units: float = 1.0) -> Run:
    if choice is None:
        return run
    setting = {**dict(run.parameters), **choice.change}
    for name, scale in (("eta", 1.0 / units), ("lambda", units**0.5)):
        for part in (f"{name}1", f"{name}2"):
            setting[part] = float(f"{setting[part] * scale:.6g}")
    if choice.tied:
        setting["eta2"] = setting["eta1"]
    return replace(run, parameters=complete(run.learner, setting))
