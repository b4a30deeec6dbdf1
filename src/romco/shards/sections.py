"""What a model file says of shards, checked before any of it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.learners.merging import Values, held, mergeable
from romco.model import Model, Scale
from romco.model.engine import MAX_EVENTS
from romco.parameters import whole
from romco.shards.dealing import LEAST
from romco.shards.schedules import Schedule
from romco.shards.states import SECTION

MOST = 2**16  # shards


def check(state: Mapping[str, Any]) -> None:
    """Raise ValueError where a state is neither that of a model nor that of shards.

    >>> check(Model("pa-shared").state())
    """
    plain, section = dict(state), state.get(SECTION)
    own = {name: a for name, a in state["arrays"].items() if name.startswith(SECTION)}
    plain["arrays"] = {name: a for name, a in state["arrays"].items() if name not in own}
    model = Model.from_state(plain)
    if section is None:
        return
    check_place(section)
    if section["shards"] > 1:
        _check_tasks(section, len(state["tasks"]))
        Scale.from_json(section["start"])
        if section["counts"]:
            _check_period(section, model, own)


def check_place(section: Mapping[str, Any]) -> None:
    """Raise ValueError where no shards stand at the place that is told."""
    n = whole("shards", section["shards"])
    Schedule(n, section["growth"], section["every"])
    events, place, barrier = (
        whole(part, section[part], least=0) for part in ("events", "place", "next")
    )
    if n > MOST or section["every"] > MAX_EVENTS or not events <= place < barrier <= MAX_EVENTS:
        raise ValueError(f"no {n} shards are at {place} after {events} events")
    if not isinstance(section["notes"], dict):
        raise ValueError("expected notes by name")


def _check_tasks(section: Mapping[str, Any], n_tasks: int) -> None:
    sizes = [whole("sizes", size, least=0) for size in section["sizes"]]
    rooms = [whole("rooms", room) for room in section["rooms"]]
    if not len(sizes) == len(rooms) == section["shards"] or sum(sizes) != n_tasks:
        raise ValueError(f"shards of {sizes} tasks do not make {n_tasks}")
    for size, room in zip(sizes, rooms, strict=True):
        if not size <= room <= 4 * max(LEAST, size + 1):
            raise ValueError(f"no shard of {size} tasks has room for {room}")


def _check_period(
    section: Mapping[str, Any], model: Model, arrays: Mapping[str, NDArray[Any]]
) -> None:
    """What shards changed since the last barrier, and what was there before."""
    counts, scales = section["counts"], section["scales"]
    if not len(counts) == len(scales) == section["shards"]:
        raise ValueError(f"{section['shards']} shards have {len(counts)} counts")
    _check_rows(model, arrays[f"{SECTION}.rows"], _values(arrays, "start"))
    for k, (count, scale) in enumerate(zip(counts, scales, strict=True)):
        whole("counts", count, least=0)
        Scale.from_json(scale)
        rows, seen = arrays[f"{SECTION}.{k}.rows"], arrays[f"{SECTION}.{k}.seen"]
        _check_rows(model, rows, _values(arrays, f"{k}.value"))
        if seen.dtype != np.int32 or seen.shape != rows.shape or (seen < 1).any():
            raise ValueError(f"shard {k} does not say how often each feature occurred")


def _check_rows(model: Model, rows: NDArray[Any], values: Values) -> None:
    """Features in order, and of each merged array the numbers that they have there."""
    d = model.engine.learner.n_features
    if rows.dtype != np.int32 or rows.ndim != 1 or (np.diff(rows) <= 0).any():
        raise ValueError("expected features in order")
    if len(rows) and not 0 <= rows[0] <= rows[-1] < d:
        raise ValueError(f"a feature is out of range; there are {d}")
    expected = held(mergeable(model.engine.learner), rows)
    shapes = {name: (a.shape, a.dtype) for name, a in expected.items()}
    if shapes != {name: (a.shape, a.dtype) for name, a in values.items()}:
        raise ValueError("what shards changed does not fit the learner")


def _values(arrays: Mapping[str, NDArray[Any]], part: str) -> Values:
    begins = f"{SECTION}.{part}."
    return {n.removeprefix(begins): a for n, a in arrays.items() if n.startswith(begins)}
