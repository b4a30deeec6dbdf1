from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.kernels.io.encoder import Encoder
from romco.kernels.io.lexicon import Lexicon

UNUSED: int
TASK: int
LABEL: int

class Delimited:
    line: int
    passed: int
    def __init__(
        self,
        encoder: Encoder,
        names: Lexicon,
        roles: Sequence[int],
        delimiter: bytes,
        labelled: bool,
        owns: Callable[[str | None], bool] | None = None,
    ) -> None: ...
    def header(self, data: bytes | memoryview, last: bool) -> tuple[list[bytes], int] | None: ...
    def split_rows(
        self, data: bytes, at: int, last: bool, most: int
    ) -> tuple[list[tuple[int, list[bytes]]], int, Any]: ...
    def read(
        self, data: bytes | memoryview, at: int, last: bool, most: int
    ) -> tuple[
        NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.int64], int, Any
    ]: ...
