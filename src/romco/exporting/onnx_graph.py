"""ONNX: one graph from named inputs, the task and the columns, to margin, probability and label.

More than two classes have the outputs probabilities and label, numbers have one, the prediction.

Numbers are double; NaN is a missing number and "" a missing category. Weights are in a file beside
the graph, which is written a chunk at a time. Needs the package ``onnx``; onnxruntime runs it.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from math import pi
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romco.exporting.tables import ModelTables, PartTables, TaskRows
from romco.io import durable
from romco.learners.frozen import (
    INDICATOR,
    MISSING_IF_ZERO,
    NORMAL_QUANTILES,
    SCORE_STEPS,
    UNIT_FIELDS,
    ZERO_IF_MISSING,
    FrozenClasses,
    FrozenSoftmax,
    Lane,
    Part,
)

if TYPE_CHECKING:
    from onnx import NodeProto, ValueInfoProto

GRAPH_FILE, DATA_FILE = "model.onnx", "model.onnx.data"
OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
TASK, MATRIX = "task", "x"  # inputs
MIN_EXTERNAL_BYTES = 1024  # of an array that is stored beside the graph
KINDS = ("number", "category")  # of columns that a graph can read

# Limits of `romco.learners.frozen`
MAX_LOG_ODDS, CLOSE_LOG_ODDS = 500.0, 4.0  # of pairs
MAX_SCORE, MIN_LOG_DENSITY = 50.0, -30.0  # of the softmax
MAX_LINE = 8.0


def write_onnx(tables: ModelTables, folder: Path) -> list[Path]:
    """Write the graph and its weights; ValueError for a column that ONNX cannot read."""
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX needs the package onnx: pip install 'romco[export]'") from None
    graph = _Graph()
    _add_prediction(graph, tables)
    operators = onnx.helper.make_opsetid("", OPSET)
    more_operators = onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)
    model = onnx.helper.make_model(
        graph.finish(),
        producer_name="romco",
        ir_version=IR_VERSION,
        opset_imports=[operators, more_operators],
    )
    data, proto = folder / DATA_FILE, folder / GRAPH_FILE
    durable.replace(data, graph.external)
    durable.replace(proto, [model.SerializeToString()])
    return [proto, data]


class _Graph:
    """Nodes and constants in the order they are added; values are known by name."""

    def __init__(self) -> None:
        from onnx import TensorProto, helper

        self._proto, self._helper = TensorProto, helper
        self._nodes: list[NodeProto] = []
        self._constants: list[Any] = []
        self._inputs: list[ValueInfoProto] = []
        self._outputs: list[ValueInfoProto] = []
        self._bytes = 0
        self.external: Iterator[Any] = iter(())

    def input(self, name: str, *more: int, text: bool = False) -> str:
        """Add an input (n, ...) of numbers or text."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._inputs.append(self._helper.make_tensor_value_info(name, kind, ["n", *more]))
        return name

    def output(self, name: str, value: str, *more: int, text: bool = False) -> None:
        """Give a value (n, ...) out under a name."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._helper.make_tensor_value_info(name, kind, ["n", *more]))

    def __call__(self, operator: str, *inputs: str, domain: str = "", **options: Any) -> str:
        """Add a node; return the name of its value."""
        name = f"{operator.lower()}_{len(self._nodes)}"
        node = self._helper.make_node(operator, inputs, [name], name, domain=domain, **options)
        self._nodes.append(node)
        return name

    def constant(self, values: Any) -> str:
        """Add an array; large ones are stored beside the graph."""
        array = np.asarray(values)
        if array.nbytes >= MIN_EXTERNAL_BYTES:
            return self.stream(array.dtype, array.shape, [np.ascontiguousarray(array)])
        name = f"constant_{len(self._constants)}"
        tensor = self._helper.make_tensor(
            name, self.kind_of(array.dtype), array.shape, array.ravel().tolist()
        )
        self._constants.append(tensor)
        return name

    def stream(self, dtype: Any, shape: tuple[int, ...], chunks: Iterable[NDArray[Any]]) -> str:
        """Add an array that comes in chunks, which are stored beside the graph."""
        tensor = self._proto(
            name=f"constant_{len(self._constants)}",
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
        return tensor.name

    def kind_of(self, dtype: Any) -> int:
        """Return the number that ONNX has for a type."""
        dtype = np.dtype(dtype)
        return int(self._helper.np_dtype_to_tensor_dtype(dtype))

    def finish(self) -> Any:
        """Return the graph."""
        parts = self._nodes, "romco", self._inputs, self._outputs, self._constants
        return self._helper.make_graph(*parts)

    # Small functions of values

    def sum_of(self, *values: str) -> str:
        """Add values one after the other."""
        total, *rest = values
        for value in rest:
            total = self("Add", total, value)
        return total

    def within(self, value: str, limit: str) -> str:
        """Cut values at -limit and limit."""
        return self("Max", self("Min", value, limit), self("Neg", limit))

    def moderate(self, mean: str, variance: str) -> str:
        """Shrink log-odds by their variance."""
        scaled = self("Mul", self("Max", variance, self.constant(0.0)), self.constant(pi / 8.0))
        return self("Div", mean, self("Sqrt", self("Add", scaled, self.constant(1.0))))

    def sum_rows(self, value: str, keep: bool = True, axis: int = -1) -> str:
        """Add up an axis, the last one if not given."""
        return self("ReduceSum", value, self.constant(np.array([axis])), keepdims=int(keep))

    def columns_of(self, value: str, columns: Any, axis: int = 1) -> str:
        """Return some columns of a value."""
        return self("Gather", value, self.constant(np.asarray(columns)), axis=axis)

    def log1p(self, value: str) -> str:
        """Return log(1 + x), exact for small x too (Kahan)."""
        one = self.constant(1.0)
        more = self("Add", one, value)
        rounded = self("Sub", more, one)
        same = self("Equal", rounded, self.constant(0.0))
        ratio = self("Div", value, self("Where", same, one, rounded))
        return self("Where", same, value, self("Mul", self("Log", more), ratio))


def _add_prediction(graph: _Graph, tables: ModelTables) -> None:
    """Add all nodes of `romco.learners.frozen`'s formula."""
    row = _task_rows(graph, tables)
    feature, x = _features(graph, tables)
    if tables.many is not None:
        _add_classes(graph, tables, tables.many, row, feature, x)
        return
    (part,) = tables.parts
    z, _ = _inputs(graph, part, row, feature, x)
    _add_outputs(graph, tables, graph("Squeeze", _margin(graph, part, z), graph.constant([1])))


