"""One replay, one small file: what the report beyond the paper stores of a run."""

import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.compare.run import Run, versions
from romco.learners import LEARNERS, Learner
from romco.learners.auto import Auto
from romco.rounds import Rounds
from romco.streams import Stream
from romco_lab.beyond.ablations import VARIANTS, variant
from romco_lab.beyond.scenes import arranged, scene
from romco_lab.metrics import Confusion

Numbers = NDArray[np.float64]
EDGES = (5, 10, 20, 50, 100, 200, 400, 800, 1600, 3200, 6400)  # a task's events, for curves
BINS = 10  # of probability, for reliability
BEGINNING = 10  # rounds in which the share of positives cannot be known yet
MAX_STORED_TASKS = 99  # tasks above which nothing is stored of single ones


def probe(run: Run, data_dir: Path | None = None) -> Iterator[dict[str, Any]]:
    """The lines of a run, in the same form as :func:`romco.compare.run.records`."""
    stream, rounds = _prepared(run.dataset, run.order, run.seed, data_dir)
    yield {"run": asdict(run), "stream": _about(stream), "versions": versions()}
    try:
        learner = made(run, stream)
        begin = time.process_time()
        margins = learner.replay(rounds)
        seconds = time.process_time() - begin
        size = {"rounds": len(rounds), "events": len(rounds.y), "seconds": round(seconds, 6)}
        yield {**size, "scores": scores(rounds, margins, stream.n_tasks)}
        yield {"end": _findings(learner)}
    except (ArithmeticError, ValueError) as error:  # a setting that breaks down is a result too
        yield {"end": {}, "failed": f"{type(error).__name__}: {error}"}


def made(run: Run, stream: Stream) -> Learner:
    """The learner of a run: one of the registry, or romco-auto with a part switched off."""
    if run.learner in VARIANTS:
        return variant(run.learner, stream.n_features, stream.n_tasks)
    return LEARNERS[run.learner](stream.n_features, stream.n_tasks, **dict(run.parameters))


def scores(rounds: Rounds, margins: Numbers, n_tasks: int) -> dict[str, Any]:
    """Error, ranking and calibration of margins, and errors by how many events a task has had."""
    y = rounds.y > 0
    confusion = Confusion(n_tasks)
    confusion.add(rounds.events, margins)
    late = rounds.starts[min(BEGINNING, len(rounds) - 1)]
    kept: dict[str, Any] = {
        "error": float(np.nanmean(confusion.error())),
        "auc": area(y, margins),
        "auc_late": area(y[late:], margins[late:]),
        **calibration(y, margins),
    }
    if n_tasks <= MAX_STORED_TASKS:
        kept["error_per_task"] = [round(e, 6) for e in confusion.error().tolist()]
        kept["by_turn"] = by_turn(rounds, (margins >= 0) != y, n_tasks)
    return kept


def area(y: NDArray[np.bool_], margins: Numbers) -> float:
    """Area under the ROC curve: how often a positive has the larger margin; a tie is a half.

    >>> area(np.array([True, False, False]), np.array([1.0, 1.0, 0.0]))
    0.75
    """
    from scipy.stats import rankdata

    positive = int(y.sum())
    if positive in (0, len(y)):
        return float("nan")
    above = rankdata(margins)[y].sum() - positive * (positive + 1) / 2
    return float(above / (positive * (len(y) - positive)))


def calibration(y: NDArray[np.bool_], margins: Numbers) -> dict[str, Any]:
    """Brier score of 1 / (1 + exp(-margin)); events, mean probability, positives of each bin."""
    p = 1.0 / (1.0 + np.exp(-np.clip(margins, -700.0, 700.0)))
    bin_ = np.minimum((p * BINS).astype(int), BINS - 1)
    count = np.bincount(bin_, minlength=BINS)
    said, true = (np.bincount(bin_, weights=w, minlength=BINS) for w in (p, y.astype(float)))
    return {
        "brier": float(np.mean((p - y) ** 2)),
        "bins": [
            [int(n), float(f"{s:.6g}"), int(t)] for n, s, t in zip(count, said, true, strict=True)
        ],
    }


def by_turn(rounds: Rounds, wrong: NDArray[np.bool_], n_tasks: int) -> list[Any]:
    """For each stretch of a task's own events up to ``EDGES``: errors and events of each task."""
    turn = turns(rounds.task)
    stretch = np.searchsorted(EDGES, turn, side="right")
    cell = stretch * n_tasks + rounds.task
    n = len(EDGES) * n_tasks
    both = (np.bincount(cell, weights=w, minlength=n)[:n] for w in (wrong, np.ones(len(wrong))))
    errors, events = (part.astype(int).reshape(-1, n_tasks) for part in both)
    return [errors.tolist(), events.tolist()]


def turns(task: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the earlier events of the same task, for each event of a stream.

    >>> turns(np.array([3, 1, 3, 3]))
    array([0, 0, 1, 2])
    """
    order = np.argsort(task, kind="stable")
    counts = np.bincount(task)
    firsts = np.repeat(np.cumsum(counts) - counts, counts)
    turn = np.empty(len(task), dtype=np.int64)
    turn[order] = np.arange(len(task)) - firsts
    return turn


@lru_cache(maxsize=2)
def _prepared(dataset: str, order: str, seed: int, data_dir: Path | None) -> tuple[Stream, Rounds]:
    stream = scene(dataset, seed, data_dir)
    return stream, arranged(stream, order, seed)


def _about(stream: Stream) -> dict[str, Any]:
    return {
        "name": stream.name,
        "tasks": stream.n_tasks,
        "features": stream.n_features,
        "events": stream.n_events,
        "notes": list(stream.notes),
        "outliers": None if stream.truth is None else stream.truth.outliers.tolist(),
    }


def _findings(learner: Learner) -> dict[str, Any]:
    """Return the findings of romco-auto; of a stream with many tasks, the size of the state."""
    if learner.n_tasks > MAX_STORED_TASKS:
        return {"megabytes": sum(array.nbytes for array in learner.arrays().values()) / 1e6}
    if not isinstance(learner, Auto):
        return {}
    return {"personal": learner.personal_tasks().tolist(), "trust": learner.trust()}
