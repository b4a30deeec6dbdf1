"""Engines inside this process: shards one after the other, or on threads."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol, final

from romco.learners.merging import RangeFunction, map_ranges
from romco.shards.shard import Shard, ShardConfig, Start

MIN_PARALLEL_ROWS = 2000  # fewer rows are merged before another thread has woken up
Method = Callable[..., Any]  # of Shard
Arguments = Sequence[tuple[Any, ...] | None]  # of each shard; None: it is not called


class Engine(Protocol):
    """Runs methods of shards; it decides where and when, not the result."""

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        """Call methods of every shard in order; return the answers by shard."""

    def call_each(self, method: Method, arguments: Arguments) -> list[Any]:
        """Call a method of every shard with its own arguments."""

    def call_all(self, method: Method, *arguments: Any) -> list[Any]:
        """Call a method of every shard with the same arguments."""

    def call_one(self, k: int, method: Method, *arguments: Any) -> Any:
        """Call a method of one shard."""

    def post(self, method: Method, *arguments: Any) -> None:
        """Call a method of every shard, at the latest before any other call."""

    @property
    def local_shards(self) -> Sequence[Shard] | None:
        """The shards, if they are in this process."""

    def run_on_worker(
        self, function: Method, arguments: tuple[Any, ...], n: int
    ) -> tuple[Any, Sequence[Any]]:
        """Run a function that returns n + 1 values on one worker.

        The others may be references that :meth:`start` takes.
        """

    def start(self, starts: Sequence[Start]) -> None:
        """Start the shards anew."""

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        """Call ``function(begin, end)`` for ranges that cover 0 to n."""

    def saved(self, paths: Sequence[Path], method: Method, arguments: Arguments | None) -> None:
        """Forget the calls before: a lost shard starts from its file, with this call."""

    @property
    def lost_workers(self) -> int:
        """Workers lost so far."""

    def close(self) -> None:
        """End the shards."""


class LocalEngine(ABC):
    """Shards in this process (abstract). They need no log to recover: all are lost or none."""

    lost_workers = 0

    def __init__(self, config: ShardConfig, starts: Sequence[Start]) -> None:
        self._config = config
        self.start(starts)

    @abstractmethod
    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        """Call methods of every shard in order; return the answers by shard."""

    def call_each(self, method: Method, arguments: Arguments) -> list[Any]:
        """Call a method of every shard with its own arguments."""
        return [answer for (answer,) in self.call((method, arguments))]

    def call_all(self, method: Method, *arguments: Any) -> list[Any]:
        """Call a method of every shard with the same arguments."""
        return self.call_each(method, [arguments] * len(self._shards))

    def call_one(self, k: int, method: Method, *arguments: Any) -> Any:
        """Call a method of one shard on the caller's thread."""
        return method(self._shards[k], *arguments)

    def post(self, method: Method, *arguments: Any) -> None:
        """Call a method of every shard at once."""
        self.call_all(method, *arguments)

    def run_on_worker(
        self, function: Method, arguments: tuple[Any, ...], n: int
    ) -> tuple[Any, Sequence[Any]]:
        """Run a function on the caller's thread."""
        first, *others = function(*arguments)
        return first, others

    def start(self, starts: Sequence[Start]) -> None:
        """Start the shards anew."""
        self._shards = [Shard(self._config, start) for start in starts]
        self.local_shards: Sequence[Shard] | None = self._shards

    def saved(self, paths: Sequence[Path], method: Method, arguments: Arguments | None) -> None:  # noqa: B027
        """Do nothing: there is no log."""


@final
class Serial(LocalEngine):
    """Shards one after the other; the other engines must equal this one."""

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        """Call methods of one shard after the other."""
        return [_answers(shard, calls, k) for k, shard in enumerate(self._shards)]

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        """Call the function once."""
        function(0, n)

    def close(self) -> None:
        """Close files that are being read."""
        self.call_all(Shard.close)


@final
class Threads(LocalEngine):
    """Shards each on a thread: kernels release the interpreter's lock."""

    def __init__(self, config: ShardConfig, starts: Sequence[Start]) -> None:
        super().__init__(config, starts)
        self._pools: dict[int, ThreadPoolExecutor] = {}  # by process: a fork has no threads

    @property
    def _pool(self) -> ThreadPoolExecutor:
        process = os.getpid()
        if process not in self._pools:
            pool = ThreadPoolExecutor(len(self._shards), thread_name_prefix="romco-shard")
            self._pools = {process: pool}
        return self._pools[process]

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        """Call methods of all shards at the same time; raise the first error by shard."""
        pending = [
            self._pool.submit(_answers, shard, calls, k) for k, shard in enumerate(self._shards)
        ]
        for one in pending:
            one.exception()
        return [one.result() for one in pending]

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        """Call the function for one range per thread, if there are enough rows."""
        if n < MIN_PARALLEL_ROWS:
            function(0, n)
        else:
            map_ranges(self._pool, len(self._shards), function, n)

    def close(self) -> None:
        """End the threads."""
        self.call_all(Shard.close)
        self._pool.shutdown()


def _answers(shard: Shard, calls: Sequence[tuple[Method, Arguments]], k: int) -> list[Any]:
    return [
        None if (own := arguments[k]) is None else method(shard, *own)
        for method, arguments in calls
    ]
