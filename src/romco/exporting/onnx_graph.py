"""ONNX: one graph from named inputs, the task and the columns, to margin, probability and label.

More than two classes have the outputs probabilities and label, numbers have one, the prediction.

Numbers are double; NaN is a missing number and "" a missing category. Weights are in a file beside
the graph, which is written a chunk at a time. Needs the package ``onnx``; onnxruntime runs it.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from itertools import chain
from math import pi, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romco.exporting.tables import ManyTables, ModelTables, PartTables, TaskRows, check_columns
from romco.io import durable
from romco.learners.frozen import (
    KNOTS,
    LINE,
    MISSING_IF_ZERO,
    NORMAL_QUANTILES,
    SCORE,
    SCORE_STEPS,
    ZERO_IF_MISSING,
    FrozenFunctions,
    InputCovariance,
    Lane,
    Part,
)

if TYPE_CHECKING:
    from onnx import NodeProto, ValueInfoProto

GRAPH_FILE, DATA_FILE = "model.onnx", "model.onnx.data"
OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
TASK, MATRIX = "task", "x"  # inputs
NO_COLUMNS = ("", TASK, "margin", "probability", "label", "prediction", "probabilities")
MIN_EXTERNAL_BYTES = 1024  # of an array that is stored beside the graph

# Limits of `romco.learners.frozen`
MAX_LOG_ODDS, CLOSE_LOG_ODDS = 500.0, 4.0  # of pairs
MAX_SCORE, MIN_LOG_DENSITY = 50.0, -30.0  # of the softmax
MAX_LINE = 8.0
MIN_SIZE = 1e-150  # of a value that is no zero


def write_onnx(tables: ModelTables, folder: Path) -> list[Path]:
    """Write the graph and its weights; ValueError for a column that ONNX cannot read."""
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX needs the package onnx: pip install 'romco[export]'") from None
    check_columns(tables, "ONNX")
    for name in NO_COLUMNS:
        if name in tables.columns:
            raise ValueError(
                f"a column is called {name!r}, as no input of the graph can be: rename it"
            )
    graph = _Graph(tables.columns)
    _add_prediction(graph, tables)
    operators = onnx.helper.make_opsetid("", OPSET)
    more_operators = onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)
    model = onnx.helper.make_model(
        graph.finish(),
        producer_name="romco",
        ir_version=IR_VERSION,
        opset_imports=[operators, more_operators],
    )
    folder.mkdir(parents=True, exist_ok=True)
    data, proto = folder / DATA_FILE, folder / GRAPH_FILE
    durable.replace(data, graph.external)
    durable.replace(proto, [model.SerializeToString()])
    return [proto, data]


def _operator(name: str) -> Callable[[Any, Any], "_Value"]:
    return lambda value, other: value.graph(name, value, other)


def _reflected(name: str) -> Callable[[Any, Any], "_Value"]:
    return lambda value, other: value.graph(name, other, value)


class _Value:
    """Value of a graph. Operators add nodes, of which numbers and arrays become constants."""

    __array_ufunc__ = None  # arrays leave operators to it
    __add__ = _operator("Add")
    __sub__ = _operator("Sub")
    __mul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __matmul__ = _operator("MatMul")
    __lt__ = _operator("Less")
    __le__ = _operator("LessOrEqual")
    __gt__ = _operator("Greater")
    __ge__ = _operator("GreaterOrEqual")
    __and__ = _operator("And")
    __or__ = _operator("Or")
    __radd__ = _reflected("Add")
    __rsub__ = _reflected("Sub")
    __rmul__ = _reflected("Mul")
    __rtruediv__ = _reflected("Div")
    equals = _operator("Equal")

    def __init__(self, graph: "_Graph", name: str) -> None:
        self.graph, self.name = graph, name

    def __neg__(self) -> "_Value":
        return self.graph("Neg", self)

    def __invert__(self) -> "_Value":
        return self.graph("Not", self)

    def take(self, places: Any, axis: int = 0) -> "_Value":
        """Return some entries of an axis."""
        return self.graph("Gather", self, places, axis=axis)

    def sum(self, axis: int = -1, keep: bool = False) -> "_Value":
        """Add up an axis."""
        return self.graph("ReduceSum", self, [axis], keepdims=int(keep))

    def add_axis(self, axis: int) -> "_Value":
        """Return it with an axis of length 1 more."""
        return self.graph("Unsqueeze", self, [axis])

    def within(self, limit: Any) -> "_Value":
        """Cut values at -limit and limit."""
        return self.graph("Max", self.graph("Min", self, limit), -limit)

    def as_type(self, dtype: Any) -> "_Value":
        """Return values as numbers of another type."""
        return self.graph("Cast", self, to=self.graph.kind_of(dtype))


class _Graph:
    """Nodes and constants in the order they are added; their names are none of ``given``."""

    def __init__(self, given: Container[str]) -> None:
        from onnx import TensorProto, helper

        self._given, self._proto, self._helper = given, TensorProto, helper
        self._nodes: list[NodeProto] = []
        self._constants: list[Any] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._bytes = 0
        self.external: Iterator[Any] = iter(())

    def input(self, name: str, *more: int, text: bool = False) -> _Value:
        """Add an input (n, ...) of numbers or text."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._inputs.append(self._helper.make_tensor_value_info(name, kind, ["n", *more]))
        return _Value(self, name)

    def output(self, name: str, value: _Value, *more: int, text: bool = False) -> None:
        """Give a value (n, ...) out under a name."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._nodes.append(self._helper.make_node("Identity", [value.name], [name]))
        self._outputs.append(self._helper.make_tensor_value_info(name, kind, ["n", *more]))

    def __call__(self, operator: str, *inputs: Any, domain: str = "", **options: Any) -> _Value:
        """Add a node of values, numbers and arrays; return its value."""
        name = self._new_name(operator.lower(), len(self._nodes))
        given = [self.constant(one).name for one in inputs]
        node = self._helper.make_node(operator, given, [name], name, domain=domain, **options)
        self._nodes.append(node)
        return _Value(self, name)

    def constant(self, values: Any) -> _Value:
        """Add a number or an array, large ones beside the graph; return a value as it is."""
        if isinstance(values, _Value):
            return values
        array = np.asarray(values)
        if array.dtype.kind == "U":
            array = array.astype(object)
        elif array.nbytes >= MIN_EXTERNAL_BYTES:
            return self.stream(array.dtype, array.shape, [np.ascontiguousarray(array)])
        name = self._new_name("constant", len(self._constants))
        tensor = self._helper.make_tensor(
            name, self.kind_of(array.dtype), array.shape, array.ravel().tolist()
        )
        self._constants.append(tensor)
        return _Value(self, name)

    def stream(self, dtype: Any, shape: tuple[int, ...], chunks: Iterable[NDArray[Any]]) -> _Value:
        """Add an array that comes in chunks, which are stored beside the graph."""
        tensor = self._proto(
            name=self._new_name("constant", len(self._constants)),
            data_type=self.kind_of(dtype),
            dims=shape,
            data_location=self._proto.EXTERNAL,
        )
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        where = {"location": DATA_FILE, "offset": str(self._bytes), "length": str(size)}
        for key, value in where.items():
            tensor.external_data.add(key=key, value=value)
        little = np.dtype(dtype).newbyteorder("<")
        padding = -size % 8
        content = map(partial(np.ascontiguousarray, dtype=little), chunks)
        self.external = chain(self.external, map(np.ndarray.tobytes, content), [bytes(padding)])
        self._bytes += size + padding
        self._constants.append(tensor)
        return _Value(self, tensor.name)

    def _new_name(self, kind: str, number: int) -> str:
        name = f"{kind}_{number}"
        while name in self._given:
            name += "_"
        return name

    def kind_of(self, dtype: Any) -> int:
        """Return the number that ONNX has for a type."""
        dtype = np.dtype(dtype)
        return int(self._helper.np_dtype_to_tensor_dtype(dtype))

    def finish(self) -> Any:
        """Return the graph."""
        parts = self._nodes, "romco", self._inputs, self._outputs, self._constants
        return self._helper.make_graph(*parts)

    def repeat(self, row: NDArray[Any], u: _Value) -> _Value:
        """Return a row (1, k) for each row of finite numbers u (n, c).

        It is no Expand, whose output's size gets a new name: to load a graph, onnxruntime compares
        each of them with all others.
        """
        return 0.0 * u.take([0], axis=1) + row

    def log1p(self, x: _Value) -> _Value:
        """Return log(1 + x), exact for small x too (Kahan)."""
        more = 1.0 + x
        rounded = more - 1.0
        same = rounded.equals(0.0)
        ratio = x / self("Where", same, 1.0, rounded)
        return self("Where", same, x, self("Log", more) * ratio)


def _add_prediction(graph: _Graph, tables: ModelTables) -> None:
    """Add all nodes of `romco.learners.frozen`'s formula."""
    names = tables.task_names
    n = len(names)  # the last row is that of new tasks
    row = _encode(graph, graph.input(TASK, text=True), names, range(n), default=n)
    feature, x = _features(graph, tables)
    if tables.many is not None:
        _add_classes(graph, tables, tables.many, row, feature, x)
        return
    (part,) = tables.parts
    z, _ = _inputs(graph, part, row, feature, x)
    _add_outputs(graph, tables, _margin(graph, part, z))


