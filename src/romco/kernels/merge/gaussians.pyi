from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def merge_gaussians(
    mean: NDArray[np.float64],
    covariance: NDArray[np.float64],
    parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    counts: Sequence[int] | None = None,
    forgetting: float = 0.0,
    ceiling: float | NDArray[np.float64] = 0.0,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
