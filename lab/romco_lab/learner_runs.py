"""Runs of learners for the reports: records along a stream, outcomes, tuning, differences."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import qmc
from scipy.stats import t as student

from romco.compare import run as runs_
from romco.compare.controls import title_of
from romco.compare.results import Finished, read
from romco.compare.run import Done, Lines, Run, place, shortened, versions
from romco.compare.sources import about, shuffled, stream_of
from romco.evaluation import Delay, Metric, Score
from romco.labels import Policy
from romco.learners import LEARNERS, Learner
from romco.learners.capabilities import Decomposed, GivesProbabilities
from romco.rounds import Round
from romco.streams import datasets
from romco_lab.label_policies import LABEL_POLICIES, evaluate
from romco_lab.metrics import Confusion, MeanLoss, Structure

Numbers = NDArray[np.float64]
Setting = dict[str, Any]
Progress = Callable[[str, int], AbstractContextManager[Callable[[Run], None]]]
PAPER_GRID = tuple(10.0**k for k in range(-6, 1))  # for all four of ROMCO's parameters
SHOWN_FEATURES = 48  # of a picture of U and V
# Measures as summary.csv and the tables name them, and as a record does.
MEASURES = {"error_rate": "error", "f1_positive": "f1_positive", "f1_negative": "f1_negative"}


class StopWatch:
    """Processor time between ``start`` and the moment the loop reports a replayed part.

    Each run has one core and one thread, so on an idle machine this is wall time;
    on a busy one it does not count the time of others.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.start()

    def start(self) -> None:
        """Begin, or go on."""
        self.begin = time.process_time()

    def add(self, round: Round, scores: NDArray[np.float64]) -> None:
        """Stop: the part has been replayed."""
        self.total += time.process_time() - self.begin

    def value(self) -> float:
        """Seconds so far."""
        return self.total