def _inputs(graph: _Graph, part: PartTables, row: str, feature: str, x: str) -> tuple[str, str]:
    """Return the inputs (n, K) of a part's stacking model, and functions before their rotation."""
    predictor, zero = part.predictor, graph.constant(0.0)
    known = graph("Max", feature, graph.constant(np.int64(0)))  # else x is missing
    u = _scaled(graph, part, known, x)
    squares = graph.sum_rows(graph("Mul", u, u))
    filled = graph("GreaterOrEqual", squares, graph.constant(predictor.units.empty))
    u = graph("Where", filled, u, zero)
    totals = _Totals(graph, part.variances)
    of_task = graph("Gather", graph.constant(part.tasks), row)
    lanes = predictor.tasks.lanes
    totals.add(lanes, of_task, of_task)
    factors = _selection(lanes, "factor", len(predictor.inputs))
    factor = graph("MatMul", of_task, graph.constant(factors))
    factor = graph("Add", factor, graph.constant(1.0 - factors.sum(axis=0)))
    values = graph("Gather", graph.constant(part.features), known)
    totals.add_entries(predictor.features.lanes, values, u)
    functions = ""
    if len(part.functions.scales):
        functions, places, turned = _functions(graph, part, feature, x, u)
        weights = graph.constant(part.features[part.n_features + 1 :])
        squared = graph("Mul", turned, turned)
        totals.add(
            predictor.features.lanes,
            graph("MatMul", turned, weights),
            graph("MatMul", squared, weights),
        )
        feature = graph("Concat", feature, places, axis=1)
        known = graph("Concat", known, places, axis=1)
        u = graph("Concat", u, turned, axis=1)
    if len(part.pairs):
        own, place = _find(graph, part.pairs, row, feature)
        width = len(predictor.pairs.lanes)
        values = graph.stream(np.float64, (len(part.pairs), width), part.pairs.values())
        values = graph("Gather", values, place)
        totals.add_entries(predictor.pairs.lanes, values, graph("Where", own, u, zero))
    for covariance in part.covariances:
        totals.variances.append(_quadratic(graph, part, covariance, known, u))
    sums = graph.sum_of(graph.constant(predictor.intercepts), *totals.weights)
    variances = graph.sum_of(*totals.variances)
    return graph("Mul", factor, graph.moderate(sums, variances)), functions


