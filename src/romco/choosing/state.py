"""State of a chooser as JSON-able values and arrays, and back; everything read is checked."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.choosing import ChooserKernel, FeatureTable, Posterior, Row
from romco.model.names import Id, from_json, to_json

Array = NDArray[Any]
Arrays = dict[str, Array]
PRIORS = "own_level", "own_weights", "shared_weights", "levels"
NUMBERS = "rewards", "centre", "reward_mean", "noise", "trust", *PRIORS
COLUMN_ARRAYS = "mean", "deviations", "nonzero", "origin", "unit"
ABSENT = -1  # length of a row that is not there


class StoredChoice(NamedTuple):
    """A choice as it is kept until its reward comes, and for repeated calls after that."""

    offered: list[int]  # numbers of the actions
    probabilities: list[float]
    place: int  # of the chosen one
    task: Id | None
    context: Row | None  # None once the reward is learned
    features: Row | None  # of the chosen action


def chooser_state(
    kernel: ChooserKernel,
    levels: Mapping[Id, dict[int, int]],
    choices: Mapping[Id, StoredChoice],
) -> dict[str, Any]:
    """Return copies of all that was learned and of all choices that are kept."""
    arrays: Arrays = {}
    _put_posteriors(arrays, [*kernel.own, kernel.shared])
    arrays["pairs"] = np.array(kernel.pairs, dtype=np.int32)
    arrays["level_free"] = _integers(kernel.free)
    arrays["level_mean"] = kernel.level_means.copy()
    arrays["level_variance"] = kernel.level_variances.copy()
    of_people = list(levels.values())
    arrays["level_slot"] = _integers(chain.from_iterable(map(dict.values, of_people)))
    arrays["level_action"] = _integers(chain.from_iterable(of_people))
    arrays["level_count"] = _integers(map(len, of_people))
    for prefix, table in (("context", kernel.context), ("features", kernel.features)):
        for name in COLUMN_ARRAYS:
            arrays[f"{prefix}_{name}"] = getattr(table, name)[: table.width].copy()
    _put_choices(arrays, choices)
    return {
        "learner": "chooser",
        "n_tasks": len(levels),
        "n_features": kernel.context.width,
        "numbers": dict(zip(NUMBERS, attrgetter(*NUMBERS)(kernel), strict=True)),
        "rows": [kernel.context.rows, kernel.features.rows],
        "tasks": list(map(to_json, levels)),
        "features": [list(kernel.context.number), list(kernel.features.number)],
        "session": {
            "actions": list(map(to_json, kernel.names)),
            "ids": list(map(to_json, choices)),
            "tasks": [_task_to_json(choice.task) for choice in choices.values()],
        },
        "arrays": arrays,
    }


def restore_kernel(kernel: ChooserKernel, state: Mapping[str, Any]) -> dict[Id, dict[int, int]]:
    """Fill a new kernel; return the slots of levels by person and action."""
    arrays: Arrays = state["arrays"]
    for name in NUMBERS:
        setattr(kernel, name, state["numbers"][name])
    if kernel.rewards < 0 or min(kernel.noise, kernel.levels) < 0.0:
        raise ValueError("counts and variances cannot be negative")
    names = state["session"]["actions"]
    actions = dict(zip(map(from_json, names), range(len(names)), strict=True))
    if len(actions) < len(names):
        raise ValueError("an action is named twice")
    kernel.adopt(actions, {}, {})
    tables = ("context", kernel.context), ("features", kernel.features)
    for k, (prefix, table) in enumerate(tables):
        _restore_table(table, state["features"][k], float(state["rows"][k]), prefix, arrays)
    kernel.restore_pairs(arrays["pairs"].tolist())
    _restore_posteriors(kernel, arrays)
    tasks = list(map(from_json, state["tasks"]))
    counts = _checked(arrays["level_count"], len(tasks), 0, len(actions))
    total = int(counts.sum())
    of_action = _checked(arrays["level_action"], total, 0, len(actions) - 1).tolist()
    n = len(arrays["level_mean"])
    free = _checked(arrays["level_free"], n - total, 0, n - 1).tolist()
    slots = _checked(arrays["level_slot"], total, 0, n - 1).tolist()
    if len({*slots, *free}) < n:
        raise ValueError("two levels have one slot")
    variances = _checked(arrays["level_variance"], n, 0.0, np.inf)
    kernel.set_levels(arrays["level_mean"], variances, free)
    levels: dict[Id, dict[int, int]] = {}
    pairs = iter(zip(of_action, slots, strict=True))
    for task, count in zip(tasks, counts.tolist(), strict=True):
        levels[task] = dict(islice(pairs, count))
    if len(levels) < len(tasks) or sum(map(len, levels.values())) < total:
        raise ValueError("a person, or a person's action, is there twice")
    return levels


def restore_choices(
    kernel: ChooserKernel, state: Mapping[str, Any]
) -> OrderedDict[Id, StoredChoice]:
    """Return the choices of a state, the oldest first."""
    arrays: Arrays = state["arrays"]
    ids = list(map(from_json, state["session"]["ids"]))
    n = len(ids)
    tasks = [None if name is None else from_json(name) for name in state["session"]["tasks"]]
    counts = _checked(arrays["choice_count"], n, 1, len(kernel.names))
    ends = np.cumsum(counts).tolist()
    total = int(counts.sum())
    offered = _checked(arrays["choice_offered"], total, 0, len(kernel.names) - 1).tolist()
    probabilities = _checked(arrays["choice_probability"], total, 0.0, 1.0).tolist()
    places = _checked(arrays["choice_place"], n, 0, np.inf)
    if np.any(places >= counts):
        raise ValueError("a chosen action was not offered")
    contexts = _restore_rows(arrays, "choice_context", n, kernel.context.width)
    features = _restore_rows(arrays, "choice_features", n, kernel.features.width)
    choices: OrderedDict[Id, StoredChoice] = OrderedDict()
    for k, (id, task, place) in enumerate(zip(ids, tasks, places.tolist(), strict=True)):
        part = slice(ends[k] - int(counts[k]), ends[k])
        numbers = offered[part]
        row = StoredChoice(numbers, probabilities[part], place, task, contexts[k], features[k])
        choices[id] = row
    if len(choices) < n:
        raise ValueError("an id is there twice")
    return choices


def _task_to_json(task: Id | None) -> Any:
    if task is None:
        return None
    return to_json(task)


def _put_choices(arrays: Arrays, choices: Mapping[Id, StoredChoice]) -> None:
    columns = list(zip(*choices.values(), strict=True)) or [()] * len(StoredChoice._fields)
    offered, probabilities, places, _, contexts, features = columns
    arrays["choice_count"] = _integers(map(len, offered))
    arrays["choice_place"] = _integers(places)
    arrays["choice_offered"] = _integers(chain.from_iterable(offered))
    arrays["choice_probability"] = np.fromiter(chain.from_iterable(probabilities), np.float64)
    _put_rows(arrays, "choice_context", contexts)
    _put_rows(arrays, "choice_features", features)


def _put_posteriors(arrays: Arrays, posteriors: Sequence[Posterior | None]) -> None:
    widths: list[int] = []
    pairs: list[int] = []
    means: list[Array] = []
    covariances: list[Array] = []
    slopes: list[Array] = []
    for one in posteriors:
        if one is None:
            widths.append(ABSENT)
            pairs.append(0)
            continue
        widths.append(one.width)
        pairs.append(one.pairs)
        means.append(one.mean)
        covariances.append(one.covariance.ravel())
        slopes.append(one.slopes.ravel())
    arrays["posterior_width"] = _integers(widths)
    arrays["posterior_mean"] = _joined(means)
    arrays["posterior_covariance"] = _joined(covariances)
    arrays["posterior_pairs"] = _integers(pairs)
    arrays["posterior_slopes"] = _joined(slopes)


def _restore_posteriors(kernel: ChooserKernel, arrays: Arrays) -> None:
    n = len(kernel.own)
    widths = _checked(arrays["posterior_width"], n + 1, ABSENT, len(kernel.pairs) + 10**6)
    limits = [kernel.context.width] * n + [len(kernel.pairs)]
    if np.any(widths > limits) or widths[n] == ABSENT:
        raise ValueError("a posterior has more columns than there are features")
    sizes = np.maximum(widths, 0)
    means = _checked(arrays["posterior_mean"], int(sizes.sum()), -np.inf, np.inf)
    total = int((sizes**2).sum())
    covariances = _checked(arrays["posterior_covariance"], total, -np.inf, np.inf)
    pairs = _checked(arrays["posterior_pairs"], n + 1, 0, int(widths[n]))
    total = int((sizes * pairs).sum())
    all_slopes = _checked(arrays["posterior_slopes"], total, -np.inf, np.inf)
    at = 0
    begin = 0
    slope = 0
    for number, (width, paired) in enumerate(zip(widths.tolist(), pairs.tolist(), strict=True)):
        if width == ABSENT:
            continue
        posterior = kernel.shared if number == n else Posterior()
        covariance = covariances[begin : begin + width**2].reshape(width, width)
        slopes = all_slopes[slope : slope + width * paired].reshape(width, paired)
        posterior.replace(means[at : at + width], covariance, slopes)
        if number < n:
            kernel.own[number] = posterior
        at += width
        begin += width**2
        slope += width * paired


def _restore_table(
    table: FeatureTable, names: Sequence[str], rows: float, prefix: str, arrays: Arrays
) -> None:
    numbers = {str(name): k + 1 for k, name in enumerate(names)}
    if len(numbers) < len(names) or len(names) > table.max_names:
        raise ValueError("a feature is named twice, or there are too many")
    table.adopt(numbers)
    table.rows = rows
    for name in COLUMN_ARRAYS:
        least = -np.inf if name in ("mean", "origin") else 0.0
        values = _checked(arrays[f"{prefix}_{name}"], table.width, least, np.inf)
        getattr(table, name)[: table.width] = values
    if not (table.unit > 0.0).all():
        raise ValueError("a unit is 0")


def _put_rows(arrays: Arrays, prefix: str, rows: Sequence[Row | None]) -> None:
    sizes = [ABSENT if row is None else len(row[0]) // 4 for row in rows]
    there = [row for row in rows if row is not None]
    arrays[f"{prefix}_size"] = _integers(sizes)
    columns = b"".join(column for column, _ in there)
    arrays[f"{prefix}_column"] = np.frombuffer(columns, np.int32)
    values = b"".join(value for _, value in there)
    arrays[f"{prefix}_value"] = np.frombuffer(values, np.float64)


def _restore_rows(arrays: Arrays, prefix: str, n: int, width: int) -> list[Row | None]:
    sizes = _checked(arrays[f"{prefix}_size"], n, ABSENT, np.inf)
    total = int(np.maximum(sizes, 0).sum())
    columns = _checked(arrays[f"{prefix}_column"], total, 1, width - 1).astype(np.int32)
    values = _checked(arrays[f"{prefix}_value"], total, -np.inf, np.inf)
    rows: list[Row | None] = []
    at = 0
    for size in sizes.tolist():
        if size == ABSENT:
            rows.append(None)
            continue
        part = slice(at, at + size)
        rows.append((columns[part].tobytes(), values[part].tobytes()))
        at += size
    return rows


def _joined(arrays: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *arrays])


def _integers(values: Iterable[int]) -> Array:
    return np.fromiter(values, np.int64)


def _checked(array: Array, n: int, least: float, most: float) -> Array:
    """Return the array if it has n entries within bounds."""
    if array.shape != (n,) or (n and not (least <= array.min() and array.max() <= most)):
        raise ValueError(f"an array is not {n} numbers from {least} to {most}")
    return array