def _inputs(
    graph: _Graph, part: PartTables, row: _Value, feature: _Value, x: _Value
) -> tuple[_Value, _Value]:
    """Return the inputs (n, K) of a part's stacking model, and functions before their rotation."""
    predictor = part.predictor
    d, g = len(part.units), len(part.functions.scales)
    known = graph("Max", feature, 0)  # else x is missing
    u = _scaled(graph, part, known, x)
    totals = _Totals(graph, len(part.weights))
    totals.add(part.lanes, part.features[d], part.features[d])  # of the constant
    totals.add_entries(part.lanes, graph.constant(part.features).take(known), u)
    of_task = graph.constant(part.tasks).take(row)
    lanes = predictor.tasks.lanes
    totals.add(lanes, of_task, of_task)
    factors = _selection(lanes, "factor", len(part.weights))
    factor = of_task @ factors + (1.0 - factors.sum(axis=0))
    functions = u
    if g:
        functions, turned = _functions(graph, part.functions, d, feature, x, u)
        weights = part.features[d + 1 :]
        totals.add(part.lanes, turned @ weights, (turned * turned) @ weights)
        places = graph.repeat(d + 1.0 + np.arange(g)[None], turned).as_type(np.int64)
        feature = graph("Concat", feature, places, axis=1)
        known = graph("Concat", known, places, axis=1)
        u = graph("Concat", u, turned, axis=1)
    if len(part.pairs):
        own, place = _find(graph, part.pairs, row, feature)
        lanes = predictor.pairs.lanes
        values = graph.stream(np.float64, (len(part.pairs), len(lanes)), part.pairs.values())
        totals.add_entries(lanes, values.take(place), graph("Where", own, u, 0.0))
    for covariance in part.covariances:
        totals.variances += _quadratic(graph, part, covariance, known, u)
    return factor * _moderate(graph, totals.weights, totals.variances), functions


