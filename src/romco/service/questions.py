"""Answering: predictions now, and events kept until their answers come."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from romco.service import answers
from romco.service.changes import Answer, Waiting
from romco.service.live import Live
from romco.service.requests import Question


class Told(msgspec.Struct, omit_defaults=True):
    """A prediction as a client gets it."""

    label: Answer | None
    probability: float | None  # of the positive label
    margin: float
    version: int  # sequence number of the last change the model had learned
    ask: bool | None = None  # whether its answer is worth asking for, where that is judged


def ask(live: Live, questions: Sequence[Question]) -> list[Told]:
    """Predictions of events; those with an id wait from now on for their answers."""
    version = live.sequence
    made = answers.predict(live.model, [q.x for q in questions], [q.task for q in questions])
    now = time.time()
    waiting = [
        Waiting(question.id, now, question.task, question.x, prediction)
        for question, prediction in zip(questions, made, strict=True)
        if question.id is not None and live.seen.number(question.id) is None
    ]
    if waiting:
        live.pending.put(waiting)
    return [Told(p.label, p.probability, p.margin, version) for p in made]
