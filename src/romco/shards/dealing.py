"""From the state of one model to those of shards, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.learners import learner
from romco.learners.capabilities import Merges
from romco.learners.merging import mergeable
from romco.learners.sharing import PerPair
from romco.model.engine import next_double
from romco.model.names import from_json
from romco.shards.owners import owner

Arrays = dict[str, NDArray[Any]]
State = dict[str, Any]
Numbers = NDArray[np.int64]

LEAST = 8  # tasks that a model has room for at first
HISTORY = {"tasks.seen": 0, "tasks.since": -1}  # of each task, and what a new one has
INNER = "learner."  # begins the names of the learner's arrays in the state of a model


def owned(state: State, n: int) -> list[Numbers]:
    """Numbers of the tasks of each shard, in their order; numbers that are free are left out."""
    shards: list[list[int]] = [[] for _ in range(n)]
    for number, name in enumerate(state["tasks"]):
        if n == 1 or name is not None:
            shards[owner(from_json(name), n) if n > 1 else 0].append(number)
    return [np.array(numbers, dtype=np.int64) for numbers in shards]


def deal(state: State, owners: Sequence[Numbers], rooms: Sequence[int]) -> list[State]:
    """The states of shards, each with the tasks whose numbers are given, and room for more."""
    return [_part(state, own, room) for own, room in zip(owners, rooms, strict=True)]


def room_for(own: Numbers) -> int:
    """Room of a shard that was never asked about more tasks than it has."""
    return next_double(LEAST, len(own))


def combine(front: State, common: Merges, states: Sequence[State]) -> State:
    """The state of one model of all tasks: those of the first shard, then of the second, ...

    ``front`` tells names of features and labels; what is shared is that of ``common``.
    """
    sizes = [len(state["tasks"]) for state in states]
    room = next_double(LEAST, sum(sizes))
    target = mergeable(_made(front, common.n_features, room))
    arrays, first = target.arrays(), 0
    for name, array in common.arrays().items():
        if name not in (target.task_axes or ()) and name not in _pairs(target):
            arrays[name][...] = array
    history = {name: np.full(room, new) for name, new in HISTORY.items()}
    tables = []
    for state, size in zip(states, sizes, strict=True):
        inner, own = _inner(state["arrays"]), np.arange(size)
        tables.append(_table(inner, _pairs(target), own, own + first))
        for name in set(target.task_axes or ()) & set(arrays):
            arrays[name][first : first + size] = inner[name][:size]
        for name, kept in history.items():
            kept[first : first + size] = state["arrays"][name][:size]
        first += size
    arrays |= _stored(tables, target, arrays)
    return {
        **front,
        "learner": {**front["learner"], "n_features": common.n_features, "n_tasks": room},
        "tasks": [name for state in states for name in state["tasks"]],
        "arrays": {**{INNER + name: a for name, a in arrays.items()}, **history},
    }


def _part(state: State, own: Numbers, room: int) -> State:
    """The state of a model of some of the tasks."""
    found, n_features = _inner(state["arrays"]), state["learner"]["n_features"]
    target = mergeable(_made(state, n_features, room))
    arrays = target.arrays()
    for name, array in arrays.items():
        if name in (target.task_axes or ()):
            array[: len(own)] = found[name][own]
        elif name not in _pairs(target):
            array[...] = found[name]
    table = _table(found, _pairs(target), own, np.arange(len(own)))
    arrays |= _stored([table], target, arrays)
    history = {name: np.full(room, new) for name, new in HISTORY.items()}
    for name, kept in history.items():
        kept[: len(own)] = state["arrays"][name][own]
    return {
        **state,
        "learner": {**state["learner"], "n_tasks": room},
        "tasks": [state["tasks"][number] for number in own],
        "arrays": {**{INNER + name: a for name, a in arrays.items()}, **history},
    }


def _made(state: State, n_features: int, n_tasks: int) -> Any:
    inner = state["learner"]
    return learner(inner["learner"], n_features, n_tasks, **inner["parameters"])


def _inner(arrays: Arrays) -> Arrays:
    return {n.removeprefix(INNER): a for n, a in arrays.items() if n.startswith(INNER)}


def _pairs(target: Merges) -> tuple[str, ...]:
    """Names of the arrays of pairs: values, keys; none if there are none."""
    return next((line.arrays for line in target.sharing() if isinstance(line, PerPair)), ())


def features_of_pairs(learner: Merges) -> NDArray[np.bool_]:
    """Which features (d,) any task has something of."""
    found, names = np.zeros(learner.n_features, dtype=bool), _pairs(learner)
    if names:
        keys, _ = _table(learner.arrays(), names, np.arange(learner.n_tasks))
        found[keys & 0xFFFFFFFF] = True
    return found


def _table(
    arrays: Arrays, names: tuple[str, ...], own: Numbers, renamed: Numbers | None = None
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Keys and values of the pairs of some tasks, which get other numbers, in their order."""
    renamed = own if renamed is None else renamed
    if not names:
        return np.empty(0, dtype=np.int64), np.empty((0, 0))
    values, keys = arrays[names[0]], arrays.get(names[1])
    if keys is None:  # dense (m, d, width)
        task, feature = np.nonzero(values[own].any(axis=2))
        return (renamed[task] << 32) | feature, values[own[task], feature]
    number = np.full(max(int((keys >> 32).max(initial=0)), int(own.max(initial=0))) + 1, -1)
    number[own] = renamed
    task = number[keys >> 32]
    kept = task >= 0
    return (task[kept] << 32) | (keys[kept] & 0xFFFFFFFF), values[kept]


def _stored(
    tables: Sequence[tuple[NDArray[np.int64], NDArray[np.float64]]], target: Merges, arrays: Arrays
) -> Arrays:
    """The pairs of tables as the target's store keeps them."""
    names = _pairs(target)
    if not names:
        return {}
    keys = np.concatenate([keys for keys, _ in tables])
    values = np.concatenate([values for _, values in tables])
    if names[1] in arrays:
        return {names[0]: values, names[1]: keys}
    dense = np.zeros_like(arrays[names[0]])
    dense[keys >> 32, keys & 0xFFFFFFFF] = values
    return {names[0]: dense}