def _moderate(graph: _Graph, mean: _Value, variance: _Value) -> _Value:
    """Shrink log-odds by their variance."""
    return mean / graph("Sqrt", 1.0 + pi / 8.0 * graph("Max", variance, 0.0))


def _margin(graph: _Graph, part: PartTables, z: _Value) -> _Value:
    """Return the margin (n,) of a part."""
    spread = ((z @ part.predictor.covariance) * z).sum()
    return _moderate(graph, z @ part.weights, spread)


# More than two classes


def _add_classes(
    graph: _Graph, tables: ModelTables, many: ManyTables, row: _Value, feature: _Value, x: _Value
) -> None:
    """Add all nodes of the probabilities of many classes, and of the label."""
    K = len(tables.classes)
    classes = many.classes
    *pairs, last = tables.parts
    z, functions = _inputs(graph, last, row, feature, x)
    weights = np.tile(classes.weights, (K, 1)).T  # onnxruntime leaves out a single 1 + 1e-8
    score = _softmax(graph, last, many, row, z, functions) * weights[1]
    if pairs:
        margins = []
        for part in pairs:
            z, _ = _inputs(graph, part, row, feature, x)
            margins.append(_margin(graph, part, z).add_axis(1))
        odds = graph("Concat", *margins, axis=1) * classes.factors
        score += _couple(graph, odds.within(MAX_LOG_ODDS), K) * weights[0]
    chances = graph("Softmax", score, axis=1)
    best = graph("ArgMax", chances, axis=1, keepdims=0, select_last_index=1)
    graph.output("probabilities", chances, K)
    graph.output("label", graph.constant(tables.classes).take(best), text=True)


