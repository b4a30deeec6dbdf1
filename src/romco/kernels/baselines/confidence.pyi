import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel

class DiagonalArowKernel(LinearKernel):
    def __init__(self, w: NDArray[np.float64], s: NDArray[np.float64], r: float) -> None: ...

class FullArowKernel(LinearKernel):
    def __init__(self, w: NDArray[np.float64], S: NDArray[np.float64], r: float) -> None: ...

class DiagonalCollaborativeKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        s: NDArray[np.float64],
        u: NDArray[np.float64],
        su: NDArray[np.float64],
        eta1: float,
        eta2: float,
        r: float,
    ) -> None: ...

class FullCollaborativeKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        S: NDArray[np.float64],
        u: NDArray[np.float64],
        Su: NDArray[np.float64],
        eta1: float,
        eta2: float,
        r: float,
    ) -> None: ...
