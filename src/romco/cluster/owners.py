"""Which shard a task belongs to: the same on every machine, in every year."""

from __future__ import annotations

import json
from typing import Any, final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Id, to_json

MIXER = 2654435761  # 2^32 over the golden ratio: spreads names that differ in few bits


def owner(task: Id, n: int) -> int:
    """The shard of a task, of ``n``; names that are equal have the same one.

    >>> [owner(name, 4) for name in ("ann", "bob", 7, 7.0, ("shop", 7))]
    [2, 3, 2, 2, 2]
    """
    if type(task) is str:
        text = task.encode("utf-8", "surrogatepass")
    else:
        text = b"\0" + json.dumps(_same(to_json(task)), sort_keys=True).encode()
    return (crc32(text) * MIXER & 0xFFFFFFFF) * n >> 32


def _same(value: Any) -> Any:
    """One form for names that Python calls equal: 1, 1.0 and True."""
    if isinstance(value, dict):
        return {tag: _same(inner) for tag, inner in value.items()}
    if isinstance(value, list):
        return [_same(inner) for inner in value]
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        return int(value)
    return value


@final
class Owners:
    """The owners of tasks, remembered: a stream asks for the same ones again and again."""

    MOST = 1_000_000  # names remembered, so that memory does not grow with all tasks

    def __init__(self, n: int) -> None:
        self.n = n
        self._known: dict[Id, int] = {}

    def of(self, tasks: list[Id]) -> NDArray[np.int64]:
        """The shard (k,) of each task."""
        if self.n == 1:
            return np.zeros(len(tasks), dtype=np.int64)
        known = self._known
        for task in tasks:
            if task not in known:
                if len(known) >= self.MOST:
                    known.clear()
                known[task] = owner(task, self.n)
        return np.array([known[task] for task in tasks], dtype=np.int64)
