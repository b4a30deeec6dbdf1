"""The command that estimates the reward of a policy from the log of another one."""

import json
import warnings
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from romco.choosing import Chooser
from romco.cli.options import AsJson, split_list
from romco.cli.output import note, warn
from romco.files import load
from romco.policies import evaluate, read_log


def evaluate_policy(
    log: Annotated[str, typer.Argument(help="A log: .csv, .jsonl, .parquet, .vw or .dsjson.")],
    action: Annotated[str, typer.Option(help="Column of the action that was chosen.")] = "action",
    reward: Annotated[str, typer.Option(help="Column of its reward.")] = "reward",
    probability: Annotated[
        str,
        typer.Option(help="Column of its probability, or of JSON objects with those of all."),
    ] = "probability",
    task: Annotated[str | None, typer.Option(help="Column of the person.")] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns a,b,... that are not used.")] = None,
    policy: Annotated[
        str,
        typer.Option(help='greedy, uniform, "always NAME", or the file of a saved chooser.'),
    ] = "greedy",
    max_weight: Annotated[
        float | None, typer.Option(min=1.0, help="Clip larger weights; biases the estimates.")
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(help="csv, jsonl, ..., vw, dsjson or open-bandit; else by the name."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what a policy would have earned, from a log with probabilities.

    Columns that have no other role are the context. The last estimate, doubly robust, is the one to
    trust; greedy is the best action by rewards of other parts of the log.
    """
    choices = read_log(
        log,
        action=action,
        reward=reward,
        probability=probability,
        task=task,
        ignore=split_list(ignore) or (),
        format=format,
    )
    chosen: str | Chooser = policy
    if policy not in ("greedy", "uniform") and Path(policy).is_file():
        chosen = load(policy)
        if not isinstance(chosen, Chooser):
            raise ValueError(f"{policy} holds no chooser, but a {type(chosen).__name__}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they are in the result
        value = evaluate(choices, chosen, max_weight=max_weight)
    if as_json:
        estimates = {name: _finite(one._asdict()) for name, one in value.estimates.items()}
        print(json.dumps({**asdict(value), "estimates": estimates}))
        return
    print(value.table())
    note(f"expected effective sample size {value.effective_size:,.0f} of {value.events:,}")
    note(f"weights clipped: {value.clipped:.1%}")
    for text in value.warnings:
        warn(text)


def _finite(values: dict[str, float]) -> dict[str, float | None]:
    """Return numbers that JSON has, None for others."""
    return {name: number if isfinite(number) else None for name, number in values.items()}
