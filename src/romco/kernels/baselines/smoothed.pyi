import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel

class SmoothedKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        p: NDArray[np.float64],
        C: float,
        alpha: float,
        rate: float,
        on_mistake: bool,
    ) -> None: ...

class ExponentialKernel(SmoothedKernel): ...
class TruncatedKernel(SmoothedKernel): ...
