"""Rows that were read once, on their way to the shard that learns them."""

from __future__ import annotations

from functools import partial
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.picking import pick_rows
from romco.kernels.merge.touched import Touched
from romco.model.features import Rows, Sparse
from romco.model.names import Action, Id


@final
class Ready:
    """Features of a shard's model: rows come as numbers, and may need more columns than before."""

    def __init__(self, width: int) -> None:
        self.width = width

    def read(self, rows: Any, new: dict[Id, int] | None = None) -> Rows:
        """The rows as they are."""
        if new is not None and isinstance(rows, Sparse) and len(rows.columns):
            needed = int(rows.columns.max()) + 1
            if needed > self.width:
                new["columns"] = needed
        found: Rows = rows
        return found

    def add(self, new: dict[Id, int]) -> None:
        """More columns."""
        self.width = max(self.width, new.get("columns", 0))

    def actions(self, new: dict[Id, int], top: int) -> list[Action]:
        """What makes room for the columns below ``top``."""
        return [(partial(setattr, self, "width"), max(self.width, top))]

    def name(self, column: int) -> Id:
        """Names are known to whoever read the rows."""
        return f"#{column}"

    def to_json(self) -> dict[str, Any]:
        """As plain columns."""
        return {"kind": "columns", "width": self.width, "names": None}


def pick(rows: Rows, places: NDArray[np.int64]) -> Rows:
    """The rows at some places.

    >>> pick(np.array([[1.0], [2.0], [3.0]]), np.array([0, 2]))
    array([[1.],
           [3.]])
    """
    if not isinstance(rows, Sparse):
        return rows[places]
    return Sparse(*pick_rows(rows.values, rows.columns, rows.starts, places))


def touch(touched: Touched, rows: Rows) -> None:
    """Note which features occur in the rows."""
    if isinstance(rows, Sparse):
        if len(rows.columns):
            touched.grow(int(rows.columns.max()) + 1)
        touched.add(rows.values, rows.columns)
    else:
        touched.grow(rows.shape[1])
        touched.add_dense(np.ascontiguousarray(rows, dtype=np.float64))
