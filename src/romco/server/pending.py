"""Predicted events that wait for their answers."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import final

from romco.model.names import canonical_name
from romco.server import frames
from romco.server.changes import Asked, Task, Waiting, decode_waiting, encode
from romco.server.frames import Damaged


@final
class Pending:
    """Events by id, for ``seconds``, at most ``events`` of them and ``size`` bytes.

    The oldest are dropped first. Each is kept as JSON, in memory and in files
    ``pending-<number>``, which survive the process but are not synced one by one: after a power
    failure the last ones may be missing, and their answers are told ``expired``.

    >>> from romco.server.changes import Prediction
    >>> import tempfile
    >>> pending = Pending(Path(tempfile.mkdtemp()), seconds=60.0)
    >>> pending.put([Waiting("e1", 100.0, "ann", {"a": 1.0}, Prediction(None, 0.5, 0.0))])
    >>> pending.get("e1", now=120.0).task, pending.get("e1", now=160.5)
    ('ann', None)
    """

    def __init__(
        self, folder: Path, seconds: float = 86_400.0, events: int = 100_000, size: int = 1 << 28
    ) -> None:
        self.folder, self.seconds, self.events, self.size = folder, seconds, events, size
        self.bytes = 0
        self.dropped = 0  # for want of room
        self.expired = 0  # for want of an answer in time
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()
        self._number = 0
        self._file = -1

    def __len__(self) -> int:
        return len(self._kept)

    def put(self, some: Iterable[Waiting | Asked]) -> None:
        """Keep events; one of the same id is replaced."""
        lines = [(each.id, each.time, encode(each)) for each in some]
        with self._lock:
            for identity, time, line in lines:
                self._keep(identity, time, line)
            self._write(b"".join([frames.encode(0, 1, line) for _, _, line in lines]))
            if lines:
                self._shrink(lines[-1][1])

    def get(self, identity: str, now: float) -> Waiting | None:
        """The event of an id, unless it is too old."""
        with self._lock:
            found = self._kept.get(identity)
        if found is None or found[0] + self.seconds < now:
            return None
        return decode_waiting(found[1])

    def remove(self, identity: str) -> None:
        """Its answer has come."""
        with self._lock:
            found = self._kept.pop(identity, None)
            if found is not None:
                self.bytes -= len(found[1])

    def forget(self, task: Task, time: float) -> None:
        """Remove all events of a task that were predicted up to a time."""
        with self._lock:
            lines = list(self._kept.items())
        for identity, (since, line) in lines:
            if since <= time and canonical_name(decode_waiting(line).task) == canonical_name(task):
                self.remove(identity)

    def sweep(self, now: float) -> None:
        """Remove what is too old."""
        with self._lock:
            self._shrink(now)

    # Files

    def rotate(self) -> tuple[int, list[bytes]]:
        """Go on in a new file; gives its number, and all that waits now."""
        with self._lock:
            self._open(self._number + 1)
            return self._number, [line for _, line in self._kept.values()]

    def load(self, lines: Iterable[bytes], first: int) -> None:
        """Take over what a checkpoint holds, and what files from number ``first`` on add."""
        for line in lines:
            self._take(line)
        paths = [path for path in self._all() if _number(path) >= first]
        for path in paths:
            for frame in frames.salvage(path):
                self._take(frame.payload)
        self._open(max([first, *(_number(path) + 1 for path in paths)]))

    def drop(self, below: int) -> None:
        """Remove the files that a checkpoint has made superfluous."""
        for path in self._all():
            if _number(path) < below:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the open file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    # Within; the lock is held

    def _take(self, line: bytes) -> None:
        waiting = decode_waiting(line)
        self._keep(waiting.id, waiting.time, line)

    def _keep(self, identity: str, time: float, line: bytes) -> None:
        before = self._kept.pop(identity, None)
        if before is not None:
            self.bytes -= len(before[1])
        self._kept[identity] = (time, line)
        self.bytes += len(line)

    def _shrink(self, now: float) -> None:
        kept = self._kept
        while kept:
            identity = next(iter(kept))
            time, line = kept[identity]
            old = time + self.seconds < now
            if not old and len(kept) <= self.events and self.bytes <= self.size:
                return
            del kept[identity]
            self.bytes -= len(line)
            self.expired += old
            self.dropped += not old

    def _write(self, data: bytes) -> None:
        if self._file >= 0:
            with suppress(OSError):  # no room: what waits is then in memory only
                os.write(self._file, data)

    def _open(self, number: int) -> None:
        path = self.folder / f"pending-{number:020d}"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC, 0o600)
        self.close()
        self._number, self._file = number, file

    def _all(self) -> list[Path]:
        return sorted(self.folder.glob("pending-*"))


def _number(path: Path) -> int:
    number = path.name.removeprefix("pending-")
    if not number.isdecimal():
        raise Damaged(f"{path.name} does not belong here: move it elsewhere")
    return int(number)