def records(run: Run, data_dir: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run: a head, records along the stream, and an end."""
    yield {"run": asdict(run), "stream": about(run.dataset, data_dir), "versions": versions()}
    rounds = shuffled(run.dataset, run.order, run.seed, data_dir)[: run.rounds]
    every = max(1, -(-len(rounds) // run.records))
    try:
        _fresh(run, data_dir).replay(rounds[: max(1, len(rounds) // 50)])  # untimed warm-up
        learner = _fresh(run, data_dir)
        watch = StopWatch()
        metrics: dict[str, Metric] = {"seconds": watch, **_metrics(learner)}
        watch.start()
        late = _delay(run, data_dir)
        for record in evaluate(learner, rounds, metrics, every, _policy(run), late):
            yield {"rounds": record.rounds, "events": record.events, **shortened(record.metrics)}
            watch.start()
        yield {"end": decomposition(learner)}
    except (ArithmeticError, ValueError) as error:  # a setting that breaks down is a result too
        yield {"end": {}, "failed": f"{type(error).__name__}: {error}"}


def execute(
    run: Run, results: Path, data_dir: Path | None = None, lines: Lines | None = None
) -> Path:
    """Write the file of a run unless it exists."""
    return runs_.execute(run, results, data_dir, lines or records)


def perform(
    runs: Iterable[Run],
    results: Path,
    data_dir: Path | None = None,
    jobs: int | None = None,
    done: Done = lambda run: None,
    lines: Lines | None = None,
) -> None:
    """Execute all runs that are not finished, see :func:`romco.compare.run.perform`."""
    runs_.perform(runs, results, data_dir, jobs, done, lines or records)


def _fresh(run: Run, data_dir: Path | None) -> Learner:
    stream = stream_of(run.dataset, data_dir)
    return LEARNERS[run.learner](stream.n_features, stream.n_tasks, **dict(run.parameters))


def _policy(run: Run) -> Policy | None:
    settings = dict(run.labels)
    if not settings:
        return None
    return LABEL_POLICIES[settings.pop("name")](**settings)


def _delay(run: Run, data_dir: Path | None) -> int | Delay:
    """Delay of labels: so many events, or the data set's own times."""
    if isinstance(run.delay, int):
        return run.delay
    clock = datasets.find(run.dataset).clock
    if clock is None or run.order != "recorded":
        raise ValueError(
            f"{run.dataset} in order {run.order} does not say when its labels were known: give a "
            "number of events, or a data set with times in order recorded"
        )
    return Delay.until(*clock(data_dir))


def _metrics(learner: Learner) -> dict[str, Metric]:
    metrics: dict[str, Metric] = {"scores": Confusion(learner.n_tasks), "hinge": MeanLoss()}
    if isinstance(learner, GivesProbabilities):
        metrics["calibration"] = Score()
    if isinstance(learner, Decomposed):
        metrics["structure"] = Structure(learner)
    return metrics


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
        """Reason why a shuffle broke down, if one did."""
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
        """Rounds at which the records were made."""
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


def outcomes(runs: Iterable[Run], results: Path) -> list[Outcome]:
    """The finished files of the runs, by learner in the order first seen."""
    by_learner: dict[str, list[Finished]] = {}
    for run in dict.fromkeys(runs):
        by_learner.setdefault(run.learner, []).append(read(place(run, results)))
    return [
        Outcome(learner, sorted(files, key=lambda file: file.run.seed))
        for learner, files in by_learner.items()
    ]


@dataclass(frozen=True)
class Difference:
    """First minus second, shuffle by shuffle, in points of percent; negative: first is better.

    The interval covers the order of events only: all shuffles hold the same events.
    """

    mean: float
    low: float  # 95 % interval; infinite with a single shuffle
    high: float
    wins: int  # shuffles in which the first has the lower error
    shuffles: int

    @property
    def status(self) -> str:
        """Verdict on "the first has the lower error"."""
        return "holds" if self.high < 0 else "does not hold" if self.low > 0 else "undecided"

    def __str__(self) -> str:
        interval = f" [{self.low:+.2f}, {self.high:+.2f}]" if np.isfinite(self.low) else ""
        return f"{self.mean:+.2f}{interval}, {self.wins} of {self.shuffles}"


def paired(first: ArrayLike, second: ArrayLike) -> Difference:
    """Compare error rates of two learners on the same shuffles.

    >>> str(paired([0.10, 0.11, 0.10], [0.12, 0.12, 0.13]))
    '-2.00 [-4.48, +0.48], 3 of 3'
    """
    differences = 100 * (np.asarray(first, dtype=float) - np.asarray(second, dtype=float))
    n = len(differences)
    mean, half = float(differences.mean()), np.inf
    if n > 1:
        error = differences.std(ddof=1) / np.sqrt(n)
        half = float(student.ppf(0.975, n - 1) * error)
    return Difference(mean, mean - half, mean + half, int((differences < 0).sum()), n)


def equal_trials(learner: str, n: int) -> list[Setting]:
    """The default and ``n - 1`` settings spread evenly over the learner's space.

    A parameter whose space lists three or more positive numbers is drawn between the
    smallest and the largest of them, evenly in the logarithm if they span a factor of
    ten; any other parameter takes one of the values listed. A space of nothing gives the
    default alone.

    >>> [sorted(trial) for trial in equal_trials("ogd-unique", 3)]
    [[], ['eta', 'step'], ['eta', 'step']]
    """
    space = LEARNERS[learner].space
    if not space or n < 2:
        return [{}]
    draws = qmc.Halton(len(space), scramble=False).random(n)[1:]  # the first draw is all 0
    settings = [
        {name: _drawn(space[name], share) for name, share in zip(space, draw, strict=True)}
        for draw in draws
    ]
    return [{}, *_distinct(settings)]


def grid_trials(learner: str) -> list[Setting]:
    """Every point of the paper's grid for ROMCO, of the listed values for any other.

    >>> len(grid_trials("romco-nucl"))
    2402
    """
    space: Mapping[str, Sequence[Any]] = LEARNERS[learner].space
    if learner in ("romco-nucl", "romco-logd"):
        space = dict.fromkeys(("eta1", "eta2", "lambda1", "lambda2"), PAPER_GRID)
    points = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    return [{}, *_distinct(points)]


def _drawn(values: Sequence[Any], share: float) -> Any:
    """The value at ``share`` of the way through a space."""
    numbers = all(isinstance(v, float) and v > 0 for v in values) and len(values) > 2
    if not numbers:
        return values[min(int(share * len(values)), len(values) - 1)]
    low = min(values)
    high = max(values)
    drawn = low * (high / low) ** share if high >= 10 * low else low + share * (high - low)
    return float(f"{drawn:.4g}")


def _distinct(settings: Sequence[Setting]) -> list[Setting]:
    kept: list[Setting] = []
    for setting in settings:
        if setting and setting not in kept:
            kept.append(setting)
    return kept


def decomposition(learner: Learner) -> dict[str, Any]:
    """Return U and V on the largest features, and how alike the tasks are; {} without parts.

    >>> import romco
    >>> decomposition(romco.learner("ogd-unique", 3, 2))
    {}
    """
    if not isinstance(learner, Decomposed):
        return {}
    u = learner.shared()
    v = learner.personal()
    w = u + v
    rows = _telling(w)
    return {
        "features": rows.tolist(),
        "shared": _rounded(u[rows]),
        "personal": _rounded(v[rows]),
        "likeness": _rounded(_cosines(w)),
    }


def _telling(w: NDArray[np.float64]) -> NDArray[np.int64]:
    """Features with the largest weights, in turn from every task; those of a task together."""
    ranked = np.argsort(-np.abs(w), axis=0, kind="stable")
    chosen = np.array(list(dict.fromkeys(ranked.ravel().tolist()))[:SHOWN_FEATURES], dtype=np.int64)
    return chosen[np.argsort(np.abs(w[chosen]).argmax(axis=1), kind="stable")]


def _cosines(w: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cosine of each pair of columns (m, m); 0 with a column of zeros."""
    lengths = np.linalg.norm(w, axis=0)
    unit = np.divide(w, lengths, out=np.zeros_like(w), where=lengths > 0)
    return unit.T @ unit


def _rounded(array: NDArray[np.float64]) -> list[list[float]]:
    return [[float(f"{value:.4g}") for value in row] for row in array]


def mean_and_spread(values: ArrayLike, scale: float = 1.0, digits: int = 2) -> str:
    """Return mean ± standard deviation."""
    numbers = np.asarray(values, dtype=float) * scale
    mean = f"{numbers.mean():.{digits}f}"
    if len(numbers) > 1:
        return f"{mean} ± {numbers.std(ddof=1):.{digits}f}"
    return mean
