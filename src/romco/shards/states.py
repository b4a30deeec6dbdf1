"""Shards as the state of one model, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from romco.learners import restore
from romco.learners.merging import Change, Merged, held, merge, mergeable, take
from romco.model import Model
from romco.shards.dealing import combine, deal, owned, room_for
from romco.shards.scales import merge_scales, numbers
from romco.shards.schedules import EVERY, Schedule
from romco.shards.shard import News, Start

SECTION = "cluster"  # of a state, and what begins the names of its arrays
AT = ("events", "place", "next", "notes")
NOBODY = np.empty(0, dtype=np.int64)


@final
@dataclass(frozen=True)
class At:
    """Where in a stream shards are."""

    events: int  # learned so far
    place: int  # the same, and those that were skipped
    next: int  # place of the next barrier
    notes: dict[str, Any] = field(default_factory=dict)  # of whoever reads the stream


@final
@dataclass(frozen=True)
class Begun:
    """How shards begin: what they share, where each starts, and where in the stream they are."""

    front: Model  # names of features and labels, and what all shards share; it has no task
    starts: Sequence[Start]
    at: At
    news: Sequence[News] | None = None  # of a period that is not over


def gathered(
    front: Model,
    schedule: Schedule,
    at: At,
    states: Sequence[dict[str, Any]],
    news: Sequence[News],
) -> dict[str, Any]:
    """The state of one model, and beside it what shards need to go on from the same bits."""
    outside = front.state()
    told = {"shards": schedule.n, "growth": schedule.growth, "every": schedule.every, **asdict(at)}
    if schedule.n == 1:
        (state,) = states
        state |= {part: outside[part] for part in ("features", "labels", "notes", "session")}
        return {**state, SECTION: told} if at.notes else state  # else it is a model's, to the bit
    common = mergeable(restore(front.engine.learner.state()))
    merge(common, [one.change for one in news])
    counts = [one.change.events for one in news]
    scale = merge_scales(numbers(front.engine.scale), [one.scale for one in news], counts)
    state = combine({**outside, "scale": list(scale), "events": at.events}, common, states)
    start = numbers(front.engine.scale)
    section, arrays = _open_period(front, news)
    state["arrays"] |= arrays
    state[SECTION] = {
        **told,
        "sizes": [len(one["tasks"]) for one in states],
        "rooms": [one["learner"]["n_tasks"] for one in states],
        "start": list(start),
        **section,
    }
    return state


def schedule_of(
    state: dict[str, Any], n: int | None, growth: float | None, every: int | None
) -> Schedule:
    """The schedule that was asked for, else the one that the state tells."""
    told = state.get(SECTION, {})
    return Schedule(
        told.get("shards", 2) if n is None else n,
        told.get("growth", 0.1) if growth is None else growth,
        told.get("every", EVERY) if every is None else every,
    )


def begun(state: dict[str, Any], schedule: Schedule) -> Begun:
    """Where shards begin that take up a state: that of as many shards, or of any model."""
    told = state.get(SECTION)
    plain = {key: value for key, value in state.items() if key != SECTION}
    plain["arrays"] = {
        name: array for name, array in state["arrays"].items() if not name.startswith(SECTION)
    }
    if told is None or told["shards"] != schedule.n or schedule.n == 1:
        owners = owned(plain, schedule.n)
        front = _front(plain)
        starts = deal(plain, owners, [room_for(own) for own in owners])
        if schedule.n == 1:
            starts = [plain]
        return Begun(front, starts, _at(state, schedule))
    return _taken_up(plain, told, state["arrays"], schedule)


def _taken_up(
    plain: dict[str, Any], told: dict[str, Any], arrays: dict[str, NDArray[Any]], schedule: Schedule
) -> Begun:
    """As many shards as before: each with the same tasks in the same places."""
    ends = np.cumsum([0, *told["sizes"]])
    owners = [np.arange(a, b) for a, b in pairwise(ends)]
    front = _front({**plain, "scale": told["start"]})
    news = None
    if told["counts"]:
        rows = arrays[f"{SECTION}.rows"]
        start = _values(arrays, f"{SECTION}.start.")
        take(mergeable(front.engine.learner), Merged(rows, start))
        news = [_news(arrays, told, k) for k in range(schedule.n)]
    shared = {f"learner.{name}": array for name, array in front.engine.learner.arrays().items()}
    own = {n: a for n, a in plain["arrays"].items() if n in _of_tasks(front) or n not in shared}
    starts = deal({**plain, "arrays": {**shared, **own}}, owners, told["rooms"])
    for one in starts:
        one["scale"] = told["start"]
    return Begun(front, starts, At(*(told[part] for part in AT)), news)


def _at(state: dict[str, Any], schedule: Schedule) -> At:
    """Where shards are that begin after the events of a model."""
    told, events = state.get(SECTION, {}), int(state["events"])
    place = int(told.get("place", events))
    return At(events, place, schedule.after(place), told.get("notes", {}))


def _front(plain: dict[str, Any]) -> Model:
    """What the model knows beside tasks."""
    (state,) = deal({**plain, "tasks": []}, [NOBODY], [room_for(NOBODY)])
    return Model.from_state(state)


def _of_tasks(front: Model) -> set[str]:
    """Names of the arrays in the state that have entries per task."""
    learner = mergeable(front.engine.learner)
    shared = {name for line in learner.sharing() for name in line.arrays}
    pairs = {"personal", "personal_keys"}
    own = (set(learner.task_axes or ()) - shared) | (shared & pairs)
    return {f"learner.{name}" for name in own}


def _open_period(
    front: Model, news: Sequence[News]
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """What shards changed since the last barrier, and what was there before."""
    if not any(one.change.events for one in news):
        return {"counts": []}, {}
    rows = np.unique(np.concatenate([one.change.rows for one in news]))
    arrays = {f"{SECTION}.rows": rows}
    for name, array in held(mergeable(front.engine.learner), rows).items():
        arrays[f"{SECTION}.start.{name}"] = array
    for k, one in enumerate(news):
        arrays |= {f"{SECTION}.{k}.rows": one.change.rows, f"{SECTION}.{k}.seen": one.change.seen}
        for name, array in one.change.values.items():
            arrays[f"{SECTION}.{k}.value.{name}"] = array
    section = {
        "counts": [one.change.events for one in news],
        "scales": [list(one.scale) for one in news],
    }
    return section, arrays


def _news(arrays: dict[str, NDArray[Any]], told: dict[str, Any], k: int) -> News:
    values = _values(arrays, f"{SECTION}.{k}.value.")
    rows, seen = arrays[f"{SECTION}.{k}.rows"], arrays[f"{SECTION}.{k}.seen"]
    log_a, curvature = told["scales"][k]
    change = Change(int(told["counts"][k]), rows, seen, values)
    return News(change, (float(log_a), float(curvature)), 0)


def _values(arrays: dict[str, NDArray[Any]], begins: str) -> dict[str, NDArray[Any]]:
    return {n.removeprefix(begins): a for n, a in arrays.items() if n.startswith(begins)}
