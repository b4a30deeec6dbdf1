"""Results files, read back: everything that tables and figures know comes from here."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.compare.plan import Run, title_of
from romco.compare.run import place

Numbers = NDArray[np.float64]
# How summary.csv and the tables call a measure: how a record does.
MEASURES = {"error_rate": "error", "f1_positive": "f1_positive", "f1_negative": "f1_negative"}


@dataclass(frozen=True)
class Finished:
    """The file of one run."""

    run: Run
    stream: dict[str, Any]
    versions: dict[str, str]
    records: list[dict[str, Any]]
    end: dict[str, Any]
    failed: str | None

    @property
    def last(self) -> dict[str, Any]:
        """Where the stream ended."""
        return self.records[-1]

    def error(self) -> float:
        """Macro error at the end; infinite for a run that broke down."""
        return float("inf") if self.failed else float(self.last["scores"]["error"])


@dataclass(frozen=True)
class Outcome:
    """One learner with one setting on one data set: all its shuffles, in order of seed."""

    learner: str
    runs: list[Finished]

    @property
    def title(self) -> str:
        """As tables print it."""
        return title_of(self.learner)

    @property
    def failed(self) -> str | None:
        """Why a shuffle broke down, if one did."""
        return next((run.failed for run in self.runs if run.failed), None)

    @property
    def parameters(self) -> dict[str, Any]:
        """The setting."""
        return dict(self.runs[0].run.parameters)

    def macro(self, measure: str) -> Numbers:
        """Averages over tasks, one per shuffle."""
        return np.array([run.last["scores"][MEASURES[measure]] for run in self.runs])

    def per_task(self, measure: str) -> Numbers:
        """(shuffles, m)."""
        key = f"{MEASURES[measure]}_per_task"
        return np.array([run.last["scores"][key] for run in self.runs], dtype=float)

    def seconds(self) -> Numbers:
        """One per shuffle."""
        return np.array([run.last["seconds"] for run in self.runs])

    def rounds(self) -> NDArray[np.int64]:
        """Where along the stream the records stand."""
        return np.array([record["rounds"] for record in self.runs[0].records])

    def curve(self, measure: str) -> Numbers:
        """Macro averages along the stream (shuffles, points)."""
        key = MEASURES[measure]
        return np.array([[record["scores"][key] for record in run.records] for run in self.runs])

    def task_curve(self, measure: str, task: int) -> Numbers:
        """One task along the stream (shuffles, points)."""
        key = f"{MEASURES[measure]}_per_task"
        values = [[record["scores"][key][task] for record in run.records] for run in self.runs]
        return np.array(values, dtype=float)


def in_common(first: Outcome, second: Outcome) -> tuple[Numbers, Numbers]:
    """Macro errors of both on the shuffles that both ran on, which are the first ones."""
    n = min(len(first.runs), len(second.runs))
    return first.macro("error_rate")[:n], second.macro("error_rate")[:n]


def read(path: Path) -> Finished:
    """One results file."""
    with path.open() as lines:
        head, *records, end = (json.loads(line) for line in lines)
    fields = head["run"]
    for name in ("parameters", "labels"):
        fields[name] = tuple((key, value) for key, value in fields[name])
    return Finished(
        run=Run(**fields),
        stream=head["stream"],
        versions=head["versions"],
        records=records,
        end=end["end"],
        failed=end.get("failed"),
    )


def outcomes(runs: Iterable[Run], results: Path) -> list[Outcome]:
    """The finished files of the runs, by learner in the order first seen."""
    by_learner: dict[str, list[Finished]] = {}
    for run in dict.fromkeys(runs):
        by_learner.setdefault(run.learner, []).append(read(place(run, results)))
    return [
        Outcome(learner, sorted(files, key=lambda file: file.run.seed))
        for learner, files in by_learner.items()
    ]
