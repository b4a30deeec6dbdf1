"""Learn a file that may be long: checkpoints, resuming, predictions on the way.

The model file is its own checkpoint. It remembers how many events of each source it
has learned, so the same command goes on where it stopped, whether it was killed or the
source has grown; the result does not depend on how often that happened.
"""

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from romco.evaluation import Score
from romco.evaluation.arrival import AT_ONCE, Arrival, LateLabels
from romco.io.cells import is_missing, read_name
from romco.io.formats import BadFile, BadRow, OpenFile
from romco.io.inference import is_other_number
from romco.io.modelfile import save_state
from romco.io.reader import BLOCK_EVENTS, Block, Reader, Source
from romco.io.schema import Schema
from romco.model import Model
from romco.model.names import Id, canonical_name
from romco.model.target import Predictions, positive_of
from romco.runs.predict import Learns, as_rows, intervals_of, prediction_rows
from romco.runs.resume import (
    STDIN,
    PredictionLog,
    SourceRecord,
    content_before,
    explain_bad_session,
    locked_model,
)
from romco.typing import Floats

MIN_EVENTS_BETWEEN_SAVES = 10_000  # unless the user says otherwise
SAVE_TIME_RATIO = 20.0  # learning takes at least so many times as long as saving
FIRST_SAVE_SECONDS = 5.0  # of learning, before it is known how long saving takes
LOOK_AHEAD_EVENTS = 100_000  # among which both labels are looked for
MAX_CLASSES = 30  # different whole numbers that are taken for classes, not for numbers,
MAX_CLASSES_SHARE = 0.8  # and at most as many as this share of the rows


@dataclass(frozen=True)
class Progress:
    """Progress of learning a source."""

    events: int  # read from this source
    skipped: int  # bad rows of this source
    score: Any
    model: Learns
    resumed: int  # events that were read before this run
    refused: int = 0  # of the events read: not learned, for their label is not known
    share: float | None = None  # of the file's bytes that are read; None for a pipe
    late: LateLabels | None = None  # where labels do not come at once


