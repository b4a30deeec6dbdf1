"""Streams and orders of the report beyond the paper: real sets, claims, and many tasks."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare.sources import digest_of, stream_of
from romco.rounds import Rounds
from romco.streams import ORDERS, Stream, simulated, synchronous

INTERCEPT = "+1"  # ends the name of a real set whose events have a constant feature
LATE_TASKS = "late"  # the order in which every fourth task comes when others are half done
FEATURES = 2**18  # of streams with many tasks, hashed
# Made anew for each shuffle. Rank 1 without outliers makes all tasks identical.
CLAIMS: Mapping[str, Callable[..., Stream]] = {
    "identical": partial(simulated, rank=1, outliers=0),
    "identical, noisy": partial(simulated, rank=1, outliers=0, noise=0.2),
    "unrelated": partial(simulated, outliers=20),
    "unrelated, noisy": partial(simulated, outliers=20, noise=0.2),
    "outliers": partial(simulated, rank=1, outliers=3),
    "changing": partial(simulated, rank=1, outliers=3, n_events=1000, drift=1.0),
    "rare, identical": partial(simulated, rank=1, outliers=0, noise=0.0, imbalance=0.94),
    "rare, related": partial(simulated, noise=0.0, imbalance=0.94),
    "rare, unrelated": partial(simulated, outliers=20, noise=0.0, imbalance=0.94),
}
RARE = tuple(claim for claim in CLAIMS if claim.startswith("rare"))  # 3 % positives
OWN_ORDER = {"changing": "recorded"}  # streams whose order must stay; all others are shuffled
CROWDS = {"300 tasks": 300, "1000 tasks": 1000, "10000 tasks": 10_000}


def scene(dataset: str, seed: int, data_dir: Path | None = None) -> Stream:
    """The stream behind a name; simulated ones differ from seed to seed.

    >>> scene("rare, related", seed=0).n_tasks
    20
    """
    if dataset in CLAIMS:
        return CLAIMS[dataset](seed=seed, name=dataset)
    if dataset in CROWDS:
        return crowd(CROWDS[dataset], seed)
    if dataset.endswith(INTERCEPT):
        return _with_constant(dataset.removesuffix(INTERCEPT), data_dir)
    return stream_of(dataset, data_dir)


def scene_digest(dataset: str, data_dir: Path | None = None) -> str:
    """Return the digest of a real set's events; simulated ones have name, seed and version."""
    made = dataset in CLAIMS or dataset in CROWDS
    if made:
        return "made"
    return digest_of(dataset.removesuffix(INTERCEPT), data_dir)


def arranged(stream: Stream, order: str, seed: int) -> Rounds:
    """The stream's rounds in an order of :data:`romco.streams.ORDERS`, or ``late``."""
    if order == LATE_TASKS:
        return late(stream, seed)
    return ORDERS[order](stream, seed)


def late_tasks(n_tasks: int, seed: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Every fourth task; another fourth with the next seed."""
    return np.arange(seed % 4, n_tasks, 4)


def late(stream: Stream, seed: int) -> Rounds:
    """Synchronous rounds, but the late tasks begin when a task of median length is half done."""
    rounds = synchronous(stream, seed)
    turn = np.repeat(np.arange(len(rounds)), np.diff(rounds.starts))
    waits = np.isin(rounds.task, late_tasks(stream.n_tasks, seed))
    turn[waits] += int(np.median(np.bincount(rounds.task))) // 2
    order = np.lexsort((rounds.task, turn))
    sizes = np.bincount(turn)
    starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])])
    return Rounds(rounds.task[order], rounds.x[order], rounds.y[order], starts)


def crowd(n_tasks: int, seed: int, n: int = 30_000, words: int = 100) -> Stream:
    """Events of many tasks with one true weight vector, words by Zipf's law hashed to 2^18."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng([seed, n_tasks])
    word = np.minimum(rng.zipf(1.2, size=(n, words)), 10**9)
    column = np.sort(word * 2654435761 % FEATURES, axis=1).astype(np.int64)
    starts = np.arange(0, n * words + 1, words)
    x: Any = csr_array((np.full(n * words, 0.1), column.ravel(), starts), shape=(n, FEATURES))
    x.sum_duplicates()
    y = np.where(x @ rng.normal(size=FEATURES) + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    names = tuple(map(str, range(n_tasks)))
    return Stream(f"{n_tasks} tasks", rng.integers(n_tasks, size=n), x, y, names)


@lru_cache(maxsize=4)
def _with_constant(dataset: str, data_dir: Path | None) -> Stream:
    """One more feature, which is the geometric mean of |x| in every event, as in romco-auto."""
    from scipy.sparse import csr_array, hstack

    stream = stream_of(dataset, data_dir)
    rows: Any = csr_array(stream.x)
    squares = np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    size = np.exp(0.5 * np.log(squares[squares > 0]).mean())
    constant = np.full((stream.n_events, 1), size)
    x: Any = (
        np.hstack([stream.x, constant])
        if isinstance(stream.x, np.ndarray)
        else csr_array(hstack([rows, csr_array(constant)], format="csr"))
    )
    return replace(stream, name=dataset + INTERCEPT, x=x)
