import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.pairs import Pairs

class Subspace:
    def __init__(
        self, B: NDArray[np.float64], F: NDArray[np.float64], pairs: Pairs, lane: int
    ) -> None: ...
