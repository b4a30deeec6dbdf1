"""SQL: tables of weights as CSV files, and views that predict, for DuckDB, SQLite and PostgreSQL.

Events are rows of the table ``romco_event``: an id, the task, and a column for each of the model's.
The view ``romco_prediction`` has margin, probability and label of each, or the predicted number; of
more than two classes ``romco_probability`` has all probabilities. One script per engine makes the
tables, loads the files and makes the views, which are the same.

All tables have the number of a *part*: two classes and numbers have one part, more classes one for
each pair of classes and one of the softmax, see `romco.learners.frozen`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romco.exporting.sql_views import TINY, VIEWS, Lanes, names_of, quoted, views_of
from romco.exporting.tables import ManyTables, ModelTables, PartTables, check_columns
from romco.io import durable
from romco.learners.frozen import (
    KNOTS,
    NORMAL_QUANTILES,
    SCORE_STEPS,
    UNIT_FIELDS,
    Lane,
)

Columns = dict[str, Any]

KINDS = {"number": "DOUBLE PRECISION", "category": "TEXT"}  # of columns that views can read
EVENT_COLUMNS = ("id", "task")
LOADING = {  # of a table by engine, where scripts run in the folder
    "duckdb": "COPY {table} FROM '{table}.csv' (HEADER, AUTO_DETECT false);",
    "sqlite": ".import --csv --skip 1 {table}.csv {table}",
    "postgresql": "\\copy {table} FROM '{table}.csv' WITH (FORMAT csv, HEADER)",
}
INDEXED = {  # columns by which rows are found, if an engine does not hash them
    "romco_feature": "name",
    "romco_task": "task, part",
    "romco_task_name": "name",
    "romco_pair": "task, part, feature",
    "romco_covariance": "part, first",
    "romco_group": "task, class",
    "romco_mean": "task, class",
}
WHOLE = re.compile("0|-?[1-9][0-9]*")  # numbers, as tasks are named by them
MAX_COLUMNS = 1500  # PostgreSQL has room for 1,600
MAX_CLASSES = 256  # with four columns each
TYPES = {"i": "BIGINT NOT NULL", "f": "DOUBLE PRECISION NOT NULL", "O": "TEXT"}  # of NumPy's kinds


def write_sql(tables: ModelTables, folder: Path) -> list[Path]:
    """Write a CSV file per table, and a script per engine; ValueError for an unreadable column."""
    check_columns(tables, "SQL")
    _check(tables)
    folder.mkdir(parents=True, exist_ok=True)
    lanes = Lanes(tables.parts)
    contents = _small_tables(tables, lanes)
    if tables.many is not None:
        contents |= _class_tables(tables, tables.many)
    no_pairs = dict.fromkeys(("task", "part", "feature"), np.arange(0))
    contents["romco_pair"] = no_pairs | dict.fromkeys(lanes.pairs, np.empty(0))
    more = {"romco_pair": _pairs(tables.parts, lanes.pairs)}  # rows
    written = []
    definitions = [f"DROP VIEW IF EXISTS {name};" for name in VIEWS]
    for name, columns in contents.items():
        written.append(folder / f"{name}.csv")
        definitions.append(_definition(name, columns))
        durable.replace(written[-1], _csv(chain([columns], more.get(name, ()))))
    views = views_of(tables, lanes)
    for engine, loading in LOADING.items():
        loads = [loading.format(table=name) for name in contents]
        for name, keys in INDEXED.items():
            if name in contents and engine != "duckdb":
                # Names may be longer than what PostgreSQL sorts.
                method = "USING hash " if engine == "postgresql" and keys == "name" else ""
                loads.append(f"CREATE INDEX {name}_index ON {name} {method}({keys});")
        events = _event_table(tables, engine)
        script = "\n".join([*definitions, events, *loads, "", *views])
        written.append(folder / f"{engine}.sql")
        durable.replace(written[-1], [script.encode()])
    return written


def _check(tables: ModelTables) -> None:
    if len(tables.classes) > MAX_CLASSES:
        raise ValueError(
            f"{len(tables.classes)} classes cannot be exported to SQL: its tables have columns for "
            f"each class, and engines take those of {MAX_CLASSES}; export to ONNX, C or JavaScript"
        )
    if len(tables.columns) > MAX_COLUMNS:
        raise ValueError(
            f"{len(tables.columns)} columns cannot be exported to SQL, where a table has at most "
            f"{MAX_COLUMNS}: export to ONNX, C or JavaScript"
        )
    lowered: dict[str, str] = {}
    for name in tables.columns:
        other = lowered.setdefault(name.lower(), name)
        if other != name:
            raise ValueError(f"columns {other!r} and {name!r} are one in SQL: rename one of them")
        if not name or "\0" in name:
            raise ValueError(f"column {name!r} cannot be a column in SQL: rename it")
        if name.lower() in EVENT_COLUMNS:
            raise ValueError(f"column {name!r} has the name of a column of romco_event: rename it")
    if "" in tables.task_names:
        raise ValueError("a task's name is empty: SQL takes that for a new task; name it")


# Tables


def _small_tables(tables: ModelTables, lanes: Lanes) -> dict[str, Columns]:
    """Return the columns of all tables but that of pairs."""
    found: dict[str, Columns] = {
        "romco_number": {
            "new_task": [len(tables.task_names)],
            "constant": [len(tables.feature_names)],
        },
        "romco_task_name": _task_names(tables.task_names),
        "romco_class": {
            "class": np.arange(len(tables.classes)),
            "label": _texts(tables.classes),
        },
        "romco_quantile": {
            "step": np.arange(SCORE_STEPS),
            "score": NORMAL_QUANTILES[:-1],
            "next_score": NORMAL_QUANTILES[1:],
        },
    }
    by_part = [_tables_of_part(tables, part, lanes) for part in tables.parts]
    for name in by_part[0]:
        found[name] = _joined([own[name] for own in by_part])
    return found | {"romco_stacking": _stacking(tables.parts, lanes)}


def _task_names(names: Sequence[str]) -> Columns:
    """Return the names of tasks; a whole number is found as engines write a real one, too: 7.0."""
    tasks: dict[str, int] = {}
    for task, name in enumerate(names):
        if "\0" not in name:  # which would end it here
            tasks[name] = task
        if WHOLE.fullmatch(name):
            tasks[f"{name}.0"] = task
    return {"name": _texts(tasks), "task": np.array(list(tasks.values()), dtype=np.int64)}


def _stacking(parts: Sequence[PartTables], lanes: Lanes) -> Columns:
    """Return weights of the stacking models and their covariances, each once of both."""
    n = lanes.n_stacked
    weights, covariances = [], []
    for part in parts:
        if len(part.predictor.covariance):
            weights.append(part.weights)
            covariances.append(part.predictor.covariance * (2.0 - np.eye(n)))
    columns: Columns = {"part": np.arange(len(weights))}
    for k in range(n):
        columns[f"weight_{k}"] = np.array(weights)[:, k]
    for k, j in lanes.stacked_pairs:
        columns[f"covariance_{k}_{j}"] = np.array(covariances)[:, k, j]
    return columns


def _joined(parts: Sequence[Columns]) -> Columns:
    """Return the columns of all parts, and the number of the part before them."""
    sizes = [len(next(iter(own.values()))) for own in parts]
    columns: Columns = {"part": np.repeat(np.arange(len(parts)), sizes)}
    for name in parts[0]:
        columns[name] = np.concatenate([own[name] for own in parts])
    return columns


def _texts(names: Iterable[str]) -> NDArray[Any]:
    """Return names as a column; empty where one holds a zero, which would end it here."""
    return np.array(["" if "\0" in name else name for name in names], dtype=object)


def _tables_of_part(tables: ModelTables, part: PartTables, lanes: Lanes) -> dict[str, Columns]:
    """Return the columns of a part's tables."""
    d, n, m = len(tables.feature_names), len(part.features), len(tables.task_names)
    units = np.pad(part.units, ((0, n - d), (0, 0)))
    return {
        "romco_part": {"calibration": [part.calibration]},
        "romco_feature": {
            "feature": np.arange(n),
            "name": _texts([*tables.feature_names, *[""] * (n - d)]),
            **dict(zip(UNIT_FIELDS, units.T, strict=True)),
            **_columns(part.lanes, part.features, lanes.features),
        },
        **_function_tables(part),
        "romco_task": {
            "task": np.arange(m + 1),
            **_columns(part.predictor.tasks.lanes, part.tasks, lanes.tasks),
        },
        "romco_covariance": _covariances(part, lanes),
    }