def _couple(graph: _Graph, odds: _Value, K: int) -> _Value:
    """Return scores (n, K) from the log-odds (n, P) of pairs."""
    k, j = np.divmod(np.arange(K * K), K)
    high = np.maximum(k, j)
    low = np.minimum(k, j)
    place = np.where(high > low, high * (high - 1) // 2 + low, 0)
    z = odds.take(place, axis=1) * np.sign(k - j).astype(float)
    rows = graph("Shape", z, start=0, end=1)
    best = graph("Expand", 0, graph("Concat", rows, [1], axis=0))
    for other in range(1, K):
        better = graph("GatherElements", z, best + K * other, axis=1) > 0.0
        best = graph("Where", better, other, best)
    every = np.arange(K)[None]
    ahead = graph("GatherElements", z, best * K + every, axis=1)
    close = ahead < CLOSE_LOG_ODDS
    is_best = best.equals(every)
    both = close.add_axis(1) & close.add_axis(2)
    either = is_best.add_axis(1) | is_best.add_axis(2)
    counted = (both | either) & ~np.eye(K, dtype=bool)
    evidence = graph("Exp", -graph("Reshape", z, [0, K, K]))
    against = graph("Where", counted, evidence, 0.0).sum()
    return -graph("Log", 1.0 + against)


def _softmax(
    graph: _Graph, part: PartTables, many: ManyTables, row: _Value, z: _Value, functions: _Value
) -> _Value:
    """Return scores (n, K) from the inputs of the softmax."""
    _, softmax, groups = many
    K = len(softmax.new_groups)
    n = len(softmax.lines)
    weighted = z.within(MAX_SCORE) * part.weights
    score = graph("Reshape", weighted, [0, 2, K]).sum(axis=1)
    every = np.arange(K)[None]
    shape = graph("Concat", graph("Shape", row), [K], axis=0)
    own, place = _find(graph, groups, row, graph("Expand", every, shape))
    values = graph.stream(np.float64, (len(groups), 2 + n), groups.values())
    group = values.take(graph("Where", own, place, len(groups) - K + every))
    score += group.take(0, axis=2)
    if n == 0:
        return score
    spread = group.take(1, axis=2)
    off = functions.take(softmax.lines, axis=1).add_axis(1) - group.take(2 + np.arange(n), axis=2)
    turned = off @ softmax.matrices[0].T
    by_own = graph("Squeeze", off.add_axis(2) @ softmax.matrices[1:].transpose(0, 2, 1), [2])
    size = -0.5 * n * graph("Log", spread)
    numbers = softmax.densities[:1].T, softmax.densities[1:].T
    for weight, vector, (events, constant) in zip(
        softmax.weights, (turned, by_own), numbers, strict=True
    ):
        far = (vector * vector).sum() / spread
        log = size - 0.5 * (events + n) * graph.log1p(far / events) - constant
        behind = log - graph("ReduceMax", log, axes=[1], keepdims=1)
        score += weight * graph("Max", behind, MIN_LOG_DENSITY)
    return score


def _add_outputs(graph: _Graph, tables: ModelTables, margin: _Value) -> None:
    """Give out what a margin stands for."""
    if not tables.classes:
        graph.output("prediction", margin)
        return
    chance = 1.0 / (1.0 + graph("Exp", -tables.parts[0].calibration * margin))
    negative, positive = tables.classes
    graph.output("margin", margin)
    graph.output("probability", chance)
    graph.output("label", graph("Where", margin >= 0.0, positive, negative), text=True)


class _Totals:
    """Sums (n, K) of the inputs and their variances."""

    def __init__(self, graph: _Graph, n_inputs: int) -> None:
        self._n_inputs = n_inputs
        self.weights = self.variances = graph.constant(np.zeros(n_inputs))

    def add(self, lanes: tuple[Lane, ...], weighted: Any, squared: Any) -> None:
        """Add sums (n, lanes) of values times u, and times its square."""
        self.weights += weighted @ _selection(lanes, "weight", self._n_inputs)
        self.variances += squared @ _selection(lanes, "variance", self._n_inputs)

    def add_entries(self, lanes: tuple[Lane, ...], values: _Value, u: _Value) -> None:
        """Add values (n, c, lanes) of entries u (n, c)."""
        row = u.add_axis(1)
        weighted = values.graph("Squeeze", row @ values, [1])
        squared = values.graph("Squeeze", (row * row) @ values, [1])
        self.add(lanes, weighted, squared)


def _selection(lanes: tuple[Lane, ...], part: Part, n_inputs: int) -> NDArray[np.float64]:
    """Return the matrix (lanes, K) that adds each lane of a part to its input."""
    chosen = np.zeros((len(lanes), n_inputs))
    for k, lane in enumerate(lanes):
        chosen[k, lane.input] = lane.part == part
    return chosen


def _encode(
    graph: _Graph, text: _Value, names: list[str], codes: Iterable[int], default: int
) -> _Value:
    return graph(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=names or [""],
        values_int64s=list(codes) or [default],
        default_int64=default,
    )


def _features(graph: _Graph, tables: ModelTables) -> tuple[_Value, _Value]:
    """Return features (n, c), -1 where one is not known, and values (n, c), NaN if missing."""
    place = dict(zip(tables.feature_names, range(len(tables.feature_names)), strict=True))
    numbers, categories = [], []
    for name, kind in tables.columns.items():
        if kind == "category":
            categories.append(name)
        elif name in place:
            numbers.append(name)
    features: list[_Value] = []
    values: list[_Value] = []
    if numbers:
        if tables.is_matrix:
            x = graph.input(MATRIX, len(numbers))
        else:
            x = graph("Concat", *(graph.input(name).add_axis(1) for name in numbers), axis=1)
        places = np.array([list(map(place.__getitem__, numbers))])
        features.append(graph("Expand", places, graph("Shape", x)))
        values.append(x)
    for name in categories:
        start = f"{name}="
        levels = [feature for feature in tables.feature_names if feature.startswith(start)]
        codes = map(place.__getitem__, levels)
        cells = [level.removeprefix(start) for level in levels]
        code = _encode(graph, graph.input(name, text=True), cells, codes, default=-1)
        features.append(code.add_axis(1))
        values.append(graph("Where", features[-1] >= 0, 1.0, np.nan))
    return graph("Concat", *features, axis=1), graph("Concat", *values, axis=1)


def _scaled(graph: _Graph, part: PartTables, feature: _Value, x: _Value) -> _Value:
    """Return u (n, c) of values x, as :func:`romco.learners.frozen.frozen_units` describes it."""
    units = graph.constant(part.units).take(feature)
    centre, reach, factor, zero = (units.take(k, axis=2) for k in range(4))
    u = factor * (x - centre).within(reach)
    u = graph("Where", graph("Abs", x) < MIN_SIZE, zero, u)
    return graph("Where", graph("IsNaN", x), 0.0, u)


def _find(graph: _Graph, rows: TaskRows, row: _Value, key: _Value) -> tuple[_Value, _Value]:
    """Return whether a task has a row of a key (n, c), and its place (n, c)."""
    starts = rows.starts()
    start = graph.constant(starts)
    low = start.take(row).add_axis(1)  # (n, 1), and (n, c) after the first step
    end = start.take(row + 1).add_axis(1)
    keys = graph.constant(rows.places % rows.n_keys)
    last = graph.constant(len(rows) - 1)
    high = end
    for _ in range(int(np.diff(starts).max()).bit_length()):  # binary search
        middle = (low + high) / 2
        found = keys.take(graph("Min", middle, last))
        active = low < high
        low = graph("Where", active & (found < key), middle + 1, low)
        high = graph("Where", active & (found >= key), middle, high)
    place = graph("Min", low, last)
    return keys.take(place).equals(key) & (low < end), place


def _functions(
    graph: _Graph, functions: FrozenFunctions, d: int, feature: _Value, x: _Value, u: _Value
) -> tuple[_Value, _Value]:
    """Return functions (n, g) of d features, and what they become by their rotation."""
    c = len(functions.features)  # and one more, of all others
    place = np.full(d + 1, c)  # the last is that of feature -1
    place[functions.features] = np.arange(c)
    at = graph.constant(place).take(feature)

    def of_features(given: _Value, missing: float) -> _Value:
        """Return values (n, c) of the features with waves."""
        empty = graph.repeat(np.full((1, c + 1), missing), u)
        return graph("ScatterElements", empty, at, given, axis=1).take(np.arange(c), axis=1)

    value = of_features(x, np.nan)
    gap = graph("IsNaN", value) & (functions.kinds == ZERO_IF_MISSING)
    value = graph("Where", gap, 0.0, value)
    rank = _ranks(graph, functions.knots, value)
    gone = graph("IsNaN", value) | (value.equals(0.0) & (functions.kinds == MISSING_IF_ZERO))
    score = graph("Where", gone, 0.0, _normal_scores(graph, rank))
    line = of_features(u, 0.0).within(MAX_LINE)
    product = graph.constant(functions.scales)
    for k in (0, 2):
        chosen, order = functions.factors[:, k], functions.factors[:, k + 1]
        places = np.maximum(chosen, 0)
        wave = sqrt(2.0) * graph("Cos", rank.take(places, axis=1) * (pi * order))
        wave = graph("Where", gone.take(places, axis=1), 0.0, wave)
        wave = graph("Where", order == SCORE, score.take(places, axis=1), wave)
        wave = graph("Where", order == LINE, line.take(places, axis=1), wave)
        product *= graph("Where", chosen < 0, 1.0, wave)
    if not len(functions.centre):
        return product, product
    return product, (product - functions.centre) @ functions.rotation.T


def _normal_scores(graph: _Graph, rank: _Value) -> _Value:
    """Return normal scores of ranks; NaN becomes a number."""
    at = rank * float(SCORE_STEPS)
    at = graph("Where", graph("IsNaN", at), 0.0, at)
    low = graph("Min", graph("Floor", at), SCORE_STEPS - 1.0)
    place = low.as_type(np.int64)
    table = graph.constant(NORMAL_QUANTILES)
    first = table.take(place)
    return first + (at - low) * (table.take(place + 1) - first)


def _ranks(graph: _Graph, knots: NDArray[np.float64], value: _Value) -> _Value:
    """Return the rank (n, c) of each value among the knots (c, KNOTS) of its feature."""
    listed = graph.constant(knots)
    column = value.add_axis(2)
    below = (listed < column).as_type(np.float64).sum()
    upto = (listed <= column).as_type(np.float64).sum()
    place = below.as_type(np.int64)
    first = KNOTS * np.arange(len(knots))
    flat = graph.constant(knots.ravel())
    after = flat.take(first + graph("Min", place, KNOTS - 1))
    before = flat.take(first + graph("Max", place - 1, 0))
    between = below - 0.5 + (value - before) / (after - before)
    middle = (below + upto) * 0.5
    inside = (below > 0.0) & below.equals(upto) & (below < float(KNOTS))
    return graph("Where", inside, between, middle) / float(KNOTS)


def _quadratic(
    graph: _Graph, part: PartTables, covariance: InputCovariance, known: _Value, u: _Value
) -> _Value:
    """Return the term (n, K) that the covariances of an input add to its variance."""
    d, features = len(part.units), covariance.features
    n = len(features)
    place = np.full(len(part.features), n)
    place[features] = np.arange(n)
    padded = np.zeros((n + 1, n + 1))
    padded[:n, :n] = covariance.values
    constant = np.zeros((1, n + 1))
    constant[0, :n] = features == d
    empty = graph.repeat(constant, u)
    at = graph.constant(place).take(known)
    x = graph("ScatterElements", empty, at, u, axis=1, reduction="add")
    chosen = np.zeros((1, len(part.weights)))
    chosen[0, covariance.input] = 1.0
    return ((x @ padded) * x).sum(keep=True) * chosen
