"""State of shards as that of one model of all tasks, in a model file, and the way back."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from romco.io import durable
from romco.io.modelfile import save_state
from romco.kernels.io.history import EVERYBODY, PREFIX
from romco.learners import Learner, restore
from romco.learners import learner as make_learner
from romco.learners.merging import (
    Change,
    Merged,
    Values,
    apply_merged,
    merge,
    pair_arrays,
    pairs,
    shared_values,
    store_pairs,
)
from romco.model import Model, Scale
from romco.model.engine import MAX_EVENTS, next_double
from romco.model.history import TaskHistory, renamed_slots
from romco.model.names import from_json
from romco.model.target import target_from_json
from romco.parameters import whole
from romco.shards.reader import task_owner
from romco.shards.schedule import MAX_EVENTS_PER_SHARD, Schedule, StreamPosition
from romco.shards.shard import HistoryState, ShardUpdate, merge_scales, scale_numbers

State = dict[str, Any]
Numbers = NDArray[np.int64]
SECTION = "cluster"  # key of a state, and prefix of its arrays
FILE_NAME = "shards.romco"  # of a checkpoint in a folder
LEARNER = "learner."  # prefix of the learner's arrays in the state of a model
NEW_TASK_COUNTS = {"tasks.seen": 0, "tasks.since": -1}  # arrays of the model, one entry per task
MIN_TASK_ROOM = 8  # of a new model
MAX_SHARDS = 2**16
NO_TASK = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ShardsState:
    """Everything shards start from."""

    front: Model  # names of features and labels, and the shared part; it has no task
    starts: Sequence[State]  # of each shard's model
    position: StreamPosition
    updates: Sequence[ShardUpdate] | None = None  # of a period that is not over


# One model of all shards, and back


def to_model_state(
    front: Model,
    schedule: Schedule,
    position: StreamPosition,
    states: Sequence[State],
    updates: Sequence[ShardUpdate],
) -> State:
    """Return the state of one model, with a section from which shards resume the same bits."""
    named = front.state()
    settings = {"shards": schedule.n, "growth": schedule.growth, "every": schedule.every}
    section = settings | asdict(position)
    if schedule.n == 1:
        (state,) = states
        names = ("features", "labels", "notes", "session", "history")
        state |= {part: named[part] for part in names if part in named}
        state["arrays"] |= _with_prefix(named["arrays"], PREFIX, keep=True)
        return {**state, SECTION: section} if position.notes else state  # else a model's bits
    common, start = restore(front.engine.learner.state()), scale_numbers(front.engine.scale)
    merge(common, [one.change for one in updates])
    counts = [one.change.events for one in updates]
    scale = merge_scales(start, [one.scale for one in updates], counts)
    learner = {**named["learner"], "n_features": common.n_features}
    plain = {**named, "learner": learner, "scale": list(scale), "events": position.events}
    parts = [(one, np.arange(len(one["tasks"]))) for one in states]  # tasks shard by shard
    state = _assemble(plain, common.arrays(), parts)
    section |= {
        "sizes": [len(one["tasks"]) for one in states],
        "rooms": [one["learner"]["n_tasks"] for one in states],
        "start": list(start),
        "counts": [],
    }
    if any(counts):
        section |= {"counts": counts, "scales": [list(one.scale) for one in updates]}
        state["arrays"] |= _open_period(front, updates)
    return {**state, SECTION: section}


def split_history(history: TaskHistory, n: int) -> list[HistoryState]:
    """Split the history by the owners of its tasks; each has a share of the limit.

    All get what all tasks share, which they do not change if there are several.
    """
    stored, arrays = history.to_json(), history.arrays()
    names, limit = stored["tasks"], max(stored["limit"] // n, 2 + 2 * len(stored["columns"]))
    owners = np.array([-1 if name is None else task_owner(from_json(name), n) for name in names])
    slot_owners = np.array([*owners, n, -1])[arrays[f"{PREFIX}task"]]  # n: EVERYBODY, -2
    parts = []
    for k in range(n):
        tasks = [name if owner == k else None for name, owner in zip(names, owners, strict=True)]
        slots = np.flatnonzero((slot_owners == k) | (slot_owners == n))[-limit:]  # the oldest first
        own = {name: array[slots] for name, array in arrays.items()}
        parts.append(({**stored, "tasks": tasks, "limit": limit}, own))
    return parts


def merge_histories(parts: Sequence[HistoryState], limit: int) -> TaskHistory:
    """Return the history of the tasks of all shards, which have different ones."""
    tasks: list[Any] = []
    categories: dict[str, int] = {}
    arrays: dict[str, list[NDArray[Any]]] = {}
    for stored, own in parts:
        named = np.array([name is not None for name in stored["tasks"]], dtype=bool)
        number = np.array([*len(tasks) + np.cumsum(named) - 1, EVERYBODY, -1])
        tasks += [name for name in stored["tasks"] if name is not None]
        index = [categories.setdefault(name, len(categories)) for name in stored["categories"]]
        renamed = renamed_slots(own, number, np.array([*index, -1]))  # -1: of the task itself
        kept = np.flatnonzero((renamed[f"{PREFIX}task"] != EVERYBODY) | (own is parts[0][1]))
        for name, array in renamed.items():
            arrays.setdefault(name, []).append(array[kept])
    stored = {**parts[0][0], "tasks": tasks, "categories": list(categories), "limit": limit}
    whole_arrays = {name: np.concatenate(own) for name, own in arrays.items()}
    return TaskHistory.from_state(stored, whole_arrays, numeric=False)


def schedule_of(state: State, n: int | None, growth: float | None, every: int | None) -> Schedule:
    """Return the schedule of a state; arguments that are not None replace its settings."""
    section = state.get(SECTION, {})
    return Schedule(
        section.get("shards", 2) if n is None else n,
        section.get("growth", 0.1) if growth is None else growth,
        section.get("every", MAX_EVENTS_PER_SHARD) if every is None else every,
    )


def from_model_state(state: State, schedule: Schedule) -> ShardsState:
    """Split the state of a model of two classes, or resume that of as many shards."""
    check_target(target_from_json(state["labels"]).kind)
    section = state.get(SECTION)
    plain = {key: value for key, value in state.items() if key != SECTION}
    arrays = state["arrays"]
    plain["arrays"] = {name: a for name, a in arrays.items() if not name.startswith(SECTION)}
    if section is not None and section["shards"] == schedule.n > 1:
        return _resume(plain, section, arrays)
    section, events = section or {}, int(state["events"])
    place = int(section.get("place", events))
    position = StreamPosition(events, place, schedule.after(place), section.get("notes", {}))
    starts = [_without_history(plain)] if schedule.n == 1 else _split_state(plain, schedule.n)
    return ShardsState(_front(plain), starts, position)


def _without_history(state: State) -> State:
    """Return the state of a shard: the front has the history of all tasks."""
    rest = {key: value for key, value in state.items() if key != "history"}
    arrays = {name: a for name, a in state["arrays"].items() if not name.startswith(PREFIX)}
    return {**rest, "arrays": arrays}


def _split_state(state: State, n: int) -> list[State]:
    """Split a model's state by the owners of its tasks."""
    own: list[list[int]] = [[] for _ in range(n)]
    for number, name in enumerate(state["tasks"]):
        if name is not None:  # else the number is free
            own[task_owner(from_json(name), n)].append(number)
    return [_part(state, np.array(part, dtype=np.int64)) for part in own]


