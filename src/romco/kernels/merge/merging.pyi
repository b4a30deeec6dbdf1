from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

class Touches:
    size: int
    n: int
    total: int
    n_features: int
    def __init__(
        self,
        rows: Sequence[NDArray[np.int32]],
        seen: Sequence[NDArray[np.int32]],
        n_features: int,
    ) -> None: ...

class Column:
    def __init__(self, common: Floats, own: list[Floats], live: bool) -> None: ...

class Rule: ...

class Copies(Rule):
    def __init__(self, head: Column, width: int) -> None: ...

class Beliefs(Rule):
    def __init__(
        self, mean: Column, spread: Column, prior: float, spent: bool, forgetting: float
    ) -> None: ...

class Sums(Rule):
    def __init__(self, head: Column, width: int, least: float) -> None: ...

class Steps(Rule):
    def __init__(self, column: Column) -> None: ...

class Latest(Rule):
    def __init__(self, head: Column, width: int) -> None: ...

class Merge:
    touches: Touches
    def __init__(self, touches: Touches, rules: list[Rule], live: bool) -> None: ...
    def look(self) -> None: ...
    def rows(self, begin: int, end: int) -> None: ...

def side_by_side(columns: list[Column]) -> list[tuple[Column, int]]: ...
