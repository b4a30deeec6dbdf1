"""A folder from which shards can go on, whatever was lost.

A checkpoint is a folder of its own in it, named by its place in the stream: a model file of each
shard (``shard-3.romco``, its own tasks) and one of what they share (``front.romco``). When all of
them are on disk (each written aside, synced, renamed, its folder synced), ``current.json`` is
replaced in the same way: it names the folder that counts. What was there before is removed last.
So at every moment ``current.json`` names a complete checkpoint, whoever is killed and whichever
call fails, and a full disk is an error that changes nothing.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, final

from romco.io import durable
from romco.io.modelfile import ModelFileError, load, save
from romco.learners.merging import mergeable
from romco.model import Features, Model, Names
from romco.shards import states
from romco.shards.dealing import combine, deal, owned, room_for
from romco.shards.engines import Engine
from romco.shards.schedules import Schedule
from romco.shards.sections import check_place
from romco.shards.shard import Recipe, Shard, loaded

CURRENT = "current.json"


@final
@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint."""

    folder: Path
    schedule: Schedule
    at: states.At

    @property
    def front(self) -> Model:
        """What the shards share, and names of features and labels."""
        found = load(self.folder / "front.romco")
        if not isinstance(found, Model):
            raise ModelFileError("front.romco cannot be used: it holds no model")
        return found

    def files(self) -> list[Path]:
        """The file of each shard."""
        return [shard_file(self.folder, k) for k in range(self.schedule.n)]

    def begun(self, schedule: Schedule) -> states.Begun:
        """Where shards begin that go on from here, as many as before or not."""
        if schedule == self.schedule:
            return states.Begun(self.front, self.files(), self.at)
        front = self.front
        inner = front.engine.learner
        recipe = Recipe(inner.name, inner.n_features, schedule.n, parameters=dict(inner.parameters))
        found = [loaded(path, recipe).state() for path in self.files()]
        whole = combine(front.state(), mergeable(front.engine.learner), found)
        owners = owned(whole, schedule.n)
        starts = deal(whole, owners, [room_for(own) for own in owners])
        at = replace(self.at, next=schedule.after(self.at.place))
        return states.Begun(front, starts, at)


def find(folder: Path) -> Checkpoint | None:
    """The checkpoint that a folder holds, if any."""
    current = folder / CURRENT
    if not current.exists():
        return None
    try:
        told = json.loads(current.read_text(encoding="utf-8"))
        check_place(told)
        schedule = Schedule(told["shards"], told["growth"], told["every"])
        place = folder / told["folder"]
        at = states.At(told["events"], told["place"], told["next"], told["notes"])
        return Checkpoint(place, schedule, at)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError(
            f"{current} cannot be used: {error!r}; take the folder away to begin anew"
        ) from error


def check_same(found: Checkpoint, asked: Model) -> None:
    """Raise ValueError where something else is asked for than what the folder holds."""
    front = found.front
    settings: list[tuple[str, Any, Any]] = [
        ("learner", front.engine.learner.name, asked.engine.learner.name),
        (
            "parameters",
            dict(front.engine.learner.parameters),
            dict(asked.engine.learner.parameters),
        ),
        ("features", told_of(front.features), told_of(asked.features)),
        ("new_task", front.engine.new_task, asked.engine.new_task),
    ]
    if asked.classes:
        settings.append(("classes", front.classes, asked.classes))
    for what, there, wanted in settings:
        if there != wanted:
            folder = found.folder.parent
            raise ValueError(
                f"{folder} holds shards with {what} {there!r}, not {wanted!r}: go on with what it "
                "holds, or take another folder or model file"
            )


def told_of(features: Features) -> dict[str, Any]:
    """What of features cannot change: of growing names, that they are such."""
    told = features.to_json()
    return {"kind": told["kind"]} if isinstance(features, Names) else told


def write(
    folder: Path, front: Model, schedule: Schedule, at: states.At, engine: Engine
) -> list[Path]:
    """Save all shards, which stand at a barrier; see the module for the order of things."""
    place = folder / f"{at.place:012d}"
    if place.exists():  # left by a run that was stopped before it counted
        shutil.rmtree(place)
    place.mkdir(parents=True)
    made = Checkpoint(place, schedule, at)
    engine.each(Shard.save, [(path,) for path in made.files()])
    save(front, place / "front.romco")
    told = {
        "folder": place.name,
        "shards": schedule.n,
        "growth": schedule.growth,
        "every": schedule.every,
        **asdict(at),
    }
    durable.replace(folder / CURRENT, [json.dumps(told, indent=1).encode()])
    for old in folder.iterdir():
        if old.is_dir() and old != place and old.name.isdigit():
            shutil.rmtree(old, ignore_errors=True)
    return made.files()


def shard_file(folder: Path, k: int) -> Path:
    """Where a shard is saved."""
    return folder / f"shard-{k}.romco"
