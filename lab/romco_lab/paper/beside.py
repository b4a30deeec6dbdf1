"""Printed numbers and ours on the same scale."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from romco.learners import LEARNERS
from romco_lab.figures import COLOURS, canvas, save
from romco_lab.learner_runs import Outcome
from romco_lab.paper.charts import CaptionedFigure
from romco_lab.paper.experiment import PaperData
from romco_lab.paper.printed import printed

Measured = Mapping[PaperData, Sequence[Outcome]]
FURTHER = ("romco-auto",)  # shown though the paper does not know it


def draw_overview(measured: Measured, directory: Path) -> CaptionedFigure | None:
    """Macro error of every method of the paper on every data set, printed and measured."""
    panels = [(s.title, [(o, "macro") for o in shown(found)], s) for s, found in measured.items()]
    return _draw(panels, directory, "beside", "Error averaged over tasks")


def draw_tasks(measured: Measured, directory: Path) -> CaptionedFigure | None:
    """The same for each task whose numbers the paper prints: the users of spam."""
    panels = []
    for source, found in measured.items():
        for task in found[0].runs[0].stream["tasks"]:
            if any(printed(source.name, o.learner, task, "error_rate") for o in found):
                panels.append((task, [(o, task) for o in shown(found)], source))
    return _draw(panels, directory, "beside-users", "Error of each user of spam")


def shown(found: Sequence[Outcome]) -> list[Outcome]:
    """The paper's methods, in its order, and what is set beside them."""
    return [
        outcome
        for outcome in found
        if not outcome.failed
        and (LEARNERS[outcome.learner].role == "paper" or outcome.learner in FURTHER)
    ]


Panel = tuple[str, list[tuple[Outcome, str]], PaperData]


def _draw(panels: Sequence[Panel], directory: Path, file: str, what: str) -> CaptionedFigure | None:
    if not panels or not panels[0][1]:
        return None
    names = [outcome.title for outcome, _ in panels[0][1]]
    height = 0.26 * len(names) + 1.3
    with canvas(1, len(panels), 2.4 * len(panels) + 1.2, height) as (figure, (row,)):
        for axes, (title, lines, source) in zip(row, panels, strict=True):
            _panel(axes, lines, source)
            axes.set_title(title, fontsize=9)
            axes.set(xlabel="error, %", ylim=(len(lines) - 0.4, -0.6))
            axes.set_yticks(range(len(lines)), names if axes is row[0] else [""] * len(names))
        handles, labels = row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8)
        path = save(figure, directory, file)
    return path, (
        f"{what}: the paper's printed number (open) and ours (filled; bar: one standard deviation "
        "over shuffles) on the same scale; a line joins the two."
    )


def _panel(axes: Any, lines: Sequence[tuple[Outcome, str]], source: PaperData) -> None:
    for at, (outcome, task) in enumerate(lines):
        values = 100 * _errors(outcome, task)
        was = printed(source.name, outcome.learner, task, "error_rate") if source.real else None
        first = at == 0
        if was is not None:
            axes.plot([was, values.mean()], [at, at], color="#999999", linewidth=0.8, zorder=1)
            style = {"facecolors": "white", "edgecolors": COLOURS[1], "zorder": 2}
            axes.scatter([was], [at], 26, label="printed" if first else None, **style)
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        axes.errorbar(
            [values.mean()], [at], xerr=[spread], fmt="o", color=COLOURS[0], markersize=4,
            label="measured here" if first else None, zorder=3,
        )  # fmt: skip


def _errors(outcome: Outcome, task: str) -> Any:
    if task == "macro":
        return outcome.macro("error_rate")
    at = outcome.runs[0].stream["tasks"].index(task)
    return outcome.per_task("error_rate")[:, at]
