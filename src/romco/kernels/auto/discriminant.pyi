from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.pairs import Pairs

COLUMN_FIELDS: tuple[str, ...]
PROGRESS_FIELDS: tuple[str, ...]
MOST_COLUMNS: int
WAVE_ORDERS: tuple[int, ...]

class Discriminant:
    def __init__(
        self, n_features: int, a: Mapping[str, NDArray[np.float64]], groups: Pairs
    ) -> None: ...
    def shrinkage_events(self) -> float: ...
    def forget(self, task: int, counts: NDArray[np.float64], seen: NDArray[np.float64]) -> None: ...
    def columns_read(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...
    def entries(self, n: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]: ...
