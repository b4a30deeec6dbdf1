from collections.abc import Callable, Mapping
from typing import Any, Protocol

from romco.kernels.io.questions import Questions

class Wire(Protocol):
    """What is asked of a connection."""

    def begin_with(self, status: int) -> bytes: ...

def is_free(wire: Wire) -> bool: ...

class Lane:
    stayed: int
    def __init__(
        self,
        start: bytes,
        longest_head: int,
        longest_body: int,
        heads: Mapping[bytes, tuple[int, Any] | None],
        questions: Questions | None,
        live: object,
        keep: Callable[[list[Any], list[Any]], object],
        told: Callable[[Any, float, float, int], object],
        encode: Callable[[Any], bytes],
        meters: object,
        path: str,
        awake: float = 0.0,
    ) -> None: ...
    def serve(self, wire: Wire, data: bytes) -> bytes | None: ...
    def answer_body(self, body: bytes) -> bytes | None: ...
    def answer(self, data: bytes, at: int, first: bytes, told: list[bytes]) -> int: ...
