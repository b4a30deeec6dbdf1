"""Frozen, seeded streams. The same arguments give the same events on every machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco import Rounds

FLIPPED = 0.05  # share of labels that are wrong
PLANTED_RANK = 4


@dataclass(frozen=True)
class Workload:
    """Events to learn, and ROMCO's parameters for them.

    Without ``warmup`` every repeat starts a new model and learns ``segments[0]``;
    with it one model goes on through all segments, so that its steady state is timed.
    """

    name: str
    n_tasks: int
    n_features: int
    parameters: Mapping[str, float]
    segments: tuple[Rounds, ...]
    warmup: Rounds | None = None

    def segment(self, repeat: int) -> Rounds:
        """The events that repeat number ``repeat`` times."""
        return self.segments[repeat % len(self.segments)]


STEADY = {"eta1": 0.1, "eta2": 0.1, "lambda1": 1e-3, "lambda2": 1e-3}
# lambda1 that leaves U at about this rank when single events of length 1 update it.
STRENGTH = {4: 0.21, 8: 0.115, 16: 0.06, 32: 0.03, 64: 0.0155}


def spam(scale: float = 1.0) -> Workload:
    """4 tasks of unequal length, d = 1458, 100 non-zeros, 7068 single events."""
    sizes = [max(2, int(n * scale)) for n in (1089, 710, 4129, 1140)]
    rng = np.random.default_rng(1)
    task = rng.permutation(np.repeat(np.arange(4), sizes))
    rounds = _sparse(rng, task, 1458, 100)
    return Workload("spam", 4, 1458, STEADY, (rounds,))


def mhc(scale: float = 1.0) -> Workload:
    """12 tasks, d = 400, dense, single events."""
    rng = np.random.default_rng(2)
    task = rng.integers(0, 12, max(24, int(4000 * scale)))
    return Workload("mhc", 12, 400, STEADY, (_dense(rng, task, 400, each=1),))


def movies(scale: float = 1.0) -> Workload:
    """30 tasks, d = 1783, dense, rounds with one event of every task."""
    rng = np.random.default_rng(3)
    task = np.tile(np.arange(30), max(2, int(200 * scale)))
    return Workload("movies", 30, 1783, STEADY, (_dense(rng, task, 1783, each=30),))


def large(
    *,
    n_tasks: int = 1000,
    n_features: int = 2**18,
    nnz: int = 100,
    rank: int = 8,
    warmup: int = 20_000,
    events: int = 2_000,
    segments: int = 5,
) -> Workload:
    """Many tasks, Zipf features, planted rank, single events.

    The steps are so small that no margin reaches 1: every event updates, which is
    the worst case, and the curves show the cost of an update, not how many there are.
    A task's personal part loses a tenth of a step between two of its events.
    """
    rng = np.random.default_rng([4, n_tasks, n_features, nnz])
    total = warmup + events * segments
    rounds = _sparse(rng, rng.integers(0, n_tasks, total), n_features, nnz)
    parts = tuple(rounds[warmup + k * events : warmup + (k + 1) * events] for k in range(segments))
    parameters = {"eta1": 1e-3, "eta2": 1e-3, "lambda1": STRENGTH[rank], "lambda2": 0.1 / n_tasks}
    name = f"m={n_tasks} d={n_features} nnz={nnz} rank={rank}"
    return Workload(name, n_tasks, n_features, parameters, parts, rounds[:warmup])


def _sparse(rng: Generator, task: NDArray[np.int64], d: int, nnz: int) -> Rounds:
    """Single events: nnz different Zipf features each, length 1."""
    n = len(task)
    indices = zipf_rows(rng, n, d, nnz)
    values = rng.standard_normal((n, nnz))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    weights = rng.standard_normal((d, PLANTED_RANK))
    lean = rng.standard_normal((int(task.max()) + 1, PLANTED_RANK)) + 1.0
    margins = np.zeros(n)
    for k in range(PLANTED_RANK):  # one direction at a time keeps memory small
        margins += np.sum(values * weights[indices, k], axis=1) * lean[task, k]
    starts = np.arange(0, n * nnz + 1, nnz, dtype=np.int32)
    x = csr_array((values.ravel(), indices.ravel().astype(np.int32), starts), shape=(n, d))
    return Rounds(task, x, _labels(rng, margins), np.arange(n + 1))


def zipf_rows(rng: Generator, n: int, d: int, nnz: int) -> NDArray[np.int64]:
    """(n, nnz) sorted, different features per row; feature popularity falls like 1/rank."""
    if nnz > d:
        raise ValueError(f"cannot draw {nnz} different features of {d}")
    rows = np.sort((d ** rng.random((n, nnz))).astype(np.int64) - 1, axis=1)
    while True:
        twice = np.zeros(rows.shape, dtype=bool)
        twice[:, 1:] = rows[:, 1:] == rows[:, :-1]
        if not twice.any():
            break
        rows[twice] = rng.integers(0, d, int(twice.sum()))
        rows.sort(axis=1)
    scattered = rng.permutation(d)[rows]  # popular features are not neighbours in memory
    return np.sort(scattered, axis=1)


def _dense(rng: Generator, task: NDArray[np.int64], d: int, each: int) -> Rounds:
    """Rounds of ``each`` events, rows of length 1."""
    x = rng.standard_normal((len(task), d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    weights = rng.standard_normal((d, PLANTED_RANK))
    lean = rng.standard_normal((int(task.max()) + 1, PLANTED_RANK)) + 1.0
    margins = np.sum((x @ weights) * lean[task], axis=1)
    return Rounds(task, x, _labels(rng, margins), np.arange(0, len(task) + 1, each))


def _labels(rng: Generator, margins: NDArray[np.float64]) -> NDArray[np.float64]:
    y = np.where(margins >= 0, 1.0, -1.0)
    return np.where(rng.random(len(y)) < FLIPPED, -y, y)
