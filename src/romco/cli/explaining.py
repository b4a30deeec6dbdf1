"""The command that tells what was learned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from romco.cli.lines import inert, say
from romco.io import durable
from romco.io.modelfile import load
from romco.io.schema import ONLY_TASK
from romco.model import Model
from romco.runs.resume import load_model


def explain(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model file.")],
    top: Annotated[int, typer.Option(min=1, help="How many tasks in detail.")] = 20,
    html: Annotated[Path | None, typer.Option(help="Write a page.")] = None,
    figures: Annotated[Path | None, typer.Option(help="Write figures into this folder.")] = None,
    task: Annotated[str | None, typer.Option(help="Tell of this task.")] = None,
    event: Annotated[
        str | None,
        typer.Option(help='Why this event of it is answered so: \'{"age": 7, "text": "..."}\'.'),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="What speaks for this label; else for what is predicted.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Reasons as a JSON object.")] = False,
) -> None:
    """What was learned: rank, shared and personal part of each task, similar tasks.

    With --task and --event: what each feature adds to the answer, through what tasks share and
    through what is the task's own; all adds up to the margin. Cells are read as the columns were.
    """
    if event is not None or task is not None:
        if html is not None or figures is not None:
            raise ValueError("--html and --figures tell of all tasks: leave --task and --event out")
        _explain_one(model, task, event, label, top, as_json)
        return
    if label is not None or as_json:
        raise ValueError("--label and --json go with --task and --event")
    from romco.explanations import explain as explained

    found = explained(load(model), top=top)
    if html is not None:  # before anything is printed: whoever reads it may stop reading
        durable.replace(html, [found.page().encode()])
        say(f"page: {html}")
    if figures is not None:
        figures.mkdir(parents=True, exist_ok=True)
        for name, figure in found.figures().items():
            figure.savefig(figures / f"{name}.svg")
        say(f"figures: {figures}")
    print(found)


def _explain_one(
    path: Path, task: str | None, event: str | None, label: str | None, top: int, as_json: bool
) -> None:
    """One task, or one event of it."""
    from romco.explanations import explain_task
    from romco.explanations.text import story
    from romco.runs.predict import explain_cells

    model = load_model(path)
    if event is None:
        if label is not None or as_json:
            raise ValueError("--label and --json go with --event")
        if model.engine.numbers([task])[0] < 0:
            raise ValueError(f"no task {task!r} is known; there are {_examples(model)}")
        told = explain_task(model, task)
        print(inert(f"{told.task}, {told.events:,} events. {story(told)}"))
        return
    schema = model.schema
    if task is None and not (schema is not None and schema.one_task):
        raise ValueError("say whose event it is: --task NAME")
    found = explain_cells(model, _cells(event), ONLY_TASK if task is None else task, label)
    lines = [json.dumps(found.summary(top))] if as_json else map(inert, found.lines(top))
    print("\n".join(lines))


def _examples(model: Model) -> str:
    more = f" and {len(model.tasks) - 5:,} more" if len(model.tasks) > 5 else ""
    return ", ".join(map(repr, model.tasks[:5])) + more if model.tasks else "none yet"


def _cells(event: str) -> dict[str, Any]:
    try:
        cells = json.loads(event)
    except json.JSONDecodeError as error:
        raise ValueError(f"--event is not JSON ({error}): write '{{\"age\": 7}}'") from None
    if not isinstance(cells, dict):
        raise ValueError("--event is one JSON object, its columns by name: '{\"age\": 7}'")
    return cells
