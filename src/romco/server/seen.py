"""Ids that were learned, so that none is learned twice."""

from __future__ import annotations

import hashlib
import struct
from collections import deque
from collections.abc import Mapping
from typing import Self, final

ENTRY = struct.Struct("<16sQ")


def digest(identity: str) -> bytes:
    """16 bytes that stand for an id: ids of any length cost the same, and none is kept as text."""
    return hashlib.blake2b(identity.encode(), digest_size=16).digest()


@final
class Seen:
    """The last ``size`` ids that were learned, and the sequence number of each.

    >>> seen = Seen(size=2)
    >>> for number, identity in enumerate(["a", "b", "c"], start=1):
    ...     seen.add(identity, number)
    >>> seen.number("a"), seen.number("c")
    (None, 3)
    """

    def __init__(self, size: int = 1_000_000) -> None:
        if size < 1:
            raise ValueError(f"at least one id must be remembered; got {size}")
        self.size = size
        self._number: dict[bytes, int] = {}
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._number)

    def number(self, identity: str, also: Mapping[bytes, int] | None = None) -> int | None:
        """The sequence number under which an id was learned, here or in ``also``."""
        key = digest(identity)
        found = self._number.get(key)
        return also.get(key) if found is None and also else found

    def add(self, identity: str, number: int) -> None:
        """Remember an id that is new; beyond ``size`` the oldest is forgotten."""
        self._put(digest(identity), number)

    def copy(self) -> Seen:
        """As it is now, to be written while this one goes on."""
        made = Seen(self.size)
        made._number, made._order = self._number.copy(), self._order.copy()
        return made

    def to_bytes(self) -> bytes:
        """All of them, the oldest first."""
        numbers = self._number
        return b"".join([ENTRY.pack(key, numbers[key]) for key in self._order])

    @classmethod
    def from_bytes(cls, data: bytes, size: int) -> Self:
        """What :meth:`to_bytes` wrote."""
        made = cls(size)
        for key, number in ENTRY.iter_unpack(data):
            made._put(key, number)
        return made

    def _put(self, key: bytes, number: int) -> None:
        if key not in self._number:  # else it was learned anew after it had been forgotten
            self._order.append(key)
        self._number[key] = number
        if len(self._order) > self.size:
            del self._number[self._order.popleft()]
