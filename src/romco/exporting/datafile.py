"""The data file that C and JavaScript read: tables of numbers; `docs/export-format.md`."""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from romco.exporting.tables import ManyTables, ModelTables, PartTables, TaskRows
from romco.io import durable
from romco.learners.frozen import NORMAL_QUANTILES, Lane
from romco.typing import Floats

MAGIC, VERSION = b"romcoexp", 5
PARTS = ("weight", "variance", "factor")  # in the order of an event's sums
DATA_FILE = "model.romcoexp"
PROGRAMS = {"c": ("romco.h",), "js": ("romco.mjs", "example.html")}


class Table(NamedTuple):
    """Numbers by row and column; they may come in chunks of rows."""

    shape: tuple[int, int]
    chunks: Iterable[Floats]


def write_program(to: str, tables: ModelTables, folder: Path) -> list[Path]:
    """Write the data file, and the program that reads it, in C ("c") or JavaScript ("js")."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / DATA_FILE]
    durable.replace(written[0], data_file(tables))
    for name in PROGRAMS[to]:
        written.append(folder / name)
        durable.replace(written[-1], [files("romco.exporting").joinpath(name).read_bytes()])
    return written


def data_file(tables: ModelTables) -> Iterator[bytes]:
    """Yield the content of the file, a chunk of pairs at a time."""
    checksum = 1
    for chunk in _content(tables):
        checksum = zlib.adler32(chunk, checksum)
        yield chunk
    yield struct.pack("<I", checksum)


def _content(tables: ModelTables) -> Iterator[bytes]:
    """Yield all that the checksum is of."""
    yield MAGIC + struct.pack("<Q", VERSION)
    for table in _tables(tables):
        yield struct.pack("<QQ", *table.shape)
        for chunk in table.chunks:
            yield np.ascontiguousarray(chunk, dtype="<f8").tobytes()


def _tables(tables: ModelTables) -> Iterator[Table]:
    """Yield all tables in the order that programs read them in."""
    schema = json.dumps({"columns": tables.columns, "matrix": tables.is_matrix})
    texts = []
    for name in (*tables.feature_names, *tables.task_names, *tables.classes, schema):
        texts.append(name.encode() + b"\0")
    text = b"".join(texts)
    text += bytes(-len(text) % 8)
    yield _column(np.frombuffer(text, dtype="<f8"))
    yield _column(np.cumsum([0, *map(len, texts)]))
    yield _column(NORMAL_QUANTILES)
    yield _column([part.calibration for part in tables.parts])
    for part in tables.parts:
        yield from _part_tables(part)
    if tables.many is not None:
        yield from _class_tables(tables.many)


def _class_tables(many: ManyTables) -> Iterator[Table]:
    """Yield the tables of three classes or more, after those of the parts."""
    classes, softmax, groups = many
    n = len(softmax.lines)
    yield _table([[*classes.weights, *softmax.weights]])
    yield _column(softmax.lines)
    yield _table(softmax.matrices.reshape(len(softmax.matrices) * n, n))
    yield _table(softmax.densities)
    yield Table((len(groups), 3 + n), _rows(groups))


def _part_tables(part: PartTables) -> Iterator[Table]:
    """Yield all tables of a part."""
    predictor, functions = part.predictor, part.functions
    n_inputs = len(predictor.inputs)
    yield _table(np.column_stack([part.weights, *predictor.covariance.T]))
    yield _table(np.column_stack([functions.features, functions.kinds, functions.knots]))
    yield _table(np.column_stack([functions.factors, functions.scales]))
    width = 1 + len(functions.scales)
    rotation = np.column_stack([functions.centre, functions.rotation])
    yield _table(rotation.reshape(-1, width))
    yield _table(part.units)
    yield _table(np.vstack([_places(part.lanes, n_inputs), part.features]))
    yield _table(np.vstack([_places(predictor.tasks.lanes, n_inputs), part.tasks]))
    places = np.array([[-1, *_places(predictor.pairs.lanes, n_inputs)]])
    shape = (1 + len(part.pairs), places.shape[1])
    yield Table(shape, chain([places], _rows(part.pairs)))
    yield _table(part.covariance_entries())


def _rows(rows: TaskRows) -> Iterator[Floats]:
    """Yield rows after their places, some at a time."""
    for places, values in rows.chunks():
        yield np.column_stack([places, values])


def _places(lanes: Sequence[Lane], n_inputs: int) -> list[int]:
    """Return the place of each lane among the sums of an event."""
    return [PARTS.index(lane.part) * n_inputs + lane.input for lane in lanes]


def _column(values: Any) -> Table:
    return _table(np.reshape(np.asarray(values, dtype=np.float64), (-1, 1)))


def _table(values: Any) -> Table:
    array = np.asarray(values, dtype=np.float64)
    return Table(array.shape, [array])
