"""Reading requests one after the other, before any of them is applied."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import msgspec

from romco.model.names import canonical_name
from romco.server import answers
from romco.server.answers import Refused
from romco.server.changes import Answer, Change, Event, Forget, Learn, Row, Task
from romco.server.live import Live
from romco.server.seen import digest
from romco.server.settings import Limits


class Lesson(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An answer: to a pending event by its id, or with the whole event."""

    y: Answer
    id: str | None = None
    task: Task | None = None
    x: Row | None = None


class Outcome(NamedTuple):
    """What became of a lesson: applied, duplicate or expired, and under which number."""

    status: str
    sequence: int | None


class Read(NamedTuple):
    """A request as it will be applied; no change where all of it was known or expired."""

    change: Change | None
    outcomes: list[Outcome]


@final
class Draft:
    """What a group of requests will do, each seen after the ones before it.

    Nothing is changed: if the log has no room for the group, the draft is thrown away.
    """

    def __init__(self, live: Live, limits: Limits, now: float) -> None:
        self._live, self._limits, self._now = live, limits, now
        self.next = live.sequence + 1
        self._ids: dict[bytes, int] = {}
        self._labels: set[Any] = set()
        self._tasks: set[Any] = set()
        self._features = 0

    def learn(self, lessons: list[Lesson], source: str | None, position: str | None) -> Read:
        """Events to learn; raises :class:`Refused` and takes none if one of them is bad."""
        number, ids = self.next, dict[bytes, int]()
        outcomes: list[Outcome] = []
        events: list[Event] = []
        places: list[int] = []
        for place, lesson in enumerate(lessons):
            found = self._find(lesson, place, ids)
            if isinstance(found, Event):
                if lesson.id is not None:
                    ids[digest(lesson.id)] = number + len(events)
                outcomes.append(Outcome("applied", number + len(events)))
                events.append(found)
                places.append(place)
            else:
                outcomes.append(found)
        self._check(events, places)
        self._ids |= ids
        if not events and position is None:
            return Read(None, outcomes)
        return self._take(Learn(events, source, position), outcomes)

    def forget(self, task: Task) -> Read:
        """A task to forget; raises KeyError if it is not known."""
        if (
            self._live.model.engine.numbers([task])[0] < 0
            and canonical_name(task) not in self._tasks
        ):
            raise KeyError(task)
        return self._take(Forget(task, self._now), [Outcome("applied", self.next)])

    def _take(self, change: Change, outcomes: list[Outcome]) -> Read:
        self.next += change.count
        return Read(change, outcomes)

    def _find(self, lesson: Lesson, place: int, ids: dict[bytes, int]) -> Event | Outcome:
        """The event of a lesson, or why there is nothing to learn."""
        waiting = None
        if lesson.id is not None:
            number = self._live.seen.number(lesson.id, ids)
            if number is None:
                number = self._ids.get(digest(lesson.id)) if self._ids else None
            if number is not None:
                return Outcome("duplicate", number)
            waiting = self._live.pending.get(lesson.id, self._now)
        made = None if waiting is None else waiting.prediction
        if lesson.task is not None and lesson.x is not None:
            if waiting is not None and (waiting.task, waiting.x) != (lesson.task, lesson.x):
                made = msgspec.structs.replace(waiting.prediction, said=None)  # of another event
            return Event(lesson.id, lesson.task, lesson.x, lesson.y, made)
        if lesson.id is None or lesson.task is not None or lesson.x is not None:
            raise Refused("give either id and y, or task, x and y", place)
        if waiting is None:
            return Outcome("expired", None)
        return Event(lesson.id, waiting.task, waiting.x, lesson.y, made)

    def _check(self, events: list[Event], places: list[int]) -> None:
        """Raise :class:`Refused` unless the model can take the events, after all before them."""
        if not events:
            return
        model, limits = self._live.model, self._limits
        try:
            features = answers.new_features(model, [event.x for event in events])
        except Refused as error:
            raise Refused(error.reason, places[error.index]) from None
        known = answers.check_labels(model, self._labels, events, places)
        numbers = model.engine.numbers([event.task for event in events]).tolist()
        new = {
            canonical_name(event.task) for event, n in zip(events, numbers, strict=True) if n < 0
        }
        tasks = self._tasks | new
        if new and len(model.tasks) + len(tasks) > limits.all_tasks:
            raise Refused(f"the model has room for {limits.all_tasks:,} tasks", places[0])
        if features and model.features.width + self._features + features > limits.all_features:
            raise Refused(f"the model has room for {limits.all_features:,} features", places[0])
        self._labels, self._tasks = known, tasks
        self._features += features
