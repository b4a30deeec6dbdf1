import numpy as np
from numpy.typing import NDArray

class Rules:
    def __init__(
        self,
        *,
        logdet: bool,
        loss: str,
        eta1: float,
        eta2: float,
        lambda1: float,
        lambda2: float,
        C: float,
        on_mistake: bool,
        always_prox: bool,
        step_decays: bool,
        rho_power: float,
        max_rank: int,
    ) -> None: ...

class TaskVectors:
    width: int
    def __init__(
        self, n_tasks: int, b: float, factor: NDArray[np.float64] | None = None
    ) -> None: ...
    def dense(self, n_tasks: int) -> NDArray[np.float64]: ...
