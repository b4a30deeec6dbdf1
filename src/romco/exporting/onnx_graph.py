"""ONNX: one graph from named inputs, the task and the columns, to margin, probability and label.

A model of numbers has one output, the prediction.

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

from romco.exporting.tables import ModelTables
from romco.io import durable
from romco.learners.frozen import UNIT_FIELDS, Lane, Part

if TYPE_CHECKING:
    from onnx import NodeProto, ValueInfoProto

GRAPH_FILE, DATA_FILE = "model.onnx", "model.onnx.data"
OPSET, ML_OPSET, IR_VERSION = 17, 2, 8
TASK, MATRIX = "task", "x"  # inputs
MIN_EXTERNAL_BYTES = 1024  # of an array that is stored beside the graph
KINDS = ("number", "category")  # of columns that a graph can read


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

    def output(self, name: str, value: str, text: bool = False) -> None:
        """Give a value (n,) out under a name."""
        kind = self._proto.STRING if text else self._proto.DOUBLE
        self._nodes.append(self._helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._helper.make_tensor_value_info(name, kind, ["n"]))

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

    def sum_rows(self, value: str, keep: bool = True) -> str:
        """Add up the last axis."""
        return self("ReduceSum", value, self.constant(np.array([-1])), keepdims=int(keep))


def _add_prediction(graph: _Graph, tables: ModelTables) -> None:
    """Add all nodes of `romco.learners.frozen`'s formula."""
    predictor, zero = tables.predictor, graph.constant(0.0)
    row = _task_rows(graph, tables)
    feature, x = _features(graph, tables)
    known = graph("Max", feature, graph.constant(np.int64(0)))  # else x is missing
    u = _scaled(graph, tables, known, x)
    squares = graph.sum_rows(graph("Mul", u, u))
    filled = graph("GreaterOrEqual", squares, graph.constant(predictor.units.empty))
    u = graph("Where", filled, u, zero)
    totals = _Totals(graph, len(predictor.inputs))
    of_task = graph("Gather", graph.constant(tables.tasks), row)
    lanes = predictor.tasks.lanes
    totals.add(lanes, of_task, of_task)
    factors = _selection(lanes, "factor", len(predictor.inputs))
    factor = graph("MatMul", of_task, graph.constant(factors))
    factor = graph("Add", factor, graph.constant(1.0 - factors.sum(axis=0)))
    if tables.n_pairs:
        own, values = _pairs(graph, tables, row, feature)
        totals.add_entries(predictor.pairs.lanes, values, graph("Where", own, u, zero))
    if len(tables.functions.scales):
        places, values = _functions(graph, tables, feature, x)
        known = graph("Concat", known, places, axis=1)
        u = graph("Concat", u, values, axis=1)
    values = graph("Gather", graph.constant(tables.features), known)
    totals.add_entries(predictor.features.lanes, values, u)
    for covariance in tables.covariances:
        totals.variances.append(_quadratic(graph, tables, covariance, known, u))
    sums = graph.sum_of(graph.constant(predictor.intercepts), *totals.weights)
    variances = graph.sum_of(*totals.variances)
    z = graph("Mul", factor, graph.moderate(sums, variances))
    mean = graph("MatMul", z, graph.constant(tables.weights))
    spread = graph("Mul", graph("MatMul", z, graph.constant(predictor.covariance)), z)
    _add_outputs(graph, tables, graph.moderate(mean, graph.sum_rows(spread, keep=False)))


def _add_outputs(graph: _Graph, tables: ModelTables, margin: str) -> None:
    """Give out what a margin stands for."""
    if not tables.classes:
        graph.output("prediction", margin)
        return
    zero, one = map(graph.constant, (0.0, 1.0))
    scaled = graph("Mul", margin, graph.constant(tables.calibration))
    chance = graph("Div", one, graph("Add", one, graph("Exp", graph("Neg", scaled))))
    negative, positive = map(graph.constant, np.array(tables.classes, dtype=object))
    label = graph("Where", graph("GreaterOrEqual", margin, zero), positive, negative)
    graph.output("margin", margin)
    graph.output("probability", chance)
    graph.output("label", label, text=True)


class _Totals:
    """Terms (n, K) of the sums and of the variances of the inputs."""

    def __init__(self, graph: _Graph, n_inputs: int) -> None:
        self._graph, self._n_inputs = graph, n_inputs
        self.weights: list[str] = []
        self.variances: list[str] = [graph.constant(np.zeros(n_inputs))]

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


