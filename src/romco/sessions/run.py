"""Learning from a file that may be long: checkpoints, resuming, predictions on the way.

The model file is its own checkpoint. It remembers how many events of each source it
has learned, so the same command goes on where it stopped, whether it was killed or the
source has grown; what it finally gives does not depend on how often that happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from romco import durable
from romco.model import Model
from romco.model.model import Answers
from romco.modelfile import save
from romco.sessions.answers import Names, sides, told
from romco.sessions.identity import content_before, content_of, key_of, seen_before
from romco.sessions.log import Log
from romco.sessions.score import Score
from romco.sessions.source import CHUNK, Source, load_model
from romco.sessions.stopping import Stop
from romco.sessions.targets import OtherScore, other_score
from romco.streams.blocks import Block, Blocks
from romco.streams.files import BadFile, BadRow

STDIN = "-"


class Learns(Names, Protocol):
    """What learns the events of a file: a model, or one in shards."""

    @property
    def session(self) -> dict[str, Any]:
        """What is kept in the file to go on by; its notes are the user's."""

    def predict_and_learn(self, x: Any, y: Iterable[Any], task: Iterable[Any]) -> Answers:
        """What was predicted of events before they were learned."""


@dataclass(frozen=True)
class Progress:
    """Where learning stands."""

    events: int  # read from this source
    skipped: int  # bad rows of this source
    score: Score
    model: Learns
    resumed: int  # events that were read before this run
    refused: int = 0  # of the events read: not learned, for their label is a third one
    others: OtherScore | None = None  # in place of the score, where there are no two classes


@dataclass
class _Run:
    """One source being learned into one model file."""

    model: Learns
    path: Path
    source: Source
    save: Callable[[Any, Path], None] = save
    start: int = 0
    events: int = 0  # read so far, learned or refused
    refused: int = 0  # events whose label is a third one
    score: Score = field(default_factory=Score)
    others: OtherScore | None = None  # in its place, where there are no two classes
    content: dict[str, Any] | None = None  # of the source, when it was opened
    before: int = 0  # bytes of predictions that belong to the events learned before

    def __post_init__(self) -> None:
        given = self.source.columns()
        learned = self.model.session.setdefault("columns", given)
        for part, column in given.items():
            if column != learned.get(part):
                raise ValueError(
                    f"{self.path.name} was learned with {part} {learned.get(part)!r}, "
                    f"not {column!r}: use the same columns, or another model file"
                )
        if self.source.path != STDIN:  # each pipe is a new one
            seen = seen_before(self.model.session.get("sources", {}), self.source.path)
            self.content = content_of(self.source.path)
            self.before = int(seen.get("written", 0)) if seen.get("events") else 0
            self.start = self.events = seen.get("events", 0)
            self.refused = seen.get("refused", 0)
            self.others = other_score(self.model, seen.get("score"))
            if self.others is None:
                self.score = Score.from_json(seen.get("score", seen.get("counts")))
        else:
            self.others = other_score(self.model)

    def note(self, events: Blocks, finished: bool, written: int) -> None:
        """Write down how far it got, in the model itself."""
        self.model.session.setdefault("sources", {})[key_of(self.source.path)] = {
            **(self.content or {}),
            "events": self.events,
            "skipped": events.skipped,
            "refused": self.refused,
            "score": (self.others or self.score).to_json(),
            "open": not finished,
            "written": written,
        }

    def progress(self, events: Blocks) -> Progress:
        """Where it stands."""
        skipped = events.skipped + self.refused
        given = self.score, self.model, self.start, self.refused, self.others
        return Progress(self.events, skipped, *given)


def learn(
    source: Source,
    path: Path,
    new: Learns,
    predictions: Path | None = None,
    every: int = 10_000,
    *,
    opened: Callable[[Path], Learns] = load_model,
    saved: Callable[[Any, Path], None] = save,
    stop: Stop | None = None,
) -> Iterator[Progress]:
    """Learn all events of a source that the model at ``path`` has not learned yet.

    ``new`` is used if there is no file at ``path``, else the model is ``opened``; it is ``saved``
    every ``every`` events and last. Each event is predicted, then learned;
    predictions go to a file of JSON lines. Nobody else can learn into ``path`` meanwhile. Once
    ``stop`` is wanted, what was learned is saved, and that was all.
    """
    if every < 1:
        raise ValueError(f"checkpoints must be at least 1 event apart; got {every}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to put the model in")
    with durable.exclusive(path):
        yield from _run(
            _Run(opened(path) if path.exists() else new, path, source, saved),
            predictions,
            every,
            stop or Stop(),
        )


def _run(run: _Run, predictions: Path | None, every: int, stop: Stop) -> Iterator[Progress]:
    path, source = run.path, run.source
    with source.blocks(run.start) as events, Log(predictions, run.before) as log:
        trouble: BadRow | BadFile | None = None
        while trouble is None:
            with stop.waiting():
                chunk, trouble = events.take(min(CHUNK, every - run.events % every))
            if stop.wanted:
                break
            if not len(chunk) and trouble is None:
                break
            try:
                _learn(run, chunk, log)
            except BadRow as refused:
                trouble = refused
            if run.events % every == 0 and trouble is None:
                _checkpoint(run, events, log, finished=False)
            yield run.progress(events)
        if isinstance(trouble, BadRow):
            run.content = content_before(source.path, trouble.line)
        if trouble is None or run.events > run.start:  # nothing learned: no file is touched
            _checkpoint(run, events, log, finished=trouble is None and not stop.wanted)
        if trouble is not None:
            if run.events:
                trouble.add_note(f"what comes before it is in {path.name}")
            raise trouble
        yield run.progress(events)


def _learn(run: _Run, chunk: Block, log: Log) -> None:
    """Learn a chunk; if it holds a label that cannot be learned, event by event up to it."""
    try:
        _learn_all(run, chunk, log)
    except ValueError:
        for i in range(len(chunk)):
            try:
                _learn_all(run, chunk.rows(i, i + 1), log)
            except ValueError as error:
                if not run.source.skip_bad:
                    reason = str(error).removeprefix("row 0: ")  # of one: the line tells it
                    column = run.source.label if reason == str(error) else None
                    raise BadRow(run.source.path, chunk.lines[i], column, reason) from None
                run.events += 1
                run.refused += 1


def _learn_all(run: _Run, chunk: Block, log: Log) -> None:
    answers = run.model.predict_and_learn(chunk.features, chunk.labels, chunk.tasks)
    run.events += len(chunk)
    if run.others is not None and isinstance(run.model, Model):
        run.others.count(run.model, chunk.labels, answers)
    else:
        run.score.add(sides(run.model, chunk.labels), *answers)
    if log.wanted:
        for row in told(run.model, chunk, answers):
            log.write(row)


def _checkpoint(run: _Run, events: Blocks, log: Log, finished: bool) -> None:
    """First the predictions, then the model that says how many of them count."""
    run.note(events, finished, log.sync())
    run.save(run.model, run.path)
