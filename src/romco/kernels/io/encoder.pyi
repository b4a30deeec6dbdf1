from collections.abc import Callable, Collection, Container, Mapping
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.lexicon import Lexicon

KINDS: tuple[str, ...]

@final
class Encoder:
    lexicon: Lexicon
    @property
    def size(self) -> int: ...
    @property
    def skipped(self) -> dict[str, None]: ...
    def __init__(
        self,
        plain: Callable[[str, str, Any], Mapping[str, float]],
        lexicon: Lexicon,
        known: Mapping[str, tuple[Any, ...]] | None = None,
        numbers: Container[Any] | None = None,
    ) -> None: ...
    def column(self, name: str, kind: str | None = None) -> int: ...
    def add_row(
        self, row: Any, roles: Collection[str | None], features: Collection[str] | None = None
    ) -> int: ...
    def take(self) -> tuple[NDArray[np.float64], NDArray[np.int32]]: ...

def only_numbers(rows: Any) -> bool: ...
