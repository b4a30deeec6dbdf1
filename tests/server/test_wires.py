"""Predictions by the short way: the same answers as by the long one."""

from __future__ import annotations

import json
import re
import socket
import time

import pytest

from romco.model import Hashed, Model, Names
from romco.server import heads, wires
from romco.server.applications import Application
from romco.server.drafts import Lesson
from romco.server.heads import plain
from romco.server.settings import Settings
from romco.server.stores import Store
from romco.server.tokens import Tokens, create
from romco.server.wires import Wire
from tests.server.streams import lessons

BODY = json.dumps({"task": "ann", "x": {"a": 1.0}}).encode()
PLAIN = [b"host: 127.0.0.1", b"content-type: application/json"]


def request(body=BODY, lines=PLAIN, length=None, start=b"POST /v1/predict HTTP/1.1"):
    lines = [start, *lines, b"content-length: %d" % (len(body) if length is None else length)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def exchange(service, *parts, answers=1):
    """Send parts one by one; status, headers and body of each answer."""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        file, told = line.makefile("rb"), []
        for part in parts:
            line.sendall(part)
        for _ in range(answers):
            status = int(file.readline().split()[1])
            headers = []
            while (text := file.readline()) not in (b"\r\n", b""):
                headers.append(text)
            length = int(re.search(rb"content-length: (\d+)", b"".join(headers))[1])
            told.append((status, headers, file.read(length)))
    return told


@pytest.fixture
def gone_long(monkeypatch):
    """What went the long way."""
    parts = []
    before = Wire._go_long
    monkeypatch.setattr(
        Wire, "_go_long", lambda self, data: (parts.append(data), before(self, data))
    )
    return parts


BODIES = [
    BODY,
    json.dumps([json.loads(BODY)] * 3).encode(),
    b"no json",
    b"",
    b'{"task": "t"}',
    b'{"task": "t", "x": {"a": 1e400}}',
    b'[{"task": "t", "x": {"a": 1}}, {"task": "t", "x": 3}]',
]
HEADERS = [
    PLAIN,
    [b"host: elsewhere", PLAIN[1]],
    [PLAIN[0], b"content-type: text/plain"],
    [PLAIN[0]],
    [*PLAIN, b"origin: http://other.example"],
    [*PLAIN, b"Authorization: Bearer x"],
]


def without_date(answer):
    status, headers, body = answer
    return status, sorted(line for line in headers if not line.startswith(b"date")), body


@pytest.mark.parametrize("lines", HEADERS)
@pytest.mark.parametrize("body", BODIES)
def test_both_ways_say_the_same(service, gone_long, body, lines):
    (short,) = exchange(service, request(body, lines))  # by what was not known before
    (lane,) = exchange(service, request(body, lines))
    assert not gone_long
    (long,) = exchange(service, request(body, [*lines, b"te: trailers"]))
    assert gone_long
    assert without_date(short) == without_date(lane) == without_date(long)


@pytest.mark.parametrize("target", ["two classes", "classes", "number"])
@pytest.mark.parametrize("features", [Names, lambda: Hashed(4096)])
def test_plain_bodies_are_answered_alike_by_compiled_code(tmp_path, features, target):
    with Store(tmp_path, lambda: Model(features=features(), target=target)) as store:
        short, long = Application(store), Application(store)
        long._shortcut.questions = None
        some = lessons(60)
        for end in (0, 1, 20, 60):
            for k, lesson in enumerate(some[:end]):
                y = float(k) if target == "number" else lesson.y
                store.writer.learn([Lesson(y=y, task=lesson.task, x=lesson.x)]).result()
            asked = [{"task": lesson.task, "x": lesson.x} for lesson in some]
            asked += [
                {"task": "new", "x": {"f1": 1, "odd": "text", "f2": True}},
                {"task": 3, "x": {}},
            ]
            for body in (*asked, asked, asked[:1], asked[:3]):
                text = json.dumps(body).encode()
                assert short._shortcut.answer(text) is not None
                assert short._predictions(text) == long._predictions(text)
        assert short.meters.predicted == long.meters.predicted


def test_events_that_wait_and_budgets_go_the_long_way(serving):
    with serving(settings=Settings(budget=1.0)) as service:
        assert service.client.predict({"task": "a", "x": {}, "id": "e"})["ask"] in (True, False)
        assert service.app._shortcut.answer(BODY) is None
    with serving("other") as service:
        service.client.predict({"task": "a", "x": {}, "id": "e"})
        assert len(service.live.pending) == 1


@pytest.mark.parametrize("at", [1, 10, 40, 120, len(request()) - 1])
def test_a_request_may_come_in_pieces(service, at):
    whole = request()
    ((status, _, _),) = exchange(service, whole[:at], whole[at:])
    assert status == 200
    parts = [whole[k : k + 1] for k in range(len(whole))]
    assert exchange(service, *parts)[0][0] == 200


def test_requests_may_follow_one_another_unasked(service):
    some = [request(), request(start=b"GET /healthz HTTP/1.1", body=b""), request(), request(b"no")]
    for parts in (some, [b"".join(some)]):
        told = exchange(service, *parts, answers=4)
        assert [status for status, _, _ in told] == [200, 200, 200, 400]


def test_answers_come_in_order_whatever_way_each_goes(service, gone_long):
    """Predictions, errors among them, and a request that goes the long way, cut anywhere."""
    other = request(start=b"GET /healthz HTTP/1.1", body=b"")
    some = [request(), request(b"no"), request(), other, request(b"{}"), request(), request(b"no")]
    statuses, whole = [200, 400, 200, 200, 422, 200, 400], b"".join(some)
    for cut in range(0, len(whole), 37):
        told = exchange(service, whole[:cut], whole[cut:], answers=7)
        assert [status for status, _, _ in told] == statuses
    assert len(gone_long) < 2 * (len(whole) // 37)  # most of them took the short way


def test_a_client_that_is_slow_or_silent_is_not_waited_for(serving, monkeypatch):
    monkeypatch.setattr(wires, "PATIENCE", 0.3)
    with serving() as service:
        whole = request()
        for part in (whole[:10], whole[:60], whole[:-1], b"GET /healthz HTTP/1.1\r\nhost"):
            ((status, headers, _),) = exchange(service, part)
            assert status == 408
            assert b"connection: close\r\n" in headers
        assert exchange(service, whole)[0][0] == 200
        with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
            start = whole[: len(whole) - len(BODY)].replace(b"predict", b"learn")
            line.sendall(start + b"{")
            assert line.recv(1000).startswith(b"HTTP/1.1 408")
        assert service.client.predict({"task": "ann", "x": {}})["version"] == 0


def test_a_connection_in_use_is_kept_and_an_idle_one_closed(serving):
    with serving(keep=1) as service:
        with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
            for _ in range(6):
                line.sendall(request())
                assert line.recv(4000).startswith(b"HTTP/1.1 200")
                time.sleep(0.3)
            assert line.recv(10) == b""  # closed by the server, a second after the last
        with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as silent:
            assert silent.recv(10) == b""


def test_heads_are_kept_but_not_those_with_secrets_nor_too_many(monkeypatch):
    monkeypatch.setattr(heads, "KEPT", 3)
    judged = []
    known = heads.Heads(lambda headers: judged.append(headers))
    for _ in range(2):
        assert known.read(b"content-length: 5\r\n") == (5, None)
        assert known.read(b"content-length: 5\r\nauthorization: x\r\n") == (5, None)
        assert known.read(b"odd") is None
    assert len(judged) == 3
    for length in range(20):
        known.read(b"content-length: %d\r\n" % length)
    assert len(known.kept) <= 3


def test_a_declared_length_beyond_the_limit_is_refused(service):
    most = service.store.settings.limits.body
    for length, status in ((1 << 17, 400), (most + 1, 413)):
        assert exchange(service, request(b" " * length))[0][0] == status


def test_the_short_way_asks_for_the_token(serving, tmp_path, gone_long):
    secret = create(tmp_path / "tokens", ["read"], "reader").encode()
    with serving(tokens=Tokens(tmp_path / "tokens")) as service:
        for line, status in ((b"bearer %s" % secret, 200), (b"bearer wrong", 401)):
            told = exchange(service, request(lines=[*PLAIN, b"authorization: " + line]))
            assert told[0][0] == status
        assert exchange(service, request())[0][0] == 401
    assert all(b"predict" not in part for part in gone_long)


def test_many_spaces_within_a_line_are_read_once():
    """Where a line could be cut in many ways, 64 kB of spaces took a quarter of a minute."""
    value = b"a" + b" " * 65_000 + b"b"
    head = b"x: " + value + b"  \r\ncontent-length: 5\r\n"
    assert plain(head) == ([(b"x", value), (b"content-length", b"5")], 5)
    assert plain(b"x:   \r\nContent-Length:5 \r\n") == ([(b"x", b""), (b"content-length", b"5")], 5)


UNUSUAL = [
    b"content-length: 3\r\ncontent-length: 4\r\n",
    b"content-length: +3\r\n",
    b"content-length: 3, 3\r\n",
    b"content-length: 3\r\ntransfer-encoding: chunked\r\n",
    b"content-length: 3\r\nexpect: 100-continue\r\n",
    b"content-length: 3\r\nconnection: close\r\n",
    b"content-length: 3\r\nhost: a\r\n folded\r\n",
    b"content-length: 3\r\nhost : a\r\n",
    b"content-length: 3\r\nhost: a\nx: b\r\n",
    b"content-length: 3\r\nhost: \x00\r\n",
    b"host: a\r\n",
    b"",
]


@pytest.mark.parametrize("head", UNUSUAL)
def test_what_is_not_plain_goes_the_long_way(head):
    assert plain(head) is None
