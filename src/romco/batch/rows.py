"""Events of all tasks as one linear map: weights (d, m) to the margins of every event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from romco.rounds import Round

Numbers = NDArray[np.float64]


class Rows(Protocol):
    """A linear map and its adjoint; all that a solver knows about the features."""

    def margins(self, w: Numbers) -> Numbers:
        """w_k . x of every event (n,), from weights (d, m)."""

    def adjoint(self, slopes: Numbers) -> Numbers:
        """Sum of slope * x over the events of each task: (d, m) from (n,)."""


@dataclass(frozen=True)
class DenseRows:
    """One array (n_k, d) per task; events are ordered by task."""

    blocks: list[Numbers]

    def margins(self, w: Numbers) -> Numbers:
        """w_k . x of every event (n,)."""
        return np.concatenate([x @ w[:, k] for k, x in enumerate(self.blocks)])

    def adjoint(self, slopes: Numbers) -> Numbers:
        """Sum of slope * x over the events of each task (d, m)."""
        ends = np.cumsum([len(x) for x in self.blocks])[:-1]
        parts = zip(self.blocks, np.split(slopes, ends), strict=True)
        return np.stack([slope @ x for x, slope in parts], axis=1)


@dataclass(frozen=True)
class SparseRows:
    """All tasks in one block matrix (n, m d): a single product whatever their number."""

    block: Any  # (n, m d) CSR, event i of task k has its features at k d, ..., k d + d - 1
    transposed: Any  # (m d, n) the same numbers
    n_tasks: int

    def margins(self, w: Numbers) -> Numbers:
        """w_k . x of every event (n,)."""
        margins: Numbers = self.block @ w.T.ravel()
        return margins

    def adjoint(self, slopes: Numbers) -> Numbers:
        """Sum of slope * x over the events of each task (d, m)."""
        columns: Numbers = (self.transposed @ slopes).reshape(self.n_tasks, -1).T
        return columns


@dataclass(frozen=True)
class TaskRows:
    """Events as the solvers want them: the map, and task and label of each row."""

    rows: Rows
    task: NDArray[np.int64]  # (n,)
    y: Numbers  # (n,)
    n_features: int
    n_tasks: int


DENSE = 0.25  # share of non-zeros from which on plain arrays are faster than CSR


def tabulated(events: Round, n_tasks: int, intercept: bool = False) -> TaskRows:
    """The table of some events; an intercept is one more feature that is always 1.

    >>> events = Round(np.array([1, 0]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, -1.0]))
    >>> table = tabulated(events, n_tasks=2)
    >>> table.rows.margins(np.array([[1.0, 0.0], [1.0, 0.5]])), table.y
    (array([7., 1.]), array([-1.,  1.]))
    """
    features: Any = events.x
    d = features.shape[1]
    nonzero = features.nnz if issparse(features) else np.count_nonzero(features)
    if nonzero < DENSE * len(events.y) * d:
        rows = _sparse_rows(csr_array(features), events.task, n_tasks, intercept)
        return TaskRows(rows, events.task, events.y, d + intercept, n_tasks)
    order = np.argsort(events.task, kind="stable")
    x = (features.toarray() if issparse(features) else features)[order]
    x = np.column_stack([x, np.ones(len(x))]) if intercept else x
    task = events.task[order]
    blocks = np.split(x, np.searchsorted(task, np.arange(1, n_tasks)))
    return TaskRows(DenseRows(blocks), task, events.y[order], d + intercept, n_tasks)


def compressed(table: TaskRows) -> TaskRows:
    """A table with the same sum of squared errors for every W, and few rows per task.

    ``|X w - y|^2`` depends on (X, y) only through the triangular factor of [X y].
    """
    d = table.n_features
    if not isinstance(table.rows, DenseRows):
        return table
    blocks, labels = [], []
    for k, x in enumerate(table.rows.blocks):
        both = np.column_stack([x, table.y[table.task == k]])
        both = np.asarray(np.linalg.qr(both, mode="r")) if len(x) > 2 * d + 2 else both
        blocks.append(np.ascontiguousarray(both[:, :d]))
        labels.append(both[:, d])
    task = np.repeat(np.arange(table.n_tasks), [len(x) for x in blocks])
    return TaskRows(DenseRows(blocks), task, np.concatenate(labels), d, table.n_tasks)


def _sparse_rows(
    x: csr_array, task: NDArray[np.int64], n_tasks: int, intercept: bool
) -> SparseRows:
    n, d = x.shape[0], x.shape[1] + intercept
    data, columns, starts = x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64)
    if intercept:
        data = np.insert(data, starts[1:], 1.0)
        columns = np.insert(columns, starts[1:], d - 1)
        starts = starts + np.arange(n + 1)
    columns += np.repeat(task * d, np.diff(starts))
    block = csr_array((data, columns, starts), shape=(n, n_tasks * d))
    return SparseRows(block, block.T, n_tasks)
