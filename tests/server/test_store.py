from __future__ import annotations

import math
import shutil
import sqlite3
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import romco
from romco.forgetting import hash_file
from romco.labels import Budget
from romco.model import Hashed, Model
from romco.server.protocol import LearnRequest as Lesson
from romco.server.protocol import (
    LearnResponse,
    PredictRequest,
    RequestError,
    Settings,
    StoppedError,
    StoreError,
    encode,
)
from romco.server.state import ServedModel, encode_scores
from romco.server.store import DamagedError, Event, Learn, decode_change
from romco.server.writer import Service
from tests.server.conftest import copied, held, opened
from tests.server.same import assert_same_bits
from tests.server.streams import learned, lessons, model, predicted

STREAM = lessons(60)


def keep(service: Service, lesson: Lesson) -> None:
    service.keep([predicted(service, lesson)]).result()


def later(service: Service, seconds: float) -> None:
    """Let time pass for pending events."""
    service.store._clock_start += seconds


@pytest.mark.parametrize("durability", ["durable", "logged"])
def test_a_crash_loses_nothing(tmp_path, durability):
    with opened(tmp_path / "a", model, Settings(durability=durability)) as service:
        service.learn(STREAM[:25]).result()
        service.checkpoint().result()
        service.learn(STREAM[25:]).result()
        crashed = copied(service, tmp_path / "b")
        running = encode_scores(service.served.scores)
    with opened(crashed, model) as again:
        assert again.served.sequence == 60
        assert_same_bits(again.served.model, learned(STREAM))
        assert encode_scores(again.served.scores) == running
        again_learned = again.learn(STREAM[20:30]).result()
        assert [o.status for o in again_learned] == ["duplicate"] * 10
        assert [o.sequence for o in again_learned] == list(range(21, 31))
        assert again.served.model.events == 60


def test_without_durability_a_clean_stop_still_loses_nothing(tmp_path):
    with opened(tmp_path, model, Settings(durability="none")) as service:
        service.learn(STREAM).result()
    with opened(tmp_path, model) as again:
        assert_same_bits(again.served.model, learned(STREAM))


def test_an_answer_comes_later_even_after_a_crash(tmp_path):
    lesson = STREAM[0]
    with opened(tmp_path / "a", model) as service:
        keep(service, lesson)
        crashed = copied(service, tmp_path / "b")
    with opened(crashed, model) as again:
        late = Lesson(y=lesson.y, id=lesson.id)
        assert again.learn([late]).result()[0].status == "applied"
        assert again.learn([late]).result()[0].status == "duplicate"
        assert again.store.pending_events == 0
        assert_same_bits(again.served.model, learned([lesson]))


def test_an_answer_that_comes_too_late_is_expired(tmp_path):
    with opened(tmp_path, model, Settings(pending_seconds=10.0)) as service:
        keep(service, STREAM[0])
        later(service, 11.0)
        late = Lesson(y="yes", id=STREAM[0].id)
        assert service.learn([late]).result()[0].status == "expired"
        assert service.served.model.events == 0
        assert service.learn([STREAM[0]]).result()[0].status == "applied"


def test_the_oldest_are_dropped_first_and_counted(tmp_path):
    with opened(tmp_path, model, Settings(pending_events=3)) as service:
        for lesson in STREAM[:5]:
            keep(service, lesson)
        answers = [Lesson(y=lesson.y, id=lesson.id) for lesson in STREAM[:5]]
        statuses = [o.status for o in service.learn(answers).result()]
        assert statuses == ["expired", "expired", "applied", "applied", "applied"]
        assert service.counts["dropped"] == 2


def test_the_error_is_that_of_the_prediction_made_then(tmp_path):
    lesson = STREAM[0]
    with opened(tmp_path, model) as service:
        keep(service, lesson)
        before = predicted(service, lesson).prediction
        service.learn([Lesson(lesson.y, f"o{k}", lesson.task, lesson.x) for k in range(9)])
        service.call_in_writer(lambda live: None).result()
        score = service.served.scores.score
        counted = score.log_loss * score.events
        assert predicted(service, lesson).prediction != before
        service.learn([Lesson(y=lesson.y, id=lesson.id)]).result()
        of_label = before.probability if lesson.y == "yes" else 1.0 - before.probability
        gain = score.log_loss * score.events - counted
        assert gain == pytest.approx(-math.log(of_label))


