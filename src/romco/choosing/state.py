"""State of a chooser as JSON-able values and arrays, and back; everything read is checked."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.choosing import (
    COLUMN_FIELDS,
    MAX_EVIDENCE,
    ChooserKernel,
    FeatureTable,
    Person,
    Posterior,
)
from romco.model.names import Id, canonical_name, from_json, to_json

Array = NDArray[Any]
Arrays = dict[str, Array]
PRIORS = "own_level", "own_weights", "shared_weights", "levels"
NUMBERS = "rewards", "centre", "reward_mean", "reward_squares", "noise", "trust", *PRIORS
LEVEL_FIELDS = "information", "precision"
CELL = np.dtype([("column", np.int32), ("value", np.float64)], align=True)  # of a row
NOT_LEARNED = Posterior(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))


class StoredChoice(NamedTuple):
    """A choice as it is kept until its reward comes, and for repeated calls after that."""

    offered: list[int]  # numbers of the actions
    probabilities: list[float]
    place: int  # of the chosen one
    task: Id | None
    context: bytes | None  # a row of cells; None once the reward is learned
    features: bytes | None  # of the chosen action


def chooser_state(
    kernel: ChooserKernel, people: Mapping[Id, Person], choices: Mapping[Id, StoredChoice]
) -> dict[str, Any]:
    """Return copies of all that was learned and of all choices that are kept."""
    arrays: Arrays = {"pairs": np.array(kernel.pairs, dtype=np.int32)}
    arrays["evidence"] = np.array([*map(attrgetter("evidence"), people.values())])
    posteriors = [one or NOT_LEARNED for one in (*kernel.own, kernel.shared)]
    levels = list(map(attrgetter("levels"), people.values()))
    columns = list(zip(*choices.values(), strict=True)) or [()] * len(StoredChoice._fields)
    offered, probabilities, places, tasks, contexts, features = columns
    _put(arrays, "posterior_mean", list(map(attrgetter("mean"), posteriors)))
    _put(arrays, "posterior_covariance", [one.covariance.ravel() for one in posteriors])
    _put(arrays, "posterior_slopes", [one.slopes.ravel() for one in posteriors])
    _put(arrays, "level_action", list(map(list, levels)), np.int64)
    for k, name in enumerate(LEVEL_FIELDS):
        _put(arrays, f"level_{name}", [[one[k] for one in known.values()] for known in levels])
    _put(arrays, "choice_offered", offered, np.int64)
    _put(arrays, "choice_probability", probabilities)
    arrays["choice_place"] = np.array(places, dtype=np.int64)
    arrays["choice_pending"] = np.array([row is not None for row in contexts], dtype=bool)
    arrays["choice_featured"] = np.array([row is not None for row in features], dtype=bool)
    _put_rows(arrays, "choice_context", contexts)
    _put_rows(arrays, "choice_features", features)
    for prefix, table in (("context", kernel.context), ("features", kernel.features)):
        arrays[f"{prefix}_columns"] = table.columns[: table.width].copy()
    return {
        "learner": "chooser",
        "n_tasks": len(people),
        "n_features": kernel.context.width,
        "numbers": dict(zip(NUMBERS, attrgetter(*NUMBERS)(kernel), strict=True)),
        "rows": [kernel.context.rows, kernel.features.rows],
        "tasks": list(map(to_json, people)),
        "features": [list(kernel.context.number), list(kernel.features.number)],
        "session": {
            "actions": list(map(to_json, kernel.names)),
            "ids": list(map(to_json, choices)),
            "tasks": [None if task is None else to_json(task) for task in tasks],
        },
        "arrays": arrays,
    }


def text_names(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with text for all names, as requests over HTTP have them.

    A chooser cannot be restored from it where two names become one.
    """
    session = state["session"]
    names = {
        "actions": list(map(_text, session["actions"])),
        "ids": list(map(_text, session["ids"])),
        "tasks": list(map(_person, session["tasks"])),
    }
    return {**state, "tasks": list(map(_person, state["tasks"])), "session": names}


def _text(name: Any) -> str:
    return str(from_json(name))


def _person(name: Any) -> str | None:
    """Return the form that the service has of a task, which is None for choices for nobody."""
    return None if name is None else str(canonical_name(from_json(name)))


def restore_kernel(kernel: ChooserKernel, state: Mapping[str, Any]) -> dict[Id, Person]:
    """Fill a new kernel; return the people."""
    arrays: Arrays = state["arrays"]
    for name in NUMBERS:
        setattr(kernel, name, state["numbers"][name])
    if kernel.rewards < 0 or min(kernel.reward_squares, kernel.noise, kernel.levels) < 0.0:
        raise ValueError("counts and variances cannot be negative")
    names = state["session"]["actions"]
    actions = dict(zip(map(from_json, names), range(len(names)), strict=True))
    if len(actions) < len(names):
        raise ValueError("an action is named twice")
    kernel.adopt(actions, {}, {})
    tables = ("context", kernel.context), ("features", kernel.features)
    for k, (prefix, table) in enumerate(tables):
        columns = arrays[f"{prefix}_columns"]
        _restore_table(table, state["features"][k], float(state["rows"][k]), columns)
    kernel.restore_pairs(arrays["pairs"].tolist())
    _restore_posteriors(kernel, arrays)
    tasks = list(map(from_json, state["tasks"]))
    n = len(tasks)
    evidence = _checked(arrays["evidence"], n, -MAX_EVIDENCE, MAX_EVIDENCE).tolist()
    numbers = _parts(arrays, "level_action", n, 0, len(actions) - 1)
    information = _parts(arrays, "level_information", n, -np.inf, np.inf)
    precision = _parts(arrays, "level_precision", n, 0.0, np.inf)
    people: dict[Id, Person] = {}
    for k, task in enumerate(tasks):
        levels = zip(information[k].tolist(), precision[k].tolist(), strict=True)
        people[task] = Person(dict(zip(numbers[k].tolist(), levels, strict=True)), evidence[k])
    if len(people) < n or sum(len(one.levels) for one in people.values()) < sum(map(len, numbers)):
        raise ValueError("a person, or a person's action, is there twice")
    return people


