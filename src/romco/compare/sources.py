"""Streams as runs see them: loaded once per process, known by a digest of their events."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from romco.compare import own
from romco.rounds import Rounds
from romco.streams import ORDERS, Stream
from romco.streams.datasets import load


@lru_cache(maxsize=8)
def stream_of(dataset: str, data_dir: Path | None = None) -> Stream:
    """The stream of a data set; a second call gives the same object."""
    kept = own.found(dataset, data_dir)
    return load(dataset, data_dir) if kept is None else kept


@lru_cache(maxsize=2)  # a dense shuffle may take 100 MB
def shuffled(dataset: str, order: str, seed: int, data_dir: Path | None = None) -> Rounds:
    """The rounds of a data set in the order named, shuffled by seed."""
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; known are {', '.join(ORDERS)}")
    return ORDERS[order](stream_of(dataset, data_dir), seed)


@lru_cache(maxsize=8)
def digest_of(dataset: str, data_dir: Path | None = None) -> str:
    """Twelve hexadecimal digits that change with any event of the data set.

    >>> digest_of("simulated") == digest_of("simulated")
    True
    """
    stream = stream_of(dataset, data_dir)
    x = stream.x
    parts = [x] if isinstance(x, np.ndarray) else [x.data, x.indices, x.indptr]
    total = hashlib.sha256(repr(x.shape).encode())
    for part in [stream.task, stream.y, *parts]:
        total.update(np.ascontiguousarray(part).data)
    return total.hexdigest()[:12]


def about(dataset: str, data_dir: Path | None = None) -> dict[str, Any]:
    """What a report needs to know of a stream without loading it again."""
    stream = stream_of(dataset, data_dir)
    events = np.bincount(stream.task, minlength=stream.n_tasks)
    positive = np.bincount(stream.task, weights=stream.y > 0, minlength=stream.n_tasks)
    return {
        "name": stream.name,
        "tasks": list(stream.tasks),
        "labels": list(stream.labels),
        "notes": list(stream.notes),
        "features": stream.n_features,
        "events": events.tolist(),
        "positive": positive.astype(int).tolist(),
        "outliers": None if stream.truth is None else stream.truth.outliers.tolist(),
    }
