"""A million requests: memory and descriptors stay where they were."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from pathlib import Path

import pytest

from tests.service.processes import Process

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


async def client(port: int, firsts: range) -> None:
    """One burst after the other, over connections that come and go."""
    wire = None
    for n, k in enumerate(firsts):
        if n % 50 == 0:
            if wire is not None:
                wire[1].close()
            wire = await asyncio.open_connection("127.0.0.1", port)
        assert wire is not None
        wire[1].write(b"".join(map(request, range(k, k + BURST))))
        for _ in range(BURST):
            head = await wire[0].readuntil(b"\r\n\r\n")
            found = LENGTH.search(head)
            assert found is not None
            await wire[0].readexactly(int(found[1]))
            assert head[9:12] in (b"200", b"404", b"422"), head
    assert wire is not None
    wire[1].close()


async def play(port: int, begin: int, end: int) -> None:
    step = BURST * CLIENTS
    await asyncio.gather(
        *[client(port, range(begin + BURST * c, end, step)) for c in range(CLIENTS)]
    )


@pytest.mark.slow
def test_memory_and_descriptors_do_not_grow(tmp_path):
    options = ["--classes", "0,1", "--pending-events", str(PENDING), "--ids", str(IDS)]
    server = Process(tmp_path / "data", *options, "--checkpoint-events", "20000")
    port, process = int(server.url.rpartition(":")[2]), server.process.pid
    used, opened, begin = [], [], 0
    for part in (0.1, 0.5, 1.0):
        end = int(part * REQUESTS) // BURST * BURST
        asyncio.run(play(port, begin, end))
        begin = end
        used.append(memory(process))
        opened.append(descriptors(process))
        print(f"{end:,} requests: {used[-1] / 1e6:.1f} MB, {opened[-1]} descriptors", flush=True)
    assert used[-1] - used[0] < 30e6
    assert opened[-1] <= opened[0] + 2 * CLIENTS
    log = sum(path.stat().st_size for path in (tmp_path / "data").glob("log-*"))
    assert log < 100e6
    assert server.end(signal.SIGTERM) == 0
