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
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from romco.choosing import Chooser
from romco.choosing_service import ChoosingService
from romco.forgetting import open_service
from romco.server import writer
from romco.server.app import refusal
from romco.server.protocol import (
    ChooseRequest,
    LearnRequest,
    RequestError,
    RewardRequest,
    Settings,
)
from romco.server.writer import Service
from tests.server import faults
from tests.server.streams import predicted, said_of, turning, unsettled

ACTIONS = ["news", "music", "sport"]
FORGET_EVENTS = 10  # of a task
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


def forget(order: dict[str, Any]) -> None:
    """Forget a person exactly, or go on with it."""
    if order["call"]:
        faults.kill_at(order["call"], order["moment"])
    settings = Settings(keep_log=True, checkpoint_events=order["checkpoint_events"])
    service = open_service(Path(order["folder"]), unsettled, settings)
    service.start()
    service.forget(order["forget"], exact=True).result(60.0)
    assert service.close(60.0)


def starve(order: dict[str, Any]) -> None:
    """Learn while calls on files fail: each error once, then for some seconds."""
    writer.SYNC_SECONDS = order["sync_seconds"]
    service = Service(Path(order["folder"]), unsettled, Settings())
    stream = iter(turning(order["events"], 0))
    service.start()
    asking = Asking(service, stream)
    for error in order["errors"]:
        asking.code = code = getattr(errno, error)
        asking.ask()
        for request in asking.requests:
            faults.fail(order["call"], code, times=1)
            asking.answer(request)
        faults.fail(order["call"], code)
        end = time.monotonic() + order["seconds"]
        while time.monotonic() < end:
            asking.ask()
            assert predicted(service, asking.lesson), "predictions go on"
            time.sleep(0.02)
        faults.recover()
        end = time.monotonic() + 60.0
        while service.failing:  # nobody asks: it finds out by itself
            assert time.monotonic() < end
            time.sleep(0.05)
        asking.ask()
        assert asking.learned, "learning did not resume"
        assert asking.slowest < order["patience"], asking.slowest
    for lesson in stream:
        service.learn([lesson]).result(60.0)
    assert service.close(60.0)


class Asking:
    """One request of each kind at a time; an event is sent again until it is learned."""

    def __init__(self, service: Service, stream: Iterator[LearnRequest]) -> None:
        self.service, self._stream = service, stream
        self.lesson, self.learned = next(stream), False
        self.code = 0  # of the error that may be told
        self.slowest = 0.0  # seconds that an answer took
        self.requests = (self._learn, self._keep, service.checkpoint, self._download)

    def ask(self) -> None:
        if self.learned:
            self.lesson, self.learned = next(self._stream, self.lesson), False
        for request in self.requests:
            self.answer(request)

    def answer(self, request: Callable[[], Future[Any]]) -> None:
        """Make a request; it succeeds, or says what is wrong with the disk."""
        begin = time.monotonic()
        try:
            request().result(60.0)
            self.learned = self.learned or request == self._learn
        except TimeoutError:
            raise AssertionError(f"{request} was not answered") from None
        except OSError as error:
            full = self.code == errno.ENOSPC
            status, reason = refusal(error, with_index=False)[:2]
            assert status == 503 or (full and status == 507), (status, reason)
            assert status == 507 or b"no room" not in reason, reason
        self.slowest = max(self.slowest, time.monotonic() - begin)

    def _learn(self) -> Future[Any]:
        return self.service.learn([self.lesson])

    def _keep(self) -> Future[Any]:
        named = msgspec.structs.replace(self.lesson, id="kept")
        return self.service.keep([predicted(self.service, named)])

    def _download(self) -> Future[Any]:
        self.service.checkpoint().result(60.0)
        return self.service.call_in_writer(lambda _: self.service.store.open_model()[1].close())


def choose(order: dict[str, Any]) -> None:
    """Let four clients choose and reward, each from where its last choice was acknowledged."""
    if order["call"]:
        faults.kill_at(order["call"], order["seed"] % 3)
    settings = Settings(**TIGHT)
    service = ChoosingService(Path(order["folder"]), Chooser, settings, actions=ACTIONS)
    run_clients(service, choose_all, order)


def run_clients(service: Service, client: Callable[..., None], order: dict[str, Any]) -> None:
    """Run each client in a thread, from where its last request was acknowledged."""
    service.start()
    clients = [
        threading.Thread(target=client, args=(service, name, done, order))
        for name, done in order["done"].items()
    ]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    assert service.close(60.0)


def share(order: dict[str, Any]) -> None:
    """Let four clients predict, learn, forget and download."""
    if order["call"]:
        faults.kill_at(order["call"], order["seed"] % 3)
    run_clients(Service(Path(order["shared"]), unsettled, Settings(**TIGHT)), share_all, order)


def share_all(service: Service, name: str, done: int, order: dict[str, Any]) -> None:
    """Learn events; forget each task two tasks later; note the numbers of acknowledged events."""
    notes = os.open(f"{order['notes']}-{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    random = Random(f"{name} {order['seed']}")
    for k in range(done, order["events"]):
        block, place = divmod(k, FORGET_EVENTS)
        task = f"{name} of {block}"
        x = {f"f{k % 7}": 1.0, "f": k / 10}
        lesson = LearnRequest(y=answered(k), id=f"{name}{k}", task=task, x=x)
        (outcome,) = service.learn([ask(service, lesson)]).result(60.0)
        assert outcome.status in ("applied", "duplicate"), outcome
        assert not outcome.differs
        if place == FORGET_EVENTS - 1 and block >= 1:
            forget_if_known(service, f"{name} of {block - 1}")
        if random.random() < 0.1:
            service.checkpoint().result(60.0)
            service.call_in_writer(lambda _: service.store.open_model()[1].close()).result(60.0)
        os.write(notes, f"{k} {outcome.sequence} learned\n".encode())


def answered(k: int) -> str:
    """Return the answer of an event, which follows from its place."""
    return "yes" if k % 3 else "no"


def forget_if_known(service: Service, task: str) -> None:
    try:
        service.forget(task).result(60.0)
    except RequestError as error:
        if error.status != 404:  # the same request before was not acknowledged
            raise


def choose_all(service: ChoosingService, name: str, done: int, order: dict[str, Any]) -> None:
    """Note each choice when it is acknowledged, and again when its reward is."""
    notes = os.open(f"{order['notes']}-{name}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    random = Random(f"{name} {order['seed']}")
    for k in range(done, order["events"]):
        request = ChooseRequest(id=f"{name}{k}", x={"hour": k % 24}, task=name)
        (choice,) = service.learn([request]).result(60.0)
        os.write(notes, f"{k} {choice.action} {choice.probability!r} chosen\n".encode())
        if random.random() < 0.1:
            service.checkpoint()
        reward = RewardRequest(request.id, earned(name, k, choice.action))
        (outcome,) = service.learn([reward]).result(60.0)
        assert outcome.status in ("applied", "duplicate")
        assert not outcome.differs
        os.write(notes, f"{k} {choice.action} {choice.probability!r} rewarded\n".encode())


def earned(name: str, k: int, action: str) -> float:
    """Return the reward of an action, which follows from its place."""
    return float(Random(f"{name} {k} {action}").random() < 0.2 + 0.3 * ACTIONS.index(action))


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            order = json.loads(line)
            faulthandler.dump_traceback_later(
                100.0 + 10.0 * order.get("seconds", 0.0)
            )  # if it hangs
            try:
                kinds = {"errors": starve, "forget": forget, "shared": share, "done": choose}
                next((kinds[kind] for kind in kinds if kind in order), run)(order)
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
