"""Shards on Ray: one actor each. A lost actor is replaced and brought to the same state.

A shard's state is a function of the calls made to it. So the driver logs the calls that change a
shard (by reference: their arguments are in Ray's object store). After a loss a new actor starts
from the shard's last checkpoint and gets the calls since then again, while the others wait at the
barrier. Ray's own retries are off: they may change the order of calls.

A message to an actor costs about as much as a small merge. So calls without an answer go with the
next one: a period is one message to each shard, to apply, to read, and to return its update.
"""

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from romco.plugins import connect_ray
from romco.shards.engines import Arguments, Engine, Method, State
from romco.shards.shard import Shard

Call = tuple[str, Any]  # a method of Shard; its pickled arguments, or a reference to them
MAX_MESSAGE_BYTES = 50_000  # larger arguments go to the object store
MAX_RESTARTS = 3  # of a shard, in a row
LARGE = (Shard.learn, Shard.apply, Shard.take_subspaces, Shard.resume)  # should not be sent twice
SETTLES = (Shard.settle_after_merge, Shard.make_classes)
CHANGES = (*LARGE, *SETTLES, Shard.forget, Shard.open, Shard.read)
LARGE_ARGUMENTS = tuple(method.__name__ for method in LARGE)
CHANGES_STATE = tuple(method.__name__ for method in CHANGES)


class WorkersLostError(RuntimeError):
    """A shard whose workers die again and again."""


class StoreFullError(RuntimeError):
    """An object store of Ray without room for messages."""


class _Worker:
    """An actor: a process that holds a shard."""

    def start(self, n: int, state: State) -> None:
        self._shard = Shard(n, state)

    def call(self, packed: bytes, *stored: tuple[Any, ...]) -> Any:
        """Return the answers to some calls up to the first error, and that error.

        Arguments come pickled with the calls; where None, they are the next of ``stored``.
        """
        answers: list[Any] = []
        failure = None
        references = iter(stored)
        try:
            for name, one in pickle.loads(packed):
                if one is None:
                    arguments = next(references)
                else:
                    arguments = pickle.loads(one)
                answers.append(getattr(self._shard, name)(*arguments))
        except Exception as error:
            failure = error
        return _pickle_small((answers, failure)) or (answers, failure)

    def pid(self) -> int:
        return os.getpid()


