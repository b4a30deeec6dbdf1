import numpy as np
from numpy.typing import NDArray

from romco.kernels.romco.rules import TaskVectors

Numbers = NDArray[np.float64]

class Relations(TaskVectors):
    def __init__(
        self, factor: Numbers, sums: Numbers, products: Numbers, tally: Numbers, clock: Numbers
    ) -> None: ...
    def couple(self) -> tuple[Numbers, NDArray[np.int64]]: ...

def factor(
    products: Numbers,
    tally: Numbers,
    seen: NDArray[np.int64],
    noise: float = ...,
    ridge: float = ...,
) -> Numbers: ...
def unseen_as_mean(factor: Numbers, seen: NDArray[np.int64]) -> Numbers: ...
