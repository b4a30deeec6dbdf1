"""Damaged folders: checkpoints of shards, the file of shards, and what a service keeps.

Whoever can write there is trusted, but a disk is not: what cannot be used is told by an error that
is a ValueError or OSError, and what can be used is used.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from numpy.random import Generator

import romco
from romco.server import frames
from romco.server.drafts import Lesson
from romco.server.stores import Store
from romco.shards import Shards
from romco_lab.fuzz.acts import TOLD
from romco_lab.fuzz.files import File, put_together, taken_apart
from romco_lab.fuzz.mutations import mutated
from romco_lab.fuzz.strangers import retyped

SAID = (*TOLD, OSError)
ROWS = [{"a": 1.0, "b": -0.5}, {"b": 2.0}, {"c": 0.25, "a": -1.0}]
LABELS, TASKS = ["yes", "no", "yes"], ["ann", "bob", "cy"]


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
    shards = Shards("romco-auto", 2, every=20, checkpoint=folder / "checkpoint", checkpoint_every=1)
    for _ in range(30):
        shards.learn(ROWS, LABELS, TASKS)
    (folder / "file").mkdir()
    shards.save(folder / "file" / "m.romco")
    with Store(folder / "service", romco.Model) as store:
        for k in range(3):
            for i, (row, label, task) in enumerate(zip(ROWS, LABELS, TASKS, strict=True)):
                store.writer.learn([Lesson(y=label, id=f"{k} {i}", task=task, x=row)]).result()
            if k == 1:
                store.writer.checkpoint().result()
        shutil.copytree(folder / "service", folder / "crashed")
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
    store = Store(place, romco.Model)
    try:
        store.writer.learn([Lesson(y="yes", id="new", task="ann", x=ROWS[0])]).result(timeout=15)
        store.live.model.margins(ROWS, TASKS)
    finally:
        store.close(15)


def _damage(rng: Generator, place: Path) -> None:
    """One file: gone, cut, with other bytes, another's content, or changed with right checksums."""
    files = sorted(path for path in place.rglob("*") if path.is_file() and path.name != "lock")
    path, other = (files[int(rng.integers(0, len(files)))] for _ in range(2))
    data, way = path.read_bytes(), rng.random()
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
    elif frames.decode(data, 0) is not None:
        path.write_bytes(_reframed(rng, data))
    else:  # JSON, or ids
        path.write_bytes(_other_text(rng, data))
    _sign(place)


def _reframed(rng: Generator, data: bytes) -> bytes:
    """Frames of which one has another text, or number, and the right checksum."""
    found, at = [], 0
    while (frame := frames.decode(data, at)) is not None:
        found.append(frame)
        at = frame.end
    k = int(rng.integers(0, len(found)))
    made = []
    for i, frame in enumerate(found):
        first, size, text = frame.first, frame.size, frame.payload
        if i == k and rng.random() < 0.3:
            first, size = (max(0, n + int(rng.integers(-1, 2))) for n in (first, size))
        elif i == k:
            text = _other_text(rng, text)
        made.append(frames.encode(first, size, text))
    return b"".join(made)


def _other_text(rng: Generator, data: bytes) -> bytes:
    return retyped(rng, data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _sign(place: Path) -> None:
    """Digests of a manifest are those of the files, as far as it can be read."""
    for manifest in place.rglob("manifest"):
        frame = frames.decode(manifest.read_bytes(), 0)
        if frame is None:
            continue
        text: Any = frame.payload
        for path in manifest.parent.iterdir():
            old = hashlib.sha256((_original(path)).read_bytes()).hexdigest()
            new = hashlib.sha256(path.read_bytes()).hexdigest()
            text = text.replace(old.encode(), new.encode())
        manifest.write_bytes(frames.encode(frame.first, frame.size, text))


def _original(path: Path) -> Path:
    found = next(sound().rglob(f"{path.parent.name}/{path.name}"), None)
    return path if found is None else found
