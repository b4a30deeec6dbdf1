"""A model as tables by name: what every format writes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.learners.base import Learner
from romco.learners.classes import Classes
from romco.learners.frozen import (
    MISSING_IF_ZERO,
    NUMBER,
    FrozenClasses,
    FrozenFunctions,
    FrozenPredictor,
    FrozenSoftmax,
    InputCovariance,
    Lane,
    PairTable,
    no_functions,
)
from romco.model import Columns, Model, Names
from romco.model.engine import Engine
from romco.model.features import Sparse
from romco.model.names import Id, canonical_name, is_forgotten
from romco.typing import Floats

Whole = NDArray[np.int64]
CHUNK_ROWS = 2**18  # rows of pairs of task and feature that are in memory at a time


class TaskRows:
    """Rows of numbers by task and key, in this order, which are read when they are written.

    The place of a row is ``task * n_keys + key``. ``table`` has the rows of tasks; they are left
    out where their ``places`` are below 0. Those of the new task, ``new_task``, come last.
    """

    def __init__(
        self,
        table: PairTable,
        places: Whole,
        n_keys: int,
        new_task: int,
        new_keys: Whole,
        new: Floats,
    ) -> None:
        left_out = np.count_nonzero(places < 0)
        self._order = np.argsort(places, kind="stable")[left_out:]
        self._read, self._new_task, self._new = table.read, new_task, new
        self.n_keys = n_keys
        self.places = np.concatenate([places[self._order], new_task * n_keys + new_keys])

    def __len__(self) -> int:
        return len(self.places)

    def starts(self) -> Whole:
        """Return where the rows of each task begin (m + 2,)."""
        return np.searchsorted(self.places, self.n_keys * np.arange(self._new_task + 2))

    def chunks(self) -> Iterator[tuple[Whole, Floats]]:
        """Yield places (n,) and rows (n, width) of all, some at a time."""
        known = len(self._order)
        for begin in range(0, known, CHUNK_ROWS):
            chunk = slice(begin, min(begin + CHUNK_ROWS, known))
            yield self.places[chunk], self._read(self._order[chunk])
        if len(self._new):
            yield self.places[known:], self._new

    def values(self) -> Iterator[Floats]:
        """Yield all rows (n, width), some at a time."""
        for _, values in self.chunks():
            yield values


@dataclass(frozen=True)
class PartTables:
    """A frozen predictor whose features and tasks are in the order of their names.

    The last task is a new one.
    """

    predictor: FrozenPredictor
    units: Floats  # (d, 4)
    lanes: tuple[Lane, ...]  # of features
    features: Floats  # (d + 1 + g, lanes) of features, the constant, and functions
    functions: FrozenFunctions
    tasks: Floats  # (m + 1, lanes)
    pairs: TaskRows  # of task and feature
    covariances: list[InputCovariance]  # feature d is the constant, then come functions
    weights: Floats  # (K,) of the stacking model; margins above 0 are of the positive class
    calibration: float  # factor of a margin that makes it a log-odds

    def covariance_entries(self) -> Floats:
        """Return input, two features and twice their covariance (n, 4); once of each two."""
        entries = [np.empty((0, 4))]
        for one in self.covariances:
            first, second = np.triu_indices(len(one.features))
            values = one.values[first, second] * np.where(first == second, 1.0, 2.0)
            inputs = np.full(len(first), one.input)
            features = one.features[first], one.features[second]
            entries.append(np.column_stack([inputs, *features, values]))
        return np.concatenate(entries)


class ManyTables(NamedTuple):
    """Numbers of three classes or more."""

    classes: FrozenClasses
    softmax: FrozenSoftmax
    groups: TaskRows  # of task and class


@dataclass(frozen=True)
class ModelTables:
    """A model by name; only use it while the model is at rest.

    A model of two classes or numbers has one part. One of more classes has a part for each pair of
    classes, or none, and one of the softmax, which is the last.
    """

    feature_names: list[str]  # in the order of their UTF-8 bytes, as all names are
    task_names: list[str]  # canonical ones
    classes: tuple[str, ...]  # of two, the negative one first; none where numbers are predicted
    columns: dict[str, str]  # kind of each column, see `romco.io.schema`
    is_matrix: bool  # rows are arrays: columns have no names
    parts: list[PartTables]
    many: ManyTables | None = None


def read_tables(model: Model) -> ModelTables:
    """Return the tables of a model at rest; ValueError where it has no form for other programs."""
    _check(model)
    engine, features, d = model.engine, model.features, model.features.width
    new_weights = _weights_of_new_task(engine, d)  # first: it may make room for a task
    given_names = [text_of("feature", features.name(column)) for column in range(d)]
    feature_names, feature_order = _sorted_names("feature", given_names)
    known = dict(engine.tasks.items())
    task_texts = [str(canonical_name(text_of("task", task))) for task in known]
    task_names, places = _sorted_names("task", task_texts)
    task_order = np.array(list(known.values()), dtype=np.int64)[places]
    is_matrix = isinstance(features, Columns) and features.names is None
    order = _Order(engine.learner, feature_order, task_order, is_matrix)
    parts, many = [], None
    if isinstance(engine.learner, Classes):
        classes = engine.learner.frozen_classes()
        for predictor, factor in zip(classes.pairs, classes.factors.tolist(), strict=True):
            parts.append(order.part(predictor, new_weights, calibration=factor))
        if classes.softmax is not None:
            parts.append(order.part(classes.softmax.predictor, new_weights))
            many = ManyTables(classes, classes.softmax, order.groups(classes.softmax))
    else:
        predictor = engine.learner.frozen_predictor()
        scale = float(np.exp(engine.scale.log_a))
        parts.append(order.part(predictor, new_weights, engine.target.sign, scale))
    return ModelTables(
        feature_names=feature_names,
        task_names=task_names,
        classes=tuple(map(partial(text_of, "label"), model.classes)),
        columns=_columns(model, given_names),
        is_matrix=is_matrix,
        parts=parts,
        many=many,
    )


class _Order:
    """Features and tasks of a learner in the order of their names."""

    def __init__(self, learner: Learner, features: Whole, tasks: Whole, is_matrix: bool) -> None:
        self._features, self._tasks, self._is_matrix = features, tasks, is_matrix
        self._feature_place = _places(features, learner.n_features)
        self._task_place = _places(tasks, learner.n_tasks)

    def part(
        self,
        predictor: FrozenPredictor,
        new_weights: Floats,
        sign: float = 1.0,
        calibration: float = 1.0,
    ) -> PartTables:
        """Return the tables of a predictor; ``new_weights`` are of a linear model's new task."""
        lanes, constant = _constant_row(predictor)
        new_row, new_features = predictor.new_task, np.empty(0, dtype=np.int64)
        if new_row is None:  # the first lane is the weight
            new_row = np.zeros(len(predictor.tasks.lanes))
            new_row[0] = new_weights[-1]
            new_features = np.flatnonzero(new_weights[self._features])
        functions = predictor.functions or no_functions(len(predictor.features.lanes))
        kinds = functions.kinds
        if self._is_matrix and not len(functions.centre):  # as the kernel of functions reads rows
            kinds = np.where(kinds == NUMBER, MISSING_IF_ZERO, kinds)
        of_functions = self._feature_place[functions.features]
        covariances = []
        for one in predictor.covariances:
            covariances.append(one._replace(features=self._numbers(one.features)))
        weights = np.vstack([predictor.features.values[self._features], functions.weights])
        weights = np.pad(weights, ((0, 0), (0, len(lanes) - weights.shape[1])))
        n_keys = len(weights) + 1
        places = self._places(predictor.pairs, self._numbers(predictor.pairs.feature), n_keys)
        return PartTables(
            predictor=predictor,
            units=predictor.units[self._features],
            lanes=lanes,
            features=np.insert(weights, len(self._features), constant, axis=0),
            functions=functions._replace(features=of_functions, kinds=kinds),
            tasks=np.vstack([predictor.tasks.values[self._tasks], new_row]),
            pairs=TaskRows(
                predictor.pairs,
                places,
                n_keys,
                len(self._tasks),
                new_features,
                new_weights[self._features[new_features]][:, None],
            ),
            covariances=covariances,
            weights=sign * predictor.weights,
            calibration=calibration,
        )

    def groups(self, softmax: FrozenSoftmax) -> TaskRows:
        """Return the numbers of tasks and classes."""
        table, new = softmax.groups, softmax.new_groups
        K = len(new)
        places = self._places(table, table.feature, K)
        return TaskRows(table, places, K, len(self._tasks), np.arange(K), new)

    def _places(self, table: PairTable, keys: Whole, n_keys: int) -> Whole:
        """Return the places of rows; those of forgotten tasks are below 0."""
        return self._task_place[table.task] * n_keys + keys

    def _numbers(self, features: Whole) -> Whole:
        """Return numbers of features, the constant (-1) and functions (-2, -3, ...) in tables."""
        places = self._feature_place[np.maximum(features, 0)]
        return np.where(features < 0, len(self._features) - 1 - features, places)


