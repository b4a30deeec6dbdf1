"""Reader of a stream: learns each of its messages once, in order."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from romco.server.protocol import RequestError, StoppedError, parse
from romco.server.writer import Service
from romco.streams.brokers import EventSource, Message

LOG = logging.getLogger("romco.server")
PAUSE_SECONDS = 0.5  # before what failed is tried again, doubled up to MAX_PAUSE_SECONDS
MAX_PAUSE_SECONDS = 10.0
READ_MESSAGES = 64  # at a time


class SourceReader:
    """Reads a source in a thread and hands it to the service, each message once, in order."""

    def __init__(self, source: EventSource, service: Service) -> None:
        self._source, self._service = source, service
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="romco-source", daemon=True)
        self._thread.start()

    def stop(self, seconds: float = 10.0) -> None:
        """Stop reading; what was read is learned, or will be read again."""
        self._stop.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        pause = PAUSE_SECONDS
        while not self._stop.is_set():
            try:
                self._source.open(self._service.positions.get(self._source.name))
                while not self._stop.is_set():
                    if messages := self._source.read(READ_MESSAGES):
                        self._take(messages)
                    pause = PAUSE_SECONDS
            except StoppedError:
                return
            except Exception as error:  # of a broker, or the service is busy
                LOG.warning("the source %s: %r; trying again", self._source.name, error)
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
                    self._service.learn([], self._source.name, message.position).result()
        self._source.acknowledge(messages)

    def _learn(self, messages: Sequence[Message]) -> None:
        body = self._service.message_body
        requests = list[Any]()
        for message in messages:
            requests += parse(message.body, body)[0]
        self._service.learn(requests, self._source.name, messages[-1].position).result()
