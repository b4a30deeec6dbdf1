"""Commands of the service: serve, token."""

import json
import logging
import secrets
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from romco.choosing import Chooser
from romco.choosing.state import text_names
from romco.cli.options import (
    Data,
    Labels,
    ModelOptions,
    expand_options,
    parse_label_budget,
    split_list,
)
from romco.cli.output import note
from romco.files import load
from romco.io.groupings import expand_groupings
from romco.io.schema import Schema
from romco.model import Columns, Model
from romco.runs.resume import load_model


@expand_options
def serve(
    options: ModelOptions,
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A model file to begin with.")
    ] = None,
    data: Data = Path("romco-data"),
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8400,
    columns: Annotated[
        int | None, typer.Option(min=1, help="Events are arrays of so many numbers.")
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(help="A grouping; again for more: the task of an event lists their levels."),
    ] = None,
    labels: Labels = None,
    actions: Annotated[
        str | None,
        typer.Option(
            help="Choose instead of predict: a,b,... are offered where a request names none; "
            '"": none are.'
        ),
    ] = None,
    reward: Annotated[
        str | None, typer.Option(help="Rewards of choices: yes/no or number; else yes/no.")
    ] = None,
    floor: Annotated[
        float | None, typer.Option(min=0.0, max=1.0, help="Part of the choices that is uniform.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Learn a stream too: redis://host:port/db?stream=NAME, kafka://host:port/TOPIC.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(help="Tokens that may come in, see `romco token`.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines in without tokens.")
    ] = False,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name by which clients know it, repeatable.")
    ] = None,
    durability: Annotated[str, typer.Option(help="durable, logged or none.")] = "durable",
    group_events: Annotated[int, typer.Option(min=1, help="Events synced together.")] = 256,
    group_ms: Annotated[float, typer.Option(min=0.0, help="How long they wait.")] = 2.0,
    checkpoint_events: Annotated[int, typer.Option(min=1, help="Events apart.")] = 100_000,
    checkpoint_seconds: Annotated[float, typer.Option(min=1.0, help="Seconds apart.")] = 300.0,
    keep_log: Annotated[
        bool | None,
        typer.Option(
            "--keep-log/--trim-log", help="All events stay, to forget exactly; else as before."
        ),
    ] = None,
    ids: Annotated[int, typer.Option(min=1, help="Ids that are remembered.")] = 1_000_000,
    pending_seconds: Annotated[
        float, typer.Option(min=1.0, help="How long a prediction waits for its answer.")
    ] = 86_400.0,
    pending_events: Annotated[int, typer.Option(min=1, help="How many wait.")] = 100_000,
    grace: Annotated[float, typer.Option(min=1.0, help="Seconds that a stop may take.")] = 20.0,
    log_json: Annotated[
        bool, typer.Option("--log-json", help="Log one JSON object per line.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check options and data folder, serve nothing.")
    ] = False,
) -> None:
    """Serve a model over HTTP: predict, answer later, learn each answer once, lose nothing."""
    try:
        from romco.choosing_service import ChoosingApplication, ChoosingService
        from romco.forgetting import hash_file, open_service
        from romco.server.app import Application, Server
        from romco.server.protocol import Settings
        from romco.server.routes import Access
        from romco.server.writer import Service
        from romco.streams.brokers import open_source
    except ModuleNotFoundError as missing:
        raise ImportError(f"serving needs {missing.name}: pip install 'romco[serve]'") from missing

    _log_to_stderr(log_json)
    if options.hash_bits is not None and columns is not None:
        raise ValueError("--hash and --columns contradict each other: events are named or arrays")
    if keep_log and actions is not None:
        raise ValueError("--keep-log and --actions contradict each other: a chooser keeps no log")
    if actions is None:
        _refuse({"--reward": reward, "--floor": floor}, "is for choices: give --actions too")
    else:
        of_models = {"--columns": columns, "--task": task, "--labels": labels, **options.values()}
        _refuse(of_models, "is for models, --actions for choices: leave one out")
    groupings = list(expand_groupings(task or ()))
    if groupings[1:] and columns is not None:
        raise ValueError("--task and --columns contradict each other: groupings have names")
    budget = None
    if labels is not None:
        budget = _share(labels)
    settings = Settings(
        durability=durability,  # type: ignore[arg-type]
        group_events=group_events,
        group_ms=group_ms,
        checkpoint_events=checkpoint_events,
        checkpoint_seconds=checkpoint_seconds,
        ids=ids,
        keep_log=keep_log,
        pending_seconds=pending_seconds,
        pending_events=pending_events,
        budget=budget,
    )
    source = None
    if from_ is not None:
        source = open_source(from_)
    access = Access.of_host(host, token_file, insecure, name or ())  # before the folder is touched
    origin = ""
    if model is not None:
        origin = f"{model.name} {hash_file(model)}"
    service: Service
    application = Application
    if actions is None:
        new = partial(_make_model, options, model, columns, groupings)
        service = open_service(data, new, settings, origin)
    else:
        offered = _parse_actions(actions)
        new_chooser = partial(_make_chooser, model, reward, floor, pending_events)
        service = ChoosingService(data, new_chooser, settings, origin, offered)
        application = ChoosingApplication
    try:
        if actions is None:
            options.check(data, service.served.model)
        else:
            _check_chooser(data, service.served.model, reward, floor)
        if groupings[1:] and groupings != service.served.groupings:
            raise ValueError(f"{data.name} was begun with other groupings: use another folder")
        known = ""
        if service.last_sequence:
            known = f", {service.last_sequence:,} changes known"
        note(f"data: {data}{known}")
        if check:
            service.store.check()
            service.close()
            note("configuration and data folder are in order")
            return
        server = Server(service, access, host, port, grace, application)
    except BaseException:
        service.close()
        raise
    note(f"page: {server.url}")
    if not server.run(source):
        note("stopped before a checkpoint was written: the log holds everything")