def _scaled(graph: _Graph, tables: ModelTables, feature: str, x: str) -> str:
    """Return u (n, c) of values x, as :class:`romco.learners.frozen.FrozenUnits` describes it."""
    units = tables.predictor.units
    field = {}
    for name, column in zip(UNIT_FIELDS, tables.units.T, strict=True):
        field[name] = graph("Gather", graph.constant(column), feature)
    zero, one, rounding = map(graph.constant, (0.0, 1.0, 1e-9))
    measured = graph("Greater", field["count"], zero)
    count = graph("Max", field["count"], one)
    missing = graph("IsNaN", x)
    x = graph("Where", missing, zero, x)
    v = graph.within(x, field["bound"])
    mean = graph("Div", graph("Add", field["total"], v), count)
    square = graph("Div", graph("Add", field["square"], graph("Mul", v, v)), count)
    rounded = graph("Mul", rounding, square)
    mean2 = graph("Mul", mean, mean)
    spread = graph("Sub", square, mean2)
    sure = graph("Mul", graph("Sub", count, one), mean2)
    shrunk = graph("Div", sure, graph("Add", sure, spread))
    known = graph("Where", graph("Greater", spread, rounded), shrunk, one)
    centre = graph("Mul", graph("Mul", mean, field["share"]), known)
    twice = graph("Mul", graph.constant(2.0), graph("Mul", centre, mean))
    variance = graph("Add", graph("Sub", square, twice), graph("Mul", centre, centre))
    varies = graph("Greater", variance, rounded)
    size = graph("Sqrt", graph("Where", varies, variance, square))
    r = graph("Sub", graph("Log", size), graph.constant(units.common))
    r2 = graph("Mul", r, r)
    r4 = graph("Mul", r2, r2)
    far = graph("Div", graph("Mul", r, r4), graph("Add", r4, graph.constant(1.4**4)))
    factor = graph("Exp", graph("Sub", graph.constant(-units.common), far))
    reach = graph("Mul", graph.constant(10.0), size)
    anew = graph("Mul", factor, graph.within(graph("Sub", x, centre), reach))
    kept = graph.within(graph("Sub", x, field["centre"]), field["reach"])
    u = graph("Where", measured, anew, graph("Mul", field["factor"], kept))
    is_zero = graph("Less", graph("Abs", x), graph.constant(1e-150))
    u = graph("Where", is_zero, field["zero"], u)
    return graph("Where", missing, zero, graph("Mul", u, graph.constant(units.row)))


def _pairs(graph: _Graph, tables: ModelTables, row: str, feature: str) -> tuple[str, str]:
    """Return whether a task has own numbers of a feature (n, c), and these (n, c, lanes)."""
    starts = tables.pair_starts()
    start = graph.constant(starts)
    axis = graph.constant(np.array([1]))
    one = graph.constant(np.int64(1))
    shape = graph("Shape", feature)
    first = graph("Unsqueeze", graph("Gather", start, row), axis)
    last = graph("Unsqueeze", graph("Gather", start, graph("Add", row, one)), axis)
    low = graph("Expand", first, shape)
    end = graph("Expand", last, shape)
    n, lanes = tables.n_pairs, tables.predictor.pairs.lanes
    features = graph.constant(tables.pair_features)
    values = graph.stream(np.float64, (n, len(lanes)), tables.pair_values())
    last = graph.constant(np.int64(n - 1))
    two = graph.constant(np.int64(2))
    high = end
    for _ in range(int(np.diff(starts).max()).bit_length()):  # binary search
        middle = graph("Div", graph("Add", low, high), two)
        found = graph("Gather", features, graph("Min", middle, last))
        active = graph("Less", low, high)
        below = graph("And", active, graph("Less", found, feature))
        above = graph("And", active, graph("GreaterOrEqual", found, feature))
        low = graph("Where", below, graph("Add", middle, one), low)
        high = graph("Where", above, middle, high)
    place = graph("Min", low, last)
    same = graph("Equal", graph("Gather", features, place), feature)
    own = graph("And", same, graph("Less", low, end))
    return own, graph("Gather", values, place)


def _functions(graph: _Graph, tables: ModelTables, feature: str, x: str) -> tuple[str, str]:
    """Return places (n, g) of functions among the features, and their values (n, g)."""
    functions = tables.functions
    d, c, g = len(tables.feature_names), len(functions.features), len(functions.scales)
    place = np.full(d + 1, c)  # the last is that of feature -1
    place[functions.features] = np.arange(c)
    rows = graph("Shape", x, start=0, end=1)
    shape = graph("Concat", rows, graph.constant(np.array([c + 1])), axis=0)
    empty = graph("Expand", graph.constant(np.full((1, 1), np.nan)), shape)
    at = graph("Gather", graph.constant(place), feature)
    value = graph("ScatterElements", empty, at, x, axis=1)  # the last column is of all others
    value = graph("Gather", value, graph.constant(np.arange(c)), axis=1)
    rank = _ranks(graph, functions.knots, value)
    there = graph("Not", graph("IsNaN", value))
    has_knots = functions.has_knots == 1
    filled = graph("Not", graph("Equal", value, graph.constant(0.0)))
    there = graph("And", there, graph("Or", filled, graph.constant(has_knots)))
    product = graph.constant(functions.scales)
    for k in (0, 2):
        chosen, order = functions.factors[:, k], functions.factors[:, k + 1]
        places = graph.constant(np.maximum(chosen, 0))
        angle = graph("Mul", graph("Gather", rank, places, axis=1), graph.constant(pi * order))
        wave = graph("Mul", graph("Cos", angle), graph.constant(np.sqrt(2.0)))
        indicator = graph.constant((order == 1).astype(np.float64))
        wave = graph("Where", graph.constant(has_knots[chosen]), wave, indicator)
        known = graph("Gather", there, places, axis=1)
        wave = graph("Where", known, wave, graph.constant(0.0))
        wave = graph("Where", graph.constant(chosen < 0), graph.constant(1.0), wave)
        product = graph("Mul", product, wave)
    numbers = graph.constant(d + 1 + np.arange(g)[None])
    return graph("Expand", numbers, graph("Shape", product)), product


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


def _quadratic(graph: _Graph, tables: ModelTables, covariance: Any, known: str, u: str) -> str:
    """Return the term (n, K) that the covariances of an input add to its variance."""
    d, features = len(tables.feature_names), covariance.features
    n = len(features)
    place = np.full(len(tables.features), n)
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
    chosen = np.zeros((1, len(tables.predictor.inputs)))
    chosen[0, covariance.input] = 1.0
    return graph("Mul", total, graph.constant(chosen))
