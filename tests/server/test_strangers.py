"""What strangers send: never a failure of ours, never a changed model, each answer in its turn."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from tests.server.requests import BODY, LEARN, PLAIN, answers, closing, request


def told(service, *parts, **options):
    return answers(service.port, *parts, **options)


def lengths(*values):
    lines = [b"POST /v1/learn HTTP/1.1", *PLAIN, *(b"content-length: " + v for v in values)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + b'{"task":"t","x":{},"y":"no"}'


NO_HTTP = {
    "two lengths": lengths(b"28", b"3"),
    "two equal lengths": lengths(b"28", b"28"),
    "a list of lengths": lengths(b"28, 28"),
    "a negative length": lengths(b"-1"),
    "a length in hex": lengths(b"0x1c"),
    "a length of many digits": lengths(b"9" * 30),
    "chunked and a length": request(lines=[*PLAIN, b"transfer-encoding: chunked"]),
    "an unknown coding": request(lines=[*PLAIN, b"transfer-encoding: xchunked"]),
    "a space before the colon": request(lines=[*PLAIN, b"transfer-encoding : chunked"]),
    "bare line feeds": request().replace(b"\r\n", b"\n"),
    "a bare line feed": request(lines=[*PLAIN, b"x: y\nz: w"]),
    "a bare return": request(lines=[*PLAIN, b"x: y\rz: w"]),
    "a folded line": request(lines=[*PLAIN, b"x: y\r\n z"]),
    "another version": request(start=b"POST /v1/predict HTTP/9.9"),
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a small method": request(start=b"post /v1/predict HTTP/1.1"),
    "a hello of TLS": bytes.fromhex("1603010200010001fc0303") + b"\x07" * 100,
    "zeros": b"\x00" * 100,
    "a path that is no text": request(start=b"GET /v1/tasks/\xff\xfe HTTP/1.1", body=b""),
    "a bad chunk": b"\r\n".join(
        [b"POST /v1/learn HTTP/1.1", *PLAIN, b"transfer-encoding: chunked", b"", b"zz", BODY]
    ),
}


@pytest.mark.parametrize("data", NO_HTTP.values(), ids=NO_HTTP.keys())
def test_what_is_no_http_is_refused_and_closed(service, data):
    sequence = service.served.sequence
    statuses, answer = told(service, data, request())
    assert statuses == [400]
    assert b'{"error":"this is no HTTP request"}' in answer
    assert b"x-content-type-options: nosniff" in answer
    assert service.served.sequence == sequence


@pytest.mark.parametrize(
    "lines",
    [
        [b"x: " + b"a" * 200_000],
        [b"x: y"] * 20_000,
        [b"x%d: y" % k for k in range(20_000)],
    ],
)
@pytest.mark.parametrize("start", [b"POST /v1/predict HTTP/1.1", LEARN])
def test_header_lines_have_an_end(service, lines, start):
    assert told(service, request(lines=[*PLAIN, *lines], start=start))[0] in ([431], [])
    endless = [request(lines=PLAIN, start=start)[:60] + b"\r\nx: ", *[b"a" * 50_000] * 400]
    assert told(service, *endless)[0] in ([431], [])
    path = b"GET /v1/tasks/" + b"a" * 300_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert told(service, path)[0] in ([400], [431], [])
    trailers = b"POST /v1/learn HTTP/1.1\r\n" + b"\r\n".join(PLAIN)
    trailers += b"\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"x: y\r\n" * 30_000
    assert set(told(service, trailers)[0]) <= {400, 422, 431}
    assert told(service, closing())[0] == [200]


@pytest.mark.parametrize("every", [1, 2, 50])
def test_many_requests_that_do_not_wait_are_all_answered(service, every):
    """More than is read at once: it ends within header lines, which are no longer for that."""
    short, long = request(), request(lines=[*PLAIN, b"te: trailers", b"x: " + b"y" * 500])
    some = [long if k % every == 0 else short for k in range(2000)]
    got = []

    def send(line):
        line.sendall(b"".join(some) + closing())

    with socket.create_connection(("127.0.0.1", service.port), timeout=20.0) as line:
        sender = threading.Thread(target=send, args=(line,))
        sender.start()
        while data := line.recv(1 << 16):
            got.append(data)
        sender.join()
    assert b"".join(got).count(b"HTTP/1.1 200 OK") == 2001


def test_a_long_but_bounded_head_is_taken(service):
    assert told(service, closing(lines=[*PLAIN, b"x: " + b"a" * 30_000]))[0] == [200]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (closing(start=b"HEAD /healthz HTTP/1.1", body=b""), [200]),
        (closing(start=b"HEAD /v1/predict HTTP/1.1", body=b""), [405]),
        (closing(start=b"OPTIONS /v1/predict HTTP/1.1", body=b""), [405]),
        (closing(start=b"OPTIONS * HTTP/1.1", body=b""), [404]),
        (closing(start=b"TRACE / HTTP/1.1", body=b""), [405]),
        (closing(lines=[PLAIN[1]]), [421]),
        (closing(lines=[b"host: localhost", b"host: evil", PLAIN[1]]), [400]),
        (closing(lines=[b"host: evil", b"host: localhost", PLAIN[1]]), [400]),
        (closing(lines=[*PLAIN, b"expect: 100-continue"]), [100, 200]),
        (closing(lines=[*PLAIN, b"content-encoding: gzip"]), [415]),
        (request(start=b"POST /v1/predict HTTP/1.0"), [200]),
        (b"\r\n\r\n" + closing(), [200]),
        (closing(length=10**17), [413]),
        (closing(length=10**17, start=LEARN), [413]),
    ],
)
def test_what_is_odd_is_answered(service, data, expected):
    assert told(service, data, half=expected != [413])[0] == expected


def test_one_who_has_said_all_and_closes_his_half_is_answered(service):
    for lines in (PLAIN, [*PLAIN, b"te: trailers"]):
        assert told(service, request(lines=lines), half=True)[0] == [200]
        assert told(service, request(lines=lines)[:-3], half=True)[0] == []


def test_after_a_request_under_way_no_http_is_told_in_its_turn(serving):
    """Else the first answer would be taken for one to the request that was learned."""
    with serving() as service:
        for k in range(20):
            body = b'{"id": "e%d", "task": "t", "x": {"a": 1}, "y": "yes"}' % k
            learn = request(body, start=LEARN)
            statuses, answer = told(service, learn + b"NO HTTP\r\n\r\n" + learn)
            assert statuses == [200, 400]
            assert answer.index(b"applied") < answer.index(b"no HTTP")
            statuses, _ = told(service, learn, learn + request(), b"\x00\x01")
            assert statuses == [200, 200, 200, 400]
        assert service.served.sequence == 20


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e16", "01", "+1", ".5", "1.", "0x1"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("path", ["predict", "learn"])
def test_what_is_no_number_is_refused(service, path, number):
    sequence, start = service.served.sequence, f"POST /v1/{path} HTTP/1.1".encode()
    y = ', "y": "yes"' if path == "learn" else ""
    for text in (f'"x": {{"a": {number}}}', f'"x": [{number}]'):
        body = f'{{"task": "t", {text}{y}}}'.encode()
        (status,), _ = told(service, closing(body, start=start))
        assert status in (400, 422)
    assert service.served.sequence == sequence


VALUES = [None, True, 0, -1, 1.5, 2**70, "", "é", "\ud800", "x" * 257, [], ["a"], {}, {"a": 1}]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_ids_and_tasks_of_every_kind(service, value):
    for event in ({"id": value, "task": "t", "x": {}}, {"task": value, "x": {"a": 1}}):
        for path, more in ((b"predict", {}), (b"learn", {"y": "yes"})):
            body = json.dumps(event | more).encode()
            before = service.served.sequence
            (status,), answer = told(service, closing(body, start=b"POST /v1/%b HTTP/1.1" % path))
            assert status in (200, 400, 422), answer
            if status != 200 or path == b"predict":
                assert service.served.sequence == before


def test_of_a_key_given_twice_the_last_counts(serving):
    with serving() as service:
        service.client.learn([{"task": "t", "x": {"a": 1, "b": -2}, "y": "yes"}] * 5)
        for twice, once in (
            ('{"a": 1, "a": 3}', {"a": 3}),
            ('{"a": 1, "a": null}', {}),
            ('{"a": null, "a": 1}', {"a": 1}),
            ('{"b": "x", "b": 2}', {"b": 2}),
        ):
            _, answer = told(service, closing(f'{{"task": "t", "x": {twice}}}'.encode()))
            found = json.loads(answer.rpartition(b"\r\n")[2])
            assert found == service.client.predict({"task": "t", "x": once})


def test_an_id_learned_by_many_at_the_same_moment_is_learned_once(serving):
    with serving() as service:
        for k in range(10):
            body = b'{"id": "e%d", "task": "t", "x": {"a": 1}, "y": "yes"}' % k
            found, gate = [], threading.Barrier(4)

            def send(found=found, gate=gate, body=body):
                gate.wait()
                found.append(told(service, closing(body, start=LEARN))[1])

            threads = [threading.Thread(target=send) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sum(b'"applied"' in answer for answer in found) == 1
            assert sum(b'"duplicate"' in answer for answer in found) == 3
        assert service.served.model.events == 10


def test_many_connections_at_once(serving):
    with serving() as service:
        lines = []
        try:
            for _ in range(300):
                lines.append(socket.create_connection(("127.0.0.1", service.port), timeout=20.0))
            for line in lines[::3]:
                line.sendall(request()[:50])  # and says no more
            for line in lines[1::3]:
                line.sendall(request())
            for line in lines[1::3]:
                assert line.recv(4000).startswith(b"HTTP/1.1 200")
            assert service.client.predict({"task": "t", "x": {}})["margin"] == 0.0
        finally:
            for line in lines:
                line.close()
