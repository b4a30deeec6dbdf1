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
CLIENTS, TASKS, PENDING, IDS = 8, 100, 500, 2000
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
    task, kind = f"user{k % TASKS}", k % 8
    x = {f"f{(k * 7 + j) % 50}": (k % 13) / 7.0 - 0.9 for j in range(5)}
    if kind == 7:
        return b"GET /v1/tasks?limit=10 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    path, body = "/v1/predict", {"task": task, "x": x, "id": f"p{k}"}
    if kind in (3, 4):
        path, body = "/v1/learn", {"id": f"p{k - 3}", "y": k % 2}
    elif kind == 5:
        path, body = "/v1/learn", {"id": f"w{k}", "task": task, "x": x, "y": k % 2}
    elif kind == 6:
        body = {"task": task, "x": "nonsense"}
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


async def client(port: int, numbers: range) -> None:
    wire = None
    for n, k in enumerate(numbers):
        if n % 500 == 0:  # connections come and go
            if wire is not None:
                wire[1].close()
            wire = await asyncio.open_connection("127.0.0.1", port)
        assert wire is not None
        wire[1].write(request(k))
        head = await wire[0].readuntil(b"\r\n\r\n")
        found = LENGTH.search(head)
        assert found is not None
        await wire[0].readexactly(int(found[1]))
        assert head[9:12] in (b"200", b"422"), head
    assert wire is not None
    wire[1].close()


async def play(port: int, begin: int, end: int) -> None:
    await asyncio.gather(*[client(port, range(begin + c, end, CLIENTS)) for c in range(CLIENTS)])


@pytest.mark.slow
def test_memory_and_descriptors_do_not_grow(tmp_path):
    options = ["--classes", "0,1", "--pending-events", str(PENDING), "--ids", str(IDS)]
    server = Process(tmp_path / "data", *options, "--checkpoint-events", "20000")
    port, process = int(server.url.rpartition(":")[2]), server.process.pid
    asyncio.run(play(port, 0, REQUESTS // 10))
    before, opened = memory(process), descriptors(process)
    asyncio.run(play(port, REQUESTS // 10, REQUESTS))
    after = memory(process)
    print(
        f"{before / 1e6:.0f} MB after {REQUESTS // 10:,} requests, {after / 1e6:.0f} MB at the end"
    )
    assert after - before < 30e6
    assert descriptors(process) <= opened + 2 * CLIENTS
    log = sum(path.stat().st_size for path in (tmp_path / "data").glob("log-*"))
    assert log < 100e6
    assert server.end(signal.SIGTERM) == 0
