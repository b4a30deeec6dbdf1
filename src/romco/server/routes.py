"""Routes of the service as data, and access to them; the client, OpenAPI and docs follow."""

import hashlib
import ipaddress
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote_to_bytes

import msgspec

from romco.io import durable
from romco.server.protocol import (
    CHOOSE_BODY,
    EVENT_BODY,
    LEARN_BODY,
    PREDICT_BODY,
    REWARD_BODY,
    ChooseResponse,
    ErrorResponse,
    ForgetQuery,
    LearnResponse,
    PredictResponse,
    RequestError,
    TaskQuery,
)
from romco.version import __version__

SCOPES = ("read", "write", "admin")
ACCESS_HEADERS = (b"host", b"origin", b"authorization")  # that decide on access
LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
SCHEMA_REF = "#/components/schemas/{name}"
ALWAYS = (400, 401, 403, 421, 503, 507)  # errors that any route may answer with


@dataclass(frozen=True)
class Route:
    """One method of one path."""

    name: str  # of the handler, and of the client's method
    method: str
    path: str  # "{task}" stands for one part of it; a slash in a task is "%2F"
    scope: str  # "public" or a token's scope
    body: msgspec.json.Decoder[Any] | None = None  # decodes JSON
    response: Any = None  # its type; of JSON without one any object
    media: str = "application/json"  # of the response
    query: type[msgspec.Struct] | None = None
    serves: str = ""  # "model" or "chooser", where only one of them answers

    def __post_init__(self) -> None:
        if self.scope not in ("public", *SCOPES):
            raise ValueError(f"{self.method} {self.path}: unknown scope {self.scope!r}")

    @property
    def errors(self) -> list[int]:
        """HTTP statuses of its refusals."""
        of_body = (413, 415, 422) if self.body else (422,) if self.query else ()
        of_path = (404, 409) if "{task}" in self.path else (404,) if self.serves else ()
        return sorted({*ALWAYS, *of_body, *of_path})


SUMMARIES = {  # by the name of a route
    "page": "The page",
    "healthz": "Whether the service is alive",
    "readyz": "Whether it predicts and learns",
    "predict": "Predict events; those with an id wait for their answers",
    "learn": "Learn answers by id, or whole events; each id once",
    "explain": "What each feature of an event adds to its margin",
    "choose": "Choose an action; the same id gets the same choice again",
    "reward": "Learn rewards of choices by id, each once",
    "choices": "Choices that had their reward, with probabilities, a JSON object per line",
    "tasks": "Tasks, page by page",
    "task": "What was learned of a task",
    "stored": "Events of a task in the log, and those that wait for answers",
    "forget": "Forget a task, durably: its personal part, or exactly, with a certificate",
    "model": "The model file; the header `x-romco-sequence` is the last change in it",
    "checkpoint": "Write a checkpoint",
    "status": "State of the service, as the page shows it",
    "metrics": "Metrics for Prometheus",
    "openapi": "Description of all routes (OpenAPI 3.1)",
}
ANSWERS, OUTCOMES = PredictResponse | list[PredictResponse], LearnResponse | list[LearnResponse]
CHOICES = ChooseResponse | list[ChooseResponse]
ROUTES = (
    Route("page", "GET", "/", "public", media="text/html; charset=utf-8"),
    Route("healthz", "GET", "/healthz", "public"),
    Route("readyz", "GET", "/readyz", "public"),
    Route("predict", "POST", "/v1/predict", "read", PREDICT_BODY, ANSWERS, serves="model"),
    Route("learn", "POST", "/v1/learn", "write", LEARN_BODY, OUTCOMES, serves="model"),
    Route("explain", "POST", "/v1/explain", "read", EVENT_BODY, serves="model"),
    Route("choose", "POST", "/v1/choose", "write", CHOOSE_BODY, CHOICES, serves="chooser"),
    Route("reward", "POST", "/v1/reward", "write", REWARD_BODY, OUTCOMES, serves="chooser"),
    Route("choices", "GET", "/v1/choices", "read", media="application/x-ndjson", serves="chooser"),
    Route("tasks", "GET", "/v1/tasks", "read", query=TaskQuery, serves="model"),
    Route("task", "GET", "/v1/tasks/{task}", "read", serves="model"),
    Route("stored", "GET", "/v1/tasks/{task}/stored", "admin", serves="model"),
    Route("forget", "DELETE", "/v1/tasks/{task}", "admin", query=ForgetQuery),
    Route("model", "GET", "/v1/model", "read", media="application/octet-stream"),
    Route("checkpoint", "POST", "/v1/checkpoint", "admin"),
    Route("status", "GET", "/v1/status", "read"),
    Route("metrics", "GET", "/metrics", "read", media="text/plain; version=0.0.4; charset=utf-8"),
    Route("openapi", "GET", "/openapi.json", "read"),
)
BY_NAME = {route.name: route for route in ROUTES}
_TASK_PATH = tuple(BY_NAME["task"].path.split("/"))
_METHODS: dict[tuple[str, ...], dict[str, Route]] = {}  # routes by parts of a path and method
for _route in ROUTES:
    _parts = tuple(_route.path.split("/"))
    _METHODS.setdefault(_parts, {})[_route.method] = _route
    if _route.method == "GET":
        _METHODS[_parts]["HEAD"] = _route


