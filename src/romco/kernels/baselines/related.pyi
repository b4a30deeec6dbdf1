import numpy as np
from numpy.typing import NDArray

from romco.kernels.baselines.linear import LinearKernel
from romco.kernels.core.contract import Kernel
from romco.kernels.core.pairs import Pairs

class SharedPassiveAggressive(Kernel):
    def __init__(self, u: NDArray[np.float64], v: Pairs, C: float) -> None: ...

class SharedArow(Kernel):
    def __init__(self, u: NDArray[np.float64], v: Pairs, r: float) -> None: ...

class SharedLossKernel(LinearKernel):
    def __init__(
        self,
        w: NDArray[np.float64],
        radius: NDArray[np.float64],
        C: float,
        r: float,
        implicit: bool,
        scaled: bool,
    ) -> None: ...

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
        by_round: bool,
        C: float,
        wide: bool,
        passive: bool,
    ) -> None: ...

class LogDetKernel(LearnedKernel): ...
class VonNeumannKernel(LearnedKernel): ...
