"""Learning from a file that may be long: checkpoints, resuming, predictions on the way.

The model file is its own checkpoint. It remembers how many events of each source it
has learned, so the same command goes on where it stopped, whether it was killed or the
source has grown; what it finally gives does not depend on how often that happened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, final

import numpy as np
from numpy.typing import NDArray

from romco.model import Model
from romco.modelfile import load, save
from romco.streams.files import BadFile, BadRow, Event, Events, read_events

CHUNK = 250  # events read, then learned, at a time
STDIN = "-"


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


@final
class Score:
    """Right and wrong answers so far.

    >>> score = Score()
    >>> score.add(np.array([1.0, 1.0, -1.0]), np.array([0.5, -0.5, -1.0]))
    >>> score.error, round(score.f1, 3)
    (0.3333333333333333, 0.667)
    """

    def __init__(self, counts: list[int] | None = None) -> None:
        self.counts = np.array(counts or [0, 0, 0, 0]).reshape(2, 2)  # truth, answer

    def add(self, y: NDArray[np.float64], margins: NDArray[np.float64]) -> None:
        """Count events."""
        np.add.at(self.counts, ((y > 0).astype(int), (margins >= 0).astype(int)), 1)

    @property
    def error(self) -> float:
        """Share of wrong answers."""
        return float((self.counts[0, 1] + self.counts[1, 0]) / max(self.counts.sum(), 1))

    @property
    def f1(self) -> float:
        """F1 of the positive label."""
        hit = 2 * self.counts[1, 1]
        return float(hit / max(hit + self.counts[0, 1] + self.counts[1, 0], 1))


@dataclass(frozen=True)
class Progress:
    """Where learning stands."""

    events: int  # read from this source
    skipped: int  # bad rows of this source
    score: Score
    model: Model
    resumed: int  # events that were learned before this run


@dataclass
class _Run:
    """One source being learned into one model file."""

    model: Model
    path: Path
    source: Source
    predictions: Path | None
    start: int = 0
    events: int = 0  # read so far, learned or refused
    refused: int = 0  # events whose label is a third one
    score: Score = field(default_factory=Score)

    def __post_init__(self) -> None:
        seen = self.model.notes.get("sources", {}).get(self.source.path, {})
        columns = self.model.notes.setdefault("columns", self.source.columns())
        if columns != self.source.columns():
            raise ValueError(
                f"{self.path.name} was learned with columns {columns}, "
                f"not {self.source.columns()}; use the same, or another model file"
            )
        if self.source.path != STDIN or seen.get("open"):  # a new pipe starts anew
            self.start = self.events = seen.get("events", 0)
            self.refused = seen.get("refused", 0)
            self.score = Score(seen.get("counts"))

    def note(self, events: Events, finished: bool, written: int) -> None:
        """Write down how far it got, in the model itself."""
        self.model.notes.setdefault("sources", {})[self.source.path] = {
            "events": self.events,
            "skipped": events.skipped,
            "refused": self.refused,
            "counts": self.score.counts.ravel().tolist(),
            "open": not finished,
            "written": written,
        }

    def progress(self, events: Events) -> Progress:
        """Where it stands."""
        skipped = events.skipped + self.refused
        return Progress(self.events, skipped, self.score, self.model, self.start)

    def written(self) -> int:
        """Bytes of predictions that belong to the events learned before."""
        seen = self.model.notes.get("sources", {}).get(self.source.path, {})
        return int(seen.get("written", 0)) if self.start else 0


def learn(
    source: Source, path: Path, new: Model, predictions: Path | None = None, every: int = 10_000
) -> Iterator[Progress]:
    """Learn all events of a source that the model at ``path`` has not learned yet.

    ``new`` is used if there is no file at ``path``. Each event is predicted, then learned;
    predictions go to a file of JSON lines. The model is saved every ``every`` events and last.
    """
    if every < 1:
        raise ValueError(f"checkpoints must be at least 1 event apart; got {every}")
    run = _Run(load(path) if path.exists() else new, path, source, predictions)
    with source.events(run.start) as events, _Log(predictions, run.written()) as log:
        trouble: BadRow | BadFile | None = None
        while trouble is None:
            chunk, trouble = _take(events, min(CHUNK, every - run.events % every))
            if not chunk and trouble is None:
                break
            try:
                _learn(run, chunk, log)
            except BadRow as refused:
                trouble = refused
            if run.events % every == 0 and trouble is None:
                _checkpoint(run, events, log, finished=False)
            yield run.progress(events)
        _checkpoint(run, events, log, finished=trouble is None)
        if trouble is not None:
            raise trouble
        yield run.progress(events)


def _take(events: Events, n: int) -> tuple[list[Event], BadRow | BadFile | None]:
    """Up to ``n`` events, and what stopped the reading if it was trouble."""
    chunk: list[Event] = []
    try:
        for event in islice(events, n):
            chunk.append(event)
    except (BadRow, BadFile) as trouble:
        return chunk, trouble
    return chunk, None


def _learn(run: _Run, chunk: list[Event], log: _Log) -> None:
    """Learn a chunk; if it holds a label that cannot be learned, event by event up to it."""
    try:
        _learn_all(run, chunk, log)
    except ValueError:
        for event in chunk:
            try:
                _learn_all(run, [event], log)
            except ValueError as error:
                if not run.source.skip_bad:
                    label = run.source.label
                    raise BadRow(run.source.path, event.line, label, str(error)) from None
                run.events += 1
                run.refused += 1


def _learn_all(run: _Run, chunk: list[Event], log: _Log) -> None:
    labels = [event.label for event in chunk]
    margins = run.model.learn(
        [event.features for event in chunk], labels, [event.task for event in chunk]
    )
    run.events += len(chunk)
    run.score.add(np.array([run.model.side(label) for label in labels]), margins)
    for event, margin in zip(chunk, margins.tolist(), strict=True):
        log.write({"line": event.line, "task": event.task, "label": event.label, "margin": margin})


def _checkpoint(run: _Run, events: Events, log: _Log, finished: bool) -> None:
    """First the predictions, then the model that says how many of them count."""
    run.note(events, finished, log.sync())
    save(run.model, run.path)


@final
class _Log:
    """A file of JSON lines, or nothing; what a killed run wrote too much is cut off."""

    def __init__(self, path: Path | None, keep: int) -> None:
        self._file: BinaryIO | None = None
        if path is None:
            return
        if not keep or not path.exists():
            self._file = path.open("wb")
            return
        if path.stat().st_size < keep:
            raise ValueError(f"{path.name} is shorter than the model says it was: do not edit it")
        self._file = path.open("r+b")
        self._file.truncate(keep)
        self._file.seek(keep)

    def write(self, row: dict[str, Any]) -> None:
        """Add a line."""
        if self._file is not None:
            self._file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    def sync(self) -> int:
        """Make it durable; gives its length."""
        if self._file is None:
            return 0
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def remembered(model: Model, source: Source) -> Source:
    """The source with the columns that the model was learned with, where none are given."""
    columns = model.notes.get("columns", {})
    listed = source.features if source.features is not None else columns.get("features")
    return Source(
        source.path,
        source.task or columns.get("task"),
        source.label,
        source.text or columns.get("text"),
        None if listed is None else tuple(listed),
        source.format,
        source.skip_bad,
    )


def predict(model: Model, source: Source) -> Iterator[dict[str, Any]]:
    """One answer per event: line, task, label, margin, probability of the positive label."""
    source = remembered(model, source)
    answer = model.notes.get("columns", {}).get("label")
    with source.events() as events:
        while chunk := list(islice(events, CHUNK)):
            rows = [_without(event.features, answer) for event in chunk]
            tasks = [event.task for event in chunk]
            margins = model.margins(rows, tasks)
            chances = model.probability_of(margins)
            for event, margin, chance in zip(
                chunk, margins.tolist(), chances.tolist(), strict=True
            ):
                yield {
                    "line": event.line,
                    "task": event.task,
                    "label": model.answer(margin),
                    "margin": margin,
                    "probability": chance,
                }


def evaluate(model: Model, source: Source) -> dict[str, Score]:
    """Scores by task of a labelled source; nothing is learned."""
    label = source.label or model.notes.get("columns", {}).get("label")
    source = remembered(model, Source(**{**source.__dict__, "label": label}))
    if label is None and source.format != "svmlight":
        raise ValueError("say which column is the label")
    scores: dict[str, Score] = {}
    with source.events() as events:
        while chunk := list(islice(events, CHUNK)):
            margins = model.margins([e.features for e in chunk], [e.task for e in chunk])
            for event, margin in zip(chunk, margins, strict=True):
                score = scores.setdefault(event.task, Score())
                score.add(np.array([model.side(event.label)]), np.array([margin]))
    return scores


def _without(features: dict[str, float], column: str | None) -> dict[str, float]:
    """Features without the column of the answers, which a file to be predicted may still have."""
    if column is None:
        return features
    return {
        name: value
        for name, value in features.items()
        if name != column and not name.startswith(f"{column}=")
    }
