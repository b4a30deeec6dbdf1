import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel

Numbers = NDArray[np.float64]

class PassiveAggressiveNumber(LinearKernel):
    def __init__(
        self, w: Numbers, b: Numbers, clock: Numbers, C: float, epsilon: float
    ) -> None: ...

class GradientNumber(LinearKernel):
    def __init__(self, w: Numbers, b: Numbers, clock: Numbers, eta: float) -> None: ...

class GaussianNumber(LinearKernel):
    def __init__(self, w: Numbers, b: Numbers, clock: Numbers, s: Numbers, r: float) -> None: ...
