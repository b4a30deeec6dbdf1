"""Beyond the paper: every learner tuned in hindsight against romco-auto with its one default.

Romco-auto was developed on the shuffles ``DEVELOPMENT`` and is judged on the shuffles
``TEST``, which were not looked at before. The others are tuned on the test shuffles
themselves: the best settings of a first pass over a few of them go over all of them,
and the best of those is what is reported. This is more than a user could do.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from romco.compare.results import Finished, read
from romco.compare.run import Parameters, Run, complete, place
from romco.learners import LEARNERS
from romco_lab.beyond.ablations import ABLATIONS, SINGLE, VARIANTS
from romco_lab.beyond.probes import probe
from romco_lab.beyond.scenes import (
    CLAIMS,
    CROWDS,
    INTERCEPT,
    LATE_TASKS,
    OWN_ORDER,
    RARE,
    scene_digest,
)
from romco_lab.learner_runs import Progress, equal_trials, perform

DEVELOPMENT = range(1000, 1010)  # shuffles on which romco-auto was made
TEST = range(2000, 2010)  # shuffles on which it is judged
AUTO = "romco-auto"
REAL = ("spam", "emails", "mhc", "movies")
PEERS = ("pa-unique", "arow-unique", "arow-global", "pa-shared", "arow-shared")
BATCH = ("mtfl", "trml")
REFIT = {"every": 500}  # events between fits of the batch methods: their cost is not ours to pay
PLAIN_TOO = ("arow-unique", "arow-global", "arow-shared")  # also shown with their defaults
LATE_LEARNERS = (AUTO, "arow-unique", "arow-global", "arow-shared")
Pair = tuple[str, str]  # data set, learner


@dataclass(frozen=True)
class Budget:
    """Numbers of settings tried, of shuffles they are tried on, and of those that go on to all."""

    settings: int
    first: int  # shuffles of the first pass
    kept: int


BUDGET = Budget(settings=20, first=3, kept=2)
BATCH_BUDGET = Budget(settings=8, first=1, kept=1)


@dataclass(frozen=True)
class Contest:
    """Runs of the report; what has been chosen is read from their files."""

    results: Path
    data_dir: Path | None = None
    datasets: tuple[str, ...] = REAL
    shuffles: tuple[int, ...] = tuple(TEST)

    def pairs(self) -> list[Pair]:
        """Every learner on every set, and peers with an intercept."""
        plain = [(dataset, name) for dataset in self.datasets for name in LEARNERS]
        return plain + [(dataset + INTERCEPT, name) for dataset in self.datasets for name in PEERS]

    def claims(self) -> list[Pair]:
        """Learners on simulated streams that romco-auto must not lose to."""
        names = (AUTO, "arow-unique", "arow-global", "arow-shared")
        return [(claim, name) for claim in CLAIMS for name in names] + [("changing", "pa-shared")]

    def first_pass(self) -> list[Run]:
        """Every setting on a few shuffles."""
        runs = []
        for dataset, name in [*self.pairs(), *self.claims()]:
            for setting in trials(name):
                runs += self._runs(dataset, name, setting, self.shuffles[: budget(name).first])
        return _ordered(runs)

    def second_pass(self) -> list[Run]:
        """The best settings of the first pass on all shuffles."""
        runs = []
        for dataset, name in [*self.pairs(), *self.claims()]:
            for setting in self._finalists(dataset, name):
                runs += self._runs(dataset, name, setting, self.shuffles)
        return _ordered(runs)

    def further(self) -> list[Run]:
        """Ablations, single copies, late tasks and many tasks."""
        runs = []
        for name in ABLATIONS:
            for dataset in self.datasets:
                runs += self._runs(dataset, name, {}, self.shuffles)
        for name in SINGLE:
            for claim in RARE:
                runs += self._runs(claim, name, {}, self.shuffles)
        for dataset in self.datasets:
            for name in LATE_LEARNERS:
                setting = dict(self.best(dataset, name)[0].run.parameters)
                runs += self._runs(dataset, name, setting, self.shuffles, LATE_TASKS)
        for dataset in CROWDS:
            for name in (AUTO, "arow-shared"):
                runs += self._runs(dataset, name, {}, self.shuffles[:1], "recorded")
        return _ordered(runs)

    def best(self, dataset: str, learner: str) -> list[Finished]:
        """All shuffles with the setting of the lowest mean macro error."""
        finalists = (
            self.files(self._runs(dataset, learner, setting, self.shuffles))
            for setting in self._finalists(dataset, learner)
        )
        return min(finalists, key=mean_error)

    def stored(self, dataset: str, learner: str) -> list[Finished] | None:
        """Return the best files of a learner, None where it was not run."""
        try:
            return self.best(dataset, learner)
        except FileNotFoundError:
            return None

    def default(self, dataset: str, learner: str) -> list[Finished]:
        """All shuffles with the default setting."""
        return self.files(self._runs(dataset, learner, trials(learner)[0], self.shuffles))

    def late(self, dataset: str, learner: str) -> list[Finished]:
        """All shuffles of the order with late tasks, as tuned."""
        setting = dict(self.best(dataset, learner)[0].run.parameters)
        return self.files(self._runs(dataset, learner, setting, self.shuffles, LATE_TASKS))

    def crowd(self, dataset: str, learner: str) -> list[Finished]:
        """Streams with many tasks."""
        return self.files(self._runs(dataset, learner, {}, self.shuffles[:1], "recorded"))

    def files(self, runs: Iterable[Run]) -> list[Finished]:
        """The finished files of runs."""
        return [read(place(run, self.results)) for run in runs]

    def _finalists(self, dataset: str, learner: str) -> list[Parameters]:
        settings, kept = trials(learner), budget(learner).kept
        first = self.shuffles[: budget(learner).first]
        errors = [
            mean_error(self.files(self._runs(dataset, learner, setting, first)))
            for setting in settings
        ]
        chosen = np.argsort(errors, kind="stable")[:kept].tolist()
        also = [0] if learner in PLAIN_TOO else []
        return [settings[k] for k in dict.fromkeys([*also, *chosen])]

    def _runs(
        self,
        dataset: str,
        learner: str,
        setting: Parameters,
        seeds: Iterable[int],
        order: str | None = None,
    ) -> list[Run]:
        order = order or OWN_ORDER.get(dataset, "synchronous")
        parameters = () if learner in VARIANTS else complete(learner, setting)
        digest = scene_digest(dataset, self.data_dir)
        return [Run(dataset, digest, learner, parameters, order, s, records=1) for s in seeds]


def trials(learner: str) -> list[Parameters]:
    """The default first, then settings spread over the learner's space."""
    if learner in VARIANTS:
        return [{}]
    fixed = REFIT if learner in BATCH else {}
    return [{**setting, **fixed} for setting in equal_trials(learner, budget(learner).settings)]


def budget(learner: str) -> Budget:
    """Batch methods get less, being slower by far."""
    if learner in BATCH:
        return BATCH_BUDGET
    return BUDGET


def mean_error(files: list[Finished]) -> float:
    """Mean over shuffles of the macro error; infinite if any broke down."""
    return float(np.mean([file.error() for file in files]))


def run_all(contest: Contest, jobs: int | None, progress: Progress) -> None:
    """Run what has not run yet; later passes read what earlier ones found."""
    for what, runs in _passes(contest):
        with progress(what, len(dict.fromkeys(runs))) as done:
            perform(runs, contest.results, contest.data_dir, jobs, done, probe)


def _passes(contest: Contest) -> Iterator[tuple[str, list[Run]]]:
    yield "every setting on a few shuffles", contest.first_pass()
    yield "the best on all shuffles", contest.second_pass()
    yield "ablations, late tasks, many tasks", contest.further()


def _ordered(runs: list[Run]) -> list[Run]:
    """Runs of one shuffle together, so that it is made once and their times compare."""
    return sorted(dict.fromkeys(runs), key=lambda run: (run.dataset, run.order, run.seed))
