"""Streams as a source, against a real Redis server."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time

import pytest

from romco.server.sources import Message, RedisStream
from romco.server.sources import SourceReader as Feeder
from tests.server.conftest import opened
from tests.server.processes import Process
from tests.server.same import assert_same_bits
from tests.server.streams import learned, lessons

LESSONS = lessons(200, seed=7)
BODIES = [json.dumps({"id": e.id, "task": e.task, "x": e.x, "y": e.y}) for e in LESSONS]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("no Redis here: apt-get install redis-server")
    redis = pytest.importorskip("redis")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("redis")
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    process = subprocess.Popen([*command, "--dir", str(folder)], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    for _ in range(200):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.05)
    yield client, f"redis://127.0.0.1:{port}/0"
    client.close()
    process.terminate()
    process.wait(20.0)


def until(what, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.01)


def add(client, stream, bodies):
    for body in bodies:
        client.xadd(stream, {"event": body})


def test_a_stream_is_learned_in_order(server, tmp_path):
    client, url = server
    add(client, "plain", BODIES)
    with opened(tmp_path) as service:
        feeder = Feeder(RedisStream(f"{url}?stream=plain"), service.writer)
        until(lambda: service.served.model.events == 200)
        until(lambda: client.xpending("plain", "romco")["pending"] == 0)
        feeder.stop()
        assert_same_bits(service.served.model, learned(LESSONS))
        assert feeder.learned == 200


def test_after_a_crash_each_is_learned_once_whatever_redis_believes(server, tmp_path):
    client, url = server
    add(client, "crash", BODIES[:120])
    with opened(tmp_path / "a") as service:
        feeder = Feeder(RedisStream(f"{url}?stream=crash"), service.writer)
        until(lambda: service.served.model.events >= 50)
        shutil.copytree(tmp_path / "a", tmp_path / "b")  # as the crash leaves it
        until(lambda: client.xpending("crash", "romco")["pending"] == 0)
        feeder.stop()
    add(client, "crash", BODIES[120:])  # Redis takes the first 120 for delivered
    with opened(tmp_path / "b") as service:
        feeder = Feeder(RedisStream(f"{url}?stream=crash"), service.writer)
        until(lambda: service.served.model.events == 200)
        feeder.stop()
        assert_same_bits(service.served.model, learned(LESSONS))
        assert service.writer.positions["redis:crash"] == feeder.position
    with opened(tmp_path / "b") as service:  # the position is in the checkpoint
        assert service.writer.positions["redis:crash"] == feeder.position


def test_ids_are_not_needed_for_that(server, tmp_path):
    client, url = server
    plain = [json.dumps({"task": e.task, "x": e.x, "y": e.y}) for e in LESSONS]
    add(client, "nameless", plain[:150])
    source = f"{url}?stream=nameless"
    first = Process(tmp_path / "data", "--classes", "no,yes", "--from", source)
    with first.client() as watching:
        until(lambda: watching.ready() and events(watching) >= 150)
    first.end(signal.SIGKILL)
    add(client, "nameless", plain[150:])
    second = Process(tmp_path / "data", "--classes", "no,yes", "--from", source)
    with second.client() as watching:
        until(lambda: events(watching) >= 200)
    assert second.end(signal.SIGTERM) == 0
    with opened(tmp_path / "data") as service:
        assert_same_bits(service.served.model, learned(LESSONS))


def events(client) -> int:
    return sum(row["events"] for row in client.tasks(limit=1000)["tasks"])


def test_what_cannot_be_learned_is_put_aside_once(server, tmp_path):
    client, url = server
    bad = ["not json", json.dumps({"task": "t", "x": [1.0], "y": "yes"})]
    add(client, "mixed", [*BODIES[:10], bad[0], *BODIES[10:20], bad[1], *BODIES[20:30]])
    client.xadd("mixed", {"other": "field"})
    for _ in range(2):
        with opened(tmp_path) as service:
            feeder = Feeder(RedisStream(f"{url}?stream=mixed"), service.writer)
            last = client.xrevrange("mixed", count=1)[0][0].decode()
            until(lambda: feeder.position == last)  # noqa: B023
            feeder.stop()
            assert_same_bits(service.served.model, learned(LESSONS[:30]))
    refused = client.xrange("mixed:refused")
    assert [fields[b"event"].decode() for _, fields in refused] == [*bad, ""]
    assert all(fields[b"reason"] for _, fields in refused)


class Flaky:
    """A broker of our own, which is away every third time."""

    name = "flaky"

    def __init__(self, bodies):
        self.bodies, self.at, self.calls = bodies, 0, 0
        self.acknowledged = 0

    def open(self, after):
        self.at = 0 if after is None else int(after)

    def read(self, most):
        self.calls += 1
        if self.calls % 3 == 0:
            self.at += 5  # messages that are lost on the way
            raise ConnectionError("away")
        found = self.bodies[self.at : self.at + 20]
        self.at += len(found)
        return [
            Message(f"{self.at - len(found) + k + 1:09d}", body.encode())
            for k, body in enumerate(found)
        ]

    def acknowledge(self, messages):
        self.acknowledged += len(messages)

    def refuse(self, message, reason):
        raise AssertionError(reason)

    def close(self):
        pass


def test_a_broker_that_comes_and_goes(tmp_path, monkeypatch):
    from romco.server import sources

    monkeypatch.setattr(sources, "PAUSE_SECONDS", 0.01)
    with opened(tmp_path) as service:
        broker = Flaky(BODIES)
        feeder = Feeder(broker, service.writer)
        until(lambda: broker.acknowledged == 200)
        feeder.stop()
        assert_same_bits(service.served.model, learned(LESSONS))


@pytest.mark.parametrize("url", ["kafka://x", "redis://x", "redis://x?group=g", ""])
def test_other_addresses_are_refused(url):
    with pytest.raises(ValueError, match="stream=NAME"):
        RedisStream(url)
