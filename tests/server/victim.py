"""A process that is killed by SIGKILL in the middle of a call to the system.

Reads orders from stdin, one JSON object per line; forks for each, so that starting is quick.
Prints "done" when the fork has come to the end of the stream, else "killed".
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from romco.server.answers import predict
from romco.server.changes import Waiting
from romco.server.drafts import Lesson, Outcome
from romco.server.settings import Settings
from romco.server.stores import Store
from tests.server.streams import said_of, turning, unsettled

CALLS = [
    "write",
    "fdatasync",
    "fsync",
    "ftruncate",
    "unlink",
    "rename",
    "replace",
    "mkdir",
    "rmdir",
    "open",
    "close",
]
TIGHT = {"segment_bytes": 2000, "group_events": 8, "checkpoint_events": 10**9}


def die_at(call: int, random: Random) -> None:
    """Kill this process before, within or after the given call that changes a file."""
    left = [call]

    def deadly(function: Any) -> Any:
        def wrapped(*args: Any, **keywords: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                moment = random.choice(("before", "within", "after"))
                if moment == "within" and function is write:
                    write(args[0], args[1][: len(args[1]) // 2])
                elif moment != "before":
                    function(*args, **keywords)
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(10.0)  # dead by then
            return function(*args, **keywords)

        return wrapped

    write = os.write
    for name in CALLS:
        setattr(os, name, deadly(getattr(os, name)))


def run(order: dict[str, Any]) -> None:
    """Learn a stream from where it was acknowledged, three requests at a time."""
    random = Random(order["seed"])
    acknowledged = os.open(order["acknowledged"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    report = os.write  # kept: what the test writes does not count
    if order["call"]:
        die_at(order["call"], random)
    settings = Settings(durability=order["durability"], **TIGHT)
    store = Store(Path(order["folder"]), unsettled, settings)
    stream, at = turning(order["events"], order["stream"]), order["start"]
    flying: deque[tuple[int, Future[list[Outcome]]]] = deque()
    while at < len(stream) or flying:
        while at < len(stream) and len(flying) < 3:
            some = stream[at : at + random.randint(1, 4)]
            at += len(some)
            flying.append((at, store.writer.learn([ask(store, each) for each in some])))
            if random.random() < 0.15:
                store.writer.checkpoint()
        end, future = flying.popleft()
        assert all(outcome.status != "expired" for outcome in future.result(60.0))
        report(acknowledged, f"{end}\n".encode())
    store.close()


def ask(store: Store, lesson: Lesson) -> Lesson:
    """Sometimes the answer comes apart from the event."""
    said = said_of(lesson)
    if said is None:
        return lesson
    (made,) = predict(store.live.model, [lesson.x], [lesson.task])
    made = msgspec.structs.replace(made, said=said)
    if store.live.seen.number(lesson.id) is None:
        store.live.pending.put([Waiting(lesson.id, time.time(), lesson.task, lesson.x, made)])
    return Lesson(y=lesson.y, id=lesson.id)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run(json.loads(line))
                code = 0
            except BaseException:
                import traceback

                traceback.print_exc()
                code = 1
            os._exit(code)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print("done" if status == 0 else "killed" if killed else "failed", flush=True)


if __name__ == "__main__":
    main()
