"""A million requests: memory and descriptors stay where they were."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
from pathlib import Path

import pytest

from romco.server import Client
from tests.server.processes import Process

REQUESTS = int(os.environ.get("ROMCO_SOAK", "1000000"))
CLIENTS, TASKS, PENDING, IDS = 64, 100, 500, 2000
BURST = 8  # requests that a client sends before it reads their answers
LOOKS = ("/v1/tasks?limit=10", "/v1/tasks/user1", "/metrics", "/healthz", "/", "/nowhere")
LENGTH = re.compile(rb"content-length: (\d+)")


def memory(process: int) -> int:
    """Bytes in use."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def descriptors(process: int) -> int:
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def request(k: int) -> bytes:
    """Predictions that wait, answers to most of them, whole events, bad requests, looks."""
    task, kind = f"user{k % TASKS}", k % BURST
    x = {f"f{(k * 7 + j) % 50}": (k % 13) / 7.0 - 0.9 for j in range(5)}
    if k % 128 == 7:
        return f"GET {LOOKS[k // 128 % len(LOOKS)]} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
    path, body = "/v1/predict", {"task": task, "x": x, "id": f"p{k}"}
    if kind in (3, 4):
        path, body = "/v1/learn", {"id": f"p{k - 3}", "y": k % 2}
    elif kind == 5:
        path, body = "/v1/learn", {"id": f"w{k}", "task": task, "x": x, "y": k % 2}
    elif kind == 6:
        body = {"task": task, "x": "nonsense"}
    elif kind == 7:
        body = {"task": task, "x": x}
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


class Burst:
    """A client: one burst after the other, over connections that come and go."""

    def __init__(self, port: int, firsts: range) -> None:
        self.port, self.firsts, self.sent = port, iter(firsts), 0
        self.line: socket.socket | None = None
        self.data, self.answers = b"", 0

    def send(self) -> bool:
        """Send the next burst; False if there is none."""
        first = next(self.firsts, None)
        if first is None or self.sent % 50 == 0:
            self.close()
        if first is None:
            return False
        if self.line is None:
            self.line = socket.create_connection(("127.0.0.1", self.port), timeout=60.0)
        self.line.sendall(b"".join(map(request, range(first, first + BURST))))
        self.sent, self.data, self.answers = self.sent + 1, b"", 0
        return True

    def receive(self) -> bool:
        """Read what has come; whether all answers are there."""
        assert self.line is not None
        received = self.line.recv(1 << 16)
        assert received, "the server has closed"
        self.data += received
        while (end := self.data.find(b"\r\n\r\n") + 4) > 3:
            found = LENGTH.search(self.data, 0, end)
            assert found is not None
            stop = end + int(found[1])
            if len(self.data) < stop:
                break
            assert self.data[9:12] in (b"200", b"404", b"422"), self.data[:end]
            self.data, self.answers = self.data[stop:], self.answers + 1
        return self.answers == BURST

    def close(self) -> None:
        if self.line is not None:
            self.line.close()
            self.line = None


def play(port: int, begin: int, end: int) -> None:
    """All clients at once, from one thread."""
    poll, step = select.epoll(), BURST * CLIENTS
    clients: dict[int, Burst] = {}

    def go_on(client: Burst) -> None:
        before = client.line
        if client.send() and client.line is not None:
            clients[client.line.fileno()] = client
            if client.line is not before:
                poll.register(client.line.fileno(), select.EPOLLIN)

    for c in range(CLIENTS):
        go_on(Burst(port, range(begin + BURST * c, end, step)))
    while clients:
        for file, _ in poll.poll():
            if clients[file].receive():
                go_on(clients.pop(file))
    poll.close()


@pytest.mark.slow
def test_memory_and_descriptors_do_not_grow(tmp_path):
    options = ["--classes", "0,1", "--pending-events", str(PENDING), "--ids", str(IDS)]
    server = Process(tmp_path / "data", *options, "--checkpoint-events", "20000")
    port, process = int(server.url.rpartition(":")[2]), server.process.pid
    Client(server.url).wait().close()  # until it has started, it refuses
    used, opened, begin = [], [], 0
    for part in (0.1, 0.5, 1.0):
        end = int(part * REQUESTS) // BURST * BURST
        play(port, begin, end)
        begin = end
        used.append(memory(process))
        opened.append(descriptors(process))
        print(f"{end:,} requests: {used[-1] / 1e6:.1f} MB, {opened[-1]} descriptors", flush=True)
    assert used[-1] - used[0] < 30e6
    assert opened[-1] <= opened[0] + 2 * CLIENTS
    size = sum(path.stat().st_size for path in (tmp_path / "data").glob("romco.sqlite*"))
    assert size < 100e6
    assert server.end(signal.SIGTERM) == 0
