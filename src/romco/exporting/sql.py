"""SQL: tables of weights as CSV files, and views that predict, for DuckDB, SQLite and PostgreSQL.

Events are rows of the table ``romco_event``: an id, the task, and a column for each of the model's.
The view ``romco_prediction`` has margin, probability and label of each, or the predicted number.
One script per engine makes the tables, loads the files and makes the views, which are the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from romco.exporting.tables import ModelTables, PartTables, TaskRows
from romco.io import durable
from romco.learners.frozen import INDICATOR, KNOTS, UNIT_FIELDS, Lane

KINDS = {"number": "DOUBLE PRECISION", "category": "TEXT"}  # of columns that views can read
EVENT_COLUMNS = ("id", "task")
LOADING = {  # of a table by engine, where scripts run in the folder
    "duckdb": "COPY {table} FROM '{table}.csv' (HEADER);",
    "sqlite": ".import --csv --skip 1 {table}.csv {table}",
    "postgresql": "\\copy {table} FROM '{table}.csv' WITH (FORMAT csv, HEADER)",
}
INDEXED = {  # columns by which rows are found, if an engine does not hash them
    "romco_feature": "name",
    "romco_task": "name",
    "romco_pair": "task, feature",
}
VIEWS = ("romco_prediction", "romco_value")  # the first reads the second
NEAR = 1.4**4  # log sizes, to the fourth, up to which a feature is near the common size
LARGEST_LOG_ODDS = 700  # of which engines can take the exponential
WHOLE_NUMBERS = {
    *("task", "feature", "input", "first", "second", "new_task", "constant"),
    *("kind", "first_order", "second_order"),
}
TEXTS = {"name", "negative", "positive"}


def write_sql(tables: ModelTables, folder: Path) -> list[Path]:
    """Write a CSV file per table, and a script per engine; ValueError for an unreadable column."""
    _check(tables)
    part = tables.only_part()
    written = []
    definitions = [f"DROP VIEW IF EXISTS {name};" for name in VIEWS]
    for name, columns in _small_tables(tables, part).items():
        written.append(folder / f"{name}.csv")
        definitions.append(_definition(name, columns))
        durable.replace(written[-1], _csv([columns]))
    lanes = _names_of(part.predictor.pairs.lanes)
    written.append(folder / "romco_pair.csv")
    definitions.append(_definition("romco_pair", ("task", "feature", *lanes)))
    durable.replace(written[-1], _csv(_pairs(part.pairs, lanes)))
    definitions.append(_event_table(tables))
    views = [_values_view(tables), _prediction_view(part, bool(tables.classes))]
    names = [path.stem for path in written]
    for engine, loading in LOADING.items():
        loads = [loading.format(table=name) for name in names]
        indexed = {} if engine == "duckdb" else INDEXED
        for name, keys in indexed.items():
            loads.append(f"CREATE INDEX {name}_index ON {name} ({keys});")
        script = "\n".join([*definitions, *loads, "", *views])
        written.append(folder / f"{engine}.sql")
        durable.replace(written[-1], [script.encode()])
    return written


def _check(tables: ModelTables) -> None:
    for name, kind in tables.columns.items():
        if kind not in KINDS:
            raise ValueError(
                f"column {name!r} of kind {kind!r} cannot be exported to SQL, whose views read "
                "numbers and whole categories only: leave it out, or export to JavaScript"
            )
        if name.lower() in EVENT_COLUMNS:
            raise ValueError(f"column {name!r} has the name of a column of romco_event: rename it")
    if "" in tables.task_names:
        raise ValueError("a task's name is empty: SQL takes that for a new task; name it")


# Tables


def _small_tables(tables: ModelTables, part: PartTables) -> dict[str, dict[str, Any]]:
    """Return the columns of all tables but that of pairs."""
    predictor = part.predictor
    units, inputs = predictor.units, len(predictor.inputs)
    d, m = len(tables.feature_names), len(tables.task_names)
    number: dict[str, Any] = {
        "row_unit": units.row,
        "common": units.common,
        "empty": units.empty,
        "calibration": part.calibration,
        "new_task": m,
        "constant": d,
    }
    if tables.classes:
        number |= dict(zip(("negative", "positive"), tables.classes, strict=True))
    n = len(part.features)
    padding = np.zeros((n - d, len(UNIT_FIELDS)))
    unit = {"feature": np.arange(n), "name": [*tables.feature_names, *[""] * (n - d)]}
    unit |= dict(zip(UNIT_FIELDS, np.vstack([part.units, padding]).T, strict=True))
    task = {"task": np.arange(m + 1), "name": [*tables.task_names, ""]}
    stacking = np.triu(predictor.covariance) + np.triu(predictor.covariance, 1)
    first, second = np.nonzero(stacking)
    return {
        "romco_number": {name: [value] for name, value in number.items()},
        "romco_feature": unit | _columns(predictor.features.lanes, part.features),
        **_function_tables(part),
        "romco_task": task | _columns(predictor.tasks.lanes, part.tasks),
        "romco_covariance": _covariances(part),
        "romco_input": {
            "input": np.arange(inputs),
            "name": predictor.inputs,
            "intercept": predictor.intercepts,
            "weight": part.weights,
        },
        "romco_stacking": {
            "first": first,
            "second": second,
            "value": stacking[first, second],
        },
    }


def _function_tables(part: PartTables) -> dict[str, dict[str, Any]]:
    """Return features that have waves, their knots, and products of waves."""
    functions = part.functions
    numbers = functions.kinds != INDICATOR
    place, order, second, second_order = functions.factors.T
    other = np.where(second < 0, -1, functions.features[second] if len(second) else second)
    return {
        "romco_wave": {
            "feature": functions.features,
            "kind": functions.kinds,
        },
        "romco_knot": {
            "feature": np.repeat(functions.features[numbers], KNOTS),
            "knot": functions.knots[numbers].ravel(),
        },
        "romco_function": {
            "feature": part.n_features + 1 + np.arange(len(functions.scales)),
            "first": functions.features[place],
            "first_order": order,
            "second": other,
            "second_order": second_order,
            "scale": functions.scales,
        },
    }


def _covariances(part: PartTables) -> dict[str, Any]:
    """Return pairs of features, and what they add to the variance of each input."""
    entries = part.covariance_entries()
    pairs, row = np.unique(entries.at[:, 1:], axis=0, return_inverse=True)
    values = np.zeros((len(pairs), len(part.predictor.inputs)))
    values[row.ravel(), entries.at[:, 0]] = entries.values
    columns: dict[str, Any] = {"first": pairs[:, 0], "second": pairs[:, 1]}
    for k in _inputs_with_covariances(part):
        columns[f"variance_{k}"] = values[:, k]
    return columns


def _inputs_with_covariances(part: PartTables) -> list[int]:
    return [one.input for one in part.covariances]


def _columns(lanes: tuple[Lane, ...], values: Any) -> dict[str, Any]:
    return dict(zip(_names_of(lanes), values.T, strict=True))


def _names_of(lanes: tuple[Lane, ...]) -> list[str]:
    return [f"{lane.part}_{lane.input}" for lane in lanes]


def _pairs(rows: TaskRows, lanes: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the columns of the table of pairs, some rows at a time; at first none."""
    begin = 0
    yield dict.fromkeys(("task", "feature", *lanes), np.empty(0))
    for values in rows.values():
        chunk = slice(begin, begin + len(values))
        begin = chunk.stop
        numbers = {"task": rows.tasks[chunk], "feature": rows.keys[chunk]}
        yield numbers | dict(zip(lanes, values.T, strict=True))


