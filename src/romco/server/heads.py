"""Header lines of plain requests, and what follows from them before the body is looked at."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, final

from romco.server.guards import Headers

PLAIN = re.compile(rb"(?:[A-Za-z0-9-]+:[ -~]*\r\n)+")
FIELD = re.compile(rb"([A-Za-z0-9-]+):([ -~]*)\r\n")  # no part of it can be matched in two ways
LENGTH = re.compile(rb"[0-9]{1,9}")
# What tells the length in another way, asks for something else, or is none of ours.
UNUSUAL = {b"transfer-encoding", b"expect", b"upgrade", b"trailer", b"te", b"content-encoding"}
KEPT = 1024  # heads that are known at a time

Refusal = tuple[int, bytes]  # status and body of an answer to a request that may not come in


class Plain(NamedTuple):
    """The fields of a plain request, names in lower case, and how long its body is."""

    headers: Headers
    length: int


class Head(NamedTuple):
    """How long the body of a request is, and why the request is refused, if it is."""

    length: int
    refusal: Refusal | None


def plain(head: bytes) -> Plain | None:
    r"""Read the header lines of a request; None if anything about them is out of the ordinary.

    >>> plain(b"Host: here\r\nContent-Length: 12\r\n")
    Plain(headers=[(b'host', b'here'), (b'content-length', b'12')], length=12)
    >>> plain(b"Content-Length: 12\r\nTransfer-Encoding: chunked\r\n") is None
    True
    """
    if PLAIN.fullmatch(head) is None:
        return None
    headers = [(name.lower(), value.strip(b" ")) for name, value in FIELD.findall(head)]
    fields = dict(headers)
    length = fields.get(b"content-length", b"")
    if len(fields) < len(headers) or not UNUSUAL.isdisjoint(fields) or not LENGTH.fullmatch(length):
        return None
    if fields.get(b"connection", b"keep-alive").lower() != b"keep-alive":
        return None
    return Plain(headers, int(length))


@final
class Heads:
    r"""Heads by their bytes: clients send the same few again and again.

    ``refusal`` says of headers why they are refused. A head that carries a secret is judged each
    time anew: whether it was kept could else be told by the time it takes.

    >>> heads = Heads(lambda headers: None)
    >>> heads.read(b"Host: here\r\nContent-Length: 12\r\n")
    Head(length=12, refusal=None)
    """

    def __init__(self, refusal: Callable[[Headers], Refusal | None]) -> None:
        self._refusal = refusal
        self.kept: dict[bytes, Head | None] = {}

    def read(self, head: bytes) -> Head | None:
        """What is known of a request by its header lines; None if they are not plain."""
        try:
            return self.kept[head]
        except KeyError:
            return self._judge(head)

    def _judge(self, head: bytes) -> Head | None:
        found = plain(head)
        judged = None if found is None else Head(found.length, self._refusal(found.headers))
        if found is None or b"authorization" not in dict(found.headers):
            if len(self.kept) >= KEPT:
                self.kept.clear()
            self.kept[head] = judged
        return judged
