"""Learning from a file that may be long: checkpoints, resuming, predictions on the way.

The model file is its own checkpoint. It remembers how many events of each source it
has learned, so the same command goes on where it stopped, whether it was killed or the
source has grown; what it finally gives does not depend on how often that happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from romco.evaluation import Score
from romco.io import durable
from romco.io.blocks import Block, Blocks
from romco.io.files import BadFile, BadRow
from romco.io.modelfile import save
from romco.runs.identity import content_before
from romco.runs.log import Log
from romco.runs.records import SourceRecord, keep_columns, understood
from romco.runs.session import Learns, Session
from romco.runs.source import CHUNK, Source, load_model
from romco.runs.stopping import Stop

USUAL = 10_000  # events between two saves at least, unless they are told,
DEARER = 20.0  # and as many times as long as a save takes


@dataclass(frozen=True)
class Progress:
    """Where learning stands."""

    events: int  # read from this source
    skipped: int  # bad rows of this source
    score: Any
    model: Learns
    resumed: int  # events that were read before this run
    refused: int = 0  # of the events read: not learned, for their label is a third one


@dataclass
class Saves:
    """When to save: every so many events, or, with None, so seldom that it costs next to nothing.

    >>> saves = Saves(500)
    >>> saves.room(1400), saves.due(1400), saves.due(1500)
    (100, False, True)
    """

    every: int | None
    last: int = 0  # events at the last save
    rested: float = 0.0  # time from which on another one is cheap

    def room(self, events: int) -> int:
        """How many events may be read before it must be asked again."""
        return CHUNK if self.every is None else min(CHUNK, self.every - events % self.every)

    def due(self, events: int) -> bool:
        """Whether it is time, after so many events."""
        if self.every is not None:
            return events % self.every == 0
        return events - self.last >= USUAL and time.perf_counter() >= self.rested

    def done(self, events: int, seconds: float) -> None:
        """A save after so many events took so long."""
        self.last, self.rested = events, time.perf_counter() + DEARER * seconds


@dataclass(frozen=True)
class _Run:
    """One source being learned into one model file."""

    session: Session
    source: Source
    events: Blocks
    path: Path
    save: Callable[[Any, Path], None]
    stop: Stop

    def progress(self) -> Progress:
        """Where it stands."""
        session, record = self.session, self.session.record
        given = session.score, session.model, record.resumed, record.refused
        return Progress(record.events, self.events.skipped + record.refused, *given)

    def checkpoint(self, finished: bool) -> None:
        """First the predictions, then the model that says how many of them count."""
        session, memory = self.session, self.session.model.session
        now = {"skipped": self.events.skipped, "score": session.score.to_json()}
        now |= {"open": not finished, "written": session.log.sync()}
        session.record.keep(memory, self.source.path, **now)
        self.save(session.model, self.path)


def learn(
    source: Source,
    path: Path,
    new: Learns,
    predictions: Path | None = None,
    every: int | None = None,
    *,
    opened: Callable[[Path], Learns] = load_model,
    saved: Callable[[Any, Path], None] = save,
    stop: Stop | None = None,
) -> Iterator[Progress]:
    """Learn all events of a source that the model at ``path`` has not learned yet.

    ``new`` is used if there is no file at ``path``, else the model is ``opened``; it is ``saved``
    every ``every`` events and last; without, every 10,000 or more, so that saving takes at most
    a twentieth of the time; without any event nothing is. Each event is predicted, then learned;
    predictions go to a file of JSON lines. Nobody else can learn into ``path`` meanwhile. Once
    ``stop`` is wanted, what was learned is saved, and that was all.
    """
    if every is not None and every < 1:
        raise ValueError(f"checkpoints must be at least 1 event apart; got {every}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to put the model in")
    with durable.exclusive(path):
        model = opened(path) if path.exists() else new
        with understood(path.name):
            keep_columns(model.session, source.columns(), path.name)
            record = SourceRecord.of(model.session, source.path)
        with understood(path.name, ValueError):
            score: Score = Score.of(model, record.score)
        with source.blocks(record.events) as events, Log(predictions, record.written) as log:
            session = Session(model, score, log, record)
            run = _Run(session, source, events, path, saved, stop or Stop())
            yield from _run(run, Saves(every, record.events))


def _run(run: _Run, saves: Saves) -> Iterator[Progress]:
    record, trouble = run.session.record, None
    while trouble is None:
        with run.stop.waiting():
            chunk, trouble = run.events.take(saves.room(record.events))
        if run.stop.wanted or (trouble is None and not len(chunk)):
            break
        if trouble is None:
            run.events.prepare(saves.room(record.events + len(chunk)))
        trouble = _learn(run, chunk) or trouble
        if trouble is None and saves.due(record.events):
            begin = time.perf_counter()
            run.checkpoint(finished=False)
            saves.done(record.events, time.perf_counter() - begin)
        yield run.progress()
    if trouble is None:
        if record.events or run.stop.wanted:  # of nothing no model is made, and none is changed
            run.checkpoint(finished=not run.stop.wanted)
    else:
        _stop_at(run, trouble)
    yield run.progress()


def _learn(run: _Run, chunk: Block) -> BadRow | None:
    """Learn a chunk; if bad rows are not to be skipped, up to the first one, which is told."""
    for at, error in run.session.learn_good(chunk):
        if not run.source.skip_bad:
            reason = str(error).removeprefix("row 0: ")  # of one: the line tells it
            column = run.source.label if reason == str(error) else None
            return BadRow(run.source.path, chunk.lines[at], column, reason)
    return None


def _stop_at(run: _Run, trouble: BadRow | BadFile) -> None:
    """Save what comes before the trouble, and raise it; if nothing does, no file is touched."""
    record = run.session.record
    if isinstance(trouble, BadRow):
        record.content = content_before(run.source.path, trouble.line)
    if record.events > record.resumed:
        run.checkpoint(finished=False)
    if record.events:
        trouble.add_note(f"what comes before it is in {run.path.name}")
    raise trouble
