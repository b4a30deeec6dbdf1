"""Routes of the service as data, and access to them; the client, OpenAPI and docs follow.

``python -m romco.server.routes`` prints the table of docs/serving.md.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from romco.io import durable
from romco.server.protocol import (
    MAX_BODY_BYTES,
    MAX_EVENTS,
    ErrorResponse,
    LearnRequest,
    LearnResponse,
    PredictRequest,
    PredictResponse,
    RequestError,
    TaskQuery,
)
from romco.version import __version__

SCOPES = ("read", "write", "admin")
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
SCHEMA_REF = "#/components/schemas/{name}"
ALWAYS = (400, 401, 403, 421, 503, 507)  # errors that any route may answer with


@dataclass(frozen=True)
class Route:
    """One method of one path; ``{task}`` stands for the rest of the path, whatever it holds.

    ``body`` and ``response`` are types of JSON. A route with both takes and returns an object, or
    a list of them.
    """

    name: str  # of the handler, and of the client's method
    method: str
    path: str
    scope: str  # "public" or a token's scope
    summary: str
    body: type[msgspec.Struct] | None = None
    response: type[msgspec.Struct] | None = None
    media: str = "application/json"  # of the response
    query: type[msgspec.Struct] | None = None
    max_bytes: int = MAX_BODY_BYTES  # of the body

    def __post_init__(self) -> None:
        if self.scope not in ("public", *SCOPES):
            raise ValueError(f"{self.method} {self.path}: unknown scope {self.scope!r}")

    @property
    def errors(self) -> list[int]:
        """Statuses of refusals."""
        of_body = (413, 415, 422) if self.body else (422,) if self.query else ()
        return sorted({*ALWAYS, *of_body, *((404,) if "{task}" in self.path else ())})


PREDICT = "Predict events; those with an id wait for their answers"
LEARN = "Learn answers by id, or whole events; each id once"
EXPLAIN = "What each feature of an event adds to its margin"
MODEL = "The model file; the header `x-romco-sequence` is the last change in it"
LIVE = "State of the service every second (server-sent events)"
FILE, EVENTS, TEXT = "application/octet-stream", "text/event-stream", "text/plain; version=0.0.4"
ROUTES = (
    Route("page", "GET", "/", "public", "The page", media="text/html"),
    Route("healthz", "GET", "/healthz", "public", "Whether the service is alive"),
    Route("readyz", "GET", "/readyz", "public", "Whether it predicts and learns"),
    Route("predict", "POST", "/v1/predict", "read", PREDICT, PredictRequest, PredictResponse),
    Route("learn", "POST", "/v1/learn", "write", LEARN, LearnRequest, LearnResponse),
    Route("explain", "POST", "/v1/explain", "read", EXPLAIN, PredictRequest),
    Route("tasks", "GET", "/v1/tasks", "read", "Tasks, page by page", query=TaskQuery),
    Route("task", "GET", "/v1/tasks/{task}", "read", "What was learned of a task"),
    Route("forget", "DELETE", "/v1/tasks/{task}", "admin", "Forget a task, durably"),
    Route("model", "GET", "/v1/model", "read", MODEL, media=FILE),
    Route("checkpoint", "POST", "/v1/checkpoint", "admin", "Write a checkpoint"),
    Route("live", "GET", "/v1/live", "read", LIVE, media=EVENTS),
    Route("metrics", "GET", "/metrics", "read", "Metrics for Prometheus", media=TEXT),
    Route("openapi", "GET", "/openapi.json", "read", "Description of all routes (OpenAPI 3.1)"),
)
BY_NAME = {route.name: route for route in ROUTES}
_FIXED = {(r.method, r.path): r for r in ROUTES if "{task}" not in r.path}
_OF_TASK = {r.method: r for r in ROUTES if "{task}" in r.path}
_TASK_PREFIX = "/v1/tasks/"


def find_route(method: str, path: str) -> tuple[Route | None, str, list[str]]:
    """Return the route of a decoded path, the task in it, and the allowed methods.

    >>> find_route("GET", "/v1/tasks/a/b")[1:]
    ('a/b', ['GET', 'HEAD', 'DELETE'])
    >>> find_route("POST", "/v1/checkpoint" + chr(10))
    (None, '', [])
    """
    asked = "GET" if method == "HEAD" else method
    route = _FIXED.get((asked, path))
    if route is not None:
        return route, "", []
    if path.startswith(_TASK_PREFIX) and len(path) > len(_TASK_PREFIX):
        return _OF_TASK.get(asked), path[len(_TASK_PREFIX) :], _with_head(list(_OF_TASK))
    return None, "", _with_head([r.method for r in ROUTES if r.path == path])


def _with_head(methods: list[str]) -> list[str]:
    return [name for m in methods for name in ((m, "HEAD") if m == "GET" else (m,))]


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
        self._scopes: dict[str, frozenset[str]] = {}  # by SHA-256
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            scopes, digest, *_ = [*line.split(maxsplit=2), "", ""]
            if len(digest) != 64:
                raise ValueError(f"{path.name}, line {number}: expected scopes, SHA-256 and a name")
            self._scopes[digest.lower()] = frozenset(_check_scopes(scopes.split(",")))
        if not self._scopes:
            raise ValueError(f"{path.name} holds no token: make one by `romco token {path.name}`")

    def scopes(self, header: str) -> frozenset[str] | None:
        """Return the scopes of an Authorization header's token; None if it is not known."""
        kind, _, secret = header.partition(" ")
        given = _digest(secret.strip()) if kind.lower() == "bearer" else ""
        same = [s for d, s in self._scopes.items() if hmac.compare_digest(d, given)]  # all of them
        return same[0] if same else None


