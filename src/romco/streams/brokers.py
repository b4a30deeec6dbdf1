"""Brokers as sources of events: Redis Streams, Kafka."""

import json
from collections.abc import Mapping, Sequence
from importlib import import_module
from operator import attrgetter
from typing import Any, ClassVar, NamedTuple, Protocol
from urllib.parse import parse_qs, urlsplit, urlunsplit


class Message(NamedTuple):
    """Position of a message in its stream, and its body: that of a request to learn."""

    position: str
    body: bytes


class EventSource(Protocol):
    """Stream that can be read again from any position.

    The position of what was learned is stored in the same transaction as the change, so a source
    needs to keep none. Where a method raises, the source is closed and opened again after a pause.
    """

    name: str  # under which its position is stored

    def open(self, after: str | None) -> None:
        """Connect; the next message is the one after a position, or the first."""

    def read(self, limit: int) -> Sequence[Message]:
        """Return the next messages; wait a moment if there is none."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Let go of messages that are durable here."""

    def refuse(self, message: Message, reason: str) -> None:
        """Put a message that cannot be learned where people find it, once."""

    def close(self) -> None:
        """Disconnect."""


def open_source(url: str) -> EventSource:
    """Return the source of an address.

    >>> open_source("ftp://host")
    Traceback (most recent call last):
    ...
    ValueError: expected redis://host:port/db?stream=NAME&group=GROUP or kafka://host:port/TOPIC
    """
    kinds: dict[str, Any] = {"redis": RedisStream, "rediss": RedisStream, "kafka": KafkaTopic}
    try:
        source: EventSource = kinds[urlsplit(url).scheme](url)
        return source
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
        self.stream, self.group = query["stream"][0], query.get("group", ["romco"])[0]
        self.name = f"redis:{self.stream}"
        self._library, address = import_module("redis"), urlunsplit(parts._replace(query=""))
        self._redis = self._library.Redis.from_url(address, socket_timeout=30.0, protocol=2)

    def open(self, after: str | None) -> None:
        try:
            self._redis.xgroup_create(self.stream, self.group, after or "0", mkstream=True)
        except self._library.ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise
            self._redis.xgroup_setid(self.stream, self.group, after or "0")

    def read(self, limit: int) -> Sequence[Message]:
        """Return the next entries; one without the field ``event`` has an empty body."""
        reader, streams = (self.group, self.CONSUMER), {self.stream: ">"}
        reply = self._redis.xreadgroup(*reader, streams, count=limit, block=self.BLOCK_MS)
        messages = []
        for _, entries in reply or ():
            for key, fields in entries:
                messages.append(Message(key.decode(), fields.get(self.FIELD, b"")))
        return messages

    def acknowledge(self, messages: Sequence[Message]) -> None:
        self._redis.xack(self.stream, self.group, *list(map(attrgetter("position"), messages)))

    def refuse(self, message: Message, reason: str) -> None:
        fields = {self.FIELD: message.body, "reason": reason}
        try:
            self._redis.xadd(f"{self.stream}:refused", fields, id=message.position)
        except self._library.ResponseError as error:
            if "equal or smaller" not in str(error):  # it is there already
                raise

    def close(self) -> None:
        self._redis.close()


class KafkaTopic:
    """Kafka topic ``kafka://host:port/TOPIC?group=GROUP``; each value is the body of a request.

    The position is the next offset of each partition, as JSON; the broker's own offsets are only
    set for those who watch the lag. What cannot be learned goes to ``TOPIC.refused``, with
    the position as its key; after a kill it may be there twice.
    """

    WAIT_SECONDS = 0.5
    CONNECT_SECONDS = 10.0
    CONSUMING: ClassVar[dict[str, Any]] = {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "earliest",
    }

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.topic = parts.path.strip("/")
        if not self.topic or not parts.netloc:
            raise KeyError("topic")
        self.name = f"kafka:{self.topic}"
        self._group = parse_qs(parts.query).get("group", ["romco"])[0]
        self._config = {"bootstrap.servers": parts.netloc, "session.timeout.ms": 6000}
        self._library: Any = import_module("confluent_kafka")
        self._consumer: Any = None
        self._next: dict[int, int] = {}  # offset of the next message, by partition

    def open(self, after: str | None) -> None:
        self._next = {int(key): offset for key, offset in json.loads(after or "{}").items()}
        config = {**self._config, **self.CONSUMING, "group.id": self._group}
        self._consumer = self._library.Consumer(config)
        topics = self._consumer.list_topics(self.topic, self.CONNECT_SECONDS).topics
        begin = dict.fromkeys(topics[self.topic].partitions, self._library.OFFSET_BEGINNING)
        self._consumer.assign(self._places(begin | self._next))

    def _places(self, offsets: Mapping[Any, int]) -> list[Any]:
        place = self._library.TopicPartition
        return [place(self.topic, int(partition), at) for partition, at in offsets.items()]

    def read(self, limit: int) -> Sequence[Message]:
        """Return the next messages; each position holds the offsets of all partitions."""
        messages = []
        for message in self._consumer.consume(limit, self.WAIT_SECONDS):
            if message.error() is not None:
                raise OSError(f"Kafka: {message.error().str()}")
            self._next[message.partition()] = message.offset() + 1
            messages.append(Message(json.dumps(self._next), message.value() or b""))
        return messages

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Commit offsets to the broker, where monitors of the lag look."""
        places = self._places(json.loads(messages[-1].position))
        self._consumer.commit(offsets=places, asynchronous=True)

    def refuse(self, message: Message, reason: str) -> None:
        producer, topic = self._library.Producer(self._config), f"{self.topic}.refused"
        key = f"{self.topic}/{message.position}"
        producer.produce(topic, message.body, key=key, headers=[("reason", reason)])
        if producer.flush(self.CONNECT_SECONDS):
            raise OSError(f"Kafka: {topic} cannot be written")

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
