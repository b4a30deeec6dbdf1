from __future__ import annotations

import errno
import math
import os
import shutil
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import romco
from romco.model import Hashed, Model
from romco.server.answers import Refused, predict
from romco.server.changes import Event, Learn, Prediction, Waiting, decode, encode
from romco.server.checkpoints import Manifest, restore
from romco.server.drafts import Lesson
from romco.server.frames import Damaged
from romco.server.journals import Full
from romco.server.live import Live
from romco.server.pending import Pending
from romco.server.running import Running
from romco.server.settings import Limits, Settings
from romco.server.stores import Store, _budget
from romco.server.writers import Stopped
from tests.server.same import assert_same_bits
from tests.server.streams import learned, lessons, model

STREAM = lessons(60)


def copied(store: Store, to: Path) -> Path:
    """The folder as a crash would leave it now."""
    shutil.copytree(store.folder, to)
    return to


def wait(store: Store, lesson: Lesson, since: float | None = None) -> None:
    (made,) = predict(store.live.model, [lesson.x], [lesson.task])
    time_ = time.time() if since is None else since
    store.live.pending.put([Waiting(lesson.id, time_, lesson.task, lesson.x, made)])


@pytest.mark.parametrize("durability", ["durable", "logged"])
def test_a_crash_loses_nothing(tmp_path, durability):
    with Store(tmp_path / "a", model, Settings(durability=durability)) as store:
        store.writer.learn(STREAM[:25]).result()
        store.writer.checkpoint().result()
        store.writer.learn(STREAM[25:]).result()
        crashed = copied(store, tmp_path / "b")
        running = store.live.running.to_bytes()
    with Store(crashed, model) as again:
        assert again.live.sequence == 60
        assert_same_bits(again.live.model, learned(STREAM))
        assert again.live.running.to_bytes() == running
        again_learned = again.writer.learn(STREAM[20:30]).result()
        assert [o.status for o in again_learned] == ["duplicate"] * 10
        assert [o.sequence for o in again_learned] == list(range(21, 31))
        assert again.live.model.events == 60


def test_without_durability_a_clean_stop_still_loses_nothing(tmp_path):
    with Store(tmp_path, model, Settings(durability="none")) as store:
        store.writer.learn(STREAM).result()
    with Store(tmp_path, model) as again:
        assert_same_bits(again.live.model, learned(STREAM))


def test_an_answer_comes_later_even_after_a_crash(tmp_path):
    lesson = STREAM[0]
    with Store(tmp_path / "a", model) as store:
        wait(store, lesson)
        crashed = copied(store, tmp_path / "b")
    with Store(crashed, model) as again:
        late = Lesson(y=lesson.y, id=lesson.id)
        assert again.writer.learn([late]).result()[0].status == "applied"
        assert again.writer.learn([late]).result()[0].status == "duplicate"
        assert len(again.live.pending) == 0
        assert_same_bits(again.live.model, learned([lesson]))


def test_an_answer_that_comes_too_late_is_expired(tmp_path):
    with Store(tmp_path, model, Settings(pending_seconds=10.0)) as store:
        wait(store, STREAM[0], since=time.time() - 11.0)
        late = Lesson(y="yes", id=STREAM[0].id)
        assert store.writer.learn([late]).result()[0].status == "expired"
        assert store.live.model.events == 0
        assert store.writer.learn([STREAM[0]]).result()[0].status == "applied"


def test_the_oldest_are_dropped_first_and_counted(tmp_path):
    with Store(tmp_path, model, Settings(pending_events=3)) as store:
        for lesson in STREAM[:5]:
            wait(store, lesson)
        answers = [Lesson(y=lesson.y, id=lesson.id) for lesson in STREAM[:5]]
        statuses = [o.status for o in store.writer.learn(answers).result()]
        assert statuses == ["expired", "expired", "applied", "applied", "applied"]
        assert store.live.pending.dropped == 2


