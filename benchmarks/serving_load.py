"""Load on a server: requests made before, sent over plain sockets, and what they cost it.

One process and one thread keep all connections, so that the load costs as little as it can of the
processors that it shares with the server; the same code loads every system.
"""

from __future__ import annotations

import os
import re
import select
import socket
import threading
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)
END = b"\r\n\r\n"


class Served(NamedTuple):
    """A server's port, and the process whose processor time is counted, with its children."""

    port: int
    process: int


class Speed(NamedTuple):
    """Events per second by the clock on the wall, and per second of the server's processor time.

    Where others use the machine too, only the second says what the server can do.
    """

    wall: float
    cpu: float

    def times(self, n: int) -> Speed:
        return Speed(n * self.wall, n * self.cpu)


def line_to(port: int) -> socket.socket:
    """A connection."""
    line = socket.create_connection(("127.0.0.1", port), timeout=60.0)
    line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return line


class Load:
    """Requests over some connections for some seconds; each waits for the answer to the last."""

    def __init__(self, requests: list[bytes], connections: int, seconds: float) -> None:
        self.requests, self.connections, self.seconds = requests, connections, seconds
        self.times: list[float] = []
        self._next = 0

    def go(self, port: int) -> None:
        """Send, and note the time of each request."""
        poll, clock = select.epoll(), time.perf_counter
        lines: dict[int, socket.socket] = {}
        since: dict[int, float] = {}
        got: dict[int, bytes] = {}

        def begin(line: socket.socket) -> None:
            since[line.fileno()] = clock()
            line.sendall(self.requests[self._next % len(self.requests)])
            self._next += 1

        def open_line(since_then: float | None = None) -> None:
            line = line_to(port)
            lines[line.fileno()], got[line.fileno()] = line, b""
            poll.register(line.fileno(), select.EPOLLIN)
            begin(line)
            if since_then is not None:  # to connect is part of what the client waits for
                since[line.fileno()] = since_then

        for _ in range(self.connections):
            open_line(clock())
        end = clock() + self.seconds
        while clock() < end:
            for file, _ in poll.poll(1.0):
                line = lines[file]
                data = got[file] + line.recv(1 << 18) if got[file] else line.recv(1 << 18)
                last = whole(data)
                if last is None:
                    got[file] = data
                    continue
                got[file] = b""
                now = clock()
                self.times.append(now - since[file])
                if last:
                    poll.unregister(file)
                    del lines[file]
                    line.close()
                    open_line(now)
                else:
                    begin(line)
        for line in lines.values():
            line.close()
        poll.close()


def whole(data: bytes) -> bool | None:
    """Whether the server closes after this answer; None while the answer is not whole."""
    end = data.find(END)
    if end < 0:
        return None
    found = LENGTH.search(data, 0, end)
    if found is None or data[9:12] != b"200":
        raise RuntimeError(data[:1000].decode())
    if len(data) < end + 4 + int(found[1]):
        return None
    return data.find(b"onnection: close", 0, end) >= 0 or data.startswith(b"HTTP/1.0")


def rate(at: Served, requests: list[bytes], connections: int, seconds: float) -> Speed:
    """Requests per second over some connections."""
    load, before, begin = (
        Load(requests, connections, seconds),
        spent(at.process),
        time.perf_counter(),
    )
    load.go(at.port)
    wall = len(load.times) / (time.perf_counter() - begin)
    return Speed(wall, len(load.times) / max(spent(at.process) - before, 0.01))


class Client:
    """One client with one connection, to a server of HTTP or of lines.

    ``last`` is what an answer ends with and has nowhere else, ``mark`` what each has once.
    """

    def __init__(self, at: Served, last: bytes, mark: bytes) -> None:
        self.at, self.last, self.mark = at, last, mark
        self.line = line_to(at.port)

    def one_by_one(self, requests: list[bytes], seconds: float) -> Speed:
        """Each waits for the answer to the last."""
        send, receive, last = self.line.sendall, self.line.recv, self.last
        before, begin, n = spent(self.at.process), time.perf_counter(), 0
        while time.perf_counter() - begin < seconds:
            for _ in range(50):
                send(requests[n % len(requests)])
                while not receive(1 << 16).endswith(last):
                    pass
                n += 1
        wall = n / (time.perf_counter() - begin)
        return Speed(wall, n / max(spent(self.at.process) - before, 0.01))

    def streamed(self, requests: list[bytes], seconds: float) -> Speed:
        """All are sent without waiting, and the answers read as they come."""
        before, begin, rates, n = spent(self.at.process), time.perf_counter(), [], 0
        while time.perf_counter() - begin < seconds:
            rates.append(self.stream(requests))
            n += len(requests)
        return Speed(median(rates), n / max(spent(self.at.process) - before, 0.01))

    def stream(self, requests: list[bytes]) -> float:
        """Requests per second."""
        sender = threading.Thread(target=self.line.sendall, args=(b"".join(requests),))
        begin, n, data = time.perf_counter(), 0, b""
        sender.start()
        while n < len(requests) or not data.endswith(self.last):
            kept = data[len(data) - len(self.mark) + 1 :]  # of a mark that came in two parts
            received = self.line.recv(1 << 18)
            if not received:
                raise RuntimeError("the server has gone")
            data = kept + received
            n += data.count(self.mark)
        sender.join()
        return len(requests) / (time.perf_counter() - begin)


def spent(process: int) -> float:
    """Seconds of processor time of a process and of its children."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:  # it has ended meanwhile
        return 0.0
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(spent(int(child)) for child in children)
