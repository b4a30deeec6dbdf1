"""Streams with a known truth: tasks that share a low-rank structure, and outliers among them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from romco.streams.stream import Stream, Truth
from romco.typing import Floats

MHC_EVENTS = (3793, 3000, 2400, 1900, 1600, 1400, 1200, 1000, 900, 556, 500, 415)
# Shapes of the paper's data sets (its Table 1) and of a second set of mail, as ``simulated`` takes
# them: tasks, features, events per task, rank, outliers, noise, sparsity.
PRESETS: dict[str, tuple[int, int, Any, int, int, float, float]] = {
    "spam-like": (4, 1458, (1089, 710, 4129, 1140), 1, 1, 0.02, 0.93),
    "mhc-like": (12, 400, MHC_EVENTS, 3, 2, 0.25, 0.98),
    "movies-like": (30, 1783, 200, 3, 3, 0.15, 0.0),
    "emails-like": (15, 1500, 400, 1, 2, 0.02, 0.95),
}


def simulated(
    n_tasks: int = 20,
    n_features: int = 50,
    n_events: int | Sequence[int] = 400,
    rank: int = 2,
    outliers: int = 3,
    noise: float = 0.05,
    sparsity: float = 0.0,
    imbalance: float = 0.0,
    drift: float = 0.0,
    seed: int = 0,
    name: str = "simulated",
) -> Stream:
    """Events of tasks whose true weights are low rank, except for a few outlier tasks.

    Every task's true weight vector has length 1 and every row of x too. ``n_events`` is one number
    for all tasks, or one per task. Weights of ordinary tasks lie in a space of dimension ``rank``;
    so many ``outliers`` have weights of their own. ``noise`` is the probability that a label is
    flipped, ``sparsity`` the share of zeros in x (above 0 it is a CSR array); the share of
    positives is (1 - ``imbalance``) / 2. Over the stream the true weights turn by ``drift`` right
    angles.

    >>> stream = simulated(n_tasks=4, n_features=10, n_events=5, outliers=1)
    >>> stream.n_events, len(stream.truth.outliers)
    (20, 1)
    """
    sizes = _check(n_tasks, n_features, n_events, rank, outliers)
    for share in {"noise": noise, "sparsity": sparsity, "imbalance": imbalance}.items():
        if not 0.0 <= share[1] < 1.0:
            raise ValueError("{} must be at least 0 and below 1; got {}".format(*share))
    rng = np.random.default_rng(seed)
    chosen = np.sort(rng.choice(n_tasks, size=outliers, replace=False))
    begin = _weights(rng, n_features, n_tasks, rank, chosen)
    end = _turned(begin, _weights(rng, n_features, n_tasks, rank, chosen), drift)

    task = rng.permutation(np.repeat(np.arange(n_tasks), sizes))
    x, y = _events(rng, task, begin, end, sparsity, imbalance)
    y = np.where(rng.random(len(y)) < noise, -y, y)

    personal = np.zeros_like(end)
    personal[:, chosen] = end[:, chosen]
    if sparsity > 0:
        from scipy.sparse import csr_array  # takes long to import: see rounds.py

        x = csr_array(x)
    return Stream(
        name=name,
        task=task,
        x=x,
        y=y,
        tasks=tuple(f"task {i}" for i in range(n_tasks)),
        notes=("simulated data with a planted truth",),
        truth=Truth(shared=end - personal, personal=personal, outliers=chosen),
    )


def _weights(rng: Generator, d: int, m: int, rank: int, outliers: NDArray[np.int64]) -> Floats:
    """Columns of length 1, in a space of `rank` dimensions except for the outliers."""
    directions = rng.standard_normal((d, rank))
    # Coordinates that mostly agree in sign: related tasks, not opposed ones.
    w = directions @ (np.abs(rng.standard_normal((rank, m))) + 0.2)
    w[:, outliers] = rng.standard_normal((d, len(outliers)))
    return w / np.linalg.norm(w, axis=0)


def _turned(begin: Floats, other: Floats, drift: float) -> Floats:
    """Each column turned by `drift` right angles towards the part of `other` orthogonal to it."""
    aside = other - begin * np.sum(begin * other, axis=0)
    aside /= np.linalg.norm(aside, axis=0)
    angle = drift * np.pi / 2
    return np.cos(angle) * begin + np.sin(angle) * aside


def _events(
    rng: Generator,
    task: NDArray[np.int64],
    begin: Floats,
    end: Floats,
    sparsity: float,
    imbalance: float,
) -> tuple[Floats, Floats]:
    """Rows of length 1 and their true labels; rows are drawn again until the classes balance."""
    n = len(task)
    wanted = np.where(rng.random(n) < (1.0 - imbalance) / 2.0, 1.0, -1.0)
    when = np.arange(n) / max(n - 1, 1)
    x = np.empty((n, begin.shape[0]))
    missing = np.arange(n)
    while len(missing):
        x[missing] = _rows(rng, len(missing), begin.shape[0], sparsity)
        margin = (1 - when[missing]) * np.einsum("nd,dn->n", x[missing], begin[:, task[missing]])
        margin += when[missing] * np.einsum("nd,dn->n", x[missing], end[:, task[missing]])
        missing = missing[np.where(margin >= 0, 1.0, -1.0) != wanted[missing]]
    return x, wanted


def _rows(rng: Generator, n: int, d: int, sparsity: float) -> Floats:
    x = rng.standard_normal((n, d))
    if sparsity > 0:
        x[rng.random((n, d)) < sparsity] = 0.0
        x[np.arange(n), rng.integers(0, d, n)] += 1.0  # no row is empty
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _check(
    n_tasks: int, n_features: int, n_events: int | Sequence[int], rank: int, outliers: int
) -> NDArray[np.int64]:
    if n_tasks < 1 or n_features < 2:
        raise ValueError(
            f"need at least 1 task and 2 features; got {n_tasks} tasks, {n_features} features"
        )
    sizes = np.asarray(n_events, dtype=np.int64)
    if sizes.ndim == 0:
        sizes = np.full(n_tasks, sizes)
    if len(sizes) != n_tasks or sizes.min() < 1:
        raise ValueError(f"n_events must be one positive number, or {n_tasks} of them")
    if not 1 <= rank <= n_features:
        raise ValueError(f"rank must be from 1 to {n_features}, the number of features; got {rank}")
    if not 0 <= outliers <= n_tasks:
        raise ValueError(f"outliers must be from 0 to n_tasks = {n_tasks}; got {outliers}")
    return sizes
