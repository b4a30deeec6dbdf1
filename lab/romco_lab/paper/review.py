"""Fairness of the comparison: runs beside the main experiment, and the page they make."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from romco.compare.run import Run
from romco.learners import LEARNERS
from romco.presentation.tables import Table, mark_best, markdown
from romco_lab.learner_runs import Outcome, mean_and_spread
from romco_lab.paper import readings
from romco_lab.paper.charts import as_markdown
from romco_lab.paper.experiment import Chosen, Experiment, PaperData
from romco_lab.paper.hindsight import STEPS, STRENGTHS, Hindsight
from romco_lab.paper.printed import printed
from romco_lab.paper.rivals import readings_table, rivals_table
from romco_lab.paper.worlds import MAPS, WorldMap

PREPARED = ("spam@gain, logarithms", "spam@frequency, counts", "spam@frequency, logarithms")


@dataclass(frozen=True)
class Extent:
    """Numbers of runs."""

    trials: int = 6  # for each parameter, of every reading of ROMCO
    steps: tuple[float, ...] = STEPS
    strengths: tuple[float, ...] = STRENGTHS
    maps: tuple[WorldMap, ...] = MAPS


@dataclass(frozen=True)
class Review:
    """The readings of ROMCO, its best in hindsight, the preparations of spam, simulated worlds."""

    experiment: Experiment
    chosen: Chosen
    extent: Extent

    @property
    def study(self) -> readings.Study:
        """Each reading of ROMCO."""
        return readings.Study(replace(self.experiment, trials=self.extent.trials))

    @property
    def hindsight(self) -> Hindsight:
        """The dense grid."""
        extent = self.extent
        return Hindsight(self.experiment, self.chosen, extent.steps, extent.strengths)

    @property
    def preparations(self) -> Experiment | None:
        """Spam in all four preparations, for all that learns event by event; None without it."""
        real = [s for s in self.experiment.sources if s.name == s.dataset == "spam"]
        quick = tuple(n for n in self.experiment.learners if not LEARNERS[n].keeps_events)
        sources = (*real, *(PaperData("spam", name) for name in PREPARED))
        if real:
            return replace(self.experiment, sources=sources, learners=quick)
        return None

    def passes(self, results: Path) -> Iterator[tuple[str, list[Run]]]:
        """Yield lists of runs, in order; later ones depend on the results of earlier ones."""
        yield from self.hindsight.passes(results)
        spam = self.preparations
        if spam is not None:
            yield "preparations: tuning", spam.tuning_runs()
            yield "preparations: shuffles", spam.main_runs(spam.chosen(results))
        yield from readings.passes(self.study, results)
        for one in self.extent.maps:
            yield from one.passes(results)

    def page(self, measured: dict[PaperData, list[Outcome]], results: Path, out: Path) -> str:
        """Return the page that answers a reviewer of the paper."""
        spam = self.preparations
        parts = [INTRODUCTION, "## The rivals", markdown(rivals_table())]
        parts += [markdown(readings_table(self.experiment, results))]
        parts += ["## ROMCO itself", markdown(self.hindsight.table(measured, results)), READINGS]
        if spam is not None:
            parts += ["## Four preparations of spam", PREPARATIONS]
            parts.append(markdown(preparations_table(spam, results)))
        if self.extent.maps:
            parts += ["## Where the claims hold: simulated worlds", WORLDS]
        for one in self.extent.maps:
            found = one.panels(results)
            parts.append(as_markdown(one.draw(found, out / "figures")))
            parts += [markdown(table) for table in one.tables(found)]
        return "\n\n".join(parts) + "\n"


INTRODUCTION = """# Was it fair?

What a reviewer would ask before believing that a paper's ranking is not reproduced: had each \
rival its best reading and range, had the method itself, do the data allow the claim at all, and \
where would it hold? Every figure on this page is from the same run as the [report](README.md)."""
READINGS = """Where the text of the paper allows more than one reading of ROMCO, \
each reading was tuned and measured anew. These are updates on losses or on mistakes, prox in \
every round, falling steps, C, rows scaled or not, and rounds or events: \
[Where the paper leaves a choice](../reproduction.md)."""
PREPARATIONS = """The paper says "TF-IDF" and gives the number of features, no more. The form \
of the main tables was chosen among these four after the printed averages had been seen: its \
nearness to them is no evidence. Here are all four; every method is tuned anew on each. The \
batch methods are left out, for their time."""
WORLDS = """In worlds of which the truth is known, the claim "ROMCO is better" has a place. There \
are 20 tasks and 50 features; ordinary tasks share a space of low rank, outliers have weights of \
their own. The maps show where it is, and how large the gain is. Unlike in the tables, the \
intervals are over fresh draws of the truth and the events, not only over their order."""


def preparations_table(experiment: Experiment, results: Path) -> Table:
    """Error of each method on each preparation."""
    chosen = experiment.chosen(results)
    found = [experiment.outcomes(s, chosen, results) for s in experiment.sources]
    best = [min(float(np.mean(o.macro("error_rate"))) for o in column) for column in found]
    rows = []
    for each in zip(*found, strict=True):
        was = printed("spam", each[0].learner, "macro", "error_rate")
        cells = [_error(outcome, low) for outcome, low in zip(each, best, strict=True)]
        rows.append([each[0].title, *cells, "" if was is None else f"{was:.2f}"])
    names = [s.dataset.partition("@")[2] or "gain, counts (main)" for s in experiment.sources]
    head = ("method", *names, "printed")
    notes = [
        "error, %, mean ± standard deviation over shuffles; the lowest of each column in bold",
        "gain: each user's 382 numbers that tell most about the label (looks ahead at labels); "
        "frequency: each user's 500 most frequent ones; counts or logarithms of counts, times idf",
    ]
    title = "spam in four preparations"
    return Table(title, head, mark_best(rows, (None,) * len(head)), notes)


def _error(outcome: Outcome, lowest: float) -> str:
    values = outcome.macro("error_rate")
    text = mean_and_spread(values, 100)
    if float(values.mean()) == lowest:
        return f"**{text}**"
    return text
