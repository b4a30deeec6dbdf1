import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.pairs import Pairs

PROGRESS: int

class Subspace:
    slice: int
    def __init__(
        self,
        array: NDArray[np.float64],
        first: int,
        second: int,
        F: NDArray[np.float64],
        pairs: Pairs,
        lane: int,
        progress: NDArray[np.float64],
    ) -> None: ...
    def lose_track(self) -> None: ...
