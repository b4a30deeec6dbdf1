"""Load on a service: ``python -m benchmarks.serving``; ratios within one run.

The server is a process of its own on this machine, the load comes from this one, by the same code
for every system (:mod:`benchmarks.serving_load`). Systems are measured in turn, several times
over, and the median is told, so that noise hits all alike.

- romco: ``romco serve``, the learner inside, changes in SQLite, synced.
- Flask and River: the design of chantilly, a Flask application that holds one River model per
  user; no log.
- Vowpal Wabbit: its daemon, by the library's own driver; one model for all, crossed with the user.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from math import isnan
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.serving_load import Client, Load, Served, Speed, rate

USERS, FEATURES, EVENTS = 200, 20, 4000
BATCH, LARGE = 32, 500
TEACHERS = 4  # clients that answer while predictions are timed
PACE = 2000  # events per second that are learned while predictions are timed


def events(n: int = EVENTS, seed: int = 0) -> list[dict[str, Any]]:
    """Events of users who differ in what they like."""
    draw = random.Random(seed)
    made = []
    for k in range(n):
        user = draw.randrange(USERS)
        x = {f"word{draw.randrange(500)}": round(draw.gauss(0, 1), 4) for _ in range(FEATURES)}
        liked = sum(
            value if (int(name[4:]) + user // 20) % 2 else -value for name, value in x.items()
        )
        made.append({"id": f"{seed}-{k}", "task": f"user{user}", "x": x, "y": int(liked > 0)})
    return made


# What is sent


def request(path: str, body: Any) -> bytes:
    """An HTTP request, ready to be sent again and again."""
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def question(event: dict[str, Any]) -> dict[str, Any]:
    return {"task": event["task"], "x": event["x"]}


def vw_line(event: dict[str, Any], label: bool = False) -> bytes:
    words = " ".join(f"{name}:{value}" for name, value in event["x"].items())
    answer = ("1 " if event["y"] else "-1 ") if label else ""
    return f"{answer}|t {event['task']} |f {words}\n".encode()


# Servers


@contextmanager
def started(command: list[str], port: int) -> Iterator[Served]:
    """A server, as long as it is needed."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if process.poll() is not None:
                raise RuntimeError(f"{command} has ended")
            time.sleep(0.1)
        yield Served(port, process.pid)
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def romco(folder: Path) -> tuple[list[str], int]:
    port = free_port()
    options = ["--data", str(folder / "data"), "--port", str(port), "--classes", "0,1"]
    return [sys.executable, "-m", "romco", "serve", *options], port


def peer(name: str) -> tuple[list[str], int]:
    port = free_port()
    return [sys.executable, "-m", "benchmarks.serving_peers", name, str(port)], port


# Predictions while learning


