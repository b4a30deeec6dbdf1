"""Agreement: what compiled code answers on the way, and what the long way answers."""

from __future__ import annotations

import json
import socket
import time
from random import Random

import pytest

from romco.model import Hashed, Model, Names
from romco.server import applications
from romco.server.applications import Application
from romco.server.requests import Reader
from romco.server.settings import Limits, Settings
from romco.server.stores import Store
from tests.server.streams import lessons
from tests.server.test_wires import PLAIN, exchange, request, without_date

SOME = lessons(80)
FIRST = b"HTTP/1.1 200 OK\r\ncontent-length: "


def asked(lesson, **more):
    return json.dumps({"task": lesson.task, "x": lesson.x} | more).encode()


@pytest.fixture(params=["names", "hashed"])
def pair(request, tmp_path):
    """Two applications of the same store: one as it is, one without any short way."""
    features = {"names": Names, "hashed": lambda: Hashed(4096)}[request.param]
    with Store(tmp_path, lambda: Model(features=features(), classes=("no", "yes"))) as store:
        store.writer.learn(SOME[:60]).result()
        long = Application(store)
        long._shortcut.questions = None
        long._lane = long._open_lane()
        yield Application(store), long


def waiting(app):
    found = app._store.live.pending.get("w", 0.0)
    return None if found is None else (found.task, found.x, found.prediction)


def test_a_single_event_has_the_same_answer_with_and_without_an_id(pair):
    short, long = pair
    for lesson in SOME:
        for more in ({}, {"id": "w"}, {"id": SOME[0].id}):
            text = asked(lesson, **more)
            answers, kept = [], []
            for app in (short, long):
                answers.append(app._predictions(text))
                kept.append(waiting(app))
                app._store.live.pending.remove("w")
            assert answers[0] == answers[1]
            assert kept[0] == kept[1]
            assert (kept[0] is not None) == (more == {"id": "w"})
    assert len(short._store.live.pending) == 0  # what was learned waits for nothing
    assert short._lane.answer_body(asked(SOME[0])) is not None
    assert short.meters.predicted == long.meters.predicted + 1


@pytest.mark.parametrize("n", [1, 3, 60])
def test_a_list_has_the_same_answer(pair, n):
    short, long = pair
    text = b" [" + b" , ".join(asked(lesson) for lesson in SOME[-n:]) + b"]\n"
    assert short._lane.answer_body(text) == long._predictions(text)
    assert short.meters.predicted == long.meters.predicted == n
    for damaged in (text[:-2], text + b",", text[:-2] + b",]", b"[" + text):
        assert short._lane.answer_body(damaged) is None
    assert short._lane.answer_body(b"[" + asked(SOME[0], id="w") + b"]") is None  # it is to wait
    assert short._lane.answer_body(text + b" " * 20_000) is None  # as long ones are
    assert short.meters.predicted == n


def test_many_events_wait_as_by_the_long_way(pair):
    short, long = pair
    text = json.dumps([json.loads(asked(one, id=f"w{k}")) for k, one in enumerate(SOME)]).encode()
    kept = []
    for app in (short, long):
        answers = app._predictions(text)
        pending = app._store.live.pending
        found = [pending.get(f"w{k}", 0.0) for k in range(len(SOME))]
        kept.append((answers, [(one.task, one.x, one.prediction) for one in found]))
    assert kept[0] == kept[1]


def test_a_row_that_waits_is_read_as_it_would_have_been_at_once(pair):
    """Whole numbers, names given twice, spaces: kept as they came, and read later."""
    short, _ = pair
    row = b'{"f1": 3, "f2" : 1e2, "new": 1, "new": 2, "town": "Rome", "none": null, "t": true}'
    body = b'{"id": "w", "task": "user1", "x": %b}' % row
    short._predictions(body)
    (question,), _ = Reader(Limits()).questions(body)
    found = waiting(short)
    assert found is not None
    assert found[1] == question.x
    assert [type(value) for value in found[1].values()] == [
        type(value) for value in question.x.values()
    ]


def told_by_lane(app, data):
    told: list[bytes] = []
    at = app._lane.answer(data, 0, FIRST, told)
    return at, told


def test_only_what_is_known_plain_and_whole_is_answered(pair):
    app, _ = pair
    one = request(asked(SOME[0]))
    assert told_by_lane(app, one) == (0, [])  # its head is not known yet
    app._heads.read(one[one.index(b"\r\n") + 2 : one.index(b"\r\n\r\n") + 2])
    at, told = told_by_lane(app, one * 3)
    assert (at, len(told)) == (3 * len(one), 3)
    assert told[0] == FIRST + b"%d\r\n\r\n" % len(answer_of(told[0])) + answer_of(told[0])
    assert answer_of(told[0]) == app._predictions(asked(SOME[0]))
    for cut in range(1, len(one)):
        assert told_by_lane(app, one + one[:cut])[0] == len(one)
    damaged = one[:-1] + b" "
    assert told_by_lane(app, one + damaged + one)[0] == len(one)