def _csv(parts: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """Yield columns as CSV; numbers have as many digits as they need."""
    try:
        import pyarrow
        from pyarrow import csv
    except ImportError:
        raise ImportError("SQL needs the package pyarrow: pip install 'romco[export]'") from None
    for k, columns in enumerate(parts):
        sink = pyarrow.BufferOutputStream()
        table = pyarrow.table({name: np.ascontiguousarray(v) for name, v in columns.items()})
        csv.write_csv(table, sink, csv.WriteOptions(include_header=k == 0))
        yield sink.getvalue().to_pybytes()


def _definition(table: str, columns: Iterable[str]) -> str:
    """Return the statements that make a table."""
    lines = []
    for name in columns:
        kind = "DOUBLE PRECISION NOT NULL"
        if name in WHOLE_NUMBERS:
            kind = "BIGINT NOT NULL"
        elif name in TEXTS:
            kind = "TEXT"  # the new task has none, and neither have functions
        lines.append(f'    "{name}" {kind}')
    inner = ",\n".join(lines)
    return f"DROP TABLE IF EXISTS {table};\nCREATE TABLE {table} (\n{inner}\n);"


def _event_table(tables: ModelTables) -> str:
    """Return the statement that makes the table of events, if there is none."""
    columns = ["    id TEXT PRIMARY KEY", "    task TEXT"]
    for name, kind in tables.columns.items():
        columns.append(f"    {_quoted(name)} {KINDS[kind]}")
    inner = ",\n".join(columns)
    return f"CREATE TABLE IF NOT EXISTS romco_event (\n{inner}\n);"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Views


def _values_view(tables: ModelTables) -> str:
    """Return the view of the events' features and their values."""
    parts = []
    for name, kind in tables.columns.items():
        cell = f"e.{_quoted(name)}"
        if kind == "number":
            value, found = f"CAST({cell} AS DOUBLE PRECISION)", _literal(name)
            there = f"abs({cell}) <= 1e60"
        else:
            value, found = "1.0", f"{_literal(name + '=')} || {cell}"
            there = f"{cell} IS NOT NULL"
        selected = f"    SELECT e.id, {found} AS name, {value} AS x"
        parts.append(f"{selected} FROM romco_event e WHERE {there}")
    inner = "\n    UNION ALL\n".join(parts)
    return f"CREATE VIEW romco_value AS\n{inner};\n"


def _prediction_view(part: PartTables, has_classes: bool) -> str:
    """Return the view of predictions: `romco.learners.frozen`'s formula, a step after the other.

    All steps are materialized: engines that inline them repeat each step wherever it is used.
    """
    steps = {
        **UNIT_STEPS,
        **_function_steps(),
        "event": EVENT_STEP,
        "sums": _sums_step(part),
        "with_constant": CONSTANT_STEP,
        "covariances": _covariances_step(part),
        "z": _inputs_step(part),
        **_stacking_steps(),
    }
    defined = [f"{name} AS MATERIALIZED ({query})" for name, query in steps.items()]
    result = LABELS if has_classes else "SELECT id, margin AS prediction FROM margins"
    return "CREATE VIEW romco_prediction AS\nWITH " + ",\n".join(defined) + f"\n{result};\n"


# Values of an event's features in their units. A feature is measured anew where n is not null.
UNIT_STEPS = {
    "given": """
    SELECT v.id, v.x, f.*, abs(v.x) < 1e-150 AS is_zero, n.row_unit, n.common, n.empty,
           CASE WHEN abs(v.x) < 1e-150 OR f.count = 0.0 THEN NULL ELSE f.count END AS n
    FROM romco_value v JOIN romco_feature f ON f.name = v.name CROSS JOIN romco_number n
""",
    "counted": """
    SELECT *, CASE WHEN n IS NULL THEN NULL WHEN x > bound THEN bound
                   WHEN x < -bound THEN -bound ELSE x END AS y
    FROM given
""",
    "moments": """
    SELECT *, (total + y) / n AS mean, (square + y * y) / n AS mean_square FROM counted
""",
    "centred": """
    SELECT *, mean * share * CASE
        WHEN mean_square - mean * mean > 1e-9 * mean_square
        THEN (n - 1.0) * mean * mean / ((n - 1.0) * mean * mean + mean_square - mean * mean)
        ELSE 1.0 END AS middle
    FROM moments
""",
    "spread": """
    SELECT *, mean_square - 2.0 * middle * mean + middle * middle AS spread FROM centred
""",
    "sized": """
    SELECT *, sqrt(CASE WHEN spread > 1e-9 * mean_square THEN spread ELSE mean_square END) AS size
    FROM spread
""",
    "logs": "SELECT *, ln(size) - common AS r FROM sized",
    "scales": f"""
    SELECT id, feature, x, is_zero, zero, row_unit, empty,
           coalesce(middle, centre) AS middle, coalesce(10.0 * size, reach) AS far,
           coalesce(exp(-common - r * r * r * r * r / (r * r * r * r + {NEAR!r})), factor) AS scale
    FROM logs
""",
    "scaled": """
    SELECT id, feature, empty, row_unit * CASE
        WHEN is_zero THEN zero
        WHEN x - middle > far THEN scale * far
        WHEN x - middle < -far THEN -scale * far
        ELSE scale * (x - middle) END AS u
    FROM scales
""",
    "filled": """
    SELECT id, feature, empty, CASE WHEN abs(u) < 1e-150 THEN 0.0 ELSE u END AS u FROM scaled
""",
    "unit": """
    SELECT id, feature, CASE WHEN sum(u * u) OVER (PARTITION BY id) < empty THEN 0.0 ELSE u END AS u
    FROM filled
""",
}
EVENT_STEP = """
    SELECT e.id, coalesce(t.task, n.new_task) AS task
    FROM romco_event e CROSS JOIN romco_number n LEFT JOIN romco_task t ON t.name = e.task
"""
CONSTANT_STEP = """
    SELECT id, feature, u FROM entry
    UNION ALL SELECT e.id, n.constant, 1.0 FROM romco_event e CROSS JOIN romco_number n
"""
LABELS = f"""SELECT x.id, x.margin,
       1.0 / (1.0 + exp(-(CASE WHEN abs(x.z) <= {LARGEST_LOG_ODDS} THEN x.z
                               WHEN x.z > 0 THEN {LARGEST_LOG_ODDS}.0
                               ELSE -{LARGEST_LOG_ODDS}.0 END))) AS probability,
       CASE WHEN x.margin >= 0.0 THEN x.positive ELSE x.negative END AS label
FROM (
    SELECT m.id, m.margin, m.margin * n.calibration AS z, n.positive, n.negative
    FROM margins m CROSS JOIN romco_number n
) x"""


def _function_steps() -> dict[str, str]:
    """Return the steps that compute functions of features: products of waves of ranks."""
    return {
        "ranked": """
    SELECT v.id, w.feature, w.kind, v.x,
           sum(CASE WHEN k.knot < v.x THEN 1.0 ELSE 0.0 END) AS below,
           sum(CASE WHEN k.knot <= v.x THEN 1.0 ELSE 0.0 END) AS upto,
           max(CASE WHEN k.knot < v.x THEN k.knot END) AS lower_knot,
           min(CASE WHEN k.knot > v.x THEN k.knot END) AS upper_knot
    FROM given v JOIN romco_wave w ON w.feature = v.feature
    LEFT JOIN romco_knot k ON k.feature = w.feature
    WHERE v.x <> 0.0 OR w.kind = 1
    GROUP BY v.id, w.feature, w.kind, v.x
""",
        "waves": f"""
    SELECT id, feature, kind, CASE
        WHEN upto > below OR lower_knot IS NULL OR upper_knot IS NULL THEN 0.5 * (below + upto)
        ELSE below - 0.5 + (x - lower_knot) / (upper_knot - lower_knot) END / {KNOTS}.0 AS r
    FROM ranked
""",
        "entry": f"""
    SELECT id, feature, u FROM unit
    UNION ALL
    SELECT a.id, f.feature, f.scale * {_wave("a", "f.first_order")} * CASE
        WHEN f.second < 0 THEN 1.0 WHEN b.id IS NULL THEN 0.0
        ELSE {_wave("b", "f.second_order")} END
    FROM waves a JOIN romco_function f ON f.first = a.feature
    LEFT JOIN waves b ON b.id = a.id AND b.feature = f.second
""",
    }


def _wave(table: str, order: str) -> str:
    """Return the wave of a rank, or of an indicator."""
    wave = f"{sqrt(2.0)!r} * cos({pi!r} * {order} * {table}.r)"
    return f"CASE WHEN {table}.kind > 0 THEN {wave} WHEN {order} = 1 THEN 1.0 ELSE 0.0 END"


def _sums_step(part: PartTables) -> str:
    """Return the step that adds up weights and variances of features and pairs, by lane."""
    predictor = part.predictor
    of_feature, of_pair = _names_of(predictor.features.lanes), _names_of(predictor.pairs.lanes)
    columns = ["u.id"]
    for lane in dict.fromkeys((*of_feature, *of_pair)):
        terms = [f"f.{lane}"] * (lane in of_feature)
        terms += [f"coalesce(p.{lane}, 0.0)"] * (lane in of_pair)
        power = "u.u" if lane.startswith("weight") else "u.u * u.u"
        columns.append(f"sum(({' + '.join(terms)}) * {power}) AS {lane}")
    return f"""
    SELECT {_listed(columns)}
    FROM entry u JOIN event e ON e.id = u.id JOIN romco_feature f ON f.feature = u.feature
    LEFT JOIN romco_pair p ON p.task = e.task AND p.feature = u.feature
    GROUP BY u.id
"""


def _covariances_step(part: PartTables) -> str:
    """Return the step that adds up what covariances of features add to variances."""
    columns = ["a.id"]
    for k in _inputs_with_covariances(part):
        columns.append(f"sum(v.variance_{k} * a.u * b.u) AS variance_{k}")
    return f"""
    SELECT {_listed(columns)}
    FROM with_constant a JOIN romco_covariance v ON v.first = a.feature
    JOIN with_constant b ON b.id = a.id AND b.feature = v.second
    GROUP BY a.id
"""


def _inputs_step(part: PartTables) -> str:
    """Return the step that computes the inputs of the stacking model."""
    predictor = part.predictor
    of_task = _names_of(predictor.tasks.lanes)
    summed = {*_names_of(predictor.features.lanes), *_names_of(predictor.pairs.lanes)}
    cases = []
    for k in range(len(predictor.inputs)):
        terms = {}
        for lane in (f"weight_{k}", f"variance_{k}"):
            found = [f"t.{lane}"] * (lane in of_task)
            found += [f"coalesce(s.{lane}, 0.0)"] * (lane in summed)
            terms[lane] = found
        mean = " + ".join(["i.intercept", *terms[f"weight_{k}"]])
        variances = terms[f"variance_{k}"]
        if k in _inputs_with_covariances(part):
            variances.append(f"coalesce(c.variance_{k}, 0.0)")
        value = _moderated(f"({mean})", " + ".join(variances)) if variances else f"({mean})"
        factor = f"t.factor_{k} * " if f"factor_{k}" in of_task else ""
        cases.append(f"\n        WHEN {k} THEN {factor}{value}")
    return f"""
    SELECT e.id, i.input, i.weight, CASE i.input{"".join(cases)} END AS z
    FROM event e JOIN romco_task t ON t.task = e.task CROSS JOIN romco_input i
    LEFT JOIN sums s ON s.id = e.id LEFT JOIN covariances c ON c.id = e.id
"""


def _stacking_steps() -> dict[str, str]:
    """Return the steps from the inputs of the stacking model to margins."""
    return {
        "mean": "SELECT id, sum(weight * z) AS mean FROM z GROUP BY id",
        "variance": """
    SELECT a.id, sum(s.value * a.z * b.z) AS variance
    FROM z a JOIN romco_stacking s ON s.first = a.input
    JOIN z b ON b.id = a.id AND b.input = s.second
    GROUP BY a.id
""",
        "margins": f"""
    SELECT m.id, {_moderated("m.mean", "coalesce(v.variance, 0.0)")} AS margin
    FROM mean m LEFT JOIN variance v ON v.id = m.id
""",
    }


def _moderated(mean: str, variance: str) -> str:
    """Return log-odds shrunk by their variance."""
    shrunk = f"1.0 + {pi / 8.0!r} * ({variance})"
    return f"{mean} / sqrt(CASE WHEN {shrunk} > 1.0 THEN {shrunk} ELSE 1.0 END)"


def _listed(columns: list[str]) -> str:
    return ",\n           ".join(columns)
