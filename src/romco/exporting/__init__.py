"""Export: a model's frozen predictions for C, JavaScript, ONNX and SQL."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from romco.adapters.common import Estimator
from romco.exporting.datafile import write_program
from romco.exporting.onnx_graph import write_onnx
from romco.exporting.sql import write_sql
from romco.exporting.tables import read_tables
from romco.model import Model

if TYPE_CHECKING:
    from romco.exporting.tables import ModelTables

Format = Literal["c", "js", "onnx", "sql"]


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
    inner = model.fitted_model() if isinstance(model, Estimator) else model
    if not isinstance(inner, Model):
        kind = type(model).__name__
        raise ValueError(f"romco.export takes models and estimators, which know names, not {kind}")
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with inner.engine.at_rest():
        return _write(read_tables(inner), to, folder)


def _write(tables: "ModelTables", to: Format, folder: Path) -> list[Path]:
    if to in ("c", "js"):
        return write_program(tables, to, folder)
    if to == "onnx":
        return write_onnx(tables, folder)
    if to == "sql":
        return write_sql(tables, folder)
    raise ValueError(f"no format {to!r}: there are c, js, onnx and sql")
