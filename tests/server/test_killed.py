"""kill -9 at any moment: nothing acknowledged is lost, nothing is learned twice, same bits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from romco.server.stores import Store
from tests.server.same import assert_same_bits
from tests.server.streams import BEFORE, learned_late, turning, unsettled

ROOT = Path(__file__).resolve().parents[2]
EVENTS = 150


class Zygote:
    """A warm process that forks the ones to be killed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.server.victim"]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, **order: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def zygote():
    made = Zygote()
    yield made
    made.process.stdin.close()
    assert made.process.wait(30.0) == 0
    made.process.stdout.close()


def acknowledged(path: Path) -> int:
    return int(path.read_text().split()[-1]) if path.exists() and path.read_text() else 0


def survive(zygote: Zygote, folder: Path, stream: int, durability: str, most: int) -> int:
    """One stream to its end through up to ``most`` kills; gives how many there were."""
    folder.mkdir()
    notes, random, kills = folder / "acknowledged.txt", Random(stream), 0
    order = {
        "folder": str(folder / "data"),
        "acknowledged": str(notes),
        "events": EVENTS,
        "stream": stream,
        "durability": durability,
    }
    while True:
        call = random.randrange(1, 70) if kills < most else 0
        seed = random.randrange(10**9)
        end = zygote.run(**order, start=acknowledged(notes), call=call, seed=seed)
        if end == "done":
            break
        assert end == "killed", end
        kills += 1
    with Store(folder / "data", unsettled) as store:
        live = store.live
        assert live.model.events - BEFORE == EVENTS == live.sequence
        assert live.refused == 0
        assert len(live.seen) == EVENTS
        assert len(live.pending) == 0
        assert_same_bits(live.model, learned_late(turning(EVENTS, stream)))
    return kills


def survive_many(zygote: Zygote, folder: Path, kills: int, durability: str) -> None:
    stream = 0
    while kills > 0:
        kills -= survive(zygote, folder / str(stream), stream, durability, kills)
        stream += 1


@pytest.mark.parametrize("durability", ["durable", "logged"])
def test_thirty_kills(zygote, tmp_path, durability):
    survive_many(zygote, tmp_path, 15, durability)


@pytest.mark.slow
def test_five_hundred_kills(zygote, tmp_path):
    survive_many(zygote, tmp_path, 500, "durable")
