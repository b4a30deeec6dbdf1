"""A folder with everything a service knows: opened, it is as it was left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from romco.closing import Closing
from romco.labels import Budget, restore
from romco.model import Model
from romco.server import changes, checkpoints
from romco.server.folders import Lock
from romco.server.frames import Damaged
from romco.server.journals import Journal
from romco.server.live import Live
from romco.server.pending import Pending
from romco.server.settings import Settings
from romco.server.writers import Writer


@final
class Store(Closing):
    """A folder in use: its lock, its log, and the writer.

    >>> import tempfile
    >>> from romco.server.drafts import Lesson
    >>> with Store(Path(tempfile.mkdtemp()), Model) as store:
    ...     lesson = Lesson(y="spam", id="e1", task="ann", x={"free": 1.0})
    ...     print(store.writer.learn([lesson]).result())
    [Outcome(status='applied', sequence=1)]
    """

    def __init__(
        self, folder: Path, new: Callable[[], Model], settings: Settings | None = None
    ) -> None:
        self.folder, self.settings = folder, settings or Settings()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = Lock(folder)
        try:
            self.live, journal = _open(folder, new, self.settings)
        except BaseException:
            self._lock.release()
            raise
        self.replayed = self.live.sequence  # changes that are known at the start
        self.writer = Writer(self.live, journal, self.settings)

    def close(self, seconds: float | None = None) -> bool:
        """Finish what waits and write a checkpoint; False if it took longer than ``seconds``."""
        finished = self.writer.close(seconds)
        if finished:
            self._lock.release()
        return finished


def exists(folder: Path) -> bool:
    """Whether a folder holds what a service knows."""
    return checkpoints.newest(folder) is not None


def _open(folder: Path, new: Callable[[], Model], settings: Settings) -> tuple[Live, Journal]:
    """The last checkpoint, and all of the log that comes after it, applied."""
    pending = Pending(
        folder, settings.pending_seconds, settings.pending_events, settings.pending_bytes
    )
    last = checkpoints.newest(folder)
    if last is None:
        live = _begin(folder, new, pending)
    else:
        manifest, model, parts = checkpoints.read(last)
        live = Live(model, pending)
        live.seen.size = settings.ids
        checkpoints.restore(live, manifest, parts)
    live.seen.size = settings.ids
    live.budget = _budget(settings.budget, None if last is None else manifest.budget)
    journal = Journal(folder, settings.segment_bytes)
    for frame in journal.open(live.sequence):
        _apply(live, frame.payload, frame.size)
    checkpoints.tidy(folder)
    journal.drop(live.sequence if last is None else _sequence(last))
    return live, journal


def _budget(share: float | None, known: dict[str, Any] | None) -> Budget | None:
    """The budget of labels: the one that was kept, unless another share is asked for."""
    if share is None:
        return None
    kept = None if known is None else _restored(known)
    return kept if kept is not None and kept.share == share else Budget(share)


def _restored(known: dict[str, Any]) -> Budget:
    try:
        kept = restore(known)
    except (ValueError, ArithmeticError) as error:
        raise Damaged(f"what a checkpoint says of labels cannot be used: {error}") from error
    if not isinstance(kept, Budget):
        raise Damaged(f"a checkpoint holds the policy {kept.name!r}, not a budget of labels")
    return kept


def _begin(folder: Path, new: Callable[[], Model], pending: Pending) -> Live:
    """A new folder: its first checkpoint holds the model as it begins."""
    if any(folder.glob("log-*")):
        raise Damaged(f"{folder.name} has a log but no checkpoint: restore it from a backup")
    live = Live(new(), pending)
    pending.load([], 1)
    checkpoints.write(folder, checkpoints.snapshot(live))
    return live


def _apply(live: Live, payload: bytes, count: int) -> None:
    before = live.sequence
    live.apply(changes.decode(payload))
    if live.sequence - before != count:
        raise Damaged(f"entries {before + 1:,} and after do not hold together: restore a backup")


def _sequence(path: Path) -> int:
    return int(path.name.split("-")[1])
