"""A file of predictions that a killed run may have written too much to."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, BinaryIO, Self, final

from romco.presentation.names import inert_json

STDOUT = Path("-")


@final
class Log:
    """A file of JSON lines, stdout (-), or nothing; what a killed run wrote too much is cut off."""

    def __init__(self, path: Path | None, keep: int = 0) -> None:
        self._aloud = path == STDOUT
        self._path, self._keep = None if self._aloud else path, keep
        path = self._path
        self._file: BinaryIO | None = None
        if path is not None and keep and path.exists() and path.stat().st_size < keep:
            raise ValueError(f"{path.name} is shorter than the model says it was: do not edit it")

    @property
    def wanted(self) -> bool:
        """Whether anybody reads it."""
        return self._aloud or self._path is not None

    def write(self, row: dict[str, Any]) -> None:
        """Add a line."""
        if self._aloud:  # at once: whoever feeds us line by line waits for the answer
            print(inert_json(json.dumps(row, ensure_ascii=False)), flush=True)
        if self._path is not None:
            self._open(self._path).write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def sync(self) -> int:
        """Make it durable; gives its length."""
        if self._path is None:
            return 0
        file = self._open(self._path)
        file.flush()
        os.fsync(file.fileno())
        return file.tell()

    def _open(self, path: Path) -> BinaryIO:
        """The file, opened when there is something to write, so that a bad start wipes nothing."""
        if self._file is None:
            keep = self._keep if path.exists() else 0
            self._file = path.open("r+b" if keep else "wb")
            self._file.truncate(keep)
            self._file.seek(keep)
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
