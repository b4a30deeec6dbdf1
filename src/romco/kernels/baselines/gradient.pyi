import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.contract import Kernel

class GradientKernel(Kernel):
    def __init__(
        self, w: NDArray[np.float64], t: NDArray[np.int64], eta: float, decays: bool
    ) -> None: ...
