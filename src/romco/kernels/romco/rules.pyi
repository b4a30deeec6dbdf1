from typing import Any, final

import numpy as np
from numpy.typing import NDArray

# The layer above says what these are; here they are objects with the methods that are called.
_Loss = Any
_Penalty = Any
_SpectralPenalty = Any
_Step = Any

@final
class Rules:
    def __init__(
        self,
        *,
        loss: _Loss,
        penalty: _SpectralPenalty,
        personal: _Penalty,
        step: _Step,
        eta1: float,
        eta2: float,
        lambda1: float,
        C: float,
        on_mistake: bool,
        always_prox: bool,
        rho_power: float,
        max_rank: int,
        by_share: bool,
    ) -> None: ...

@final
class TaskVectors:
    width: int
    def __init__(
        self, n_tasks: int, b: float, factor: NDArray[np.float64] | None = None
    ) -> None: ...
    def dense(self, n_tasks: int) -> NDArray[np.float64]: ...
