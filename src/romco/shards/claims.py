"""A folder of checkpoints has one driver at a time."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import final
from weakref import WeakValueDictionary

from romco.io import durable


@final
class Claim:
    """A folder that no other process can claim while this lives.

    Within a process the last one has it: whoever made new shards for a folder, as in a notebook,
    means these. A process that is killed holds nothing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder.resolve()
        self._lock: durable.Lock | None = _taken_over(self._folder) or _locked(self._folder)
        _CLAIMS[self._folder] = self

    def check(self) -> None:
        """Raise RuntimeError where others have taken over the folder."""
        if self._lock is None:
            raise RuntimeError(
                f"other shards of this program were made for {self._folder} after these: only the "
                "last ones can write to it"
            )

    def hand_over(self) -> durable.Lock | None:
        """What holds the folder, which is somebody else's from now on."""
        lock, self._lock = self._lock, None
        return lock

    def close(self) -> None:
        """Let others have it."""
        self._lock = None


_CLAIMS: WeakValueDictionary[Path, Claim] = WeakValueDictionary()


def _taken_over(folder: Path) -> durable.Lock | None:
    """What holds the folder, if it was this process that claimed it before."""
    other = _CLAIMS.get(folder)
    lock = None if other is None else other.hand_over()
    return lock if lock is not None and lock.process == os.getpid() else None


def _locked(folder: Path) -> durable.Lock:
    try:
        return durable.Lock(folder / ".lock")
    except BlockingIOError:
        why = "another process is learning into this folder: wait until it is done"
        raise BlockingIOError(errno.EAGAIN, why, str(folder)) from None
