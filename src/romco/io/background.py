"""Something that is done by another thread meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

T = TypeVar("T")


@final
class Ahead(Generic[T]):
    """A call that is under way in a thread of its own, which ends with it.

    >>> ahead = Ahead(max, 1, 2)
    >>> ahead.result()
    2
    """

    def __init__(self, act: Callable[..., T], *given: Any) -> None:
        self._found: list[T] = []
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(act, given), name="romco-ahead")
        self._thread.start()

    def wait(self) -> None:
        """Until it is done; whatever it gave or raised is left alone."""
        self._thread.join()

    def result(self) -> T:
        """What it gives, or raises, once it is done."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self, act: Callable[..., T], given: tuple[Any, ...]) -> None:
        try:
            self._found.append(act(*given))
        except BaseException as error:
            self._error = error
