"""Exact forgetting: model, scores, histories and log are as if a person had never been there."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from itertools import count
from random import Random

import pytest

from romco import forgetting
from romco.model import Model
from romco.server import ServiceError
from romco.server.protocol import LearnRequest as Lesson
from romco.server.protocol import PredictRequest, RequestError, Settings, StoppedError
from romco.server.state import encode_scores
from romco.server.store import DATABASE, Store
from tests.server.conftest import held, opened
from tests.server.streams import model, unsettled

KEPT = Settings("none", group_ms=0.0, keep_log=True, checkpoint_events=10**9)
PEOPLE = 12
PARTIAL = shutil.ignore_patterns("*.partial")
TARGETS = {
    "two classes": model,
    "drifting": unsettled,
    "classes": lambda: Model("romco-auto", target="classes"),
    "number": lambda: Model("romco-auto", target="number"),
    "history": lambda: Model("romco-auto", classes=("no", "yes"), history=["skill"]),
    "baseline": lambda: Model("arow-shared", classes=("no", "yes")),
}
SLOW_TARGETS = ("drifting", "number", "baseline")
EVERY_TARGET = pytest.mark.parametrize(
    "target",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW_TARGETS)) for name in TARGETS],
)


def requests(n, seed, target="two classes", newcomers=()):
    """Requests of several people: whole events, predictions, and late answers to them."""
    random, waiting, made = Random(seed), [], []
    for k in range(n):
        person = f"guest{random.randrange(PEOPLE)}"
        if person in newcomers and k < n // 2:
            person = "guest0"
        x = {f"f{random.randrange(30)}": random.gauss(0.0, 1.0) for _ in range(4)}
        total = sum(x.values())
        if random.random() < 0.2:
            x |= {f"only {person}": 1.0, "town": f"of {person}"}
        if target == "history":
            x = {"skill": f"of {person}" if "town" in x else f"s{random.randrange(4)}"}
        y = {
            "two classes": "yes" if total > 0.0 else "no",
            "classes": f"c{random.randrange(3)}" if total > 0 else f"of {person}",
            "number": round(total, 3),
        }.get(target, "yes" if k // 40 % 2 else "no")
        kind = random.random()
        if kind < 0.4:
            made.append(("predict", person, PredictRequest(id=f"e{k}", task=person, x=x)))
            waiting.append((person, Lesson(id=f"e{k}", y=y)))
        elif kind < 0.7 and waiting:
            made.append(("learn", *waiting.pop(random.randrange(len(waiting)))))
        else:
            made.append(("learn", person, Lesson(id=f"e{k}", task=person, x=x, y=y)))
    return made


def send(service, kind, group):
    if kind == "learn":
        for outcome in service.learn(group).result(60.0):
            assert outcome.status == "applied"
    else:
        served = service.served
        service.keep(served.respond(group)[1], served).result(60.0)


def one_by_one(service, some, without=()):
    for kind, person, request in some:
        if person not in without:
            send(service, kind, [request])


def content(service):
    """All that is stored, but for clocks and the numbers of rows that wait."""

    def read(served):
        execute = service.store.execute
        sequence, state, scores = served.copy()
        arrays = {name: array.tobytes() for name, array in state.pop("arrays").items()}
        pending = execute("SELECT id, task, events, body FROM pending ORDER BY number").fetchall()
        tables = [execute(f"SELECT * FROM {name}").fetchall() for name in ("change", "learned")]
        return sequence, state, arrays, scores, pending, *tables

    return service.call_in_writer(read).result(60.0)


def assert_same(a, b):
    names = ("sequence", "state", "arrays", "scores", "pending", "change", "learned")
    for name, one, other in zip(names, content(a), content(b), strict=True):
        assert one == other, name


@EVERY_TARGET
def test_a_person_has_never_been_there(tmp_path, target):
    some = requests(130, 1, target)
    with (
        opened(tmp_path / "a", TARGETS[target], KEPT) as service,
        opened(tmp_path / "b", TARGETS[target], KEPT) as reference,
    ):
        one_by_one(service, some[:100])
        certificate = service.forget("guest3", exact=True).result(60.0)
        one_by_one(reference, some[:100], without=["guest3"])
        assert_same(service, reference)
        assert "guest3" not in service.served.model.tasks
        assert certificate.removed["events"] == sum(
            kind == "learn" and person == "guest3" for kind, person, _ in some[:100]
        )
        for each in (service, reference):
            one_by_one(each, some[100:], without=["guest3"])
        assert_same(service, reference)
    with opened(tmp_path / "a", settings=KEPT) as service:
        assert encode_scores(service.served.scores)
        assert not (tmp_path / "a" / "next").exists()
    for path in (tmp_path / "a").rglob("*"):
        assert path.is_dir() or b"guest3" not in path.read_bytes(), path


def test_several_people_in_one_replay_from_a_checkpoint_along_the_log(tmp_path):
    late = {"guest1", "guest2"}
    some = requests(300, 2, newcomers=late)
    with (
        opened(tmp_path / "a", model, KEPT) as service,
        opened(tmp_path / "b", model, KEPT) as reference,
    ):
        for begin in range(0, 300, 50):
            one_by_one(service, some[begin : begin + 50])
            service.checkpoint().result(60.0)
        with held(service):
            futures = [service.forget(person, exact=True) for person in sorted(late)]
        one, two = (future.result(60.0) for future in futures)
        assert one == two
        assert one.names("guest1")
        assert one.names("guest2")
        assert not one.names("guest3")
        one_by_one(reference, some, without=late)
        assert_same(service, reference)
        places = service.call_in_writer(checkpoints(service)).result()
        assert 0 in places
        assert len(places) > 3, "those before the first event of the people stay"


def checkpoints(service):
    query = "SELECT sequence FROM checkpoint ORDER BY sequence"
    return lambda _: [place for (place,) in service.store.execute(query)]


def test_requests_go_on_meanwhile(tmp_path):
    """Of the person, too: it is forgotten up to the moment of the answer."""
    some = requests(400, 3)
    with (
        opened(tmp_path / "a", model, KEPT) as service,
        opened(tmp_path / "b", model, KEPT) as reference,
    ):
        one_by_one(service, some[:300])
        with held(service):
            future = service.forget("guest5", exact=True)
            last = service.learn([Lesson(id="last", task="guest5", x={"f1": 1.0}, y="yes")])
        one_by_one(service, some[300:], without=["guest5"])
        assert last.result(60.0)[0].status == "applied"
        assert future.result(60.0).names("guest5")
        one_by_one(reference, some, without=["guest5"])
        assert_same(service, reference)


def test_a_prediction_of_a_model_that_was_replaced_is_made_again(tmp_path):
    some = requests(90, 4)
    asked = PredictRequest(id="late", task="guest1", x={"f1": 1.0})
    with opened(tmp_path / "a", model, KEPT) as service:
        one_by_one(service, some)
        old = service.served
        _, pending = old.respond([asked])
        assert service.forget("guest2", exact=True).result(60.0).removed["events"]
        service.keep(pending, old).result(60.0)
        _, expected = service.served.respond([asked])
        found = service.call_in_writer(lambda _: service.store.pending(["late"])).result()
        assert found["late"] == expected[0] != pending[0]


def test_what_cannot_be_forgotten_exactly(tmp_path):
    some = requests(60, 5)
    with opened(tmp_path / "a", model) as service:
        one_by_one(service, some)
        with pytest.raises(RequestError, match="--keep-log"):
            service.forget("guest1", exact=True).result(60.0)
        service.checkpoint().result(60.0)
    with opened(tmp_path / "a", settings=KEPT) as service:
        with pytest.raises(RequestError, match="exact=true"):
            service.forget("guest1").result(60.0)
        before = content(service)
        with pytest.raises(RequestError, match="the log begins with") as refused:
            service.forget("guest1", exact=True).result(60.0)
        assert refused.value.status == 409
        assert content(service) == before
        service.learn([Lesson(y="yes", task="new", x={"f1": 1.0})]).result(60.0)
        assert service.forget("new", exact=True).result(60.0).base_events > 0
        with pytest.raises(RequestError, match="no task 'nobody' is known"):
            service.forget("nobody", exact=True).result(60.0)
    with opened(tmp_path / "a") as service:
        assert service.store.keeps_log, "as before"
    with opened(tmp_path / "a", settings=Settings(keep_log=False)) as service:
        service.learn([Lesson(y="yes", task="new", x={"f1": 1.0})]).result(60.0)
        service.checkpoint().result(60.0)
        assert len(service.call_in_writer(checkpoints(service)).result()) == 1
        assert service.call_in_writer(lambda _: service.store.changes_after(0)).result() == []


def test_a_label_policy_cannot_be_replayed(tmp_path):
    with opened(tmp_path, model, Settings(keep_log=True, budget=0.5)) as service:
        service.learn([Lesson(y="yes", task="ann", x={"f1": 1.0})]).result(60.0)
        with pytest.raises(RequestError, match="label policy"):
            service.forget("ann", exact=True).result(60.0)


def test_a_person_of_whom_only_predictions_wait_can_be_forgotten(tmp_path):
    for exact in (False, True):
        folder = tmp_path / str(exact)
        with opened(folder, model, Settings(keep_log=exact)) as service:
            asked = PredictRequest(id="w", task="zoe-who-waits", x={"f1": 1.0})
            service.keep(service.served.respond([asked])[1]).result(60.0)
            service.forget("zoe-who-waits", exact=exact).result(60.0)
            assert service.store.pending_events == 0
            for path in folder.rglob("*"):
                assert path.is_dir() or b"zoe" not in path.read_bytes(), path


def test_forgetting_waits_for_those_who_read_the_database(tmp_path):
    """A reader keeps the write-ahead log, which holds the name; learning and checkpoints go on."""
    with opened(tmp_path, model) as service:
        for task in ("ann", "guest3"):
            service.learn([Lesson(y="yes", task=task, x={"f1": 1.0})]).result(60.0)
        with closing(sqlite3.connect(tmp_path / DATABASE)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM change").fetchone() == (2,)
            forgotten = service.forget("guest3")
            service.learn([Lesson(y="no", task="ann", x={"f1": 2.0})]).result(60.0)
            service.checkpoint().result(60.0)
            assert b"guest3" in (tmp_path / f"{DATABASE}-wal").read_bytes()
            assert not forgotten.done()
            reader.execute("ROLLBACK")
        forgotten.result(60.0)
        for path in tmp_path.rglob("*"):
            assert path.is_dir() or b"guest3" not in path.read_bytes(), path


def test_a_service_that_stops_says_what_is_still_read(tmp_path):
    with opened(tmp_path, model) as service:
        service.learn([Lesson(y="yes", task="guest3", x={"f1": 1.0})]).result(60.0)
        reader = sqlite3.connect(tmp_path / DATABASE)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM change").fetchone()
        forgotten = service.forget("guest3")
    with closing(reader), pytest.raises(StoppedError, match="another process still reads"):
        forgotten.result(0.0)


@EVERY_TARGET
def test_no_name_of_a_person_is_left_in_any_file(tmp_path, target):
    """Of features, categories and classes that nobody else had, when forgetting is answered."""
    some = requests(130, 9, target)
    found = [("predict", "guest3", PredictRequest(id="last", task="guest3", x={"f1": 1.0}))]
    with opened(tmp_path / "a", TARGETS[target]) as service:
        one_by_one(service, some[:60])
        service.checkpoint().result(60.0)
        one_by_one(service, some[60:100] + found)
        assert any(b"guest3" in path.read_bytes() for path in (tmp_path / "a").glob("romco*"))
        service.checkpoint().result(60.0)
        assert any(b"of guest3" in path.read_bytes() for path in (tmp_path / "a").glob("model*"))
        service.forget("guest3").result(60.0)
        for path in (tmp_path / "a").rglob("*"):
            assert path.is_dir() or b"guest3" not in path.read_bytes(), path
            assert path.is_dir() or path.suffix != ".romco" or b"of guest" in path.read_bytes()
        shutil.copytree(tmp_path / "a", tmp_path / "b")
        one_by_one(service, some[100:], without=["guest3"])
        with opened(tmp_path / "b") as again:
            one_by_one(again, some[100:], without=["guest3"])
            assert_same(service, again)


def test_over_http(serving):
    some = requests(60, 6)
    with serving(settings=KEPT) as running:
        one_by_one(running.service, some)
        events = sum(kind == "learn" and person == "guest1" for kind, person, _ in some)
        running.client.predict({"id": "waits", "task": "guest1", "x": {"f1": 1.0}})
        stored = running.client.stored("guest1")
        assert len(stored["log"]) == events
        assert [sorted(row) for row in stored["log"]] == [["id", "offset", "x", "y"]] * events
        assert stored["pending"][-1] == {"id": "waits", "x": {"f1": 1.0}, "offset": None}
        with pytest.raises(ServiceError, match="409"):
            running.client.forget("guest1")
        first = running.client.forget("guest1", exact=True)
        assert first["certificate"]["removed"]["events"] == events
        again = running.client.forget("guest1", exact=True)
        assert again == first, "who lost the answer asks again"
        assert running.client.learn({"task": "guest2", "x": {"f1": 1.0}, "y": "yes"})[
            "sequence"
        ] == (first["sequence"] + 1)


def test_a_download_that_began_before_is_not_shared_with_later_ones(serving, tmp_path):
    some = requests(60, 7)
    with serving(settings=KEPT) as running:
        one_by_one(running.service, some)
        running.client.model(tmp_path / "before.romco")
        running.client.forget("guest1", exact=True)
        running.client.model(tmp_path / "after.romco")
        assert b"guest1" in (tmp_path / "before.romco").read_bytes()
        assert b'"guest1"' not in (tmp_path / "after.romco").read_bytes()


def test_it_goes_on_after_a_crash(tmp_path, monkeypatch):
    """Each copy is the folder as a kill would leave it at a moment of the replay."""
    monkeypatch.setattr(forgetting, "STEP_SECONDS", 0.0)  # one change at a time
    some = requests(120, 8)
    settings = Settings("none", keep_log=True, checkpoint_events=20)
    with opened(tmp_path / "a", model, settings) as service:
        one_by_one(service, some)
        copies = []

        def advance():
            wait = original()
            if wait is not None and next(numbers) % 13 == 0:
                copies.append(tmp_path / f"crash{len(copies)}")
                # A file that another thread writes may get its name meanwhile.
                shutil.copytree(service.store.folder, copies[-1], ignore=PARTIAL)
            return wait

        original, numbers = service.exact.advance, count()
        monkeypatch.setattr(service.exact, "advance", advance)
        service.forget("guest3", exact=True).result(60.0)
        assert len(copies) > 5
        for folder in copies:
            with opened(folder, settings=settings) as again:
                until_forgotten(again)
                assert_same(service, again)


def until_forgotten(service):
    """Wait until the replay that a start goes on with is over."""
    from tests.server.test_sources import until

    query = "SELECT count(*) FROM forgetting"
    until(lambda: not service.call_in_writer(lambda _: service.store.value(query)).result(60.0))
    assert not (service.store.folder / "next").exists()


def test_short_steps_do_not_read_the_log_again(tmp_path, monkeypatch):
    with opened(tmp_path / "a", model, KEPT) as service:
        one_by_one(service, requests(120, 1))
    monkeypatch.setattr(forgetting, "STEP_SECONDS", 0.0)
    decoded, decode = [], Store.decode_change
    monkeypatch.setattr(
        Store, "decode_change", staticmethod(lambda body: decoded.append(body) or decode(body))
    )
    new = tmp_path / "new"
    with Store(tmp_path / "a", KEPT) as store, forgetting.Replay(store, new, ["guest3"]) as replay:
        for _ in replay.open():
            pass
        while replay.advance():
            pass
    assert len(decoded) < 4 * len(set(decoded))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_people_one_after_the_other(tmp_path, seed):
    target = [*TARGETS][seed % len(TARGETS)]
    some, gone = requests(100, seed, target), set()
    with opened(tmp_path / "a", TARGETS[target], KEPT) as service:
        one_by_one(service, some)
        people = list(dict.fromkeys(person for kind, person, _ in some if kind == "learn"))
        for number, person in enumerate(Random(seed).sample(people, 10)):
            service.forget(person, exact=True).result(60.0)
            gone.add(person)
            with opened(tmp_path / f"b{number}", TARGETS[target], KEPT) as reference:
                one_by_one(reference, some, without=gone)
                assert_same(service, reference)
