"""What strangers send: never a failure of ours, never a changed model, each answer in its turn."""

from __future__ import annotations

import json
import socket
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


def chunks(data, start=LEARN, more=()):
    lines = [start, *PLAIN, b"transfer-encoding: chunked", b"connection: close", *more]
    return b"\r\n".join(lines) + b"\r\n\r\n" + data


HIDDEN = request(b'{"id": "hidden", "task": "t", "x": {}, "y": "no"}', start=LEARN)
EVENT = b'{"task": "t", "x": {}, "y": "no"}'
SMUGGLED = {  # each holds a second request that must not be obeyed: what the first is answered
    "after an early end of chunks": (chunks(b"0\r\n\r\n" + HIDDEN), [400]),
    "in a chunk's extension": (chunks(b"21;x=%b\r\n%b\r\n0\r\n\r\n" % (b"y" * 50, EVENT)), [200]),
    "after a line feed in an extension": (
        chunks(b"21;x\n" + EVENT + b"\r\n0\r\n\r\n" + HIDDEN),
        [400],
    ),
    "after a size with a space": (chunks(b"21 \r\n" + EVENT + b"\r\n0\r\n\r\n"), None),
    "after a size of too many digits": (chunks(b"1" * 20 + b"\r\n" + EVENT), [400]),
    "after a negative size": (chunks(b"-1\r\n" + EVENT), [400]),
    "after a size in 0x": (chunks(b"0x21\r\n" + EVENT), [400]),
    "in a trailer": (chunks(b"21\r\n" + EVENT + b"\r\n0\r\nx: y\r\n\r\n" + HIDDEN), [200]),
    "chunked twice": (chunks(b"0\r\n\r\n" + HIDDEN, more=[b"transfer-encoding: chunked"]), None),
    "chunked, then identity": (
        chunks(b"0\r\n\r\n" + HIDDEN, more=[b"transfer-encoding: identity"]),
        None,
    ),
    "behind close": (request(lines=[*PLAIN, b"connection: close"]) + HIDDEN, [200]),
    "in a GET's body": (
        request(HIDDEN, [*PLAIN, b"connection: close"], start=b"GET /healthz HTTP/1.1"),
        [200],
    ),
    "after a tab before chunked": (
        request(HIDDEN, [*PLAIN, b"transfer-encoding:\tchunked"]),
        None,
    ),
    "in a folded Host": (request(lines=[b"host: 127.0.0.1\r\n evil", PLAIN[1]]), [400]),
}


@pytest.mark.parametrize(("data", "expected"), SMUGGLED.values(), ids=SMUGGLED.keys())
def test_nothing_is_smuggled_into_a_request(serving, data, expected):
    with serving() as service:
        statuses, _ = told(service, data, half=True)
        assert len(statuses) == 1
        assert statuses == expected or (expected is None and statuses[0] in (200, 400, 422))
        service.client.learn({"id": "hidden", "task": "t", "x": {}, "y": "no"})
        assert service.service.counts["duplicate"] == 0


raw = st.lists(
    st.sampled_from(
        [
            *(b"POST ", b"GET ", b"DELETE ", b"/v1/learn", b"/v1/predict", b"/v1/tasks/t", b" "),
            *(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", b"host: 127.0.0.1\r\n", b"\r\n", b"\n", b"\r"),
            *(
                b"content-type: application/json\r\n",
                b"content-length: 33\r\n",
                b"content-length: ",
            ),
            *(b"transfer-encoding: chunked\r\n", b"connection: upgrade\r\nupgrade: h2c\r\n"),
            *(b"expect: 100-continue\r\n", b"21\r\n", b"0\r\n\r\n", EVENT, b"%0a", b"\x00", b":"),
        ]
    )
    | st.binary(max_size=30),
    max_size=20,
).map(b"".join)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=raw)
def test_raw_bytes_are_never_a_failure_of_ours(service, data):
    statuses, answer = told(service, data, half=True)
    assert all(status < 500 for status in statuses), (data, answer)


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


def test_more_header_lines_than_allowed_are_answered(service):
    for _ in range(3):
        assert told(service, request(lines=[*PLAIN, *[b"x: y"] * 250]))[0] == [431]


@pytest.mark.parametrize("every", [1, 2, 50])
def test_many_requests_that_do_not_wait_are_all_answered(service, every):
    """More than is read at once: it ends within header lines, which are no longer for that."""
    short, long = request(), request(lines=[*PLAIN, b"te: trailers", b"x: " + b"y" * 500])
    some = [long if k % every == 0 else short for k in range(2000)]
    got = []

    def send(line):
        line.sendall(b"".join(some) + closing())

    with socket.create_connection(("127.0.0.1", service.port), timeout=60.0) as line:
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


NUMBERS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e61", "01", "+1", ".5", "1.", "0x1"]


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


def test_a_bad_feature_before_bytes_that_are_no_text(service):
    body = b'[{"task": "t", "x": {"a": [1]}}, {"task": "\xff", "x": {}}]'
    (status,), answer = told(service, closing(body))
    assert status == 422, answer


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
                lines.append(socket.create_connection(("127.0.0.1", service.port), timeout=60.0))
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
