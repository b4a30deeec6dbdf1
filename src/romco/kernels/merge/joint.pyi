import numpy as np
from numpy.typing import NDArray

def merge_joint(
    mean: NDArray[np.float64],
    covariance: NDArray[np.float64],
    means: list[NDArray[np.float64]],
    covariances: list[NDArray[np.float64]],
    events: NDArray[np.int64],
    renewal: NDArray[np.float64],
    ceiling: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