def _constant_row(predictor: FrozenPredictor) -> tuple[tuple[Lane, ...], Floats]:
    """Return the lanes of features and of the constant, and the constant's numbers."""
    begin = {Lane("weight", k): value for k, value in enumerate(predictor.intercepts)}
    for k, value in enumerate(predictor.variances):
        begin[Lane("variance", k)] = value
    used = [lane for lane, value in begin.items() if value]
    lanes = tuple(dict.fromkeys((*predictor.features.lanes, Lane("weight", 0), *used)))
    return lanes, np.array([begin.get(lane, 0.0) for lane in lanes])


def _check(model: Model) -> None:
    """Raise ValueError with the reason why a model cannot be exported."""
    engine = model.engine
    kind = engine.target.kind
    if kind != "number" and len(model.classes) < max(2, engine.learner.answers):
        raise ValueError("the model does not know two classes yet: learn events of both first")
    if not model.events:
        raise ValueError("the model has learned nothing yet: learn events first")
    if not model.features.width:
        raise ValueError("the model knows no feature yet: learn events with features first")
    if engine.history is not None:
        raise ValueError("a model with history= cannot be exported: each event changes it")
    if engine.with_offset:
        raise ValueError("a model learned with offsets cannot be exported yet")
    if not isinstance(model.features, Columns | Names):
        raise ValueError("hashed features cannot be exported yet: learn with features=Names()")