def test_a_bad_event_is_named_and_nothing_of_its_batch_is_learned(tmp_path):
    bad = [
        (Lesson(y="yes", task="t", x=[1.0, 2.0]), "mapping|dict|name"),
        (Lesson(y="maybe", task="t", x={"a": 1.0}), "third label"),
        (Lesson(y="yes", task="t"), "either id and y"),
        (Lesson(y="yes", x={"a": 1.0}, id="q"), "either id and y"),
    ]
    with opened(tmp_path, model) as service:
        service.learn(STREAM[:5]).result()
        for lesson, why in bad:
            with pytest.raises(RequestError, match=why) as caught:
                service.learn([STREAM[5], STREAM[6], lesson, STREAM[7]]).result()
            assert caught.value.index == 2
        assert service.served.sequence == 5
        service.learn(STREAM[5:8]).result()
        assert_same_bits(service.served.model, learned(STREAM[:8]))


def test_two_requests_of_one_group_cannot_bring_three_labels(tmp_path):
    with opened(tmp_path, lambda: Model("romco-auto")) as service:
        some = [Lesson(y=y, task="t", x={"a": 1.0}) for y in ("red", "green", "blue")]
        with held(service):
            first, second, third = (service.learn([lesson]) for lesson in some)
        assert first.result()[0].sequence == 1
        assert second.result()[0].sequence == 2
        with pytest.raises(RequestError, match="third label"):
            third.result()
        assert service.served.sequence == 2


def test_an_id_twice_in_a_group_is_learned_once(tmp_path):
    with opened(tmp_path, model) as service:
        with held(service):
            one = service.learn([STREAM[0], STREAM[0]])
            two = service.learn([STREAM[0]])
        assert [o.status for o in one.result()] == ["applied", "duplicate"]
        assert two.result() == [LearnResponse("duplicate", 1)]
        assert service.served.model.events == 1


def test_forgetting_is_durable_and_leaves_no_trace_after_a_checkpoint(tmp_path):
    secret = Lesson(y="yes", id="id-of-zoe", task="zoe", x={"zoes feature": 1.0})
    with opened(tmp_path / "a", hashed, Settings()) as service:
        service.learn([*STREAM[:5], secret]).result()
        keep(service, Lesson(y="yes", id="zoe waits", task="zoe", x={"zoes feature": 1.0}))
        assert service.forget("zoe").result() == 7
        assert "zoe" not in service.served.model.tasks
        crashed = copied(service, tmp_path / "b")
    with opened(crashed, hashed) as again:
        assert "zoe" not in again.served.model.tasks
        assert again.store.pending_events == 0
        again.checkpoint().result()
        for path in crashed.rglob("*"):
            assert path.is_dir() or b"zoe" not in path.read_bytes(), path
        with pytest.raises(RequestError, match="no task 'zoe' is known"):
            again.forget("zoe").result()


def hashed() -> Model:
    return Model("romco-auto", Hashed(64), classes=("no", "yes"))


def test_what_a_checkpoint_holds_is_removed_from_the_log(tmp_path):
    with opened(tmp_path, model, Settings(group_events=1)) as service:
        for lesson in STREAM * 5:
            service.learn([msgspec.structs.replace(lesson, id=None)])
        assert service.call_in_writer(lambda _: rows(service, "change")).result() == 300
        assert service.checkpoint().result() == 300
        assert service.call_in_writer(lambda _: rows(service, "change")).result() == 0
        assert len(list(tmp_path.glob("model-*"))) == 1


def rows(service, table):
    return service.store._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]


def test_a_damaged_model_file_stops_the_start(tmp_path):
    with opened(tmp_path, model) as service:
        service.learn(STREAM).result()
    (path,) = tmp_path.glob("model-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(bytes(data))
    for _ in range(2):
        with pytest.raises(DamagedError, match="model-"), opened(tmp_path, model):
            pass


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE change SET body = replace(body, 'user', 'uset') WHERE sequence = 3",
        "UPDATE change SET crc32 = 1 WHERE sequence = 2",
        "UPDATE change SET count = 2 WHERE sequence = 5",
        "DELETE FROM change WHERE sequence = 1",
        "DELETE FROM change WHERE sequence = 4",
        "DELETE FROM checkpoint",
        "UPDATE checkpoint SET scores = '{'",
        "UPDATE checkpoint SET scores = x'7b'",
        "UPDATE checkpoint SET file = x'6d'",
        "PRAGMA user_version = 99",
    ],
)
def test_a_damaged_log_stops_the_start_and_says_where(tmp_path, damage):
    with opened(tmp_path / "a", model) as service:
        for lesson in STREAM[:6]:
            service.learn([lesson]).result()
        crashed = copied(service, tmp_path / "b")
    database = sqlite3.connect(crashed / "romco.sqlite", isolation_level=None)
    database.execute(damage)
    database.close()
    before = (crashed / "romco.sqlite").read_bytes()
    with pytest.raises(DamagedError, match=r"missing|damaged|checkpoint|format"), opened(crashed):
        pass
    assert (crashed / "romco.sqlite").read_bytes() == before


