"""Resume learning: what a model remembers of each file it has learned, and of predictions."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Self

from romco.files import load
from romco.io import durable
from romco.io.durable import Closable
from romco.io.formats import FORMATS, format_of
from romco.learners import Learner
from romco.model import Model
from romco.parameters import whole
from romco.presentation.screen import inert

STDIN = "-"
STDOUT = Path("-")
JSON_LINES_SUFFIXES = (".jsonl", ".ndjson", ".json", ".txt", "")  # that predictions may have
DIGEST_BYTES = 1 << 24  # from either end of a long file


def load_model(path: Path) -> Model:
    """Return the model of a file; ValueError if it is something else, as a bare learner."""
    model = load(path)
    if isinstance(model, Learner):
        raise ValueError(
            f"{path.name} holds a bare learner, which knows no names of tasks and features; "
            "save a romco.Model"
        )
    if not isinstance(model, Model):
        raise ValueError(f"{path.name} holds no model, but a {type(model).__name__}")
    return model


@contextmanager
def locked_model(path: Path) -> Iterator[Model | None]:
    """Lock a model file against other writers, and load it if it is there."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to put the model in")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with durable.exclusive(path):
        if path.exists():
            yield load_model(path)
        else:
            yield None


@dataclass
class SourceRecord:
    """Position in a source that is learned."""

    events: int = 0  # read so far, learned or refused
    refused: int = 0  # of them: not learned, for their label is not known
    resumed: int = 0  # of them: read before this run
    written: int = 0  # bytes of predictions that belong to the events read before
    content: dict[str, Any] | None = None  # of the source, when it was opened
    score: Any = None  # of the events before, as it was stored

    @classmethod
    def of(cls, session: Mapping[str, Any], path: str, file: BinaryIO | None = None) -> Self:
        """Return what a model's session has of a source; each pipe is a new one.

        ``file`` is the file at ``path``, if it is open already. Raises ValueError if a file of that
        path was learned and this is another one.
        """
        if path == STDIN:
            return cls()
        with _opened(path, file) as content:
            seen = _find(session.get("sources", {}), path, content)
            events = whole("events", seen.get("events", 0), least=0)
            written = whole("written", seen.get("written", 0), least=0)
            if not events:
                written = 0
            return cls(
                events=events,
                refused=whole("refused", seen.get("refused", 0), least=0),
                resumed=events,
                written=written,
                content=digest(content),
                score=seen.get("score"),
            )

    def store(self, session: dict[str, Any], path: str, **more: Any) -> None:
        """Put it into a model's session."""
        key = path
        if path != STDIN:
            key = str(Path(path).resolve())
        session.setdefault("sources", {})[key] = {
            **(self.content or {}),
            "events": self.events,
            "refused": self.refused,
            **more,
        }


def digest(file: BinaryIO | None, size: int | None = None) -> dict[str, Any] | None:
    """Return size and SHA-256 of a file or of its first ``size`` bytes; None if it is no file.

    A file of more than twice ``DIGEST_BYTES`` is known by its size and both ends.
    """
    if file is None:
        return None
    if size is None:
        size = os.fstat(file.fileno()).st_size
    before = file.tell()
    file.seek(0)
    found = hashlib.sha256(file.read(min(size, DIGEST_BYTES)))
    file.seek(max(DIGEST_BYTES, size - DIGEST_BYTES))
    found.update(file.read(max(0, size - file.tell())))
    file.seek(before)
    return {"size": size, "digest": found.hexdigest()}


def content_of(path: str, size: int | None = None) -> dict[str, Any] | None:
    """Return the :func:`digest` of the file at a path; None where there is no file."""
    with _opened(path) as file:
        return digest(file, size)


def content_before(path: str, line: int, format: str | None = None) -> dict[str, Any] | None:
    """Return the digest of what comes before a line, so that this line may be mended.

    Of a file whose bytes are not its lines nothing is remembered.
    """
    with _opened(path) as file:
        if file is None:
            return None
        kind = FORMATS.get(format_of(path, format))
        if path.endswith(".gz") or kind is None or not kind.lines:
            return digest(file, 0)
        return digest(file, sum(map(len, islice(file, line - 1))))


@contextmanager
def explain_bad_session(name: str, *others: type[Exception]) -> Iterator[None]:
    """Report what cannot be read of a model's session as such; nothing in a file is trusted."""
    failures: tuple[type[Exception], ...] = (LookupError, TypeError, AttributeError, *others)
    try:
        yield
    except failures as error:
        raise ValueError(
            f"what {name} remembers of its sources cannot be used ({error!r}): learn into another "
            "model file"
        ) from error


@contextmanager
def _opened(path: str, file: BinaryIO | None = None) -> Iterator[BinaryIO | None]:
    if file is not None or path == STDIN or not Path(path).is_file():
        yield file
        return
    with Path(path).open("rb") as opened:
        yield opened


def _find(sources: Mapping[str, Any], path: str, file: BinaryIO | None) -> dict[str, Any]:
    """Return what is remembered of a file, which may have grown since; empty if it is new."""
    named = sources.get(str(Path(path).resolve()))
    if named is not None:
        if _begins_with(file, named):
            return dict(named)
        raise ValueError(
            f"{path} is not the file that was learned before: what was read of it has changed. "
            "Give new events a file of their own, or start with another model file"
        )
    known = (dict(seen) for seen in sources.values() if seen.get("digest") and seen.get("events"))
    return next((seen for seen in known if _begins_with(file, seen)), {})


def _begins_with(file: BinaryIO | None, seen: Mapping[str, Any]) -> bool:
    """Return whether a file begins with what was seen; where that is not stored, it may."""
    size = seen.get("size")
    if size is None or file is None:
        return True
    content = None
    if os.fstat(file.fileno()).st_size >= size:
        content = digest(file, size)
    return content is not None and content["digest"] == seen["digest"]


class PredictionLog(Closable):
    """Predictions as JSON lines, in a file, on stdout (-) or nowhere.

    What a killed run wrote beyond the first ``keep`` bytes is cut off.
    """

    def __init__(self, path: Path | None, keep: int = 0) -> None:
        self._stdout = path == STDOUT
        if self._stdout:
            path = None
        self._path = path
        self._keep = keep
        self._file: BinaryIO | None = None
        if path is not None and path.suffix not in JSON_LINES_SUFFIXES:
            raise ValueError(f"{path.name}: predictions are JSON lines; name the file .jsonl")
        if path is not None and keep and path.exists() and path.stat().st_size < keep:
            raise ValueError(f"{path.name} is shorter than the model says it was: do not edit it")

    @property
    def enabled(self) -> bool:
        """True for a file and for stdout."""
        return self._stdout or self._path is not None

    def write(self, row: dict[str, Any]) -> None:
        """Add a line; a closed pipe ends the log, not the learning."""
        if self._stdout:  # flushed: whoever feeds us line by line waits for the answer
            try:
                print(inert(json.dumps(row, ensure_ascii=False), json.dumps), flush=True)
            except BrokenPipeError:
                self._stdout = False
        if self._path is not None:
            self._open(self._path).write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def sync(self) -> int:
        """Make it durable; returns its length in bytes."""
        if self._path is None:
            return 0
        file = self._open(self._path)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def _open(self, path: Path) -> BinaryIO:
        """Open the file when there is something to write, so that a bad start wipes nothing."""
        if self._file is None:
            if self._keep and path.exists():
                self._file = path.open("r+b")
                self._file.truncate(self._keep)
                self._file.seek(self._keep)
            else:
                self._file = path.open("wb")
        return self._file
