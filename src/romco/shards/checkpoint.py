"""State of shards as that of one model of all tasks, in a model file, and the way back."""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
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
from romco.learners.base import add_prefix, take_prefix
from romco.learners.capabilities import AddsClasses
from romco.learners.merging import (
    Change,
    Merged,
    Pairs,
    Values,
    apply_merged,
    merge,
    merge_scales,
    pair_lines,
    pairs,
    shared_values,
    store_pairs,
)
from romco.model import Model, Scale
from romco.model.body import next_double
from romco.model.engine import MAX_EVENTS
from romco.model.history import TaskHistory, renamed_slots
from romco.model.names import from_json
from romco.model.target import target_from_json
from romco.parameters import whole
from romco.shards.reader import task_owner
from romco.shards.schedule import MAX_EVENTS_PER_SHARD, Schedule, StreamPosition
from romco.shards.shard import HistoryState, ShardUpdate, scale_numbers
from romco.typing import Integers

State = dict[str, Any]
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
    settings = {"shards": schedule.n, "growth": schedule.growth, "every": schedule.every}
    section = settings | asdict(position)
    if len(states) == 1:
        state = _add_front(states[0], front.state(copy=False))
        if schedule.n > 1 or position.notes:  # else it is a plain model's state, bit for bit
            state[SECTION] = section
        return state
    changes = [one.change for one in updates]
    scales = [one.scale for one in updates]
    counts = [change.events for change in changes]
    common = restore(front.engine.learner.state())
    merge(common, changes)
    start = scale_numbers(front.engine.scale)
    plain = front.state(copy=False)  # without its arrays, but for the history
    plain["learner"] = {**plain["learner"], "n_features": common.n_features}
    plain["scale"] = list(merge_scales(start, scales, counts))
    plain["events"] = position.events
    sizes = [len(one["tasks"]) for one in states]
    parts = list(zip(states, map(np.arange, sizes), strict=True))  # tasks shard by shard
    state = _assemble(plain, common.arrays(), parts)
    rooms = [one["learner"]["n_tasks"] for one in states]
    section |= {"sizes": sizes, "rooms": rooms, "start": list(start), "counts": []}
    if any(counts):
        section |= {"counts": counts, "scales": list(map(list, scales))}
        state["arrays"] |= _open_period(front, updates)
    return {**state, SECTION: section}


def _add_front(state: State, front: State) -> State:
    """Return the state of the only shard with the names and the history of the front."""
    names = ("features", "labels", "notes", "session", "history")
    parts = {name: front[name] for name in names if name in front}
    arrays = state["arrays"] | _history_arrays(front)
    return {**state, **parts, "arrays": arrays}


