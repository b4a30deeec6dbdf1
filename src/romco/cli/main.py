"""The command line; thin: it reads options, calls one function, prints."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from romco import __version__
from romco.cli import experiments, files, serve

app = typer.Typer(
    help="Online multi-task learning: one linear model per task, shared where tasks agree.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(experiments.app)
app.add_typer(files.app)
app.add_typer(serve.app)


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line; what goes wrong is a line on stderr and exit code 2."""
    try:
        app()
    except BrokenPipeError:  # who read our output has had enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, ArithmeticError, MemoryError, ImportError) as error:
        text = f"[red]error:[/red] {escape(_reason(error))}"
        Console(stderr=True).print(text, soft_wrap=True, highlight=False)
        sys.exit(2)


def _reason(error: Exception) -> str:
    """What went wrong, in one line."""
    if isinstance(error, OSError) and error.strerror:
        what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    else:
        what = str(error) or type(error).__name__
    what = " ".join([what, *(f"({note})" for note in getattr(error, "__notes__", []))])
    return "".join(c if c.isprintable() else " " for c in what)
