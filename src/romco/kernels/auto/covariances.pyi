import numpy as np
from numpy.typing import NDArray

class Covariances:
    def __init__(
        self,
        spent: NDArray[np.float64],
        mean: NDArray[np.float64],
        variance: NDArray[np.float64],
    ) -> None: ...
