"""Where events come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from romco.model import Model
from romco.model.labels import positive_of
from romco.model.names import Id, known_as
from romco.modelfile import load
from romco.streams.files import BadFile, BadRow, Event, Events, read_events

CHUNK = 250  # events read, then learned or answered, at a time
LOOK_AHEAD = 100_000  # events among which both labels are looked for


@dataclass(frozen=True)
class Source:
    """Where events come from, and which column plays which part."""

    path: str
    task: str | None = None
    label: str | None = None
    text: str | None = None
    features: tuple[str, ...] | None = None
    format: str | None = None
    skip_bad: bool = False
    labelled: bool = True  # whether a label must be there

    def events(self, start: int = 0) -> Events:
        """The events from number ``start`` on."""
        return read_events(
            self.path,
            self.task,
            self.label,
            self.text,
            self.features,
            format=self.format,
            skip_bad=self.skip_bad,
            start=start,
            labelled=self.labelled,
        )

    def columns(self) -> dict[str, Any]:
        """Which column plays which part, for the model's notes."""
        listed = None if self.features is None else list(self.features)
        return {"task": self.task, "label": self.label, "text": self.text, "features": listed}


def remembered(model: Model, source: Source, labelled: bool = False) -> Source:
    """The source with the columns that the model was learned with, where none are given."""
    columns = model.notes.get("columns", {})
    listed = source.features if source.features is not None else columns.get("features")
    return replace(
        source,
        task=source.task or columns.get("task"),
        label=source.label or columns.get("label"),
        labelled=labelled,
        text=source.text or columns.get("text"),
        features=None if listed is None else tuple(listed),
    )


def classes_of(source: Source, positive: str | None = None) -> tuple[str, str] | None:
    """The two labels of a file, the negative one first, found by looking ahead; None if unsure.

    A file that begins with many events of one label would else decide by chance, see
    :class:`romco.model.labels.Labels`. What cannot be read is left to whoever learns it.
    """
    if source.path == "-":  # cannot be read twice
        return None
    found: dict[Id, str] = {}
    try:
        with replace(source, features=(), text=None, skip_bad=True).events() as events:
            for event in islice(events, LOOK_AHEAD):
                found.setdefault(known_as(event.label), str(event.label))
                if len(found) == 2:
                    break
    except (ValueError, OSError):
        return None
    if len(found) < 2 or (positive is not None and known_as(positive) not in found):
        return None
    one, other = found.values()
    above = positive_of(one, other) if positive is None else found[known_as(positive)]
    return (other, one) if above == one else (one, other)


def load_model(path: Path) -> Model:
    """The model of a file; a bare learner, which knows no names, is refused."""
    found = load(path)
    if not isinstance(found, Model):
        raise ValueError(
            f"{path.name} holds a bare learner, which knows no names of tasks and features; "
            "save a romco.Model"
        )
    return found


def take(events: Events, n: int = CHUNK) -> tuple[list[Event], BadRow | BadFile | None]:
    """Up to ``n`` events, and what stopped the reading if it was trouble."""
    chunk: list[Event] = []
    try:
        for event in islice(events, n):
            chunk.append(event)
    except (BadRow, BadFile) as trouble:
        return chunk, trouble
    return chunk, None
