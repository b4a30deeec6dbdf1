"""Plan to results: every run becomes one file of JSON lines, written once."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from romco.compare.decomposition import decomposition
from romco.compare.elsewhere import where
from romco.compare.plan import Run
from romco.compare.sources import about, shuffled, stream_of
from romco.evaluation import (
    Confusion,
    Delay,
    MeanLoss,
    Metric,
    Score,
    Structure,
    prequential,
)
from romco.labels import policy
from romco.learners import LEARNERS, Learner, Method
from romco.learners.capabilities import Decomposed, GivesProbabilities
from romco.rounds import Round
from romco.streams import datasets

Progress = Callable[[str, int], AbstractContextManager[Callable[[Run], None]]]

Done = Callable[[Run], None]
Lines = Callable[[Run, Path | None], Iterator[dict[str, Any]]]  # what a run's file will hold


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
    """The lines of a run: a head, records along the stream, and an end."""
    yield {"run": asdict(run), "stream": about(run.dataset, data_dir), "versions": versions()}
    rounds = shuffled(run.dataset, run.order, run.seed, data_dir)[: run.rounds]
    every = max(1, -(-len(rounds) // run.records))
    try:
        _fresh(run, data_dir).replay(rounds[: max(1, len(rounds) // 50)])  # untimed warm-up
        learner = _fresh(run, data_dir)
        watch = StopWatch()
        metrics: dict[str, Metric] = {"seconds": watch, **_metrics(learner)}
        watch.start()
        asking = policy(**dict(run.labels)) if run.labels else None
        late = _delay(run, data_dir)
        for record in prequential(learner, rounds, metrics, every, labels=asking, delay=late):
            yield {"rounds": record.rounds, "events": record.events, **shortened(record.metrics)}
            watch.start()
        yield {"end": decomposition(learner)}
    except (ArithmeticError, ValueError) as error:  # a setting that breaks down is a result too
        yield {"end": {}, "failed": f"{type(error).__name__}: {error}"}


def execute(run: Run, results: Path, data_dir: Path | None = None, lines: Lines = records) -> Path:
    """A finished run is never repeated, a half-written one never seen."""
    done = place(run, results)
    if not done.exists():
        partial = done.with_suffix(".partial")
        with partial.open("w") as file:
            for line in lines(run, data_dir):
                file.write(json.dumps(line) + "\n")
        partial.replace(done)
    return done


def place(run: Run, results: Path) -> Path:
    """Where the results of a run are, once it is finished."""
    return results / f"{run.name}.jsonl"


def perform(
    runs: Iterable[Run],
    results: Path,
    data_dir: Path | None = None,
    jobs: int | None = None,
    done: Done = lambda run: None,
    lines: Lines = records,
) -> None:
    """Execute all runs that are not finished, in ``jobs`` processes (default: one per core)."""
    results.mkdir(parents=True, exist_ok=True)
    waiting = []
    for run in dict.fromkeys(runs):
        if place(run, results).exists():
            done(run)
        else:
            waiting.append(run)
    waiting.sort(key=lambda run: not _slow(run))  # no core waits for a long run at the end
    cluster = where()
    if cluster is not None:
        given = [(run, results.absolute(), data_dir, lines) for run in waiting]
        for at in cluster.perform(execute, given):
            done(waiting[at])
        return
    jobs = min(jobs or os.cpu_count() or 1, len(waiting))
    if jobs <= 1 or not _travels(LEARNERS.added):
        _in_turn(waiting, results, data_dir, done, lines)
    else:
        _side_by_side(waiting, results, data_dir, jobs, done, lines)


@cache
def versions() -> dict[str, str]:
    """Of everything that numbers depend on."""
    packages = ("romco", "numpy", "scipy", "scikit-learn")
    found = {name: version(name) for name in packages}
    return {"python": platform.python_version(), **found, "machine": platform.machine()}


def _slow(run: Run) -> bool:
    """Whether the learner fits all events again and again."""
    method = LEARNERS.get(run.learner)  # None for a variant that only one experiment knows
    return method is not None and method.keeps_events


def _travels(added: Mapping[str, Method]) -> bool:
    """Whether another process can be told of these: not of a class that is part of no module."""
    try:
        pickle.dumps(added)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return all(method.make.__module__ != "__main__" for method in added.values())


def _fresh(run: Run, data_dir: Path | None) -> Learner:
    stream = stream_of(run.dataset, data_dir)
    return LEARNERS[run.learner](stream.n_features, stream.n_tasks, **dict(run.parameters))


def _delay(run: Run, data_dir: Path | None) -> int | Delay:
    """When labels are known: after so many events, or when they were known in truth."""
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


def shortened(value: Any) -> Any:
    """Seven digits are enough for any table, and keep files small."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {key: shortened(part) for key, part in value.items()}
    return [shortened(part) for part in value] if isinstance(value, list) else value


def _in_turn(
    runs: list[Run], results: Path, data_dir: Path | None, done: Done, lines: Lines
) -> None:
    with threadpool_limits(1):
        for run in runs:
            execute(run, results, data_dir, lines)
            done(run)


def _side_by_side(
    runs: list[Run], results: Path, data_dir: Path | None, jobs: int, done: Done, lines: Lines
) -> None:
    context = multiprocessing.get_context("spawn")  # no half-copied threads of the parent
    pool = ProcessPoolExecutor(
        jobs, mp_context=context, initializer=_begin_worker, initargs=(LEARNERS.added,)
    )
    try:
        futures = {pool.submit(execute, run, results, data_dir, lines): run for run in runs}
        for future in as_completed(futures):
            future.result()
            done(futures[future])
    except BaseException:  # an interrupt too: leave no process behind
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    pool.shutdown()


def _begin_worker(added: Mapping[str, Method]) -> None:
    """One BLAS thread; the parent's learners; it alone answers Ctrl-C; end with it."""
    threadpool_limits(1)
    LEARNERS.update(added)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
