"""What is to be closed, and is at the end of a ``with``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Closes at the end of a ``with``, whatever happens within (abstract)."""

    @abstractmethod
    def close(self) -> object:
        """Give back what is held: a file, threads, a connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
