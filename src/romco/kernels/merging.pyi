import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Touched:
    def __init__(self, n_features: int) -> None: ...
    def grow(self, n_features: int) -> None: ...
    def add(self, values: Floats, columns: NDArray[np.int32]) -> None: ...
    def add_dense(self, x: Floats) -> None: ...
    def rows(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]: ...
    def load(self, rows: NDArray[np.int32], seen: NDArray[np.int32]) -> None: ...
    def clear(self) -> None: ...

def take_rows(
    array: Floats, rows: NDArray[np.int32], columns: NDArray[np.int64], out: Floats
) -> None: ...
def put_rows(
    array: Floats, rows: NDArray[np.int32], columns: NDArray[np.int64], given: Floats
) -> None: ...
def merge_beliefs(
    merged: Floats,
    values: Floats,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    seen: NDArray[np.int32],
    mean: int,
    spread: int,
    prior: float,
    spent: bool,
    forgetting: float,
) -> None: ...
def merge_sums(
    merged: Floats,
    values: Floats,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    column: int,
    least: float,
) -> None: ...
def merge_steps(
    merged: Floats,
    values: Floats,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    column: int,
) -> None: ...
def merge_latest(
    merged: Floats,
    values: Floats,
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    seen: NDArray[np.int32],
    column: int,
) -> None: ...
