"""The data file that C and JavaScript read: named blocks of numbers; `docs/export-format.md`."""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from romco.exporting.tables import ModelTables, PartTables, TaskRows
from romco.io import durable
from romco.learners.frozen import NORMAL_QUANTILES, Lane

MAGIC, VERSION = b"romcoexp", 2
PARTS = ("weight", "variance", "factor")  # codes of a lane's part are places in it
NAME_BYTES, ALIGNMENT = 24, 8
DATA_FILE = "model.romcoexp"
PROGRAMS = {"c": ("romco.h",), "js": ("romco.mjs", "example.html")}


class Block(NamedTuple):
    """A named part of the file; its content may come in pieces."""

    name: str
    size: int  # bytes
    content: Iterable[bytes | memoryview]


def write_program(tables: ModelTables, to: str, folder: Path) -> list[Path]:
    """Write the data file, and the program that reads it, in C ("c") or JavaScript ("js")."""
    written = [folder / DATA_FILE]
    durable.replace(written[0], data_file(tables))
    for name in PROGRAMS[to]:
        written.append(folder / name)
        durable.replace(written[-1], [files("romco.exporting").joinpath(name).read_bytes()])
    return written


def data_file(tables: ModelTables) -> Iterator[bytes | memoryview]:
    """Yield the content of the file, a chunk of pairs at a time."""
    blocks = list(_blocks(tables))
    offset = len(MAGIC) + 8 + len(blocks) * (NAME_BYTES + 16)
    header = [MAGIC, struct.pack("<II", VERSION, len(blocks))]
    for block in blocks:
        header.append(struct.pack(f"<{NAME_BYTES}sQQ", block.name.encode(), offset, block.size))
        offset += block.size + -block.size % ALIGNMENT
    checksum = 1
    for chunk in _chunks(header, blocks):
        checksum = zlib.adler32(chunk, checksum)
        yield chunk
    yield struct.pack("<I", checksum)


def _chunks(header: list[bytes], blocks: list[Block]) -> Iterator[bytes | memoryview]:
    """Yield all that the checksum is of."""
    yield from header
    for block in blocks:
        yield from block.content
        yield bytes(-block.size % ALIGNMENT)


def _blocks(tables: ModelTables) -> Iterator[Block]:
    """Yield all blocks in the order that `romco.h` reads them in."""
    many = tables.many
    n_pairs = 0
    numbers = np.zeros(6)
    lines: Any = []
    matrices: Any = []
    densities: Any = []
    if many is not None:
        n_pairs = len(many.pairs)
        numbers[:4] = [many.power, many.share, *many.weights]
        if many.softmax is not None:
            numbers[4:] = many.softmax.weights
            lines, matrices = many.softmax.lines, many.softmax.matrices
            densities = many.softmax.densities
    named = tables.feature_names, tables.task_names, tables.classes, tables.parts
    yield _array("size", "<i8", [*map(len, named), n_pairs, len(lines)])
    yield _array("number", "<f8", numbers)
    yield from _names("feature", tables.feature_names)
    yield from _names("task", tables.task_names)
    yield from _names("class", tables.classes)
    yield _array("quantile", "<f8", NORMAL_QUANTILES)
    yield _array("line", "<i4", lines)
    yield _array("line.matrix", "<f8", matrices)
    yield _array("line.density", "<f8", densities)
    yield from _rows("group", "class", tables.groups, 2 + len(lines))
    for k, part in enumerate(tables.parts):
        for block in _part_blocks(part):
            yield block._replace(name=f"{k}.{block.name}")
    text = json.dumps({"columns": tables.columns, "matrix": tables.is_matrix}).encode()
    yield Block("schema", len(text), [text])


def _part_blocks(part: PartTables) -> Iterator[Block]:
    """Yield all blocks of a part."""
    predictor, functions = part.predictor, part.functions
    units = predictor.units
    entries = part.covariance_entries()
    tables = (
        predictor.inputs,
        predictor.features.lanes,
        predictor.tasks.lanes,
        predictor.pairs.lanes,
    )
    sizes = [len(entries.at), *map(len, tables), len(functions.features), len(functions.scales)]
    rotated = len(functions.centre)
    yield _array("size", "<i8", [*sizes, rotated, part.units.shape[1]])
    yield _array("number", "<f8", [units.row, units.common, units.empty, part.calibration])
    yield _array("stack.weight", "<f8", part.weights)
    yield _array("stack.covariance", "<f8", predictor.covariance)
    yield _array("intercept", "<f8", [predictor.intercepts, part.variances])
    yield _array("unit", "<f8", part.units)
    yield from _table("feature", predictor.features.lanes, part.features)
    yield from _table("task", predictor.tasks.lanes, part.tasks)
    yield _array("pair.lane", "<i4", _codes(predictor.pairs.lanes))
    yield from _rows("pair", "feature", part.pairs, len(predictor.pairs.lanes))
    yield _array("covariance.at", "<i4", entries.at)
    yield _array("covariance.value", "<f8", entries.values)
    yield _array("wave.feature", "<i4", functions.features)
    knots = np.column_stack([functions.kinds, functions.knots])
    yield _array("wave.knot", "<f8", knots)
    yield _array("function.factor", "<i4", functions.factors)
    yield _array("function.scale", "<f8", functions.scales)
    yield _array("function.centre", "<f8", functions.centre)
    yield _array("function.rotation", "<f8", functions.rotation)


def _rows(what: str, key: str, rows: TaskRows | None, width: int) -> Iterator[Block]:
    """Yield where the rows of each task begin, their keys and their numbers."""
    starts: Any = [] if rows is None else rows.starts()
    keys: Any = [] if rows is None else rows.keys
    values: Any = [] if rows is None else rows.values()
    yield _array(f"{what}.start", "<i8", starts)
    yield _array(f"{what}.{key}", "<i4", keys)
    yield Block(f"{what}.value", 8 * len(keys) * width, map(partial(_bytes_of, "<f8"), values))


def _names(what: str, names: Sequence[str]) -> Iterator[Block]:
    texts = list(map(str.encode, names))
    yield _array(f"{what}.start", "<i8", np.cumsum([0, *map(len, texts)]))
    yield Block(f"{what}.name", sum(map(len, texts)), texts)


def _table(what: str, lanes: Sequence[Lane], values: Any) -> Iterator[Block]:
    yield _array(f"{what}.lane", "<i4", _codes(lanes))
    yield _array(f"{what}.value", "<f8", values)


def _codes(lanes: Sequence[Lane]) -> list[int]:
    """Return two numbers for each lane: the code of its part, and its input."""
    codes = []
    for lane in lanes:
        codes += [PARTS.index(lane.part), lane.input]
    return codes


def _array(name: str, kind: str, values: Any) -> Block:
    content = _bytes_of(kind, values)
    return Block(name, content.nbytes, [content])


def _bytes_of(kind: str, values: Any) -> memoryview:
    return np.ascontiguousarray(values, dtype=kind).reshape(-1).view(np.uint8).data
