"""docs/beyond-the-paper.md, written from stored results."""

from __future__ import annotations

from pathlib import Path

from romco.paper import beyond_tables as tables
from romco.paper.beyond import (
    BATCH_BUDGET,
    BUDGET,
    DEVELOPMENT,
    LOOKED_AT,
    REFIT,
    Contest,
)
from romco.paper.beyond_figures import draw_curves, draw_reliability
from romco.paper.beyond_verdict import verdict_table
from romco.paper.tables import markdown

LEAD = """# Beyond the paper: romco-auto

`romco-auto` has no parameters. Here it runs with its one default against every other
learner of this package **tuned in hindsight on the very shuffles reported**, which no
user could do. This page is written by `{command}` from stored results; every number on
it is measured.

How it was measured: prequential error (each round of at most one event per task is
predicted before it is learned), averaged over tasks, over {shuffles} shuffles
(seeds {first} to {last}). Romco-auto was developed on other shuffles (seeds {dev_first} to
{dev_last}), on which about {looked_at} configurations of it and of its forerunners were looked
at; the shuffles reported were first run for this page. But they hold the *same events*
as the development shuffles: the four data sets are development data, and only other
data can tell how well this carries over.

Tuning: {settings} settings of each learner (its default and points spread over its
space) on the first {pass_one} test shuffles, the best {kept} on all of them, the better of
those is shown. The batch methods MTFL and TRML, refitted every {every} events, get
{batch} settings on one shuffle, the best one on all. Intervals cover the order of events
only.
"""


def write(contest: Contest, docs: Path, command: str) -> Path:
    """The page and its figures, under ``docs``; what people wrote in remarks.md goes into it."""
    figures = docs / "beyond"
    remarks = figures / "remarks.md"
    draw_curves(contest, figures)
    draw_reliability(contest, figures)
    parts = [
        _lead(contest, command),
        "## What was asked\n",
        markdown(verdict_table(contest)),
        remarks.read_text(encoding="utf-8") if remarks.exists() else "",
        "## All learners\n",
        markdown(tables.error_table(contest)),
        markdown(tables.difference_table(contest)),
        "## The intercept's share\n",
        markdown(tables.intercept_table(contest)),
        "## What each part is worth\n",
        markdown(tables.ablation_table(contest)),
        "## Learning curves and new tasks\n",
        "![Error by how many events a task has had](beyond/learning-curves.png)\n",
        "Peers as tuned; bands: one standard deviation over shuffles.\n",
        markdown(tables.cold_table(contest)),
        "## Simulated streams\n",
        markdown(tables.claims_table(contest)),
        markdown(tables.ranking_table(contest)),
        "## Probabilities\n",
        "![Stated probability and share of positives](beyond/reliability.png)\n",
        markdown(tables.calibration_table(contest)),
        "## Cost\n",
        markdown(tables.cost_table(contest)),
    ]
    page = docs / "beyond-the-paper.md"
    page.write_text("\n".join(part for part in parts if part), encoding="utf-8")
    return page


def _lead(contest: Contest, command: str) -> str:
    return LEAD.format(
        command=command,
        shuffles=len(contest.shuffles),
        first=contest.shuffles[0],
        last=contest.shuffles[-1],
        dev_first=DEVELOPMENT[0],
        dev_last=DEVELOPMENT[-1],
        looked_at=LOOKED_AT,
        settings=BUDGET.settings,
        pass_one=BUDGET.first,
        kept=BUDGET.kept,
        every=REFIT["every"],
        batch=BATCH_BUDGET.settings,
    )