def test_what_is_no_database_stops_the_start(tmp_path):
    (tmp_path / "romco.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(DamagedError, match=r"romco\.sqlite"), opened(tmp_path):
        pass


def test_a_folder_serves_one_at_a_time(tmp_path):
    with opened(tmp_path), pytest.raises(ValueError, match="in use"):
        Service(tmp_path, model, Settings())
    with opened(tmp_path):
        pass


def test_no_room_refuses_learning_and_loses_nothing(tmp_path):
    def limit(pages):
        execute = service.store._db.execute
        service.call_in_writer(lambda _: execute(f"PRAGMA max_page_count={pages}")).result()

    with opened(tmp_path / "a", model) as service:
        service.learn(STREAM[:10]).result()
        limit(1)
        with pytest.raises(StoreError, match="no room"):
            service.learn(lessons(500, seed=9)).result()
        assert predicted(service, STREAM[0])
        assert service.served.sequence == 10
        limit(10**6)
        assert service.learn(STREAM[10:]).result()[0] == LearnResponse("applied", 11)
        crashed = copied(service, tmp_path / "b")
    with opened(crashed, model) as again:
        assert_same_bits(again.served.model, learned(STREAM))


def test_a_fault_of_ours_stops_learning_and_leaves_nobody_waiting(tmp_path, monkeypatch):
    def fail():
        raise ZeroDivisionError

    with opened(tmp_path) as service:
        service.learn(STREAM[:10]).result(60.0)
        monkeypatch.setattr(service.store, "expire_pending", fail)
        while not service.broken:
            time.sleep(0.01)
        for request in (lambda: service.learn(STREAM[10:]), service.checkpoint):
            with pytest.raises(StoppedError):
                request().result(60.0)
        assert service.call_in_writer(lambda served: served.sequence).result(60.0) == 10


def test_nothing_of_a_forgotten_task_is_left_when_it_is_answered(tmp_path):
    """Of a checkpoint that was written twice the older file stayed until the one after the next."""
    secret = "zoe-of-a-long-name"
    with opened(tmp_path) as service:
        service.learn(STREAM[:10]).result(60.0)
        service.learn([Lesson(y="yes", task=secret, x={"a": 1.0}, id="z")]).result(60.0)
        service.keep([predicted(service, Lesson(y="", task=secret, x={"a": 1.0}, id="y"))]).result()
        for _ in range(2):
            service.checkpoint().result(60.0)
        assert service.forget(secret).result(60.0) == 12
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path.name for path in files if secret.encode() in path.read_bytes()] == []
        assert len([path for path in files if path.name.startswith("model-")]) == 1
        service.learn(STREAM[10:]).result(60.0)
    with opened(tmp_path) as again:
        assert again.served.sequence == 62
        assert secret not in again.served.model.tasks


def test_what_a_kill_left_of_model_files_goes_at_the_start(tmp_path, monkeypatch):
    folder, left = tmp_path / "data", tmp_path / "left"

    def copy_and_write(state, path, kind):
        with path.with_name(f".{path.name}.{'0' * 16}.partial").open("wb") as file:
            file.write(b"user1")
        shutil.copytree(folder, left, dirs_exist_ok=True)  # as a kill would leave it now

    with opened(folder) as service:
        service.learn(STREAM).result()
        monkeypatch.setattr("romco.server.store.save_state", copy_and_write)
        service.store.save_model({}, 1)
        monkeypatch.undo()
    assert len(list(left.rglob("*.partial"))) == 1
    with opened(left):
        assert not list(left.rglob("*.partial"))
        assert not list(left.glob(".model-*"))


