"""Streams as a source, against a real Redis server."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time

import pytest

from romco.server.sources import SourceReader
from romco.streams.brokers import Message, RedisStream, open_source
from tests.server.conftest import copied, opened
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
    command = [program, "--bind", "127.0.0.1", "--save", "", "--port"]
    folder, process, port = tmp_path_factory.mktemp("redis"), None, 0

    def answers():
        nonlocal process, port
        if process is None or process.poll() is not None:  # or another program took the port
            port = free_port()
            process = subprocess.Popen([*command, str(port)], cwd=folder, stdout=subprocess.DEVNULL)
        try:
            with redis.Redis(port=port) as found:
                return found.info()["process_id"] == process.pid
        except redis.ConnectionError:
            return False

    until(answers)
    client = redis.Redis(port=port)
    yield client, f"redis://127.0.0.1:{port}/0"
    client.close()
    process.terminate()
    process.wait(60.0)


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def until(what, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, f"not within {seconds:g} seconds"
        time.sleep(0.01)


def add(client, stream, bodies):
    for body in bodies:
        client.xadd(stream, {"event": body})


def test_a_stream_is_learned_in_order(server, tmp_path):
    client, url = server
    add(client, "plain", BODIES)
    with opened(tmp_path) as service:
        feeder = SourceReader(RedisStream(f"{url}?stream=plain"), service)
        until(lambda: service.served.model.events == 200)
        until(lambda: client.xpending("plain", "romco")["pending"] == 0)
        feeder.stop()
        assert_same_bits(service.served.model, learned(LESSONS))


def test_after_a_crash_each_is_learned_once_whatever_redis_believes(server, tmp_path):
    client, url = server
    add(client, "crash", BODIES[:120])
    with opened(tmp_path / "a") as service:
        feeder = SourceReader(RedisStream(f"{url}?stream=crash"), service)
        until(lambda: service.served.model.events >= 50)
        copied(service, tmp_path / "b")
        until(lambda: client.xpending("crash", "romco")["pending"] == 0)
        feeder.stop()
    add(client, "crash", BODIES[120:])  # Redis takes the first 120 for delivered
    with opened(tmp_path / "b") as service:
        feeder = SourceReader(RedisStream(f"{url}?stream=crash"), service)
        until(lambda: service.served.model.events == 200)
        feeder.stop()
        assert_same_bits(service.served.model, learned(LESSONS))
        last = client.xrevrange("crash", count=1)[0][0].decode()
        assert service.positions["redis:crash"] == last
    with opened(tmp_path / "b") as service:  # the position is in the checkpoint
        assert service.positions["redis:crash"] == last


@pytest.mark.slow
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
            feeder = SourceReader(RedisStream(f"{url}?stream=mixed"), service)
            last = client.xrevrange("mixed", count=1)[0][0].decode()
            until(lambda: service.positions.get("redis:mixed") == last)  # noqa: B023
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
        feeder = SourceReader(broker, service)
        until(lambda: broker.acknowledged == 200)
        feeder.stop()
        assert_same_bits(service.served.model, learned(LESSONS))


@pytest.mark.parametrize("url", ["kafka://x", "redis://x", "redis://x?group=g", "", "http://x"])
def test_other_addresses_are_refused(url):
    with pytest.raises(ValueError, match="expected"):
        open_source(url)


# Kafka: librdkafka's built-in mock cluster


@pytest.fixture(scope="module")
def kafka():
    """A producer, within which the cluster runs, and the cluster's address."""
    library = pytest.importorskip("confluent_kafka")
    producer = library.Producer({"test.mock.num.brokers": 1, "session.timeout.ms": 6000})
    (broker,) = producer.list_topics(timeout=60.0).brokers.values()
    yield producer, f"kafka://{broker.host}:{broker.port}"
    producer.flush(10.0)


def produce(producer, topic, bodies, partition=0):
    for body in bodies:
        producer.produce(topic, body, partition=partition)
    assert producer.flush(60.0) == 0


def test_a_topic_is_learned_once_through_kills(kafka, tmp_path):
    """Without ids: the offset is in the transaction of the change."""
    producer, url = kafka
    plain = [json.dumps({"task": e.task, "x": e.x, "y": e.y}) for e in LESSONS]
    produce(producer, "kills", plain[:80])
    options = ["--classes", "no,yes", "--from", f"{url}/kills"]
    for end in (80, 140):
        server = Process(tmp_path / "data", *options)
        with server.client() as watching:
            until(lambda: events(watching) >= end - 40)  # noqa: B023
            server.end(signal.SIGKILL)
        produce(producer, "kills", plain[end : end + 60])
    last = Process(tmp_path / "data", *options)
    with last.client() as watching:
        until(lambda: events(watching) >= 200)
    assert last.end(signal.SIGTERM) == 0
    with opened(tmp_path / "data") as service:
        assert service.positions["kafka:kills"] == '{"0": 200}'
        assert_same_bits(service.served.model, learned(LESSONS))


def test_what_cannot_be_learned_goes_to_a_topic_of_its_own(kafka, tmp_path):
    import confluent_kafka

    producer, url = kafka
    bad = ["not json", json.dumps({"task": "t", "x": [1.0], "y": "yes"})]
    produce(producer, "mixed", [*BODIES[:10], bad[0], *BODIES[10:20], bad[1], *BODIES[20:30]])
    with opened(tmp_path) as service:
        reader = SourceReader(open_source(f"{url}/mixed"), service)
        until(lambda: service.positions.get("kafka:mixed") == '{"0": 32}')
        reader.stop()
        assert_same_bits(service.served.model, learned(LESSONS[:30]))
    address = url.removeprefix("kafka://")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "people"})
    consumer.assign([confluent_kafka.TopicPartition("mixed.refused", n, 0) for n in range(4)])
    found = consumer.consume(2, 60.0)
    consumer.close()
    assert sorted(one.value().decode() for one in found) == sorted(bad)
    assert all(dict(one.headers())["reason"] for one in found)
