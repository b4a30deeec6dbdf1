"""Streams as a source of events: what any broker must give, and who reads it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple, Protocol, final

from romco.server.answers import Refused
from romco.server.drafts import Lesson, Outcome
from romco.server.journals import Full
from romco.server.requests import BadRequest, Reader
from romco.server.stores import Store
from romco.server.writers import Busy, Stopped

LOG = logging.getLogger(__name__)
PAUSE = 0.5  # seconds before what failed is tried again, doubled up to LONGEST
LONGEST = 10.0
MOST = 256  # messages read at a time


class Message(NamedTuple):
    """One message: where it stands in its stream, and the body of a request to learn."""

    position: str
    body: bytes


class EventSource(Protocol):
    """A stream that can be read again from any position.

    Positions are texts that rise along the stream. The service stores the position of what it
    has learned together with it, so a source needs to keep none; it is told by
    :meth:`acknowledge` what is safe to let go.
    """

    name: str  # under which its position is stored

    def open(self, after: str | None) -> None:
        """Connect; the next message read is the one after a position, or the first."""

    def read(self, most: int) -> Sequence[Message]:
        """The next messages; waits a moment if there is none. Raises OSError if it is away."""

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """These are durable here."""

    def refuse(self, message: Message, reason: str) -> None:
        """Take one that cannot be learned: it is put where people find it, once."""

    def close(self) -> None:
        """Disconnect."""


@final
class Feeder:
    """Reads a source and hands it to the writer, each message once, in order."""

    def __init__(self, source: EventSource, store: Store) -> None:
        self.learned = self.refused = 0  # messages
        self.trouble: str | None = None
        self._source, self._store = source, store
        self._reader = Reader(store.settings.limits)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="romco-source", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop reading; what was read is learned or will be read again."""
        self._stop.set()
        self._thread.join(seconds)

    @property
    def position(self) -> str | None:
        """Where the last message stood that was learned or refused."""
        return self._store.live.positions.get(self._source.name)

    def _run(self) -> None:
        pause = PAUSE
        while not self._stop.is_set():
            try:
                self._source.open(self.position)
                self.trouble, pause = None, PAUSE
                while not self._stop.is_set():
                    self._take(self._source.read(MOST))
            except Stopped:
                return
            except (OSError, Busy) as error:
                self.trouble = str(error)
                LOG.warning("the source %s: %s; trying again", self._source.name, error)
                self._stop.wait(pause)
                pause = min(2.0 * pause, LONGEST)
            finally:
                self._source.close()

    def _take(self, messages: Sequence[Message]) -> None:
        """Learn messages together; if one is bad, one by one."""
        if not messages:
            return
        try:
            lessons = [lesson for message in messages for lesson in self._read(message)]
            self._wait(self._learn(lessons, messages[-1].position))
        except (Refused, BadRequest):
            for message in messages:
                self._take_one(message)
        else:
            self.learned += len(messages)
        self._source.acknowledge(messages)

    def _take_one(self, message: Message) -> None:
        try:
            self._wait(self._learn(self._read(message), message.position))
            self.learned += 1
        except (Refused, BadRequest) as error:
            self._source.refuse(message, error.reason)
            self._wait(self._learn([], message.position))  # what was refused is passed by
            self.refused += 1

    def _read(self, message: Message) -> list[Lesson]:
        return self._reader.lessons(message.body)[0]

    def _learn(self, lessons: list[Lesson], position: str) -> Future[list[Outcome]]:
        return self._store.writer.learn(lessons, self._source.name, position)

    def _wait(self, future: Future[list[Outcome]]) -> None:
        try:
            future.result()
        except Full as error:
            raise OSError(error.errno, "no room on the disk") from error
