"""Redis Streams as a source, read by a consumer group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final
from urllib.parse import parse_qs, urlsplit, urlunsplit

import redis
from redis.exceptions import RedisError, ResponseError

from romco.server.sources import Message

FIELD = b"event"  # of an entry: the body of a request to learn, as JSON
BLOCK = 500  # milliseconds that a read waits
CONSUMER = "romco"


@final
class RedisStream:
    """``redis://host:port/db?stream=NAME&group=GROUP``.

    The group is set to the position that the service stored whenever it is opened, so that what
    Redis believes to be delivered does not matter. What cannot be learned is copied to the stream
    ``NAME:refused``, under the id it had.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        query = parse_qs(parts.query)
        if parts.scheme not in ("redis", "rediss") or "stream" not in query:
            raise ValueError("expected redis://host:port/db?stream=NAME&group=GROUP")
        self.stream = query["stream"][0]
        self.group = query.get("group", ["romco"])[0]
        self.name = f"redis:{self.stream}"
        self._url = urlunsplit(parts._replace(query=""))
        self._redis: Any = None

    def open(self, after: str | None) -> None:
        """Connect, make the group if there is none, and set it to a position."""
        try:
            self._redis = redis.Redis.from_url(self._url, socket_timeout=30.0)
            try:
                self._redis.xgroup_create(self.stream, self.group, after or "0", mkstream=True)
            except ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise
                self._redis.xgroup_setid(self.stream, self.group, after or "0")
        except RedisError as error:
            raise OSError(f"Redis: {error}") from error

    def read(self, most: int) -> Sequence[Message]:
        """The next entries; one without the field ``event`` has an empty body."""
        try:
            found = self._redis.xreadgroup(
                self.group, CONSUMER, {self.stream: ">"}, count=most, block=BLOCK
            )
        except RedisError as error:
            raise OSError(f"Redis: {error}") from error
        entries = _entries(found)
        return [Message(key.decode(), fields.get(FIELD, b"")) for key, fields in entries]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Redis may let them go."""
        try:
            self._redis.xack(self.stream, self.group, *[message.position for message in messages])
        except RedisError as error:
            raise OSError(f"Redis: {error}") from error

    def refuse(self, message: Message, reason: str) -> None:
        """Copy it to ``NAME:refused``; an id that is there already is not added again."""
        fields = {FIELD: message.body, "reason": reason}
        try:
            self._redis.xadd(f"{self.stream}:refused", fields, id=message.position)
        except ResponseError as error:
            if "equal or smaller" not in str(error):
                raise OSError(f"Redis: {error}") from error
        except RedisError as error:
            raise OSError(f"Redis: {error}") from error

    def close(self) -> None:
        """Disconnect."""
        if self._redis is not None:
            self._redis.close()
            self._redis = None


def _entries(found: Any) -> list[tuple[bytes, dict[bytes, bytes]]]:
    """The entries of the one stream that was asked for, as either protocol gives them."""
    if not found:
        return []
    if isinstance(found, dict):
        (nested,) = found.values()
        return [entry for some in nested for entry in some]
    ((_, entries),) = found
    return list(entries)
