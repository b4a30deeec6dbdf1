from __future__ import annotations

import http.client
import json
import socket
import threading

import pytest

import romco
from romco.explanations import explanation
from romco.model import Model
from romco.server import Client, ServiceError, state
from romco.server.protocol import PredictRequest
from romco.server.routes import ROUTES, Route, read_tokens
from romco.server.routes import create_token as create
from romco.server.store import PRAGMAS
from tests.server.requests import answers, closing, receive
from tests.server.same import assert_same_bits
from tests.server.streams import learned, lessons, model

STREAM = [
    {"id": each.id, "task": each.task, "x": each.x, "y": each.y} for each in lessons(40, seed=3)
]


def send(service, method, path, body=None, **headers):
    """Status, headers and body of a raw request."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=60.0)
    try:
        if body is not None and "content-type" not in headers:
            headers["content-type"] = "application/json"
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()
    finally:
        connection.close()


def question(event):
    return {name: event[name] for name in ("id", "task", "x")}


def test_an_object_for_one_a_list_for_many(serving):
    with serving() as service:
        one = service.client.predict({"task": "ann", "x": {"a": 1.0}})
        assert one == {"label": "yes", "probability": 0.5, "margin": 0.0, "version": 0}
        many = service.client.predict([{"task": "ann", "x": {"a": 1.0}}] * 3)
        assert many == [one] * 3
        assert service.client.learn(STREAM[0]) == {"status": "applied", "sequence": 1}
        assert service.client.learn(STREAM[:2]) == [
            {"status": "duplicate", "sequence": 1},
            {"status": "applied", "sequence": 2},
        ]
        assert service.client.predict({"task": "ann", "x": {"a": 1.0}})["version"] == 2


def test_predict_then_answer_equals_a_model_that_does_the_same(serving):
    with serving() as service:
        for event in STREAM:
            service.client.predict(question(event))
        assert service.store.pending_events == len(STREAM)
        for event in STREAM:
            told = service.client.learn({"id": event["id"], "y": event["y"]})
            assert told["status"] == "applied"
        again = service.client.learn({"id": STREAM[0]["id"], "y": "no"})
        assert again == {"status": "duplicate", "sequence": 1} | (
            {} if STREAM[0]["y"] == "no" else {"differs": True}
        )
        assert service.client.learn({"id": "never", "y": "no"})["status"] == "expired"
        expected = model()
        for one in lessons(40, seed=3):
            expected.predict_one(one.x, one.task, id=one.id)
        for one in lessons(40, seed=3):
            expected.answer(one.id, one.y)
        assert_same_bits(service.served.model, expected)
        assert service.served.scores.total.events == 40


def test_large_numbers_and_long_ids_are_those_of_a_model(serving):
    rows = [{"post": 1234567890123456700 + k % 3, "at": 1.7e18 + 1e15 * k} for k in range(30)]
    labels = ["yes" if k % 3 == 1 else "no" for k in range(30)]

    def new():
        kinds = {"post": "category", "at": "number"}
        return Model(classes=("no", "yes"), schema=romco.Schema(kinds, task="u", label="y"))

    expected = new()
    for x, y in zip(rows, labels, strict=True):
        expected.learn_one(x, y, "ann")
    with serving(new=new) as service:
        for x, y in zip(rows[:29], labels, strict=False):
            service.client.learn({"task": "ann", "x": x, "y": y})
        service.client.predict({"id": "last", "task": "ann", "x": rows[29]})
    with serving(new=new) as service:  # it waited on the disk
        service.client.learn({"id": "last", "y": labels[29]})
        assert_same_bits(service.served.model, expected)


BAD = [
    ("not json", 400, None),
    ("", 400, None),
    ('"text"', 422, None),
    ("[]", 422, None),
    ("[1]", 422, 0),
    ('{"task": "t"}', 422, None),
    ('{"task": "t", "x": {"a": [1]}}', 422, None),
    ('{"task": "t", "x": {"a": NaN}}', 400, None),
    ('{"task": "t", "x": {"a": 1e400}}', 422, None),
    ('{"task": "t", "x": {"a": 1e61}}', 422, None),
    ('{"task": "t", "x": {"a": 12345678901234567890}}', 422, None),
    ('{"task": null, "x": {"a": 1}}', 422, None),
    ('{"task": true, "x": {"a": 1}}', 422, None),
    ('{"task": "", "x": {"a": 1}}', 422, None),
    ('{"task": 99999999999999999999, "x": {"a": 1}}', 422, None),
    ('{"task": "t", "x": {"a": 1}, "id": ""}', 422, None),
    ('{"task": "t", "x": {"a": 1}, "more": 1}', 422, None),
    ('[{"task": "t", "x": {"a": 1}}, {"task": "t", "x": 3}]', 422, 1),
    ('[{"task": "t", "x": {"a": 1}}, {"task": "t", "x": [1.0]}]', 422, 1),
    ("[" * 100_000, 422, 0),
    ('{"task": "t", "x": ' + '{"a":' * 50_000, 422, None),
    ('{"task": "t", "x": {"a": 1}}' + " trailing", 400, None),
    ('{"task": "\\ud800", "x": {"a": 1}}', 400, None),
    (b"\xff\xfe{}", 400, None),
    (b'{"task": "\xff", "x": {"a": 1}}', 400, None),
]


@pytest.mark.parametrize(("body", "status", "index"), BAD)
def test_bad_questions_say_what_is_wrong_and_where(service, body, status, index):
    found, _, answer = send(service, "POST", "/v1/predict", body)
    told = json.loads(answer)
    assert (found, told.get("index")) == (status, index), told
    assert told["error"]


@pytest.mark.parametrize(("body", "status", "index"), BAD)
def test_bad_lessons_are_not_learned(service, body, status, index):
    before = service.served.model.state()["events"], service.served.sequence
    if isinstance(body, str):
        body = body.replace('"x": {"a": 1}}', '"x": {"a": 1}, "y": "yes"}')
        body = body.replace('"x": [1.0]}', '"x": [1.0], "y": "yes"}')
    found, _, answer = send(service, "POST", "/v1/learn", body)
    told = json.loads(answer)
    assert (found, told.get("index")) == (status, index), told
    assert (service.served.model.state()["events"], service.served.sequence) == before


def test_one_bad_event_of_a_batch_is_named_and_none_learned(serving):
    with serving() as service:
        for bad in ({"y": "third"}, {"x": [1.0, 2.0]}):
            with pytest.raises(ServiceError) as caught:
                service.client.learn([*STREAM[:7], STREAM[7] | bad, *STREAM[8:]])
            assert (caught.value.status, caught.value.index) == (422, 7)
        assert service.served.sequence == 0
        assert service.served.model.tasks == []


def test_limits(serving):
    event = {"task": "t", "x": {"a": 1.0}}
    text = "x['k']: Expected str of length <= 10000"
    with serving() as service:
        bad = [
            ([event] * 1001, 422, "length <= 1000"),
            (event | {"x": {f"f{k}": 1.0 for k in range(10_001)}}, 422, "length <= 10000"),
            (event | {"x": [1.0] * 10_001}, 422, "length <= 10000"),
            (event | {"task": "t" * 257}, 422, "length <= 256"),
            (event | {"x": {"k" * 257: 1.0}}, 422, "length <= 256"),
            (event | {"x": {"k": "v" * 10_001}}, 422, text),
            (event | {"id": "i" * 257}, 422, "length <= 256"),
        ]
        for body, status, why in bad:
            for path in ("/v1/predict", "/v1/learn"):
                full = body
                if path == "/v1/learn":
                    many = isinstance(body, list)
                    full = [e | {"y": "yes"} for e in body] if many else body | {"y": "yes"}
                found, _, answer = send(service, "POST", path, json.dumps(full))
                assert (found, why in json.loads(answer)["error"]) == (status, True), answer
        statuses, answer = answers(service.port, closing(length=9 << 20))
        assert (statuses, b"8,388,608 bytes" in answer) == ([413], True)
        assert service.served.sequence == 0
        assert service.store.pending_events == 0


def test_names_that_were_not_learned_are_told(serving):
    with serving() as service:
        service.client.learn({"task": "ann", "x": {"age": 40.0, "city": "Bonn"}, "y": "yes"})
        event = {"task": "ann", "x": {"agee": 40.0, "city": "Rome", "age": 3.0}}
        assert service.client.predict(event)["unknown"] == ["agee", "city=Rome"]
        assert service.client.predict([event])[0]["unknown"] == ["agee", "city=Rome"]
        assert service.client.explain(event)["unknown"] == ["agee", "city=Rome"]
        known = {"task": "ann", "x": {"city": "Bonn", "age": None}}
        assert "unknown" not in service.client.predict(known)


def test_a_long_list_is_predicted_in_pieces_and_answered_as_one(serving, monkeypatch):
    with serving() as service:
        service.client.learn(STREAM)
        events = [{"task": one["task"], "x": one["x"]} for one in STREAM]
        whole = service.client.predict(events)
        monkeypatch.setattr(state, "PIECE_CELLS", 303)
        assert len(service.served.pieces([PredictRequest("t", {"a": 1.0})] * 40)) == 14
        assert service.client.predict(events) == whole
        for bad in (0, 7, 39):
            some = [*events[:bad], {"task": "t", "x": [1.0]}, *events[bad + 1 :]]
            with pytest.raises(ServiceError, match=f"event {bad}"):
                service.client.predict(some)


def test_tasks_and_their_insight(serving):
    with serving() as service:
        service.client.learn(STREAM)
        service.client.learn({"task": 7, "x": {"f1": 1.0}, "y": "no"})
        service.client.learn({"task": "a/b ü?", "x": {"f1": 1.0}, "y": "no"})
        listed = service.client.tasks(limit=3, order="events")
        assert listed["total"] == len(service.served.model.tasks)
        counts = [row["events"] for row in listed["tasks"]]
        assert counts == sorted(counts, reverse=True)
        assert len(counts) == 3
        found = service.client.tasks(search="USER1", order="task", descending="false")["tasks"]
        names = [row["task"] for row in found]
        assert names == sorted(names)
        assert all("user1" in name for name in names)
        one = service.client.task("user1")
        expected = {"task", "kind", "events", "shared", "personal", "share", "error", "judged"}
        assert expected | {"since", "nearest", "features", "curve", "version"} == one.keys()
        assert one["nearest"]
        assert one["features"]
        assert service.client.task(7)["task"] == 7
        assert service.client.task("a/b ü?")["events"] == 1
        with pytest.raises(ServiceError, match="404"):
            service.client.task("nobody")
        for query in ("order=x", "limit=0", "offset=-1", "limit=a"):
            assert send(service, "GET", f"/v1/tasks?{query}")[0] == 422


@pytest.mark.parametrize(
    "order",
    [
        *("task", "share", "error"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("kind", "events", "shared", "personal")
        ),
    ],
)
def test_a_page_of_tasks_is_a_part_of_all_in_order(serving, order):
    with serving() as service:
        service.client.learn(STREAM)
        whole = service.client.tasks(order=order, descending="false")["tasks"]
        values = [(row[order] is not None, row[order]) for row in whole]
        assert values == sorted(values)
        query = {"order": order, "descending": "false", "limit": 5}
        pages = [service.client.tasks(**query, offset=at)["tasks"] for at in range(0, 15, 5)]
        assert [row for page in pages for row in page] == whole


def test_the_page_lists_tasks_as_an_explanation_does(serving):
    with serving() as service:
        service.client.learn(STREAM)
        page = send(service, "GET", "/")[2].decode()
        assert 'order: "kind", descending: false' in page
        listed = service.client.tasks(order="kind", descending="false")["tasks"]
        found = romco.explain(service.served.model).tasks
        assert [row["task"] for row in listed] == [one.task for one in found]


def test_one_of_many_tasks_is_found_while_all_are_read(serving, monkeypatch):
    """It took half a second of 100,000, in which nobody else was answered."""
    monkeypatch.setattr(explanation, "FEW_TASKS", 5)
    with serving() as service:
        service.client.learn(STREAM)
        before = service.client.task("user1")
        with service.served.overview.reading:  # they are being read, and this takes its time
            service.client.learn({"task": "user1", "x": {"f1": 1.0}, "y": "no"})
            assert service.client.task("user1")["events"] == before["events"] + 1
            assert service.client.tasks()["total"] == 12
        service.client.learn({"task": "new", "x": {"f1": 1.0}, "y": "no"})
        assert service.client.task("new")["events"] == 1
        service.client.forget("user1")
        with pytest.raises(ServiceError, match="404"):
            service.client.task("user1")


def test_a_task_is_one_part_of_a_path(service):
    service.client.learn({"task": "a/b", "x": {"f1": 1.0}, "y": "no"})
    for path, expected in (
        (b"/v1/tasks/a%2Fb", 200),
        (b"/v1/tasks/a/b", 404),
        (b"/v1/tasks/", 404),
        (b"/v1%2Ftasks/a%2Fb", 404),
        (b"/v1/task%73", 200),
    ):
        data = closing(b"", start=b"GET %b HTTP/1.1" % path)
        assert answers(service.port, data)[0] == [expected], path


def test_an_empty_service_can_be_looked_at(serving):
    with serving() as service:
        assert service.client.tasks()["tasks"] == []
        assert service.status()["tasks"] == 0
        assert send(service, "GET", "/metrics")[0] == 200


def test_forgetting_a_task(serving):
    with serving() as service:
        service.client.learn(STREAM)
        gone = STREAM[0]["task"]
        service.client.predict({"id": "waits", "task": gone, "x": {"f1": 1.0}})
        assert service.client.forget(gone) == {"status": "forgotten", "sequence": 41}
        assert gone not in [row["task"] for row in service.client.tasks()["tasks"]]
        assert service.client.learn({"id": "waits", "y": "yes"})["status"] == "expired"
        with pytest.raises(ServiceError, match="404"):
            service.client.forget(gone)


def test_the_model_file_is_that_of_its_sequence_number(serving, tmp_path):
    with serving() as service:
        service.client.learn(STREAM[:25])
        status, headers, data = send(service, "GET", "/v1/model")
        service.client.learn(STREAM[25:])
        assert (status, headers["x-romco-sequence"]) == (200, "25")
        (tmp_path / "m.romco").write_bytes(data)
        model = romco.load(tmp_path / "m.romco")
        assert_same_bits(model, learned(lessons(40, seed=3)[:25]))
        service.client.model(tmp_path / "n.romco")
        assert_same_bits(romco.load(tmp_path / "n.romco"), service.served.model)
        assert service.client.checkpoint() == 40
        assert not list((tmp_path / "data").glob(".model-*"))


def test_health_and_metrics(serving):
    with serving() as service:
        service.client.learn(STREAM)
        service.client.predict([question(event) for event in STREAM[:3]])
        assert send(service, "GET", "/healthz")[0] == 200
        assert send(service, "GET", "/readyz")[0] == 200
        text = send(service, "GET", "/metrics")[2].decode()
        assert 'romco_events_total{outcome="applied"} 40.0' in text
        assert "romco_predictions_total 3.0" in text
        assert "romco_sequence 40.0" in text
        assert 'romco_request_seconds_count{path="/v1/learn"} 1.0' in text


def test_no_room_is_507_while_predictions_go_on(serving, monkeypatch):
    with serving() as service:
        service.client.learn(STREAM[:10])
        monkeypatch.setattr("romco.server.store.PRAGMAS", (*PRAGMAS, "max_page_count=1"))
        service.service.call_in_writer(lambda served: fill(service.store)).result()
        status, _, answer = send(service, "POST", "/v1/learn", json.dumps(STREAM[10:]))
        assert status == 507
        assert b"/" not in answer
        assert send(service, "GET", "/readyz")[0] == 503
        told = service.client.predict({"task": "t", "x": {"a": 1.0}})
        assert told["version"] == 10
        monkeypatch.undo()
        service.client.wait(60.0)  # nobody asks: it finds out by itself
        assert service.client.learn(STREAM[10:])[0] == {"status": "applied", "sequence": 11}
        assert_same_bits(service.served.model, learned(lessons(40, seed=3)))


def fill(store):
    """Let the database not grow any more, as on a full disk."""
    store._db.execute("PRAGMA max_page_count=1")


def test_predictions_are_answered_while_learning_waits_for_the_disk(serving, monkeypatch):
    with serving() as service:
        slow, begun, real = threading.Event(), threading.Event(), service.store.append

        def waiting(*given):
            begun.set()
            slow.wait(60.0)
            real(*given)

        monkeypatch.setattr(service.store, "append", waiting)
        told = []

        def learn():
            with Client(service.url) as client:
                told.append(client.learn(STREAM))

        other = threading.Thread(target=learn)
        other.start()
        assert begun.wait(60.0)
        assert service.client.predict({"task": "t", "x": {"a": 1.0}})["version"] == 0
        assert not told
        slow.set()
        other.join(60.0)
        assert len(told[0]) == 40


def test_a_failure_of_ours_tells_nothing_of_our_files(serving, monkeypatch):
    def fails(*_):
        raise RuntimeError("secret in /home/me")

    with serving() as service:
        monkeypatch.setattr(service.served, "respond", fails)
        body = json.dumps(question(STREAM[0]) | {"id": None})
        status, headers, answer = send(service, "POST", "/v1/predict", body)
        assert status == 500
        assert b"secret" not in answer
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["/v1/predict/", "/v1/learn/", "/healthz/", "/v1/checkpoint/"])
def test_a_slash_too_many_is_no_path_and_leads_nowhere(service, method, path):
    status, headers, _ = send(service, method, path, json.dumps(question(STREAM[0])))
    assert status == 404
    assert "location" not in headers


def test_every_answer_carries_the_security_headers(service):
    for method, path in [("GET", "/"), ("GET", "/nope"), ("GET", "/v1/tasks"), ("PUT", "/healthz")]:
        _, headers, _ = send(service, method, path)
        page = ("x-frame-options", "referrer-policy") if path == "/" else ()
        for name in ("content-security-policy", "x-content-type-options", "cache-control", *page):
            assert name in headers, (path, name)
        assert "server" not in headers
    policy = send(service, "GET", "/")[1]["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy


def test_other_sites_and_other_names_are_refused(service):
    body = json.dumps(question(STREAM[0]))
    foreign = {"origin": "http://evil.example", "content-type": "application/json"}
    assert send(service, "POST", "/v1/predict", body, **foreign)[0] == 403
    own = {"origin": f"http://127.0.0.1:{service.port}", "content-type": "application/json"}
    assert send(service, "POST", "/v1/predict", body, **own)[0] == 200
    assert send(service, "GET", "/v1/tasks", host="evil.example")[0] == 421
    plain = {"content-type": "text/plain"}
    assert send(service, "POST", "/v1/predict", body, **plain)[0] == 415
    packed = {"content-type": "application/json", "content-encoding": "gzip"}
    assert send(service, "POST", "/v1/predict", body, **packed)[0] == 415


def test_every_route_with_every_kind_of_token(serving, tmp_path):
    """Each route answers to its own scope and to no other."""
    path = tmp_path / "tokens"
    secrets = {scope: create(path, [scope], scope) for scope in ("read", "write", "admin")}
    assert all(secret not in path.read_text() for secret in secrets.values())
    assert path.stat().st_mode & 0o077 == 0
    bodies = {"learn": STREAM[0], "predict": question(STREAM[0]), "explain": question(STREAM[0])}
    with serving(tokens=read_tokens(path)) as service:
        with Client(service.url, token=secrets["write"]) as client:
            client.learn(STREAM)
        for route in ROUTES:
            url = route.path.replace("{task}", STREAM[0]["task"])
            data = json.dumps(bodies[route.name]) if route.name in bodies else None
            sent = {"content-type": "application/json"}
            statuses = {
                kind: send(service, route.method, url, data, **sent, **bearer(secret))[0]
                for kind, secret in {**secrets, "wrong": secrets["read"] + "x"}.items()
            }
            statuses["none"] = send(service, route.method, url, data, **sent)[0]
            if route.scope == "public":
                assert set(statuses.values()) == {200}, route
            else:
                expected = dict.fromkeys(secrets, 403) | {"wrong": 401, "none": 401}
                done = 404 if route.serves == "chooser" else 200
                assert statuses == expected | {route.scope: done}, route
        with Client(service.url, token=secrets["read"]) as client:
            assert client.predict(question(STREAM[0]))["label"] in ("yes", "no")
            assert send(service, "GET", "/nowhere", **bearer(secrets["write"]))[0] == 403
            assert send(service, "GET", "/nowhere", **bearer(secrets["read"]))[0] == 404


def bearer(secret):
    return {"authorization": f"Bearer {secret}"}


@pytest.mark.parametrize("scope", ["", "everybody", None])
def test_a_route_without_a_known_scope_is_an_error_at_once(scope):
    with pytest.raises(ValueError, match="scope"):
        Route("x", "GET", "/x", scope)


def test_the_client_names_the_bad_event_of_a_long_list(serving):
    with serving() as service, Client(service.url, batch=10, retries=0) as client:
        some = [dict(event) for event in STREAM]
        some[23]["x"] = [1.0]
        with pytest.raises(ServiceError) as caught:
            client.predict([question(event) for event in some])
        assert caught.value.index == 23
        assert len(client.predict([question(event) for event in STREAM])) == 40


def test_a_lost_connection_learns_once(serving):
    """The first answer is lost on the way, the client sends again."""
    with serving() as service, socket.create_server(("127.0.0.1", 0)) as proxy:

        def forward(lossy):
            line, _ = proxy.accept()
            with line, socket.create_connection(("127.0.0.1", service.port)) as server:
                sent = b""
                while not sent.endswith(b"}"):
                    sent += line.recv(1 << 16)
                server.sendall(sent)
                answer = receive(server)
                if not lossy:
                    line.sendall(answer)

        thread = threading.Thread(target=lambda: [forward(lossy) for lossy in (True, False)])
        thread.start()
        with Client(f"http://127.0.0.1:{proxy.getsockname()[1]}", retries=3) as client:
            told = client.learn({"task": "t", "x": {"a": 1.0}, "y": "yes"})
        thread.join(60.0)
        assert told == {"status": "duplicate", "sequence": 1}
        assert service.served.model.events == 1


def test_without_a_service_there_is_no_connection():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", retries=1) as client:
        assert not client.ready()
        with pytest.raises(ConnectionError, match=str(port)):
            client.tasks()


def test_the_description_and_the_client_know_every_route(service):
    described = json.loads(send(service, "GET", "/openapi.json")[2])
    assert described["openapi"].startswith("3.1")
    assert set(described["paths"]) == {route.path for route in ROUTES}
    for route in ROUTES:
        operation = described["paths"][route.path][route.method.lower()]
        assert operation["operationId"] == route.name
        if route.name not in ("page", "healthz", "status", "metrics", "openapi", "readyz"):
            assert callable(getattr(Client, route.name))
        real = route.path.replace("{task}", "nobody")
        assert send(service, route.method, real)[0] not in (405, 500), route


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/predict", {"POST"}),
        ("/v1/learn", {"POST"}),
        ("/v1/tasks/ann", {"GET", "HEAD", "DELETE"}),
    ],
)
def test_other_methods_are_told_which_there_are(service, path, allowed):
    for method in ("PUT", "OPTIONS"):
        status, headers, _ = send(service, method, path)
        assert (status, set(headers["allow"].split(", "))) == (405, allowed)


@pytest.mark.parametrize("query", ["order=x", "limit=0", "descending=maybe", "search=" + "s" * 257])
def test_a_bad_query_is_refused(service, query):
    assert send(service, "GET", f"/v1/tasks?{query}")[0] == 422


def test_reasons_add_up_to_the_margin(serving):
    with serving() as service:
        service.client.learn(STREAM)
        for task in (STREAM[0]["task"], "nobody"):
            event = {"task": task, "x": STREAM[0]["x"]}
            told = service.client.explain(event)
            assert told["margin"] == pytest.approx(service.client.predict(event)["margin"])
            adds = sum(each["adds"] for each in told["features"])
            assert adds + told["intercept"] == pytest.approx(told["margin"])
            assert (told["label"], told["task_known"]) == ("yes", task != "nobody")
        for bad in ([], [event], {"task": "t"}, {"task": "t", "x": [1.0]}):
            assert send(service, "POST", "/v1/explain", json.dumps(bad))[0] == 422
        assert send(service, "POST", "/v1/explain", "no json")[0] == 400
