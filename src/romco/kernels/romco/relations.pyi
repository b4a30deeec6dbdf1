from typing import final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.romco.rules import TaskVectors

_Numbers = NDArray[np.float64]

@final
class Relations(TaskVectors):
    def __init__(
        self, factor: _Numbers, sums: _Numbers, products: _Numbers, tally: _Numbers, clock: _Numbers
    ) -> None: ...
    def couple(self) -> tuple[_Numbers, NDArray[np.int64]]: ...

def factor(
    products: _Numbers,
    tally: _Numbers,
    seen: NDArray[np.int64],
    noise: float = ...,
    ridge: float = ...,
) -> _Numbers: ...
def unseen_as_mean(factor: _Numbers, seen: NDArray[np.int64]) -> _Numbers: ...
