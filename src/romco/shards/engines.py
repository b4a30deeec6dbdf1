"""Who runs the shards: one after the other, or each on a thread of its own."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, final

from romco.parameters import choice
from romco.shards.ranges import in_ranges
from romco.shards.shard import Recipe, Shard, Start

FEW = 2000  # rows that are merged before another thread has woken up
Verb = Callable[..., Any]  # a method of Shard
Arguments = Sequence[tuple[Any, ...] | None]


class Engine(Protocol):
    """Shards that can be asked; it decides where and when each answers, not what."""

    def series(self, *calls: tuple[Verb, Arguments]) -> list[list[Any]]:
        """Call methods of every shard, one after the other, each with its own arguments.

        Gives the answers by shard; where arguments are None the method is not called, and answers
        None.
        """

    def each(self, verb: Verb, arguments: Arguments) -> list[Any]:
        """Call a method of every shard with its own arguments; where None, it is not called."""

    def all(self, verb: Verb, *arguments: Any) -> list[Any]:
        """Call a method of every shard with the same arguments."""

    def tell(self, verb: Verb, *arguments: Any) -> None:
        """The same, if nobody waits for an answer: before anything else, at the latest."""

    def one(self, k: int, verb: Verb, *arguments: Any) -> Any:
        """Call a method of one shard."""

    @property
    def here(self) -> Sequence[Shard] | None:
        """The shards themselves, where they are in this process."""

    def elsewhere(self, act: Verb, given: tuple[Any, ...], n: int) -> tuple[Any, Sequence[Any]]:
        """Call a function that gives a list of n + 1 where there is time for it.

        Gives the first of them, and of the others what :meth:`begin` takes.
        """

    def begin(self, starts: Sequence[Start]) -> None:
        """The shards begin anew, each from a start."""

    def ranges(self, act: Callable[[int, int], None], n: int) -> None:
        """Call ``act(begin, end)`` for ranges that are 0 to n together."""

    def saved(self, paths: Sequence[Path], verb: Verb, arguments: Arguments | None) -> None:
        """All that happened is in these files; whoever takes up one begins with a call."""

    @property
    def lost(self) -> int:
        """Workers lost so far."""

    def close(self) -> None:
        """End; the shards are gone."""


def engine_of(
    name: str, recipe: Recipe, starts: Sequence[Start], address: str | None = None
) -> Engine:
    """The engine of that name, with shards that start as told."""
    choice("engine", name, "serial", "threads", "ray")
    if name == "ray":
        from romco.shards.ray import Ray  # here: it takes seconds to import

        return Ray(recipe, starts, address)
    if address is not None:
        raise ValueError(f"an address is for engine='ray', not {name!r}")
    return Serial(recipe, starts) if name == "serial" else Threads(recipe, starts)


class Here(ABC):
    """Shards in this process (abstract): an answer is there when a call returns."""

    lost = 0

    def __init__(self, recipe: Recipe, starts: Sequence[Start]) -> None:
        self._recipe = recipe
        self.begin(starts)

    @abstractmethod
    def series(self, *calls: tuple[Verb, Arguments]) -> list[list[Any]]:
        """Call methods of every shard, one after the other, each with its own arguments."""

    def each(self, verb: Verb, arguments: Arguments) -> list[Any]:
        """A series of one call."""
        return [answer for (answer,) in self.series((verb, arguments))]

    def all(self, verb: Verb, *arguments: Any) -> list[Any]:
        """The same arguments for each."""
        return self.each(verb, [arguments] * len(self._shards))

    def tell(self, verb: Verb, *arguments: Any) -> None:
        """At once."""
        self.all(verb, *arguments)

    def one(self, k: int, verb: Verb, *arguments: Any) -> Any:
        """At once, on the caller's thread."""
        return verb(self._shards[k], *arguments)

    def elsewhere(self, act: Verb, given: tuple[Any, ...], n: int) -> tuple[Any, Sequence[Any]]:
        """At once, here."""
        first, *others = act(*given)
        return first, others

    def begin(self, starts: Sequence[Start]) -> None:
        """In the order of the shards."""
        self._shards = [Shard(self._recipe, start) for start in starts]
        self.here: Sequence[Shard] | None = self._shards

    def saved(self, paths: Sequence[Path], verb: Verb, arguments: Arguments | None) -> None:  # noqa: B027
        """Nothing can be lost but all of it."""


@final
class Serial(Here):
    """Shards one after the other: what the other engines must equal."""

    def series(self, *calls: tuple[Verb, Arguments]) -> list[list[Any]]:
        """In turn."""
        return [_answers(shard, calls, k) for k, shard in enumerate(self._shards)]

    def ranges(self, act: Callable[[int, int], None], n: int) -> None:
        """All at once."""
        act(0, n)

    def close(self) -> None:
        """Files that are being read are closed."""
        self.all(Shard.close)


@final
class Threads(Here):
    """Shards each on a thread: kernels learn at the same time."""

    def __init__(self, recipe: Recipe, starts: Sequence[Start]) -> None:
        super().__init__(recipe, starts)
        self._pools: dict[int, ThreadPoolExecutor] = {}  # by process: a fork has no threads

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """The threads of this process."""
        process = os.getpid()
        if process not in self._pools:
            made = ThreadPoolExecutor(len(self._shards), thread_name_prefix="romco-shard")
            self._pools = {process: made}
        return self._pools[process]

    def series(self, *calls: tuple[Verb, Arguments]) -> list[list[Any]]:
        """At the same time; when all are done, the first error in the order of the shards."""
        waiting = [
            self._pool.submit(_answers, shard, calls, k) for k, shard in enumerate(self._shards)
        ]
        for one in waiting:
            one.exception()
        return [one.result() for one in waiting]

    def ranges(self, act: Callable[[int, int], None], n: int) -> None:
        """At the same time, where there is enough to do for more than one."""
        if n < FEW:
            act(0, n)
        else:
            in_ranges(self._pool, len(self._shards), act, n)

    def close(self) -> None:
        """End the threads."""
        self.all(Shard.close)
        self._pool.shutdown()


def _answers(shard: Shard, calls: Sequence[tuple[Verb, Arguments]], k: int) -> list[Any]:
    """What the k-th shard answers to some calls."""
    return [
        None if (given := arguments[k]) is None else verb(shard, *given)
        for verb, arguments in calls
    ]
