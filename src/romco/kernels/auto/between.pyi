import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.scales import Scales, Units

class Measured:
    def __init__(
        self, scales: Scales, sums: NDArray[np.float64], seen: NDArray[np.float64]
    ) -> None: ...
    def know(self, sums: NDArray[np.float64], seen: NDArray[np.float64]) -> None: ...

class Between(Units):
    def __init__(self, measured: Measured, low: int, high: int) -> None: ...
