from collections.abc import Iterable, Sequence
from typing import Any

class HistoryFeatures:
    columns: tuple[str, ...]
    half_lives: tuple[float, ...]
    labels: list[Any]
    limit: int
    number: bool
    timed: bool
    used: int
    def __init__(
        self,
        columns: Iterable[str],
        *,
        number: bool = False,
        half_lives: Iterable[float] = (2.0, 8.0, 32.0),
        limit: int = 1_000_000,
        timed: bool = False,
    ) -> None: ...
    def expand(
        self,
        tasks: Sequence[Any],
        rows: Any,
        labels: Sequence[Any] | None = None,
        times: Sequence[float] | None = None,
    ) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self, kept: int = 0) -> None: ...
    def forget(self, task: Any) -> None: ...
    def state(self) -> tuple[dict[str, Any], Any]: ...
