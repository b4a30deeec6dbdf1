"""The short way: plain requests that came whole are answered where they arrive.

uvicorn makes a task, an event and a scope for every request, which costs several times what it
costs to predict, or to hand on what is to be learned. Its protocol is kept for everything else:
other paths, and whatever is not plain.
"""

from __future__ import annotations

from asyncio import TimerHandle, Transport
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from romco.server.guards import carried
from romco.server.heads import Head, Heads
from romco.server.lanes import Lane, is_free

SHORT = b"POST /v1/predict HTTP/1.1\r\n"
LEARN = b"POST /v1/learn HTTP/1.1\r\n"
END = b"\r\n\r\n"
LONGEST_HEAD, LONGEST_BODY = 1 << 13, 1 << 16  # beyond, a task more or less costs nothing
PATIENCE = 60.0  # seconds that a request may take to arrive
MOST_HEADERS = 1 << 16  # bytes of the path and of all header lines

AHEAD = 1 << 16  # bytes that a client may send before it has the answer to what it sent before

Short = Callable[[Head, bytes], tuple[int, bytes]]
Tell = Callable[[int, bytes], object]


class Later(NamedTuple):
    """What answers requests to learn: ``begin(head, body, tell)``, which calls ``tell`` in time."""

    heads: Heads
    begin: Callable[[Head, bytes, Tell], None]


