"""A lock that is handed on."""

from __future__ import annotations

import threading
from typing import final


@final
class Turns:
    """A lock that goes to the one who waits, not back to the one who just let go.

    With a plain lock a thread that learns piece after piece takes it again before a
    reader has woken up, and readers wait for seconds. Not to be entered twice by one thread.

    >>> turns = Turns()
    >>> with turns:
    ...     pass
    """

    def __init__(self) -> None:
        self._next = threading.Lock()  # held while waiting: by the first in line
        self._turn = threading.Lock()

    def __enter__(self) -> None:
        with self._next:
            self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()
