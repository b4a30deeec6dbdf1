"""Streams as sources of events: the reader, Redis Streams, Kafka."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit, urlunsplit

from romco.server.protocol import (
    BusyError,
    RequestError,
    StoppedError,
    parse_learn,
)

if TYPE_CHECKING:
    from romco.server.writer import Writer

LOG = logging.getLogger("romco.server")
PAUSE_SECONDS = 0.5  # before what failed is tried again, doubled up to MAX_PAUSE_SECONDS
MAX_PAUSE_SECONDS = 10.0
READ_MESSAGES = 64  # at a time


class Message(NamedTuple):
    """Position of a message in its stream, and its body: that of a request to learn."""

    position: str
    body: bytes


class EventSource(Protocol):
    """Stream that can be read again from any position.

    The position of what was learned is stored in the same transaction as the change, so a source
    needs to keep none.
    """

    name: str  # under which its position is stored

    def open(self, after: str | None) -> None:
        """Connect; the next message is the one after a position, or the first."""

    def read(self, limit: int) -> Sequence[Message]:
        """Return the next messages; wait a moment if there is none. OSError if it is away."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Let go of messages that are durable here."""

    def refuse(self, message: Message, reason: str) -> None:
        """Put a message that cannot be learned where people find it, once."""

    def close(self) -> None:
        """Disconnect."""