class Ray(Engine):
    """Shards that are actors of a Ray cluster; without an address a local one is started."""

    def __init__(self, starts: Sequence[State], address: str | None) -> None:
        self._ray, self._owned = connect_ray(address)
        cpus = 1 if address is not None else 0  # on this machine there may be more than cores
        self._kind = self._ray.remote(max_restarts=0, max_task_retries=0, num_cpus=cpus)(_Worker)
        self._actors: list[Any] = []
        super().__init__(starts)

    def start(self, starts: Sequence[State]) -> None:
        """Start all shards at the same time; their states go to the object store."""
        self._kill_actors()
        self.n = len(starts)
        self._actors = [self._kind.remote() for _ in starts]
        self._set_starts(starts)
        self._posted: list[list[Call]] = [[] for _ in starts]  # go with the next call
        for k, one in enumerate([self._start(k) for k in range(len(starts))]):
            self._wait(k, one, partial(self._start, k))

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        """Call all shards at the same time, each in its own process, by one message."""
        requests: list[list[Call]] = [[] for _ in self._actors]
        for method, arguments in calls:
            packed: dict[int, Any] = {}  # once, where several get the same
            for own, one in zip(requests, arguments, strict=True):
                if one is not None:
                    if id(one) not in packed:
                        packed[id(one)] = self._pack(method.__name__, tuple(one))
                    own.append((method.__name__, packed[id(one)]))
        every: list[list[Any]] = []
        for k, answers in enumerate(map(iter, self._send_all(requests))):
            asked = [arguments[k] is not None for _, arguments in calls]
            every.append([next(answers) if one else None for one in asked])
        return every

    def post(self, method: Method, *arguments: Any) -> None:
        """Send with the next call of each shard; the arguments are sent once."""
        call = method.__name__, self._pack(method.__name__, arguments)
        for posted in self._posted:
            posted.append(call)

    def saved(self, starts: Sequence[State], method: Method, arguments: Arguments) -> None:
        """Empty the logs: a lost shard starts from its state, with this call."""
        self._set_starts(starts)
        for log, one in zip(self._logs, arguments, strict=False):
            log.append((method.__name__, self._pack(method.__name__, tuple(one or ()))))

    def _set_starts(self, starts: Sequence[State]) -> None:
        self._starts = [self._put(one) for one in starts]
        self._logs: list[list[Call]] = [[] for _ in starts]

    def close(self) -> None:
        self._kill_actors()
        if self._owned:
            self._ray.shutdown()

    def _kill_actors(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)

    def _pack(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Pickle arguments once for all, or put large ones into the object store."""
        limit = MAX_MESSAGE_BYTES if name in LARGE_ARGUMENTS else None
        small = _pickle_small(arguments, limit)
        if small is None:
            return self._put(arguments)
        return small

    def _put(self, value: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.put(value)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            raise StoreFullError(
                f"Ray's object store is full, and so is the disk behind it: {_first_line(error)}; "
                "what was saved is untouched, and the same call resumes from there. Save more "
                "often (checkpoint_every): merged updates are kept until then; or give Ray more "
                "memory or disk"
            ) from error

    def _send_all(self, requests: Sequence[list[Call]]) -> list[list[Any]]:
        """Return the answers of each shard to its calls; wait for all before raising an error."""
        messages = {k: [*self._posted[k], *own] for k, own in enumerate(requests) if own}
        pending = {k: self._send(k, calls) for k, calls in messages.items()}
        arrived = self._get_all(list(pending.values()))
        answers: list[list[Any]] = [[] for _ in requests]
        failures = []
        for k, calls in messages.items():
            try:
                answers[k] = self._receive(k, pending[k], calls, next(arrived, None))
            except Exception as failure:  # the others are waited for, so that none runs ahead
                failures.append(failure)
        if failures:
            raise failures[0]
        return answers

    def _send(self, k: int, calls: list[Call]) -> Any:
        """Send calls; small arguments go in one piece, as each object costs the driver."""
        small: list[Call] = []
        stored = []
        for name, one in calls:
            if isinstance(one, bytes):
                small.append((name, one))
            else:
                small.append((name, None))
                stored.append(one)
        return self._actors[k].call.remote(pickle.dumps(small), *stored)

    def _get_all(self, pending: list[Any]) -> Iterator[Any]:
        """Return all answers by one call; none where a worker was lost."""
        try:
            return iter(self._ray.get(pending))
        except self._ray.exceptions.RayError:
            return iter(())  # each is asked for by itself

    def _receive(self, k: int, ref: Any, calls: list[Call], answer: Any) -> list[Any]:
        """Return the answers to the calls of a shard, without those to posted ones."""
        if answer is None:
            answer = self._wait(k, ref, partial(self._send, k, calls))
        answers, failure = _unpickle(answer)
        posted = len(self._posted[k])
        self._posted[k] = []
        done = calls[: len(answers)]
        self._logs[k] += [call for call in done if call[0] in CHANGES_STATE]
        if failure is not None:
            raise failure
        return list(answers[posted:])

    def _wait(self, k: int, ref: Any, again: Callable[[], Any]) -> Any:
        """Return the answer of a call; where the worker is lost, call a new one ``again``."""
        errors, loss = self._ray.exceptions, None
        for _ in range(MAX_RESTARTS + 1):
            try:
                if loss is not None:
                    self._restart(k)
                    ref = again()
                return self._ray.get(ref)
            except errors.RayTaskError as error:  # the shard itself refused: no loss
                raise error.cause from None
            except errors.RayError as error:
                self.lost_workers, loss = self.lost_workers + 1, error
        raise WorkersLostError(
            f"the worker of shard {k} of {self.n} died {MAX_RESTARTS + 1} times in a "
            f"row, the last time with: {_first_line(loss)}; what was saved is untouched, and the "
            "same call resumes from there once the cause is mended (often memory)"
        )

    def _restart(self, k: int) -> None:
        """Start a new worker and repeat the calls since the last checkpoint."""
        self._ray.kill(self._actors[k])
        self._actors[k] = self._kind.remote()
        started = self._start(k)
        if not self._logs[k]:
            self._ray.get(started)
            return
        _, failure = _unpickle(self._ray.get([started, self._send(k, self._logs[k])])[1])
        if failure is not None:
            raise failure

    def _start(self, k: int) -> Any:
        return self._actors[k].start.remote(self.n, self._starts[k])


def _pickle_small(value: Any, limit: int | None = MAX_MESSAGE_BYTES) -> bytes | None:
    """Return a value in bytes; None where it is large, found without copying its arrays."""
    parts: list[Any] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=parts.append)
    if limit is not None and len(head) + sum(part.raw().nbytes for part in parts) > limit:
        return None
    if parts:
        return pickle.dumps(value, protocol=5)
    return head


def _unpickle(answer: Any) -> Any:
    if isinstance(answer, bytes):
        return pickle.loads(answer)
    return answer


def _first_line(error: Any) -> str:
    return str(error).strip().partition("\n")[0]
