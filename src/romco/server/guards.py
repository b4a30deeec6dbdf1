"""What every request must pass, and what every answer carries."""

from __future__ import annotations

import logging
import time
from typing import Any, NamedTuple, final
from urllib.parse import urlsplit

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from romco.server.meters import Meters
from romco.server.tokens import Tokens

LOG = logging.getLogger(__name__)
OPEN = {"/", "/healthz", "/readyz"}  # need no token: they tell nothing of anybody
WRITES = {"/v1/learn", "/v1/checkpoint"}
SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
NOTHING = b"default-src 'none'; frame-ancestors 'none'"

FAILED = 500, {"error": "the service has failed; see its log"}

Headers = list[tuple[bytes, bytes]]


class Doors(NamedTuple):
    """Who may come in: tokens, if any, and the names under which the service is known."""

    tokens: Tokens | None
    hosts: frozenset[str] | None  # None: any


@final
class Guard:
    """Checks host, origin and token; times requests; lets no error out as it is."""

    def __init__(self, app: ASGIApp, doors: Doors, meters: Meters) -> None:
        self._app, self._doors, self._meters = app, doors, meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, status = time.perf_counter(), 0

        async def guarded(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _secured(message.get("headers", []))
            await send(message)

        try:
            refusal = self.refusal(scope["method"], scope["path"], scope["headers"])
            if refusal is None:
                await self._app(scope, receive, guarded)
            else:
                await answer(guarded, *refusal)
        except Exception:
            LOG.exception("a request failed")
            if status:
                raise
            await answer(guarded, *FAILED)
        finally:
            self._meters.add(known(scope["path"]), status, time.perf_counter() - begin)

    def refusal(self, method: str, path: str, given: Headers) -> tuple[int, dict[str, Any]] | None:
        """Status and body of an answer to one who may not come in."""
        headers = {name: value for name, value in given if name in WANTED}
        host = headers.get(b"host", b"").decode("latin-1")
        if self._doors.hosts is not None and _name(host) not in self._doors.hosts:
            return 421, {"error": "the service is not known by this Host"}
        origin = headers.get(b"origin")
        if origin is not None and method not in ("GET", "HEAD"):
            try:
                same = urlsplit(origin.decode("latin-1")).netloc == host
            except ValueError:
                same = False
            if not same:
                return 403, {"error": "requests from other sites are refused"}
        return self._stranger(method, path, headers)

    def _stranger(
        self, method: str, path: str, headers: dict[bytes, bytes]
    ) -> tuple[int, dict[str, Any]] | None:
        if self._doors.tokens is None or path in OPEN:
            return None
        scopes = self._doors.tokens.scopes(headers.get(b"authorization", b"").decode("latin-1"))
        if scopes is None:
            return 401, {"error": "a token is needed: Authorization: Bearer TOKEN"}
        needed = "write" if writes(method, path) else "read"
        if needed not in scopes:
            return 403, {"error": f"this token has no {needed} scope"}
        return None


WANTED = (b"host", b"origin", b"authorization")


def writes(method: str, path: str) -> bool:
    """Whether a request changes what is learned."""
    return method not in ("GET", "HEAD", "POST") or path in WRITES


def known(path: str) -> str:
    """The path as it is counted: what is not ours, and names of tasks, are not told apart."""
    if path.startswith("/v1/tasks/"):
        return "/v1/tasks/{task}"
    return path if path in PATHS else "other"


PATHS = (
    OPEN | WRITES | {"/v1/predict", "/v1/explain", "/v1/tasks", "/v1/model", "/v1/live", "/metrics"}
)


async def answer(send: Send, status: int, body: Any) -> None:
    """Send a JSON answer."""
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    headers = described(status, len(data))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": data})


def described(status: int, length: int) -> Headers:
    """What says of a JSON answer what it is."""
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % length)]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status == 503:
        headers.append((b"retry-after", b"1"))
    return headers


def carried(status: int, length: int) -> Headers:
    """All that a JSON answer carries."""
    return _secured(described(status, length))


def _secured(headers: Headers) -> Headers:
    own = {name for name, _ in headers}
    if b"content-security-policy" not in own:
        headers = [*headers, (b"content-security-policy", NOTHING)]
    return [*headers, *SECURITY]


def _name(host: str) -> str:
    """The name within a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.rpartition(":")[0].lower() if ":" in host else host.lower()