def while_learning(
    port: int, asked: list[bytes], seconds: float, seed: int, pace: int
) -> list[float]:
    """Times of single predictions while ``pace`` events a second are learned durably."""
    fresh = events(int(pace * (seconds + 2)), seed)
    size = max(1, pace // 100)
    lessons = [request("/v1/learn", fresh[k : k + size]) for k in range(0, len(fresh), size)]
    done, learned = threading.Event(), [0] * TEACHERS
    begin = time.perf_counter()

    def teach(which: int) -> None:
        with socket.create_connection(("127.0.0.1", port), timeout=60.0) as line:
            for k in range(which, len(lessons), TEACHERS):
                if done.wait(max(0.0, begin + k / 100 - time.perf_counter())):
                    return
                line.sendall(lessons[k])
                answer = line.recv(1 << 16)
                while not answer.endswith(b"]"):
                    answer += line.recv(1 << 16)
                learned[which] += size

    teachers = [threading.Thread(target=teach, args=(which,)) for which in range(TEACHERS)]
    for teacher in teachers:
        teacher.start()
    time.sleep(0.5)
    load = Load(asked, 1, seconds)
    load.go(port)
    reached = sum(learned) / (time.perf_counter() - begin)
    done.set()
    for teacher in teachers:
        teacher.join()
    if reached < 0.9 * pace:
        print(f"only {reached:,.0f} events/s could be learned meanwhile", file=sys.stderr)
    return sorted(load.times)


# The run


def measure(seconds: float, repeats: int, console: Console) -> dict[str, Speed]:
    """Medians by name, per second; times of predictions as seconds."""
    some = events()
    asked = [request("/v1/predict", question(event)) for event in some]
    batches = _requests(some, BATCH)
    large = _requests(some, LARGE)
    found: dict[str, list[Speed]] = {}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ours = stack.enter_context(started(*romco(folder)))
        rate(
            ours,
            [request("/v1/learn", some[k : k + LARGE]) for k in range(0, EVENTS, LARGE)],
            1,
            1.0,
        )
        parts: dict[str, Callable[[], Speed]] = {
            "romco, single, 8 clients": lambda: rate(ours, asked, 8, seconds),
            "romco, batches of 32, 8 clients": lambda: rate(ours, batches, 8, seconds).times(BATCH),
            "romco, one by one, 1 client": lambda: client(ours, b"}").one_by_one(asked, seconds),
            "romco, streamed, 1 client": lambda: client(ours, b"}").streamed(asked, seconds),
            "romco, batches of 500 streamed, 1 client": lambda: (
                client(ours, b"]").streamed(large, seconds).times(LARGE)
            ),
        }
        _add_flask(stack, parts, some, seconds, console)
        _add_vw(stack, parts, some, seconds, console)
        for repeat in range(repeats):
            for name, part in parts.items():
                console.print(f"{repeat + 1}/{repeats} {name}", style="dim")
                found.setdefault(name, []).append(part())
            fresh = [request("/v1/learn", e) for e in events(20_000, seed=100 + repeat)]
            name = "romco, learning durably, single, 32 clients"
            found.setdefault(name, []).append(rate(ours, fresh, 32, min(seconds, 3.0)))
            many = events(20_000, seed=300 + repeat)
            cut = [request("/v1/learn", many[k : k + BATCH]) for k in range(0, len(many), BATCH)]
            name = "romco, learning durably, batches of 32, 8 clients"
            speed = rate(ours, cut, 8, min(seconds, 3.0)).times(BATCH)
            found.setdefault(name, []).append(speed)
            for when, pace in (("at rest", 0), ("while learning", PACE)):
                times = while_learning(ours.port, asked, seconds, 200 + repeat, pace)
                middle, late = median(times), times[len(times) * 99 // 100]
                found.setdefault(f"median {when}", []).append(Speed(middle, middle))
                found.setdefault(f"p99 {when}", []).append(Speed(late, late))
    return {
        name: Speed(median(v.wall for v in values), median(v.cpu for v in values))
        for name, values in found.items()
    }


def client(at: Served, last: bytes) -> Client:
    """One of HTTP, whose answers end with ``last``; made anew, since idle ones are not kept."""
    return Client(at, last, b"HTTP/1.1 200")


def _requests(some: list[dict[str, Any]], size: int) -> list[bytes]:
    cut = [some[k : k + size] for k in range(0, len(some) - size + 1, size)]
    return [request("/v1/predict", [question(event) for event in part]) for part in cut]


def _add_flask(
    stack: ExitStack,
    parts: dict[str, Any],
    some: list[dict[str, Any]],
    seconds: float,
    console: Console,
) -> None:
    try:
        import flask as _flask  # noqa: F401
        import river as _river  # noqa: F401
    except ImportError as error:
        console.print(f"left out: Flask and River ({error})")
        return
    asked = [request("/predict", question(event)) for event in some]
    for name, how in (("", "flask"), (", connections kept", "flask-kept")):
        at = stack.enter_context(started(*peer(how)))
        rate(at, [request("/learn", event) for event in some[:1000]], 4, 2.0)
        part = partial(rate, at, asked, 8, seconds)
        parts[f"Flask and River, single, 8 clients{name}"] = part


def _add_vw(
    stack: ExitStack,
    parts: dict[str, Any],
    some: list[dict[str, Any]],
    seconds: float,
    console: Console,
) -> None:
    try:
        import vowpalwabbit as _vw  # noqa: F401
    except ImportError as error:
        console.print(f"left out: Vowpal Wabbit ({error})")
        return
    command, port = peer("vw")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, start_new_session=True, **quiet)
    stack.callback(process.wait)
    stack.callback(os.killpg, process.pid, signal.SIGKILL)  # with the child that does the work
    client = _patient(Served(port, process.pid))
    stack.callback(client.line.close)
    client.stream([vw_line(event, label=True) for event in some])
    lines = [vw_line(event) for event in some]
    parts["VW's daemon, one by one, 1 client"] = lambda: client.one_by_one(lines, seconds)
    parts["VW's daemon, streamed, 1 client"] = lambda: client.streamed(lines, seconds)


def _patient(at: Served) -> Client:
    """The daemon takes but one client, so it cannot be probed."""
    for _ in range(300):
        try:
            return Client(at, b"\n", b"\n")
        except ConnectionRefusedError:
            time.sleep(0.1)
    raise RuntimeError("the daemon did not start")


FLASK, KEPT = (f"Flask and River, single, 8 clients{kept}" for kept in ("", ", connections kept"))
AIMS = (
    ("romco, single, 8 clients", FLASK, "at least 8"),
    ("romco, single, 8 clients", KEPT, "the same, where Flask keeps connections"),
    ("romco, batches of 32, 8 clients", "romco, single, 8 clients", "at least 4"),
    ("romco, one by one, 1 client", "VW's daemon, one by one, 1 client", ""),
    ("romco, streamed, 1 client", "VW's daemon, streamed, 1 client", ""),
    ("romco, batches of 500 streamed, 1 client", "VW's daemon, streamed, 1 client", ""),
    ("p99 while learning", "median while learning", "at most 20"),
    ("p99 at rest", "median at rest", "the same without learning"),
)


def ratios(found: dict[str, Speed]) -> Iterator[tuple[str, float, float, str]]:
    """What the service is held to: by the wall, by the processor."""
    for one, other, aim in AIMS:
        if one in found and other in found:
            wall = found[one].wall / found[other].wall
            yield f"{one} / {other}", wall, found[one].cpu / found[other].cpu, aim


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--repeats", type=int, default=3)
    chosen = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 120)
    found = measure(chosen.seconds, chosen.repeats, console)
    table = Table("measured", "by the wall", "per second of the server's processor", box=None)
    for name, speed in found.items():
        timed = name.startswith(("median", "p99"))
        wall = f"{1e3 * speed.wall:.2f} ms" if timed else f"{speed.wall:,.0f}/s"
        table.add_row(name, wall, "" if timed or isnan(speed.cpu) else f"{speed.cpu:,.0f}")
    console.print(table)
    table = Table("ratio", "by the wall", "by the processor", "aim", box=None)
    for name, wall_ratio, cpu_ratio, aim in ratios(found):
        table.add_row(
            name, f"{wall_ratio:.1f}", "" if isnan(cpu_ratio) else f"{cpu_ratio:.1f}", aim
        )
    console.print(table)


if __name__ == "__main__":
    main()
