from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def merge_gaussians(
    mean: NDArray[np.float64],
    covariance: NDArray[np.float64],
    parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    counts: Sequence[int] | None = None,
    renewal: NDArray[np.float64] | None = None,
    ceiling: float | NDArray[np.float64] = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
