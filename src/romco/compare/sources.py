"""Streams that runs load: data sets by name, and files of the user's own."""

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from romco.evaluation.arrival import AT_ONCE, Arrival, LateLabels
from romco.io.reader import Block, join_blocks
from romco.model.features import Names, Sparse, as_matrix
from romco.model.names import TaskTable
from romco.model.target import make_target
from romco.rounds import Rounds
from romco.streams import ORDERS, Stream
from romco.streams.datasets import load

SCATTERED = "not all next to each other: those that came again count as another moment"
OFFSET_NOTE = "every row adds the offset; the first two, an intercept besides"


@lru_cache(maxsize=8)
def stream_of(dataset: str, data_dir: Path | None = None) -> Stream:
    """Load the stream of a data set; a second call returns the same object."""
    saved = saved_stream(dataset, data_dir)
    if saved is None:
        return load(dataset, data_dir)
    return saved


@lru_cache(maxsize=2)  # a dense shuffle may take 100 MB
def shuffled(dataset: str, order: str, seed: int, data_dir: Path | None = None) -> Rounds:
    """Return the rounds of a data set in one of ``ORDERS``, shuffled by seed."""
    if order not in ORDERS:
        raise ValueError(f"unknown order {order!r}; known are {', '.join(ORDERS)}")
    return ORDERS[order](stream_of(dataset, data_dir), seed)


@lru_cache(maxsize=8)
def digest_of(dataset: str, data_dir: Path | None = None) -> str:
    """Return twelve hexadecimal digits that change with any event of the data set."""
    stream = stream_of(dataset, data_dir)
    x = stream.x
    if isinstance(x, np.ndarray):
        parts = [x]
    else:
        parts = [x.data, x.indices, x.indptr]
    parts += [part for part in (stream.offset, stream.moment) if part is not None]
    total = hashlib.sha256(repr(x.shape).encode())
    for part in [stream.task, stream.y, *parts]:
        total.update(np.ascontiguousarray(part).data)
    return total.hexdigest()[:12]


def about(dataset: str, data_dir: Path | None = None) -> dict[str, Any]:
    """Describe a stream for a report, so that it need not be loaded again."""
    stream = stream_of(dataset, data_dir)
    events = np.bincount(stream.task, minlength=stream.n_tasks)
    positive = np.bincount(stream.task, weights=stream.y > 0, minlength=stream.n_tasks)
    outliers = None
    if stream.truth is not None:
        outliers = stream.truth.outliers.tolist()
    return {
        "name": stream.name,
        "tasks": list(stream.tasks),
        "labels": list(stream.labels),
        "notes": list(stream.notes),
        "features": stream.n_features,
        "answers": stream.answers,
        "events": events.tolist(),
        "positive": positive.astype(int).tolist(),
        "outliers": outliers,
    }


def gather(
    name: str,
    blocks: Iterable[Block],
    positive: str | None = None,
    target: str | None = None,
    arrival: Arrival = AT_ONCE,
) -> Stream:
    """Make a stream of all events of a file, in memory, with moments if labels come so.

    Raises ValueError where labels are not two, or do not match ``target``, and where offsets
    come with many classes.
    """
    names = Names()
    tasks = TaskTable()
    labels = make_target(target, None, positive)
    held = list(blocks)
    if not held:
        raise ValueError(f"{name} has no events")
    rows = join_blocks(held)
    moments: list[float] = []
    late = LateLabels(arrival, lambda piece, context: None)
    if rows.moments is not None:
        late.check(rows)
        for piece in late.pieces(rows):
            moments += [late.time] * len(piece)
    new: dict[Any, int] = {}
    features = names.read(rows.features, new)
    assert isinstance(features, Sparse)
    names.add(new)
    task = []
    for one in rows.tasks:
        number = tasks.find(one)
        if number < 0:
            number = tasks.add(one)
        task.append(number)
    signs, side = labels.read(rows.labels)
    labels.adopt(side)
    if labels.kind != "number" and len(labels.classes) < 2:
        raise ValueError(f"{name}: expected events of two labels; found {labels.classes}")
    offset = rows.offsets
    if offset is not None and (labels.kind == "classes" or offset.ndim == 2):
        raise ValueError(f"{name}: an offset is of two classes or of a number, not of many classes")
    moment = None
    if moments:
        moment = np.array(moments)
    notes = []
    if late.scattered:
        notes.append(f"rows of one {arrival.together} are {SCATTERED}")
    if offset is not None:
        notes.append(OFFSET_NOTE)
    return Stream(
        name,
        np.array(task, dtype=np.int64),
        csr_array(as_matrix(features, max(names.width, 1))),
        labels.sign * signs,
        tuple(map(str, tasks.number)),
        tuple(map(str, labels.classes)),
        notes=tuple(notes),
        answers={"two classes": 1, "number": 0}.get(labels.kind, len(labels.classes)),
        offset=offset,
        moment=moment,
    )


def save_stream(stream: Stream, folder: Path) -> None:
    """Write a stream as plain arrays, for :func:`stream_of`."""
    folder.mkdir(parents=True, exist_ok=True)
    x = csr_array(stream.x)
    arrays: dict[str, Any] = {"task": stream.task, "y": stream.y}
    arrays |= {"data": x.data, "indices": x.indices, "indptr": x.indptr}
    if stream.offset is not None:
        arrays["offset"] = stream.offset
    if stream.moment is not None:
        arrays["moment"] = stream.moment
    words = json.dumps([x.shape, stream.tasks, stream.labels, stream.notes, stream.answers])
    np.savez_compressed(folder / f"{stream.name}.npz", words=np.array(words), **arrays)


def saved_stream(name: str, folder: Path | None) -> Stream | None:
    """Read a stream that :func:`save_stream` wrote under this name, if there is one."""
    if folder is None or not (path := folder / f"{name}.npz").exists():
        return None
    with np.load(path) as kept:
        shape, tasks, labels, notes, answers = json.loads(str(kept["words"]))
        x = csr_array((kept["data"], kept["indices"], kept["indptr"]), shape=tuple(shape))
        words = tuple(tasks), tuple(labels), tuple(notes)
        known = kept.get("offset"), kept.get("moment")
        return Stream(name, kept["task"], x, kept["y"], *words, None, answers, *known)