def _margin(graph: _Graph, part: PartTables, z: str) -> str:
    """Return the margin (n, 1) of a part."""
    mean = graph("MatMul", z, graph.constant(part.weights[:, None]))
    spread = graph("Mul", graph("MatMul", z, graph.constant(part.predictor.covariance)), z)
    return graph.moderate(mean, graph.sum_rows(spread))


# More than two classes


def _add_classes(
    graph: _Graph, tables: ModelTables, many: FrozenClasses, row: str, feature: str, x: str
) -> None:
    """Add all nodes of the probabilities of many classes, and of the label."""
    K = len(tables.classes)
    scores = []
    if many.pairs:
        margins = []
        for part in tables.parts[: len(many.pairs)]:
            z, _ = _inputs(graph, part, row, feature, x)
            margins.append(_margin(graph, part, z))
        odds = graph("Mul", graph("Concat", *margins, axis=1), graph.constant(many.factors))
        coupled = _couple(graph, many, graph.within(odds, graph.constant(MAX_LOG_ODDS)), K)
        scores.append(graph("Mul", coupled, graph.constant(many.weights[0])))
    if many.softmax is not None and tables.groups is not None:
        part = tables.parts[-1]
        z, functions = _inputs(graph, part, row, feature, x)
        score = _softmax(graph, part, many.softmax, tables.groups, row, z, functions)
        scores.append(graph("Mul", score, graph.constant(many.weights[1])))
    chances = graph("Softmax", graph.sum_of(*scores), axis=1)
    best = graph("ArgMax", chances, axis=1, keepdims=0, select_last_index=1)
    names = graph.constant(np.array(tables.classes, dtype=object))
    graph.output("probabilities", chances, K)
    graph.output("label", graph("Gather", names, best), text=True)