def restore_choices(
    kernel: ChooserKernel, state: Mapping[str, Any]
) -> OrderedDict[Id, StoredChoice]:
    """Return the choices of a state, the oldest first."""
    arrays: Arrays = state["arrays"]
    ids = list(map(from_json, state["session"]["ids"]))
    n = len(ids)
    tasks = [None if name is None else from_json(name) for name in state["session"]["tasks"]]
    offered = _parts(arrays, "choice_offered", n, 0, len(kernel.names) - 1)
    probabilities = _parts(arrays, "choice_probability", n, 0.0, 1.0)
    places = _checked(arrays["choice_place"], n, 0, np.inf).tolist()
    pending = _checked(arrays["choice_pending"], n, 0, 1)
    featured = _checked(arrays["choice_featured"], n, 0, 1)
    contexts = _restore_rows(arrays, "choice_context", n, kernel.context.width)
    features = _restore_rows(arrays, "choice_features", n, kernel.features.width)
    choices: OrderedDict[Id, StoredChoice] = OrderedDict()
    for k, (id, task, place) in enumerate(zip(ids, tasks, places, strict=True)):
        if not place < len(offered[k]) == len(probabilities[k]):
            raise ValueError("a chosen action was not offered")
        context = contexts[k] if pending[k] else None
        row = features[k] if featured[k] else None
        law = offered[k].tolist(), probabilities[k].tolist()
        choices[id] = StoredChoice(*law, place, task, context, row)
    if len(choices) < n:
        raise ValueError("an id is there twice")
    return choices


def _restore_posteriors(kernel: ChooserKernel, arrays: Arrays) -> None:
    n = len(kernel.own)
    parts = [
        _parts(arrays, f"posterior_{name}", n + 1, -np.inf, np.inf)
        for name in ("mean", "covariance", "slopes")
    ]
    for number, (mean, covariance, slopes) in enumerate(zip(*parts, strict=True)):
        width = len(mean)
        pairs = len(slopes) // max(width, 1)
        moments = mean, covariance.reshape(width, width), slopes.reshape(width, pairs)
        if width > (len(kernel.pairs) if number == n else kernel.context.width):
            raise ValueError("a posterior has more columns than there are features")
        if pairs > len(parts[0][n]):
            raise ValueError("a posterior depends on weights that are not there")
        if number == n:
            kernel.shared = Posterior(*moments)
        elif width:
            kernel.own[number] = Posterior(*moments)


def _restore_table(table: FeatureTable, names: Sequence[str], rows: float, columns: Array) -> None:
    numbers = {str(name): k + 1 for k, name in enumerate(names)}
    if len(numbers) < len(names) or len(names) > table.max_names:
        raise ValueError("a feature is named twice, or there are too many")
    table.adopt(numbers)
    table.rows = rows
    known = _checked(columns.ravel(), table.width * len(COLUMN_FIELDS), -np.inf, np.inf)
    _, deviations, nonzero, _, unit = known.reshape(-1, len(COLUMN_FIELDS)).T
    if min(deviations.min(), nonzero.min()) < 0.0 or unit.min() <= 0.0:
        raise ValueError("statistics of columns are below 0")
    table.columns[: table.width] = known.reshape(table.width, -1)


def _put_rows(arrays: Arrays, name: str, rows: Sequence[bytes | None]) -> None:
    cells = [np.frombuffer(row or b"", CELL) for row in rows]
    _put(arrays, f"{name}_column", [row["column"] for row in cells], np.int32)
    _put(arrays, f"{name}_value", [row["value"] for row in cells])


def _restore_rows(arrays: Arrays, name: str, n: int, width: int) -> list[bytes]:
    columns = _parts(arrays, f"{name}_column", n, 1, width - 1)
    values = _parts(arrays, f"{name}_value", n, -np.inf, np.inf)
    rows = []
    for column, value in zip(columns, values, strict=True):
        cells = np.zeros(len(column), CELL)
        cells["column"] = column
        cells["value"] = value
        rows.append(cells.tobytes())
    return rows


def _put(arrays: Arrays, name: str, parts: Sequence[Any], kind: Any = np.float64) -> None:
    """Store lists of different lengths one after the other, and their lengths."""
    arrays[f"{name}_length"] = np.fromiter(map(len, parts), np.int64)
    arrays[name] = np.concatenate([np.zeros(0, kind), *parts]).astype(kind)


def _parts(arrays: Arrays, name: str, n: int, least: float, most: float) -> list[Array]:
    """Return the n lists that were stored under a name."""
    lengths = _checked(arrays[f"{name}_length"], n, 0, np.inf)
    values = _checked(arrays[name], int(lengths.sum()), least, most)
    return np.split(values, np.cumsum(lengths))[:n]


def _checked(array: Array, n: int, least: float, most: float) -> Array:
    """Return the array if it has n entries within bounds."""
    if array.shape != (n,) or (n and not (least <= array.min() and array.max() <= most)):
        raise ValueError(f"an array is not {n} numbers from {least} to {most}")
    return array
