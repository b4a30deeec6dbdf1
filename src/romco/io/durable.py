"""Files that are replaced at once: at every moment the old one or the new one, whole and on disk.

The new content goes to a temporary file in the same folder, ``.<name>.<token>.partial``,
which is made anew (never opened through a link) and locked while its writer lives. Once
it is on disk it takes the name; then the folder goes to disk. A writer that was killed
leaves its temporary file unlocked, and the next one removes it.
"""

import errno
import os
import re
import secrets
import stat
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import FileIO
from pathlib import Path
from typing import Self

try:
    import fcntl
except ImportError:  # Windows: temporary files of killed writers stay
    fcntl = None  # type: ignore[assignment]

Part = bytes | memoryview
BLOCK_BYTES = 1 << 20  # written at a time where parts are small
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)


class Closable(ABC):
    """Object that is closed at the end of a ``with`` (abstract)."""

    @abstractmethod
    def close(self) -> object:
        """Release what is held: a file, threads, a connection."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def replace(path: str | Path, parts: Iterable[Part], *, keep_last: bool = False) -> None:
    r"""Give a file new content, so that it is at every moment the old or the new one.

    Threads and processes may replace one file at the same time: the last wins. The new
    file has the permissions of the one it replaces. Where anything fails, the old one
    stays as it was, and OSError names ``path``. ``keep_last`` keeps it as ``<path>.bak``.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "answers"
    >>> replace(path, [b"one\n", b"two\n"])
    >>> path.read_text()
    'one\ntwo\n'
    """
    path = Path(path)
    try:
        _remove_stale(path)
        _replace(path, _guarded(parts), like=path, keep_last=keep_last)
        sync_folder(path.parent)
    except _ContentError as wrapped:
        raise wrapped.error from None
    except OSError as error:  # say which file could not be written, not its temporary name
        raise type(error)(error.errno, error.strerror, str(path)) from error


@contextmanager
def exclusive(path: str | Path) -> Iterator[Callable[[], bool]]:
    """While this lasts no other process or thread gets past it for the same path.

    Who comes second is refused: BlockingIOError names ``path``. A process that is killed
    holds nothing. Where there are no locks, nobody is refused. Gives a function that
    raises OSError where locks have ceased to work.
    """
    path = Path(path)
    marker = path.with_name(f".{path.name}.lock")
    while True:
        with FileIO(marker, "a") as file:
            try:
                _lock(file)
            except BlockingIOError:
                why = "another process is learning into it: wait until it is done"
                raise BlockingIOError(errno.EAGAIN, why, str(path)) from None
            if os.fstat(file.fileno()).st_nlink:  # else who had it before has just removed it
                try:
                    yield partial(_lock, file)
                finally:
                    _discard(marker)
                return


class _ContentError(Exception):
    """Error of the iterator that makes the content, not of the file that is written."""

    def __init__(self, error: Exception) -> None:
        self.error = error


def _guarded(parts: Iterable[Part]) -> Iterator[Part]:
    try:
        yield from parts
    except Exception as error:
        raise _ContentError(error) from error


def _replace(path: Path, parts: Iterable[Part], like: Path, keep_last: bool) -> None:
    old = _regular(like)
    mode = 0o600
    if old is None:
        mode = 0o666  # the umask applies to new files
    temporary, file = _made(path, mode)
    try:
        with file:
            if old is not None:
                _permit(file, old)
            _write(file, parts)
            os.fsync(file.fileno())
            if keep_last:
                _keep_last(path)
            if os.name == "nt":
                file.close()  # Windows renames no open file
            os.replace(temporary, path)
    except BaseException:
        _discard(temporary)
        raise


def _made(path: Path, mode: int) -> tuple[Path, FileIO]:
    """A new temporary file, locked so that no other writer takes it for a stale one."""
    while True:
        temporary = _fresh(path)
        file = FileIO(temporary, "x", opener=partial(os.open, mode=mode))
        try:
            _lock(file)
            if os.fstat(file.fileno()).st_nlink:
                return temporary, file
        except BlockingIOError:
            pass  # as below: another writer came between making and locking, and removes it
        except BaseException:
            file.close()
            _discard(temporary)
            raise
        file.close()


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")


def _discard(temporary: Path) -> None:
    with suppress(OSError):  # what is left, the next writer removes
        os.unlink(temporary)


def _regular(path: Path) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISREG(found.st_mode):
        return found
    return None


def _permit(file: FileIO, old: os.stat_result) -> None:
    """Give a file the owner, group and permissions of the old one; never more permissions."""
    if os.name == "nt":
        return
    mode = stat.S_IMODE(old.st_mode)
    new = os.fstat(file.fileno())
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(file.fileno(), old.st_uid, old.st_gid)
        except PermissionError:
            mode &= 0o707
    os.fchmod(file.fileno(), mode)


def _write(file: FileIO, parts: Iterable[Part]) -> None:
    waiting = bytearray()
    for part in parts:
        if len(waiting) + len(part) > BLOCK_BYTES:
            _write_all(file, waiting)
            _write_all(file, part)
            waiting = bytearray()
        else:
            waiting += part
    _write_all(file, waiting)


def _write_all(file: FileIO, data: Part | bytearray) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file.fileno(), left) :]


def _keep_last(path: Path) -> None:
    """Keep the file at ``path`` as .bak; neither name disappears meanwhile."""
    if not os.path.lexists(path):
        return
    last = path.with_name(path.name + ".bak")
    spare = _fresh(path)
    try:
        os.link(path, spare, follow_symlinks=False)
    except OSError:  # a file system without links
        _replace(last, _content(path), like=path, keep_last=False)
        return
    try:
        os.replace(spare, last)
    except FileNotFoundError:  # another writer took the spare for one of a killed writer
        pass
    finally:
        _discard(spare)


def _content(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while part := file.read(BLOCK_BYTES):
            yield part


def _remove_stale(path: Path) -> None:
    """Remove temporary files whose writers are gone: nobody holds their lock."""
    ours = re.compile(re.escape(f".{path.name}.") + r"[0-9a-f]{16}\.partial")
    with suppress(OSError):  # a folder that cannot be listed keeps what it has
        for found in path.parent.iterdir():
            if ours.fullmatch(found.name):
                with suppress(OSError):
                    _remove_if_stale(found)


def _remove_if_stale(temporary: Path) -> None:
    flags = 0
    if fcntl:
        flags = os.O_NONBLOCK | os.O_NOFOLLOW  # what was planted is not waited for
    with FileIO(temporary, "r", opener=lambda name, mode: os.open(name, mode | flags)) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode) and _lock(file):
            os.unlink(temporary)


def _lock(file: FileIO) -> bool:
    """Lock a file until it is closed; return False where there are no locks."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in NO_LOCKS:
            return False
        raise
    return True


def sync_folder(folder: Path) -> None:
    """Make the renaming itself durable, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system whose folders need no fsync
            raise
    finally:
        os.close(handle)
