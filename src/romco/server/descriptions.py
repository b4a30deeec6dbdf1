"""The interface described for machines: OpenAPI, made from the types that read requests."""

from __future__ import annotations

from typing import Any

import msgspec

from romco.model.features import Columns, Features
from romco.server.questions import Told
from romco.server.requests import types
from romco.server.settings import Limits
from romco.server.views import ORDERS
from romco.version import __version__

REF = "#/components/schemas/{name}"


class Learned(msgspec.Struct):
    """What became of an event: applied, duplicate (learned before) or expired (not known)."""

    status: str
    sequence: int | None


class Error(msgspec.Struct, omit_defaults=True):
    """What is wrong; ``index`` is the place of the bad event in the list."""

    error: str
    index: int | None = None


def describe(limits: Limits, features: Features) -> dict[str, Any]:
    """The OpenAPI description of a service whose events have such features."""
    question, lesson = types(limits)
    (_, _, _, _), parts = msgspec.json.schema_components(
        (question, lesson, Told, Learned), ref_template=REF
    )
    (_,), errors = msgspec.json.schema_components((Error,), ref_template=REF)
    for kind in ("Question", "Lesson"):
        fields = parts[kind]["properties"]
        fields["x"] = {"anyOf": _rows(fields["x"]["anyOf"], features)}
    parts["Lesson"]["anyOf"] = [_given(parts["Lesson"], "id"), _given(parts["Lesson"], "task", "x")]
    return {
        "openapi": "3.1.0",
        "info": {"title": "romco", "version": __version__, "description": ABOUT},
        "paths": _paths(limits),
        "components": {
            "schemas": {**parts, **errors},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _rows(kinds: list[dict[str, Any]], features: Features) -> list[dict[str, Any]]:
    """Rows are lists where columns have places, and else objects by names."""
    if not isinstance(features, Columns):
        return [kind for kind in kinds if kind["type"] != "array"]
    width = {"minItems": features.width, "maxItems": features.width}
    return [
        kind | width if kind["type"] == "array" else kind
        for kind in kinds
        if kind["type"] != "object"
    ]


def _given(kind: dict[str, Any], *names: str) -> dict[str, Any]:
    """A kind of which these fields must be there, and must not be null."""
    fields = {name: kind["properties"][name]["anyOf"] for name in names}
    said = {n: {"anyOf": [o for o in some if o["type"] != "null"]} for n, some in fields.items()}
    return {"required": list(names), "properties": said}


ABOUT = (
    "Predict, answer later, learn once. An object is one event, a list many; the answer is of "
    "the same kind."
)


def _paths(limits: Limits) -> dict[str, Any]:
    task = {"name": "task", "in": "path", "required": True, "schema": {"type": "string"}}
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    file = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    text = {"text/plain": {"schema": {"type": "string"}}}
    page = {"text/html": {"schema": {"type": "string"}}}
    return {
        "/": {"get": _operation("The page", page)},
        "/v1/predict": {"post": _posting("Predict events", "Question", "Told", limits)},
        "/v1/learn": {"post": _posting("Learn answers", "Lesson", "Learned", limits)},
        "/v1/explain": {"post": _explaining()},
        "/v1/tasks": {"get": _operation("Tasks", _any(), 422, parameters=_listing())},
        "/v1/tasks/{task}": {
            "get": _operation("What was learned of a task", _any(), 404, parameters=[task]),
            "delete": _operation("Forget a task", _any(), 404, 503, 507, parameters=[task]),
        },
        "/v1/model": {"get": _operation("The model file", file, 507)},
        "/v1/checkpoint": {"post": _operation("Write a checkpoint", _any(), 503, 507)},
        "/v1/live": {"get": _operation("The state of things every second", stream)},
        "/healthz": {"get": _operation("Whether the service is alive", _any())},
        "/readyz": {"get": _operation("Whether it can predict and learn", _any(), 503)},
        "/metrics": {"get": _operation("Metrics for Prometheus", text)},
        "/openapi.json": {"get": _operation("This description", _any())},
    }


def _posting(summary: str, asked: str, told: str, limits: Limits) -> dict[str, Any]:
    codes = (400, 413, 415, 422) if told == "Told" else (400, 413, 415, 422, 503, 507)
    operation = _operation(summary, {"application/json": {"schema": _one_or_many(told)}}, *codes)
    body = {"schema": _one_or_many(asked, limits.events)}
    return {**operation, "requestBody": {"required": True, "content": {"application/json": body}}}


def _explaining() -> dict[str, Any]:
    operation = _operation("Why an event is answered as it is", _any(), 400, 413, 415, 422)
    body = {"schema": {"$ref": REF.format(name="Question")}}
    return {**operation, "requestBody": {"required": True, "content": {"application/json": body}}}


def _one_or_many(name: str, most: int | None = None) -> dict[str, Any]:
    one = {"$ref": REF.format(name=name)}
    many: dict[str, Any] = {"type": "array", "items": one}
    if most is not None:
        many |= {"minItems": 1, "maxItems": most}
    return {"anyOf": [one, many]}


def _operation(
    summary: str, content: dict[str, Any], *errors: int, parameters: Any = ()
) -> dict[str, Any]:
    wrong = {"application/json": {"schema": {"$ref": REF.format(name="Error")}}}
    responses: dict[str, Any] = {"200": {"description": "Done", "content": content}}
    for code in (401, 403, 421, *errors):
        responses[str(code)] = {"description": "Refused", "content": wrong}
    return {"summary": summary, "parameters": list(parameters), "responses": responses}


def _any() -> dict[str, Any]:
    return {"application/json": {"schema": {"type": "object"}}}


def _listing() -> list[dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {
        "search": {"type": "string", "maxLength": 256},
        "order": {"enum": list(ORDERS)},
        "descending": {"type": "boolean"},
        "offset": {"type": "integer", "minimum": 0, "maximum": 10**9},
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
    }
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]
