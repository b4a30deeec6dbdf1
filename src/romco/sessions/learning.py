"""Learning from a file that may be long: checkpoints, resuming, predictions on the way.

The model file is its own checkpoint. It remembers how many events of each source it
has learned, so the same command goes on where it stopped, whether it was killed or the
source has grown; what it finally gives does not depend on how often that happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from romco import durable
from romco.evaluation.scores import Score, score_of
from romco.modelfile import save
from romco.sessions.identity import content_before
from romco.sessions.log import Log
from romco.sessions.records import SourceRecord, keep_columns, understood
from romco.sessions.session import Learns, Session
from romco.sessions.source import CHUNK, Source, load_model
from romco.sessions.stopping import Stop
from romco.streams.blocks import Block, Blocks
from romco.streams.files import BadFile, BadRow


@dataclass(frozen=True)
class Progress:
    """Where learning stands."""

    events: int  # read from this source
    skipped: int  # bad rows of this source
    score: Any
    model: Learns
    resumed: int  # events that were read before this run
    refused: int = 0  # of the events read: not learned, for their label is a third one


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
        model = opened(path) if path.exists() else new
        with understood(path.name):
            keep_columns(model.session, source.columns(), path.name)
            record = SourceRecord.of(model.session, source.path)
        with understood(path.name, ValueError):
            score: Score = score_of(model, record.score)
        with source.blocks(record.events) as events, Log(predictions, record.written) as log:
            session = Session(model, score, log, record)
            yield from _run(_Run(session, source, events, path, saved, stop or Stop()), every)


def _run(run: _Run, every: int) -> Iterator[Progress]:
    record, trouble = run.session.record, None
    while trouble is None:
        with run.stop.waiting():
            chunk, trouble = run.events.take(min(CHUNK, every - record.events % every))
        if run.stop.wanted or (trouble is None and not len(chunk)):
            break
        trouble = _learn(run, chunk) or trouble
        if record.events % every == 0 and trouble is None:
            run.checkpoint(finished=False)
        yield run.progress()
    if trouble is None:
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
