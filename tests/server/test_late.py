"""Answers that come late: what was said of their events is kept, logged, and learned with."""

from __future__ import annotations

import msgspec
import pytest

from romco.model import Model
from romco.server.protocol import LearnRequest as Lesson
from romco.server.protocol import PredictRequest
from romco.server.store import Event, PendingEvent, Prediction, decode_change
from tests.server.conftest import copied, opened
from tests.server.same import assert_same_bits
from tests.server.streams import learned, model, turning, unsettled

STREAM = turning(120)
LATE = 30


def predict(service, some):
    asked = [PredictRequest(id=one.id, task=one.task, x=one.x) for one in some]
    _, pending = service.served.respond(asked)
    service.keep(pending).result()


def answer(service, some):
    for outcome in service.learn([Lesson(y=one.y, id=one.id) for one in some]).result():
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


def play(service, size, begin, end):
    for at in range(begin, end, size):
        if now := STREAM[at : at + size]:
            predict(service, now)
        if late := STREAM[max(0, at - LATE) : max(0, at - LATE + size)]:
            answer(service, late)
        if at == 60:
            service.checkpoint().result()


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_late_answers_are_learned_as_by_a_model_that_keeps_its_context(tmp_path, size):
    """One by one and many at a time, through crashes."""
    begin = 0
    for number, crash in enumerate((42, 96, len(STREAM) + LATE)):
        folder = tmp_path / str(number)
        with opened(folder, unsettled) as service:
            play(service, size, begin, crash)
            copied(service, tmp_path / str(number + 1))
        begin = crash
    with opened(tmp_path / "3", unsettled) as service:
        assert_same_bits(service.served.model, expected(STREAM, size))


def test_the_model_differs_from_one_without_context(tmp_path):
    with opened(tmp_path, unsettled) as service:
        predict(service, STREAM)
        answer(service, STREAM)
        plain = unsettled()
        for one in STREAM:
            plain.learn_one(one.x, one.y, one.task)
        with pytest.raises(AssertionError):
            assert_same_bits(service.served.model, plain)


def test_an_answer_that_brings_its_event_uses_the_prediction_of_the_same_one_only(tmp_path):
    same, other = STREAM[0], STREAM[1]
    with opened(tmp_path, model) as service:
        service.learn(STREAM[2:60]).result()
        predict(service, [same])
        predict(service, [other])
        for lesson in (same, msgspec.structs.replace(other, x={"f1": 1.0})):
            service.learn([lesson]).result()
        changes = service.call_in_writer(lambda _: service.store.changes_after(0)).result()
        found = [event for change in changes for event in change.events]
        assert found[-2].prediction.context is not None
        assert found[-1].prediction is None


def test_a_context_that_nobody_understands_does_not_cost_the_event(tmp_path):
    """As after an update, by which a learner keeps more or less of an event."""
    lesson = STREAM[0]
    with opened(tmp_path, model) as service:
        for k, context in enumerate(([1.0], [0.5] * 40, [])):
            made = Prediction("yes", 0.5, 0.0, context)
            service.keep([PendingEvent(f"w{k}", lesson.task, lesson.x, made)]).result()
        answers = [Lesson(y=lesson.y, id=f"w{k}") for k in range(3)]
        outcomes = service.learn(answers).result()
        assert [outcome.status for outcome in outcomes] == ["applied"] * 3
        assert_same_bits(service.served.model, learned([lesson] * 3))


def test_learners_without_context_keep_nothing(tmp_path):
    with opened(tmp_path, lambda: Model("pa-shared", classes=("no", "yes"))) as service:
        asked = PredictRequest(id="e", task="ann", x={"a": 1.0})
        assert service.served.respond([asked])[1][0].prediction.context is None


def test_events_of_the_log_without_a_context_are_read():
    change = decode_change(b'["learn",[["e","ann",{"a":1.0},"yes",["yes",0.5,0.0]]],null,null]')
    assert change.events == [Event("e", "ann", {"a": 1.0}, "yes", Prediction("yes", 0.5, 0.0))]
