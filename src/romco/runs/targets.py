"""What the answers in a file look like."""

from __future__ import annotations

from itertools import islice
from typing import Any

from romco.model.names import canonical_name
from romco.model.target import Kind
from romco.runs.source import STDIN, Source

LOOK = 1000  # events among which the kind of target is looked for
MOST_CLASSES = 30  # different whole numbers that are taken for classes, not for numbers


def target_of(source: Source) -> Kind | None:
    """What the first answers of a file look like: "classes", "number", or None for two classes."""
    if source.path == STDIN:
        raise ValueError("a pipe cannot be looked at first: say --target classes or number")
    with source.events() as events:
        labels = {canonical_name(event.label) for event in islice(events, LOOK)}
    if len(labels) <= 2:
        return None
    return "number" if _numbers(labels) else "classes"


def _numbers(labels: set[Any]) -> bool:
    """Whether labels are numbers, and no few whole ones."""
    try:
        found = [float(label) for label in labels]
    except ValueError:
        return False
    return len(found) > MOST_CLASSES or any(not one.is_integer() for one in found)
