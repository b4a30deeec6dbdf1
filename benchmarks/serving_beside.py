"""Small predictions beside large requests: ``python -m benchmarks.serving_beside``.

Four clients predict one event at a time; a fifth sends one kind of large request, again and again.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

from romco.server import Client, ServiceError

CLIENTS, EVENTS = 4, 1000
SMALL = {"task": "user1", "x": {f"f{k}": 1.0 for k in range(20)}}


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Address of a server with a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "romco", "serve", "--data", folder, "--port", "0"]
        server = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        assert server.stderr is not None
        try:
            yield next(line for line in server.stderr if "page:" in line).split()[-1]
        finally:
            server.terminate()
            server.wait()
            server.stderr.close()


def wide(size: int, begin: int = 0) -> list[dict[str, Any]]:
    """Events of 240 features, of which each user has some of its own."""
    made = []
    for k in range(begin, begin + size):
        x = {f"feature {k % 50} {i}": 1.0 + i / 240 for i in range(240)}
        made.append({"task": f"user{k % 200}", "x": x})
    return made


def requests(client: Client, numbers: Iterator[int]) -> dict[str, Callable[[], Any]]:
    """Return the large requests by what they are."""
    events = wide(EVENTS)

    def numbered() -> list[dict[str, Any]]:
        return [{"id": f"{next(numbers)}", **event} for event in events]

    def learn() -> Any:
        return client.learn([{**event, "y": "yes"} for event in numbered()])

    def learn_classes() -> Any:
        return client.learn([{**SMALL, "y": f"class {next(numbers)}"} for _ in range(50)])

    def learn_tasks() -> Any:
        return client.learn([{**SMALL, "task": f"t{next(numbers)}", "y": "yes"} for _ in events])

    return {
        "nothing": lambda: time.sleep(0.2),
        "1,000 predictions, 7 MB": lambda: client.predict(events),
        "1,000 predictions with ids, 7 MB": lambda: client.predict(numbered()),
        "1,000 events to learn, 7 MB": learn,
        "1,000 new tasks": learn_tasks,
        "50 new classes": learn_classes,
        "a list of tasks": lambda: client.tasks(limit=1000),
        "a download of the model": lambda: client.model(Path(tempfile.gettempdir()) / "beside"),
    }


def predict_small(url: str, done: Any, found: Any) -> None:
    """Predict one event at a time in four threads until it is done; sends how long each took."""
    waits: list[float] = []

    def predict() -> None:
        with Client(url) as client:
            while not done.is_set():
                begin = time.perf_counter()
                client.predict(SMALL)
                waits.append(time.perf_counter() - begin)
                time.sleep(0.005)

    threads = [threading.Thread(target=predict) for _ in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found.put(sorted(waits))


def latencies(url: str, large: Callable[[], Any], seconds: float) -> tuple[list[float], int]:
    """Return how long small predictions took meanwhile, sorted, and how many large ones fit in."""
    system = multiprocessing.get_context("fork")
    done, found = system.Event(), system.SimpleQueue()
    small = system.Process(target=predict_small, args=(url, done, found))
    small.start()
    end, finished = time.monotonic() + seconds, 0
    try:
        while time.monotonic() < end:
            large()
            finished += 1
    finally:
        done.set()
        waits = found.get()
        small.join()
    return waits, finished


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = {}
    for options, classes in ((["--classes", "no,yes"], False), (["--target", "classes"], True)):
        with serving(*options) as url, Client(url, timeout=600.0, batch=EVENTS).wait() as client:
            client.learn({**SMALL, "y": "yes"})
            client.learn([{**event, "y": "no"} for event in wide(200)])
            for name, large in requests(client, count()).items():
                if (name == "50 new classes") is not classes:
                    continue
                try:
                    waits, finished = latencies(url, large, given.seconds)
                except ServiceError as error:
                    print(f"{name}: {error}", file=sys.stderr)
                    continue
                picked = [waits[len(waits) * p // 100] for p in (50, 99)] + [waits[-1]]
                figures[name] = [round(1000 * wait, 1) for wait in picked]
                print(f"| {name} | {' | '.join(map(str, figures[name]))} |  {finished}", flush=True)
    if given.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
