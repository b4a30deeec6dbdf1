"""Answering: predictions now, and events kept until their answers come."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, final

import msgspec
import numpy as np

from romco.kernels.io.mappings import Mappings
from romco.kernels.io.questions import Questions
from romco.labels import Budget
from romco.model.features import Hashed, Names, Sparse
from romco.rounds import Round
from romco.server import answers
from romco.server.changes import Answer, Asked, Prediction, Waiting
from romco.server.live import Live
from romco.server.requests import Question
from romco.server.settings import Limits


class Told(msgspec.Struct, omit_defaults=True):
    """A prediction as a client gets it."""

    label: Answer | None  # or number
    probability: float | None  # of the positive label of two, of the label told of many
    margin: float
    version: int  # sequence number of the last change the model had learned
    ask: bool | None = None  # whether its answer is worth asking for, where that is judged


def ask(live: Live, questions: Sequence[Question]) -> list[Told]:
    """Predictions of events; those with an id wait from now on for their answers."""
    version = live.sequence
    made = answers.predict(live.model, [q.x for q in questions], [q.task for q in questions])
    _keep(live, questions, made)
    told = [Told(p.label, p.probability, p.margin, version) for p in made]
    if live.budget is not None:
        _ask_for(live, live.budget, questions, told)
    return told


@final
class Shortcut:
    """Answers the bodies of plain questions, read by compiled code; says nothing of others.

    Plain are events of features by name, in JSON as most clients write it, where no budget of
    labels must be asked.
    """

    def __init__(self, live: Live, limits: Limits) -> None:
        self._live = live
        features = live.model.features
        if isinstance(features, Names | Hashed):
            self._rows: Mappings = features.mappings()
            most = min(limits.events, limits.tasks), limits.features, limits.name, limits.value
            self.questions: Questions | None = Questions(self._rows, *most)
        else:
            self.questions = None

    def answer(self, body: bytes) -> list[Told] | Told | None:
        """Predictions, or one; None where the body is not plain."""
        live, questions = self._live, self.questions
        if questions is None or live.budget is not None:
            return None
        tasks = questions.read(body)
        if tasks is None:
            return None
        version, model = live.sequence, live.model
        try:
            made = answers.meant(model, model.margins(Sparse(*self._rows.arrays()), tasks))
        except ValueError:  # told in the words of the long way
            return None
        if questions.waiting:
            self.keep(tasks, [(p.label, p.probability, p.margin) for p in made])
        told = [Told(p.label, p.probability, p.margin, version) for p in made]
        return told if questions.many else told[0]

    def keep(self, tasks: list[str | int], made: list[tuple[Any, float | None, float]]) -> None:
        """Events that were read last and have an id wait from now on for their answers."""
        assert self.questions is not None
        live, now = self._live, time.time()
        said = answers.opinions(live.model, Sparse(*self._rows.arrays()), tasks)
        waiting = [
            Asked(identity, now, tasks[k], msgspec.Raw(row), Prediction(*made[k], said[k]))
            for k, identity, row in self.questions.waiting
            if live.seen.number(identity) is None
        ]
        if waiting:
            live.pending.put(waiting)


def _keep(live: Live, questions: Sequence[Question], made: Sequence[Prediction]) -> None:
    """Let events with an id wait for their answers, unless these are known."""
    some = [
        (question, question.id, prediction)
        for question, prediction in zip(questions, made, strict=True)
        if question.id is not None and live.seen.number(question.id) is None
    ]
    if not some:
        return
    now = time.time()
    said = answers.opinions(live.model, [q.x for q, *_ in some], [q.task for q, *_ in some])
    live.pending.put(
        Waiting(identity, now, q.task, q.x, msgspec.structs.replace(prediction, said=opinion))
        for (q, identity, prediction), opinion in zip(some, said, strict=True)
    )


def _ask_for(live: Live, budget: Budget, questions: Sequence[Question], told: list[Told]) -> None:
    """Say of events with an id whether their answers are worth asking for."""
    some = [k for k, question in enumerate(questions) if question.id is not None]
    if not some:
        return
    tasks = live.model.engine.numbers([questions[k].task for k in some])
    margins = np.array([told[k].margin for k in some])
    round = Round(tasks, np.zeros((len(some), 1)), np.full(len(some), np.nan))
    with live.budget_lock:
        wanted = budget.ask(round, margins)
    for k, one in zip(some, wanted.tolist(), strict=True):
        told[k].ask = one
