"""Places of real data, and the proof that a file is the one it should be."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


class MissingData(FileNotFoundError):  # noqa: N818 - says what is wrong
    """A data set is not in the data directory."""


class DamagedData(ValueError):  # noqa: N818
    """A data file that is truncated, altered, or another one."""


@dataclass(frozen=True)
class Provenance:
    """Origin of a data set, and the places where this library looks for it."""

    origin: str  # who made it, and where to get it
    place: tuple[str, ...]  # paths under the data directory, in order of preference
    terms: str  # what its owners allow


def first_existing(data_dir: Path, places: Iterable[str]) -> Path | None:
    """The first of ``places`` that exists under ``data_dir``, or None."""
    candidates = (data_dir / place for place in places)
    return next((path for path in candidates if path.exists()), None)


def located(name: str, path: Path | None, data_dir: Path, provenance: Provenance) -> Path:
    """Return ``path``; if there is no file, raise an error with its origin and its place."""
    if path is None:
        places = " or ".join(str(data_dir / place) for place in provenance.place)
        raise MissingData(
            f"data set {name!r} is not in {data_dir}: get it from {provenance.origin} and put it "
            f"at {places}, or name another directory (--data-dir or ROMCO_DATA)"
        )
    return path


def verified(path: Path, sha256: str) -> bytes:
    """The content of ``path``, if its SHA-256 digest is the one expected."""
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise DamagedData(
            f"{path} ({len(content)} bytes) is not the expected file: its SHA-256 is {found}, "
            f"expected {sha256}. It may be truncated or altered: fetch it again"
        )
    return content
