import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.contract import Kernel

class LinearKernel(Kernel): ...

class GradientKernel(LinearKernel):
    def __init__(
        self, w: NDArray[np.float64], t: NDArray[np.int64], eta: float, decays: bool
    ) -> None: ...

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

class ArowKernel(LinearKernel):
    def __init__(
        self, w: NDArray[np.float64], S: NDArray[np.float64], r: float, full: bool
    ) -> None: ...

class CollaborativeArowKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        S: NDArray[np.float64],
        u: NDArray[np.float64],
        Su: NDArray[np.float64],
        eta1: float,
        eta2: float,
        r: float,
        full: bool,
    ) -> None: ...

_Numbers = NDArray[np.float64]

class PassiveAggressiveNumber(LinearKernel):
    def __init__(
        self, w: _Numbers, b: _Numbers, clock: _Numbers, C: float, epsilon: float
    ) -> None: ...

class GradientNumber(LinearKernel):
    def __init__(self, w: _Numbers, b: _Numbers, clock: _Numbers, eta: float) -> None: ...

class GaussianNumber(LinearKernel):
    def __init__(
        self, w: _Numbers, b: _Numbers, clock: _Numbers, s: _Numbers, r: float
    ) -> None: ...
