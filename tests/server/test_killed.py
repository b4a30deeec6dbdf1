"""kill -9 at any moment, failing disks: nothing lost, nothing learned twice, same bits."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from romco import Chooser
from romco.choosing_service import ChoosingService, DrawnChoice, decode_choice
from romco.server.protocol import LearnRequest, Settings
from romco.server.writer import SYNC_SECONDS
from tests.server import faults
from tests.server.conftest import opened, started
from tests.server.same import assert_same_bits
from tests.server.streams import BEFORE, learned_late, turning, unsettled
from tests.server.test_forget import assert_same, one_by_one, requests
from tests.server.victim import FORGET_EVENTS, answered, earned

ROOT = Path(__file__).resolve().parents[2]
EVENTS = 150
CHOICES = 40  # of each of four clients


class Zygote:
    """A warm process that forks the ones to be killed."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.server.victim"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=faults.environment(faults.build(folder), folder / "data"),
        )
        self.folder, self.notes = folder / "data", folder / "notes"
        self.notes.mkdir()

    def run(self, **order: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def zygote(tmp_path_factory):
    made = Zygote(tmp_path_factory.mktemp("kills"))
    yield made
    made.process.stdin.close()
    assert made.process.wait(60.0) == 0
    made.process.stdout.close()


def acknowledged(path: Path) -> int:
    return int(path.read_text().split()[-1]) if path.exists() and path.read_text() else 0


def survive(zygote: Zygote, folder: Path, stream: int, durability: str, most: int) -> int:
    """One stream to its end through up to ``most`` kills; gives how many there were."""
    folder.mkdir(parents=True)
    notes, random, kills = zygote.notes / f"{folder.parent.name}-{stream}", Random(stream), 0
    order = {
        "folder": str(folder / "data"),
        "acknowledged": str(notes),
        "events": EVENTS,
        "stream": stream,
        "durability": durability,
    }
    while True:
        call = random.randrange(1, 200) if kills < most else 0
        seed = random.randrange(10**9)
        end = zygote.run(**order, start=acknowledged(notes), call=call, seed=seed)
        if end == "done":
            break
        assert end == "killed", end
        kills += 1
    with opened(folder / "data", unsettled) as service:
        served = service.served
        assert served.model.events - BEFORE == EVENTS == served.sequence
        assert (service.store.ids, service.store.pending_events) == (EVENTS, 0)
        assert_same_bits(served.model, learned_late(turning(EVENTS, stream)))
        assert not list((folder / "data").glob(".model-*")), "files of those who were killed"
    return kills


def survive_many(zygote: Zygote, name: str, kills: int, durability: str) -> None:
    stream = 0
    while kills > 0:
        folder = zygote.folder / name / str(stream)
        kills -= survive(zygote, folder, stream, durability, kills)
        stream += 1


@pytest.mark.parametrize("durability", ["durable", pytest.param("logged", marks=pytest.mark.slow)])
def test_thirty_kills(zygote, durability):
    survive_many(zygote, f"thirty-{durability}", 15, durability)


@pytest.mark.slow
def test_five_hundred_kills(zygote):
    survive_many(zygote, "five-hundred", 500, "durable")


def noted(zygote: Zygote, name: str) -> dict[str, list[list[str]]]:
    """Return what each client noted, line by line; the last line may be cut."""
    clients = {}
    for path in sorted(zygote.notes.glob(f"{name}-*")):
        whole = path.read_text().rpartition("\n")[0]
        clients[path.name.rpartition("-")[2]] = [line.split() for line in whole.splitlines()]
    return clients


def kill_clients(zygote: Zygote, name: str, most: int, **order: str) -> int:
    """Four clients to their ends through up to ``most`` kills; gives how many there were."""
    zygote.folder.mkdir(exist_ok=True)
    random, kills = Random(name), 0
    order["notes"] = str(zygote.notes / name)
    end = "killed"
    while end == "killed":
        done = dict.fromkeys("abcd", 0)
        for client, lines in noted(zygote, name).items():
            done[client] = sum(line[-1] in ("rewarded", "learned") for line in lines)
        call = random.randrange(1, 300) if kills < most else 0
        seed = random.randrange(10**9)
        end = zygote.run(**order, done=done, events=CHOICES, call=call, seed=seed)
        kills += end == "killed"
    assert end == "done"
    return kills


def survive_choosing(zygote: Zygote, name: str, most: int) -> int:
    folder = zygote.folder / name
    kills = kill_clients(zygote, name, most, folder=str(folder))
    with started(ChoosingService(folder, Chooser, Settings())) as service:
        rows = service.store.rewarded_after(0)
        logged = {one.id: (one, reward) for one, reward in map(decoded, rows)}
        assert len(logged) == 4 * CHOICES == service.served.model.rewards
        assert service.served.model.pending == []
        for client, lines in noted(zygote, name).items():
            for k, action, probability, _ in lines:
                one, reward = logged[f"{client}{k}"]
                assert (one.action, repr(one.probabilities[action])) == (action, probability)
                assert reward == earned(client, int(k), action)
    return kills


def survive_sharing(zygote: Zygote, name: str, most: int) -> int:
    """Four clients that predict, learn, forget and download: nothing is lost or learned twice."""
    folder = zygote.folder / name
    kills = kill_clients(zygote, name, most, shared=str(folder))
    blocks = CHOICES // FORGET_EVENTS
    with opened(folder, unsettled) as service:
        assert service.served.sequence == 4 * (CHOICES + blocks - 1)
        assert (service.store.ids, service.store.pending_events) == (4 * CHOICES, 0)
        for client, lines in noted(zygote, name).items():
            assert [int(k) for k, *_ in lines] == list(range(CHOICES))
            again = [LearnRequest(y=answered(int(k)), id=client + k) for k, *_ in lines]
            outcomes = service.learn(again).result(60.0)
            assert {one.status for one in outcomes} == {"duplicate"}
            assert [one.sequence for one in outcomes] == [int(line[1]) for line in lines]
        left = {f"{client} of {blocks - 1}" for client in "abcd"}
        assert {task for task in service.served.model.tasks if " of " in task} == left
    return kills


def kill_streams(survive: Callable[..., int], zygote: Zygote, name: str, kills: int) -> None:
    """Let streams survive so many kills, one stream after the other."""
    stream = 0
    while kills > 0:
        kills -= survive(zygote, f"{name}-{kills}-{stream}", kills)
        stream += 1


@pytest.mark.parametrize("kills", [10, pytest.param(500, marks=pytest.mark.slow)])
def test_kills_under_four_clients(zygote, kills):
    kill_streams(survive_sharing, zygote, "shared", kills)


def decoded(row: tuple[int, bytes, float]) -> tuple[DrawnChoice, float]:
    return decode_choice(row[1]), row[2]


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_of_a_chooser(zygote, kills):
    kill_streams(survive_choosing, zygote, "chooser", kills)


def forget_through_kills(zygote: Zygote, name: str, kills: int) -> None:
    """Forget a person exactly, killed at calls that lie ever later; the end is as without kills."""
    origin, random = zygote.folder / name / "origin", Random(name)
    settings = Settings("none", keep_log=True, checkpoint_events=10**9)
    some = requests(150, 1, "drifting")
    with opened(origin, unsettled, settings) as service:
        one_by_one(service, some)
    with opened(zygote.folder / name / "reference", unsettled, settings) as reference:
        one_by_one(reference, some, without=["guest3"])
        order = {"forget": "guest3", "checkpoint_events": 25}
        done = killed = 0
        while killed < kills or not done:
            folder = zygote.folder / name / str(done)
            shutil.copytree(origin, folder)
            end, call = "killed", 0
            while end == "killed":
                call = random.randrange(20, 400) if killed < kills else 0
                moment = random.randrange(3)
                end = zygote.run(**order, folder=str(folder), call=call, moment=moment)
                killed += end == "killed"
            assert end == "done"
            with opened(folder, settings=settings) as service:
                assert_same(service, reference)
            done += 1


def test_a_person_is_forgotten_exactly_through_kills(zygote):
    forget_through_kills(zygote, "four", 4)


@pytest.mark.slow
def test_a_person_is_forgotten_exactly_through_many_kills(zygote):
    forget_through_kills(zygote, "forty", 40)


def starve(
    zygote: Zygote, call: str, seconds: float, patience: float, sync_seconds: float = SYNC_SECONDS
) -> None:
    """Let a call fail for some seconds with each error; learning resumes, and nothing is lost."""
    folder = zygote.folder / f"{call}-{seconds}"
    order = {"folder": str(folder), "call": call, "seconds": seconds, "patience": patience}
    order["sync_seconds"] = sync_seconds
    errors = ("EIO", "ENOSPC", "EROFS", "EMFILE")
    assert zygote.run(**order, errors=errors, events=100) == "done"
    with opened(folder, unsettled) as service:
        expected = unsettled()
        for one in turning(100, 0):
            expected.learn_one(one.x, one.y, one.task)
        assert service.store.ids == 100
        assert_same_bits(service.served.model, expected)


SOME_CALLS = ("write", "sync")
OTHER_CALLS = [name for name in (*faults.CALLS, "all") if name not in SOME_CALLS]


@pytest.mark.parametrize(
    "call", [*SOME_CALLS, *(pytest.param(name, marks=pytest.mark.slow) for name in OTHER_CALLS)]
)
def test_learning_resumes_by_itself_when_the_disk_is_back(zygote, call):
    starve(zygote, call, seconds=0.1, patience=60.0, sync_seconds=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [5.0, 60.0])
@pytest.mark.parametrize("call", [*faults.CALLS, "all"])
def test_learning_resumes_after_a_disk_was_away_for_long(zygote, call, seconds):
    starve(zygote, call, seconds, patience=5.0)
