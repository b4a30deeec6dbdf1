from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.core.counts import Scale
from romco.kernels.core.events import Events
from romco.kernels.io.mappings import Mappings

PERSONAL_CHECK_EVENTS: int

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
    ) -> None: ...
    def replace_features(self, features: Any, reader: Mappings) -> None: ...
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
        body: Any,
        scale: Scale | None,
        scales: NDArray[np.float64],
        events: Events,
        starts: NDArray[np.int64],
        commit: Callable[[int], list[tuple[Callable[[Any], object], Any]]] | None = None,
        starts_of_tasks: Sequence[Callable[[], object]] = (),
        undo: Callable[[], object] | None = None,
    ) -> None: ...
    def compiled(self) -> NDArray[np.float64]: ...
    def plain(
        self,
        attempt: Callable[[], tuple[NDArray[np.float64], Callable[[], object] | None]],
    ) -> NDArray[np.float64]: ...

def retry_idempotent(act: Callable[..., object], *given: Any) -> object: ...
