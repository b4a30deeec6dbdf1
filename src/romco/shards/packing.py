"""States on their way: of large arrays only the rows that hold anything."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LEAST = 1000  # rows from which on it is worth a look


class Filled(NamedTuple):
    """The rows of an array that are not zero, to the last bit."""

    shape: tuple[int, ...]
    rows: NDArray[np.intp]
    values: NDArray[Any]


def pack(state: dict[str, Any]) -> dict[str, Any]:
    """A state whose large arrays are given by the rows that are not zero.

    >>> wide = np.zeros((2000, 3))
    >>> wide[7] = 1.0, 0.0, -0.0
    >>> packed = pack({"arrays": {"wide": wide}})
    >>> packed["arrays"]["wide"].rows
    array([7])
    >>> bool((unpack(packed)["arrays"]["wide"] == wide).all())
    True
    """
    return {**state, "arrays": {name: _filled(a) for name, a in state["arrays"].items()}}


def unpack(state: dict[str, Any]) -> dict[str, Any]:
    """The state that was packed, or that was not."""
    return {**state, "arrays": {name: _whole(a) for name, a in state["arrays"].items()}}


def _filled(array: NDArray[Any]) -> NDArray[Any] | Filled:
    if len(array) < LEAST or array.ndim != 2 or array.dtype != np.float64:
        return array
    bits = np.ascontiguousarray(array).view(np.uint64)  # so that -0.0 is not 0
    rows = np.flatnonzero(bits.any(axis=1))
    return Filled(array.shape, rows, array[rows]) if 2 * len(rows) < len(array) else array


def _whole(array: NDArray[Any] | Filled) -> NDArray[Any]:
    if not isinstance(array, Filled):
        return array
    whole = np.zeros(array.shape)
    whole[array.rows] = array.values
    return whole