class OtherTasks:
    """Chooses all tasks but some, however their names are written.

    >>> [OtherTasks(["ann", "7"])(task) for task in ("ann", "bob", "7.0", None)]
    [False, True, False, True]
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = frozenset(map(canonical_name, names))

    def __call__(self, task: str | None) -> bool:
        return task is None or canonical_name(task) not in self._names


@dataclass
class SaveSchedule:
    """When to save: every so many events, or, with None, so seldom that it costs little."""

    every: int | None
    last: int = 0  # events at the last save
    next_time: float = field(default_factory=lambda: time.perf_counter() + FIRST_SAVE_SECONDS)

    def room(self, events: int) -> int:
        """Return how many events may be read before the next look."""
        left = BLOCK_EVENTS
        if self.every is not None:
            left = self.every - events % self.every
        return min(BLOCK_EVENTS, left)

    def due(self, events: int) -> bool:
        """Return whether it is time, after so many events."""
        if self.every is not None:
            return events % self.every == 0
        enough = events - self.last >= MIN_EVENTS_BETWEEN_SAVES
        return enough and time.perf_counter() >= self.next_time

    def record(self, events: int, seconds: float) -> None:
        """Note that a save after so many events took so long."""
        self.last, self.next_time = events, time.perf_counter() + SAVE_TIME_RATIO * seconds


def learn(
    source: Source, path: Path, new: Learns, *given: Any, **options: Any
) -> Iterator[Progress]:
    """Learn all events of a source that the model at ``path`` has not learned yet.

    ``new`` is the model to begin with if there is no file at ``path``; without any event none is
    made. What else is given goes to :func:`learn_into`.
    """
    with locked_model(path) as known:
        yield from learn_into(known or new, source, path, *given, **options)


def learn_into(
    model: Learns,
    source: Source,
    path: Path,
    predictions: Path | None = None,
    every: int | None = None,
    *,
    arrival: Arrival = AT_ONCE,
    stop: "Stop | None" = None,
) -> Iterator[Progress]:
    """Learn a source into a model whose file is locked.

    Each event is predicted, into ``predictions`` (JSON lines), then learned. ``every`` events the
    model is saved; by default so seldom that it takes at most a twentieth of the time. Labels are
    learned when they become known, see :class:`Arrival`; where that is not at once, the model is
    saved at the end only. Once a ``stop`` is wanted, what was learned is saved, and that was all.
    """
    if every is not None and every < 1:
        raise ValueError(f"checkpoints must be at least 1 event apart; got {every}")
    source = source.resolve(Schema.from_session(model.session))
    assert source.schema is not None
    with OpenFile(source.path, source.format) as file:
        with explain_bad_session(path.name):
            source.schema.store(model.session, path.name)
            if isinstance(model, Model):
                model.schema = source.schema
            record = SourceRecord.of(model.session, source.path, file.raw)
        with explain_bad_session(path.name, ValueError):
            score = Score.of(model, record.score)
            if score.target != model.engine.target.kind:  # of a model since widened
                score = Score.of(model)
        with (
            source.open(record.events, file=file) as reader,
            PredictionLog(predictions, record.written) as log,
        ):
            run = Run(model, source, reader, path, score, log, record)
            run.set_arrival(arrival)
            yield from run.steps(SaveSchedule(every, record.events), stop or Stop())


@dataclass
class Run:
    """One source being learned into one model file.

    Events are predicted, then learned, then scored, logged and counted, always in this order.
    """

    model: Learns
    source: Source
    reader: Reader
    path: Path
    score: Score
    log: PredictionLog
    record: SourceRecord
    late: LateLabels | None = None  # None: labels come at once, and whole blocks are learned

    def set_arrival(self, arrival: Arrival) -> None:
        """Learn labels when they become known; numbers with intervals are predicted one by one."""
        number = self.score.target == "number" and self.log.enabled
        if arrival.at_once and not (number and isinstance(self.model, Model)):
            return
        if not isinstance(self.model, Model):
            raise ValueError(
                "labels that come together or late do not go with shards: leave out --together and "
                "--delay"
            )
        self.late = LateLabels(arrival, self._learn_late)

    def steps(self, saves: SaveSchedule, stop: "Stop") -> Iterator[Progress]:
        """Learn to the end, or until stopped."""
        record, trouble = self.record, None
        while trouble is None:
            with suppress(Stopped), stop.waiting():
                block, trouble = self.reader.take(saves.room(record.events))
            if stop.wanted or (trouble is None and not len(block)):
                break
            if trouble is None:
                self.reader.prepare(saves.room(record.events + len(block)))
            trouble = self._learn_good(block) or trouble
            if trouble is None and self.late is None and saves.due(record.events):
                begin = time.perf_counter()
                self._save(finished=False)
                saves.record(record.events, time.perf_counter() - begin)
            yield self._progress()
        if trouble is not None:
            self._stop_at(trouble)
        elif record.events or stop.wanted:  # of nothing no model is made, and none is changed
            self._save(finished=not stop.wanted)
        yield self._progress()

    def _learn_good(self, block: Block) -> BadRow | None:
        """Learn a block, event by event if one is bad; return the bad row unless it is skipped."""
        try:
            self._learn(block)
            return None
        except ValueError:
            pass
        for at in range(len(block)):
            try:
                self._learn(block.rows(at, at + 1))
            except ValueError as error:
                self.record.events += self.source.skip_bad
                self.record.refused += self.source.skip_bad
                if not self.source.skip_bad:
                    reason = str(error).removeprefix("row 0: ")  # of one: the line tells it
                    label = None
                    if self.source.schema:
                        label = self.source.schema.label
                    column = None
                    if reason == str(error):
                        column = label
                    return BadRow(self.source.path, block.lines[at], column, reason)
        return None

    def _learn(self, block: Block) -> None:
        """Learn a block, all or nothing."""
        if self.late is not None:
            self._learn_when_known(block, self.late)
            return
        known = self.model.engine.events > 0
        answers: Predictions = self.model.engine.predict_and_learn(as_rows(block))
        if self.score.target == "number" and not known:
            answers.margins[:1] = np.nan  # nobody knew the level of the first number
        self._count(block, answers)

    def _learn_when_known(self, block: Block, late: LateLabels) -> None:
        """Predict each moment of a block, and learn earlier ones whose labels have come."""
        engine = self.model.engine
        late.check(block)
        engine.check(as_rows(block))
        for piece in late.pieces(block):
            bounds = None
            engine.live = True
            margins, context, chances, _ = engine.margins_and_context(as_rows(piece))
            engine.live = False
            if chances is None:
                chances = np.full(len(piece), np.nan)
                bounds = intervals_of(self.model, piece)
            if self.score.target == "number" and not engine.events:
                margins = chances
                bounds = None
            self._count(piece, Predictions(margins, chances), bounds)
            if not late.arrival.is_delayed:
                context = None
            late.wait(piece, context)

    def _learn_late(self, piece: Block, context: Any) -> None:
        rows = as_rows(piece)._replace(context=context)
        self.model.engine.predict_and_learn(rows, together=piece.moments is not None)

    def _count(self, block: Block, answers: Predictions, bounds: Floats | None = None) -> None:
        """Score and log what was predicted."""
        self.record.events += len(block)
        self.score.count(self.model, block.labels, answers, bounds)
        if self.log.enabled:
            for row in prediction_rows(self.model, block, answers, bounds):
                self.log.write(row)

    def _progress(self) -> Progress:
        record = self.record
        given = self.score, self.model, record.resumed, record.refused
        place = self.reader.progress(), self.late
        return Progress(record.events, self.reader.skipped + record.refused, *given, *place)

    def _save(self, finished: bool) -> None:
        """Write first the predictions, then the model that counts them."""
        if self.late is not None:
            self.late.drain()
        now: dict[str, Any] = {"skipped": self.reader.skipped, "score": self.score.to_json()}
        now |= {"open": not finished, "written": self.log.sync()}
        self.record.store(self.model.session, self.source.path, **now)
        if isinstance(self.model, Model):
            save_state(self.model.state(copy=False), self.path)  # nobody else learns meanwhile
        else:
            self.model.save(self.path)  # type: ignore[attr-defined]

    def _stop_at(self, trouble: BadRow | BadFile) -> None:
        """Save what comes before the trouble, and raise it; if nothing does, no file is touched."""
        record = self.record
        if isinstance(trouble, BadRow):
            place = self.source.path, trouble.line, self.source.format
            record.content = content_before(*place)
        if record.events > record.resumed:
            self._save(finished=False)
        if record.events:
            trouble.add_note(f"what comes before it is in {self.path.name}")
        raise trouble


# What the labels of a file are


def infer_target(source: Source) -> Literal["classes", "number"] | None:
    """Return what the labels of the first rows are; None for two classes, or if there is no row.

    Raises ValueError where they are numbers with a comma or a sign.
    """
    labels = _sample_labels(source)
    if labels and all(map(is_other_number, labels.values())):
        raise ValueError(
            f"{source.path}: labels are numbers with a comma or a sign, as "
            f"{next(iter(labels.values()))!r}: write them as 1234.5, or say --target classes"
        )
    if len(labels) <= 2:
        return None
    try:
        numbers = list(map(float, labels.values()))
    except ValueError:
        return "classes"
    fractions = any(not number.is_integer() for number in numbers)
    most = min(MAX_CLASSES, MAX_CLASSES_SHARE * len(_schema_of(source).sample))
    if fractions or len(numbers) > most:
        return "number"
    return "classes"


def infer_classes(source: Source, positive: str | None = None) -> tuple[str, str] | None:
    """Return the two labels of a file, the negative one first; None if unsure.

    Looks ahead where the first rows have one label only: else the order of rows would decide
    which is positive. What cannot be read is left to whoever learns it.
    """
    labels = _sample_labels(source)
    if len(labels) < 2:
        labels = _labels_ahead(source)
    labels = dict(list(labels.items())[:2])
    if len(labels) < 2 or (positive is not None and canonical_name(positive) not in labels):
        return None
    one, other = labels.values()
    above = positive_of(one, other)
    if positive is not None:
        above = labels[canonical_name(positive)]
    if above == one:
        return (other, one)
    return (one, other)


def _schema_of(source: Source) -> Schema:
    schema = source.schema or source.resolve().schema
    assert schema is not None
    return schema


def _sample_labels(source: Source) -> dict[Id, str]:
    schema = _schema_of(source)
    label = schema.label or "label"
    cells = (row for row in schema.sample if not is_missing(row.get(label)))
    labels: dict[Id, str] = {}
    for row in cells:
        with suppress(ValueError):
            name = read_name(label, row)
            labels.setdefault(canonical_name(name), name)
    return labels


def _labels_ahead(source: Source) -> dict[Id, str]:
    """Return the first two labels among many events."""
    labels: dict[Id, str] = {}
    schema = source.schema
    if source.path == STDIN or schema is None:  # cannot be read twice
        return labels
    roles = {"task": schema.task, "label": schema.label, "one_task": schema.one_task}
    bare = replace(source, schema=Schema(**roles, features=()), skip_bad=True)  # type: ignore[arg-type]
    try:
        with bare.open() as reader:
            ahead = (label for block in reader.blocks() for label in block.labels)
            for label in islice(ahead, LOOK_AHEAD_EVENTS):
                labels.setdefault(canonical_name(label), str(label))
                if len(labels) == 2:
                    break
    except (ValueError, OSError):
        pass
    return labels


# Stopping in good order


class Stopped(BaseException):
    """Breaks off waiting for more to read."""


class Stop:
    """Request to stop: checked between blocks; waiting for rows is broken off."""

    def __init__(self) -> None:
        self.wanted = False
        self._waiting = False

    def request(self, *_: object) -> None:
        """Stop as soon as what was read is learned; can be a signal's handler."""
        self.wanted = True
        if self._waiting:
            self._waiting = False  # a second signal may come before the first is handled
            raise Stopped

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let a stop break off the block, which reads rows for as long as it takes.

        ``Stopped`` may be raised while the block is entered or left, so the caller suppresses it.
        """
        self._waiting = not self.wanted
        try:
            yield
        finally:
            self._waiting = False


@contextmanager
def stop_on_sigterm(stop: Stop) -> Iterator[None]:
    """Request a stop when SIGTERM comes."""
    if threading.current_thread() is not threading.main_thread():  # which alone gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, stop.request)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