def test_the_error_is_that_of_the_prediction_made_then(tmp_path):
    lesson = STREAM[0]
    with Store(tmp_path, model) as store:
        wait(store, lesson)
        before = predict(store.live.model, [lesson.x], [lesson.task])[0]
        store.writer.learn([Lesson(lesson.y, f"o{k}", lesson.task, lesson.x) for k in range(9)])
        store.writer.look(lambda live: None).result()
        counted = store.live.running.loss
        assert predict(store.live.model, [lesson.x], [lesson.task])[0] != before
        store.writer.learn([Lesson(y=lesson.y, id=lesson.id)]).result()
        of_label = before.probability if lesson.y == "yes" else 1.0 - before.probability
        assert store.live.running.loss - counted == pytest.approx(-math.log(of_label))


def test_a_bad_event_is_named_and_nothing_of_its_batch_is_learned(tmp_path):
    bad = [
        (Lesson(y="yes", task="t", x=[1.0, 2.0]), "mapping|dict|name"),
        (Lesson(y="maybe", task="t", x={"a": 1.0}), "third label"),
        (Lesson(y="yes", task="t"), "either id and y"),
        (Lesson(y="yes", x={"a": 1.0}, id="q"), "either id and y"),
    ]
    with Store(tmp_path, model) as store:
        store.writer.learn(STREAM[:5]).result()
        for lesson, why in bad:
            with pytest.raises(Refused, match=why) as caught:
                store.writer.learn([STREAM[5], STREAM[6], lesson, STREAM[7]]).result()
            assert caught.value.index == 2
        assert store.live.sequence == 5
        store.writer.learn(STREAM[5:8]).result()
        assert_same_bits(store.live.model, learned(STREAM[:8]))


def test_two_requests_of_one_group_cannot_bring_three_labels(tmp_path):
    settings = Settings(group_ms=200.0)
    with Store(tmp_path, lambda: Model("romco-auto"), settings) as store:
        some = [Lesson(y=y, task="t", x={"a": 1.0}) for y in ("red", "green", "blue")]
        first, second, third = (store.writer.learn([lesson]) for lesson in some)
        assert first.result()[0].sequence == 1
        assert second.result()[0].sequence == 2
        with pytest.raises(Refused, match="third label"):
            third.result()
        assert store.live.sequence == 2


def test_an_id_twice_in_a_group_is_learned_once(tmp_path):
    with Store(tmp_path, model, Settings(group_ms=200.0)) as store:
        one, two = store.writer.learn([STREAM[0], STREAM[0]]), store.writer.learn([STREAM[0]])
        assert [o.status for o in one.result()] == ["applied", "duplicate"]
        assert two.result() == [("duplicate", 1)]
        assert store.live.model.events == 1


def test_forgetting_is_durable_and_leaves_no_trace_after_a_checkpoint(tmp_path):
    secret = Lesson(y="yes", id="id-of-zoe", task="zoe", x={"zoes feature": 1.0})
    with Store(tmp_path / "a", hashed, Settings()) as store:
        store.writer.learn([*STREAM[:5], secret]).result()
        wait(store, Lesson(y="yes", id="zoe waits", task="zoe", x={"zoes feature": 1.0}))
        (outcome,) = store.writer.forget("zoe").result()
        assert outcome.sequence == 7
        assert "zoe" not in store.live.model.tasks
        crashed = copied(store, tmp_path / "b")
    with Store(crashed, hashed) as again:
        assert "zoe" not in again.live.model.tasks
        assert len(again.live.pending) == 0
        again.writer.checkpoint().result()
        for path in crashed.rglob("*"):
            assert path.is_dir() or b"zoe" not in path.read_bytes(), path
        with pytest.raises(KeyError):
            again.writer.forget("zoe").result()


def hashed() -> Model:
    return Model("romco-auto", Hashed(64), classes=("no", "yes"))


def test_what_a_checkpoint_holds_is_removed_from_the_log(tmp_path):
    with Store(tmp_path, model, Settings(segment_bytes=500, group_events=1)) as store:
        for lesson in STREAM:
            store.writer.learn([lesson])
        store.writer.look(lambda live: None).result()
        assert len(list(tmp_path.glob("log-*"))) > 5
        store.writer.checkpoint().result()
        assert len(list(tmp_path.glob("log-*"))) == 1
        assert len(list(tmp_path.glob("checkpoint-*"))) == 1
        assert len(list(tmp_path.glob("pending-*"))) == 1


