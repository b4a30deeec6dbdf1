"""Simulated worlds: where, between two axes, the paper's claims do hold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare.controls import title_of
from romco.compare.results import read
from romco.compare.run import Run, complete, place
from romco.learners import LEARNERS
from romco.presentation.tables import Table, mark_best
from romco_lab.figures import canvas, save
from romco_lab.learner_runs import Difference, equal_trials, paired
from romco_lab.paper.experiment import ROMCO

TUNED_ON = 1000  # seed of the world that tuning sees; its truth is another draw
RIVALS = (
    *("pa-unique", "pa-global", "cw-col", "omtl", "osmtl-e", "omtlvon", "omtllog"),
    *("ogd-unique", "pa-shared"),
)
SHAPE = {"n_tasks": 20, "n_features": 50, "n_events": 100, "rank": 2, "outliers": 4, "noise": 0.05}
MADE = "made from its name"  # in place of a digest
Cell = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """A parameter of simulated streams and the values it takes."""

    parameter: str
    values: tuple[float, ...]
    label: str


@dataclass(frozen=True)
class CellResult:
    """One cell: the better variant of ROMCO by tuning, against one rival, over fresh worlds."""

    rival: str
    gap: Difference


Panels = dict[str, dict[Cell, CellResult]]  # by title of a group of rivals


@dataclass(frozen=True)
class WorldMap:
    """Two axes; in each cell every method is tuned on one world and judged on others."""

    name: str
    across: Axis
    down: Axis
    shape: Mapping[str, float] = field(default_factory=lambda: dict(SHAPE))
    trials: int = 6  # for each parameter
    worlds: int = 6

    def passes(self, results: Path) -> Iterator[tuple[str, list[Run]]]:
        """Yield lists of runs, in order."""
        yield (
            f"{self.name}: tuning",
            [
                run
                for cell in self.cells()
                for name in self._names()
                for run in self.tuning_runs(cell, name)
            ],
        )
        yield (
            f"{self.name}: worlds",
            [
                run
                for cell in self.cells()
                for same_world in zip(*self._fresh(cell, results).values(), strict=True)
                for run in same_world
            ],
        )

    def cells(self) -> list[Cell]:
        """All pairs of values."""
        return [(a, d) for d in self.down.values for a in self.across.values]

    def panels(self, results: Path) -> Panels:
        """For each group of rivals and each cell, ROMCO minus the best of the group."""
        found: Panels = {title: {} for title in PANELS}
        for cell in self.cells():
            tuned = {name: self._tuned(cell, name, results)[0] for name in ROMCO}
            mine = min(tuned, key=lambda name: tuned[name])
            errors = self.errors_by_learner(cell, results)
            for title, rivals in PANELS.items():
                best = min(rivals, key=lambda name: float(np.mean(errors[name])))
                found[title][cell] = CellResult(best, paired(errors[mine], errors[best]))
        return found

    def tables(self, found: Panels) -> list[Table]:
        """One table per panel: differences, and the rival where there are many."""
        return [self._table(title, cells) for title, cells in found.items()]

    def draw(self, found: Panels, directory: Path) -> tuple[Path, str]:
        """The map: a panel for each group of rivals."""
        with canvas(2, 2, 9.0, 7.4) as (figure, grid):
            for axes, (title, cells) in zip(grid.flat, found.items(), strict=True):
                self._panel(axes, title, cells)
            for axes in grid[:, 0]:
                axes.set_ylabel(self.down.label)
            path = save(figure, directory, self.name)
        kept = ", ".join(
            f"{key} = {value:g}"
            for key, value in self.shape.items()
            if key not in (self.across.parameter, self.down.parameter)
        )
        return path, (
            f"Error of ROMCO (the variant that tuning prefers) minus that of the rival, points of "
            f"percent, in simulated worlds ({kept}). Green where ROMCO is better, purple where the "
            f"rival is. A star where the 95 % interval over {self.worlds} fresh worlds leaves no "
            f"doubt. Every method tuned by {self.trials} trials per parameter on another world."
        )

    def _panel(self, axes: Any, title: str, found: Mapping[Cell, CellResult]) -> None:
        shape = len(self.down.values), len(self.across.values)
        gaps = np.array([found[cell].gap.mean for cell in self.cells()]).reshape(shape)
        top = max(2.0, float(np.abs(gaps).max()))
        axes.imshow(gaps, cmap="PRGn_r", vmin=-top, vmax=top, aspect="auto")
        for at, cell in enumerate(self.cells()):
            text = _short(found[cell], len(PANELS[title]) > 1, "\n")
            dark = abs(found[cell].gap.mean) > 0.7 * top
            where = (at % shape[1], at // shape[1])
            colour = "white" if dark else "black"
            axes.text(*where, text, ha="center", va="center", fontsize=6.5, color=colour)
        axes.grid(False)
        axes.set_title(title, fontsize=9)
        axes.set(xlabel=self.across.label)
        axes.set_xticks(range(shape[1]), [f"{v:g}" for v in self.across.values])
        axes.set_yticks(range(shape[0]), [f"{v:g}" for v in self.down.values])

    def _table(self, title: str, found: Mapping[Cell, CellResult]) -> Table:
        rows = []
        for d in self.down.values:
            cells = [found[a, d] for a in self.across.values]
            rows.append([f"{d:g}", *(_short(one, len(PANELS[title]) > 1, " ") for one in cells)])
        head = (f"{self.down.label} / {self.across.label}", *(f"{a:g}" for a in self.across.values))
        name = f"{title}: {self.down.label} by {self.across.label}"
        return Table(name, head, mark_best(rows, (None,) * len(head)))

    def _names(self) -> tuple[str, ...]:
        return (*ROMCO, *RIVALS)

    def world_name(self, cell: Cell, seed: int) -> str:
        """Name of the simulated data set of a cell."""
        values = {**self.shape, self.across.parameter: cell[0], self.down.parameter: cell[1]}
        parts = ",".join(f"{key}={value}" for key, value in {**values, "seed": seed}.items())
        return f"simulated@{parts}"

    def _run(self, cell: Cell, learner: str, seed: int, setting: Mapping[str, object]) -> Run:
        dataset = self.world_name(cell, seed)
        parameters = complete(learner, setting)
        return Run(dataset, MADE, learner, parameters, "synchronous", 0, records=1)

    def tuning_runs(self, cell: Cell, learner: str) -> list[Run]:
        """Runs that tuning tries."""
        settings = equal_trials(learner, self.trials * len(LEARNERS[learner].space))
        return [self._run(cell, learner, TUNED_ON, setting) for setting in settings]

    def _tuned(self, cell: Cell, learner: str, results: Path) -> tuple[float, Mapping[str, object]]:
        found = [read(place(run, results)) for run in self.tuning_runs(cell, learner)]
        best = min(found, key=lambda one: one.error())
        return best.error(), dict(best.run.parameters)

    def _fresh(self, cell: Cell, results: Path) -> dict[str, list[Run]]:
        """The runs of every method as tuned, one in each world."""
        tuned = {name: self._tuned(cell, name, results)[1] for name in self._names()}
        return {
            name: [self._run(cell, name, seed, setting) for seed in range(self.worlds)]
            for name, setting in tuned.items()
        }

    def errors_by_learner(self, cell: Cell, results: Path) -> dict[str, list[float]]:
        """Errors of each method as tuned, one for each world."""
        fresh = self._fresh(cell, results)
        return {
            name: [read(place(run, results)).error() for run in runs]
            for name, runs in fresh.items()
        }


PANELS: Mapping[str, tuple[str, ...]] = {
    "against PA-Unique": ("pa-unique",),
    "against PA-Global": ("pa-global",),
    "against the best online rival of the paper": RIVALS[:7],
    "against the best plain control": RIVALS[7:],
}
MAPS = (
    WorldMap(
        "map-outliers",
        Axis("n_events", (25, 50, 100, 200, 400), "events per task"),
        Axis("outliers", (0, 2, 5, 10, 20), "outlier tasks of 20"),
    ),
    WorldMap(
        "map-rank",
        Axis("noise", (0.0, 0.05, 0.1, 0.2), "share of labels flipped"),
        Axis("rank", (1, 2, 4, 8), "rank of the ordinary tasks"),
    ),
)


def _short(found: CellResult, named: bool, between: str) -> str:
    sure = "" if found.gap.status == "undecided" else "*"
    name = f"{between}{title_of(found.rival)}" if named else ""
    return f"{found.gap.mean:+.1f}{sure}{name}"