def _function_tables(part: PartTables) -> dict[str, Columns]:
    """Return features that have waves, their knots, products of waves, and their rotation."""
    functions = part.functions
    places, g = np.arange(len(functions.features)), len(functions.scales)
    place, order, second, second_order = functions.factors.T
    rotation, shift = np.eye(g), np.zeros(g)
    if len(functions.centre):
        rotation = np.tril(functions.rotation)
        shift = -rotation @ functions.centre
    target, source = np.nonzero(rotation)
    first_function = len(part.units) + 1
    return {
        "romco_wave": {
            "place": places,
            "feature": functions.features,
            "kind": functions.kinds,
        },
        "romco_knot": {
            "place": np.repeat(places, KNOTS),
            "knot": functions.knots.ravel(),
        },
        "romco_function": {
            "feature": first_function + np.arange(g),
            "first": place,
            "first_order": order,
            "second": second,
            "second_order": second_order,
            "scale": functions.scales,
            "shift": shift,
        },
        "romco_rotation": {
            "feature": first_function + target,
            "source": first_function + source,
            "value": rotation[target, source],
        },
    }


def _covariances(part: PartTables, lanes: Lanes) -> Columns:
    """Return pairs of features, and what they add to the variance of each input."""
    entries = part.covariance_entries()
    pairs, row = np.unique(entries[:, 1:3].astype(np.int64), axis=0, return_inverse=True)
    values = np.zeros((len(pairs), lanes.n_inputs))
    values[row.ravel(), entries[:, 0].astype(np.int64)] = entries[:, 3]
    columns: Columns = {"first": pairs[:, 0], "second": pairs[:, 1]}
    for k in lanes.covariance_inputs:
        columns[f"variance_{k}"] = values[:, k]
    return columns


