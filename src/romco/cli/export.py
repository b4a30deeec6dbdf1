"""Command that writes a model for other programs."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from romco import exporting
from romco.cli.output import note
from romco.io.modelfile import load


def export(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    to: Annotated[
        Literal["c", "js", "onnx", "sql"], typer.Option("--to", help="The language or format.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder of the files.")],
) -> None:
    """Write a model's predictions for C, JavaScript, ONNX or SQL.

    The files hold what is needed to predict known and new tasks where romco is not installed.
    """
    loaded = load(model)
    for path in exporting.export(loaded, to, out):
        note(f"{path}: {path.stat().st_size:,} bytes")
