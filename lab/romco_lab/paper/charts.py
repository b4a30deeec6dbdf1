"""The paper's six figures, drawn from results."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.spatial.distance import squareform

from romco.compare.controls import title_of
from romco.compare.results import Finished
from romco_lab.figures import COLOURS, band, canvas, line_styles, save
from romco_lab.learner_runs import Outcome
from romco_lab.paper.experiment import PaperData
from romco_lab.paper.verdict import Sweep

CaptionedFigure = tuple[Path, str]  # the SVG and its caption
NAMES = {"error_rate": "error, %", "f1_positive": "F1 of +1, %", "f1_negative": "F1 of -1, %"}


def as_markdown(drawn: CaptionedFigure) -> str:
    """Return a figure and its caption for a page of the report."""
    svg, text = drawn
    return f"![{text}](figures/{svg.stem}.png)\n\n{text}"


def draw_decompositions(
    found: Sequence[tuple[PaperData, Finished]], directory: Path
) -> CaptionedFigure:
    """Figure 1: a learned W = U + V for each data set, tasks clustered."""
    with canvas(len(found), 3, 9.0, 2.3 * len(found) + 0.4) as (figure, rows):
        for row, (source, run) in zip(rows, found, strict=True):
            u = np.array(run.end["shared"])
            v = np.array(run.end["personal"])
            order = clustered(np.array(run.end["likeness"]))
            for axes, part, name in zip(row, (u + v, u, v), ("W = U + V", "U", "V"), strict=True):
                _heat(figure, axes, part[:, order].T)
                axes.set_title(f"{source.title.split(' ')[0]}: {name}")
            row[0].set_ylabel("tasks, clustered")
        for axes in rows[-1]:
            axes.set_xlabel("features with the largest weights")
        path = save(figure, directory, "figure1")
    titles = "; ".join(source.title for source, _ in found)
    text = "Figure 1. Weights that ROMCO-NuCl learned (first shuffle); each panel has its own scale"
    return path, f"{text}, purple negative, orange positive. Data: {titles}."


def draw_surrogates(directory: Path) -> CaptionedFigure:
    """Figure 2: rank, nuclear norm and log-determinant of one singular value."""
    s = np.linspace(0, 4, 401)
    with canvas(1, 1, 4.2, 2.9) as (figure, ((axes,),)):
        axes.plot(s, s, color=COLOURS[0], label="nuclear norm: s")
        label = "log-determinant: log(1 + s²)"
        axes.plot(s, np.log1p(s**2), color=COLOURS[1], linestyle=(0, (5, 1.5)), label=label)
        axes.plot([0, 4], [1, 1], color="#000000", linestyle=(0, (1, 1)), label="rank: 1 if s > 0")
        axes.plot([0], [0], "o", color="#000000", markersize=4)
        axes.set(xlabel="singular value s", ylabel="value", xlim=(0, 4), ylim=(-0.08, 3))
        axes.legend(loc="upper left")
        path = save(figure, directory, "figure2")
    return path, "Figure 2. Rank and its two surrogates as functions of one singular value."


def draw_tasks(
    name: str, source: PaperData, outcomes: Sequence[Outcome], directory: Path, columns: int
) -> CaptionedFigure:
    """Figures 3 and 4: cumulative error of each task along the stream."""
    stream = outcomes[0].runs[0].stream
    tasks = stream["tasks"]
    rows = -(-len(tasks) // columns)
    styles = line_styles([outcome.learner for outcome in outcomes])
    with canvas(rows, columns, 9.0, 2.2 * rows + 0.9) as (figure, grid):
        for axes in grid.flat[len(tasks) :]:
            axes.axis("off")
        for i, axes in zip(range(len(tasks)), grid.flat, strict=False):
            curves = [100 * outcome.task_curve("error_rate", i) for outcome in outcomes]
            for outcome, values in zip(outcomes, curves, strict=True):
                at = outcome.rounds()
                kept = records_before_end(outcome, i)
                band(axes, at[kept], values[:, kept], outcome.title, styles[outcome.learner])
            _limits(axes, curves)
            axes.set_title(tasks[i], fontsize=9)
        _label(grid, "round", "cumulative error, %")
        handles, labels = grid.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
        path = save(figure, directory, name.lower().replace(" ", ""))
    text = "Cumulative error of each task along the stream, methods of the paper as tuned"
    return path, f"{name}. {source.title}. {text}; bands: one standard deviation over shuffles."


def draw_averages(
    name: str, source: PaperData, outcomes: Sequence[Outcome], directory: Path, file: str
) -> CaptionedFigure:
    """Figure 5: averages over tasks of error and both F1 along the stream."""
    styles = line_styles([outcome.learner for outcome in outcomes])
    with canvas(1, 3, 9.0, 3.6) as (figure, (row,)):
        for axes, (measure, label) in zip(row, NAMES.items(), strict=True):
            curves = [100 * outcome.curve(measure) for outcome in outcomes]
            for outcome, values in zip(outcomes, curves, strict=True):
                band(axes, outcome.rounds(), values, outcome.title, styles[outcome.learner])
            _limits(axes, curves)
            axes.set(xlabel="round", ylabel=label)
        handles, labels = row[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=6, fontsize=8)
        path = save(figure, directory, file)
    text = "Averages over tasks along the stream; bands: one standard deviation over shuffles"
    return path, f"{name}. {source.title}. {text}."


def draw_sensitivity(sweeps: Sequence[Sweep], directory: Path) -> CaptionedFigure:
    """Figure 6: error against one lambda, the other fixed."""
    panels = list(dict.fromkeys((sweep.source, sweep.parameter) for sweep in sweeps))
    styles = line_styles(list(dict.fromkeys(sweep.learner for sweep in sweeps)))
    with canvas(1, len(panels), 2.6 * len(panels), 2.8) as (figure, (row,)):
        for axes, panel in zip(row, panels, strict=True):
            for sweep in sweeps:
                if (sweep.source, sweep.parameter) == panel:
                    style = styles[sweep.learner] | {"marker": "o", "markersize": 3}
                    label = title_of(sweep.learner)
                    band(axes, sweep.values, 100 * sweep.errors.T, label, style)
                    fixed = ", ".join(f"{k} = {v:g}" for k, v in sweep.fixed.items())
            axes.set_title(f"{panel[0].title.split(' ')[0]}, {fixed}", fontsize=9)
            axes.set(xscale="log", xlabel=panel[1])
        row[0].set_ylabel("error, %")
        row[0].legend()
        path = save(figure, directory, "figure6")
    titles = "; ".join(dict.fromkeys(sweep.source.title for sweep in sweeps))
    return (
        path,
        f"Figure 6. Sensitivity to lambda1 and lambda2, step sizes as tuned. Data: {titles}.",
    )


def records_before_end(outcome: Outcome, task: int) -> NDArray[np.bool_]:
    """Mask of the records before the task's last event; a synchronous task drops out after it."""
    run = outcome.runs[0]
    at = outcome.rounds()
    last = run.stream["events"][task] if run.run.order == "synchronous" else at[-1]
    known = ~np.isnan(outcome.task_curve("error_rate", task)).any(axis=0)
    return known & ((at <= last) | (np.arange(len(at)) == np.searchsorted(at, last)))


