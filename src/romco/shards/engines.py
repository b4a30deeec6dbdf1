"""Engines: where the methods of shards run. Here shards of this process, in turn or on threads."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from romco.learners.merging import RangeFunction, map_ranges
from romco.shards.shard import Shard

MIN_PARALLEL_ROWS = 2000  # fewer rows are merged before another thread has woken up
State = dict[str, Any]  # of a shard's model
Method = Callable[..., Any]  # of Shard
Arguments = Sequence[tuple[Any, ...] | None]  # of each shard; None: it is not called


class Engine:
    """Shards one after the other; other engines change where and when they run, not the result."""

    local_shards: Sequence[Shard] | None = None  # if they are in this process
    lost_workers = 0

    def __init__(self, starts: Sequence[State]) -> None:
        self.start(starts)

    def start(self, starts: Sequence[State]) -> None:
        """Start as many shards in the place of those before."""
        self.n = len(starts)
        self.local_shards = self._shards = [Shard(self.n, start) for start in starts]

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        """Call methods of every shard in order; return the answers by shard."""
        return [self._answers(k, calls) for k in range(self.n)]

    def close(self) -> None:
        """End the shards."""
        self.call_all(Shard.close)

    def call_each(self, method: Method, arguments: Arguments) -> list[Any]:
        """Call a method of every shard with its own arguments."""
        return [answer for (answer,) in self.call((method, arguments))]

    def call_all(self, method: Method, *arguments: Any) -> list[Any]:
        """Call a method of every shard with the same arguments."""
        return self.call_each(method, [arguments] * self.n)

    def call_one(self, k: int, method: Method, *arguments: Any) -> Any:
        """Call a method of one shard."""
        if self.local_shards is not None:
            return method(self._shards[k], *arguments)
        every: list[tuple[Any, ...] | None] = [None] * self.n
        every[k] = arguments
        return self.call_each(method, every)[k]

    def post(self, method: Method, *arguments: Any) -> None:
        """Call a method of every shard, at the latest before any other call."""
        self.call_all(method, *arguments)

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        """Call ``function(begin, end)`` for ranges that cover 0 to n."""
        function(0, n)

    def saved(self, starts: Sequence[State], method: Method, arguments: Arguments) -> None:
        """Drop the log of calls, which engines of this process do not need."""

    def _answers(self, k: int, calls: Sequence[tuple[Method, Arguments]]) -> list[Any]:
        answers = []
        for method, arguments in calls:
            own = arguments[k]
            answer = None
            if own is not None:
                answer = method(self._shards[k], *own)
            answers.append(answer)
        return answers


class Threads(Engine):
    """Shards each on a thread: kernels release the interpreter's lock."""

    _threads: ThreadPoolExecutor | None = None
    _process = 0  # that has them: a fork has no threads

    def start(self, starts: Sequence[State]) -> None:
        super().start(starts)
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    @property
    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None or self._process != os.getpid():
            self._threads = ThreadPoolExecutor(self.n, thread_name_prefix="romco-shard")
            self._process = os.getpid()
        return self._threads

    def call(self, *calls: tuple[Method, Arguments]) -> list[list[Any]]:
        pending = [self._pool.submit(self._answers, k, calls) for k in range(self.n)]
        for one in pending:
            one.exception()
        return [one.result() for one in pending]

    def map_ranges(self, function: RangeFunction, n: int) -> None:
        if n < MIN_PARALLEL_ROWS:
            function(0, n)
        else:
            map_ranges(self._pool, self.n, function, n)

    def close(self) -> None:
        super().close()
        self._pool.shutdown()