def _resume(plain: State, section: State, arrays: Values) -> ShardsState:
    """Return as many shards as before, each with the same tasks in the same places."""
    front, updates = _front({**plain, "scale": section["start"]}), None
    learner = front.engine.learner
    if section["counts"]:
        start = _with_prefix(arrays, f"{SECTION}.start.")
        apply_merged(learner, Merged(arrays[f"{SECTION}.rows"], start))
        updates = [_update(learner, arrays, section, k) for k in range(section["shards"])]
    shared = {f"{LEARNER}{name}": array for name, array in learner.arrays().items()}
    own = {n: a for n, a in plain["arrays"].items() if n in _of_tasks(front) or n not in shared}
    plain = {**plain, "scale": section["start"], "arrays": {**shared, **own}}
    ends = np.cumsum([0, *section["sizes"]])
    starts = [
        _part(plain, np.arange(begin, end), room)
        for (begin, end), room in zip(pairwise(ends), section["rooms"], strict=True)
    ]
    position = StreamPosition(*(section[part] for part in ("events", "place", "next", "notes")))
    return ShardsState(front, starts, position, updates)


def _part(state: State, own: Numbers, room: int | None = None) -> State:
    """Return the state of a model of some tasks."""
    shared = _with_prefix(state["arrays"], LEARNER)
    return _assemble(_without_history(state), shared, [(state, own)], room)


