"""Where events come from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from romco.model import Model
from romco.modelfile import load
from romco.streams.files import BadFile, BadRow, Event, Events, read_events

CHUNK = 250  # events read, then learned or answered, at a time


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
        label=source.label or columns.get("label") if labelled else source.label,
        text=source.text or columns.get("text"),
        features=None if listed is None else tuple(listed),
    )


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
