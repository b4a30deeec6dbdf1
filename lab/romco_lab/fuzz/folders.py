"""Damaged folders: checkpoints of shards, the file of shards, and what a service keeps.

Whoever can write there is trusted, but a disk is not: what cannot be used is told by an error that
is a ValueError or OSError, and what can be used is used.
"""

import shutil
import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

from numpy.random import Generator

import romco
from romco.server.protocol import LearnRequest, Settings
from romco.server.writer import Service
from romco.shards import Shards
from romco.shards.schedule import Schedule
from romco_lab.fuzz.acts import TOLD
from romco_lab.fuzz.files import File, put_together, taken_apart
from romco_lab.fuzz.mutations import mutated
from romco_lab.fuzz.strangers import retyped

SAID = (*TOLD, OSError)
ROWS = [{"a": 1.0, "b": -0.5}, {"b": 2.0}, {"c": 0.25, "a": -1.0}]
LABELS = ["yes", "no", "yes"]
TASKS = ["ann", "bob", "cy"]


def try_folder(rng: Generator, seeds: list[File], folder: Path) -> str:
    """Open a damaged folder, and go on with it where it opens; gives what came of it."""
    kind = ("checkpoint", "file", "service")[int(rng.integers(0, 3))]
    place = folder / "damaged"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(sound() / kind, place)
    _damage(rng, place)
    try:
        {"checkpoint": _checkpoint, "file": _file, "service": _service}[kind](place)
    except SAID:
        return "refused"
    return "used"


@cache
def sound() -> Path:
    """Folders as they are left, made once."""
    folder = Path(tempfile.mkdtemp(prefix="romco-fuzz-"))
    for kind in ("checkpoint", "file"):
        (folder / kind).mkdir()
    place = folder / "checkpoint"
    with mock.patch.object(Schedule, "first", 20):
        shards = Shards("romco-auto", 2, every=20, checkpoint=place, checkpoint_every=1)
        for _ in range(30):
            shards.learn(ROWS, LABELS, TASKS)
    shards.save(folder / "file" / "m.romco")
    service = Service(folder / "service", romco.Model, Settings())
    service.start()
    for k in range(3):
        for i, (row, label, task) in enumerate(zip(ROWS, LABELS, TASKS, strict=True)):
            event = LearnRequest(y=label, id=f"{k} {i}", task=task, x=row)
            service.learn([event]).result()
        if k == 1:
            service.checkpoint().result()
    shutil.copytree(folder / "service", folder / "crashed")
    service.close()
    shutil.rmtree(folder / "service")
    (folder / "crashed").rename(folder / "service")
    return folder


def _checkpoint(place: Path) -> None:
    shards = Shards("romco-auto", 2, every=20, checkpoint=place, checkpoint_every=1)
    _learn(shards)


def _file(place: Path) -> None:
    shards = Shards.load(place / "m.romco")
    _learn(shards)
    shards.save(place / "m.romco")


def _learn(shards: Shards) -> None:
    for _ in range(8):
        shards.learn(ROWS, LABELS, TASKS)
    shards.predict(ROWS, TASKS)
    shards.model()


def _service(place: Path) -> None:
    service = Service(place, romco.Model, Settings())
    try:
        event = LearnRequest(y="yes", id="new", task="ann", x=ROWS[0])
        service.start().learn([event]).result(timeout=15)
        service.served.model.margins(ROWS, TASKS)
    finally:
        service.close(15)


def _damage(rng: Generator, place: Path) -> None:
    """One file: gone, cut, with other bytes, another's content, or changed with right checksums."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    files = [path for path in files if path.suffix not in (".lock", ".bak")]
    path, other = (files[int(rng.integers(0, len(files)))] for _ in range(2))
    data = path.read_bytes()
    way = rng.random()
    if way < 0.05:
        path.unlink()
    elif way < 0.12:
        path.write_bytes(data[: int(rng.integers(0, len(data) + 1))])
    elif way < 0.18:
        path.write_bytes(other.read_bytes())
    elif way < 0.28 and data:
        at = int(rng.integers(0, len(data)))
        path.write_bytes(data[:at] + rng.bytes(3) + data[at + 3 :])
    elif path.suffix == ".romco":
        file = taken_apart(data)
        path.write_bytes(put_together(mutated(rng, file, file)))
    elif path.suffix == ".json":
        path.write_text(retyped(rng, data.decode()))
    elif "sqlite" in path.name:
        at = int(rng.integers(0, len(data) + 1))
        path.write_bytes(data[:at] + rng.bytes(100) + data[at + 100 :])
    else:  # JSON, or ids
        path.write_bytes(_other_text(rng, data))


def _other_text(rng: Generator, data: bytes) -> bytes:
    return retyped(rng, data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
