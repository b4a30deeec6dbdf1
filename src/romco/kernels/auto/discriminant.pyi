import numpy as np
from numpy.typing import NDArray

COLUMN_FIELDS: tuple[str, ...]
PROGRESS_FIELDS: tuple[str, ...]
MOST_COLUMNS: int
WAVE_ORDERS: tuple[int, ...]

def shrinkage_events(products: float, weights: float) -> float: ...

class Discriminant:
    def forget(self, task: int, counts: NDArray[np.float64], seen: NDArray[np.float64]) -> None: ...
    def columns_read(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def entries(self, n: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
