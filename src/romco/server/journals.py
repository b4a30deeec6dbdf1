"""The log: segments of frames, appended to, synced, rotated, and removed after a checkpoint."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import final

from romco.server import frames
from romco.server.folders import sync_folder
from romco.server.frames import Damaged, Frame

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Full(OSError):  # noqa: N818
    """There is no room on the disk; what could not be written left no trace."""


class Broken(OSError):  # noqa: N818
    """The disk failed in a way after which nobody knows what it holds: only a restart helps."""


@final
class Journal:
    """The log of a folder: what was accepted, in order, in files ``log-<first number>``.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> journal = Journal(folder)
    >>> list(journal.open(after=0))
    []
    >>> journal.append(1, 2, b"one and two")
    >>> journal.sync()
    >>> journal.close()
    >>> [(f.first, f.payload) for f in Journal(folder).open(after=0)]
    [(1, b'one and two')]
    """

    def __init__(self, folder: Path, segment_bytes: int = 1 << 26) -> None:
        self.folder, self.segment_bytes = folder, segment_bytes
        self.next = 1  # number of the next entry
        self._file = -1
        self._length = 0  # bytes of the open segment that count
        self._synced = 0  # bytes of it that are known to be on the disk
        self._waiting: list[bytes] = []  # frames not yet given to the system

    @property
    def unsynced(self) -> bool:
        """Whether anything was appended since the last sync."""
        return bool(self._waiting) or self._synced < self._length

    @property
    def waiting(self) -> int:
        """Bytes that were appended but not yet written."""
        return sum(map(len, self._waiting))

    def open(self, after: int) -> Iterator[Frame]:
        """The frames after an entry, in order; when all are read the log can be appended to.

        A torn last frame is cut off. Raises :class:`Damaged` where entries are missing or a
        frame cannot be read; then no file was touched.
        """
        self.next, good = after + 1, 0
        segments = self._segments(after)
        for path in segments:
            good = 0
            for frame in frames.read(path, last=path == segments[-1]):
                good = frame.end
                if frame.first + frame.size - 1 > after:  # else the checkpoint holds it
                    self._check_next(path, frame)
                    yield frame
                    self.next = frame.first + frame.size
        self._continue(segments[-1], good) if segments else self._begin()

    def append(self, first: int, count: int, payload: bytes, write: bool = True) -> None:
        """Add entries; with ``write`` they are given to the system, so only it could lose them.

        Raises :class:`Full` without a trace if there is no room.
        """
        self._waiting.append(frames.encode(first, count, payload))
        if write:
            try:
                self.write()
            except Full:
                self._waiting.pop()
                raise
        self.next = first + count

    def write(self) -> None:
        """Give the system all that waits."""
        data = b"".join(self._waiting)
        try:
            _write_all(self._file, data)
        except OSError as error:
            self._cut(error)
        self._length += len(data)
        self._waiting.clear()

    def sync(self, undo: int | None = None) -> None:
        """Make it durable. If there is no room and ``undo``, entries from there on are cut off."""
        self.write()
        try:
            os.fdatasync(self._file)
        except OSError as error:
            if undo is None or error.errno not in FULL:
                raise Broken(error.errno, "the log could not be synced") from error
            self._length, self.next = self._synced, undo
            self._cut(error)
        self._synced = self._length

    def rotate(self) -> None:
        """Go on in a new segment, unless this one is still empty."""
        if self._length or self._waiting:
            self.sync()
            os.close(self._file)
            self._begin()

    @property
    def large(self) -> bool:
        """Whether the open segment is large enough for a new one."""
        return self._length >= self.segment_bytes

    def drop(self, upto: int) -> None:
        """Remove the segments that hold nothing after an entry; the open one stays."""
        paths = self._all()
        for path, following in pairwise(paths):
            if _first(following) <= upto + 1:
                path.unlink(missing_ok=True)
        sync_folder(self.folder)

    def size(self) -> int:
        """Bytes of all segments."""
        return sum(path.stat().st_size for path in self._all() if path.exists())

    def close(self) -> None:
        """Close the open segment; what waits is written."""
        if self._file >= 0:
            self.write()
            os.close(self._file)
            self._file = -1

    # Within

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("log-*"))

    def _segments(self, after: int) -> list[Path]:
        """The segments that may hold entries after a number, and always the last one."""
        paths = self._all()
        needed = [
            path
            for path, following in zip_longest(paths, paths[1:])
            if following is None or _first(following) > after + 1
        ]
        if needed and _first(needed[0]) > after + 1:
            raise Damaged(
                f"entries {after + 1:,} to {_first(needed[0]) - 1:,} are missing: the log begins "
                f"with {needed[0].name}; restore the folder from a backup"
            )
        return needed

    def _check_next(self, path: Path, frame: Frame) -> None:
        if frame.first != self.next:
            raise Damaged(
                f"{path.name} goes on with entry {frame.first:,} where {self.next:,} is due: "
                "restore the folder from a backup; nothing was changed"
            )

    def _continue(self, path: Path, good: int) -> None:
        """Append to a segment of which ``good`` bytes count."""
        if _first(path) > self.next:
            raise Damaged(f"entries {self.next:,} to {_first(path) - 1:,} are missing in the log")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND)
        if os.fstat(self._file).st_size > good:
            os.ftruncate(self._file, good)
        os.fdatasync(self._file)  # what was read may never have reached the disk
        self._length = self._synced = good

    def _begin(self) -> None:
        path = self.folder / f"log-{self.next:020d}"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._length = self._synced = 0
        sync_folder(self.folder)

    def _cut(self, error: OSError) -> None:
        """Undo a write that failed; raises Full, or Broken if it cannot be undone."""
        try:
            os.ftruncate(self._file, self._length)
        except OSError as worse:
            raise Broken(worse.errno, "the log could not be cut back") from error
        if error.errno in FULL:
            raise Full(error.errno, "no room on the disk for the log") from error
        raise Broken(error.errno, "the log could not be written") from error


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _first(path: Path) -> int:
    number = path.name.removeprefix("log-")
    if not number.isdecimal():
        raise Damaged(f"{path.name} is not a segment of a log: move it elsewhere")
    return int(number)
