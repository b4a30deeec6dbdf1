"""Options that commands share: one name, one grammar and one help text for each."""

import inspect
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

from romco.io.formats import FORMATS, format_of
from romco.io.groupings import split_groupings
from romco.io.schema import Schema
from romco.model import Hashed, Model
from romco.model.names import canonical_name
from romco.model.target import Kind
from romco.parameters import setting
from romco.runs import Source

TARGETS: dict[str, Kind | None] = {
    "auto": None,
    "two-classes": "two classes",
    "classes": "classes",
    "number": "number",
}

EXCEL_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods")
ARROW_SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc")

ModelPath = Annotated[Path, typer.Option("--model", help="The model file.")]
Target = Annotated[
    str,
    typer.Option("--target", help="auto (by the first labels), two-classes, classes or number."),
]
Positive = Annotated[
    str | None,
    typer.Option("--positive", help="The positive label; else 1, true, yes, the larger."),
]
Weight = Annotated[str | None, typer.Option("--weight", help="Column of the events' weights.")]
Labels = Annotated[
    str | None, typer.Option("--labels", help="Label budget: a share (5%, 0.05) or a number (500).")
]
Ids = Annotated[str | None, typer.Option("--id", help="Column of ids; else line numbers.")]
Together = Annotated[
    str | None,
    typer.Option(
        "--together", help="Column: rows of one value are predicted before a label of theirs."
    ),
]
Delay = Annotated[
    str | None,
    typer.Option("--delay", help="Labels come so late: 100 (events), 7d (by --together), 12h."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random choices.")]
Data = Annotated[Path, typer.Option("--data", help="The folder of a service: all it has.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
DataDir = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of data sets; else ROMCO_DATA or cache.")
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", min=1, help="Processes; one per core if not given.")
]
Address = Annotated[str | None, typer.Option("--address", help="Address of a running Ray cluster.")]
ResultsFolder = Annotated[Path, typer.Option("--out", help="Folder of the results.")]


def _source(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A file, or - for stdin.")],
    task: Annotated[
        list[str] | None,
        typer.Option(help="Column of the task (svmlight: the qid); again for more groupings."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label.")] = None,
    no_task: Annotated[
        bool, typer.Option("--no-task", help="There is no column of the task.")
    ] = False,
    text: Annotated[str | None, typer.Option(help="Columns a,b,... read as words.")] = None,
    categorical: Annotated[
        str | None, typer.Option(help="Columns whose every value is a feature.")
    ] = None,
    numeric: Annotated[str | None, typer.Option(help="Columns that must be numbers.")] = None,
    date: Annotated[
        str | None, typer.Option(help="Columns read as month, day of the week, hour.")
    ] = None,
    ignore: Annotated[str | None, typer.Option(help="Columns that are not used.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Columns a,b,...; all others if not given.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help=f"{', '.join(FORMATS)}; else by the name.")
    ] = None,
    offset: Annotated[
        list[str] | None,
        typer.Option(help="Column of a known part of the log-odds; CLASS=COLUMN for each class."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count bad rows instead of stopping.")
    ] = False,
) -> Source:
    columns = {"text": text, "category": categorical, "number": numeric}
    columns |= {"date": date, "ignored": ignore}
    first, groupings = split_groupings(task or None)
    roles: dict[str, Any] = {"offset": _offset(offset or []), "groupings": groupings}
    roles |= {"features": split_list(features), "kinds": _kinds(columns) or None}
    how: dict[str, Any] = {"format": format, "skip_bad": skip_bad, "one_task": no_task}
    return Source(source, first, label, **roles, **how)


def _offset(texts: list[str]) -> str | dict[str, str] | None:
    """Return the column, which may have a = in its name, or several by class."""
    if not texts:
        return None
    if len(texts) == 1:
        return texts[0]
    parts = [text.partition("=") for text in texts]
    columns = {name: column for name, _, column in parts}
    if len(columns) < len(parts) or not all(map(all, parts)):
        raise ValueError(f"--offset {' '.join(texts)}: expected CLASS=COLUMN, each class once")
    return columns


def _kinds(columns: Mapping[str, str | None]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for kind, names in columns.items():
        for column in split_list(names) or ():
            if column in kinds:
                raise ValueError(f"column {column!r} cannot be both {kinds[column]} and {kind}")
            kinds[column] = kind
    return kinds


def check_source(source: Source, labelled: bool, known: Schema | None = None) -> None:
    """Raise ValueError unless the source, or the model's schema, names its format and columns."""
    name = source.path
    if source.path == "-":
        name = "stdin"
    if known is not None:
        label = source.label or known.label
        source = replace(source, label=label, one_task=source.one_task or known.one_task)
        if not source.one_task:
            source = replace(source, task=source.task or known.task)
    if Path(name).suffix in EXCEL_SUFFIXES:
        raise ValueError(f"{name}: Excel files are not read: save the sheet as CSV (UTF-8)")
    if Path(name).suffix in ARROW_SUFFIXES:
        raise ValueError(f"{name}: Arrow files are not read: save the table as Parquet")
    try:
        kind = FORMATS[format_of(name, source.format)]
    except ValueError:
        there = ", ".join(FORMATS)
        problem = "does not follow from its name"
        if source.format:
            problem = "is not known"
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


def resolve_source(model: Model, source: Source, labelled: bool) -> tuple[Source, str | None]:
    """Return the source read as the model's columns were, and a warning where they differ."""
    schema = model.schema
    check_source(source, labelled, schema)
    known = source.resolve_to_predict(schema)
    if schema is None:
        return known, None
    return known, known.unknown_columns(schema)


@dataclass(frozen=True)
class ModelOptions:
    """Options that say which model is made; None leaves the default."""

    learner: str | None
    settings: dict[str, Any]
    classes: tuple[str, ...] | None
    positive: str | None
    hash_bits: int | None
    target: Kind | None  # None: by the first labels
    history: tuple[str, ...] | None
    time: str | None

    def values(self) -> dict[str, Any]:
        """Return values by option, None where it was not given."""
        return {
            "--learner": self.learner,
            "--set": self.settings or None,
            "--hash": self.hash_bits,
            "--target": self.target,
            "--classes": self.classes,
            "--positive": self.positive,
            "--history": self.history,
        }

    def new(self, kind: Callable[..., Any], schema: Schema | None, *parts: Any, **more: Any) -> Any:
        """Return a model or shards; a history goes with the schema of its columns."""
        labels = {"classes": self.classes, "positive": self.positive}
        given: dict[str, Any] = {"target": self.target, **labels}
        if self.hash_bits is not None:
            given["features"] = Hashed(2**self.hash_bits)
        given |= self.parameters(schema) | more
        return kind(self.learner or "romco-auto", *parts, **given)

    def parameters(self, schema: Schema | None) -> dict[str, Any]:
        """Return the learner's parameters, and the history with the schema of its columns."""
        if self.history is None:
            return self.settings
        return {**self.settings, "history": self.history, "schema": schema}

    def kinds(self, given: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return kinds of columns with those of the history, which are categories."""
        kinds = dict(given or {})
        for column in self.history or ():
            if kinds.setdefault(column, "category") != "category":
                raise ValueError(f"--history {column}: it must be a category, not {kinds[column]}")
        if self.time is None:
            return kinds
        return {**kinds, self.time: "time"}

    def check(self, path: Path, model: Model) -> None:
        """Raise ValueError where options contradict the model that is there."""
        inside, known = model.engine.learner, model.classes
        columns = bits = learner = labels = positive = None
        if model.engine.history is not None:
            columns = model.engine.history.kernel.columns
        if isinstance(model.features, Hashed):
            bits = model.features.width.bit_length() - 1
        if self.learner is not None:
            learner = self.learner.removesuffix("-number")
        if self.classes is not None and known:
            labels = self.classes[: len(known)]
        if self.positive is not None:
            positive = canonical_name(self.positive)
        held = inside.parameters.get("inner", inside.name)  # of many classes that of each
        settings = inside.parameters.get("parameters", inside.parameters)
        pairs = [
            ("--history", self.history, columns),
            ("--learner", learner, held.removesuffix("-number")),
            ("--hash", self.hash_bits, bits),
            ("--classes", labels, known),
            ("--positive", positive, canonical_name(model.engine.target.positive)),
        ]
        for name, value in self.settings.items():
            pairs.append((f"--set {name}", value, settings.get(name)))
        for option, given, had in pairs:
            if given is not None and given != had:
                raise ValueError(
                    f"{path.name} was made {_spelled(option, had)}, not {_spelled(option, given)}: "
                    "use another model file"
                )


def _spelled(option: str, value: Any) -> str:
    if value is None:
        return f"without {option}"
    if isinstance(value, tuple):
        value = ",".join(map(str, value))
    return f"with {option} {value}"


def _model_options(
    learner: Annotated[
        str | None, typer.Option(help="One of `romco learners`; else romco-auto.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="parameter=value, repeatable.")
    ] = None,
    hash_bits: Annotated[
        int | None,
        typer.Option(
            "--hash", min=1, max=30, help="Hash features to 2^BITS columns.", metavar="BITS"
        ),
    ] = None,
    target: Target = "auto",
    classes: Annotated[
        str | None, typer.Option(help="All labels, of two NEGATIVE,POSITIVE; else as they come.")
    ] = None,
    positive: Positive = None,
    history: Annotated[
        str | None,
        typer.Option(help="Categories a,b,..., coarse to fine: learn from past labels of each."),
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of the time, for --history; no feature.")
    ] = None,
) -> ModelOptions:
    if time is not None and history is None:
        raise ValueError(f"--time {time} is for --history: name its columns too")
    past, kind = split_list(history), parse_target(target)
    labels, settings = split_list(classes), parse_settings(set_)
    return ModelOptions(learner, settings, labels, positive, hash_bits, kind, past, time)


MAKERS: dict[Any, Callable[..., Any]] = {Source: _source, ModelOptions: _model_options}


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its parameters of type ``Source`` and ``ModelOptions``.

    A default of such a parameter becomes the default of its first option.
    """
    own = inspect.signature(command, eval_str=True).parameters
    names: dict[str, list[str]] = {}  # of the options that replace a parameter
    parameters: list[inspect.Parameter] = []
    for name, parameter in own.items():
        options = [parameter]
        if parameter.annotation in MAKERS:
            make = MAKERS[parameter.annotation]
            options = list(inspect.signature(make, eval_str=True).parameters.values())
            names[name] = list(map(attrgetter("name"), options))
            if parameter.default is not parameter.empty:
                options[0] = options[0].replace(default=parameter.default)
        parameters += options
    parameters.sort(key=lambda p: p.default is not p.empty)

    @wraps(command)
    def with_options(**given: Any) -> None:
        for name, options in names.items():
            make = MAKERS[own[name].annotation]
            given[name] = make(*map(given.pop, options))
        command(**given)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_options


def split_list(text: str | None) -> tuple[str, ...] | None:
    """Split "a,b,c"."""
    if text is None:
        return None
    return tuple(map(str.strip, text.split(",")))


def parse_settings(settings: list[str] | None) -> dict[str, Any]:
    """Return parameters from texts such as ``eta=0.5``: see :func:`romco.parameters.setting`."""
    return dict(map(setting, settings or []))


def parse_label_budget(text: str) -> float | int:
    """Return a share of the events as a float, or a number of labels as an int.

    >>> parse_label_budget("5%"), parse_label_budget("0.05"), parse_label_budget("500")
    (0.05, 0.05, 500)
    """
    number = text.strip()
    try:
        if number.isdecimal() and int(number) > 0:
            return int(number)
        if number.endswith("%"):
            share = float(number[:-1]) / 100.0
        else:
            share = float(number)
    except ValueError:
        share = 0.0
    if not 0.0 < share <= 1.0:
        raise ValueError(f"--labels {text}: expected a share (5% or 0.05) or a number (500)")
    return share


def parse_target(text: str) -> Kind | None:
    """Return the kind of target, None for "auto"."""
    if text not in TARGETS:
        raise ValueError(f"--target {text}: expected {', '.join(TARGETS)}")
    return TARGETS[text]


def check_known(what: str, value: str, known: Iterable[str]) -> None:
    """Raise ValueError that lists the known values where ``value`` is not one of them."""
    if value not in known:
        raise ValueError(f"unknown {what} {value!r}; known are {', '.join(known)}")


def typed_command() -> str:
    """Return the command as it was typed, without the path of the program."""
    return shlex.join(["romco", *sys.argv[1:]])