def _class_tables(tables: ModelTables, many: ManyTables) -> dict[str, Columns]:
    """Return the columns of the tables of more than two classes."""
    K = len(tables.classes)
    weights = tables.parts[-1].weights  # of the softmax, two inputs for each class
    shared = many.classes
    n_pairs = len(shared.pairs)
    high, low = np.tril_indices(K, -1)  # parts are in this order
    classes = np.concatenate([high[:n_pairs], low[:n_pairs]])
    others = np.concatenate([low[:n_pairs], high[:n_pairs]])
    found: dict[str, Columns] = {
        "romco_class_pair": {
            "part": np.tile(np.arange(n_pairs), 2),
            "class": classes,
            "other": others,
            "sign": np.repeat([1.0, -1.0], n_pairs),
        },
        "romco_coupling": {
            "weight_of_pairs": shared.weights[:1],
            "weight_of_softmax": shared.weights[1:],
        },
        "romco_input": {
            "part": np.full(2 * K, n_pairs),
            "input": np.arange(2 * K),
            "class": np.arange(2 * K) % K,
            "weight": weights,
        },
    }
    return found | _discriminant_tables(tables, many)


def _discriminant_tables(tables: ModelTables, many: ManyTables) -> dict[str, Columns]:
    """Return the columns of the tables of the softmax."""
    _, softmax, groups = many
    K, n = len(tables.classes), len(softmax.lines)
    kind, at_class = np.divmod(np.arange(2 * K), K)
    of = kind * (1 + at_class)  # 0 is the one of all classes
    densities = softmax.densities[of]
    values = np.concatenate(list(groups.values()))
    task, class_ = np.divmod(groups.places, groups.n_keys)
    at, dimension, line = np.nonzero(softmax.matrices[of])
    return {
        "romco_line": {
            "line": np.arange(n),
            "part": np.full(n, len(tables.parts) - 1),
            "feature": len(tables.feature_names) + 1 + softmax.lines,
        },
        "romco_discriminant": {
            "discriminant": kind,
            "class": at_class,
            "weight": softmax.weights[kind],
            "events": densities[:, 0],
            "size": np.full(len(kind), float(n)),
            "constant_term": densities[:, 1],
        },
        "romco_matrix": {
            "discriminant": kind[at],
            "class": at_class[at],
            "dimension": dimension,
            "line": line,
            "value": softmax.matrices[of[at], dimension, line],
        },
        "romco_group": {
            "task": task,
            "class": class_,
            "level": values[:, 0],
            "spread": values[:, 1],
        },
        "romco_mean": {
            "task": np.repeat(task, n),
            "class": np.repeat(class_, n),
            "line": np.tile(np.arange(n), len(groups)),
            "mean": values[:, 2:].ravel(),
        },
    }


