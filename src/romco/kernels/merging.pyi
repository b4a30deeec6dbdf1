from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Entries:
    rows: NDArray[np.int32]
    starts: NDArray[np.int64]
    shard: NDArray[np.int32]
    place: NDArray[np.int32]
    seen: NDArray[np.int32]
    n_rows: int
    def __init__(
        self,
        rows: Sequence[NDArray[np.int32]],
        seen: Sequence[NDArray[np.int32]],
        n_features: int,
        live: bool,
    ) -> None: ...

class Column:
    def __init__(self, common: Floats, own: list[Floats], live: bool) -> None: ...

class Rule: ...

class Beliefs(Rule):
    def __init__(
        self, mean: Column, spread: Column, prior: float, spent: bool, forgetting: float
    ) -> None: ...

class Sums(Rule):
    def __init__(self, column: Column, least: float) -> None: ...

class Steps(Rule):
    def __init__(self, column: Column) -> None: ...

class Latest(Rule):
    def __init__(self, column: Column) -> None: ...

def look(entries: Entries, rules: list[Rule]) -> None: ...
def merge_rows(entries: Entries, rules: list[Rule], begin: int, end: int) -> None: ...