def find_routes(path: bytes) -> tuple[dict[str, Route], str]:
    """Return the routes of a path by method, and the task in it; decodes the path, once.

    >>> methods, task = find_routes(b"/v1/tasks/a%2Fb")
    >>> list(methods), task
    (['GET', 'HEAD', 'DELETE'], 'a/b')
    >>> find_routes(b"/v1/tasks/a/b"), find_routes(b"/v1/checkpoint%0A")
    (({}, ''), ({}, ''))
    """
    try:
        parts = tuple([unquote_to_bytes(part).decode() for part in path.split(b"/")])
    except UnicodeDecodeError:
        raise RequestError("the path is not UTF-8", status=400) from None
    task = parts[3] if parts[:3] == _TASK_PATH[:3] and len(parts) > 3 else ""
    methods = _METHODS.get((*_TASK_PATH, *parts[4:]) if task else parts, {})
    return methods, task if methods else ""


def read_tokens(path: Path) -> dict[str, frozenset[str]]:
    """Return scopes by the SHA-256 of a token; a file has lines ``scopes digest name``.

    A token has 256 random bits, so a plain hash of it can be neither guessed nor reversed.
    """
    tokens = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        scopes, digest, *_ = [*line.split(maxsplit=2), "", ""]
        if len(digest) != 64:
            raise ValueError(f"{path.name}, line {number}: expected scopes, SHA-256 and a name")
        tokens[digest.lower()] = frozenset(_check_scopes(scopes.split(",")))
    if not tokens:
        raise ValueError(f"{path.name} holds no token: make one by `romco token {path.name}`")
    return tokens


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


@dataclass(frozen=True)
class Access:
    """Decides whether a request is let in."""

    tokens: Mapping[str, frozenset[str]] | None = None  # scopes by SHA-256; None: none is needed
    hosts: frozenset[str] | None = LOCAL_NAMES  # None: any Host

    @classmethod
    def of_host(cls, host: str, tokens: Path | None, insecure: bool, names: Sequence[str]) -> Self:
        """Return the rules of a listening address; a local service answers only to local names."""
        try:
            local = ipaddress.ip_address(host).is_loopback
        except ValueError:
            local = host == "localhost"
        if not local and tokens is None and not insecure:
            raise ValueError(
                f"{host} can be reached from other machines: give --token-file "
                "(make one by `romco token FILE`), or say --insecure"
            )
        hosts = LOCAL_NAMES | {*map(str.lower, names)} | {host} if local or names else None
        return cls(None if tokens is None else read_tokens(tokens), hosts)

    def check(self, scope: str, method: str, headers: Mapping[bytes, bytes]) -> None:
        """Raise RequestError unless host, origin and token allow a request with this scope."""
        host, origin = headers.get(b"host", b"").decode("latin-1"), headers.get(b"origin")
        name = host[1:].partition("]")[0] if host[:1] == "[" else host.rpartition(":")[0] or host
        if self.hosts is not None and name.lower() not in self.hosts:
            raise RequestError("the service is not known by this Host", status=421)
        foreign = origin is not None and origin.decode("latin-1").partition("://")[2] != host
        if foreign and method not in ("GET", "HEAD"):
            raise RequestError("requests from other sites are refused", status=403)
        if self.tokens is None or scope == "public":
            return
        kind, _, secret = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
        scopes = self.tokens.get(_digest(secret.strip()))
        if scopes is None or kind.lower() != "bearer":
            bearer = [(b"www-authenticate", b"Bearer")]
            reason = "a token is needed: Authorization: Bearer TOKEN"
            raise RequestError(reason, status=401, headers=bearer)
        if scope not in scopes:
            raise RequestError(f"this token has no {scope} scope", status=403)


def read_headers(pairs: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return header fields by name; RequestError where one that decides on access comes twice."""
    names = [name for name, _ in pairs if name in ACCESS_HEADERS]
    if len(set(names)) < len(names):
        raise RequestError("Host, Origin and Authorization may be sent once", status=400)
    return dict(pairs)


def describe_routes() -> dict[str, Any]:
    """Return the OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    schemas: dict[str, Any] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _describe_operation(route, schemas)
    text = "Predict, answer later, learn once. An object is one event, a list many"
    info = {"title": "romco", "version": __version__, "description": f"{text}; responses alike."}
    security = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": security},
    }


def _describe_operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the description of a route; adds the types it names to ``schemas``."""

    def content(text: str, kind: Any, media: str = "application/json") -> dict[str, Any]:
        (schema,), named = msgspec.json.schema_components([kind], ref_template=SCHEMA_REF)
        schemas.update(named)
        return {"description": text, "content": {media: {"schema": schema}}}

    parameters: list[dict[str, Any]] = []
    if route.query is not None:
        fields = msgspec.json.schema_components([route.query])[1][route.query.__name__]
        named = fields["properties"].items()
        parameters = [{"name": name, "in": "query", "schema": rule} for name, rule in named]
    if "{task}" in route.path:
        task = {"name": "task", "in": "path", "required": True, "schema": {"type": "string"}}
        parameters.append(task)
    response = route.response or (dict if route.media == "application/json" else str)
    refused = content("Refused", ErrorResponse)
    operation = {
        "operationId": route.name,
        "summary": SUMMARIES[route.name],
        "parameters": parameters,
        "responses": {"200": content("Done", response, route.media.split(";")[0])}
        | {str(status): refused for status in route.errors},
        "security": [] if route.scope == "public" else [{}, {"token": [route.scope]}],
    }
    if route.body is not None:
        body = content("One event, or many", route.body.type)
        operation["requestBody"] = {"required": True} | body
    return operation
