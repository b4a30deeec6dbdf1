import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.pairs import Pairs

PROGRESS: int

class Subspace:
    slice: int
    def __init__(
        self,
        B: NDArray[np.float64],
        F: NDArray[np.float64],
        pairs: Pairs,
        progress: NDArray[np.float64],
    ) -> None: ...
