import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.pairs import Pairs

COLUMN_FIELDS: tuple[str, ...]
PROGRESS_FIELDS: tuple[str, ...]
MOST_COLUMNS: int
WAVE_ORDERS: tuple[int, ...]

def shrinkage_events(products: float, weights: float) -> float: ...

class Discriminant:
    def __init__(
        self,
        n_features: int,
        columns: NDArray[np.float64],
        progress: NDArray[np.float64],
        sums: NDArray[np.float64],
        scatter: NDArray[np.float64],
        centre: NDArray[np.float64],
        factor: NDArray[np.float64],
        line_factor: NDArray[np.float64],
        class_scatter: NDArray[np.float64],
        class_factor: NDArray[np.float64],
        solved: NDArray[np.float64],
        groups: Pairs,
    ) -> None: ...
    def forget(self, task: int, counts: NDArray[np.float64], seen: NDArray[np.float64]) -> None: ...
    def columns_read(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def entries(self, n: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