def clustered(likeness: NDArray[np.float64]) -> NDArray[np.int64]:
    """An order of tasks that puts similar ones side by side."""
    if len(likeness) < 3:
        return np.arange(len(likeness))
    distance = np.clip(1 - (likeness + likeness.T) / 2, 0, None)
    np.fill_diagonal(distance, 0)
    return np.asarray(leaves_list(linkage(squareform(distance, checks=False), "average")))


def _heat(figure: Any, axes: Any, part: NDArray[np.float64]) -> None:
    top = max(float(np.abs(part).max()), 1e-12)
    image = axes.imshow(part, cmap="PuOr_r", vmin=-top, vmax=top, aspect="auto")
    axes.grid(False)
    axes.set(xticks=[], yticks=[])
    figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02, format="%.2g")


def _limits(axes: Any, curves: Sequence[NDArray[np.float64]]) -> None:
    """Leave out the first few records, where every curve is mostly chance."""
    means = [np.nanmean(values, axis=0) for values in curves]
    late = np.concatenate([mean[max(1, len(mean) // 15) :] for mean in means])
    low = float(late.min())
    high = float(late.max())
    margin = 0.06 * (high - low) + 0.2
    axes.set_ylim(max(0, low - margin), min(100, high + margin))


def _label(grid: Any, below: str, beside: str) -> None:
    for axes in grid[-1]:
        axes.set_xlabel(below)
    for axes in grid[:, 0]:
        axes.set_ylabel(beside)
