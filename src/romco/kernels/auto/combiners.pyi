import numpy as np
from numpy.typing import NDArray

class Combiner:
    def __init__(
        self,
        weight: NDArray[np.float64],
        covariance: NDArray[np.float64],
        renewal: NDArray[np.float64],
        prior: float,
    ) -> None: ...
