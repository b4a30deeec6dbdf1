"""The command that fits a model to a file."""

from dataclasses import replace
from functools import partial

import typer

from romco import runs
from romco.cli.learn import new_model, show_progress
from romco.cli.options import ModelOptions, ModelPath, Seed, Weight, check_source, expand_options
from romco.cli.output import note, note_schema, note_skipped, quantity
from romco.model import Model
from romco.presentation.tables import Table, as_text, mark_best
from romco.runs import Source
from romco.runs.fit import SAMPLED_ROWS, FitRun, HeldOut
from romco.runs.resume import STDIN, locked_model


@expand_options
def fit(
    source: Source,
    model: ModelPath,
    options: ModelOptions,
    weight: Weight = None,
    seed: Seed = 0,
) -> None:
    """Fit a new model to all rows of a file, to predict later without answers.

    For streams, and to go on learning, take learn. The model replaces that in the file; a table
    shows its errors on rows held out, beside one plain regression.
    """
    if source.path == STDIN:
        raise ValueError("romco fit needs a file, which it reads twice; romco learn takes stdin")
    check_source(source, True)
    kinds = options.kinds(source.kinds) or None
    source = replace(source, weight=weight, kinds=kinds, sample_rows=SAMPLED_ROWS)
    stop = runs.Stop()
    stopped = f"stopped: {model} is as it was"
    with show_progress(stop, stopped) as show, locked_model(model):
        source = source.resolve()
        _, options = new_model(source, options)
        make = partial(_new, source, options)

        def report(text: str, share: float) -> None:
            show(lambda _: f"{text}: {share:.0%}")
            if stop.wanted:
                note(stopped)
                raise typer.Exit(143)

        run = FitRun(source, make, seed, report)
        rows = run.read()
        held_out = list(run.hold_out(rows))
        fitted = run.fit(rows)
        run.save(fitted, rows, model)
    assert source.schema is not None
    note_schema(source.schema)
    note_skipped(run.skipped)
    if held_out:
        print(as_text(_table(held_out, fitted.engine.target.kind == "number")))
    else:
        note("too few rows to hold some out: how well it predicts is not known")
    events = quantity(fitted.events, "event")
    tasks = quantity(len(fitted.tasks), "task")
    note(f"model: {model}, fitted to {events} of {tasks}")
    note("it predicts later without answers; to go on learning, take romco learn")


def _new(source: Source, options: ModelOptions) -> Model:
    model, _ = new_model(source, options)
    return model


def _table(held_out: list[HeldOut], number: bool) -> Table:
    """Return a table of errors on rows held out."""
    names = ["error", "log loss"]
    if number:
        names = ["RMSE"]
    head = ["held out", "events", *names, *(f"regression {name}" for name in names)]
    rows = []
    for one in held_out:
        row = [one.name, f"{one.rows:,}"]
        for errors in (one.model, one.regression):
            if errors is None:
                row += ["-"] * len(names)
            elif number:
                row.append(f"{errors.error:.4g}")
            else:
                row += [f"{errors.error:.2%}", f"{errors.log_loss:.4f}"]
        rows.append(row)
    notes = ["regression: one for all, the task one-hot"]
    return Table("", head, mark_best(rows), notes)