@final
class Wire(HttpToolsProtocol):
    """A connection; ``short`` answers predictions, by status and body, without waiting.

    What a client sends while something of its own is ``later`` learned waits. A client that sends
    nothing, or less than a whole request, is waited for only so long.
    """

    def __init__(
        self, short: Short, heads: Heads, lane: Lane, later: Later, longest: int, **options: Any
    ) -> None:
        super().__init__(**options)
        self._short, self._heads, self._lane, self._later = short, heads, lane, later
        self.learning = False  # an answer is under way
        self._last = False  # after which the connection is closed
        self._ahead = bytearray()  # what came meanwhile
        self._longest = min(longest, LONGEST_BODY)
        self.begun = bytearray()  # of a plain request whose rest has not come
        self._needed = 0  # bytes of all of it
        self.within = self._in_head = False  # a request that goes the long way, its header lines
        self._head_size = 0  # bytes of them so far
        self._began = False  # a request, in what came last
        self.refused = False  # what came after a request under way was no HTTP
        self.file = -1  # descriptor of the socket
        self.active = 0.0  # when the last answer was given the short way
        self._late: TimerHandle | None = None  # runs while a request is incomplete
        self._said: tuple[Any, dict[int, bytes]] = None, {}  # what answers begin with, by status

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Somebody has come, who may be silent no longer than between two requests."""
        super().connection_made(transport)
        line = transport.get_extra_info("socket")
        self.file = -1 if line is None else line.fileno()
        self._wait(self.timeout_keep_alive)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody waits any longer."""
        self._unset_keepalive_if_required()
        self._hurry(False)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer predictions, learn; let uvicorn go on with all else."""
        if self.learning:
            self._ahead += data
            if len(self._ahead) > AHEAD:
                self.flow.pause_reading()
            return
        rest = self._lane.serve(self, data)
        if rest is None:
            return
        data, at = rest, 0
        if self.begun:
            self.begun += data
            if len(self.begun) < self._needed:
                return
            data = bytes(self.begun)
            self.begun.clear()
        if is_free(self):
            at = self._answer_all(data)
            at = at if self.begun else self._learn_next(data, at)
        if at < len(data) and not self.begun and not self.refused:
            self._go_long(data[at:] if at else data)
        if self._late is not None or self.within or self.begun:
            self._hurry(self.within or bool(self.begun))

    def on_message_begin(self) -> None:
        """A request goes the long way."""
        self.within, self._in_head, self._head_size, self._began = True, True, 0, True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """One line; there is an end to how many they may be."""
        self._head_size += len(name) + len(value) + len(END)
        if self._head_size > MOST_HEADERS:
            raise ValueError("too long")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """What follows is the body."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """All of it has come."""
        self.within = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """If what came next was no HTTP, say so now."""
        super().on_response_complete()
        if self.refused and self.cycle.response_complete:
            self._refuse()

    def send_400_response(self, msg: str) -> None:
        """What came is no HTTP: told after the answers to all that came before."""
        self.refused = True
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and (self._in_head or not self.within):
            self.flow.pause_reading()
        else:
            self._refuse()

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless something was answered the short way meanwhile."""
        rest = self.active + self.timeout_keep_alive - self.loop.time()
        if self.learning:
            self._wait(self.timeout_keep_alive)
        elif rest > 0.0:
            self._wait(rest)
        elif self._late is None:
            super().timeout_keep_alive_handler()
        else:  # begun again when what comes is answered
            self.timeout_keep_alive_task = None

    def shutdown(self) -> None:
        """Close, but not before what is under way is answered."""
        if self.learning:
            self._last = True
        else:
            super().shutdown()

    def _go_long(self, data: bytes) -> None:
        in_head, self._began = self._in_head, False
        super().data_received(data)
        if in_head and self._in_head and not self._began and not self.refused:
            self._head_size += len(data)  # within a line, of which on_header is not told yet
            if self._head_size > MOST_HEADERS:
                self.send_400_response("too long")

    def _refuse(self) -> None:
        """Tell that a request is none, and close."""
        long = self._head_size > MOST_HEADERS
        self._close(431, LONG) if long else self._close(400, BAD)

    def _close(self, status: int, data: bytes) -> None:
        """The last answer of a connection, unless one is under way."""
        if not self.transport.is_closing():
            if (
                self.cycle is None
                or self.cycle.response_complete
                or not self.cycle.response_started
            ):
                closing = [*self.server_state.default_headers, (b"connection", b"close")]
                text = first(status, closing) + b"%d\r\n\r\n%b" % (len(data), data)
                self.transport.write(text)
            self.transport.close()

    def _answer_all(self, data: bytes) -> int:
        """Answer the predictions that come first; gives where the rest begins."""
        told: list[bytes] = []
        at = 0
        while (after := self._answer_next(data, at, told)) > at:
            at = self._lane.answer(data, after, self.begin_with(200), told)
        if told:
            self._say(told)
        return at

    def _answer_next(self, data: bytes, at: int, told: list[bytes]) -> int:
        """The same of one prediction, if there is one; of which only a part has come is kept."""
        found = self._find(data, at, SHORT, self._heads)
        if found is None:
            return at
        head, begin, stop = found
        status, answer = self._short(head, data[begin:stop])
        told.append(self._whole(status, answer))
        return stop

    def _learn_next(self, data: bytes, at: int) -> int:
        """Have the request learned that begins at ``at``, if it is one; what follows it waits."""
        found = self._find(data, at, LEARN, self._later.heads)
        if found is None:
            return at
        head, begin, stop = found
        self.learning, self._ahead = True, bytearray(data[stop:])
        self._later.begin(head, data[begin:stop], self._tell)
        return len(data)

    def _tell(self, status: int, answer: bytes) -> None:
        """It was learned, or not; go on with what came meanwhile."""
        self.learning = False
        if self.transport.is_closing():
            return
        self._say([self._whole(status, answer)])
        if self._last:
            self.transport.close()
            return
        self.flow.resume_reading()
        ahead, self._ahead = bytes(self._ahead), bytearray()
        if ahead:
            self.data_received(ahead)

    def _find(
        self, data: bytes, at: int, start: bytes, heads: Heads
    ) -> tuple[Head, int, int] | None:
        """Head and body of the plain request that begins so; only a part of one is kept."""
        if not data.startswith(start, at):
            if start.startswith(data[at:]):
                self._begin(data, at, 1 + len(data))
            return None
        end = data.find(END, at, at + LONGEST_HEAD)
        if end < 0 and len(data) - at < LONGEST_HEAD:  # the rest of it is on its way
            self._begin(data, at, 1 + len(data))
            return None
        head = None if end < 0 else heads.read(data[at + len(start) : end + 2])
        if head is None or head.length > self._longest:
            return None
        begin, stop = end + len(END), end + len(END) + head.length
        if stop > len(data):
            self._begin(data, at, stop)
            return None
        return head, begin, stop

    def _whole(self, status: int, answer: bytes) -> bytes:
        return self.begin_with(status) + b"%d\r\n\r\n%b" % (len(answer), answer)

    def _begin(self, data: bytes, at: int, stop: int) -> None:
        """Wait for more of a plain request, up to ``stop`` at least."""
        self.begun, self._needed = bytearray(data[at:]), stop - at

    def _say(self, told: list[bytes]) -> None:
        """Write all answers at once."""
        self.transport.write(b"".join(told))
        self.server_state.total_requests += len(told)
        self.active = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait(self.timeout_keep_alive)

    def begin_with(self, status: int) -> bytes:
        """All of an answer up to its length; the date is the only thing in it that changes."""
        carries = self.server_state.default_headers  # made anew when the date changes
        if self._said[0] is not carries:
            self._said = carries, {}
        said = self._said[1]
        if status not in said:
            said[status] = first(status, carries)
        return said[status]

    def _wait(self, seconds: float) -> None:
        wait = self.loop.call_later(seconds, self.timeout_keep_alive_handler)
        self.timeout_keep_alive_task = wait

    def _hurry(self, incomplete: bool) -> None:
        """Wait for the rest of a request, but not for ever."""
        if not incomplete and self._late is not None:
            self._late.cancel()
            self._late = None
        elif incomplete and self._late is None:
            self._late = self.loop.call_later(PATIENCE, self._give_up)

    def _give_up(self) -> None:
        """The rest of a request did not come in time."""
        self._close(408, LATE)


LATE = b'{"error":"the rest of the request did not come in time"}'
LONG = b'{"error":"the path and the header lines are longer than 65,536 bytes"}'
BAD = b'{"error":"this is no HTTP request"}'


def first(status: int, given: list[tuple[bytes, bytes]]) -> bytes:
    """Status and headers of an answer, up to its length."""
    carries = [*given, *carried(status, 0)]
    fields = [(name, value) for name, value in carries if name != b"content-length"]
    line = b"HTTP/1.1 %d %b\r\n" % (status, HTTPStatus(status).phrase.encode())
    return b"".join([line, *(b"%b: %b\r\n" % field for field in fields), b"content-length: "])
