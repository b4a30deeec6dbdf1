from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

def pick_rows(
    values: NDArray[np.float64],
    columns: NDArray[np.int32],
    starts: NDArray[np.int32],
    places: NDArray[np.int64],
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]: ...
def encode(
    codes: dict[Any, int], names: list[Any], add: Callable[[Any], int]
) -> NDArray[np.int64]: ...
