"""Commands for files: learn, ask, predict, evaluate, explain."""

from __future__ import annotations

import typer

from romco.cli import answering, asking, explaining, learning

app = typer.Typer()
for part in (learning, asking, answering, explaining):
    app.add_typer(part.app)
