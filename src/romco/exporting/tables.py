"""A model as tables by name: what every format writes."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.learners.frozen import (
    FrozenFunctions,
    FrozenPredictor,
    InputCovariance,
    no_functions,
)
from romco.model import Columns, Model, Names
from romco.model.engine import Engine
from romco.model.features import Sparse
from romco.model.names import Id
from romco.typing import Floats

Whole = NDArray[np.int64]
CHUNK_PAIRS = 2**18  # pairs of task and feature that are in memory at a time


class CovarianceEntries(NamedTuple):
    """Entries of symmetric matrices; each pair of two features once, with twice its value."""

    at: Whole  # (n, 3) input and two features; d is the constant, functions follow
    values: Floats  # (n,)


@dataclass(frozen=True)
class ModelTables:
    """A frozen predictor whose features and tasks are in the order of their names.

    Task ``len(task_names)`` is a new one. Only use it while the model is at rest: pairs of task and
    feature are read from the learner when they are written.
    """

    predictor: FrozenPredictor
    feature_names: list[str]  # in the order of their UTF-8 bytes, as all names are
    task_names: list[str]
    units: Floats  # (d, 9)
    features: Floats  # (d + 1 + g, lanes) of features, the constant (0), and functions
    functions: FrozenFunctions
    tasks: Floats  # (m + 1, lanes)
    pair_tasks: Whole  # (p,) rising
    pair_features: Whole  # (p,) rising within a task
    covariances: list[InputCovariance]  # feature d is the constant, then come functions
    weights: Floats  # (K,) of the stacking model; margins above 0 are of the positive class
    classes: tuple[str, ...]  # the negative one first; none where numbers are predicted
    calibration: float  # factor of a margin that makes it a log-odds
    columns: dict[str, str]  # kind of each column, see `romco.io.schema`
    is_matrix: bool  # rows are arrays: columns have no names
    _order: Whole  # places of the pairs in the learner's table, but of the new task
    _new_values: Floats  # of pairs of the new task, which come last

    @property
    def n_pairs(self) -> int:
        """Number of pairs of task and feature."""
        return len(self.pair_tasks)

    def pair_starts(self) -> Whole:
        """Return where the pairs of each task begin (m + 2,)."""
        return np.searchsorted(self.pair_tasks, np.arange(len(self.task_names) + 2))

    def covariance_entries(self) -> CovarianceEntries:
        """Return all entries of the inputs' covariances."""
        at, values = [np.empty((0, 3), dtype=np.int64)], [np.empty(0)]
        for one in self.covariances:
            first, second = np.triu_indices(len(one.features))
            inputs = np.full(len(first), one.input)
            at.append(np.column_stack([inputs, one.features[first], one.features[second]]))
            values.append(one.values[first, second] * np.where(first == second, 1.0, 2.0))
        return CovarianceEntries(np.concatenate(at), np.concatenate(values))

    def pair_values(self) -> Iterator[Floats]:
        """Yield the numbers (n, lanes) of all pairs, some at a time."""
        for begin in range(0, len(self._order), CHUNK_PAIRS):
            yield self.predictor.pairs.read(self._order[begin : begin + CHUNK_PAIRS])
        if len(self._new_values):
            yield self._new_values


def read_tables(model: Model) -> ModelTables:
    """Return the tables of a model at rest; ValueError where it has no form for other programs."""
    _check(model)
    engine, features, d = model.engine, model.features, model.features.width
    new_weights = _weights_of_new_task(engine, d)  # first: it may make room for a task
    predictor = engine.learner.frozen_predictor()
    given_names = [text_of("feature", features.name(column)) for column in range(d)]
    feature_names, feature_order = _sorted_names("feature", given_names)
    known = dict(engine.tasks.items())
    task_names, places = _sorted_names("task", known)
    task_order = np.array(list(known.values()), dtype=np.int64)[places]
    m = len(task_names)
    new_row, new_features = predictor.new_task, np.empty(0, dtype=np.int64)
    if new_row is None:  # the first lane is the weight
        new_row = np.zeros(len(predictor.tasks.lanes))
        new_row[0] = new_weights[-1]
        new_features = np.flatnonzero(new_weights[feature_order])
    feature_place = _places(feature_order, engine.learner.n_features)
    task = _places(task_order, engine.learner.n_tasks)[predictor.pairs.task]
    feature = feature_place[predictor.pairs.feature]
    kept = np.flatnonzero((task >= 0) & (feature >= 0))
    order = kept[np.argsort(task[kept] * d + feature[kept], kind="stable")]
    lanes = predictor.features.lanes
    own_weights = predictor.features.values[feature_order]
    functions = predictor.functions or no_functions(len(lanes))
    covariances = []
    for one in predictor.covariances:
        places = feature_place[np.maximum(one.features, 0)]
        places = np.where(one.features < 0, d - 1 - one.features, places)
        covariances.append(one._replace(features=places))
    return ModelTables(
        predictor=predictor,
        feature_names=feature_names,
        task_names=task_names,
        units=predictor.units.table[feature_order],
        features=np.vstack([own_weights, np.zeros((1, len(lanes))), functions.weights]),
        functions=functions._replace(features=feature_place[functions.features]),
        tasks=np.vstack([predictor.tasks.values[task_order], new_row]),
        pair_tasks=np.concatenate([task[order], np.full(len(new_features), m)]),
        pair_features=np.concatenate([feature[order], new_features]),
        covariances=covariances,
        weights=engine.target.sign * predictor.weights,
        classes=tuple(map(partial(text_of, "label"), model.classes)),
        calibration=float(np.exp(engine.scale.log_a)),
        columns=_columns(model, given_names),
        is_matrix=isinstance(features, Columns) and features.names is None,
        _order=order,
        _new_values=new_weights[feature_order[new_features]][:, None],
    )


def _check(model: Model) -> None:
    """Raise ValueError with the reason why a model cannot be exported."""
    engine = model.engine
    kind = engine.target.kind
    if kind == "classes":
        raise ValueError("a model for classes cannot be exported yet: only two, and numbers")
    if kind == "two classes" and len(model.classes) < 2:
        raise ValueError("the model does not know two classes yet: learn events of both first")
    if not model.events:
        raise ValueError("the model has learned nothing yet: learn events first")
    if engine.history is not None:
        raise ValueError("a model with history= cannot be exported: each event changes it")
    if engine.with_offset:
        raise ValueError("a model learned with offsets cannot be exported yet")
    if not isinstance(model.features, Columns | Names):
        raise ValueError("hashed features cannot be exported yet: learn with features=Names()")


def text_of(what: str, name: Id) -> str:
    """Return a name as text; ValueError for bytes and tuples.

    >>> text_of("task", 7), text_of("task", 7.0), text_of("task", True)
    ('7', '7', 'true')
    """
    if isinstance(name, str):
        return name
    if isinstance(name, bool):
        return "true" if name else "false"
    if isinstance(name, int | float):
        return str(int(name)) if name == name // 1 else str(name)
    raise ValueError(f"{what} {name!r} cannot be exported: names must be text or numbers")


def _sorted_names(what: str, names: Iterable[Id]) -> tuple[list[str], Whole]:
    """Return names in the order of their UTF-8 bytes, and the place of each in ``names``."""
    texts = list(map(partial(text_of, what), names))
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
    """Return the kind of each column that gives features."""
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
    for name in feature_names:
        if not name.startswith(marked):
            kinds.setdefault(name, "number")
    return kinds