class SourceReader:
    """Reads a source in a thread and hands it to the writer, each message once, in order."""

    def __init__(self, source: EventSource, writer: "Writer") -> None:
        self.learned = self.refused = 0  # messages
        self.trouble: str | None = None
        self._source, self._writer = source, writer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="romco-source", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop reading; what was read is learned, or will be read again."""
        self._stop.set()
        self._thread.join(seconds)

    @property
    def position(self) -> str | None:
        """Position of the last message that was learned or refused."""
        return self._writer.positions.get(self._source.name)

    def _run(self) -> None:
        pause = PAUSE_SECONDS
        while not self._stop.is_set():
            try:
                self._source.open(self.position)
                self.trouble = None
                while not self._stop.is_set():
                    self._take(self._source.read(READ_MESSAGES))
                    pause = PAUSE_SECONDS
            except StoppedError:
                return
            except (OSError, BusyError) as error:
                self.trouble = str(error)
                LOG.warning("the source %s: %s; trying again", self._source.name, error)
                self._stop.wait(pause)
                pause = min(2.0 * pause, MAX_PAUSE_SECONDS)
            finally:
                self._source.close()

    def _take(self, messages: Sequence[Message]) -> None:
        """Learn messages together; if one is bad, one by one."""
        try:
            self._learn(messages)
        except RequestError:
            for message in messages:
                try:
                    self._learn([message])
                except RequestError as error:
                    self._source.refuse(message, error.reason)
                    self._writer.learn([], self._source.name, message.position).result()
                    self.refused += 1
        if messages:
            self._source.acknowledge(messages)

    def _learn(self, messages: Sequence[Message]) -> None:
        lessons = [lesson for message in messages for lesson in parse_learn(message.body)[0]]
        if messages:
            self._writer.learn(lessons, self._source.name, messages[-1].position).result()
            self.learned += len(messages)


def open_source(url: str) -> EventSource:
    """Return the source of an address.

    >>> open_source("ftp://host")
    Traceback (most recent call last):
    ...
    ValueError: expected redis://host:port/db?stream=NAME&group=GROUP or kafka://host:port/TOPIC
    """
    kinds: dict[str, type[RedisStream | KafkaTopic]] = {
        "redis": RedisStream,
        "rediss": RedisStream,
        "kafka": KafkaTopic,
    }
    try:
        return kinds[urlsplit(url).scheme](url)
    except KeyError:  # another scheme, or no name of a stream
        known = "redis://host:port/db?stream=NAME&group=GROUP or kafka://host:port/TOPIC"
        raise ValueError(f"expected {known}") from None


class RedisStream:
    """Redis stream ``redis://host:port/db?stream=NAME&group=GROUP``, read by a consumer group.

    The group is set to the stored position whenever it is opened, whatever Redis believes to be
    delivered. What cannot be learned is copied to ``NAME:refused``, under the id it had.
    """

    FIELD = b"event"  # of an entry: the body of a request to learn, as JSON
    BLOCK_MS = 500  # that a read waits
    CONSUMER = "romco"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        self.stream = query["stream"][0]
        self.group = query.get("group", ["romco"])[0]
        self.name = f"redis:{self.stream}"
        self._url = urlunsplit(parts._replace(query=""))
        self._redis: Any = None

    def open(self, after: str | None) -> None:
        import redis

        with _errors_of("redis"):
            self._redis = redis.Redis.from_url(self._url, socket_timeout=30.0)
            try:
                self._redis.xgroup_create(self.stream, self.group, after or "0", mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise
                self._redis.xgroup_setid(self.stream, self.group, after or "0")

    def read(self, limit: int) -> Sequence[Message]:
        """Return the next entries; one without the field ``event`` has an empty body."""
        streams = {self.stream: ">"}
        with _errors_of("redis"):
            found = self._redis.xreadgroup(
                self.group, self.CONSUMER, streams, count=limit, block=self.BLOCK_MS
            )
        if isinstance(found, dict):  # protocol 3
            entries = [entry for nested in found.values() for some in nested for entry in some]
        else:
            entries = [entry for _, some in found or () for entry in some]
        return [Message(key.decode(), fields.get(self.FIELD, b"")) for key, fields in entries]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        with _errors_of("redis"):
            self._redis.xack(self.stream, self.group, *[message.position for message in messages])

    def refuse(self, message: Message, reason: str) -> None:
        import redis

        fields = {self.FIELD: message.body, "reason": reason}
        with _errors_of("redis"):
            try:
                self._redis.xadd(f"{self.stream}:refused", fields, id=message.position)
            except redis.ResponseError as error:
                if "equal or smaller" not in str(error):
                    raise

    def close(self) -> None:
        if self._redis is not None:
            self._redis.close()
            self._redis = None


class KafkaTopic:
    """Kafka topic ``kafka://host:port/TOPIC?group=GROUP``; each value is the body of a request.

    The position is the next offset of each partition, as JSON; the broker's own offsets are only
    set for those who watch the lag. What cannot be learned goes to ``TOPIC.refused``, with
    the position as its key; after a kill it may be there twice.
    """

    WAIT_SECONDS = 0.5
    CONNECT_SECONDS = 10.0

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.topic, self.name = parts.path.strip("/"), f"kafka:{parts.path.strip('/')}"
        if not self.topic or not parts.netloc:
            raise KeyError("topic")
        group = parse_qs(parts.query).get("group", ["romco"])[0]
        self._config = {"bootstrap.servers": parts.netloc, "session.timeout.ms": 6000}
        self._consuming = {
            **self._config,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer: Any = None
        self._next: dict[int, int] = {}  # offset of the next message, by partition

    def open(self, after: str | None) -> None:
        import confluent_kafka as kafka

        stored = {int(key): offset for key, offset in json.loads(after or "{}").items()}
        with _errors_of("confluent_kafka"):
            self._consumer = kafka.Consumer(self._consuming)
            found = self._consumer.list_topics(self.topic, self.CONNECT_SECONDS)
            partitions = found.topics[self.topic].partitions
            first = {n: stored.get(n, kafka.OFFSET_BEGINNING) for n in partitions}
            self._consumer.assign([kafka.TopicPartition(self.topic, *at) for at in first.items()])
        self._next = stored

    def read(self, limit: int) -> Sequence[Message]:
        """Return the next messages; each position holds the offsets of all partitions."""
        messages = []
        with _errors_of("confluent_kafka"):
            for found in self._consumer.consume(limit, self.WAIT_SECONDS):
                if found.error() is not None:
                    raise OSError(f"Kafka: {found.error().str()}")
                self._next[found.partition()] = found.offset() + 1
                messages.append(Message(json.dumps(self._next), found.value() or b""))
        return messages

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Commit offsets to the broker, where monitors of the lag look."""
        import confluent_kafka as kafka

        offsets = json.loads(messages[-1].position)
        places = [kafka.TopicPartition(self.topic, int(n), at) for n, at in offsets.items()]
        with _errors_of("confluent_kafka"):
            self._consumer.commit(offsets=places, asynchronous=True)

    def refuse(self, message: Message, reason: str) -> None:
        import confluent_kafka as kafka

        with _errors_of("confluent_kafka"):
            producer = kafka.Producer(self._config)
            headers: list[tuple[str, str | bytes | None]] = [("reason", reason)]
            key = f"{self.topic}/{message.position}"
            producer.produce(f"{self.topic}.refused", message.body, key=key, headers=headers)
            if producer.flush(self.CONNECT_SECONDS):
                raise OSError(f"Kafka: {self.topic}.refused cannot be written")

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


@contextmanager
def _errors_of(package: str) -> Iterator[None]:
    """Raise the errors of a client library as OSError."""
    library = import_module(package)
    kind = library.RedisError if package == "redis" else library.KafkaException
    try:
        yield
    except kind as error:
        raise OSError(f"{package}: {error}") from error
