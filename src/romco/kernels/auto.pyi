import numpy as np
from numpy.typing import NDArray

from romco.kernels.contract import Kernel
from romco.kernels.pairs import Pairs

class AutoKernel(Kernel):
    def __init__(
        self,
        shared: NDArray[np.float64],
        personal: Pairs,
        factor: NDArray[np.float64],
        intercept: NDArray[np.float64],
        own_intercept: NDArray[np.float64],
        weight: NDArray[np.float64],
        covariance: NDArray[np.float64],
        own_weight: NDArray[np.float64],
        own_covariance: NDArray[np.float64],
        evidence: NDArray[np.float64],
        clock: NDArray[np.float64],
    ) -> None: ...
