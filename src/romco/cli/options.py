"""Options that commands share, and what is wrong with them in the words of the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from romco.io.formats import FORMATS, format_of
from romco.io.schema import Schema
from romco.model import Model
from romco.model.names import canonical_name
from romco.model.target import Kind
from romco.parameters import setting
from romco.runs import Source
from romco.runs.learn import infer_target

ModelPath = Annotated[Path, typer.Option("--model", help="The model file.")]


def _options(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, or - for stdin.")],
    task: Annotated[
        str | None, typer.Option(help="Column of the task (svmlight: the qid).")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    no_task: Annotated[
        bool, typer.Option("--no-task", help="There is no column of the task.")
    ] = False,
    text: Annotated[str | None, typer.Option(help="Columns a,b,... taken as words.")] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Columns whose every value is a feature.")
    ] = None,
    numeric: Annotated[str | None, typer.Option(help="Columns that must be numbers.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Columns taken as month, day of the week, hour.")
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns that are not used.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns a,b,...; all others if not given.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="csv, tsv, jsonl, parquet or svmlight; else by the name.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count bad rows instead of stopping.")
    ] = False,
) -> Source:
    """What tells a source."""
    asked = {"text": text, "category": categorical, "number": numeric}
    asked |= {"date": date, "ignored": ignore}
    return Source(
        source,
        task,
        label,
        features=listed(features),
        format=format,
        skip_bad=skip_bad,
        kinds=kinds_of(asked) or None,
        one_task=no_task,
    )


def kinds_of(asked: Mapping[str, str | None]) -> dict[str, str]:
    """The kind of each column that an option names."""
    kinds: dict[str, str] = {}
    for kind, names in asked.items():
        for column in listed(names) or ():
            if column in kinds:
                raise ValueError(f"column {column!r} cannot be both {kinds[column]} and {kind}")
            kinds[column] = kind
    return kinds


def reads_source(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options above in place of its first parameter, a :class:`Source`."""
    shared = inspect.signature(_options, eval_str=True).parameters
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    parameters = [*shared.values(), *own]
    needed = [p for p in parameters if p.default is p.empty]
    signature = inspect.Signature([*needed, *(p for p in parameters if p.default is not p.empty)])

    @wraps(command)
    def with_options(**given: Any) -> None:
        source = _options(**{name: given.pop(name) for name in shared})
        command(source, **given)

    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return with_options


def check_source(source: Source, labelled: bool, known: Schema | None = None) -> None:
    """Raise ValueError unless the source, or the model's schema, names its format and columns."""
    name = "stdin" if source.path == "-" else source.path
    if known is not None:
        task, label = source.task or known.task, source.label or known.label
        source = replace(source, label=label, one_task=source.one_task or known.one_task)
        source = source if source.one_task else replace(source, task=task)
    try:
        kind = FORMATS[format_of(name, source.format)]
    except ValueError:
        there = ", ".join(FORMATS)
        problem = "is not known" if source.format else "cannot be told from its name"
        raise ValueError(f"{name}: the format {problem}: say --format, one of {there}") from None
    if source.one_task and source.task is not None:
        raise ValueError(f"{name}: --task {source.task} and --no-task contradict each other")
    if source.task is None and kind.task is None and not source.one_task:
        raise ValueError(
            f"{name}: say which column is the task: --task COLUMN, or --no-task if there is none"
        )
    if source.task is not None and source.task == source.label:
        raise ValueError(f"{name}: column {source.task!r} cannot be both the task and the label")
    if labelled and source.label is None and kind.label is None:
        raise ValueError(f"{name}: say which column is the label: --label COLUMN")


def check_same(
    path: Path,
    model: Model,
    learner: str | None,
    settings: dict[str, Any],
    bits: int | None,
    classes: tuple[str, ...] | None,
    positive: str | None = None,
) -> None:
    """Raise ValueError where options ask for another model than the one that is there."""
    inside, features = model.engine.learner, model.features.to_json()
    if learner is not None and learner != inside.name:
        raise ValueError(f"{path.name} holds {inside.name}, not {learner}: use another model file")
    for name, value in settings.items():
        if inside.parameters.get(name) != value:
            raise ValueError(
                f"{path.name} was made with {name}={inside.parameters.get(name)!r}, not {value!r}: "
                "use another model file"
            )
    if bits is not None and features != {"kind": "hashed", "size": 2**bits}:
        had = f"{features['size']} hashed" if features["kind"] == "hashed" else "named"
        raise ValueError(f"{path.name} has {had} features, not {2**bits} hashed: use another file")
    if classes is not None and model.classes and model.classes != classes[: len(model.classes)]:
        had = ",".join(map(str, model.classes))
        raise ValueError(f"{path.name} has classes {had}, not {','.join(classes)}")
    if positive is not None and canonical_name(positive) != canonical_name(model.engine.positive):
        raise ValueError(
            f"{path.name}: the positive label is {model.engine.positive}, not {positive}"
        )


def listed(text: str | None) -> tuple[str, ...] | None:
    """The parts of "a,b,c"."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


def label_budget(text: str) -> float | int:
    """Return a share of the events as a float, or a number of labels as an int.

    >>> label_budget("5%"), label_budget("0.05"), label_budget("500")
    (0.05, 0.05, 500)
    """
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        if number.isdecimal() and not percent and int(number) > 0:
            return int(number)
        share = float(number) / (100.0 if percent else 1.0)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise ValueError(f"--labels {text}: expected a share (5% or 0.05) or a number (500)")
    return share


def chosen(settings: list[str]) -> dict[str, Any]:
    """Parameters from texts such as ``eta=0.5``: see :func:`romco.parameters.setting`.

    >>> chosen(["eta=0.5", "norm=L2"])
    {'eta': 0.5, 'norm': 'L2'}
    """
    return dict(setting(text) for text in settings)


def wanted_target(asked: str | None, source: Source) -> Kind | None:
    """Return what is to be predicted, None for two classes; "auto" looks at the first labels."""
    if asked in (None, "auto"):
        return infer_target(source)
    if asked in ("two classes", "classes", "number"):
        return None if asked == "two classes" else asked  # type: ignore[return-value]
    raise ValueError(f"--target {asked}: expected auto, two classes, classes or number")