def token(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where its hash is kept.")],
    scopes: Annotated[
        str, typer.Option(help="Of read, write and admin, as read,write.")
    ] = "read,write",
    name: Annotated[str, typer.Option(help="Whose it is, for you.")] = "",
) -> None:
    """Make a token for `romco serve --token-file`; it is printed now and never again."""
    from romco.server.routes import create_token

    print(create_token(path, list(split_list(scopes) or ()), name))


def _make_model(
    options: ModelOptions, path: Path | None, columns: int | None, groupings: list[str]
) -> Model:
    """Load the model that a server begins with, or make a new one."""
    if path is not None:
        return load_model(path)
    features = {}
    if columns is not None:
        features = {"features": Columns(columns)}
    kinds = options.kinds() | dict.fromkeys(groupings[1:], "category")
    schema = Schema(kinds, task=groupings)
    made: Model = options.new(Model, schema, **features)
    if groupings[1:]:
        made.schema = schema
    return made


def _refuse(given: Mapping[str, Any], why: str) -> None:
    """Raise ValueError where an option was given."""
    for option, value in given.items():
        if value is not None:
            raise ValueError(f"{option} {why}")


def _parse_actions(text: str) -> tuple[str, ...]:
    """Return the actions that are offered where a request names none."""
    if not text:
        return ()
    names = split_list(text) or ()
    if "" in names:
        raise ValueError(f"--actions {text}: an action has no name")
    Chooser().probabilities({}, actions=names)  # refuses an action that is there twice
    return names


def _check_chooser(data: Path, chooser: Any, reward: str | None, floor: float | None) -> None:
    """Raise ValueError where options contradict the chooser that is there."""
    pairs = ("--reward", reward, chooser.kind), ("--floor", floor, chooser.floor)
    for option, given, had in pairs:
        if given is not None and given != had:
            raise ValueError(
                f"the chooser of {data.name} has {option} {had}, not {given}: leave {option} out, "
                "or use another folder"
            )


def _make_chooser(path: Path | None, reward: Any, floor: float | None, pending: int) -> Chooser:
    """Load the chooser that a server begins with, or make a new one."""
    if path is None:
        seed = secrets.randbits(32)  # nobody can choose an action by the choice of an id
        return Chooser(reward or "yes/no", floor=floor or 0.0, seed=seed, pending=pending)
    made = load(path)
    if not isinstance(made, Chooser):
        raise ValueError(f"{path.name} holds no chooser, but a {type(made).__name__}")
    try:
        return Chooser.from_state(text_names(made.state()))
    except ValueError as error:
        raise ValueError(f"{path.name}, where names become text: {error}") from None


def _log_to_stderr(as_json: bool) -> None:
    """Log warnings in plain lines; as JSON, also what is only informative."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    level = logging.WARNING
    if as_json:
        handler.setFormatter(JsonFormatter())
        level = logging.INFO
    logging.basicConfig(level=level, handlers=[handler])


def _share(labels: str) -> float:
    """Return the label budget of a server, whose stream has no known end."""
    share = parse_label_budget(labels)
    if isinstance(share, int):
        raise ValueError(f"--labels {labels}: a server has no last event, give a share (5%)")
    return share


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger and message, and the traceback if there is one."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)
