import numpy as np
from numpy.typing import NDArray

from romco.kernels.contract import Kernel
from romco.kernels.personal import Personal

class SharedPassiveAggressive(Kernel):
    def __init__(self, u: NDArray[np.float64], v: Personal, C: float) -> None: ...

class SharedArow(Kernel):
    def __init__(self, u: NDArray[np.float64], v: Personal, r: float) -> None: ...
