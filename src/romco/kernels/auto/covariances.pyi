import numpy as np
from numpy.typing import NDArray

class Covariances:
    def __init__(
        self,
        spent: NDArray[np.float64],
        frequent: NDArray[np.float64],
        shared: NDArray[np.float64],
        intercept: NDArray[np.float64],
        mean_at: int,
        spent_at: int,
        prior: float,
    ) -> None: ...
