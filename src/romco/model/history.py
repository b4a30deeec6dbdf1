"""Past labels of each task as features, added to rows between the schema and the learner."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romco.io.inference import Column
from romco.io.schema import Schema
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.history import CODE_COLUMN, EVERYBODY, LABEL_CODES, PREFIX, HistoryFeatures
from romco.learners.base import add_prefix
from romco.model.names import Action, Id, TaskTable, forgotten_name
from romco.parameters import whole
from romco.typing import Floats

HISTORY_LIMIT = 1_000_000  # pairs of a task and a category that are remembered


class TaskHistory:
    """Past labels of each task, and of each task with a category; see :class:`HistoryFeatures`.

    It has its own table of tasks: a label of weight 0 is remembered, though no task is learned.
    ``numeric`` is whether labels are numbers, not classes.
    """

    def __init__(
        self, columns: Sequence[str], limit: int, *, numeric: bool, time: str | None = None
    ) -> None:
        limit = whole("history_limit", limit)
        self.kernel = HistoryFeatures(columns, numeric=numeric, time=time, limit=limit)
        self.tasks = TaskTable()
        self._offered: dict[Id, int] = {}  # numbers of new tasks whose labels are observed

    def expand(
        self,
        ids: Sequence[Id],
        rows: Encoded,
        y: Floats | None = None,
        given: Floats | None = None,
        *,
        learned: bool = True,
    ) -> Encoded:
        """Return rows with history features; observe labels y (n,), NaN where there is none.

        ``given`` are features of rows predicted earlier, from :meth:`split_context`. Labels that
        are not ``learned`` count for their own tasks only.
        """
        return self.kernel.expand(self._find_tasks(ids, y), rows, y, given, learned)

    def observe(self, ids: Sequence[Id], rows: Encoded, y: Floats, *, learned: bool = True) -> None:
        """Observe labels of rows that were expanded before."""
        self.kernel.observe(self._find_tasks(ids, y), rows, y, learned)

    def context(self, ids: Sequence[Id], rows: Encoded, more: Floats | None) -> Floats:
        """Return prediction context: -F, the F history features, the learner's own.

        F is in each row because later classes add features.
        """
        values = self.kernel.describe(self.tasks.numbers(ids), rows)
        parts = [np.full((len(values), 1), -float(values.shape[1])), values]
        if more is not None:
            parts.append(more)
        return np.hstack(parts)

    def split_context(self, context: Any, n: int) -> tuple[Floats | None, list[Any] | None]:
        """Return history features (n, F) and the learner's own part of prediction context.

        NaN and None where a row has none: they are computed anew. Raises ValueError where it is
        of another model.
        """
        if context is None:
            return None, None
        if len(context) != n:
            raise ValueError(f"x has {n} rows but context has {len(context)} entries")
        sizes = self.kernel.context_sizes()
        given = np.full((n, sizes[-1]), np.nan)
        rest: list[Any] = [None] * n
        for i, row in enumerate(context):
            if row is None or np.isnan(row[0]):
                continue
            size = -int(row[0])
            if -row[0] not in sizes or size >= len(row):
                raise ValueError("context must be the numbers that prediction_context gave")
            given[i] = 0.0
            given[i, :size] = row[1 : 1 + size]
            if len(row) > 1 + size:
                rest[i] = row[1 + size :]
        return given, rest

    def commit(self, rows: int) -> None:
        """Make the labels of the first rows final."""
        for act, argument in self.actions(rows):
            act(argument)
        self._offered = {}

    def rollback(self) -> None:
        """Forget the labels that are not final, and the tasks that only they have."""
        self.kernel.rollback()
        self._offered = {}

    def with_classes(self, classes: int) -> "TaskHistory":
        """Return the same if it has room for so many classes, else a copy that has."""
        if self.kernel.numeric or classes <= self.kernel.classes:
            return self
        self.kernel.rollback()
        made = TaskHistory.from_state(self.to_json(), self.arrays(), False)
        made.kernel.make_classes(classes)
        return made

    def forget(self, task: Id) -> None:
        """Drop the history of a task; nothing happens if there is none."""
        if self.tasks.find(task) >= 0:
            self.kernel.forget(self.tasks.find(task))
            self.tasks.remove(task)

    def without(self, names: Collection[Id]) -> "TaskHistory":
        """Return the same history, without the names of some categories."""
        stored = self.to_json()
        categories = list(stored["categories"])
        for k, name in enumerate(categories):
            if name in names:
                column = name.partition("=")[0]
                categories[k] = f"{column}={forgotten_name(k, ())}"
        stored["categories"] = categories
        return TaskHistory.from_state(stored, self.arrays(), self.kernel.numeric)

    def clear(self) -> None:
        """Forget all labels, as before another pass over the same events."""
        old = self.kernel
        new = TaskHistory(old.columns, old.limit, numeric=old.numeric, time=old.time)
        self.kernel, self.tasks = new.kernel, new.tasks

    def _find_tasks(self, ids: Sequence[Id], y: Floats | None) -> NDArray[np.int64]:
        """Return each task's place in the table; new ones are offered one if labels are observed.

        They have it once the :meth:`actions` are done.
        """
        if y is None:
            return self.tasks.numbers(ids)
        self.kernel.rollback()
        self._prune()
        numbers = self.tasks.numbers(ids)
        new = np.flatnonzero(numbers < 0)
        self._offered = {}
        if len(new):
            self._offered = self.tasks.offered(ids)
        for at in new.tolist():
            numbers[at] = self._offered[ids[at]]
        return numbers

    def actions(self, rows: int) -> list[Action]:
        """Return the actions that commit the labels of the first rows, and names of their tasks."""
        return [*self.tasks.actions(self._offered), (self.kernel.commit, rows)]

    def _prune(self) -> None:
        """Drop names that have no history, if there are many, so that memory is bounded."""
        self.kernel.prune()
        if len(self.tasks) > 2 * self.kernel.limit:
            names = self.tasks.to_json()
            for k in set(range(len(names))).difference(self.kernel.arrays()["task"].tolist()):
                names[k] = None
            self.tasks = TaskTable.from_json(names)

    # State

    def to_json(self) -> dict[str, Any]:
        """Return settings and names; :meth:`arrays` has the rest."""
        kernel = self.kernel
        return {
            "columns": list(kernel.columns),
            "limit": kernel.limit,
            "time": kernel.time,
            "tasks": self.tasks.to_json(),
            "categories": kernel.categories,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the kernel's arrays by their names in a model file."""
        return add_prefix(PREFIX, self.kernel.arrays())

    @classmethod
    def from_state(
        cls, stored: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], numeric: bool
    ) -> Self:
        """Return the history that gave a state; ValueError where none could have."""
        parts = ("columns", "limit", "time", "tasks", "categories")
        try:
            columns, limit, time, tasks, categories = itemgetter(*parts)(stored)
            slots = {name: arrays[PREFIX + name] for name in ("task", "category", "table")}
        except KeyError as error:
            raise ValueError(f"the history has no {error}") from None
        texts: tuple[Any, ...] = (None,)
        if isinstance(columns, list) and isinstance(categories, list) and isinstance(tasks, list):
            texts = (time or "", *columns, *categories)
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("expected names of the history's columns, categories and tasks")
        made = cls(columns, limit, numeric=numeric, time=time)
        made.tasks = TaskTable.from_json(tasks)
        made.kernel.load(categories, slots)
        if not set(slots["task"].tolist()) <= {EVERYBODY, *made.tasks.number.values()}:
            raise ValueError("the history has a task without a name")
        return made


