"""Answers that come late: what was said of their events is kept, logged, and learned with."""

from __future__ import annotations

import shutil

import msgspec
import pytest

from romco.model import Model
from romco.server import changes, frames
from romco.server.applications import Application
from romco.server.changes import Event, Prediction
from romco.server.drafts import Lesson
from romco.server.stores import Store
from tests.server.same import assert_same_bits
from tests.server.streams import learned, model, turning, unsettled

STREAM = turning(120)
LATE = 30


def predict(app, some):
    body = [{"id": one.id, "task": one.task, "x": one.x} for one in some]
    app._predictions(msgspec.json.encode(body if len(body) > 1 else body[0]))


def answer(store, some):
    for outcome in store.writer.learn([Lesson(y=one.y, id=one.id) for one in some]).result():
        assert outcome.status == "applied"


def expected(some, size):
    """A model that keeps what it said by itself."""
    made = unsettled()
    for at in range(0, len(some) + LATE, size):
        now, late = some[at : at + size], some[max(0, at - LATE) : max(0, at - LATE + size)]
        if now:
            rows, tasks = [one.x for one in now], [one.task for one in now]
            made.predict(rows, tasks, id=[one.id for one in now])
        for one in late:
            made.answer(one.id, one.y)
    return made


def play(store, size, long, begin, end):
    app = Application(store)
    if long:
        app._shortcut.questions = None
        app._lane = app._open_lane()
    for at in range(begin, end, size):
        if now := STREAM[at : at + size]:
            predict(app, now)
        if late := STREAM[max(0, at - LATE) : max(0, at - LATE + size)]:
            answer(store, late)
        if at == 60:
            store.writer.checkpoint().result()


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("size", [1, 6])
def test_late_answers_are_learned_as_by_a_model_that_is_told_its_opinions(tmp_path, size, long):
    """By either way of predicting, one by one and many at a time, through crashes."""
    begin = 0
    for number, crash in enumerate((42, 96, len(STREAM) + LATE)):
        folder = tmp_path / str(number)
        with Store(folder, unsettled) as store:
            play(store, size, long, begin, crash)
            shutil.copytree(folder, tmp_path / str(number + 1))  # as a crash would leave it now
        begin = crash
    with Store(tmp_path / "3", unsettled) as store:
        assert_same_bits(store.live.model, expected(STREAM, size))


def test_the_model_differs_from_one_that_is_not_told(tmp_path):
    with Store(tmp_path, unsettled) as store:
        predict(Application(store), STREAM)
        answer(store, STREAM)
        plain = unsettled()
        for one in STREAM:
            plain.learn_one(one.x, one.y, one.task)
        with pytest.raises(AssertionError):
            assert_same_bits(store.live.model, plain)


def test_an_answer_that_brings_its_event_uses_what_was_said_of_the_same_one_only(tmp_path):
    same, other = STREAM[0], STREAM[1]
    with Store(tmp_path, model) as store:
        store.writer.learn(STREAM[2:60]).result()
        predict(Application(store), [same])
        predict(Application(store), [other])
        for lesson in (same, msgspec.structs.replace(other, x={"f1": 1.0})):
            store.writer.learn([lesson]).result()
        found = [
            event
            for path in sorted(store.folder.glob("log-*"))
            for frame in frames.read(path, last=True)
            for change in changes.decode(frame.payload)
            for event in change.events
        ]
        assert found[-2].prediction.said is not None
        assert found[-1].prediction is not None
        assert found[-1].prediction.said is None


def test_opinions_that_nobody_understands_do_not_cost_the_event(tmp_path):
    """As after an update, by which a learner says more or less of an event."""
    lesson = STREAM[0]
    with Store(tmp_path, model) as store:
        live, pending = store.live, store.live.pending
        for k, said in enumerate(([1.0], [0.5] * 40, [])):
            made = Prediction("yes", 0.5, 0.0, said)
            pending.put([changes.Waiting(f"w{k}", 1e12, lesson.task, lesson.x, made)])
        outcomes = store.writer.learn([Lesson(y=lesson.y, id=f"w{k}") for k in range(3)]).result()
        assert [outcome.status for outcome in outcomes] == ["applied"] * 3
        assert_same_bits(live.model, learned([lesson] * 3))


def test_learners_that_learn_no_more_by_it_keep_nothing(tmp_path):
    with Store(tmp_path, lambda: Model("pa-shared", classes=("no", "yes"))) as store:
        predict(Application(store), STREAM[:1])
        assert store.live.pending.get(STREAM[0].id, 0.0).prediction.said is None


def test_predictions_of_older_logs_are_read():
    before = b'[["learn",[["e","ann",{"a":1.0},"yes",["yes",0.5,0.0]]],null,null]]'
    (change,) = changes.decode(before)
    assert change.events == [Event("e", "ann", {"a": 1.0}, "yes", Prediction("yes", 0.5, 0.0))]
