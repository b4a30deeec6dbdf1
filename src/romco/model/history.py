"""The history stage: between the schema and the features, rows get what is known of their task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romco.io.schema import Column, Schema
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.history import HistoryFeatures
from romco.model.names import Id, TaskTable
from romco.parameters import whole

Dense = NDArray[np.float64]
HISTORY_LIMIT = 1_000_000  # pairs of a task and a category that are remembered
PREFIX = "history."


class TaskHistory:
    """Past labels of each task, and of each task with a category; see :class:`HistoryFeatures`.

    It has its own table of tasks: a label of weight 0 is remembered, though no task is learned.
    """

    def __init__(
        self, columns: Sequence[str], limit: int, *, number: bool, time: str | None = None
    ) -> None:
        limit = whole("history_limit", limit)
        self.kernel = HistoryFeatures(columns, number=number, time=time, limit=limit)
        self.tasks = TaskTable()

    def expand(
        self, ids: Sequence[Id], rows: Encoded, y: Dense | None = None, given: Dense | None = None
    ) -> Encoded:
        """Return rows with history features; observe labels y (n,), NaN where there is none."""
        numbers = self._numbers(ids, y)
        return self.kernel.expand(numbers, rows, y, given)

    def observe(self, ids: Sequence[Id], rows: Encoded, y: Dense) -> None:
        """Observe labels of rows that were expanded before."""
        self.kernel.observe(self._numbers(ids, y), rows, y)

    def context(self, ids: Sequence[Id], rows: Encoded, more: Dense | None) -> Dense:
        """Return history features of rows now, with the learner's own context behind them."""
        values = self.kernel.describe(self.tasks.numbers(ids), rows)
        size = np.full((len(values), 1), float(values.shape[1]))
        return np.hstack([size, values, *([] if more is None else [more])])

    def split_context(self, context: Any, n: int) -> tuple[Dense | None, list[Any] | None]:
        """Return the history features (n, F) that :meth:`context` stored, and the learner's part.

        NaN and None where a row has none. Raises ValueError where they are of another model.
        """
        if context is None:
            return None, None
        if len(context) != n:
            raise ValueError(f"x has {n} rows but context has {len(context)} entries")
        given, rest = np.full((n, len(self.kernel.names)), np.nan), [None] * n
        for i, row in enumerate(context):
            if row is None or np.isnan(row[0]):
                continue
            size = int(row[0])
            if not 0 < size <= min(given.shape[1], len(row) - 1):
                raise ValueError("context must be the numbers that prediction_context gave")
            given[i] = 0.0
            given[i, :size] = row[1 : 1 + size]
            rest[i] = row[1 + size :] if len(row) > 1 + size else None
        return given, rest

    def forget(self, task: Id) -> None:
        """Drop the history of a task; nothing happens if there is none."""
        number = self.tasks.find(task)
        if number >= 0:
            self.kernel.forget(number)
            self.tasks.remove(task)

    def clear(self) -> None:
        """Forget all labels, as before another pass over the same events."""
        old = self.kernel
        number, time, limit = old.number, old.time, old.limit
        self.kernel = HistoryFeatures(old.columns, number=number, time=time, limit=limit)
        self.tasks = TaskTable()

    def _numbers(self, ids: Sequence[Id], y: Dense | None) -> NDArray[np.int64]:
        """Return numbers of tasks; new ones get one where a label is to be observed."""
        if y is not None:
            self.kernel.rollback()
            self._prune()
            known = self.tasks.number
            new = [task for task in dict.fromkeys(ids) if task not in known]
            for act, argument in self.tasks.actions(self.tasks.offered(new)) if new else ():
                act(argument)
        return self.tasks.numbers(ids)

    def _prune(self) -> None:
        """Drop names that have no history, if there are many, so that memory is bounded."""
        self.kernel.prune()
        if len(self.tasks) > 2 * self.kernel.limit:
            live = set(self.kernel.live_tasks().tolist())
            for task, number in self.tasks.items():
                if number not in live:
                    self.tasks.remove(task)

    # State

    def to_json(self) -> dict[str, Any]:
        """Return all that is no array."""
        kernel = self.kernel
        return {
            "columns": list(kernel.columns),
            "limit": kernel.limit,
            "time": kernel.time,
            "tasks": self.tasks.to_json(),
            "categories": kernel.categories,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the slots, by the names that a model file uses."""
        return {f"history.{name}": array for name, array in self.kernel.arrays().items()}

    @classmethod
    def from_state(
        cls, stored: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], number: bool
    ) -> Self:
        """Return the history of a state; ValueError where it does not hold together."""
        time = stored["time"]
        columns, categories = stored["columns"], stored["categories"]
        if not all(
            isinstance(part, list) and all(isinstance(name, str) for name in part)
            for part in (columns, categories)
        ) or not isinstance(time, str | None):
            raise ValueError("expected names of the history's columns and categories")
        made = cls(columns, stored["limit"], number=number, time=time)
        made.tasks = TaskTable.from_json(stored["tasks"])
        slots = {name: arrays[f"history.{name}"] for name in ("task", "category", "table")}
        made.kernel.load(categories, slots)
        if len(slots["task"]) and slots["task"].max() >= len(stored["tasks"]):
            raise ValueError("the history has a task without a name")
        return made


def history_schema(schema: Schema | None, columns: Iterable[str]) -> Schema:
    """Return a schema that reads the history columns as categories; ValueError if it cannot."""
    if isinstance(columns, str):
        raise ValueError(f"history takes a list of columns; got the text {columns!r}")
    made = Schema(complete=True) if schema is None else schema.copy()
    for name in columns:
        if name in made.roles:
            raise ValueError(f"column {name!r} is the task, label or weight: no history of it")
        kind = made.kinds.get(name, "category")
        if kind != "category":
            raise ValueError(
                f"history column {name!r} is read as {kind}; only a category has a history: "
                "leave it out of the schema, or make it a category"
            )
        made.add(name, made.columns.get(name, Column("category", "category", "has a history")))
        if made.features is not None:
            made.features = tuple(dict.fromkeys((*made.features, name)))
    return made


def feature_name(model: Any, column: int, name: Any = None) -> Any:
    """Return the name of a column of a model, or this one; history features in plain words.

    >>> import romco
    >>> model = romco.Model("pa-unique", history=["skill"], classes=("wrong", "right"))
    >>> _ = model.learn([{"skill": "sums"}] * 3, ["right"] * 3, ["ann"] * 3)
    >>> [feature_name(model, column) for column in (1, 8)]
    ['no label so far', 'count of right so far for this skill']
    """
    name = model.features.name(column) if name is None else name
    past = model.engine.history
    if past is None or not isinstance(name, str) or not name.startswith(PREFIX):
        return name
    return _in_words(name.removeprefix(PREFIX), past.kernel, model.engine.target)


def _in_words(name: str, kernel: HistoryFeatures, target: Any) -> str:
    two = target.kind == "two classes"
    labels = {int(0.5 + 0.5 * y if two else y): label for label, y in target.known.items()}
    places = [place for place in ("task", *kernel.columns) if name.startswith(f"{place}.")]
    if not places:  # a category's slope
        category, _, level = name.rpartition(".")
        where = "" if level == "task" else f" for this {level}"
        return f"{category} times the recent share of {labels.get(1, 1)}{where}"
    place = max(places, key=len)
    where = "" if place == "task" else f" for this {place}"
    kind, _, number = name.removeprefix(f"{place}.").rstrip("]").partition("[")
    label = labels.get(int(number or 1), number or 1)
    if kind.startswith("mean"):
        what = "mean" if kernel.number else f"share of {label}"
        return f"recent {what}{where} (half-life {kind[4:]})"
    return {
        "count": f"count of {'labels' if kernel.number else label} so far{where}",
        "last": f"last label{where}" if kernel.number else f"last label was {label}{where}",
        "gap": f"labels since the last one{where}",
        "time": f"time since the last label{where}",
        "new": f"no label so far{where}",
    }[kind]
