"""A folder that one server owns."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import final


@final
class Lock:
    """Held as long as a process uses a folder; the system lets go of it if the process dies.

    >>> import tempfile
    >>> lock = Lock(Path(tempfile.mkdtemp()))
    >>> lock.release()
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise ValueError(
                f"the folder {folder.name} is in use by another server: stop it, or use another"
            ) from None

    def release(self) -> None:
        """Let another process have it."""
        os.close(self._file)


def sync_folder(folder: Path) -> None:
    """Make names of files durable: made, renamed, removed."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
