import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.scales import Units
from romco.kernels.auto.stacking import StackingModel
from romco.kernels.auto.subspace import Subspace
from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs

GLOBAL_PRIOR: float
TRACKING_FORGETTING: float
TRACKING_PRIOR: float

class AutoKernel(Kernel):
    subspace: Subspace

    def __init__(
        self,
        shared: NDArray[np.float64],
        personal: Pairs,
        scales: Units,
        factor: NDArray[np.float64],
        intercept: NDArray[np.float64],
        level: NDArray[np.float64],
        own_intercept: NDArray[np.float64],
        related: StackingModel,
        like_all: StackingModel,
        on_its_own: StackingModel,
        evidence: NDArray[np.float64],
        belief: NDArray[np.float64],
        kinds: NDArray[np.float64],
        clock: NDArray[np.float64],
        change: NDArray[np.float64],
        turn: NDArray[np.float64],
        joint: NDArray[np.float64],
        frequent: NDArray[np.float64],
        progress: NDArray[np.float64],
    ) -> None: ...
    def begin_anew(self, task: int) -> None: ...
    def prediction_context(self, events: Events) -> NDArray[np.float64]: ...
    def set_context(self, events: Events, context: NDArray[np.float64]) -> None: ...
    def entries(
        self, events: Events
    ) -> tuple[
        NDArray[np.float64],
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
    ]: ...
    def drift(self) -> float: ...
    def others_change(self) -> None: ...
    def choose_after_merge(self, rows: NDArray[np.int32]) -> bool: ...
    def read_block(self) -> NDArray[np.float64]: ...
    def put_block(self, block: NDArray[np.float64]) -> None: ...
    def invalidate_caches(self, rows: NDArray[np.int32]) -> None: ...
    def restart_subspace(self) -> None: ...
    def gather_directions(self, rows: NDArray[np.int32]) -> NDArray[np.float64]: ...
    def put_directions(self, rows: NDArray[np.int32], values: NDArray[np.float64]) -> None: ...
    def orthogonalise_directions(self, values: NDArray[np.float64]) -> None: ...