def _columns(lanes: tuple[Lane, ...], values: Any, names: list[str]) -> Columns:
    """Return the columns of all ``names``; a lane that a part does not have adds nothing."""
    values = np.where(np.abs(values) < TINY, 0.0, values)
    own = dict(zip(names_of([lanes]), values.T, strict=True))
    nothing = np.zeros(len(values))
    found = {}
    for name in names:
        found[name] = own.get(name, nothing + name.startswith("factor"))
    return found


def _pairs(parts: Sequence[PartTables], names: list[str]) -> Iterator[Columns]:
    """Yield the columns of the table of pairs, some rows at a time."""
    for k, part in enumerate(parts):
        for places, values in part.pairs.chunks():
            task, feature = np.divmod(places, part.pairs.n_keys)
            numbers = {"task": task, "part": np.full(len(task), k), "feature": feature}
            yield numbers | _columns(part.predictor.pairs.lanes, values, names)


def _csv(parts: Iterable[Mapping[str, Any]]) -> Iterator[memoryview]:
    """Yield columns as CSV; numbers have as many digits as they need."""
    try:
        import polars
    except ImportError:
        raise ImportError("SQL needs the package polars: pip install 'romco[export]'") from None
    for k, columns in enumerate(parts):
        sink = BytesIO()
        table = polars.DataFrame(dict(columns)).cast({polars.Object: polars.String})  # no names
        table.write_csv(sink, include_header=k == 0, quote_style="non_numeric")
        yield sink.getbuffer()


def _definition(table: str, columns: Columns) -> str:
    """Return the statements that make a table."""
    lines = []
    for name, values in columns.items():
        kind = np.asarray(values[:1]).dtype.kind
        lines.append(f'    "{name}" {TYPES[kind]}')
    inner = ",\n".join(lines)
    return f"DROP TABLE IF EXISTS {table};\nCREATE TABLE {table} (\n{inner}\n);"


def _event_table(tables: ModelTables, engine: str) -> str:
    """Return the statement that makes the table of events, if there is none.

    SQLite's text of real numbers, such as 1.0 and 1.0e-07, are no categories: it refuses them.
    """
    columns = ["    id TEXT PRIMARY KEY", "    task TEXT"]
    for name, kind in tables.columns.items():
        declared = f"{quoted(name)} {KINDS[kind]}"
        if kind == "category" and engine == "sqlite":
            check = f"CHECK (typeof({quoted(name)}) <> 'real')"
            declared = f'{quoted(name)} CONSTRAINT "write real numbers as text" {check}'
        columns.append(f"    {declared}")
    inner = ",\n".join(columns)
    return f"CREATE TABLE IF NOT EXISTS romco_event (\n{inner}\n);"
