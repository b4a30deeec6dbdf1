"""Requests to learn by the short way: the same answers as by the long one, in their order."""

from __future__ import annotations

import json
import socket
import threading
import time
from random import Random

import pytest

from romco.server import wires
from romco.server.tokens import Tokens, create
from romco.server.wires import Wire
from tests.server.test_wires import (
    HEADERS,
    PLAIN,
    exchange,
    gone_long,  # noqa: F401 - a fixture
    request,
    without_date,
)

LEARN = b"POST /v1/learn HTTP/1.1"
BODIES = [
    {"task": "ann", "x": {"a": 1.0}, "y": "yes"},
    [{"task": "ann", "x": {"a": 1.0}, "y": "yes"}, {"id": "never predicted", "y": "no"}],
    {"id": "never predicted", "y": "no"},
    {"task": "ann", "x": {"a": [1]}, "y": "yes"},
    [{"task": "ann", "x": {"a": 1}, "y": "yes"}, {"task": "ann", "x": {"a": 1}, "y": "a third"}],
    {"task": "ann", "x": {"a": 1}, "y": "a third"},
    [],
]
TEXTS = [*(json.dumps(body).encode() for body in BODIES), b"", b"no json", b'{"y": 1e400}']


def taught(body, lines=PLAIN):
    return request(body, lines, start=LEARN)


def same(answer):
    """An answer without its date and its numbers of changes."""
    status, headers, body = without_date(answer)
    told = json.loads(body)
    for one in told if isinstance(told, list) else [told]:
        one.pop("sequence", None)
    return status, [line for line in headers if not line.startswith(b"content-length")], told


@pytest.mark.parametrize("lines", HEADERS)
@pytest.mark.parametrize("body", TEXTS)
def test_both_ways_say_the_same(service, gone_long, body, lines):  # noqa: F811
    service.client.learn([{"task": "ann", "x": {"a": 1}, "y": y} for y in ("no", "yes")])
    gone_long.clear()
    (short,) = exchange(service, taught(body, lines))
    assert not gone_long
    (long,) = exchange(service, taught(body, [*lines, b"te: trailers"]))
    assert gone_long
    assert same(short) == same(long)


def test_predictions_and_lessons_in_a_row_are_answered_in_order_cut_anywhere(service, gone_long):  # noqa: F811
    """Each prediction has seen all that was sent before it."""
    random = Random(0)
    for _ in range(20):
        some, kinds = [], [random.choice("plnh") for _ in range(random.randrange(2, 12))]
        for kind in kinds:
            body = json.dumps({"task": "ann", "x": {"a": 1}}).encode()
            lesson = json.dumps({"task": "ann", "x": {"a": 1}, "y": "yes"}).encode()
            health = request(b"", start=b"GET /healthz HTTP/1.1")
            some.append(
                {"p": request(body), "l": taught(lesson), "n": taught(b"no"), "h": health}[kind]
            )
        whole = b"".join(some)
        cuts = sorted(random.randrange(len(whole)) for _ in range(random.choice([0, 1, 5])))
        parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        told = exchange(service, *parts, answers=len(kinds))
        assert [status for status, _, _ in told] == [400 if k == "n" else 200 for k in kinds]
        version = None
        for kind, (_, _, answer) in zip(kinds, told, strict=True):
            found = json.loads(answer)
            if kind == "p":
                assert version is None or found["version"] == version
                version = found["version"]
            elif kind == "l":
                assert version is None or found["sequence"] == version + 1
                version = found["sequence"]


def test_thousands_of_refused_lessons_in_a_row(service):
    """None is answered from within the answer to the one before."""
    told = exchange(service, taught(b"no") * 3000, answers=3000)
    assert {status for status, _, _ in told} == {400}


def test_a_client_that_sends_on_without_reading_is_not_read_for_ever(serving, monkeypatch):
    """While something is learned, only so much of what follows is taken."""
    monkeypatch.setattr(wires, "AHEAD", 1000)
    paused = []
    with serving() as service:
        held = threading.Event()
        service.store.writer.look(lambda live: held.wait(10.0))  # the writer is busy
        before = Wire.data_received
        monkeypatch.setattr(
            Wire,
            "data_received",
            lambda self, data: (before(self, data), paused.append(self.flow.read_paused)),
        )
        lesson = taught(TEXTS[0])
        with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
            line.sendall(lesson)
            time.sleep(0.1)
            for _ in range(20):
                line.sendall(lesson)
                time.sleep(0.01)
            assert paused[-1]
            held.set()
            told = b""
            while told.count(b"HTTP/1.1 200") < 21 or not told.endswith(b"}"):
                told += line.recv(4000)
        assert service.live.sequence == 21


def test_a_stop_lets_lessons_under_way_be_answered(serving):
    with serving() as service:
        held = threading.Event()
        service.store.writer.look(lambda live: held.wait(10.0))
        with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
            line.sendall(taught(TEXTS[0]))
            time.sleep(0.1)
            service.server.should_exit = True
            time.sleep(0.3)
            held.set()
            assert line.recv(4000).startswith(b"HTTP/1.1 200")
            assert line.recv(10) == b""
        assert service.live.sequence == 1


def test_a_client_that_goes_before_the_answer_disturbs_nobody(serving):
    with serving() as service:
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
                line.sendall(taught(TEXTS[0]) * 2)
        while service.live.sequence < 20:
            time.sleep(0.01)
        assert (
            service.client.learn({"task": "ann", "x": {"a": 1}, "y": "yes"})["status"] == "applied"
        )
        assert service.app.meters.requests["/v1/learn", 200] >= 21


def test_the_short_way_asks_for_a_token_that_may_write(serving, tmp_path, gone_long):  # noqa: F811
    path = tmp_path / "tokens"
    read, write = (create(path, [scope], scope).encode() for scope in ("read", "write"))
    with serving(tokens=Tokens(path)) as service:
        gone_long.clear()
        for secret, status in ((write, 200), (read, 403), (b"wrong", 401)):
            lines = [*PLAIN, b"authorization: bearer " + secret]
            assert exchange(service, taught(TEXTS[0], lines))[0][0] == status
        assert exchange(service, taught(TEXTS[0]))[0][0] == 401
    assert not gone_long
