from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEMORY: float
NOBODY: int
SEVERAL: int

class Scale:
    log_a: float
    curvature: float
    def __init__(self, log_a: float = 0.0, curvature: float = 1.0) -> None: ...
    def add(self, margin: float, y: float, weight: float = 1.0) -> None: ...
    @classmethod
    def from_json(cls, found: Sequence[Any]) -> Scale: ...
    def probability(self, margins: NDArray[np.float64]) -> NDArray[np.float64]: ...
    def probability_of_one(self, margin: float) -> float: ...

class EventCounts:
    events: int
    seen: NDArray[np.int64]
    since: NDArray[np.int64]
    started: NDArray[np.bool_]
    n_started: int
    feature_owners: NDArray[np.int64]
    class_owners: NDArray[np.int64]
    def __init__(
        self,
        seen: NDArray[np.int64],
        since: NDArray[np.int64],
        events: int,
        feature_owners: Sequence[int] | NDArray[np.int64] = (),
        class_owners: Sequence[int] | NDArray[np.int64] = (),
    ) -> None: ...
    def grown(self, n_tasks: int, n_features: int, n_classes: int) -> EventCounts: ...
    def own_features(
        self, tasks: NDArray[np.int64], starts: NDArray[np.int32], columns: NDArray[np.int32]
    ) -> None: ...
    def forget(self, task: int) -> None: ...
