"""The command that tells what was learned."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from romco import durable
from romco.cli.lines import say
from romco.modelfile import load

app = typer.Typer()


@app.command()
def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    top: Annotated[int, typer.Option(min=1, help="How many tasks in detail.")] = 20,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write figures into this folder.")] = None,
) -> None:
    """What was learned: rank, shared and personal part of each task, similar tasks."""
    from romco.insight import explain as explained

    found = explained(load(model), top=top)
    print(found)
    if html is not None:
        durable.replace(html, [found.page().encode()])
        say(f"page: {html}")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for name, figure in found.figures().items():
            figure.savefig(figures / f"{name}.svg")
        say(f"figures: {figures}")
