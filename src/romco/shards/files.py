"""Learning from files, of which every shard reads its own part."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from romco.io.formats import BadFile
from romco.io.schema import Schema
from romco.model.features import features_from_json
from romco.model.rows import read_offset, read_weights
from romco.parameters import not_negative, whole
from romco.runs import Stop
from romco.runs.resume import content_of, explain_bad_session
from romco.shards.reader import EventFiles, FilePosition
from romco.shards.shard import ReadReport, Shard
from romco.shards.shards import Coordinator, Shards
from romco.typing import Floats

START = FilePosition()
NOTE = "files"  # key of the notes that hold the position in the files
HEAD_BYTES = 1 << 16  # of a file, hashed to recognise it


@dataclass(frozen=True)
class ShardsProgress:
    """Progress of a run: position in the files, and counts up to it."""

    position: FilePosition = START
    loss: float = 0.0  # of the events: wrong predictions; of numbers squared errors
    skipped: int = 0  # bad rows
    ended: bool = False
    resumed: int = 0  # rows read before this run
    rows: int = 0  # read so far
    events: int = 0  # learned so far
    merging: float = 0.0  # seconds at barriers
    staleness: int = 0  # events that a shard may not know of
    lost: int = 0  # workers

    @property
    def error(self) -> float:
        """Share of wrong predictions; of numbers the mean squared error."""
        return self.loss / max(self.events, 1)


def learn(
    files: EventFiles, model: Path, stop: Stop | None = None, **settings: Any
) -> Iterator[ShardsProgress]:
    """Learn all rows that the model at ``model`` has not learned yet.

    The model file is its own checkpoint: the same call resumes a run that stopped, or whose files
    have grown. The result does not depend on how often that happened. ``settings`` are those of
    :func:`start`. It ends at a barrier once ``stop`` is wanted. No other process can learn into
    ``model`` meanwhile.
    """
    if not model.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {model.parent} to put the model in")
    with start(files, model, **settings) as shards:
        yield from read(shards, files, stop)
        shards.coordinator.save()


def start(
    files: EventFiles, model: Path, learner: str = "romco-auto", n: int = 2, **settings: Any
) -> Shards:
    """Return new shards for a model file, or resumed ones; ``settings`` are as in ``Shards``."""
    features = features_from_json(files.features)
    given = {"target": files.kind, "classes": files.classes, "checkpoint": model, **settings}
    return Shards(learner, n, features, **given)


def read(shards: Shards, files: EventFiles, stop: Stop | None = None) -> Iterator[ShardsProgress]:
    """Learn all rows that were not learned yet, period by period, until ``stop`` is wanted."""
    coordinator = shards.coordinator
    known = Schema.from_session(shards.session)
    source = replace(files.source, path=files.paths[0]).resolve(known)
    assert source.schema is not None
    source.schema.store(shards.session, "this model")
    files, front = replace(files, source=source), coordinator.front.engine
    if source.schema.weight is not None:
        read_weights(np.empty(0), front.learner)  # ValueError where it takes none
    column = source.schema.offset
    offset: Floats | None = None
    if isinstance(column, str):
        offset = np.empty(0)
    elif column is not None:  # one for each class
        offset = np.empty((0, len(column)))
    learned = coordinator.events > 0
    front.with_offset = read_offset(front, offset, 1.0, learned) is not None
    progress = replace(_resume(coordinator, files), resumed=coordinator.place)
    coordinator.open_files(files, progress.position)
    while not progress.ended and not (stop is not None and stop.wanted):
        left = coordinator.next - coordinator.place
        every = [(left,)] * coordinator.n
        reports: list[ReadReport] = coordinator.run(Shard.read, every, left)
        _check_agreement(reports)
        position = reports[0].position
        loss = progress.loss + sum(one.loss for one in reports)
        skipped = progress.skipped + sum(one.skipped for one in reports)
        paths = files.paths[: position.file + 1]
        coordinator.notes[NOTE] = {
            "position": list(position),
            "paths": list(paths),
            "contents": _contents(paths, coordinator.notes.get(NOTE, {}).get("contents", [])),
            "loss": loss,
            "skipped": skipped,
        }
        coordinator.reading = files, position
        coordinator.advance(reports[0].rows, sum(one.learned for one in reports))
        staleness = 0
        if coordinator.n > 1:
            staleness = coordinator.next - coordinator.place
        progress = replace(
            progress,
            position=position,
            loss=loss,
            skipped=skipped,
            ended=reports[0].ended,
            rows=coordinator.place,
            events=coordinator.events,
            merging=coordinator.merge_seconds,
            staleness=staleness,
            lost=coordinator.engine.lost_workers,
        )
        yield progress
    coordinator.close_files()


def _check_agreement(reports: list[ReadReport]) -> None:
    """Raise BadFile where shards did not read the same rows."""
    if len({(one.rows, one.position, one.ended) for one in reports}) > 1:
        rows = ", ".join(f"{one.rows} rows to {one.position}" for one in reports)
        raise BadFile(
            f"shards do not see the same files ({rows}): put them where all machines see them, "
            "and do not write to them meanwhile"
        )


# Resuming: the files that were read must be the same


def _resume(coordinator: Coordinator, files: EventFiles) -> ShardsProgress:
    """Return the progress of the notes, after comparing the files with those that were read."""
    if NOTE not in coordinator.notes:
        if coordinator.place:
            raise ValueError("this model was not learned from files by shards: use another one")
        return ShardsProgress()
    note = coordinator.notes[NOTE]
    with explain_bad_session("this model", ValueError):
        _check_note(note)
    file, row = note["position"]
    before = note["paths"][: file + bool(row)]
    if list(files.paths[: len(before)]) != before:
        raise ValueError(
            f"this model has learned {', '.join(before)}, in this order: files that come later "
            "must have names that sort behind, or be named behind"
        )
    for k, (path, seen) in enumerate(zip(before, note.get("contents", []), strict=False)):
        length, head = Path(path).stat().st_size, content_of(path, seen["size"])
        shorter = length < seen["bytes"]
        longer = length > seen["bytes"] and k < file
        if shorter or longer or head is None or head["digest"] != seen["digest"]:
            raise ValueError(
                f"{path} is not the file that was read before: what was read of it has changed. "
                "Give new events a file of their own, or start with another model file"
            )
    return ShardsProgress(FilePosition(file, row), note["loss"], note["skipped"])


def _check_note(note: Mapping[str, Any]) -> None:
    """Raise where no run could have written the note: nothing in a file is trusted."""
    file, row = note["position"]
    not_negative("loss", note["loss"])
    numbers = {"file": file, "row": row, "skipped": note["skipped"]}
    for name, number in numbers.items():
        whole(name, number, least=0)
    paths = note["paths"]
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise TypeError(f"paths are {paths!r}")
    for seen in note.get("contents", []):
        whole("size", seen["size"], least=0)
        whole("bytes", seen["bytes"], least=seen["size"])
        if not isinstance(seen["digest"], str):
            raise TypeError(f"a digest is {seen['digest']!r}")
    if len(paths) < file + bool(row):
        raise ValueError(f"{file} files were read, of which {len(paths)} are named")


def _contents(paths: Sequence[str], known: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return length and digest of the beginning of each file.

    ``known`` are those of the first files; the last of them may have grown while it was read.
    """
    contents = list(known[: len(paths)])
    if contents and Path(paths[len(contents) - 1]).stat().st_size != contents[-1]["bytes"]:
        contents.pop()
    for path in paths[len(contents) :]:
        length = Path(path).stat().st_size
        head = content_of(path, min(length, HEAD_BYTES)) or {}
        contents.append({"bytes": length, **head})
    return contents
