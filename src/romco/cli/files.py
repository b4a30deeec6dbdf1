"""Commands for files: learn, predict, evaluate, explain."""

from __future__ import annotations

import typer

from romco.cli import answering, explaining, learning

app = typer.Typer()
for part in (learning, answering, explaining):
    app.add_typer(part.app)
