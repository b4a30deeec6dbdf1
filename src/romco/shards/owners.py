"""Which shard a task belongs to: the same on every machine, in every year."""

from __future__ import annotations

import json
from typing import final
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from romco.model.names import Id, canonical_name, to_json

MIXER = 2654435761  # 2^32 over the golden ratio: spreads names that differ in few bits


def owner(task: Id, n: int) -> int:
    """The shard of a task, of ``n``; all forms of a name have the same one.

    >>> [owner(name, 4) for name in ("ann", "bob", 7, "7.0", ("shop", 7))]
    [2, 3, 1, 1, 0]
    """
    name = canonical_name(task)
    if isinstance(name, str):
        text = name.encode("utf-8", "surrogatepass")
    else:
        text = b"\0" + json.dumps(to_json(name)).encode()
    return (crc32(text) * MIXER & 0xFFFFFFFF) * n >> 32


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
        try:
            return self._found(tasks)
        except KeyError:
            self._remember(set(tasks))
            return self._found(tasks)

    def _found(self, tasks: list[Id]) -> NDArray[np.int64]:
        return np.fromiter(map(self._known.__getitem__, tasks), np.int64, len(tasks))

    def _remember(self, tasks: set[Id]) -> None:
        """Find the shards of all of them; others are forgotten where they would be too many."""
        new = tasks.difference(self._known)
        if len(self._known) + len(new) > self.MOST:
            self._known, new = {}, tasks
        self._known |= {task: owner(task, self.n) for task in new}
