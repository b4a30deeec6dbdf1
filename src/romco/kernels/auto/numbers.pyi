import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.scales import Scales
from romco.kernels.auto.stacking import StackingModel
from romco.kernels.auto.subspace import Subspace
from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs

class AutoNumberKernel(Kernel):
    subspace: Subspace

    def __init__(
        self,
        mean: NDArray[np.float64],
        spent: NDArray[np.float64],
        personal: Pairs,
        own: NDArray[np.float64],
        common: NDArray[np.float64],
        noise: NDArray[np.float64],
        factor: NDArray[np.float64],
        directions: NDArray[np.float64],
        related: StackingModel,
        like_all: StackingModel,
        on_its_own: StackingModel,
        drift: StackingModel,
        scales: Scales,
        evidence: NDArray[np.float64],
        belief: NDArray[np.float64],
        kinds: NDArray[np.float64],
        clock: NDArray[np.float64],
        residuals: NDArray[np.float64],
        progress: NDArray[np.float64],
    ) -> None: ...
    def restart_subspace(self) -> None: ...
    def entries(
        self, events: Events
    ) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]: ...
    def spreads(self, events: Events) -> NDArray[np.float64]: ...
