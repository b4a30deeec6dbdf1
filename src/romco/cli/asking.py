"""The command that asks for labels, and what learning does where they cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from romco.cli.lines import say, warn
from romco.cli.options import ModelPath, check_source, label_budget, reads_source
from romco.io.modelfile import save
from romco.labels import Budget
from romco.labels.audit import Audit
from romco.model import Model
from romco.runs import Source
from romco.runs import ask as requests
from romco.runs.ask import BudgetedModel
from romco.runs.resume import load_model, locked_model

ROWS_AT_A_TIME = 10_000


@reads_source
def ask(
    source: Source,
    model: ModelPath,
    budget: Annotated[int, typer.Option(min=1, help="How many labels to ask for, at most.")],
    out: Annotated[Path, typer.Option(help="Where the events to label go: .csv or .jsonl.")],
    id: Annotated[str | None, typer.Option(help="Column of the ids; else lines are ids.")] = None,
    floor: Annotated[int, typer.Option(min=0, help="So many of each task come first.")] = 0,
    audit: Annotated[float, typer.Option(help="Part of the labels asked for by chance.")] = 0.1,
    seed: Annotated[int, typer.Option(min=0, help="Of what chance decides.")] = 0,
) -> None:
    """Write the events of a file that are worth a label, the most urgent first.

    Fill in the label column and give the file back: romco learn OUT --asked OUT --model MODEL;
    or give the answers alone, a file with columns ask_id and the label, in any order.
    """
    found = load_model(model)
    schema = found.schema
    check_source(source, False, schema)
    known = source.resolve_to_predict(schema)
    assert known.schema is not None
    warn(None if schema is None else known.unknown_columns(schema))
    if found.engine.target.kind != "two classes":
        raise ValueError(
            f"romco ask is for two classes; {model.name} predicts {found.engine.target.kind}"
        )
    options: dict[str, Any] = {"floor": floor, "audit": audit, "seed": seed}
    asked = requests.choose_requests(found, known, budget, id, **options)
    requests.write_requests(asked, out, known.schema.label)
    chance = sum(request.why == requests.BY_CHANCE for request in asked)
    say(f"{len(asked):,} events to label, {chance:,} of them by chance to tell the error: {out}")


def learn_answers(source: Source, path: Path, asked: Path, id: str | None) -> None:
    """Learn answers to what was asked for into a model's file."""
    with locked_model(path) as model:
        if model is None:
            raise FileNotFoundError(f"there is no model file {path}")
        schema = model.schema
        label = source.label or (None if schema is None else schema.label)
        file = Source(str(asked), skip_bad=source.skip_bad)
        came = requests.learn_answers(model, replace(source, label=label), file, id)
        save(model, path)
    say(str(came))
    found = Audit.of(model.session).error()
    if found is not None:
        say(f"error of all predictions by audit: {found}")


def under_budget(text: str, source: Source, model: Any, seed: int = 0) -> BudgetedModel:
    """Return a model that learns a part of the labels; one that has a policy keeps it."""
    if not isinstance(model, Model) or model.engine.target.kind != "two classes":
        raise ValueError("--labels goes with two classes, and neither with --threads nor --shards")
    if model.labels is None:
        model.labels = _policy(label_budget(text), source, seed)
    return BudgetedModel(model)


def _policy(labels: float | int, source: Source, seed: int) -> Budget:
    """Return the policy of a share, or of a number of labels among the events of a file."""
    if isinstance(labels, float):
        return Budget(labels, seed=seed)
    if source.path == "-":
        raise ValueError(f"--labels {labels} of stdin: its length is not known, give a share (5%)")
    with replace(source, skip_bad=True).open() as reader:
        events = sum(len(block) for block in reader.blocks(ROWS_AT_A_TIME))
    return Budget.of(min(labels, events), events, seed=seed)
