"""A process that is killed by SIGKILL at a call to the system, or whose disk fails.

Reads orders from stdin, one JSON object per line; forks for each, so that starting is quick.
Prints "done" when the fork has come to the end of the stream, else "killed".
"""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import signal
import sys
import time
import traceback
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

from romco.server.protocol import LearnRequest, Settings, StoreError
from romco.server.writer import Service
from tests.server import faults
from tests.server.streams import predicted, said_of, turning, unsettled

TIGHT = {"group_events": 8, "checkpoint_events": 10**9}


def run(order: dict[str, Any]) -> None:
    """Learn a stream from where it was acknowledged, three requests at a time."""
    random = Random(order["seed"])
    acknowledged = os.open(order["acknowledged"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if order["call"]:
        faults.kill_at(order["call"], random.randrange(3))
    settings = Settings(durability=order["durability"], **TIGHT)
    service = Service(Path(order["folder"]), unsettled, settings)
    service.start()
    stream, at = turning(order["events"], order["stream"]), order["start"]
    flying: deque[tuple[int, Future[Any]]] = deque()
    while at < len(stream) or flying:
        while at < len(stream) and len(flying) < 3:
            some = stream[at : at + random.randint(1, 4)]
            at += len(some)
            flying.append((at, service.learn([ask(service, each) for each in some])))
            if random.random() < 0.15:
                service.checkpoint()
        end, future = flying.popleft()
        assert all(outcome.status != "expired" for outcome in future.result(60.0))
        os.write(acknowledged, f"{end}\n".encode())
    assert service.close(60.0)


def ask(service: Service, lesson: LearnRequest) -> LearnRequest:
    """Sometimes the answer comes apart from the event."""
    said = said_of(lesson)
    if said is None:
        return lesson
    service.keep([predicted(service, lesson, said)]).result(60.0)
    return LearnRequest(y=lesson.y, id=lesson.id)


def starve(order: dict[str, Any]) -> None:
    """Learn while the disk is full or cannot sync, and again when it is back."""
    service = Service(Path(order["folder"]), unsettled, Settings())
    stream = turning(40, 0)
    service.start()
    service.learn(stream[:10]).result(60.0)
    code = getattr(errno, order["error"])
    faults.fail(**{order["what"]: code})
    error = service.learn(stream[10:20]).exception(60.0)
    assert isinstance(error, StoreError)
    assert error.errno == (errno.ENOSPC if order["error"] == "ENOSPC" else errno.EIO), error
    assert service.failing
    assert predicted(service, stream[0])
    faults.fail()
    end = time.monotonic() + 60.0
    while service.failing:  # nobody asks: it finds out by itself
        assert time.monotonic() < end
        time.sleep(0.05)
    service.learn(stream[10:]).result(60.0)
    assert service.close(60.0)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            faulthandler.dump_traceback_later(50.0)  # should it ever hang
            try:
                order = json.loads(line)
                (starve if "error" in order else run)(order)
                code = 0
            except BaseException:
                traceback.print_exc()
                code = 1
            os._exit(code)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("done" if status == 0 else "killed" if killed else "failed", flush=True)


if __name__ == "__main__":
    main()
