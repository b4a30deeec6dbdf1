import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.stacking import ConditionalLogit
from romco.kernels.core.contract import Kernel

class Member:
    def __init__(self, kernel: Kernel, scale: NDArray[np.float64], low: int, high: int) -> None: ...

class ClassesKernel(Kernel):
    def __init__(
        self,
        members: list[Member],
        classes: int,
        stacking: ConditionalLogit | None = None,
        softmax: Kernel | None = None,
    ) -> None: ...
    def scores_of(self, margins: NDArray[np.float64]) -> NDArray[np.float64]: ...

class RestKernel(ClassesKernel): ...
class PairsKernel(ClassesKernel): ...
