from typing import Any

from romco.kernels.core.contract import Kernel
from romco.kernels.core.history import Scale
from romco.kernels.core.lock import FairLock
from romco.kernels.io.mappings import Mappings

class Single:
    def __init__(self, reader: Mappings, predict: object = None) -> None: ...
    def is_compiled(self, learner: object) -> bool: ...
    def margin(
        self,
        kernel: Kernel,
        n_features: int,
        n_tasks: int,
        task: int,
        row: dict[Any, Any] | Mappings,
    ) -> float | None: ...
    def answer(
        self,
        lock: FairLock,
        numbers: dict[Any, int],
        inside: object,
        target: object,
        scale: Scale,
        read: Mappings,
        task: object,
    ) -> tuple[Any, float, float] | None: ...
