"""Access rules: bearer tokens with scopes, host names, origins."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from romco.io import durable

SCOPES = ("read", "write", "admin")
SECURITY_HEADERS = [  # of every response; a page has more
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


class Token(NamedTuple):
    """Scopes of a token, and its SHA-256."""

    scopes: frozenset[str]
    digest: str


class Tokens:
    """Tokens of a file with lines ``scopes digest name``; scopes as "read,write".

    A token has 256 random bits, so a plain hash of it can be neither guessed nor reversed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "tokens"
    >>> secret = create_token(path, ["read"], "dashboard")
    >>> tokens = Tokens(path)
    >>> tokens.scopes(f"Bearer {secret}"), tokens.scopes("Bearer x")
    (frozenset({'read'}), None)
    """

    def __init__(self, path: Path) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        self._tokens = [
            _parse(path, number, line)
            for number, line in enumerate(lines, start=1)
            if line.strip() and not line.startswith("#")
        ]
        if not self._tokens:
            raise ValueError(f"{path.name} holds no token: make one by `romco token {path.name}`")

    def scopes(self, header: str) -> frozenset[str] | None:
        """Return the scopes of an Authorization header's token; None if it is not known."""
        kind, _, secret = header.partition(" ")
        given = _digest(secret.strip()) if kind.lower() == "bearer" else ""
        scopes: frozenset[str] | None = None
        for token in self._tokens:  # all of them, so that time tells nothing
            if hmac.compare_digest(token.digest, given):
                scopes = token.scopes
        return scopes


class Access:
    """Decides whether a request is let in; ``hosts`` None accepts any Host."""

    def __init__(self, tokens: Tokens | None = None, hosts: frozenset[str] | None = None) -> None:
        self._tokens, self._hosts = tokens, hosts

    def refuse(
        self, scope: str, method: str, headers: list[tuple[bytes, bytes]]
    ) -> tuple[int, str] | None:
        """Return status and reason where a request for a route of a scope is refused."""
        host, origin, token, count = "", None, "", 0
        for name, value in headers:
            if name == b"host":
                host, count = value.decode("latin-1"), count + 1
            elif name == b"origin":
                origin, count = value.decode("latin-1"), count + 4
            elif name == b"authorization":
                token, count = value.decode("latin-1"), count + 16
        if count & ~0b010101:
            return 400, "Host, Origin and Authorization may be sent once"
        if self._hosts is not None and _host_name(host) not in self._hosts:
            return 421, "the service is not known by this Host"
        if origin is not None and method not in ("GET", "HEAD") and not _same_site(origin, host):
            return 403, "requests from other sites are refused"
        if self._tokens is None or scope == "public":
            return None
        scopes = self._tokens.scopes(token)
        if scopes is None:
            return 401, "a token is needed: Authorization: Bearer TOKEN"
        return None if scope in scopes else (403, f"this token has no {scope} scope")


def join_headers(headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return header lines as HTTP/1.1 has them."""
    return b"".join([b"%b: %b\r\n" % header for header in headers])


def create_token(path: Path, scopes: list[str], name: str) -> str:
    """Add a new token to a file; return the token, which is stored nowhere."""
    _check_scopes(scopes)
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
    _check_scopes(scopes)
    return Token(frozenset(scopes), parts[1].lower())


def _check_scopes(scopes: list[str]) -> None:
    if not scopes or not set(scopes) <= set(SCOPES):
        raise ValueError(f"scopes are {', '.join(SCOPES)}; got {','.join(scopes)!r}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _host_name(host: str) -> str:
    """Return the name within a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()


def _same_site(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc == host
    except ValueError:
        return False
