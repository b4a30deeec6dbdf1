import numpy as np
from numpy.typing import NDArray

class Centres:
    def __init__(
        self,
        centre: NDArray[np.float64],
        length: NDArray[np.float64],
        spent: NDArray[np.float64],
        count: NDArray[np.float64],
    ) -> None: ...