def read_headers(pairs: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return header fields by name; RequestError where one that decides on access comes twice."""
    headers = dict(pairs)
    if len(headers) < len(pairs):
        names = [name for name, _ in pairs if name in (b"host", b"origin", b"authorization")]
        if len(set(names)) < len(names):
            raise RequestError("Host, Origin and Authorization may be sent once", status=400)
    return headers


class Access:
    """Decides whether a request is let in; ``hosts`` None accepts any Host."""

    def __init__(self, tokens: Tokens | None = None, hosts: frozenset[str] | None = None) -> None:
        self._tokens, self._hosts = tokens, hosts

    def check(self, scope: str, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise RequestError where a request for a route of a scope is refused."""
        host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin")
        if self._hosts is not None and _host_name(host) not in self._hosts:
            raise RequestError("the service is not known by this Host", status=421)
        foreign = origin is not None and not _same_site(origin.decode("latin-1"), host)
        if foreign and method not in ("GET", "HEAD"):
            raise RequestError("requests from other sites are refused", status=403)
        if self._tokens is None or scope == "public":
            return
        scopes = self._tokens.scopes(headers.get(b"authorization", b"").decode("latin-1"))
        if scopes is None:
            bearer = [(b"www-authenticate", b"Bearer")]
            reason = "a token is needed: Authorization: Bearer TOKEN"
            raise RequestError(reason, status=401, headers=bearer)
        if scope not in scopes:
            raise RequestError(f"this token has no {scope} scope", status=403)


def create_token(path: Path, scopes: list[str], name: str) -> str:
    """Add a new token to a file; return the token, which is stored nowhere."""
    secret = secrets.token_urlsafe(32)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    line = f"{','.join(_check_scopes(scopes))} {_digest(secret)} {' '.join(name.split())}".strip()
    durable.replace(path, [f"{before}{line}\n".encode()])
    path.chmod(0o600)
    return secret


def _check_scopes(scopes: list[str]) -> list[str]:
    if not scopes or not set(scopes) <= set(SCOPES):
        raise ValueError(f"scopes are {', '.join(SCOPES)}; got {','.join(scopes)!r}")
    return scopes


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


def describe_routes(row_width: int | None = None) -> dict[str, Any]:
    """Return the OpenAPI document; ``row_width`` is the number of columns of unnamed features."""
    types = (PredictRequest, LearnRequest, PredictResponse, LearnResponse, ErrorResponse)
    _, schemas = msgspec.json.schema_components(types, ref_template=SCHEMA_REF)
    for name in ("PredictRequest", "LearnRequest"):
        fields = schemas[name]["properties"]
        fields["x"] = {"anyOf": _row_schemas(fields["x"]["anyOf"], row_width)}
    answer = schemas["LearnRequest"]
    answer["anyOf"] = [_required(answer, "id"), _required(answer, "task", "x")]
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "romco",
            "version": __version__,
            "description": "Predict, answer later, learn once. An object is one event, a list "
            "many; the response is of the same kind.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object" if route.media == "application/json" else "string"}
    if route.response is not None:
        schema = _one_or_many(route.response, None)
    responses: dict[str, Any] = {
        "200": {"description": "Done", "content": {route.media.split(";")[0]: {"schema": schema}}}
    }
    error = {"application/json": {"schema": {"$ref": SCHEMA_REF.format(name="ErrorResponse")}}}
    for status in route.errors:
        responses[str(status)] = {"description": "Refused", "content": error}
    parameters: list[dict[str, Any]] = []
    if route.query is not None:
        fields = msgspec.json.schema_components([route.query])[1][route.query.__name__]
        named = fields["properties"].items()
        parameters = [{"name": name, "in": "query", "schema": rule} for name, rule in named]
    if "{task}" in route.path:
        task = {"name": "task", "in": "path", "required": True, "schema": {"type": "string"}}
        parameters.append(task)
    operation = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses,
        "security": [] if route.scope == "public" else [{}, {"token": [route.scope]}],
    }
    if route.body is not None:
        body = _one_or_many(route.body, MAX_EVENTS if route.response else 0)
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": body}},
        }
    return operation


def _one_or_many(kind: type[msgspec.Struct], most: int | None) -> dict[str, Any]:
    one = {"$ref": SCHEMA_REF.format(name=kind.__name__)}
    if most == 0:
        return one
    many: dict[str, Any] = {"type": "array", "items": one}
    return {"anyOf": [one, many if most is None else many | {"minItems": 1, "maxItems": most}]}


def _row_schemas(kinds: list[dict[str, Any]], width: int | None) -> list[dict[str, Any]]:
    """Rows are lists where features are columns without names, else objects."""
    unwanted = "array" if width is None else "object"
    size = {} if width is None else {"minItems": width, "maxItems": width}
    return [k | size if k["type"] == "array" else k for k in kinds if k["type"] != unwanted]


def _required(schema: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the part of a schema that requires fields which are not null."""
    kinds = {name: schema["properties"][name]["anyOf"] for name in names}
    given = {n: {"anyOf": [k for k in some if k["type"] != "null"]} for n, some in kinds.items()}
    return {"required": list(names), "properties": given}


def table() -> str:
    """Return the routes as a Markdown table."""
    lines = ["| request | scope | body | response | |", "|---|---|---|---|---|"]
    for route in ROUTES:
        body = "" if route.body is None else f"`{route.body.__name__}`"
        response = route.media.split(";")[0]
        if route.response is not None:
            response = f"`{route.response.__name__}`"
        many = ", one or a list" if route.response else ""
        request = f"`{route.method} {route.path}`"
        lines.append(f"| {request} | {route.scope} | {body}{many} | {response} | {route.summary} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
