"""What a file is known by: its content as far as it was there, not the spelling of its path."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

ENDS = 1 << 24  # bytes looked at from either end of a long file


def key_of(path: str) -> str:
    """A path by which a source is remembered: ``./day.csv`` and ``day.csv`` are one."""
    return path if path == "-" else str(Path(path).resolve())


def content_of(path: str, size: int | None = None) -> dict[str, Any] | None:
    """Size and digest of a file, or of its first ``size`` bytes; None where it is no file.

    A file of more than twice ``ENDS`` bytes is known by its size and both ends.
    """
    if path == "-" or not Path(path).is_file():
        return None
    with Path(path).open("rb") as file:
        there = Path(path).stat().st_size if size is None else size
        found = hashlib.sha256(file.read(min(there, ENDS)))
        file.seek(max(ENDS, there - ENDS))
        found.update(file.read(max(0, there - file.tell())))
        return {"size": there, "digest": found.hexdigest()}


def content_before(path: str, line: int) -> dict[str, Any] | None:
    """The same for what comes before a line, so that this line may be mended and learned.

    Of a file whose bytes are not its lines nothing is remembered.
    """
    if path == "-" or not Path(path).is_file():
        return None
    if Path(path).suffix in (".gz", ".parquet"):
        return content_of(path, 0)
    with Path(path).open("rb") as file:
        return content_of(path, sum(len(text) for text in islice(file, line - 1)))


def seen_before(sources: Mapping[str, Any], path: str) -> dict[str, Any]:
    """What is remembered of a file, which may have grown since; empty if it is new.

    Raises ValueError where a file of that path was learned and this is another one.
    """
    named = sources.get(key_of(path), sources.get(path))
    if named is not None:
        if _begins(path, named):
            return dict(named)
        raise ValueError(
            f"{path} is not the file that was learned before: what was read of it has changed. "
            "Give new events a file of their own, or start with another model file"
        )
    known = (dict(seen) for seen in sources.values() if seen.get("digest") and seen.get("events"))
    return next((seen for seen in known if _begins(path, seen)), {})


def _begins(path: str, seen: Mapping[str, Any]) -> bool:
    """Whether a file begins with what was seen; where that is not remembered, it may."""
    size = seen.get("size")
    if size is None or not Path(path).is_file():
        return True
    content = content_of(path, size) if Path(path).stat().st_size >= size else None
    return content is not None and content["digest"] == seen["digest"]
