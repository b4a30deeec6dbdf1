from typing import Any

from romco.kernels.baselines.mappings import Mappings
from romco.kernels.contract import Kernel

class Single:
    def __init__(self, reader: Mappings) -> None: ...
    def margin(
        self,
        kernel: Kernel,
        n_features: int,
        n_tasks: int,
        task: int,
        row: dict[Any, Any] | Mappings,
    ) -> float | None: ...
