"""docs/beyond/report.md, written from stored results."""

from collections.abc import Callable
from pathlib import Path

from romco.presentation.tables import Table, markdown
from romco_lab.beyond import tables
from romco_lab.beyond.contest import (
    BATCH_BUDGET,
    BUDGET,
    DEVELOPMENT,
    REFIT,
    Contest,
)
from romco_lab.beyond.figures import draw_curves, draw_reliability
from romco_lab.beyond.verdict import verdict_table

LEAD = """# Report: romco-auto against all learners

`romco-auto` has no parameters. Here it runs with its one default against every other
learner of this package **tuned in hindsight on the very shuffles reported**, which no
user could do. This page is written by `{command}` from stored results; every number on
it is measured.

How it was measured: prequential error (each round of at most one event per task is
predicted before it is learned), averaged over tasks, over {shuffles} shuffles
(seeds {first} to {last}). Romco-auto was developed on other shuffles (seeds {dev_first} to
{dev_last}) of the *same events*: the four data sets are development data, and only other
data can tell how well this carries over.

Tuning: {settings} settings of each learner (its default and points spread over its
space) on the first {pass_one} test shuffles; the best {kept} go over all of them and the better
one is shown. The batch methods MTFL and TRML, refitted every {every} events, get {batch} settings
on one shuffle, and the best goes over all. Intervals cover the order of events only.
"""


def write(contest: Contest, docs: Path, command: str) -> Path:
    """The page and its figures, under ``docs``; what people wrote in remarks.md goes into it."""
    figures = docs / "beyond"
    remarks = figures / "remarks.md"
    draw_curves(contest, figures)
    draw_reliability(contest, figures)
    parts = [
        _lead(contest, command),
        "## Targets\n",
        _section(verdict_table, contest),
        remarks.read_text(encoding="utf-8") if remarks.exists() else "",
        "## All learners\n",
        _section(tables.error_table, contest),
        _section(tables.difference_table, contest),
        "## The intercept's share\n",
        _section(tables.intercept_table, contest),
        "## What each part is worth\n",
        _section(tables.ablation_table, contest),
        "## Learning curves and new tasks\n",
        "![Error by how many events a task has had](learning-curves.png)\n",
        "Peers as tuned; bands: one standard deviation over shuffles.\n",
        _section(tables.cold_table, contest),
        "## Simulated streams\n",
        _section(tables.claims_table, contest),
        _section(tables.ranking_table, contest),
        "## Probabilities\n",
        "![Stated probability and share of positives](reliability.png)\n",
        _section(tables.calibration_table, contest),
        "## Cost\n",
        _section(tables.cost_table, contest),
    ]
    page = figures / "report.md"
    page.write_text("\n".join(part for part in parts if part), encoding="utf-8")
    return page


def _section(make: Callable[[Contest], Table], contest: Contest) -> str:
    """A table, or that its runs are missing."""
    try:
        return markdown(make(contest))
    except FileNotFoundError:
        return "*Not measured yet: `romco beyond` goes on from the runs that are finished.*\n"


def _lead(contest: Contest, command: str) -> str:
    return LEAD.format(
        command=command,
        shuffles=len(contest.shuffles),
        first=contest.shuffles[0],
        last=contest.shuffles[-1],
        dev_first=DEVELOPMENT[0],
        dev_last=DEVELOPMENT[-1],
        settings=BUDGET.settings,
        pass_one=BUDGET.first,
        kept=BUDGET.kept,
        every=REFIT["every"],
        batch=BATCH_BUDGET.settings,
    )