@pytest.mark.parametrize("name", ["model.romco", "seen", "running", "pending", "manifest"])
def test_a_damaged_checkpoint_stops_the_start(tmp_path, name):
    with Store(tmp_path, model) as store:
        store.writer.learn(STREAM).result()
        wait(store, Lesson(y="yes", id="w", task="t", x={"a": 1.0}))
    (path,) = tmp_path.glob("checkpoint-*")
    data = bytearray((path / name).read_bytes())
    data[len(data) // 2] ^= 255
    (path / name).write_bytes(bytes(data))
    with pytest.raises(Damaged, match="checkpoint"):
        Store(tmp_path, model)


def test_a_folder_serves_one_at_a_time(tmp_path):
    with Store(tmp_path, model), pytest.raises(ValueError, match="in use"):
        Store(tmp_path, model)
    Store(tmp_path, model).close()


def test_no_room_refuses_learning_and_loses_nothing(tmp_path, monkeypatch):
    with Store(tmp_path / "a", model) as store:
        store.writer.learn(STREAM[:10]).result()
        real = os.write

        def full(file, data):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(Full):
            store.writer.learn(STREAM[10:20]).result()
        assert predict(store.live.model, [STREAM[0].x], ["user1"])
        assert store.live.sequence == 10
        monkeypatch.setattr(os, "write", real)
        assert store.writer.learn(STREAM[10:]).result()[0] == ("applied", 11)
        crashed = copied(store, tmp_path / "b")
    with Store(crashed, model) as again:
        assert_same_bits(again.live.model, learned(STREAM))


def test_a_log_that_cannot_be_synced_stops_learning_until_a_restart(tmp_path, monkeypatch):
    store = Store(tmp_path, model)
    store.writer.learn(STREAM[:10]).result()
    real = os.fdatasync

    def broken(file):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(OSError, match="synced"):
        store.writer.learn(STREAM[10:20]).result()
    monkeypatch.setattr(os, "fdatasync", real)
    with pytest.raises(Stopped):
        store.writer.learn(STREAM[10:20]).result()
    store.close()
    with Store(tmp_path, model) as again:  # whether the ten are there or not, each is once
        again.writer.learn(STREAM[10:]).result()
        assert_same_bits(again.live.model, learned(STREAM))


def test_limits_of_the_model_hold(tmp_path):
    settings = Settings(limits=Limits(all_tasks=2, all_features=3))
    with Store(tmp_path, model, settings) as store:
        some = [Lesson(y="yes", task=t, x={"a": 1.0}) for t in "ab"]
        store.writer.learn(some).result()
        with pytest.raises(Refused, match="room for 2 tasks"):
            store.writer.learn([Lesson(y="yes", task="c", x={"a": 1.0})]).result()
        many = {f"g{k}": 1.0 for k in range(4)}
        with pytest.raises(Refused, match="room for 3 features"):
            store.writer.learn([Lesson(y="yes", task="a", x=many)]).result()
        assert store.live.sequence == 2


def test_only_so_many_ids_are_remembered(tmp_path):
    with Store(tmp_path, model, Settings(ids=10)) as store:
        store.writer.learn(STREAM[:20]).result()
        assert store.writer.learn([STREAM[19]]).result()[0].status == "duplicate"
        assert store.writer.learn([STREAM[5]]).result()[0].status == "applied"
    with Store(tmp_path, model, Settings(ids=10)) as again:
        assert again.writer.learn([STREAM[5]]).result()[0].status == "duplicate"


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(
    x=st.dictionaries(st.text(max_size=5), numbers | st.text(max_size=5) | st.booleans())
    | st.lists(numbers),
    y=st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1) | numbers | st.booleans(),
    task=st.text(max_size=5) | st.integers(-(2**63), 2**63 - 1),
)
def test_the_log_gives_back_every_bit(x, y, task):
    event = Event("id", task, x, y)
    ((back,),) = (change.events for change in decode(encode([Learn([event])])))
    assert repr((back.task, back.x, back.y)) == repr((task, x, y))


