"""All that changes while a service runs: a function of the changes, and of nothing else."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import final

from romco.labels import Budget
from romco.model import Model
from romco.service import answers
from romco.service.changes import Change, Event, Forget, Learn, Prediction
from romco.service.pending import Pending
from romco.service.running import Running
from romco.service.seen import Seen


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

    def apply(self, change: Change) -> str | None:
        """Apply the next change; gives what is wrong if it cannot be, and then it changed nothing.

        Its sequence numbers are used up in either case.
        """
        first = self.sequence + 1
        trouble = self._forget(change) if isinstance(change, Forget) else self._learn(change, first)
        self.refused += trouble is not None
        self.sequence += change.count
        return trouble

    def _learn(self, change: Learn, first: int) -> str | None:
        try:
            made = self._predictions(change.events)
            if change.events:
                answers.learn(self.model, change.events)
        except ValueError as error:
            return str(error)
        for number, (event, prediction) in enumerate(
            zip(change.events, made, strict=True), start=first
        ):
            self._note(event, prediction, number)
        if change.source is not None and change.position is not None:
            self.positions[change.source] = change.position
        return None

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

    def _forget(self, change: Forget) -> str | None:
        self.pending.forget(change.task, change.time)
        self.running.forget(change.task)
        try:
            self.model.forget(change.task)
        except (KeyError, ValueError) as error:
            return str(error.args[0])
        return None
