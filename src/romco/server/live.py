"""All that changes while a service runs: a function of the changes, and of nothing else."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, final

from romco.labels import Budget
from romco.model import Model
from romco.server import answers
from romco.server.changes import Change, Event, Learn, Prediction
from romco.server.pending import Pending
from romco.server.running import Running
from romco.server.seen import Seen


@final
@dataclass
class Live:
    """A model, the ids it has learned, how good it was, and how far each stream was read.

    Applying the same changes in the same order gives the same bits: this is what makes a
    restart equal to never having stopped.
    """

    model: Model
    pending: Pending
    seen: Seen = field(default_factory=Seen)
    running: Running = field(default_factory=Running)
    positions: dict[str, str] = field(default_factory=dict)
    sequence: int = 0  # of the last change that was applied
    refused: int = 0  # changes that turned out to be impossible when their turn came
    budget: Budget | None = None  # of labels that may be asked for
    budget_lock: threading.Lock = field(default_factory=threading.Lock)

    def apply(self, changes: Sequence[Change]) -> list[str | None]:
        """Apply the next changes; says of each what is wrong, or None.

        What is wrong with one changes nothing but itself, and its sequence numbers are used up.
        Requests that follow one another are learned in one go, which costs a tenth per event.
        """
        troubles: list[str | None] = []
        for learns, some in groupby(changes, lambda change: isinstance(change, Learn)):
            run = list(some)
            troubles += self._learn_all(run) if learns else [self._forget(each) for each in run]
        self.refused += sum(trouble is not None for trouble in troubles)
        return troubles

    def _learn_all(self, changes: Sequence[Any]) -> list[str | None]:
        """Learn all at once, or, if one cannot be learned, one after the other."""
        events = [event for change in changes for event in change.events]
        try:
            made = self._predictions(events)
            if events:
                answers.learn(self.model, events)
        except ValueError as error:
            if len(changes) > 1:
                return [trouble for change in changes for trouble in self._learn_all([change])]
            self.sequence += changes[0].count
            return [str(error)]
        predictions = iter(made)
        for change in changes:
            for number, event in enumerate(change.events, start=self.sequence + 1):
                self._note(event, next(predictions), number)
            if change.source is not None and change.position is not None:
                self.positions[change.source] = change.position
            self.sequence += change.count
        return [None] * len(changes)

    def _predictions(self, events: list[Event]) -> list[Prediction]:
        """The predictions made before; events without one are predicted now, before learning."""
        missing = [event for event in events if event.prediction is None]
        if not missing:
            return [event.prediction for event in events if event.prediction is not None]
        rows, tasks = [event.x for event in missing], [event.task for event in missing]
        made = iter(answers.predict(self.model, rows, tasks))
        return [event.prediction or next(made) for event in events]

    def _note(self, event: Event, made: Prediction, number: int) -> None:
        if event.id is not None:
            self.seen.add(event.id, number)
            self.pending.remove(event.id)
        if made.label is not None:
            self.running.add(event.task, made, *answers.judge(self.model, made, event.y))

    def _forget(self, change: Any) -> str | None:
        self.sequence += change.count
        self.pending.forget(change.task, change.time)
        self.running.forget(change.task)
        try:
            self.model.forget(change.task)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return None
