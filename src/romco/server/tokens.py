"""Bearer tokens: kept as hashes, compared in constant time, with scopes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import NamedTuple, final

from romco.io import durable

SCOPES = ("read", "write")


class Token(NamedTuple):
    """What a token may do, and the SHA-256 of it."""

    scopes: frozenset[str]
    digest: str


@final
class Tokens:
    """The tokens of a file: lines ``scopes digest name``, scopes being read, write or read,write.

    A token has 256 random bits, so a plain hash of it can be neither guessed nor reversed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tokens"
    >>> secret = create(path, ["read"], "dashboard")
    >>> tokens = Tokens(path)
    >>> tokens.scopes(f"Bearer {secret}"), tokens.scopes("Bearer x")
    (frozenset({'read'}), None)
    """

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        self._known = [
            _parse(path, number, line)
            for number, line in enumerate(lines, start=1)
            if line.strip() and not line.startswith("#")
        ]
        if not self._known:
            raise ValueError(f"{path.name} holds no token: make one by `romco token {path.name}`")

    def scopes(self, header: str) -> frozenset[str] | None:
        """What the token of an Authorization header may do; None if it is not known."""
        kind, _, secret = header.partition(" ")
        given = _digest(secret.strip()) if kind.lower() == "bearer" else ""
        found: frozenset[str] | None = None
        for token in self._known:  # all of them, whichever it is
            if hmac.compare_digest(token.digest, given):
                found = token.scopes
        return found


def create(path: Path, scopes: list[str], name: str) -> str:
    """Add a new token to a file; gives the token, which is stored nowhere."""
    _check(scopes)
    secret = secrets.token_urlsafe(32)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    line = f"{','.join(scopes)} {_digest(secret)} {' '.join(name.split())}".strip()
    durable.replace(path, [f"{before}{line}\n".encode()])
    path.chmod(0o600)
    return secret


def _parse(path: Path, number: int, line: str) -> Token:
    parts = line.split(maxsplit=2)
    if len(parts) < 2 or len(parts[1]) != 64:
        raise ValueError(f"{path.name}, line {number}: expected scopes, SHA-256 and a name")
    scopes = parts[0].split(",")
    _check(scopes)
    return Token(frozenset(scopes), parts[1].lower())


def _check(scopes: list[str]) -> None:
    if not scopes or not set(scopes) <= set(SCOPES):
        raise ValueError(f"scopes are {' and '.join(SCOPES)}; got {','.join(scopes)!r}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
