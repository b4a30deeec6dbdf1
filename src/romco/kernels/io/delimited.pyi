from collections.abc import Callable, Sequence
from typing import Any, final

from romco.kernels.io.encoder import Encoder

UNUSED: int
TASK: int
LABEL: int

@final
class Delimited:
    line: int
    passed: int
    owns: Callable[[str | None], bool] | None
    def __init__(self, delimiter: bytes) -> None: ...
    def encode_into(
        self,
        encoder: Encoder,
        roles: Sequence[int],
        labelled: bool,
        owns: Callable[[str | None], bool] | None = None,
    ) -> None: ...
    def split_rows(
        self, data: bytes, at: int, last: bool, most: int
    ) -> tuple[list[tuple[int, list[bytes]]], int, Any]: ...
    def read(
        self, data: bytes | memoryview, at: int, last: bool, most: int
    ) -> tuple[list[str | None], list[str | None], list[int], list[int], int, Any]: ...
