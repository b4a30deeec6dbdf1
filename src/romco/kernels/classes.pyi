import numpy as np
from numpy.typing import NDArray

from romco.kernels.contract import Kernel

class Member:
    def __init__(
        self,
        kernel: Kernel,
        scale: NDArray[np.float64],
        low: int,
        high: int,
        next: Member | None,
    ) -> None: ...

class ClassesKernel(Kernel):
    def __init__(self, first: Member, n: int, classes: int, power: NDArray[np.float64]) -> None: ...
