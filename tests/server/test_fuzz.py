"""Hostile requests: never a failure of ours, never a changed model."""

from __future__ import annotations

import http.client
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from romco.server.state import encode_scores
from tests.server.streams import lessons

junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["id", "task", "x", "y", "user1", "yes", "no", "maybe", "e1", "\x00", "🎈"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "task", "x", "y", "a", "", "x" * 300]), inner)
    ),
    max_leaves=12,
)
bodies = (
    junk.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=200)
    | st.lists(junk, max_size=5).map(lambda value: json.dumps(value).encode())
)
near = st.fixed_dictionaries(
    {"task": junk, "x": junk}, optional={"y": junk, "id": junk, "z": junk}
).map(lambda value: json.dumps([value]).encode())
PATHS = [
    "/v1/predict",
    "/v1/learn",
    "/v1/tasks",
    "/v1/tasks/",
    "/v1/tasks/user1",
    "/v1/model",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/",
    "/v1",
    "/v1/../v1/tasks",
]
visible = st.characters(min_codepoint=33, max_codepoint=126)
paths = st.sampled_from(PATHS) | st.text(visible, max_size=30).map("/{}".format)
queries = st.sampled_from(["", "?limit=-1", "?limit=1e9", "?order=%00", "?search=%ff", "?offset=x"])


@pytest.fixture(scope="module")
def wire(service):
    service.service.learn(lessons(30)).result()
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60.0)
    yield service, connection, [content(service)]
    connection.close()


def exchange(connection, method, path, body):
    try:
        headers = {"content-type": "application/json"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException:
        connection.close()
        return 0, b""


def content(service):
    """Return all that a checkpoint would hold."""
    served = service.served
    state = served.model.state()
    arrays = {name: array.tobytes() for name, array in state.pop("arrays").items()}
    return served.sequence, repr(state), arrays, encode_scores(served.scores)


quick = settings(max_examples=50, suppress_health_check=list(HealthCheck))
thorough = settings(max_examples=5000, suppress_health_check=list(HealthCheck))


def attack_learning(wire, body):
    service, connection, contents = wire
    sequence = service.served.sequence
    status, answer = exchange(connection, "POST", "/v1/learn", body)
    assert 0 < status < 500, (status, answer)
    before = contents.pop()
    contents.append(content(service))
    if status >= 400:
        assert json.loads(answer)["error"]
        assert contents == [before]
    else:
        told = json.loads(answer)
        outcomes = told if isinstance(told, list) else [told]
        assert service.served.sequence - sequence == sum(o["status"] == "applied" for o in outcomes)


def attack_anything(wire, method, path, body):
    service, connection, contents = wire
    status, answer = exchange(connection, method, path, body)
    assert status < 500, (status, answer)
    assert [content(service)] == contents


methods = st.sampled_from(["GET", "HEAD", "PUT", "PATCH", "OPTIONS", "TRACE", "FOO"])


@quick
@given(body=bodies | near)
def test_learning_survives(wire, body):
    attack_learning(wire, body)


@quick
@given(body=bodies | near)
def test_predicting_survives_and_changes_nothing(wire, body):
    attack_anything(wire, "POST", "/v1/predict", body)


@quick
@given(method=methods, path=paths, query=queries, body=st.none() | bodies)
def test_every_path_survives(wire, method, path, query, body):
    attack_anything(wire, method, path + query, body)


@pytest.mark.slow
@thorough
@given(body=bodies | near)
def test_learning_survives_thousands(wire, body):
    attack_learning(wire, body)


@pytest.mark.slow
@thorough
@given(method=methods, path=paths, query=queries, body=st.none() | bodies)
def test_every_path_survives_thousands(wire, method, path, query, body):
    attack_anything(wire, method, path + query, body)
