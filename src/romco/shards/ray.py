"""Shards on Ray: one actor each; whoever is lost is started anew and brought to where it was.

What a shard is, is a function of the calls made to it. So the driver writes down the calls that
change one (by reference: what they were given is in Ray's object store), and after a loss a new
actor takes up the shard's last checkpoint and gets the calls since then again. The others wait
at the barrier meanwhile. Ray's own retries are not used: they may change the order of calls.

A message to an actor costs about as much as a small merge, so calls that nobody waits for go with
the next one: a period is one message to each shard, to agree, to read, and to tell the news.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, final

from romco.raycluster import joined
from romco.shards.packing import pack
from romco.shards.ranges import in_ranges
from romco.shards.shard import Recipe, Shard, Start

Call = tuple[str, Any]  # a method of Shard, and what it is given, packed, or where that lies
SMALL = 50_000  # bytes that go with the message: to put them into the store would cost more
MANY = 16  # shards from which on their changes are merged by ranges of features
TRIES = 3  # new workers for a shard before it is given up
BULKY = ("learn", "agree", "take_drawn", "resume")  # are given what should not be sent twice
CHANGING = (*BULKY, "forget", "open", "read")  # calls after which a shard is another


class WorkersLostError(RuntimeError):
    """A shard whose workers die again and again."""


class StoreFullError(RuntimeError):
    """Ray has no room for what shards are to be told."""


class _Worker:
    """An actor: a process that holds a shard."""

    def begin(self, recipe: Recipe, start: Start) -> None:
        self._shard = Shard(recipe, start)

    def call(self, packed: bytes, *lying: tuple[Any, ...]) -> Any:
        """Answers to some calls, up to the first that is refused, and why it is; packed if small.

        What calls are given is packed with their names; where it is None, it is the next of those
        that lie in the object store.
        """
        answers: list[Any] = []
        refused, stored = None, iter(lying)
        try:
            for name, one in pickle.loads(packed):
                given = next(stored) if one is None else pickle.loads(one)
                answers.append(getattr(self._shard, name)(*given))
        except Exception as error:
            refused = error
        return _packed((answers, refused)) or (answers, refused)

    def act(self, act: Callable[..., Any], *given: Any) -> Any:
        """Something that has nothing to do with the shard."""
        return act(*given)

    def pid(self) -> int:
        return os.getpid()


@final
class Ray:
    """Shards that are actors of a Ray cluster; a local one is started where none is named."""

    def __init__(self, recipe: Recipe, starts: Sequence[Start], address: str | None) -> None:
        self._ray, self._owned = joined(address)
        room = 1 if address is not None else 0  # on this machine there may be more than cores
        self._kind = self._ray.remote(max_restarts=0, max_task_retries=0, num_cpus=room)(_Worker)
        self._recipe = recipe
        self.lost = 0  # workers so far
        self._actors = [self._kind.remote() for _ in starts]
        self.begin(starts)

    def begin(self, starts: Sequence[Any]) -> None:
        """At the same time; a start may lie in the object store."""
        self._starts = [
            self._ray.put(pack(one)) if isinstance(one, dict) else one for one in starts
        ]
        self._logs: list[list[Call]] = [[] for _ in starts]
        self._told: list[list[Call]] = [[] for _ in starts]  # goes with the next call
        for k, one in enumerate([self._begin(k) for k in range(len(starts))]):
            self._wait(k, one, partial(self._begin, k))

    def elsewhere(
        self, act: Callable[..., Any], given: tuple[Any, ...], n: int
    ) -> tuple[Any, Sequence[Any]]:
        """By the first worker; all but the first answer stay in the object store."""
        answers: list[Any] = []

        def ask() -> Any:
            answers[:] = self._actors[0].act.options(num_returns=n + 1).remote(act, *given)
            return answers[0]

        return self._wait(0, ask(), ask), answers[1:]

    def series(self, *calls: tuple[Callable[..., Any], Sequence[Any]]) -> list[list[Any]]:
        """At the same time, each in its own process; one message to each."""
        asked: list[list[Call]] = [[] for _ in self._actors]
        for verb, arguments in calls:
            packed: dict[int, Any] = {}  # once, where several are given the same
            for mine, given in zip(asked, arguments, strict=True):
                if given is not None:
                    if id(given) not in packed:
                        packed[id(given)] = self._given(verb.__name__, tuple(given))
                    mine.append((verb.__name__, packed[id(given)]))
        return [
            [None if given[k] is None else next(own) for _, given in calls]
            for k, own in enumerate(map(iter, self._all(asked)))
        ]

    def each(self, verb: Callable[..., Any], arguments: Sequence[Any]) -> list[Any]:
        """At the same time."""
        return [answer for (answer,) in self.series((verb, arguments))]

    def all(self, verb: Callable[..., Any], *arguments: Any) -> list[Any]:
        """At the same time; what they are given is sent once."""
        call = verb.__name__, self._given(verb.__name__, arguments)
        return [answer for (answer,) in self._all([[call]] * len(self._actors))]

    def tell(self, verb: Callable[..., Any], *arguments: Any) -> None:
        """With the next call of each; what they are given is sent once."""
        call = verb.__name__, self._given(verb.__name__, arguments)
        for told in self._told:
            told.append(call)

    def one(self, k: int, verb: Callable[..., Any], *arguments: Any) -> Any:
        """In its process."""
        given = [arguments if i == k else None for i in range(len(self._actors))]
        return self.each(verb, given)[k]

    here = None  # shards are elsewhere

    def ranges(self, act: Callable[[int, int], None], n: int) -> None:
        """By the driver: at once, or what many shards sent in ranges, one per core."""
        if len(self._actors) < MANY:
            act(0, n)
            return
        cores = os.cpu_count() or 1
        with ThreadPoolExecutor(cores) as pool:
            in_ranges(pool, cores, act, n)

    def saved(
        self, paths: Sequence[Path], verb: Callable[..., Any], arguments: Sequence[Any] | None
    ) -> None:
        """From now on a lost shard is taken up from its file, and begins with a call."""
        self._starts = list(paths)
        self._logs = [[] for _ in paths]
        for log, given in zip(self._logs, arguments or [], strict=False):
            log.append((verb.__name__, self._given(verb.__name__, tuple(given or ()))))

    def pids(self) -> list[int]:
        """The processes of the shards."""
        return [self._wait(k, self._pid(k), partial(self._pid, k)) for k in range(len(self._logs))]

    def close(self) -> None:
        """End the workers, and Ray if it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        if self._owned:
            self._ray.shutdown()

    # Within

    def _given(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Arguments on their way: packed once for all, or in the object store if they are large."""
        small = _packed(arguments, SMALL if name in BULKY else None)
        return self._put(arguments) if small is None else small

    def _put(self, value: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.put(value)
        except (errors.ObjectStoreFullError, errors.OutOfDiskError) as error:
            raise StoreFullError(
                f"Ray's object store is full, and so is the disk behind it: {_first_line(error)}; "
                "what was saved is untouched, and the same call goes on from there. Save more "
                "often (checkpoint_every): what shards agreed on is kept until then; or give Ray "
                "more memory or disk"
            ) from error

    def _all(self, asked: Sequence[list[Call]]) -> list[list[Any]]:
        """The answers of each shard to its calls."""
        sent = [[*told, *own] if own else [] for told, own in zip(self._told, asked, strict=True)]
        waiting = [self._issue(k, calls) if calls else None for k, calls in enumerate(sent)]
        found = self._at_once([ref for ref in waiting if ref is not None])
        answers: list[list[Any]] = []
        troubles = []
        for k, (calls, ref) in enumerate(zip(sent, waiting, strict=True)):
            try:
                told = next(found, None) if ref is not None else None
                answers.append([] if ref is None else self._answers(k, ref, calls, told))
            except Exception as trouble:  # the others are waited for, so that none runs ahead
                troubles.append(trouble)
        if troubles:
            raise troubles[0]
        return answers

    def _issue(self, k: int, calls: list[Call]) -> Any:
        """Send calls: all that is small in one piece, as each costs the driver."""
        small = [(name, given if isinstance(given, bytes) else None) for name, given in calls]
        stored = [given for _, given in calls if not isinstance(given, bytes)]
        return self._actors[k].call.remote(pickle.dumps(small), *stored)

    def _at_once(self, waiting: list[Any]) -> Iterator[Any]:
        """All that is waited for, by one call; nothing where a worker was lost."""
        try:
            return iter(self._ray.get(waiting))
        except self._ray.exceptions.RayError:
            return iter(())  # each is asked for by itself

    def _answers(self, k: int, ref: Any, calls: list[Call], told: Any) -> list[Any]:
        """The answers to what was asked of a shard; what it was told before answers nothing."""
        if told is None:
            told = self._wait(k, ref, partial(self._issue, k, calls))
        answers, refused = _unpacked(told)
        before, self._told[k] = len(self._told[k]), []
        done = calls[: len(answers)]
        self._logs[k] += [call for call in done if call[0] in CHANGING]
        if refused is not None:
            raise refused
        return list(answers[before:])

    def _wait(self, k: int, ref: Any, again: Callable[[], Any]) -> Any:
        """The answer of a call; where the worker is lost, a new one is asked ``again``."""
        errors, lost = self._ray.exceptions, None
        for _ in range(TRIES + 1):
            try:
                if lost is not None:
                    self._restart(k)
                    ref = again()
                return self._ray.get(ref)
            except errors.RayTaskError as error:  # the shard itself refused: no loss
                raise error.cause from None
            except errors.RayError as error:
                self.lost, lost = self.lost + 1, error
        raise WorkersLostError(
            f"the worker of shard {k} of {len(self._actors)} died {TRIES + 1} times in a row, the "
            f"last time with: {_first_line(lost)}; what was saved is untouched, and the same call "
            "goes on from there once the cause is mended (memory is the most frequent one)"
        )

    def _restart(self, k: int) -> None:
        """A new worker that gets the calls since the last checkpoint again."""
        self._ray.kill(self._actors[k])
        self._actors[k] = self._kind.remote()
        begun = self._begin(k)
        if not self._logs[k]:
            self._ray.get(begun)
            return
        _, refused = _unpacked(self._ray.get([begun, self._issue(k, self._logs[k])])[1])
        if refused is not None:
            raise refused

    def _pid(self, k: int) -> Any:
        return self._actors[k].pid.remote()

    def _begin(self, k: int) -> Any:
        return self._actors[k].begin.remote(self._recipe, self._starts[k])


def _packed(value: Any, most: int | None = SMALL) -> bytes | None:
    """A value in bytes; None where it is large, which is found out without a copy of its arrays."""
    parts: list[Any] = []
    head = pickle.dumps(value, protocol=5, buffer_callback=parts.append)
    if most is not None and len(head) + sum(part.raw().nbytes for part in parts) > most:
        return None
    return pickle.dumps(value, protocol=5) if parts else head


def _unpacked(answer: Any) -> Any:
    return pickle.loads(answer) if isinstance(answer, bytes) else answer


def _first_line(error: Any) -> str:
    return str(error).strip().partition("\n")[0]
