import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.contract import Kernel
from romco.kernels.core.pairs import Pairs

class SharedPassiveAggressive(Kernel):
    def __init__(self, u: NDArray[np.float64], v: Pairs, C: float) -> None: ...

class SharedArow(Kernel):
    def __init__(self, u: NDArray[np.float64], v: Pairs, r: float) -> None: ...