def split_history(history: TaskHistory, n: int) -> list[HistoryState]:
    """Split the history by the owners of its tasks; each has a share of the limit.

    All get what all tasks share, which they do not change if there are several.
    """
    stored = history.to_json()
    arrays = history.arrays()
    limit = max(stored["limit"] // n, 2 + 2 * len(stored["columns"]))
    owners = _owners(stored["tasks"], n)
    slot_owners = np.array([*owners, n, -1])[arrays[f"{PREFIX}task"]]  # n: EVERYBODY, -2
    parts = []
    for k in range(n):
        tasks = list(stored["tasks"])
        for number in np.flatnonzero(owners != k):
            tasks[number] = None
        slots = np.flatnonzero((slot_owners == k) | (slot_owners == n))[-limit:]  # the oldest first
        own = {name: array[slots] for name, array in arrays.items()}
        parts.append(({**stored, "tasks": tasks, "limit": limit}, own))
    return parts


def _owners(names: Sequence[Any], n: int) -> Integers:
    """Return the owner of each task of a state among n shards; -1 where a number is free."""
    owners = np.full(len(names), -1, dtype=np.int64)
    for number, name in enumerate(names):
        if name is not None:
            owners[number] = task_owner(from_json(name), n)
    return owners


def merge_histories(parts: Sequence[HistoryState], limit: int, numeric: bool) -> TaskHistory:
    """Return the history of the tasks of all shards, which have different ones.

    ``numeric`` is whether labels are numbers.
    """
    tasks: list[Any] = []
    categories: dict[str, int] = {}
    arrays: dict[str, list[NDArray[Any]]] = {}
    for stored, own in parts:
        numbers = np.full(len(stored["tasks"]) + 2, -1)
        numbers[EVERYBODY] = EVERYBODY
        for number, name in enumerate(stored["tasks"]):
            if name is not None:
                numbers[number] = len(tasks)
                tasks.append(name)
        index = [categories.setdefault(name, len(categories)) for name in stored["categories"]]
        index.append(-1)  # of the task itself
        renamed = renamed_slots(own, numbers, np.array(index))
        kept = np.flatnonzero((renamed[f"{PREFIX}task"] != EVERYBODY) | (own is parts[0][1]))
        for name, array in renamed.items():
            arrays.setdefault(name, []).append(array[kept])
    stored = {**parts[0][0], "tasks": tasks, "categories": list(categories), "limit": limit}
    whole_arrays = {name: np.concatenate(own) for name, own in arrays.items()}
    return TaskHistory.from_state(stored, whole_arrays, numeric=numeric)


def schedule_of(state: State, n: int | None, growth: float | None, every: int | None) -> Schedule:
    """Return the schedule of a state; arguments that are not None replace its settings."""
    settings = {"shards": 2, "growth": 0.1, "every": MAX_EVENTS_PER_SHARD} | state.get(SECTION, {})
    arguments = {"shards": n, "growth": growth, "every": every}
    settings |= {name: value for name, value in arguments.items() if value is not None}
    return Schedule(settings["shards"], settings["growth"], settings["every"])


def from_model_state(state: State, schedule: Schedule) -> ShardsState:
    """Split the state of a model, or resume that of as many shards.

    One shard goes on until the schedule spreads the tasks.
    """
    plain = _without(state, SECTION, SECTION)
    section = state.get(SECTION, {"shards": None})
    if section["shards"] == schedule.n > 1 and "sizes" in section:
        return _resume(plain, section, state["arrays"])
    events = int(state["events"])
    place = int(section.get("place", events))
    following = schedule.after(place)
    if section["shards"] == schedule.n:
        following = int(section["next"])
    position = StreamPosition(events, place, following, section.get("notes", {}))
    if schedule.n == 1 or place < schedule.first:
        starts = [_without(plain, "history", PREFIX)]
    else:
        owners = _owners(state["tasks"], schedule.n)
        starts = [_part(plain, np.flatnonzero(owners == k)) for k in range(schedule.n)]
    return ShardsState(_front(plain), starts, position)


def _without(state: State, key: str, prefix: str) -> State:
    """Return a state without one of its parts, whose arrays have a prefix."""
    arrays = {name: a for name, a in state["arrays"].items() if not name.startswith(prefix)}
    rest = {**state, "arrays": arrays}
    rest.pop(key, None)
    return rest


def _resume(plain: State, section: State, arrays: Values) -> ShardsState:
    """Return as many shards as before, each with the same tasks in the same places."""
    plain = {**plain, "scale": section["start"]}
    front = _front(plain)
    learner = front.engine.learner
    updates = None
    if section["counts"]:
        start = take_prefix(f"{SECTION}.start.", arrays)
        apply_merged(learner, Merged(arrays[f"{SECTION}.rows"], start))
        updates = [_update(learner, arrays, section, k) for k in range(section["shards"])]
    shared = learner.arrays()
    for name in shared.keys() & _of_tasks(learner):
        del shared[name]
    plain["arrays"] = plain["arrays"] | add_prefix(LEARNER, shared)
    ends = np.cumsum(section["sizes"])
    tasks = map(np.arange, ends - section["sizes"], ends)
    starts = [_part(plain, own, room) for own, room in zip(tasks, section["rooms"], strict=True)]
    position = StreamPosition(
        section["events"], section["place"], section["next"], section["notes"]
    )
    return ShardsState(front, starts, position, updates)


def _part(state: State, own: Integers, room: int | None = None) -> State:
    """Return the state of a model of some tasks."""
    shared = take_prefix(LEARNER, state["arrays"])
    return _assemble(_without(state, "history", PREFIX), shared, [(state, own)], room)


def _assemble(
    plain: State, shared: Values, parts: Sequence[tuple[State, Integers]], room: int | None = None
) -> State:
    """Return ``plain`` with the ``shared`` arrays, and with the tasks of some numbers of states."""
    ends = np.cumsum([0, *(len(own) for _, own in parts)])
    if room is None:
        room = next_double(MIN_TASK_ROOM, int(ends[-1]))
    learner = {**plain["learner"], "n_tasks": room}
    sizes = learner["n_features"], room
    target = make_learner(learner["learner"], *sizes, **learner["parameters"])
    if isinstance(target, AddsClasses) and "classes" in shared:
        target.make_classes(int(shared["classes"][0]))
    arrays = target.arrays()
    of_tasks = set(target.task_axes or ()) & set(arrays)
    stores = pair_lines(target)
    for name in arrays.keys() - _of_tasks(target):
        arrays[name] = shared[name].copy()
    counts = {name: np.full(room, new) for name, new in NEW_TASK_COUNTS.items()}
    names: list[Any] = []
    tables: list[list[Pairs]] = []
    for (state, own), begin, end in zip(parts, ends, ends[1:], strict=False):
        inner = take_prefix(LEARNER, state["arrays"])
        tables.append([pairs(line, inner, own, np.arange(begin, end)) for line in stores])
        for name in of_tasks:
            arrays[name][begin:end] = inner[name][own]
        for name, count in counts.items():
            count[begin:end] = state["arrays"][name][own]
        names += [state["tasks"][number] for number in own]
    for line, *of_line in zip(stores, *tables, strict=True):
        arrays |= store_pairs(line, arrays, of_line)
    every = {**add_prefix(LEARNER, arrays), **counts, **_history_arrays(plain)}
    return {**plain, "learner": learner, "tasks": names, "arrays": every}


def _front(plain: State) -> Model:
    """Return the model without its tasks."""
    shared = take_prefix(LEARNER, plain["arrays"])
    return Model.from_state(_assemble(plain, shared, [(plain, NO_TASK)]))


def _of_tasks(learner: Learner) -> set[str]:
    """Return the names of a learner's arrays that have entries per task."""
    own = set(learner.task_axes or ())
    for line in pair_lines(learner):
        own |= set(line.arrays)
    return own


def _open_period(front: Model, updates: Sequence[ShardUpdate]) -> Values:
    """Return the changes since the last barrier, and the values before them."""
    changes = [one.change for one in updates]
    rows = np.unique(np.concatenate([change.rows for change in changes]))
    arrays: Values = {f"{SECTION}.rows": rows}
    for name, array in shared_values(front.engine.learner, rows).items():
        arrays[f"{SECTION}.start.{name}"] = array
    for k, change in enumerate(changes):
        arrays[f"{SECTION}.{k}.rows"] = change.rows
        arrays[f"{SECTION}.{k}.seen"] = change.seen
        for name, array in change.values.items():
            arrays[f"{SECTION}.{k}.value.{name}"] = array
    return arrays


def _update(learner: Learner, arrays: Values, section: State, k: int) -> ShardUpdate:
    values = take_prefix(f"{SECTION}.{k}.value.", arrays)
    rows = arrays[f"{SECTION}.{k}.rows"]
    seen = arrays[f"{SECTION}.{k}.seen"]
    expected = shared_values(learner, rows)
    if _forms(values) != _forms(expected) or seen.min(initial=0) < 0:
        raise ValueError(f"the changes of shard {k} do not fit the learner")
    change = Change(whole("counts", section["counts"][k], least=0), rows, seen, values)
    scale = Scale.from_json(section["scales"][k])
    return ShardUpdate(change, scale_numbers(scale), 0)


def _forms(arrays: Values) -> dict[str, Any]:
    return {name: (array.shape, array.dtype) for name, array in arrays.items()}


def _history_arrays(state: State) -> Values:
    return {name: array for name, array in state["arrays"].items() if name.startswith(PREFIX)}


# Validation: nothing in a file is trusted


def check_section(state: Mapping[str, Any]) -> None:
    """Raise where the sizes in a state cannot be those of shards, before they are made."""
    section = state[SECTION]
    n = whole("shards", section["shards"])
    Schedule(n, section["growth"], section["every"])
    events = whole("events", section["events"], least=0)
    place = whole("place", section["place"], least=0)
    barrier = whole("next", section["next"], least=0)
    too_large = n > MAX_SHARDS or section["every"] > MAX_EVENTS
    if too_large or not events <= place < barrier <= MAX_EVENTS:
        raise ValueError(f"no {n} shards are at {place} after {events} events")
    if not isinstance(section["notes"], dict):
        raise ValueError("expected notes by name")
    if n > 1 and "sizes" in section:
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
    mine = _settings(stored)
    other = _settings(wanted)
    names = ["learner", "features", "new_task"]
    if other["classes"]:
        names.append("classes")
    names += [name for name in wanted["learner"]["parameters"] if name in given]
    for name in names:
        if mine[name] != other[name]:
            raise ValueError(
                f"{path} holds shards with {name} {mine[name]!r}, not {other[name]!r}: use the "
                "same settings, or another folder or model file"
            )


def _settings(state: State) -> dict[str, Any]:
    """Return what must not change between runs, with the learner's parameters by name."""
    learner = state["learner"]
    features = state["features"]
    if features["kind"] == "names":  # which grow
        features = {"kind": "names"}
    return {
        **learner["parameters"],
        "learner": learner["learner"],
        "features": features,
        "new_task": state["new_task"],
        "classes": target_from_json(state["labels"]).classes,
    }


class Checkpoint(durable.Closable):
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
        lock = self._lock
        self._lock = None
        if lock is not None:
            lock.close()


_CHECKPOINTS: WeakValueDictionary[Path, Checkpoint] = WeakValueDictionary()
