"""What is remembered of files that were read, so that others are not taken for them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from romco.parameters import whole
from romco.runs.resume import content_of

HEAD = 1 << 16  # bytes looked at: enough to know a file by, few enough to look at them all


def contents(paths: Sequence[str], known: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each file its length, and a digest of its beginning.

    ``known`` is of the first of them; the last of those may have grown while it was read.
    """
    found = list(known[: len(paths)])
    if found and Path(paths[len(found) - 1]).stat().st_size != found[-1]["bytes"]:
        found.pop()
    return [*found, *(_content(path) for path in paths[len(found) :])]


def check_contents(
    paths: Sequence[str], known: Sequence[dict[str, Any]], file: int, row: int
) -> None:
    """Raise ValueError where files that were read, up to a row of one of them, are others now.

    Those that were read to the end must be as long as they were, the one in which reading goes on
    as long at least.
    """
    for k, (path, seen) in enumerate(zip(paths, known, strict=False)):
        if (k < file or (k == file and row)) and not _same(path, seen, grown=k == file):
            raise ValueError(
                f"{path} is not the file that was read before: what was read of it has changed. "
                "Give new events a file of their own, or start with another model file"
            )


def check_told(known: Sequence[Any]) -> None:
    """Raise where nobody could have seen such files."""
    for seen in known:
        whole("size", seen["size"], least=0)
        whole("bytes", seen["bytes"], least=seen["size"])
        if not isinstance(seen["digest"], str):
            raise TypeError(f"a digest is {seen['digest']!r}")


def _content(path: str) -> dict[str, Any]:
    length = Path(path).stat().st_size
    return {"bytes": length, **(content_of(path, min(length, HEAD)) or {})}


def _same(path: str, seen: dict[str, Any], grown: bool) -> bool:
    length = Path(path).stat().st_size
    if length < seen["bytes"] or (length > seen["bytes"] and not grown):
        return False
    found = content_of(path, seen["size"])
    return found is not None and found["digest"] == seen["digest"]
