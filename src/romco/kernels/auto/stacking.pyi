import numpy as np
from numpy.typing import NDArray

class ConditionalLogit:
    def __init__(
        self,
        weight: NDArray[np.float64],
        covariance: NDArray[np.float64],
        prior: NDArray[np.float64],
        forgetting: float,
    ) -> None: ...
