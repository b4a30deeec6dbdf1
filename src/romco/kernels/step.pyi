from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.contract import Kernel
from romco.kernels.core.counts import EventCounts, Scale
from romco.kernels.core.events import Events
from romco.kernels.io.mappings import Mappings

class Step:
    features: Any
    target: Any
    tasks: Any
    body: Any
    locks: Any
    history: Any
    scale: Scale
    starts_tasks: bool
    with_offset: bool
    live: bool
    def __init__(
        self,
        features: Any,
        reader: Mappings | None,
        target: Any,
        tasks: Any,
        body: Any,
        locks: Any,
        base: type,
        watch_every: int,
    ) -> None: ...
    def learn_event(
        self,
        x: Any,
        y: Any,
        task: Any,
        weight: float = 1.0,
        offset: Any = None,
        context: Any = None,
    ) -> Any: ...
    def margin_and_context_of_event(self, x: Any, task: Any, offset: Any = None) -> Any: ...
    def margin_of_event(self, x: Any, task: Any, offset: Any = None) -> Any: ...
    def label_of_event(self, x: Any, task: Any, offset: Any = None) -> Any: ...
    def predict_events(
        self, rows: Sequence[Any], tasks: Sequence[Any], offsets: Sequence[float] | None = None
    ) -> Any: ...

class ChunkStep:
    def __init__(
        self,
        counts: EventCounts,
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
