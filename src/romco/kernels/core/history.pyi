from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.contract import Kernel
from romco.kernels.core.events import Events

MEMORY: float

class Scale:
    log_a: float
    curvature: float
    def __init__(self, log_a: float = 0.0, curvature: float = 1.0) -> None: ...
    def add(self, margin: float, y: float, weight: float = 1.0) -> None: ...
    @classmethod
    def from_json(cls, found: Sequence[Any]) -> Scale: ...
    def probability(self, margins: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def probability_of_one(self, margin: float) -> float: ...

class History:
    events: int
    seen: NDArray[np.int64]
    since: NDArray[np.int64]
    started: NDArray[np.bool_]
    n_started: int
    def __init__(self, seen: NDArray[np.int64], since: NDArray[np.int64], events: int) -> None: ...
    def grown(self, n_tasks: int) -> History: ...
    def forget(self, task: int) -> None: ...

class ChunkStep:
    def __init__(
        self,
        history: History,
        scale: Scale | None,
        scales: NDArray[np.float64] | None,
        events: Events,
        starts: NDArray[np.int64],
        commit: Callable[[int], list[tuple[Callable[[Any], object], Any]]] | None,
        starts_of_tasks: Sequence[Callable[[], object]],
        undo: Callable[[], object] | None,
        watch: Callable[[], object],
        every: int,
    ) -> None: ...
    def compiled(self, kernel: Kernel) -> NDArray[np.float64]: ...
    def plain(
        self,
        attempt: Callable[[], tuple[NDArray[np.float64], Callable[[], object] | None]],
    ) -> NDArray[np.float64]: ...

def retry_idempotent(act: Callable[..., object], *given: Any) -> object: ...
