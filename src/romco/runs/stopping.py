"""Stopping in good order when the system asks for it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import final


class Stopped(BaseException):
    """Breaks off waiting for more to read."""


@final
class Stop:
    """Whether to stop: learning looks at it between chunks; waiting for rows is broken off.

    >>> stop = Stop()
    >>> stop.ask()
    >>> stop.wanted
    True
    """

    def __init__(self) -> None:
        self.wanted = False
        self._waiting = False

    def ask(self, *_: object) -> None:
        """Stop as soon as what was read is learned; can be a signal's handler."""
        self.wanted = True
        if self._waiting:
            raise Stopped

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While rows are read, which may take for ever."""
        with suppress(Stopped):
            self._waiting = not self.wanted
            try:
                yield
            finally:
                self._waiting = False


@contextmanager
def terminated(stop: Stop) -> Iterator[None]:
    """What SIGTERM asks for is done in good order."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, stop.ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