def test_a_duplicate_of_what_could_not_be_learned_is_not_called_learned(tmp_path, monkeypatch):
    """Both are in one group: the first looks good until its turn comes."""
    from romco.server import answers

    real = answers.learn

    def fails(model, events):
        if events[0].id == STREAM[0].id and len(failed) < 2:  # together, then alone
            failed.append(True)
            raise ValueError("cannot be learned after all")
        real(model, events)

    failed = []
    monkeypatch.setattr(answers, "learn", fails)
    with Store(tmp_path, model, Settings(group_ms=300.0)) as store:
        first, second = store.writer.learn([STREAM[0]]), store.writer.learn([STREAM[0]])
        other = store.writer.learn([STREAM[1]])
        for future in (first, second):
            with pytest.raises(Refused, match="learned"):
                future.result()
        assert other.result()[0].status == "applied"
        assert store.writer.learn([STREAM[0]]).result()[0].status == "applied"
        assert store.live.model.events == 2


def test_an_id_that_was_forgotten_and_learned_again_is_remembered_once(tmp_path):
    a, b, *others = STREAM
    with Store(tmp_path / "a", model, Settings(ids=1)) as store:
        for lesson in (a, b, a):  # of one id it remembers none but the last
            assert store.writer.learn([lesson]).result()[0].status == "applied"
        copied(store, tmp_path / "b")
    with Store(tmp_path / "b", model, Settings(ids=3)) as store:
        for lesson in others:
            assert store.writer.learn([lesson]).result()[0].status == "applied"
        assert len(store.live.seen) == 3
        assert store.writer.learn([others[-1]]).result()[0].status == "duplicate"


def test_a_copy_of_a_checkpoint_is_no_checkpoint_and_is_left_alone(tmp_path):
    with Store(tmp_path, model) as store:
        store.writer.learn(STREAM[:5]).result()
    (last,) = tmp_path.glob("checkpoint-*")
    shutil.copytree(last, tmp_path / "checkpoint-backup")
    for events in (5, 10):
        with Store(tmp_path, model) as store:
            assert store.live.sequence == events
            store.writer.learn(STREAM[events : events + 5]).result()
    assert (tmp_path / "checkpoint-backup" / "manifest").exists()


@pytest.mark.parametrize("act", ["snapshot", "write"])
def test_whatever_stops_a_checkpoint_does_not_stop_the_writer(tmp_path, monkeypatch, act):
    def fails(*given):
        raise MemoryError

    with Store(tmp_path, model) as store:
        with monkeypatch.context() as patch:
            patch.setattr(f"romco.server.checkpoints.{act}", fails)
            with pytest.raises(MemoryError):
                store.writer.checkpoint().result(timeout=60)
        assert store.writer.learn(STREAM[:1]).result(timeout=60)[0].status == "applied"
        assert store.writer.checkpoint().result(timeout=60) == 1
        assert store.writer.trouble is None


@pytest.mark.parametrize("budget", [{}, {"policy": "random"}, "other", "memory"])
def test_a_budget_that_cannot_be_used_is_told(tmp_path, budget):
    with Store(tmp_path, model, Settings(budget=0.5)) as store:
        store.writer.learn(STREAM[:5]).result()
        known = store.live.budget.state()
    if budget == "other":
        budget = romco.labels.Random(0.5, seed=1).state()
    elif budget == "memory":
        budget = {**known, "memory": {**known["memory"], "labels": [[math.inf, 1]]}}
    with pytest.raises(Damaged, match="labels"):
        _budget(0.5, budget)
    assert _budget(0.5, known).state() == known
    assert _budget(0.25, known).share == 0.25
    assert _budget(None, known) is None


@pytest.mark.parametrize("part", ["count", "chance", "positive", "curve", "width"])
def test_a_score_that_nobody_kept_is_damage(part):
    running = Running()
    for _ in range(60):
        running.add("ann", Prediction("yes", 0.8, 1.4), wrong=0.0, positive=True)
    assert Running.from_bytes(running.to_bytes()) == running
    if part == "curve":
        running.whole.curve.wrong *= 2
    elif part == "width":
        running.tasks["ann"].curve.width = 0
    else:
        getattr(running, part).pop()
    live = Live(model(), Pending(Path()))
    parts = {"seen": b"", "running": running.to_bytes(), "pending": b""}
    with pytest.raises(Damaged, match="a checkpoint cannot be used"):
        restore(live, Manifest(1, 0, 1, {}, {}), parts)
