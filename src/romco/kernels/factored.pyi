import numpy as np
from numpy.typing import NDArray

from romco.kernels.contract import Kernel

Arrays = dict[str, NDArray[np.generic]]

class Rules:
    def __init__(
        self,
        *,
        logdet: bool,
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

class Factored(Kernel):
    rounds: int
    truncations: int
    def __init__(
        self, rules: Rules, tasks: TaskVectors, n_features: int, n_tasks: int
    ) -> None: ...
    def left_vectors(self) -> NDArray[np.float64]: ...
    def right_vectors(self) -> NDArray[np.float64]: ...
    def core_matrix(self) -> NDArray[np.float64]: ...
    def personal_columns(self) -> NDArray[np.float64]: ...
    def personal_norms(self) -> NDArray[np.float64]: ...
    def deviation(self) -> float: ...
    def arrays(self) -> Arrays: ...
    def load(self, arrays: Arrays) -> None: ...

class FewTasks(Factored): ...
class ManyTasks(Factored): ...
