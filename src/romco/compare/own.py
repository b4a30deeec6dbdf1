"""A user's own file as a stream that runs can load: read once, kept as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from romco.io.reader import Block
from romco.model.features import Names
from romco.model.labels import Labels
from romco.model.rows import Sparse
from romco.model.targets import Target, target_of
from romco.model.tasks import Tasks
from romco.streams.stream import Stream


def gather(
    name: str, blocks: Iterable[Block], positive: str | None = None, target: str | None = None
) -> Stream:
    """The events of a file as a stream: all of them, in memory.

    Raises ValueError where labels are not two, or not what ``target`` says.
    """
    names, tasks, labels = Names(), Tasks(), target_of(target, None, positive)
    parts: list[Sparse] = []
    task: list[int] = []
    y: list[np.ndarray[Any, Any]] = []
    for block in blocks:
        new: dict[Any, int] = {}
        rows = names.read(block.features, new)
        assert isinstance(rows, Sparse)
        names.add(new)
        parts.append(rows)
        task += [tasks.add(one) if (k := tasks.find(one)) < 0 else k for one in block.tasks]
        signs, side = labels.read(block.labels)
        labels.adopt(side)
        y.append(signs)
    if not y or (labels.kind != "number" and len(labels.classes) < 2):
        raise ValueError(f"{name}: expected events of two labels; found {labels.classes}")
    return Stream(
        name,
        np.array(task, dtype=np.int64),
        _matrix(parts, names.width),
        _turn(labels) * np.concatenate(y),
        tuple(str(one) for one, _ in tasks.items()),
        tuple(map(str, labels.classes)),
        answers=_answers(labels),
    )


def _turn(target: Target) -> float:
    """What signs are to be multiplied by, so that the positive label is +1."""
    return float(target.turn) if isinstance(target, Labels) else 1.0


def _answers(target: Target) -> int:
    """What a learner of the target learns: see :class:`romco.learners.Learner`."""
    if target.kind == "two classes":
        return 1
    return len(target.classes) if target.kind == "classes" else 0


def keep(stream: Stream, folder: Path) -> None:
    """Write a stream to where :func:`found` finds it."""
    folder.mkdir(parents=True, exist_ok=True)
    words = json.dumps([stream.tasks, stream.labels, stream.notes]).encode()
    x = csr_array(stream.x)
    np.savez_compressed(
        _place(stream.name, folder),
        task=stream.task,
        y=stream.y,
        data=x.data,
        indices=x.indices,
        indptr=x.indptr,
        width=np.int64(x.shape[1]),
        answers=np.int64(stream.answers),
        words=np.frombuffer(words, dtype=np.uint8),
    )


def found(name: str, folder: Path | None) -> Stream | None:
    """The stream that was kept under this name, if there is one."""
    if folder is None or not _place(name, folder).exists():
        return None
    with np.load(_place(name, folder)) as kept:
        tasks, labels, notes = (tuple(one) for one in json.loads(kept["words"].tobytes()))
        shape = (len(kept["y"]), int(kept["width"]))
        x = csr_array((kept["data"], kept["indices"], kept["indptr"]), shape=shape)
        answers = int(kept["answers"])
        return Stream(name, kept["task"], x, kept["y"], tasks, labels, notes, answers=answers)


def _place(name: str, folder: Path) -> Path:
    return folder / f"{name}.npz"


def _matrix(parts: list[Sparse], width: int) -> csr_array:
    ends = np.cumsum([0, *(len(part.values) for part in parts)])
    starts = [part.starts[1:] + end for part, end in zip(parts, ends, strict=False)]
    return csr_array(
        (
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.columns for part in parts]),
            np.concatenate([[0], *starts]),
        ),
        shape=(sum(len(part.starts) - 1 for part in parts), max(width, 1)),
    )
