"""Predictions by the short way: the same answers as by the long one."""

from __future__ import annotations

import json
import re
import socket

import pytest

from romco.service.tokens import Tokens, create
from romco.service.wires import Wire, plain

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
def shortened(monkeypatch):
    """Counts what went the short way."""
    counts = []
    before = Wire._answer
    monkeypatch.setattr(Wire, "_answer", lambda self, *a: (counts.append(1), before(self, *a))[1])
    return counts


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
def test_both_ways_say_the_same(service, shortened, body, lines):
    (short,) = exchange(service, request(body, lines))
    assert len(shortened) == 1
    (long,) = exchange(service, request(body, [*lines, b"te: trailers"]))
    assert len(shortened) == 1
    assert without_date(short) == without_date(long)


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


def test_a_declared_length_beyond_the_limit_is_refused(service):
    most = service.store.settings.limits.body
    for length, status in ((1 << 17, 400), (most + 1, 413)):
        assert exchange(service, request(b" " * length))[0][0] == status


def test_the_short_way_asks_for_the_token(serving, tmp_path, shortened):
    secret = create(tmp_path / "tokens", ["read"], "reader").encode()
    with serving(tokens=Tokens(tmp_path / "tokens")) as service:
        for line, status in ((b"bearer %s" % secret, 200), (b"bearer wrong", 401)):
            told = exchange(service, request(lines=[*PLAIN, b"authorization: " + line]))
            assert told[0][0] == status
        assert exchange(service, request())[0][0] == 401
    assert len(shortened) == 3


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
