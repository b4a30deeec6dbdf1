"""The paper's experiment as lists of runs: tuning, tables, sensitivity."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare.results import Finished, read
from romco.compare.run import Run, complete, place
from romco.compare.sources import digest_of, stream_of
from romco.learners import LEARNERS
from romco.streams.datasets import DATASETS, VARIANT_MARK, present
from romco_lab.learner_runs import Outcome, equal_trials, grid_trials, outcomes

TUNING_SEED = 1706_01824  # a shuffle used for nothing else
ROMCO = ("romco-nucl", "romco-logd")
# Figure 6: which data set, which parameter moves over which powers of ten, what stays fixed.
SENSITIVITY = (
    ("spam", "lambda1", range(-6, 1), {"lambda2": 1e-4}),
    ("spam", "lambda2", range(-7, 2), {"lambda1": 1e-4}),
    ("mhc", "lambda1", range(-5, 1), {"lambda2": 1e-4}),
    ("mhc", "lambda2", range(-6, 1), {"lambda1": 1.0}),
)
PAPER_SETS = ("spam", "mhc", "movies", "emails")
Chosen = Mapping[tuple[str, str], tuple[tuple[str, Any], ...]]  # (data set, learner): parameters


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper, and the stream that stands for it here."""

    name: str  # as the paper knows it: spam, mhc, movies
    dataset: str  # the same, or a simulated one of its shape

    @property
    def real(self) -> bool:
        """True for the data themselves, in whatever preparation."""
        return self.name == self.dataset.partition(VARIANT_MARK)[0]

    @property
    def title(self) -> str:
        """Name for a page, which mentions that data are simulated."""
        if self.real:
            return self.name
        return f"{self.name} (SIMULATED data of the same shape)"


@dataclass(frozen=True)
class Curve:
    """One line of Figure 6, before it has run."""

    source: PaperData
    learner: str
    parameter: str
    fixed: tuple[tuple[str, float], ...]
    points: tuple[tuple[float, tuple[Run, ...]], ...]  # value, its shuffles


@dataclass(frozen=True)
class Experiment:
    """Everything that decides which runs there are."""

    sources: tuple[PaperData, ...]
    learners: tuple[str, ...] = tuple(LEARNERS)
    shuffles: int = 10
    batch_shuffles: int | None = None  # the first so many for batch methods; None for all
    trials: int = 20  # for each parameter that tuning may move; for a batch method in all
    tuning: str = "equal"
    order: str = "synchronous"
    tuned_on: float = 0.5  # share of the tuning shuffle's rounds, counted from its beginning
    run_on: float = 1.0  # share of every other shuffle's rounds, for a quick look
    data_dir: Path | None = None

    def tuning_runs(self) -> list[Run]:
        """Every trial of every learner on the tuning shuffle."""
        runs = []
        for source in self.sources:
            rounds = self._rounds(source, self.tuned_on)
            for learner in self.learners:
                for setting in self._trials(learner):
                    run = self._run(source, learner, complete(learner, setting), TUNING_SEED)
                    runs.append(replace(run, rounds=rounds, records=1))  # needs no curve
        return runs

    def chosen(self, results: Path) -> dict[tuple[str, str], tuple[tuple[str, Any], ...]]:
        """For each data set and learner the trial with the lowest macro error; first wins ties."""
        best: dict[tuple[str, str], Finished] = {}
        for run in self.tuning_runs():
            found = read(place(run, results))
            key = (run.dataset, run.learner)
            if key not in best or found.error() < best[key].error():
                best[key] = found
        return {key: found.run.parameters for key, found in best.items()}

    def main_runs(self, chosen: Chosen) -> list[Run]:
        """The runs behind the tables: each learner as tuned, on every shuffle."""
        return [
            self._run(source, learner, chosen[source.dataset, learner], seed)
            for source in self.sources
            for seed in range(self.shuffles)
            for learner in self.learners
            if seed < self._shuffles(learner)
        ]

    def sensitivity(self, chosen: Chosen) -> list[Curve]:
        """The curves of Figure 6; step sizes as tuned."""
        return [
            self._curve(source, learner, parameter, powers, fixed, chosen)
            for name, parameter, powers, fixed in SENSITIVITY
            for source in self.sources
            if source.name == name
            for learner in ROMCO
            if learner in self.learners
        ]

    def outcomes(self, source: PaperData, chosen: Chosen, results: Path) -> list[Outcome]:
        """Return the outcomes of one data set, for the tables."""
        runs = [run for run in self.main_runs(chosen) if run.dataset == source.dataset]
        return outcomes(runs, results)

    def _shuffles(self, learner: str) -> int:
        """Return the number of shuffles of a method."""
        fewer = self.batch_shuffles if LEARNERS[learner].keeps_events else None
        if fewer is None:
            return self.shuffles
        return min(fewer, self.shuffles)

    def _trials(self, learner: str) -> list[dict[str, Any]]:
        if self.tuning == "grid":
            return grid_trials(learner)
        method = LEARNERS[learner]
        parameters = 1 if method.keeps_events else max(1, len(method.space))
        return equal_trials(learner, self.trials * parameters)

    def _rounds(self, source: PaperData, share: float) -> int | None:
        """Return the number of rounds of a share of a shuffle; None for all."""
        if share >= 1.0:
            return None
        stream = stream_of(source.dataset, self.data_dir)
        synchronous = self.order == "synchronous"
        n = int(np.bincount(stream.task).max()) if synchronous else stream.n_events
        return max(1, round(share * n))

    def _run(
        self, source: PaperData, learner: str, parameters: tuple[tuple[str, Any], ...], seed: int
    ) -> Run:
        digest = digest_of(source.dataset, self.data_dir)
        rounds = self._rounds(source, self.run_on)
        return Run(source.dataset, digest, learner, parameters, self.order, seed, rounds)

    def _curve(
        self,
        source: PaperData,
        learner: str,
        parameter: str,
        powers: Iterable[int],
        fixed: Mapping[str, float],
        chosen: Chosen,
    ) -> Curve:
        tuned = dict(chosen[source.dataset, learner])
        points = []
        for power in powers:
            value = 10.0**power
            pairs = complete(learner, {**tuned, **fixed, parameter: value})
            runs = [self._run(source, learner, pairs, seed) for seed in range(self.shuffles)]
            points.append((value, tuple(replace(run, records=1) for run in runs)))
        return Curve(source, learner, parameter, tuple(fixed.items()), tuple(points))


def sources_for(name: str, data_dir: Path | None = None) -> tuple[PaperData, ...]:
    """The data sets behind a word of the command line: a name, or ``all`` of the paper's shapes.

    A real data set without files is replaced by the simulated one of its shape.

    >>> sources_for("spam", Path("no-such-place"))
    (PaperData(name='spam', dataset='spam-like'),)
    """
    if name != "all" and name not in DATASETS:
        raise ValueError(f"no data set {name!r}; there are all, {', '.join(DATASETS)}")
    names = list(PAPER_SETS) if name == "all" else [name]
    return tuple(PaperData(each, _standing_for(each, data_dir)) for each in names)


def _standing_for(name: str, data_dir: Path | None) -> str:
    if present(name, data_dir):
        return name
    if f"{name}-like" not in DATASETS:
        raise ValueError(f"data set {name!r} is not here, and there is no {name}-like to stand in")
    return f"{name}-like"
