"""Engines inside this process: shards one after the other, or on threads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from romco.learners.merging import RangeFunction, map_ranges
from romco.shards.shard import Arguments, Engine, Method, Shard, ShardConfig, Start

MIN_PARALLEL_ROWS = 2000  # fewer rows are merged before another thread has woken up


class LocalEngine(Engine):
    """Shards in this process (abstract)."""

    def __init__(self, config: ShardConfig, starts: Sequence[Start]) -> None:
        self._config = config
        self.start(starts)

    def call_all(self, method: Method, *arguments: Any) -> list[Any]:
        return self.call_each(method, [arguments] * len(self._shards))

    def call_one(self, k: int, method: Method, *arguments: Any) -> Any:
        return method(self._shards[k], *arguments)

    def post(self, method: Method, *arguments: Any) -> None:
        self.call_all(method, *arguments)

    def start(self, starts: Sequence[Start]) -> None:
        self._shards = self.local_shards = [Shard(self._config, start) for start in starts]


class Serial(LocalEngine):
    """Shards one after the other; the other engines must equal this one."""

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        return [_answers(shard, calls, k) for k, shard in enumerate(self._shards)]

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        function(0, n)

    def close(self) -> None:
        self.call_all(Shard.close)


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
        pending = [
            self._pool.submit(_answers, shard, calls, k) for k, shard in enumerate(self._shards)
        ]
        for one in pending:
            one.exception()
        return [one.result() for one in pending]

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        if n < MIN_PARALLEL_ROWS:
            function(0, n)
        else:
            map_ranges(self._pool, len(self._shards), function, n)

    def close(self) -> None:
        self.call_all(Shard.close)
        self._pool.shutdown()


def _answers(shard: Shard, calls: Sequence[tuple[Method, Arguments]], k: int) -> list[Any]:
    return [
        None if (own := arguments[k]) is None else method(shard, *own)
        for method, arguments in calls
    ]
