from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.encoded import Encoded
from romco.kernels.io.encoder import Encoder
from romco.kernels.io.mappings import Mappings

HALF_LIVES: tuple[float, ...]
PREFIX: str
EVERYBODY: int
LABEL_CODES: int
CODE_COLUMN: int

class HistoryFeatures:
    columns: tuple[str, ...]
    time: str | None
    numeric: bool
    limit: int
    used: int
    classes: int
    categories: list[str]
    features: dict[str, tuple[int, str, int, None]]
    def __init__(
        self,
        columns: Iterable[str],
        *,
        numeric: bool = False,
        time: str | None = None,
        limit: int = 1_000_000,
    ) -> None: ...
    def feature_of(self, name: str) -> tuple[int, str, Any, str | None] | None: ...
    def make_classes(self, classes: int) -> None: ...
    def expand(
        self,
        tasks: NDArray[np.int64],
        rows: Encoded,
        y: NDArray[np.float64] | None = None,
        given: NDArray[np.float64] | None = None,
        learned: bool = True,
    ) -> Encoded: ...
    def read_event(
        self, task: int, row: Encoder, reader: Mappings, y: float | None = None
    ) -> bool: ...
    def describe(self, tasks: NDArray[np.int64], rows: Encoded) -> NDArray[np.float64]: ...
    def context_sizes(self) -> list[int]: ...
    def observe(
        self,
        tasks: NDArray[np.int64],
        rows: Encoded,
        y: NDArray[np.float64],
        learned: bool = True,
    ) -> None: ...
    def commit(self, rows: int) -> None: ...
    def rollback(self) -> None: ...
    def forget(self, task: int) -> None: ...
    def arrays(self) -> dict[str, NDArray[np.generic]]: ...
    def load(
        self, categories: Sequence[str], arrays: Mapping[str, NDArray[np.generic]]
    ) -> None: ...
    def prune(self) -> None: ...