def test_a_start_can_be_interrupted(tmp_path):
    with opened(tmp_path / "a") as service:
        service.learn(STREAM).result(60.0)
        crashed = copied(service, tmp_path / "b")
    stopped = Service(crashed, model, Settings())
    stopped.interrupted = True
    assert not stopped.start().started
    assert stopped.close(20.0)
    with opened(crashed) as again:
        assert_same_bits(again.served.model, learned(STREAM))


def test_limits_of_the_model_hold(tmp_path):
    settings = Settings(model_tasks=2, model_features=3)
    with opened(tmp_path, model, settings) as service:
        some = [Lesson(y="yes", task=t, x={"a": 1.0}) for t in "ab"]
        service.learn(some).result()
        with pytest.raises(RequestError, match="room for 2 tasks"):
            service.learn([Lesson(y="yes", task="c", x={"a": 1.0})]).result()
        many = {f"g{k}": 1.0 for k in range(4)}
        with pytest.raises(RequestError, match="room for 3 features"):
            service.learn([Lesson(y="yes", task="a", x=many)]).result()
        assert service.served.sequence == 2


def test_only_so_many_ids_are_remembered(tmp_path):
    with opened(tmp_path, model, Settings(ids=10)) as service:
        service.learn(STREAM[:20]).result()
        assert service.learn([STREAM[19]]).result()[0].status == "duplicate"
        assert service.learn([STREAM[5]]).result()[0].status == "applied"
    with opened(tmp_path, model, Settings(ids=10)) as again:
        assert again.learn([STREAM[5]]).result()[0].status == "duplicate"


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    x=st.dictionaries(st.text(max_size=5), numbers | st.text(max_size=5) | st.booleans())
    | st.lists(numbers),
    y=st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1) | numbers | st.booleans(),
    task=st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1),
)
def test_the_log_gives_back_every_bit(x, y, task):
    event = Event("id", task, x, y)
    (back,) = decode_change(encode(Learn([event]))).events
    assert repr((back.task, back.x, back.y)) == repr((task, x, y))


def test_a_row_is_read_once_for_its_check_and_for_learning(tmp_path, monkeypatch):
    rows = [{"town": town, "age": age} for town in ("Rome", "Bonn") for age in (1.0, 2.0, 7.0)]
    labels = ["yes", "no", "yes", "no", "no", "yes"]

    def towns():
        made = Model("pa-unique", classes=("no", "yes"))
        made.learn(rows, labels, ["ann"] * 6)
        return made

    counted, real = [], ServedModel.encode_to_learn

    def counting(self, some):
        counted.extend(some)
        return real(self, some)

    monkeypatch.setattr(ServedModel, "encode_to_learn", counting)
    more = [*rows, {"town": "Oslo", "age": None}]
    with opened(tmp_path, towns) as service:
        with held(service):
            futures = [service.learn([Lesson("yes", task="bob", x=row)]) for row in more]
        assert [future.result()[0].status for future in futures] == ["applied"] * 7
        assert counted == more
        expected = towns()
        expected.learn(more, ["yes"] * 7, ["bob"] * 7)
        (told,), _ = service.served.respond([PredictRequest("bob", more[-1])])
        assert told.margin == expected.margins([more[-1]], ["bob"])[0]


def test_a_duplicate_of_what_could_not_be_learned_is_not_called_learned(tmp_path, monkeypatch):
    """Both are in one group: the first looks good until its turn comes."""
    real, failed = ServedModel._learn_events, []

    def fails(self, events, rows):
        if events[0].id == STREAM[0].id and len(failed) < 2:  # together, then alone
            failed.append(True)
            raise ValueError("cannot be learned after all")
        return real(self, events, rows)

    monkeypatch.setattr(ServedModel, "_learn_events", fails)
    with opened(tmp_path, model) as service:
        with held(service):
            first, second, other = (service.learn([STREAM[k]]) for k in (0, 0, 1))
        for future in (first, second):
            with pytest.raises(RequestError, match="learned"):
                future.result()
        assert other.result()[0].status == "applied"
        assert service.learn([STREAM[0]]).result()[0].status == "applied"
        assert service.served.model.events == 2


