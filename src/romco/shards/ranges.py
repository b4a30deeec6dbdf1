"""Rows that several threads do at the same time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

import numpy as np


def in_ranges(pool: Executor, k: int, act: Callable[[int, int], None], n: int) -> None:
    """Call ``act(begin, end)`` for k ranges of n rows at the same time.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> found = []
    >>> with ThreadPoolExecutor(1) as pool:
    ...     in_ranges(pool, 3, lambda begin, end: found.append((begin, end)), 10)
    >>> found
    [(0, 3), (3, 6), (6, 10)]
    """
    ends = np.linspace(0, n, k + 1).astype(int).tolist()
    list(pool.map(act, ends[:-1], ends[1:]))
