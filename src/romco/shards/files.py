"""Learning from a folder of files, of which every shard reads its own part."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from romco.io import durable
from romco.io.schema import Schema
from romco.model import Model
from romco.model.features import features_from_json
from romco.parameters import whole
from romco.runs import Stop
from romco.runs.resume import explain_bad_session, load_model
from romco.shards import checkpoints
from romco.shards.beginnings import begin_early
from romco.shards.checkpoints import told_of
from romco.shards.contents import check_contents, check_told
from romco.shards.coordinators import Coordinator
from romco.shards.partitions import Files, Position
from romco.shards.periods import NOTE, Tally, periods
from romco.shards.shards import Shards


@final
@dataclass(frozen=True)
class ShardsProgress:
    """Where learning stands."""

    rows: int  # of the files, read so far
    events: int  # learned so far
    wrong: int  # of them: predicted wrongly before
    skipped: int  # bad rows
    resumed: int  # rows that were read before this run
    merging: float  # seconds at barriers
    staleness: int  # events that a shard may not know of
    lost: int  # workers

    @property
    def error(self) -> float:
        """Share of wrong answers."""
        return self.wrong / max(self.events, 1)


def folder_of(model: Path) -> Path:
    """Where the shards of a model file keep checkpoints while they learn."""
    return model.with_name(model.name + ".shards")


def learn(
    files: Files, model: Path, stop: Stop | None = None, **settings: Any
) -> Iterator[ShardsProgress]:
    """Learn all rows that the model at ``model`` has not learned yet, and write it at the end.

    The same call goes on where it was stopped: from the checkpoints beside the model file, else
    from the model file; what it finally gives does not depend on how often that happened. The
    settings are those of :func:`begin`. Once ``stop`` is wanted, a checkpoint is written, and
    that was all. Nobody else can learn into ``model`` meanwhile.
    """
    if not model.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {model.parent} to put the model in")
    with durable.exclusive(model), begin(files, model, **settings) as shards:
        if (yield from read(shards, files, stop)):
            finish(shards, model)
        else:
            shards.leader.checkpoint()


def begin(
    files: Files,
    model: Path,
    *,
    learner: str = "romco-auto",
    n: int = 2,
    parameters: dict[str, Any] | None = None,
    **settings: Any,
) -> Shards:
    """New shards for a model file, or those that stopped; ``settings`` are as in ``Shards``."""
    if files.source.weight is not None:
        raise ValueError(
            "shards that read files do not carry weights yet: leave them out, or learn by a Model"
        )
    settings |= {"checkpoint": folder_of(model)}
    if checkpoints.find(folder_of(model)) is None and model.exists():
        return _checked(Shards.load(model, n, **settings), files, model)
    features = features_from_json(files.features)
    settings |= {"classes": files.classes, **(parameters or {})}
    return Shards(learner, n, features, **settings)


def _checked(shards: Shards, files: Files, model: Path) -> Shards:
    """Shards of a model file, if they learn such files; else they are closed, and ValueError."""
    features = features_from_json(files.features)
    for what, there, wanted in (
        ("features", told_of(shards.features), told_of(features)),
        ("classes", shards.classes, files.classes),
    ):
        if there != wanted:
            shards.close()
            raise ValueError(
                f"{model.name} has {what} {there!r}, not {wanted!r}: use another model file"
            )
    return shards


def known_to(model: Path) -> Model | None:
    """What the shards of a model file know that go on, from its checkpoint or from the file."""
    found = checkpoints.find(folder_of(model))
    if found is not None:
        return found.front
    return load_model(model) if model.exists() else None


def finish(shards: Shards, model: Path) -> None:
    """Write the model file; its checkpoints are not needed any more."""
    shards.save(model)
    shutil.rmtree(folder_of(model), ignore_errors=True)


def read(
    shards: Shards, files: Files, stop: Stop | None = None
) -> Generator[ShardsProgress, None, bool]:
    """Learn all rows that were not learned yet, period by period, until ``stop`` is wanted.

    Returns whether all of them are learned; if not, the shards are at a barrier.
    """
    stop = stop or Stop()
    leader = shards.leader
    known = Schema.from_session(shards.session)
    source = replace(files.source, path=files.paths[0]).resolve(known)
    assert source.schema is not None
    source.schema.store(shards.session, "this model")
    files = replace(files, source=source)
    told = _read_before(leader, files)
    tally = Tally(Position(*told["position"]), told["wrong"], told["skipped"])
    resumed = leader.place
    early = begin_early(leader, files)
    if early is not None:
        tally = early
        yield _progress(leader, tally, resumed)
    steps = periods(leader, files, tally)
    while not tally.ended and not stop.wanted:
        tally = next(steps)
        yield _progress(leader, tally, resumed)
    return tally.ended


def _progress(leader: Coordinator, tally: Tally, resumed: int) -> ShardsProgress:
    counts = leader.place, leader.events, tally.wrong, tally.skipped, resumed
    return ShardsProgress(*counts, leader.merging, leader.staleness, leader.engine.lost)


def _read_before(leader: Coordinator, files: Files) -> dict[str, Any]:
    told: dict[str, Any] = leader.notes.get(
        NOTE, {"position": [0, 0], "paths": [], "wrong": 0, "skipped": 0}
    )
    if leader.place and NOTE not in leader.notes:
        raise ValueError("this model was not learned from files by shards: use another model file")
    with explain_bad_session("this model", ValueError):
        _check_told(told)
    before = told["paths"][: told["position"][0] + bool(told["position"][1])]
    if list(files.paths[: len(before)]) != before:
        raise ValueError(
            f"this model has learned {', '.join(before)}, in this order: files that come later "
            "must have names that sort behind, or be named behind"
        )
    check_contents(files.paths, told.get("contents", []), *told["position"])
    return told


def _check_told(told: Mapping[str, Any]) -> None:
    """Raise where nobody could have read so far: nothing in a file is trusted."""
    file, row = told["position"]
    numbers = {"file": file, "row": row, "wrong": told["wrong"], "skipped": told["skipped"]}
    for name, number in numbers.items():
        whole(name, number, least=0)
    paths = told["paths"]
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise TypeError(f"paths are {paths!r}")
    check_told(told.get("contents", []))
    if len(paths) < file + bool(row):
        raise ValueError(f"{file} files were read, of which {len(paths)} are named")