def test_an_id_that_was_forgotten_and_learned_again_is_remembered_once(tmp_path):
    a, b, *others = STREAM
    with opened(tmp_path / "a", model, Settings(ids=1)) as service:
        for lesson in (a, b, a):  # of one id it remembers none but the last
            assert service.learn([lesson]).result()[0].status == "applied"
        copied(service, tmp_path / "b")
    with opened(tmp_path / "b", model, Settings(ids=3)) as service:
        for lesson in others:
            assert service.learn([lesson]).result()[0].status == "applied"
        assert service.store.ids == 3
        assert service.learn([others[-1]]).result()[0].status == "duplicate"


@pytest.mark.parametrize("act", ["copy", "save_model"])
def test_whatever_stops_a_checkpoint_does_not_stop_the_writer(tmp_path, monkeypatch, act):
    def fails(*given):
        raise MemoryError

    with opened(tmp_path, model) as service:
        service.learn(STREAM[:1]).result(timeout=60)
        with monkeypatch.context() as patch:
            patch.setattr(service.served if act == "copy" else service.store, act, fails)
            with pytest.raises(MemoryError):
                service.checkpoint().result(timeout=60)
        assert service.unsaved
        assert service.learn(STREAM[1:2]).result(timeout=60)[0].status == "applied"
        assert service.checkpoint().result(timeout=60) == 2
        assert not service.unsaved


def test_a_contradicting_answer_is_said_to_differ(tmp_path):
    lesson = STREAM[0]
    with opened(tmp_path, model) as service:
        service.learn([lesson]).result()
        other = "no" if lesson.y == "yes" else "yes"
        for y, differs in ((lesson.y, False), (other, True)):
            (outcome,) = service.learn([Lesson(y=y, id=lesson.id)]).result()
            assert outcome == LearnResponse("duplicate", 1, differs)
        assert service.served.model.events == 1


def test_a_label_policy_is_that_of_the_model_and_kept_with_it(tmp_path):
    asked = [PredictRequest(task=one.task, x=one.x, id=one.id) for one in lessons(400)]
    with opened(tmp_path, lambda: Model(classes=("no", "yes"), labels=Budget(0.1))) as service:
        responses, _ = service.served.respond(asked)
        assert {one.ask for one in responses} == {True, False}
        spent = service.served.model.labels.spent
    with opened(tmp_path) as service:
        assert service.served.model.labels.spent == spent
    with opened(tmp_path, settings=Settings(budget=0.25)) as service:
        assert service.served.model.labels.share == 0.25


def test_another_model_file_beside_a_folder_is_refused(tmp_path):
    romco.save(learned(STREAM), tmp_path / "one.romco")
    romco.save(model(), tmp_path / "two.romco")
    one, two = (f"{name}.romco {hash_file(tmp_path / f'{name}.romco')}" for name in ("one", "two"))
    Service(tmp_path / "data", lambda: romco.load(tmp_path / "one.romco"), Settings(), one).close()
    Service(tmp_path / "data", model, Settings(), one).close()
    Service(tmp_path / "data", model, Settings()).close()
    with pytest.raises(ValueError, match=r"one\.romco.*two\.romco.*--data"):
        Service(tmp_path / "data", model, Settings(), two)