def _assemble(
    plain: State, shared: Values, parts: Sequence[tuple[State, Numbers]], room: int | None = None
) -> State:
    """Return ``plain`` with the ``shared`` arrays, and with the tasks of some numbers of states."""
    ends = np.cumsum([0, *(len(own) for _, own in parts)])
    room = next_double(MIN_TASK_ROOM, int(ends[-1])) if room is None else room
    name, d = plain["learner"]["learner"], plain["learner"]["n_features"]
    target = make_learner(name, d, room, **plain["learner"]["parameters"])
    arrays, tables = target.arrays(), []
    of_tasks, paired = set(target.task_axes or ()) & set(arrays), pair_arrays(target)
    for name in arrays.keys() - of_tasks - set(paired):
        arrays[name][...] = shared[name]
    counts = {name: np.full(room, new) for name, new in NEW_TASK_COUNTS.items()}
    for (state, own), (begin, end) in zip(parts, pairwise(ends), strict=True):
        inner = _with_prefix(state["arrays"], LEARNER)
        tables.append(pairs(target, inner, own, np.arange(begin, end)))
        for name in of_tasks:
            arrays[name][begin:end] = inner[name][own]
        for name, count in counts.items():
            count[begin:end] = state["arrays"][name][own]
    arrays |= store_pairs(target, arrays, tables)
    return {
        **plain,
        "learner": {**plain["learner"], "n_tasks": room},
        "tasks": [state["tasks"][number] for state, own in parts for number in own],
        "arrays": {
            **{LEARNER + name: a for name, a in arrays.items()},
            **counts,
            **_with_prefix(plain["arrays"], PREFIX, keep=True),  # the history
        },
    }


def _front(plain: State) -> Model:
    """Return the model without its tasks."""
    shared = _with_prefix(plain["arrays"], LEARNER)
    return Model.from_state(_assemble(plain, shared, [(plain, NO_TASK)]))


def _of_tasks(front: Model) -> set[str]:
    """Return the names of arrays in a state that have entries per task."""
    learner = front.engine.learner
    shared = {name for line in learner.sharing() for name in line.arrays}
    own = (set(learner.task_axes or ()) - shared) | set(pair_arrays(learner))
    return {f"{LEARNER}{name}" for name in own}


def _open_period(front: Model, updates: Sequence[ShardUpdate]) -> Values:
    """Return the changes since the last barrier, and the values before them."""
    rows = np.unique(np.concatenate([one.change.rows for one in updates]))
    arrays: Values = {f"{SECTION}.rows": rows}
    for name, array in shared_values(front.engine.learner, rows).items():
        arrays[f"{SECTION}.start.{name}"] = array
    for k, one in enumerate(updates):
        arrays |= {f"{SECTION}.{k}.rows": one.change.rows, f"{SECTION}.{k}.seen": one.change.seen}
        for name, array in one.change.values.items():
            arrays[f"{SECTION}.{k}.value.{name}"] = array
    return arrays


def _update(learner: Learner, arrays: Values, section: State, k: int) -> ShardUpdate:
    values = _with_prefix(arrays, f"{SECTION}.{k}.value.")
    rows, seen = arrays[f"{SECTION}.{k}.rows"], arrays[f"{SECTION}.{k}.seen"]
    expected, found = (
        {name: (array.shape, array.dtype) for name, array in of.items()}
        for of in (shared_values(learner, rows), values)
    )
    if found != {name: expected.get(name) for name in found} or seen.min(initial=1) < 1:
        raise ValueError(f"the changes of shard {k} do not fit the learner")
    count, scale = whole("counts", section["counts"][k], least=0), section["scales"][k]
    change = Change(count, rows, seen, values)
    return ShardUpdate(change, scale_numbers(Scale.from_json(scale)), 0)