def answer_of(told):
    return told.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("beyond", [b"}", b'": 1}}', b" ", b"\r\n", b"}}", b"\x00", b""])
def test_a_body_ends_where_its_head_says(pair, beyond):
    """Whatever follows it is not taken for a part of it."""
    app, _ = pair
    whole = asked(SOME[0])
    for body in (whole[: len(whole) - len(beyond)], whole, whole + b" ", whole[:-3]):
        head = request(body)[: -len(body)]
        app._heads.read(head[head.index(b"\r\n") + 2 : -2])
        at, told = told_by_lane(app, head + body + beyond)
        alone = app._lane.answer_body(body)
        assert at == (0 if alone is None else len(head) + len(body))
        assert [answer_of(one) for one in told] == ([] if alone is None else [alone])


def test_without_a_short_way_all_is_left(tmp_path):
    settings = Settings(budget=0.5)
    with Store(tmp_path, lambda: Model(classes=("no", "yes")), settings) as store:
        app = Application(store)
        assert app._lane.answer_body(asked(SOME[0])) is None
        assert json.loads(app._predictions(asked(SOME[0], id="e")))["ask"] in (True, False)


def chunked(body):
    lines = [*PLAIN, b"transfer-encoding: chunked"]
    head = b"\r\n".join([b"POST /v1/predict HTTP/1.1", *lines]) + b"\r\n\r\n"
    return head + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def traffic(random):
    """A request of any kind; what ends a connection is left out."""
    lesson = random.choice(SOME)
    plain = asked(lesson)
    body = random.choice(
        [plain] * 4
        + [asked(lesson, id=f"q{random.randrange(9)}"), asked(lesson, task="new")]
        + [plain[:-1], b"[" + plain + b"]", asked(lesson, x={"caf\u00e9": 1}), b" " + plain + b" "]
    )
    more = random.choice([b"x-a: y", b"te: trailers", b"connection: keep-alive"])
    return random.choice(
        [request(body)] * 5
        + [request(body, [*PLAIN, more]), request(body, [PLAIN[0]]), request(body, [PLAIN[1]])]
        + [chunked(body), request(b"", start=b"GET /healthz HTTP/1.1")]
    )


def pieces(random, data):
    n = random.choice([0, 1, 3, 20])
    cuts = sorted(random.randrange(len(data)) for _ in range(n))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True) if a < b]


def agree(service, seed):
    """Requests in a row, cut anywhere, are answered as each by itself on the long way."""
    random = Random(seed)
    some = [traffic(random) for _ in range(random.randrange(1, 12))]
    told = exchange(service, *pieces(random, b"".join(some)), answers=len(some))
    for one, answer in zip(some, told, strict=True):
        long = one if b"te: trailers" in one else one.replace(b"\r\n", b"\r\nte: trailers\r\n", 1)
        (alone,) = exchange(service, long)
        assert without_date(answer) == without_date(alone)


def test_cut_anywhere_all_is_answered_as_by_the_long_way(service):
    service.store.writer.learn(SOME[:60]).result()
    for seed in range(60):
        agree(service, seed)


def test_a_client_that_asks_again_at_once_is_waited_for(serving, monkeypatch):
    """What it sends meanwhile has the same answers, and others have theirs."""
    monkeypatch.setattr(applications, "AWAKE", 0.02)
    with serving() as service:
        service.store.writer.learn(SOME[:60]).result()
        for _ in range(2):  # what was learned is seen
            exchange(service, request(asked(SOME[0])))
        time.sleep(0.15)  # while something is learned nobody is waited for
        one, two = (socket.create_connection(("127.0.0.1", service.port)) for _ in range(2))
        with one, two:
            for line in (one, one, one, two, two, one, two, one, one):
                line.settimeout(20.0)
                line.sendall(request(asked(SOME[0])))
                assert line.recv(4000).startswith(b"HTTP/1.1 200")
            assert service.app._lane.stayed > 0
            one.sendall(request(asked(SOME[0])) + request(b"", start=b"GET /healthz HTTP/1.1"))
            told = b""
            while told.count(b"HTTP/1.1 200") < 2:
                told += one.recv(4000)
            before, sent = service.app._lane.stayed, request(asked(SOME[0]))
            two.sendall(sent)
            two.recv(4000)
            service.client.learn({"task": "user1", "x": {"f1": 1}, "y": SOME[0].y})
            for _ in range(5):
                two.sendall(sent)
                two.recv(4000)
            assert service.app._lane.stayed <= before + 1
        time.sleep(0.15)
        for seed in range(4000, 4030):
            agree(service, seed)


@pytest.mark.slow
def test_cut_anywhere_all_is_answered_as_by_the_long_way_many_times(service):
    service.store.writer.learn(SOME[:60]).result()
    for seed in range(60, 4000):
        agree(service, seed)
