from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.discriminant import Discriminant
from romco.kernels.auto.stacking import ConditionalLogit
from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs

class SoftmaxKernel(Kernel):
    discriminant: Discriminant

    def __init__(
        self,
        classes: int,
        a: Mapping[str, NDArray[np.float64]],
        stores: Mapping[str, Pairs],
        stacking: ConditionalLogit,
    ) -> None: ...
    def settle_after_merge(self) -> bool: ...
    def inputs(self, events: Events) -> NDArray[np.float64]: ...
    def entries(
        self, events: Events
    ) -> tuple[NDArray[np.int32], NDArray[np.float64], float, NDArray[np.float64]]: ...
