import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel

class PassiveAggressiveKernel(LinearKernel):
    def __init__(self, w: NDArray[np.float64], cap: float, ridge: float) -> None: ...

class CollaborativeKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        u: NDArray[np.float64],
        eta1: float,
        eta2: float,
        C: float,
    ) -> None: ...