def _with_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str, keep: bool = False) -> Values:
    """Return the arrays whose names have a prefix, without it unless it is kept."""
    names = (name for name in arrays if name.startswith(prefix))
    return {name if keep else name.removeprefix(prefix): arrays[name] for name in names}


# Validation: nothing in a file is trusted


def check_target(kind: str) -> None:
    """Raise ValueError unless the target can be learned in shards."""
    if kind != "two classes":
        raise ValueError(
            f"shards learn two classes, not {kind!r}: there is no merge rule for learners of "
            "classes and of numbers; use a plain Model"
        )


def check_section(state: Mapping[str, Any]) -> None:
    """Raise where the sizes in a state cannot be those of shards, before they are made."""
    section = state[SECTION]
    n = whole("shards", section["shards"])
    Schedule(n, section["growth"], section["every"])
    events, place, barrier = (
        whole(part, section[part], least=0) for part in ("events", "place", "next")
    )
    if (
        n > MAX_SHARDS
        or section["every"] > MAX_EVENTS
        or not events <= place < barrier <= MAX_EVENTS
    ):
        raise ValueError(f"no {n} shards are at {place} after {events} events")
    if not isinstance(section["notes"], dict):
        raise ValueError("expected notes by name")
    if n > 1:
        _check_sizes(section, len(state["tasks"]))


def _check_sizes(section: Mapping[str, Any], n_tasks: int) -> None:
    sizes = [whole("sizes", size, least=0) for size in section["sizes"]]
    rooms = [whole("rooms", room) for room in section["rooms"]]
    if not len(sizes) == len(rooms) == section["shards"] or sum(sizes) != n_tasks:
        raise ValueError(f"shards of {sizes} tasks do not make {n_tasks}")
    for size, room in zip(sizes, rooms, strict=True):
        if not size <= room <= 4 * max(MIN_TASK_ROOM, size + 1):
            raise ValueError(f"no shard of {size} tasks has room for {room}")


# The file of a checkpoint


def check_settings(path: Path, stored: State, wanted: State, given: Mapping[str, Any]) -> None:
    """Raise ValueError where settings, or ``given`` parameters, are not those of a checkpoint."""
    mine, other = ({**state, **state["learner"]} for state in (stored, wanted))
    for state in (mine, other):
        if state["features"]["kind"] == "names":  # which grow
            state["features"] = {"kind": "names"}
        state["classes"] = target_from_json(state["labels"]).classes
        state |= state["parameters"]
    names = ["learner", "features", "new_task", *(["classes"] if other["classes"] else [])]
    for name in (*names, *(name for name in other["parameters"] if name in given)):
        if mine[name] != other[name]:
            raise ValueError(
                f"{path} holds shards with {name} {mine[name]!r}, not {other[name]!r}: use the "
                "same settings, or another folder or model file"
            )


class Checkpoint(durable.Closing):
    """A model file that shards resume from and save to, and its lock for other processes.

    Within a process the newest checkpoint has the file: new shards for it, as in a notebook,
    replace the old ones. A killed process holds nothing.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self.path = (path / FILE_NAME if path.is_dir() else path).resolve()
        self._process = os.getpid()
        self._lock: ExitStack | None = ExitStack()
        other = _CHECKPOINTS.get(self.path)
        if other is not None and other._process == self._process:
            other.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock.enter_context(durable.exclusive(self.path))
        _CHECKPOINTS[self.path] = self

    def save(self, state: State) -> None:
        """Replace the file; RuntimeError where other shards of this process have it."""
        if self._lock is None:
            raise RuntimeError(
                f"other shards of this program were made for {self.path} after these: only the "
                "last ones can write to it"
            )
        save_state(state, self.path)

    def close(self) -> None:
        """Release the file."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()


_CHECKPOINTS: WeakValueDictionary[Path, Checkpoint] = WeakValueDictionary()
