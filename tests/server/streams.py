"""A small stream of events with ids, the same in every process."""

from __future__ import annotations

from random import Random

import msgspec

from romco.model import Model
from romco.server.protocol import LearnRequest as Lesson
from romco.server.protocol import PredictRequest
from romco.server.store import PendingEvent
from romco.server.writer import Service


def lessons(n: int, seed: int = 0, tasks: int = 12) -> list[Lesson]:
    random = Random(seed)
    made = []
    for i in range(n):
        task = f"user{random.randrange(tasks)}"
        x = {f"f{random.randrange(30)}": random.gauss(0.0, 1.0) for _ in range(4)}
        y = "yes" if sum(x.values()) * (1 if task < "user5" else -1) > 0 else "no"
        made.append(Lesson(y=y, id=f"e{i}", task=task, x=x))
    return made


def model() -> Model:
    return Model("romco-auto", classes=("no", "yes"))


def learned(some: list[Lesson]) -> Model:
    """A model that was never interrupted."""
    made = model()
    for lesson in some:
        made.learn_one(lesson.x, lesson.y, lesson.task)
    return made


def predicted(service: Service, lesson: Lesson, context: list[float] | None = None) -> PendingEvent:
    """What is kept of a prediction, with a context of one's own."""
    _, (kept,) = service.served.respond([PredictRequest(lesson.task, lesson.x, lesson.id)])
    made = msgspec.structs.replace(kept.prediction, context=context)
    return msgspec.structs.replace(kept, prediction=made)


def turning(n: int, seed: int = 0) -> list[Lesson]:
    """Events whose answers are the same for a while, then the other one: these drift."""
    return [
        msgspec.structs.replace(lesson, y="yes" if k // 40 % 2 else "no")
        for k, lesson in enumerate(lessons(n, seed))
    ]


BEFORE = 320  # events after which it is found that they drift


def unsettled() -> Model:
    """A model of such a stream: only of these is more learned if told what was said."""
    return learned(turning(BEFORE, seed=-1))


def said_of(lesson: Lesson) -> list[float] | None:
    """What was said of an event whose answer comes apart from it, which every other does."""
    random = Random(lesson.id)
    if random.random() < 0.5:
        return None
    return [float(random.randrange(BEFORE)), *(random.gauss(0.0, 2.0) for _ in range(2))]


def learned_late(some: list[Lesson]) -> Model:
    """One that was never interrupted, and told what was said where answers come apart."""
    made = unsettled()
    for lesson in some:
        made.learn([lesson.x], [lesson.y], [lesson.task], context=[said_of(lesson)])
    return made
