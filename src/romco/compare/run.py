"""Runs: planned, named by a digest of all their fields, executed once into a file each."""

import hashlib
import json
import os
import platform
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
from joblib import Parallel, delayed, parallel_config
from threadpoolctl import threadpool_limits

from romco.compare import refitted
from romco.compare.controls import BATCH_CONTROLS, CONTROLS, ENGINE, TREES
from romco.compare.sources import digest_of, stream_of
from romco.evaluation import Delay
from romco.evaluation.arrival import AT_ONCE, Arrival
from romco.learners import LEARNERS, Method, known, learner
from romco.learners.registry import number_learner
from romco.parameters import setting
from romco.streams import Stream
from romco.version import __version__

Parameters = Mapping[str, Any]
MAX_SHUFFLES = 5
IDLE_SECONDS = 10  # after which a process ends whose parent was killed
SHUFFLED_EVENTS = 100_000  # larger files are read in fewer orders
FIGURES_VERSION = f"{__version__}+2"  # of the files of a comparison; changes with what they hold


@dataclass(frozen=True)
class Run:
    """One row of a table, or one learner with one setting, on one shuffle of one data set."""

    dataset: str
    digest: str  # of the data set's events
    learner: str
    parameters: tuple[tuple[str, Any], ...]  # all of them, defaults too, by name
    order: str
    seed: int
    rounds: int | None = None  # only the first so many; None for all
    records: int = 60  # about so many points along the stream; 0 in a comparison
    labels: tuple[tuple[str, Any], ...] = ()  # label policy: name, share, ...
    delay: int | str = 0  # events until a label is known; "3600s"; "true": as the data set has it
    version: str = __version__

    @property
    def name(self) -> str:
        """File name: readable, and different as soon as any field differs."""
        text = json.dumps(asdict(self), sort_keys=True)
        return f"{self.dataset}.{self.learner}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


Done = Callable[[Run], None]
Lines = Callable[[Run, Path | None], Iterator[dict[str, Any]]]  # contents of a run's file