def renamed_slots(
    arrays: Mapping[str, NDArray[Any]], tasks: NDArray[np.int64], categories: NDArray[np.int64]
) -> dict[str, NDArray[Any]]:
    """Return :meth:`TaskHistory.arrays` with task k as tasks[k] and category k as categories[k]."""
    table = arrays[f"{PREFIX}table"].copy()
    before, labels = np.divmod(table[:, CODE_COLUMN].astype(np.int64), LABEL_CODES)
    table[:, CODE_COLUMN] = labels + LABEL_CODES * (1 + categories[before - 1])
    return {
        f"{PREFIX}task": tasks[arrays[f"{PREFIX}task"]],
        f"{PREFIX}category": categories[arrays[f"{PREFIX}category"]],
        f"{PREFIX}table": table,
    }


def history_schema(schema: Schema | None, columns: Iterable[str]) -> Schema:
    """Return a schema that reads the history columns as categories; ValueError if it cannot."""
    if isinstance(columns, str):
        raise ValueError(f"history takes a list of columns; got the text {columns!r}")
    made = (schema or Schema(complete=True)).copy()
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
    >>> [feature_name(model, column) for column in (1, 2, 7)]
    ['last labels: none', 'skill=sums after none', 'count of right so far for this skill']
    """
    if name is None:
        name = model.features.name(column)
    past, target = model.engine.history, model.engine.target
    feature = None
    if past is not None and isinstance(name, str):
        feature = past.kernel.feature_of(name)
    if feature is None:
        return name
    place, kind, index, category = feature
    labels = {max(int(y), 0): label for label, y in target.known.items()}  # sides: 0 and 1
    if kind == "recent":
        recent = ", ".join(str(labels.get(k, k)) for k in index) or "none"
        if category:
            return f"{category} after {recent}"
        return f"last labels: {recent}"
    label, numeric = labels.get(index, index), past.kernel.numeric
    where = ""
    if place:
        where = f" for this {past.kernel.columns[place - 1]}"
    share = f"share of {label}"
    last = f"last label was {label}"
    if numeric:
        share, last, label = "mean", "last label", "labels"
    if kind.startswith("mean"):
        return f"recent {share}{where} (half-life {kind[4:]})"
    more = f"how much more often {label} than in all tasks"
    words = {
        "count": f"count of {label} so far{where}",
        "last": f"{last}{where}",
        "gap": f"labels since the last one{where}",
        "time": f"time since the last label{where}",
        "new": f"no label so far{where}",
        "slope": f"{category} times {more}",
        "all": f"log-odds of {label} in all tasks",
        "level": f"{more}{where}",
        "own": more,
    }
    return " times ".join(map(words.__getitem__, kind.split(".")))
