"""Export: a model's frozen predictions for C, JavaScript, ONNX and SQL."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal

from romco.adapters.common import Estimator
from romco.exporting.datafile import write_program
from romco.exporting.onnx_graph import write_onnx
from romco.exporting.sql import write_sql
from romco.exporting.tables import ModelTables, read_tables
from romco.model import Model

Format = Literal["c", "js", "onnx", "sql"]
WRITERS: dict[Format, Callable[[ModelTables, Path], list[Path]]] = {
    "c": partial(write_program, "c"),
    "js": partial(write_program, "js"),
    "onnx": write_onnx,
    "sql": write_sql,
}


def export(model: Model | Estimator, to: Format, path: str | Path) -> list[Path]:
    """Write a model's frozen predictions for another program into a folder; return the files.

    ``to`` is "c", "js", "onnx" or "sql"; see `docs/export.md`. Learning and predicting wait
    meanwhile. Raises ValueError where the model, or one of its columns, has no form there.

    >>> import romco, tempfile
    >>> model = romco.Model()
    >>> _ = model.learn([{"a": 1}, {"b": 1}] * 2, ["yes", "no"] * 2, ["ann", "bob"] * 2)
    >>> [file.name for file in romco.export(model, "c", tempfile.mkdtemp())]
    ['model.romcoexp', 'romco.h']
    """
    if to not in WRITERS:
        raise ValueError(f"no format {to!r}: there are c, js, onnx and sql")
    inner = model.fitted_model() if isinstance(model, Estimator) else model
    if not isinstance(inner, Model):
        kind = type(model).__name__
        raise ValueError(
            f"romco.export takes a Model or an estimator, not {kind}; shards have .model()"
        )
    with inner.engine.at_rest():
        return WRITERS[to](read_tables(inner), Path(path))
