from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

def merge_gaussians(
    mean: NDArray[np.float64],
    covariance: NDArray[np.float64],
    parts: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
    counts: Sequence[int],
    renewal: NDArray[np.float64],
    ceiling: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
