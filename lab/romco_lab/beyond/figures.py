"""Figures of the report beyond the paper: learning curves and reliability."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from romco.compare.controls import title_of
from romco.compare.results import Finished
from romco_lab.beyond.contest import AUTO, LATE_LEARNERS, Contest
from romco_lab.beyond.probes import EDGES
from romco_lab.figures import COLOURS, LOOK, band, canvas, line_styles


def draw_curves(contest: Contest, directory: Path) -> Path:
    """Error of a task's events, by how many it has had before."""
    styles = line_styles(LATE_LEARNERS)
    with canvas(1, len(contest.datasets), *_size(contest)) as (figure, (row,)):
        for axes, dataset in zip(row, contest.datasets, strict=True):
            for name in LATE_LEARNERS:
                files = contest.stored(dataset, name)
                if files is None:  # not run again
                    continue
                at, curves = learning_curve(files)
                band(axes, at, 100 * curves, title_of(name), styles[name])
            axes.set(title=dataset, xlabel="events of the task", xscale="log", ylim=(0, None))
            _plain_ticks(axes, at)
        row[0].set_ylabel("error in that stretch, %")
        row[-1].legend(fontsize=8)
        return _save(figure, directory, "learning-curves")


def learning_curve(files: Sequence[Finished]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """Ends of stretches (k,), and errors in them (shuffles, k) over all tasks' events."""
    pairs = [np.array(file.last["scores"]["by_turn"]).sum(axis=2) for file in files]
    wrong, events = np.array(pairs).transpose(1, 0, 2)
    enough = (events >= 20).all(axis=0)  # a handful of events says nothing
    starts = np.array([0, *EDGES[:-1]])
    middle = np.sqrt(np.maximum(starts, 1) * np.array(EDGES))
    return middle[enough], wrong[:, enough] / events[:, enough]


def draw_reliability(contest: Contest, directory: Path) -> Path:
    """Draw the share of positives by stated probability; the size of a dot is their number."""
    with canvas(1, len(contest.datasets), *_size(contest)) as (figure, (row,)):
        for axes, dataset in zip(row, contest.datasets, strict=True):
            bins = np.sum([f.last["scores"]["bins"] for f in contest.best(dataset, AUTO)], axis=0)
            events, said, true = bins[bins[:, 0] >= 100].T
            axes.plot([0, 1], [0, 1], color="#888888", linewidth=0.8)
            sizes = 6 + 150 * events / events.sum()
            axes.plot(said / events, true / events, color=COLOURS[0], linewidth=1.2)
            axes.scatter(said / events, true / events, sizes, color=COLOURS[0], zorder=3)
            axes.set(title=dataset, xlabel="stated probability", xlim=(0, 1), ylim=(0, 1))
        row[0].set_ylabel("share of positives")
        return _save(figure, directory, "reliability")


def _plain_ticks(axes: Any, at: NDArray[Any]) -> None:
    some = (3, 10, 30, 100, 300) if at[-1] < 1000 else (10, 100, 1000)  # no room for more
    shown = [n for n in some if at[0] <= 1.1 * n and n <= 1.1 * at[-1]]
    axes.set_xticks(shown, [str(n) for n in shown])
    axes.minorticks_off()


def _size(contest: Contest) -> tuple[float, float]:
    return 2.4 * len(contest.datasets) + 0.6, 2.8


def _save(figure: Figure, directory: Path, name: str) -> Path:
    """One small PNG, for a page in the repository."""
    directory.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(LOOK):
        figure.savefig(directory / f"{name}.png", dpi=110)
    return directory / f"{name}.png"