def check_columns(tables: ModelTables, format: str) -> None:
    """Raise ValueError for columns that cannot be read by a format of plain cells."""
    if not tables.columns:
        raise ValueError("the model knows no column any more: learn events with features first")
    marked = tuple(f"{name}=" for name, kind in tables.columns.items() if kind == "category")
    for name, kind in tables.columns.items():
        if name.startswith(marked):
            raise ValueError(
                f"column {name!r} cannot be told from a category of another column in {format}: "
                "rename it, or export to JavaScript"
            )
        if kind not in ("number", "category"):
            raise ValueError(
                f"column {name!r} of kind {kind!r} cannot be exported to {format}, which reads "
                "numbers and whole categories only: leave it out, or export to JavaScript"
            )


def text_of(what: str, name: Id) -> str:
    """Return a name as text; ValueError for bytes and tuples.

    >>> text_of("label", 7), text_of("label", 7.0), text_of("label", True)
    ('7', '7', 'true')
    """
    if isinstance(name, str):
        return name
    if isinstance(name, bool):
        return "true" if name else "false"
    if isinstance(name, int | float):
        return str(int(name)) if name == name // 1 else str(name)
    raise ValueError(f"{what} {name!r} cannot be exported: names must be text or numbers")


def _sorted_names(what: str, texts: Sequence[str]) -> tuple[list[str], Whole]:
    """Return names in the order of their UTF-8 bytes, and the place of each in ``texts``."""
    order = sorted(range(len(texts)), key=lambda k: texts[k].encode())
    found = list(map(texts.__getitem__, order))
    for name, after in pairwise(found):
        if name == after:
            raise ValueError(f"two {what}s are called {name!r} as text: names must differ as text")
    return found, np.array(order, dtype=np.int64)


def _places(order: Whole, size: int) -> Whole:
    """Return the place of each number in an order; -1 where it is not there."""
    places = np.full(size, -1, dtype=np.int64)
    places[order] = np.arange(len(order))
    return places


def _weights_of_new_task(engine: Engine, d: int) -> Floats:
    """Return the weights (d + 1,) of a linear model's new task, the intercept last."""
    if not engine.learner.linear:
        return np.zeros(d + 1)
    starts = np.minimum(np.arange(d + 2, dtype=np.int32), d)
    one_each: Any = Sparse(np.ones(d), np.arange(d, dtype=np.int32), starts)
    new = np.full(d + 1, -1, dtype=np.int64)
    margins = engine.target.sign * engine.margins_of(one_each, new)  # as the learner has them
    margins[:-1] -= margins[-1]
    return margins


def _columns(model: Model, feature_names: list[str]) -> dict[str, str]:
    """Return the kind of each column that gives features; forgotten features have none."""
    schema = model.schema if isinstance(model.features, Names) else None
    if schema is None:
        return dict.fromkeys(feature_names, "number")
    used = schema.columns if schema.features is None else schema.features
    kinds: dict[str, str] = {}
    for name in used:
        kind = schema.kinds.get(name, "free")
        if name not in schema.roles and kind != "ignored":
            kinds[name] = kind
    marked = tuple(f"{name}{mark}" for name in kinds for mark in "=:.")
    for number, name in enumerate(feature_names):
        if not name.startswith(marked) and not is_forgotten(name, number):
            kinds.setdefault(name, "number")
    return kinds