def _couple(graph: _Graph, many: FrozenClasses, odds: str, K: int) -> str:
    """Return log-probabilities (n, K) from the log-odds (n, P) of pairs."""
    k, j = np.divmod(np.arange(K * K), K)
    high = np.maximum(k, j)
    low = np.minimum(k, j)
    place = np.where(high > low, high * (high - 1) // 2 + low, 0)
    z = graph("Mul", graph.columns_of(odds, place), graph.constant(np.sign(k - j).astype(float)))
    zero = graph.constant(0.0)
    rows = graph("Shape", z, start=0, end=1)
    shape = graph("Concat", rows, graph.constant(np.array([1])), axis=0)
    best = graph("Expand", graph.constant(np.int64(0)), shape)
    for other in range(1, K):
        at = graph("Add", best, graph.constant(np.int64(K * other)))
        better = graph("Greater", graph("GatherElements", z, at, axis=1), zero)
        best = graph("Where", better, graph.constant(np.int64(other)), best)
    every = graph.constant(np.arange(K)[None])
    first = graph("Mul", best, graph.constant(np.int64(K)))
    ahead = graph("GatherElements", z, graph("Add", first, every), axis=1)
    close = graph("Less", ahead, graph.constant(CLOSE_LOG_ODDS))
    is_best = graph("Equal", best, every)
    both = graph("And", *(graph("Unsqueeze", close, graph.constant([axis])) for axis in (1, 2)))
    either = graph("Or", *(graph("Unsqueeze", is_best, graph.constant([axis])) for axis in (1, 2)))
    counted = graph("And", graph("Or", both, either), graph.constant(~np.eye(K, dtype=bool)))
    evidence = graph("Exp", graph("Neg", graph("Reshape", z, graph.constant(np.array([0, K, K])))))
    against = graph.sum_rows(graph("Where", counted, evidence, zero), keep=False)
    log_sums = graph("Log", graph("Add", against, graph.constant(1.0)))
    chances = graph("Softmax", graph("Mul", log_sums, graph.constant(-many.power)), axis=1)
    kept = graph("Mul", chances, graph.constant(1.0 - many.share))
    return graph("Log", graph("Add", kept, graph.constant(many.share / K)))


def _softmax(
    graph: _Graph,
    part: PartTables,
    softmax: FrozenSoftmax,
    groups: TaskRows,
    row: str,
    z: str,
    functions: str,
) -> str:
    """Return log-probabilities (n, K) from the inputs of the softmax."""
    K = len(softmax.new_groups)
    n = len(softmax.lines)
    cut = graph.within(z, graph.constant(MAX_SCORE))
    weighted = graph("Mul", cut, graph.constant(part.weights))
    by_class = graph("Reshape", weighted, graph.constant(np.array([0, 2, K])))
    score = graph.sum_rows(by_class, keep=False, axis=1)
    every = graph.constant(np.arange(K)[None])
    shape = graph("Concat", graph("Shape", row), graph.constant(np.array([K])), axis=0)
    own, place = _find(graph, groups, row, graph("Expand", every, shape))
    new = graph.constant(len(groups) - K + np.arange(K)[None])
    values = graph.stream(np.float64, (len(groups), 2 + n), groups.values())
    group = graph("Gather", values, graph("Where", own, place, new))
    level, spread = (graph.columns_of(group, column, axis=2) for column in (0, 1))
    score = graph("Add", score, level)
    if n == 0:
        return graph("LogSoftmax", score, axis=1)
    means = graph.columns_of(group, 2 + np.arange(n), axis=2)
    lines = graph("Unsqueeze", graph.columns_of(functions, softmax.lines), graph.constant([1]))
    off = graph("Sub", lines, means)
    turned = graph("MatMul", off, graph.constant(softmax.matrices[0].T))
    single = graph("Unsqueeze", off, graph.constant([2]))
    by_own = graph("MatMul", single, graph.constant(softmax.matrices[1:].transpose(0, 2, 1)))
    by_own = graph("Squeeze", by_own, graph.constant([2]))
    size = graph("Mul", graph("Log", spread), graph.constant(-0.5 * n))
    numbers = softmax.densities[:1], softmax.densities[1:]
    for weight, vector, (events, constant) in zip(
        softmax.weights, (turned, by_own), (pair.T for pair in numbers), strict=True
    ):
        far = graph("Div", graph.sum_rows(graph("Mul", vector, vector), keep=False), spread)
        tail = graph.log1p(graph("Div", far, graph.constant(events)))
        tail = graph("Mul", tail, graph.constant(-0.5 * (events + n)))
        log = graph("Sub", graph("Add", tail, size), graph.constant(constant))
        behind = graph("Sub", log, graph("ReduceMax", log, axes=[1], keepdims=1))
        behind = graph("Max", behind, graph.constant(MIN_LOG_DENSITY))
        score = graph("Add", score, graph("Mul", behind, graph.constant(weight)))
    return graph("LogSoftmax", score, axis=1)


def _add_outputs(graph: _Graph, tables: ModelTables, margin: str) -> None:
    """Give out what a margin stands for."""
    if not tables.classes:
        graph.output("prediction", margin)
        return
    zero, one = map(graph.constant, (0.0, 1.0))
    scaled = graph("Mul", margin, graph.constant(tables.parts[0].calibration))
    chance = graph("Div", one, graph("Add", one, graph("Exp", graph("Neg", scaled))))
    negative, positive = map(graph.constant, np.array(tables.classes, dtype=object))
    label = graph("Where", graph("GreaterOrEqual", margin, zero), positive, negative)
    graph.output("margin", margin)
    graph.output("probability", chance)
    graph.output("label", label, text=True)


class _Totals:
    """Terms (n, K) of the sums and of the variances of the inputs, which begin with some."""

    def __init__(self, graph: _Graph, variances: NDArray[np.float64]) -> None:
        self._graph, self._n_inputs = graph, len(variances)
        self.weights: list[str] = []
        self.variances: list[str] = [graph.constant(variances)]

    def add(self, lanes: tuple[Lane, ...], weighted: str, squared: str) -> None:
        """Add sums (n, lanes) of values times u, and times its square."""
        parts: tuple[tuple[Part, str, list[str]], ...] = (
            ("weight", weighted, self.weights),
            ("variance", squared, self.variances),
        )
        for part, value, terms in parts:
            chosen = self._graph.constant(_selection(lanes, part, self._n_inputs))
            terms.append(self._graph("MatMul", value, chosen))

    def add_entries(self, lanes: tuple[Lane, ...], values: str, u: str) -> None:
        """Add values (n, c, lanes) of entries u (n, c)."""
        graph = self._graph
        axis = graph.constant(np.array([1]))
        row = graph("Unsqueeze", u, axis)
        squared = graph("Mul", row, row)
        weighted = graph("Squeeze", graph("MatMul", row, values), axis)
        spread = graph("Squeeze", graph("MatMul", squared, values), axis)
        self.add(lanes, weighted, spread)


def _selection(lanes: tuple[Lane, ...], part: Part, n_inputs: int) -> NDArray[np.float64]:
    """Return the matrix (lanes, K) that adds each lane of a part to its input."""
    chosen = np.zeros((len(lanes), n_inputs))
    for k, lane in enumerate(lanes):
        chosen[k, lane.input] = lane.part == part
    return chosen


def _task_rows(graph: _Graph, tables: ModelTables) -> str:
    """Return the row (n,) of each task's numbers; the last one is that of new tasks."""
    names, n = tables.task_names, len(tables.task_names)
    return _encode(graph, graph.input(TASK, text=True), names, range(n), default=n)


def _encode(graph: _Graph, text: str, names: list[str], codes: Iterable[int], default: int) -> str:
    return graph(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=names or [""],
        values_int64s=list(codes) or [default],
        default_int64=default,
    )


def _features(graph: _Graph, tables: ModelTables) -> tuple[str, str]:
    """Return features (n, c), -1 where one is not known, and values (n, c), NaN if missing."""
    place = dict(zip(tables.feature_names, range(len(tables.feature_names)), strict=True))
    numbers, categories = [], []
    for name, kind in tables.columns.items():
        if kind not in KINDS:
            raise ValueError(
                f"column {name!r} of kind {kind!r} cannot be exported to ONNX, whose operators "
                "read numbers and whole categories only: leave it out, or export to JavaScript"
            )
        if kind == "category":
            categories.append(name)
        elif name in place:
            numbers.append(name)
    if TASK in tables.columns:
        raise ValueError("a column is called 'task', as the input of tasks: rename it")
    features: list[str] = []
    values: list[str] = []
    axis = graph.constant(np.array([1]))
    if numbers:
        if tables.is_matrix:
            x = graph.input(MATRIX, len(numbers))
        else:
            columns = [graph("Unsqueeze", graph.input(name), axis) for name in numbers]
            x = graph("Concat", *columns, axis=1)
        places = graph.constant(np.array([list(map(place.__getitem__, numbers))]))
        features.append(graph("Expand", places, graph("Shape", x)))
        values.append(x)
    zero, one, missing = map(graph.constant, (np.int64(0), 1.0, np.nan))
    for name in categories:
        start = f"{name}="
        levels = [feature for feature in tables.feature_names if feature.startswith(start)]
        codes = map(place.__getitem__, levels)
        cells = [level.removeprefix(start) for level in levels]
        code = _encode(graph, graph.input(name, text=True), cells, codes, default=-1)
        column = graph("Unsqueeze", code, axis)
        known = graph("GreaterOrEqual", column, zero)
        features.append(column)
        values.append(graph("Where", known, one, missing))
    return graph("Concat", *features, axis=1), graph("Concat", *values, axis=1)


def _scaled(graph: _Graph, part: PartTables, feature: str, x: str) -> str:
    """Return u (n, c) of values x, as :class:`romco.learners.frozen.FrozenUnits` describes it."""
    units = part.predictor.units
    field = {}
    for name, column in zip(UNIT_FIELDS, part.units.T, strict=True):
        field[name] = graph("Gather", graph.constant(column), feature)
    zero, one, rounding = map(graph.constant, (0.0, 1.0, 1e-9))
    missing = graph("IsNaN", x)
    x = graph("Where", missing, zero, x)
    v = graph.within(x, field["bound"])

    measured = graph("Greater", field["count"], zero)
    count = graph("Max", field["count"], one)
    mean = graph("Div", graph("Add", field["total"], v), count)
    square = graph("Div", graph("Add", field["square"], graph("Mul", v, v)), count)
    mean2 = graph("Mul", mean, mean)
    spread = graph("Sub", square, mean2)
    sure = graph("Mul", graph("Sub", count, one), mean2)
    shrunk = graph("Div", sure, graph("Add", sure, spread))
    spreads = graph("Greater", spread, graph("Mul", rounding, square))
    known = graph("Where", spreads, shrunk, one)
    centre = graph("Mul", graph("Mul", mean, field["share"]), known)
    twice = graph("Mul", graph.constant(2.0), graph("Mul", centre, mean))
    variance = graph("Add", graph("Sub", square, twice), graph("Mul", centre, centre))
    varies = graph("Greater", variance, graph("Mul", rounding, square))
    size = graph("Sqrt", graph("Where", varies, variance, square))
    r = graph("Sub", graph("Log", size), graph.constant(units.common))
    r2 = graph("Mul", r, r)
    r4 = graph("Mul", r2, r2)
    far = graph("Div", graph("Mul", r, r4), graph("Add", r4, graph.constant(1.4**4)))
    factor = graph("Exp", graph("Sub", graph.constant(-units.common), far))
    factor = graph("Where", measured, factor, field["factor"])
    reach = graph("Where", measured, graph("Mul", graph.constant(10.0), size), field["reach"])
    centre = graph("Where", measured, centre, field["centre"])
    u = graph("Mul", factor, graph.within(graph("Sub", x, centre), reach))
    is_zero = graph("Less", graph("Abs", x), graph.constant(1e-150))
    u = graph("Where", is_zero, field["zero"], u)
    return graph("Where", missing, zero, graph("Mul", u, graph.constant(units.row)))


def _find(graph: _Graph, rows: TaskRows, row: str, key: str) -> tuple[str, str]:
    """Return whether a task has a row of a key (n, c), and its place (n, c)."""
    starts = rows.starts()
    start = graph.constant(starts)
    axis = graph.constant(np.array([1]))
    one = graph.constant(np.int64(1))
    shape = graph("Shape", key)
    first = graph("Unsqueeze", graph("Gather", start, row), axis)
    last = graph("Unsqueeze", graph("Gather", start, graph("Add", row, one)), axis)
    low = graph("Expand", first, shape)
    end = graph("Expand", last, shape)
    keys = graph.constant(rows.keys)
    last = graph.constant(np.int64(len(rows) - 1))
    two = graph.constant(np.int64(2))
    high = end
    for _ in range(int(np.diff(starts).max()).bit_length()):  # binary search
        middle = graph("Div", graph("Add", low, high), two)
        found = graph("Gather", keys, graph("Min", middle, last))
        active = graph("Less", low, high)
        below = graph("And", active, graph("Less", found, key))
        above = graph("And", active, graph("GreaterOrEqual", found, key))
        low = graph("Where", below, graph("Add", middle, one), low)
        high = graph("Where", above, middle, high)
    place = graph("Min", low, last)
    same = graph("Equal", graph("Gather", keys, place), key)
    return graph("And", same, graph("Less", low, end)), place


def _functions(
    graph: _Graph, part: PartTables, feature: str, x: str, u: str
) -> tuple[str, str, str]:
    """Return functions (n, g), their places among the features, and values that have weights."""
    functions = part.functions
    d, g = part.n_features, len(functions.scales)
    features, columns = np.unique(functions.features, return_inverse=True)
    c = len(features)  # and one more, of all others
    place = np.full(d + 1, c)  # the last is that of feature -1
    place[features] = np.arange(c)
    rows = graph("Shape", x, start=0, end=1)
    shape = graph("Concat", rows, graph.constant(np.array([c + 1])), axis=0)
    at = graph("Gather", graph.constant(place), feature)

    def of_features(given: str, missing: float) -> str:
        """Return values of the features with waves, some of which may be there twice."""
        empty = graph("Expand", graph.constant(np.full((1, 1), missing)), shape)
        return graph.columns_of(graph("ScatterElements", empty, at, given, axis=1), columns)

    kinds = functions.kinds
    value = of_features(x, np.nan)
    zero = graph.constant(0.0)
    gap = graph("And", graph("IsNaN", value), graph.constant(kinds == ZERO_IF_MISSING))
    value = graph("Where", gap, zero, value)
    rank = _ranks(graph, functions.knots, value)
    there = graph("Not", graph("IsNaN", value))
    zero_counts = ~np.isin(kinds, (INDICATOR, MISSING_IF_ZERO))
    filled = graph("Not", graph("Equal", value, zero))
    there = graph("And", there, graph("Or", filled, graph.constant(zero_counts)))
    product = graph.constant(functions.scales)
    is_line = functions.factors[:, 1] == 0
    for k in (0, 2):
        chosen, order = functions.factors[:, k], functions.factors[:, k + 1]
        places = np.maximum(chosen, 0)
        angle = graph("Mul", graph.columns_of(rank, places), graph.constant(pi * order))
        wave = graph("Mul", graph("Cos", angle), graph.constant(np.sqrt(2.0)))
        indicator = graph.constant((order == 1).astype(np.float64))
        wave = graph("Where", graph.constant(kinds[chosen] != INDICATOR), wave, indicator)
        if k == 0 and is_line.any():
            score = graph.columns_of(_normal_scores(graph, rank), places)
            wave = graph("Where", graph.constant(is_line), score, wave)
        wave = graph("Where", graph.columns_of(there, places), wave, zero)
        if k == 0 and is_line.any():
            unit = graph.columns_of(of_features(u, 0.0), places)
            unit = graph.within(unit, graph.constant(MAX_LINE))
            is_unit = is_line & (kinds[chosen] == INDICATOR)
            wave = graph("Where", graph.constant(is_unit), unit, wave)
        wave = graph("Where", graph.constant(chosen < 0), graph.constant(1.0), wave)
        product = graph("Mul", product, wave)
    turned = product
    if len(functions.centre):
        off = graph("Sub", product, graph.constant(functions.centre))
        turned = graph("MatMul", off, graph.constant(functions.rotation.T))
    numbers = graph.constant(d + 1 + np.arange(g)[None])
    return product, graph("Expand", numbers, graph("Shape", product)), turned


def _normal_scores(graph: _Graph, rank: str) -> str:
    """Return normal scores of ranks; NaN becomes a number."""
    at = graph("Mul", rank, graph.constant(float(SCORE_STEPS)))
    at = graph("Where", graph("IsNaN", at), graph.constant(0.0), at)
    low = graph("Min", graph("Floor", at), graph.constant(SCORE_STEPS - 1.0))
    place = graph("Cast", low, to=graph.kind_of(np.int64))
    table = graph.constant(np.array(NORMAL_QUANTILES))
    first = graph("Gather", table, place)
    after = graph("Gather", table, graph("Add", place, graph.constant(np.int64(1))))
    way = graph("Sub", at, low)
    return graph("Add", first, graph("Mul", way, graph("Sub", after, first)))


def _ranks(graph: _Graph, knots: NDArray[np.float64], value: str) -> str:
    """Return the rank (n, c) of each value among the knots (c, K) of its feature."""
    c, n = knots.shape
    listed = graph.constant(knots)
    column = graph("Unsqueeze", value, graph.constant(np.array([2])))
    double = graph.kind_of(np.float64)
    below = graph.sum_rows(graph("Cast", graph("Less", listed, column), to=double), keep=False)
    upto = graph("Cast", graph("LessOrEqual", listed, column), to=double)
    upto = graph.sum_rows(upto, keep=False)
    place = graph("Cast", below, to=graph.kind_of(np.int64))
    first = graph.constant(n * np.arange(c))
    one, last = graph.constant(np.int64(1)), graph.constant(np.int64(n - 1))
    flat = graph.constant(knots.ravel())
    after = graph("Gather", flat, graph("Add", first, graph("Min", place, last)))
    zero = graph.constant(np.int64(0))
    before = graph("Max", graph("Sub", place, one), zero)
    before = graph("Gather", flat, graph("Add", first, before))
    part = graph("Div", graph("Sub", value, before), graph("Sub", after, before))
    between = graph("Add", graph("Sub", below, graph.constant(0.5)), part)
    middle = graph("Mul", graph("Add", below, upto), graph.constant(0.5))
    inside = graph("And", graph("Greater", below, graph.constant(0.0)), graph("Equal", below, upto))
    inside = graph("And", inside, graph("Less", below, graph.constant(float(n))))
    return graph("Div", graph("Where", inside, between, middle), graph.constant(float(n)))


def _quadratic(graph: _Graph, part: PartTables, covariance: Any, known: str, u: str) -> str:
    """Return the term (n, K) that the covariances of an input add to its variance."""
    d, features = part.n_features, covariance.features
    n = len(features)
    place = np.full(len(part.features), n)
    place[features] = np.arange(n)
    padded = np.zeros((n + 1, n + 1))
    padded[:n, :n] = covariance.values
    constant = np.zeros((1, n + 1))
    constant[0, :n] = features == d
    rows = graph("Shape", u, start=0, end=1)
    shape = graph("Concat", rows, graph.constant(np.array([n + 1])), axis=0)
    empty = graph("Expand", graph.constant(constant), shape)
    at = graph("Gather", graph.constant(place), known)
    x = graph("ScatterElements", empty, at, u, axis=1, reduction="add")
    total = graph.sum_rows(graph("Mul", graph("MatMul", x, graph.constant(padded)), x))
    chosen = np.zeros((1, len(part.predictor.inputs)))
    chosen[0, covariance.input] = 1.0
    return graph("Mul", total, graph.constant(chosen))
