"""The short way for predictions: a plain request that came whole is answered where it arrives.

uvicorn makes a task, an event and a scope for every request, which costs several times what a
prediction does. Its protocol is kept for everything else: other paths, and whatever is not plain.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, NamedTuple, final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from romco.service.guards import Headers, carried

SHORT = b"POST /v1/predict HTTP/1.1\r\n"
END = b"\r\n\r\n"
LONGEST_HEAD, LONGEST_BODY = 1 << 13, 1 << 16  # beyond, a task more or less costs nothing
PLAIN = re.compile(rb"(?:[A-Za-z0-9-]+:[ -~]*\r\n)+")
FIELD = re.compile(rb"([A-Za-z0-9-]+):[ ]*([ -~]*?)[ ]*\r\n")
LENGTH = re.compile(rb"[0-9]{1,9}")
# What tells the length in another way, asks for something else, or is none of ours.
UNUSUAL = {b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te", b"content-encoding"}

Short = Callable[[Headers, bytes], tuple[int, bytes]]


class Head(NamedTuple):
    """The fields of a plain request, names in lower case, and how long its body is."""

    headers: Headers
    length: int


def plain(head: bytes) -> Head | None:
    r"""Read the header lines of a request; None if anything about them is out of the ordinary.

    >>> plain(b"Host: here\r\nContent-Length: 12\r\n")
    Head(headers=[(b'host', b'here'), (b'content-length', b'12')], length=12)
    >>> plain(b"Content-Length: 12\r\nTransfer-Encoding: chunked\r\n") is None
    True
    """
    if PLAIN.fullmatch(head) is None:
        return None
    headers = [(name.lower(), value) for name, value in FIELD.findall(head)]
    fields = dict(headers)
    length = fields.get(b"content-length", b"")
    if len(fields) < len(headers) or not UNUSUAL.isdisjoint(fields) or not LENGTH.fullmatch(length):
        return None
    if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return Head(headers, int(length))


@final
class Wire(HttpToolsProtocol):
    """A connection; ``short`` answers predictions, by status and body, without waiting."""

    def __init__(self, short: Short, longest: int, **options: Any) -> None:
        super().__init__(**options)
        self._short, self._longest = short, min(longest, LONGEST_BODY)
        self._begun = bytearray()  # of a plain request whose rest has not come
        self._last = b"", plain(b"")  # header lines are alike from one request to the next
        self._within = False  # a request that goes the long way

    def data_received(self, data: bytes) -> None:
        """Answer a prediction, or let uvicorn go on."""
        if self._begun:
            self._begun += data
            data = bytes(self._begun)
        if not self._is_free() or not data.startswith(SHORT[: len(data)]):
            self._go_long(data)
            return
        end = data.find(END, 0, LONGEST_HEAD)
        head = None if end < 0 else self._read(data[len(SHORT) : end + 2])
        missing = -1 if head is None else end + len(END) + head.length - len(data)
        if head is None or missing < 0 or head.length > self._longest:
            self._go_long(data)
        elif missing > 0:
            self._begun = self._begun or bytearray(data)
        else:
            self._begun.clear()
            self._unset_keepalive_if_required()
            self._answer(*self._short(head.headers, data[end + len(END) :]))

    def on_message_begin(self) -> None:
        """A request goes the long way."""
        self._within = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """All of it has come."""
        self._within = False
        super().on_message_complete()

    def _is_free(self) -> bool:
        """Whether nothing goes the long way, nobody is too slow to read, and there is room."""
        limit = self.limit_concurrency
        return (
            not self._within
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and (limit is None or len(self.connections) < limit)
        )

    def _go_long(self, data: bytes) -> None:
        self._begun.clear()
        super().data_received(data)

    def _read(self, head: bytes) -> Head | None:
        if head != self._last[0]:
            self._last = head, plain(head)
        return self._last[1]

    def _answer(self, status: int, data: bytes) -> None:
        lines = [b"HTTP/1.1 %d %s\r\n" % (status, HTTPStatus(status).phrase.encode())]
        for name, value in (*self.server_state.default_headers, *carried(status, len(data))):
            lines += [name, b": ", value, b"\r\n"]
        self.transport.write(b"".join([*lines, b"\r\n", data]))
        self.on_response_complete()
