"""Rows of numbers, and how a learner takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.places import in_order, needed_width
from romco.learners import Learner
from romco.learners.base import CompiledLearner
from romco.rounds import Round

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Dense = NDArray[np.float64]
Task = NDArray[np.int64]


class Sparse(NamedTuple):
    """Rows in CSR form whose width is still open; each sorted, without duplicates."""

    values: NDArray[np.float64]
    columns: NDArray[np.int32]
    starts: NDArray[np.int32]


Rows = Dense | Sparse
NONE = np.empty(0)


class _Light:
    """What compiled learners need of a CSR matrix, without the time it takes to make one."""

    __slots__ = ("data", "indices", "indptr", "shape")
    format = "csr"

    def __init__(self, rows: Sparse, width: int) -> None:
        self.data, self.indices, self.indptr = rows
        self.shape = (len(rows.starts) - 1, width)


def count(rows: Rows) -> int:
    """How many rows."""
    return len(rows.starts) - 1 if isinstance(rows, Sparse) else len(rows)


def widths(rows: Rows) -> NDArray[np.int64]:
    """How many columns rows 0 to i need, for each i."""
    top = np.zeros(count(rows), dtype=np.int64)
    if isinstance(rows, Sparse):
        filled = np.diff(rows.starts) > 0
        top[filled] = rows.columns[rows.starts[1:][filled] - 1] + 1  # sorted: the last is largest
    return np.maximum.accumulate(top)


def cut(rows: Rows, begin: int, end: int) -> Rows:
    """Rows begin to end."""
    if not isinstance(rows, Sparse):
        return rows[begin:end]
    if begin == 0 and end == len(rows.starts) - 1:
        return rows
    first, last = rows.starts[begin], rows.starts[end]
    return Sparse(
        rows.values[first:last], rows.columns[first:last], rows.starts[begin : end + 1] - first
    )


def matrix(rows: Rows, width: int) -> Dense | csr_array:
    """Rows with ``width`` columns; what is stored beyond is dropped."""
    if not isinstance(rows, Sparse):
        return rows
    from scipy.sparse import csr_array  # here, so that `import romco` stays fast

    values, columns, starts = rows
    if len(columns) and columns.max() >= width:
        kept = columns < width
        starts = np.concatenate([[0], np.cumsum(kept)]).astype(np.int32)[starts]
        values, columns = values[kept], columns[kept]
    return csr_array((values, columns, starts), shape=(len(starts) - 1, width))


def predict(learner: Learner, rows: Rows, task: Task) -> Dense:
    """Margins (n,); columns that the learner does not have yet weigh nothing."""
    return learner.predict(as_round(learner, rows, task)) if len(task) else np.empty(0)


def as_round(
    learner: Learner, rows: Rows, task: Task, y: Dense = NONE, weight: Dense | None = None
) -> Round:
    """Rows of these tasks as the learner takes them; without labels if none are given."""
    x: Any = rows
    if isinstance(rows, Sparse):
        fits = needed_width(rows.columns) <= learner.n_features
        light = fits and type(learner).predict is CompiledLearner.predict
        x = _Light(rows, learner.n_features) if light else matrix(rows, learner.n_features)
    return Round(task, x, y, weight)


def tidy(values: NDArray[Any], columns: NDArray[Any], starts: NDArray[Any]) -> Sparse:
    """Each row sorted by column, entries of the same column added; the input stays as it is."""
    values = np.ascontiguousarray(values, dtype=np.float64)
    columns = np.ascontiguousarray(columns, dtype=np.int32)
    starts = np.ascontiguousarray(starts, dtype=np.int32)
    if in_order(columns, starts):
        return Sparse(values, columns, starts)
    row = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    place = row * (1 << 31) + columns
    order = np.argsort(place, kind="stable")
    place, values = place[order], values[order]
    first = np.concatenate([[True], np.diff(place) > 0])
    begins = np.flatnonzero(first)
    merged = np.add.reduceat(values, begins)
    starts = np.concatenate([[0], np.cumsum(first)]).astype(np.int32)[starts]
    return Sparse(merged, (place[begins] & ((1 << 31) - 1)).astype(np.int32), starts)
