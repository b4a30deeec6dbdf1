"""Frames: how changes lie in a file, so that a torn or damaged one is seen.

A frame is, all numbers little-endian::

    4 bytes   mark, "rL01"
    4 bytes   CRC-32 of all that follows
    4 bytes   length n of the payload, uint32
    8 bytes   number of its first entry, uint64
    4 bytes   how many entries it holds, uint32
    n bytes   payload
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MARK = b"rL01"
HEAD = struct.Struct("<4sIIQI")
NUMBERS = struct.Struct("<IQI")


class Damaged(ValueError):  # noqa: N818
    """A file that was changed or lost after it had been written."""


class Frame(NamedTuple):
    """Entries ``first`` to ``first + size - 1``, and where the frame ends in its file."""

    first: int
    size: int
    payload: bytes
    end: int


def encode(first: int, count: int, payload: bytes) -> bytes:
    """The bytes of a frame.

    >>> frame = encode(7, 2, b"two entries")
    >>> decode(frame, 0)
    Frame(first=7, size=2, payload=b'two entries', end=35)
    """
    numbers = NUMBERS.pack(len(payload), first, count)
    checksum = zlib.crc32(payload, zlib.crc32(numbers))
    return HEAD.pack(MARK, checksum, len(payload), first, count) + payload


def decode(data: bytes, at: int) -> Frame | None:
    """The frame that begins at an offset; None if there is none, or not a whole one."""
    begin = at + HEAD.size
    if begin > len(data):
        return None
    mark, checksum, length, first, count = HEAD.unpack_from(data, at)
    if mark != MARK or begin + length > len(data):
        return None
    payload = data[begin : begin + length]
    if zlib.crc32(payload, zlib.crc32(NUMBERS.pack(length, first, count))) != checksum:
        return None
    return Frame(first, count, payload, begin + length)


def read(path: Path, last: bool) -> Iterator[Frame]:
    """The frames of a file, in order.

    What a crash tore off at the end of the ``last`` file is left out. Anything else that cannot
    be read raises :class:`Damaged`.
    """
    data, at = path.read_bytes(), 0
    while at < len(data):
        frame = decode(data, at)
        if frame is None:
            if not last or _next(data, at + 1) is not None:
                raise Damaged(
                    f"{path.name} is damaged at byte {at:,}, and there is more after it: "
                    "restore the folder from a backup; nothing was changed"
                )
            return
        yield frame
        at = frame.end


def salvage(path: Path) -> Iterator[Frame]:
    """All whole frames of a file; whatever lies between them is passed over."""
    data = path.read_bytes()
    frame = _next(data, 0)
    while frame is not None:
        yield frame
        frame = _next(data, frame.end)


def _next(data: bytes, at: int) -> Frame | None:
    """The first whole frame that begins anywhere from here on."""
    while (at := data.find(MARK, at)) >= 0:
        frame = decode(data, at)
        if frame is not None:
            return frame
        at += 1
    return None
