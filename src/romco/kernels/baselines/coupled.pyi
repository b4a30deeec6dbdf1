import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel

class FixedKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        B: NDArray[np.float64],
        C: float,
        wide: bool,
        passive: bool,
    ) -> None: ...

class LearnedKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        B: NDArray[np.float64],
        A: NDArray[np.float64],
        G: NDArray[np.float64],
        seen: NDArray[np.int64],
        eta: float,
        prime: int,
        literal: bool,
        by_round: bool,
        C: float,
        wide: bool,
        passive: bool,
    ) -> None: ...

class LogDetKernel(LearnedKernel): ...
class VonNeumannKernel(LearnedKernel): ...
