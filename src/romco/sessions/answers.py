"""Answers of a model to the events of a file, and how good they are."""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any

import numpy as np

from romco.model import Model
from romco.sessions.score import Score
from romco.sessions.source import CHUNK, Source, remembered
from romco.streams.files import BadRow


def predict(model: Model, source: Source) -> Generator[dict[str, Any], None, int]:
    """One answer per event: line, task, label, margin, probability of the positive label.

    Returns at the end how many bad rows were skipped.
    """
    source = remembered(model, source)
    answer = model.notes.get("columns", {}).get("label")
    with source.events() as events:
        while chunk := list(islice(events, CHUNK)):
            rows = [_without(event.features, answer) for event in chunk]
            margins = model.margins(rows, [event.task for event in chunk])
            chances = model.probability_of(margins).tolist()
            for event, margin, chance in zip(chunk, margins.tolist(), chances, strict=True):
                yield {
                    "line": event.line,
                    "task": event.task,
                    "label": model.answer(margin),
                    "margin": margin,
                    "probability": chance,
                }
        return events.skipped


def evaluate(model: Model, source: Source) -> tuple[dict[str, Score], int]:
    """Scores by task of a labelled source, and how many bad rows were skipped; learns nothing."""
    source = remembered(model, source, labelled=True)
    scores: dict[str, Score] = {}
    unknown = 0
    with source.events() as events:
        while chunk := list(islice(events, CHUNK)):
            margins = model.margins([e.features for e in chunk], [e.task for e in chunk])
            for event, margin in zip(chunk, margins, strict=True):
                try:
                    side = model.side(event.label)
                except ValueError as error:
                    if not source.skip_bad:
                        label = source.label
                        raise BadRow(source.path, event.line, label, str(error)) from None
                    unknown += 1
                    continue
                score = scores.setdefault(event.task, Score())
                score.add(np.array([side]), np.array([margin]))
        return scores, events.skipped + unknown


def _without(features: dict[str, float], column: str | None) -> dict[str, float]:
    """Features without the column of the answers, which a file to be predicted may still have."""
    if column is None:
        return features
    return {
        name: value
        for name, value in features.items()
        if name != column and not name.startswith(f"{column}=")
    }
