import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel

class ImplicitEuclideanKernel(LinearKernel):
    def __init__(self, w: NDArray[np.float64], C: float) -> None: ...

class ImplicitLargestKernel(LinearKernel):
    def __init__(self, w: NDArray[np.float64], C: float, r: float) -> None: ...

class ExplicitEuclideanKernel(LinearKernel):
    def __init__(
        self, w: NDArray[np.float64], radius: NDArray[np.float64], C: float, scaled: bool
    ) -> None: ...

class ExplicitLargestKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        radius: NDArray[np.float64],
        C: float,
        r: float,
        scaled: bool,
    ) -> None: ...
