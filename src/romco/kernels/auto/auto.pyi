from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto.covariances import Covariances
from romco.kernels.auto.subspace import Subspace
from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs

CURVE_FIELDS: tuple[str, ...]
FEATURE_FIELDS: tuple[str, ...]
FUNCTION_FIELDS: tuple[str, ...]
PAIR_FIELDS: tuple[str, ...]
MAX_HASH: float
TASK_FIELDS: tuple[str, ...]
PLACE_FIELDS: tuple[str, ...]
STREAM_FIELDS: tuple[str, ...]
INPUT_NAMES: tuple[str, ...]
RECENT_NAMES: tuple[str, ...]

class AutoKernel(Kernel):
    subspace: Subspace
    global_block: Covariances
    mixed_block: Covariances

    def __init__(
        self, a: Mapping[str, NDArray[np.float64]], personal: Pairs, curves: Pairs
    ) -> None: ...
    def spreads(self, events: Events, frozen: bool, with_noise: bool) -> NDArray[np.float64]: ...
    def prediction_context(self, events: Events) -> NDArray[np.float64]: ...
    def set_context(self, events: Events, context: NDArray[np.float64]) -> None: ...
    def entries(
        self, events: Events
    ) -> tuple[
        NDArray[np.int64],
        NDArray[np.int32],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
        NDArray[np.float64],
    ]: ...
    def curve_variances(self) -> NDArray[np.float64]: ...
    def slope_variances(self) -> NDArray[np.float64]: ...
    def answer_variance(self) -> float: ...
    def others_change(self) -> None: ...
    def choose_after_merge(self, rows: NDArray[np.int32]) -> bool: ...
    def restart_subspace(self) -> None: ...
    def gather_directions(self, rows: NDArray[np.int32]) -> tuple[NDArray[np.float64], int]: ...
    def put_directions(self, rows: NDArray[np.int32], values: NDArray[np.float64]) -> None: ...
    def orthogonalise_directions(self, values: NDArray[np.float64]) -> None: ...
