"""Checkpoints: model file, ids, running metrics and what waits, at one sequence number.

A checkpoint is a folder ``checkpoint-<sequence>-<number of a pending file>``. It is written
under another name and renamed when all of it is on the disk, so that it is there as a whole or
not at all.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import struct
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from romco.io.modelfile import ModelFileError, load, save
from romco.model import Model
from romco.server import frames
from romco.server.folders import sync_file, sync_folder
from romco.server.frames import Damaged
from romco.server.live import Live
from romco.server.running import Running
from romco.server.seen import Seen

FORMAT = 1
PARTIAL = ".partial"
WHOLE = re.compile(r"checkpoint-[0-9]{20}-[0-9]{20}")
OURS = re.compile(rf"{WHOLE.pattern}({re.escape(PARTIAL)})?")


class Manifest(msgspec.Struct, forbid_unknown_fields=True):
    """What a checkpoint is, and the SHA-256 of each of its files."""

    format: int
    sequence: int
    pending: int  # number of the first file of pending events that is not in it
    positions: dict[str, str]  # how far each stream was read
    files: dict[str, str]
    budget: dict[str, Any] | None = None  # of labels: its policy's state


class Snapshot(NamedTuple):
    """A copy of everything, to be written while the service goes on."""

    sequence: int
    state: dict[str, Any]
    seen: Seen
    running: bytes
    positions: dict[str, str]
    pending: int
    waiting: list[bytes]
    budget: dict[str, Any] | None


def snapshot(live: Live) -> Snapshot:
    """A copy of everything at this moment; nobody may apply changes meanwhile."""
    number, waiting = live.pending.rotate()
    return Snapshot(
        sequence=live.sequence,
        state=live.model.state(),
        seen=live.seen.copy(),
        running=live.running.to_bytes(),
        positions=dict(live.positions),
        pending=number,
        waiting=waiting,
        budget=_budget(live),
    )


def _budget(live: Live) -> dict[str, Any] | None:
    if live.budget is None:
        return None
    with live.budget_lock:
        return live.budget.state()


def write(folder: Path, taken: Snapshot) -> Path:
    """Write a checkpoint; if that fails, the one before is as it was."""
    path = folder / f"checkpoint-{taken.sequence:020d}-{taken.pending:020d}"
    partial = folder / f"{path.name}{PARTIAL}"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(mode=0o700)
        _fill(partial, taken)
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    sync_folder(folder)
    return path


def newest(folder: Path) -> Path | None:
    """The last checkpoint of a folder; what has another name, as a copy of one, is none."""
    found = (path for path in folder.glob("checkpoint-*") if WHOLE.fullmatch(path.name))
    return max(found, default=None)


def tidy(folder: Path) -> None:
    """Remove all but the last checkpoint, and what was never finished."""
    last = newest(folder)
    for path in folder.glob("checkpoint-*"):
        if path != last and OURS.fullmatch(path.name):
            shutil.rmtree(path, ignore_errors=True)
    sync_folder(folder)


def read(path: Path) -> tuple[Manifest, Model, dict[str, bytes]]:
    """A checkpoint, all of it checked; raises :class:`Damaged` if a byte is not as it was."""
    try:
        manifest = _manifest(path)
        parts = {name: (path / name).read_bytes() for name in ("seen", "running", "pending")}
        for name, expected in manifest.files.items():
            data = parts[name] if name in parts else (path / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != expected:
                raise Damaged(f"{path.name}/{name} is damaged: restore the folder from a backup")
        model = load(path / "model.romco")
    except (OSError, ModelFileError, msgspec.ValidationError, msgspec.DecodeError) as error:
        raise Damaged(f"{path.name} cannot be used: {error}") from error
    if not isinstance(model, Model):
        raise Damaged(f"{path.name} holds a bare learner, not a model")
    return manifest, model, parts


def restore(live: Live, manifest: Manifest, parts: dict[str, bytes]) -> None:
    """Put everything but the model back."""
    live.sequence = manifest.sequence
    live.positions = dict(manifest.positions)
    try:
        live.seen = Seen.from_bytes(parts["seen"], live.seen.size)
        live.running = Running.from_bytes(parts["running"])
    except (struct.error, ValueError) as error:
        raise Damaged(f"a checkpoint cannot be used: {error}; restore a backup") from error
    lines, at = [], 0
    while (frame := frames.decode(parts["pending"], at)) is not None:
        lines.append(frame.payload)
        at = frame.end
    live.pending.load(lines, manifest.pending)


def _manifest(path: Path) -> Manifest:
    frame = frames.decode((path / "manifest").read_bytes(), 0)
    if frame is None:
        raise Damaged(f"{path.name}/manifest is damaged: restore the folder from a backup")
    found = msgspec.json.decode(frame.payload)
    format = found.get("format") if isinstance(found, dict) else None
    if format != FORMAT:
        raise Damaged(f"{path.name} has format {format}: update romco")
    return msgspec.convert(found, Manifest)


def _fill(partial: Path, taken: Snapshot) -> None:
    save(Model.from_state(taken.state), partial / "model.romco")
    waiting = b"".join([frames.encode(0, 1, line) for line in taken.waiting])
    parts = {"seen": taken.seen.to_bytes(), "running": taken.running, "pending": waiting}
    for name, data in parts.items():
        (partial / name).write_bytes(data)
    digests = {
        name: hashlib.sha256((partial / name).read_bytes()).hexdigest()
        for name in (*parts, "model.romco")
    }
    manifest = Manifest(
        FORMAT, taken.sequence, taken.pending, taken.positions, digests, taken.budget
    )
    text = msgspec.json.encode(manifest)
    (partial / "manifest").write_bytes(frames.encode(taken.sequence, 1, text))
    for path in partial.iterdir():
        sync_file(path)
    sync_folder(partial)