@dataclass(frozen=True)
class Comparison:
    """Rows to compare on one data set, fixed before anything runs."""

    dataset: str
    learners: tuple[str, ...] = ()  # rows beside the controls and ROMCO-Auto
    shuffles: int | None = None  # None: 5, fewer for large files
    order: str = "interleaved"
    settings: Mapping[str, Parameters] | None = None
    data_dir: Path | None = None
    arrival: Arrival = AT_ONCE  # of labels

    @property
    def delay(self) -> int | str:
        """Delay of the runs."""
        if self.arrival.seconds:
            return f"{self.arrival.seconds}s"
        return self.arrival.events

    @property
    def folder(self) -> str:
        """Name of the report's folder, one for each order and arrival."""
        parts = [self.dataset]
        if self.order != "interleaved":
            parts.append(self.order)
        if self.arrival.together is not None:
            parts.append(f"by {self.arrival.together}")
        if self.delay:
            parts.append(f"late {self.delay}")
        return " ".join(parts).replace("/", "_")

    @property
    def stream(self) -> Stream:
        """The data set's stream."""
        return stream_of(self.dataset, self.data_dir)

    @property
    def controls(self) -> tuple[str, ...]:
        """Names of the controls that this table has."""
        if not refitted.is_small(self.stream):
            return CONTROLS
        batch = [name for name in BATCH_CONTROLS if name != TREES or refitted.has_trees()]
        return (*CONTROLS, *batch)

    @property
    def seeds(self) -> range:
        """Seeds of the shuffles; one where the order is as recorded."""
        if self.order == "recorded":
            return range(1)
        events = self.stream.n_events
        usual = max(1, min(MAX_SHUFFLES, SHUFFLED_EVENTS // events))
        return range(self.shuffles or usual)

    def runs(self) -> list[Run]:
        """All runs, shuffle by shuffle."""
        digest = digest_of(self.dataset, self.data_dir)
        answers = self.stream.answers
        given = self.settings or {}
        controls = self.controls
        rows = dict.fromkeys((*controls, *self.learners, ENGINE))
        parameters: dict[str, Any] = dict.fromkeys(rows, ())
        for row in rows:
            if row not in controls:
                parameters[row] = complete(_method_of(row, answers), given.get(row, {}))
        how: dict[str, Any] = {"records": 0, "delay": self.delay, "version": FIGURES_VERSION}
        runs = []
        for seed, row in product(self.seeds, rows):
            own = self.order, seed
            runs.append(Run(self.dataset, digest, row, parameters[row], *own, **how))
        return runs


def delay_of(run: Run, stream: Stream) -> Delay:
    """Return when labels of a comparison's run arrive; a time is by the stream's moments."""
    if isinstance(run.delay, int):
        return Delay(run.delay)
    if stream.moment is None or run.order != "recorded":
        raise ValueError("a delay by time needs moments, and events in the order of time")
    return Delay.until(stream.moment, stream.moment + float(run.delay.removesuffix("s")))


def complete(name: str, parameters: Parameters) -> tuple[tuple[str, Any], ...]:
    """Return all parameters of a learner by name, defaults where none are given."""
    whole = dict(known(name).complete(parameters))
    for key, value in whole.items():
        if isinstance(value, np.generic | np.ndarray):
            whole[key] = value.tolist()
    return tuple(sorted(whole.items()))


def chosen_learners(text: str | None, answers: int = 1) -> tuple[str, ...]:
    """Return learner names from ``a,b``, ``all`` or ``paper``; none for None.

    ``answers`` is the stream's: learners that cannot answer so are refused by name.

    >>> chosen_learners("ogd-unique, romco-nucl")
    ('ogd-unique', 'romco-nucl')
    """
    if text is None:
        return ()
    if text == "all":
        return tuple(filter(partial(_can_answer, answers=answers), LEARNERS))
    if text == "paper":
        return tuple(name for name, method in LEARNERS.items() if method.role == "paper")
    names: dict[str, None] = {}
    for part in text.split(","):
        name = part.strip().removesuffix("-number")
        if name and name not in names:
            names[known(name).name] = None
            _make_small(name, answers)
    return tuple(names)


def chosen_settings(texts: Sequence[str], answers: int = 1) -> dict[str, dict[str, Any]]:
    """Return settings from texts such as ``ogd-unique.eta=0.5``, checked against the learner.

    >>> chosen_settings(["ogd-unique.eta=0.5", "ogd-unique.step=inverse-sqrt"])
    {'ogd-unique': {'eta': 0.5, 'step': 'inverse-sqrt'}}
    """
    settings: dict[str, dict[str, Any]] = {}
    for text in texts:
        name, value = setting(text, "learner.parameter=value")
        short, dot, parameter = name.rpartition(".")
        if not dot:
            raise ValueError(f"--set {text}: expected learner.parameter=value")
        settings.setdefault(known(short.removesuffix("-number")).name, {})[parameter] = value
    for short, parameters in settings.items():
        known(_method_of(short, answers))(2, 2, **parameters)  # refuses a value out of range
    return settings


def _method_of(name: str, answers: int) -> str:
    """Return the learner whose parameters count for these answers (0: numbers)."""
    if answers == 0:
        return number_learner(name)
    return name


def _make_small(name: str, answers: int) -> None:
    if answers > 1:
        learner("classes", 2, 2, inner=name)
    _method_of(name, answers)


def _can_answer(name: str, answers: int) -> bool:
    try:
        _make_small(name, answers)
    except ValueError:
        return False
    return True


def execute(run: Run, results: Path, data_dir: Path | None, lines: Lines) -> Path:
    """Write the file of a run unless it exists; a half-written file is never seen."""
    done = place(run, results)
    if not done.exists():
        partial = done.with_suffix(".partial")
        with partial.open("w") as file:
            for line in lines(run, data_dir):
                file.write(json.dumps(line) + "\n")
        partial.replace(done)
    return done


def place(run: Run, results: Path) -> Path:
    """Return the path of a run's file."""
    return results / f"{run.name}.jsonl"


def perform(
    runs: Iterable[Run],
    results: Path,
    data_dir: Path | None,
    jobs: int | None,
    done: Done,
    lines: Lines,
) -> None:
    """Execute all runs that are not finished, in ``jobs`` processes (None: one per core)."""
    results.mkdir(parents=True, exist_ok=True)
    unfinished = []
    for run in dict.fromkeys(runs):
        if place(run, results).exists():
            done(run)
        else:
            unfinished.append(run)
    unfinished.sort(key=lambda run: not _is_slow(run))  # no core waits for a long run at the end
    arguments = [(run, results.absolute(), data_dir, lines) for run in unfinished]
    finished = _in_processes(jobs or os.cpu_count() or 1, arguments)
    with threadpool_limits(1), closing(finished):
        for at in finished:
            done(unfinished[at])


@cache
def versions() -> dict[str, str]:
    """Return the versions of everything that numbers depend on."""
    packages = ("romco", "numpy", "scipy", "scikit-learn")
    installed = {name: version(name) for name in packages}
    return {"python": platform.python_version(), **installed, "machine": platform.machine()}


def shortened(value: Any) -> Any:
    """Round all floats to seven digits, which keeps files small."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(shortened, value))
    return value


def _is_slow(run: Run) -> bool:
    if run.learner in BATCH_CONTROLS:
        return True
    method = LEARNERS.get(run.learner)
    return method is not None and method.keeps_events


def _execute_elsewhere(at: int, added: Mapping[str, Method], arguments: tuple[Any, ...]) -> int:
    """Execute a run in a process that may not know these learners; return its number."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its processes
    LEARNERS.update(added)
    execute(*arguments)
    return at


def _in_processes(jobs: int, arguments: Sequence[tuple[Any, ...]]) -> Generator[int]:
    """Call :func:`execute` with each of the arguments; yield their numbers as they finish."""
    jobs = min(jobs, len(arguments))
    if jobs <= 1:
        for at, one in enumerate(arguments):
            execute(*one)
            yield at
        return
    call = delayed(_execute_elsewhere)
    calls = (call(at, LEARNERS.added, one) for at, one in enumerate(arguments))
    settings = {"inner_max_num_threads": 1, "idle_worker_timeout": IDLE_SECONDS}
    with parallel_config("loky", n_jobs=jobs, **settings):
        finished = Parallel(batch_size=1, return_as="generator_unordered")(calls)
    try:
        for at in finished:
            yield at
    finally:
        with catch_warnings(action="ignore"):  # that runs were cancelled
            finished.close()
