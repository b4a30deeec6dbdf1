from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

class Covariances:
    def __init__(
        self,
        a: Mapping[str, NDArray[np.float64]],
        spent: NDArray[np.float64],
        frequent: NDArray[np.float64],
        mean_at: int,
        prior: float,
        extra: NDArray[np.float64] | None = None,
    ) -> None: ...
    def read_block(self) -> NDArray[np.float64]: ...
    def put_block(self, block: NDArray[np.float64]) -> None: ...
