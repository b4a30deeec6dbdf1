"""Power failure: of each file only what was synced is left, and nothing acknowledged is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest

from tests.server import faults
from tests.server.conftest import opened
from tests.server.same import assert_same_bits
from tests.server.streams import learned_late, turning, unsettled

ROOT = Path(__file__).resolve().parents[2]
EVENTS, STREAM = 100, 3


class Call(NamedTuple):
    """A call that changed a file."""

    kind: str
    path: str
    other: str
    at: int
    data: bytes


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """All calls of a server that learns a stream with checkpoints, and the folder's name."""
    folder = tmp_path_factory.mktemp("power")
    data, notes = folder / "data", folder / "trace"
    order = {"folder": str(data / "service"), "acknowledged": str(data / "acknowledged")}
    order |= {"events": EVENTS, "stream": STREAM, "durability": "durable"}
    order |= {"start": 0, "call": 0, "seed": 1}
    data.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.server.victim"],
        cwd=ROOT,
        input=json.dumps(order) + "\n",
        capture_output=True,
        text=True,
        env=faults.environment(faults.build(folder), data, notes),
    )
    assert done.stdout == "done\n", done.stderr
    return list(calls(notes.read_bytes())), data


def calls(text: bytes):
    at = 0
    while at < len(text):
        end = text.index(b"\n", at)
        kind, path, other, offset, size = text[at:end].decode().split("\t")
        at = end + 1 + int(size)
        yield Call(kind, path, other, int(offset), text[end + 1 : at])


def failed(some: list[Call], keep: Random | None) -> dict[str, bytes]:
    """Files after a power failure; with ``keep`` some writes after the last sync are there too."""
    synced: dict[str, bytearray] = {}
    waiting: dict[str, list[Call]] = {}
    for call in some:
        if call.kind in ("write", "cut"):
            synced.setdefault(call.path, bytearray())
            waiting.setdefault(call.path, []).append(call)
        elif call.kind == "sync":
            for late in waiting.pop(call.path, []):
                put(synced[call.path], late)
        elif call.kind == "remove":
            synced.pop(call.path, None)
            waiting.pop(call.path, None)
        elif call.kind == "rename":
            synced[call.other] = synced.pop(call.path, bytearray())
            waiting[call.other] = waiting.pop(call.path, [])
    for path, late in waiting.items():
        for call in late:
            if keep is not None and keep.random() < 0.5:
                put(synced[path], call)
    return {path: bytes(content) for path, content in synced.items()}


def put(content: bytearray, call: Call) -> None:
    if call.kind == "cut":
        del content[call.at :]
        content.extend(bytes(call.at - len(content)))
        return
    content.extend(bytes(max(0, call.at - len(content))))
    content[call.at : call.at + len(call.data)] = call.data


@pytest.mark.parametrize("seed", range(12))
def test_nothing_acknowledged_is_missing_after_a_power_failure(trace, tmp_path, seed):
    every, folder = trace
    random = Random(seed)
    begun = next(k for k, call in enumerate(every) if call.path.endswith("acknowledged"))
    cut = every[: random.randrange(begun, len(every) + 1)]
    acknowledged = [call.data for call in cut if call.path.endswith("acknowledged")]
    for path, content in failed(cut, random if seed % 2 else None).items():
        target = tmp_path / Path(path).relative_to(folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    with opened(tmp_path / "service", unsettled) as service:
        learned = service.served.sequence
        assert learned >= int(acknowledged[-1]) if acknowledged else True
        assert_same_bits(service.served.model, learned_late(turning(EVENTS, STREAM)[:learned]))
