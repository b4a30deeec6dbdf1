from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.encoded import Encoded

_Arrays = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int32]]

class Mappings:
    def read(self, rows: Sequence[Mapping[Any, Any]]) -> _Arrays | None: ...
    def read_encoded(self, rows: Encoded, found: LexiconColumns) -> _Arrays: ...

class LexiconColumns: ...
class NameCache: ...

class NamedMappings(Mappings):
    def __init__(
        self,
        known: dict[Hashable, int],
        new: dict[Hashable, int] | None = None,
        raw: bool = False,
        cache: NameCache | None = None,
    ) -> None: ...

class HashedMappings(Mappings):
    def __init__(self, size: int, raw: bool = False) -> None: ...

def hash_name(name: str) -> int: ...
