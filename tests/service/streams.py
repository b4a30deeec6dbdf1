"""A small stream of events with ids, the same in every process."""

from __future__ import annotations

from random import Random

from romco.model import Model
from romco.service.drafts import Lesson


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