def test_a_clock_that_goes_back_loses_nothing(tmp_path, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    with opened(tmp_path, settings=Settings(pending_seconds=60.0)) as service:
        keep(service, STREAM[0])
        now -= 10_000.0
        keep(service, STREAM[1])
    with opened(tmp_path, settings=Settings(pending_seconds=60.0)) as service:
        keep(service, STREAM[2])
        now += 20_000.0
        answers = [Lesson(y=one.y, id=one.id) for one in STREAM[:3]]
        assert {one.status for one in service.learn(answers).result()} == {"applied"}


def test_a_long_request_is_learned_in_chunks_and_others_get_their_turn(tmp_path, monkeypatch):
    """Twenty new classes: a request that comes later is answered before it ends."""
    some = [Lesson(y=f"c{k}", id=f"c{k}", task="t", x={"a": float(k)}) for k in range(20)]
    with opened(tmp_path, lambda: Model(target="classes")) as service:
        with held(service):
            long = service.learn(some)
            short = service.learn([Lesson(y="c0", id="other", task="u", x={"a": 1.0})])
        (other,) = short.result(60.0)
        outcomes = long.result(60.0)
        assert [one.status for one in outcomes] == ["applied"] * 20
        assert outcomes[0].sequence < other.sequence < outcomes[-1].sequence
        assert service.served.model.events == 21


def test_a_long_request_with_a_bad_event_learns_nothing(tmp_path):
    some = [Lesson(y=f"c{k}", task="t", x={"a": float(k)}) for k in range(20)]
    some.append(Lesson(y="c1", task="t", x=[1.0]))
    with opened(tmp_path, lambda: Model(target="classes")) as service:
        with pytest.raises(RequestError) as caught:
            service.learn(some).result(60.0)
        assert (caught.value.index, service.served.model.events) == (20, 0)


TABLE = [
    {
        "user": "ann",
        "age": "7",
        "zip": "10115",
        "says": "hello world",
        "at": "2024-05-01",
        "y": "yes",
    },
    {"user": "bob", "age": "", "zip": "20095", "says": "good bye", "at": "2024-05-02", "y": "no"},
]


def test_cells_are_read_as_the_table_was_that_the_model_was_learned_from(tmp_path):
    kinds = {"age": "number", "zip": "category", "says": "text", "at": "day"}
    schema = romco.Schema(kinds, task="user", label="y", complete=True)
    begun = Model(classes=("no", "yes"), schema=schema)
    rows = [{name: row[name] for name in kinds} for row in TABLE]
    begun.learn(rows, [row["y"] for row in TABLE], [row["user"] for row in TABLE])
    romco.save(begun, tmp_path / "m.romco")
    with opened(tmp_path / "data", lambda: romco.load(tmp_path / "m.romco")) as service:
        asked = [PredictRequest(task, row) for task, row in zip(("ann", "bob"), rows, strict=True)]
        made, _ = service.served.respond(asked)
        assert [one.margin for one in made] == begun.margins(rows, ["ann", "bob"]).tolist()
        with pytest.raises(RequestError, match=r"no column 'agee'.*'age'"):
            service.learn([Lesson(y="no", task="ann", x={"agee": 3.0})]).result()
        strange = rows[0] | {"agee": "old", "zip": "99999", "says": "new words"}
        (told,), _ = service.served.respond([PredictRequest("ann", strange)])
        assert told.unknown == ["agee", "zip=99999"]
        assert service.served.explain(PredictRequest("ann", strange))["unknown"] == told.unknown
        (told,), _ = service.served.respond([PredictRequest("ann", rows[0])])
        assert told.unknown is None
        service.learn([Lesson(y="no", task="ann", x=rows[1])]).result()
    with opened(tmp_path / "data") as service:
        assert romco.load(next((tmp_path / "data").glob("model-*"))).schema.kinds == kinds
        begun.learn_one(rows[1], "no", "ann")
        (made,), _ = service.served.respond([PredictRequest("ann", rows[0])])
        assert made.margin == begun.margins(rows[:1], ["ann"])[0]


def test_the_answer_to_a_row_with_an_unknown_column_is_learned_without_it(tmp_path):
    schema = romco.Schema({"age": "number"}, task="user", label="y", complete=True)
    begun = Model(classes=("no", "yes"), schema=schema)
    begun.learn([{"age": 30.0}, {"age": 60.0}], ["yes", "no"], ["ann", "bob"])
    expected = Model.from_state(begun.state())
    expected.learn_one({"age": 40.0}, "no", "ann")
    with opened(tmp_path, lambda: begun) as service:
        x = {"age": 40.0, "agee": 3.0}
        (told,), waiting = service.served.respond([PredictRequest("ann", x, id="one")])
        assert told.unknown == ["agee"]
        service.keep(waiting).result(60.0)
        (outcome,) = service.learn([Lesson(y="no", id="one")]).result(60.0)
        assert outcome.status == "applied"
        (made,), _ = service.served.respond([PredictRequest("ann", {"age": 50.0})])
        assert made.margin == expected.margins([{"age": 50.0}], ["ann"])[0]


def test_texts_are_read_alike_live_and_in_a_replay(tmp_path):
    """Whatever comes first in a column, and however requests are divided."""
    cells = [{"a": 1.0, "b": "x"}, {"a": "two", "b": 3.0}, {"a": None, "b": True}, {"a": "1"}]
    some = [Lesson(y="yes" if k % 2 else "no", task="t", x=x) for k, x in enumerate(cells * 5)]
    with opened(tmp_path / "a") as service:
        for lesson in some:
            service.learn([lesson]).result()
        crashed, live = copied(service, tmp_path / "b"), service.served.model
        with opened(crashed) as again:
            assert_same_bits(again.served.model, live)
        assert again.served.model.schema is None
