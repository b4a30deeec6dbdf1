import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.discriminant import Discriminant
from romco.kernels.auto.scales import Scales
from romco.kernels.auto.stacking import ConditionalLogit
from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs

class SoftmaxKernel(Kernel):
    def __init__(
        self,
        classes: int,
        shared: Pairs,
        personal: Pairs,
        level: NDArray[np.float64],
        own_level: NDArray[np.float64],
        counts: NDArray[np.float64],
        seen: NDArray[np.float64],
        clock: NDArray[np.float64],
        scales: Scales,
        discriminant: Discriminant,
        stacking: ConditionalLogit,
    ) -> None: ...
    def settle_after_merge(self) -> bool: ...
    def inputs(self, events: Events) -> NDArray[np.float64]: ...
    def entries(
        self, events: Events
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], float, NDArray[np.float64]]: ...
