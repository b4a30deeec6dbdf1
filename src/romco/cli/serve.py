"""Commands of the service: serve, token."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from romco.cli.options import check_same, chosen, listed
from romco.model import Columns, Features, Hashed, Model, Names
from romco.runs.resume import load_model

console = Console(stderr=True)


def serve(
    model: Annotated[
        Path | None, typer.Argument(metavar="[MODEL]", help="A model file to begin with.")
    ] = None,
    data: Annotated[
        Path, typer.Option(help="The folder that holds everything; made if it is not there.")
    ] = Path("romco-data"),
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8400,
    learner: Annotated[str | None, typer.Option(help="One of `romco learners`.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="parameter=value, repeatable.")
    ] = None,
    features: Annotated[
        str | None, typer.Option(help="names, hashed:2^18, or columns:N; else names.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="two classes, classes or number; else two classes.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help="The labels, of two NEGATIVE,POSITIVE; else as they come.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(help="Share of the events whose answers may be asked for.")
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option("--from", help="Learn a stream too: redis://host:port/db?stream=NAME."),
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
    ids: Annotated[int, typer.Option(min=1, help="Ids that are remembered.")] = 1_000_000,
    pending_seconds: Annotated[
        float, typer.Option(min=1.0, help="How long a prediction waits for its answer.")
    ] = 86_400.0,
    pending_events: Annotated[int, typer.Option(min=1, help="How many wait.")] = 100_000,
    grace: Annotated[float, typer.Option(min=1.0, help="Seconds that a stop may take.")] = 20.0,
) -> None:
    """Serve a model over HTTP: predict, answer later, learn each answer once, lose nothing."""
    try:
        from romco.server.redis_streams import RedisStream
        from romco.server.servers import Address
        from romco.server.servers import serve as serve_until_stopped
        from romco.server.settings import Settings
        from romco.server.stores import Store
    except ModuleNotFoundError as missing:
        raise ImportError(f"serving needs {missing.name}: pip install 'romco[serve]'") from missing

    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    parameters, labels = chosen(set_ or []), listed(classes)
    kind = None if features is None else features_of(features)
    settings = Settings(
        durability=durability,  # type: ignore[arg-type]
        group_events=group_events,
        group_ms=group_ms,
        checkpoint_events=checkpoint_events,
        checkpoint_seconds=checkpoint_seconds,
        ids=ids,
        pending_seconds=pending_seconds,
        pending_events=pending_events,
        budget=budget,
    )

    def new() -> Model:
        if model is not None:
            return load_model(model)
        return Model(learner or "romco-auto", kind, target=target, classes=labels, **parameters)  # type: ignore[arg-type]

    def ready(url: str, store: Store) -> None:
        bits = kind.width.bit_length() - 1 if isinstance(kind, Hashed) else None
        check_same(data, store.live.model, learner, parameters, bits, labels)
        known = f", {store.live.sequence:,} changes known" if store.live.sequence else ""
        _say(f"data: {data}{known}")
        _say(f"page: {url}")

    source = None if from_ is None else RedisStream(from_)
    address = Address(host, port, token_file, insecure, tuple(name or ()), grace)
    if not serve_until_stopped(data, new, settings, address, ready, source):
        _say("stopped before a checkpoint was written: the log holds everything")


def token(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Where its hash is kept.")],
    scopes: Annotated[str, typer.Option(help="read, write, or read,write.")] = "read,write",
    name: Annotated[str, typer.Option(help="Whose it is, for you.")] = "",
) -> None:
    """Make a token for `romco serve --token-file`; it is printed now and never again."""
    from romco.server.tokens import create

    print(create(path, list(listed(scopes) or ()), name))


def features_of(text: str) -> Features:
    """Features as the command line names them.

    >>> features_of("hashed:2^18").width
    262144
    """
    kind, _, size = text.partition(":")
    base, power, exponent = size.partition("^")
    try:
        number = int(base) ** int(exponent) if power else int(size or 2**18)
    except ValueError:
        number = 0
    if kind == "names" and not size:
        return Names()
    if kind == "hashed" and number > 0:
        return Hashed(number)
    if kind == "columns" and size and number > 0:
        return Columns(number)
    raise ValueError(f"--features {text}: expected names, hashed:2^18 or columns:N")


def _say(text: str) -> None:
    console.print(text, highlight=False, soft_wrap=True, markup=False)
