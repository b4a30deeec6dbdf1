"""Commands on a service's folder: forget people, and verify that they were forgotten exactly."""

import tempfile
from collections.abc import Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.progress import Progress as Bar

from romco.cli.options import Data
from romco.cli.output import console, note
from romco.io import durable
from romco.version import __version__

if TYPE_CHECKING:
    from romco.forgetting import Certificate, Replay
    from romco.server.store import Store

NO_LIMIT = 2**62
LOOK_SECONDS = 0.1  # between two looks at the progress


def forget(
    task: Annotated[list[str], typer.Argument(metavar="TASK...", help="Whom to forget.")],
    data: Data,
    exact: Annotated[
        bool, typer.Option("--exact", help="As if never learned: replay the log without them.")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option(help="File of the certificate; else it is printed.")
    ] = None,
) -> None:
    """Forget tasks in the folder of a service; stopped half-way, the same command goes on."""
    try:
        from romco.forgetting import open_service
        from romco.server.protocol import Settings, encode
        from romco.server.store import DATABASE
    except ModuleNotFoundError as missing:
        raise ImportError(f"this needs {missing.name}: pip install 'romco[serve]'") from missing

    if not (data / DATABASE).exists():
        raise FileNotFoundError(f"{data} is no folder of a service")
    limits = {"ids": NO_LIMIT, "pending_events": NO_LIMIT, "pending_bytes": NO_LIMIT}
    service = open_service(data, _no_model, Settings(pending_seconds=float("inf"), **limits))  # type: ignore[arg-type]
    try:
        service.start()
        answers = [service.forget(name, exact) for name in task]
        found = list(map(partial(_wait, service), answers))
    finally:
        service.close()
    note(f"forgotten: {', '.join(task)}")
    if not exact:
        return
    for proof in dict.fromkeys(map(encode, found)):
        if certificate is None:
            print(proof.decode())
        else:
            durable.replace(certificate, [proof])
            note(f"certificate: {certificate}")


def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERTIFICATE", help="A JSON file.")],
    data: Data,
    task: Annotated[str | None, typer.Option(help="The name that was forgotten.")] = None,
) -> None:
    """Verify a certificate of exact forgetting: replay the log and compare; changes nothing."""
    from romco.forgetting import read_certificate
    from romco.server.protocol import Settings
    from romco.server.store import DATABASE, Store

    try:
        proof = read_certificate(certificate.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{certificate.name} is no certificate: {error}") from None
    if proof.version != __version__:
        raise ValueError(f"the certificate is of romco {proof.version}: verify it with that one")
    if not (data / DATABASE).exists():
        raise FileNotFoundError(f"{data} is no folder of a service")
    words = {True: "yes", False: "NO"}
    verified = True
    with Store(data, Settings()) as store:
        try:
            for what, holds in _checks(store, proof, task):
                note(f"{what}: {words[holds]}")
                verified = verified and holds
        except (TypeError, ValueError) as error:  # of values of another type
            note(f"the folder can be read: NO, {error}")
            verified = False
    if not verified:
        note("not verified; a later exact forgetting changes the log: use its certificate")
        raise typer.Exit(1)
    note("verified")


def _checks(
    store: "Store", proof: "Certificate", task: str | None
) -> Generator[tuple[str, bool], None, None]:
    """Yield what a certificate states, and whether it holds."""
    from romco.files import load
    from romco.forgetting import Replay, hash_bytes, hash_file, hash_log
    from romco.server.state import ServedModel
    from romco.server.store import list_stored

    if task is not None:
        yield "the certificate names the task", proof.names(task)
        stored = list_stored(store.folder, task)
        yield "the database does not know the task", not any(stored.values())
    last = proof.log.sequence
    with tempfile.TemporaryDirectory() as folder, Replay(store, Path(folder), ()) as replay:
        base = store.folder / replay.base[1]
        yield "the log begins with the same model", hash_file(base) == proof.base.sha256
        yield "the log is the same", _last(hash_log(store, last)) == proof.log.sha256
        _last(replay.open())
        stated = proof.base.sequence, proof.base_events, proof.model.sequence
        found = replay.base[0], replay.base_events, last
        yield "the numbers of changes and events are the same", stated == found
        model = _replay(replay, last)
        log = _last(hash_log(replay.new, last))
        _, _, scores = replay.served.copy()
        yield "the log follows from its events alone", log == proof.log.sha256
        yield "the model follows from the log", model == proof.model.sha256
        yield "the scores follow from the log", hash_bytes(scores) == proof.scores
        end, file, _ = store.last_checkpoint()
        served = hash_file(store.folder / file)
        yield "the folder's model follows from its log", _replay(replay, end) == served
        if task is not None:
            models = map(load, store.folder.glob("model-*.romco"))
            known = any(ServedModel(model).knows(task) for model in models)
            yield "no model in the folder knows the task", not known


def _replay(replay: "Replay", last: int) -> str:
    """Replay up to a change; return the SHA-256 of the model file."""
    from romco.forgetting import hash_file

    with _bar() as bar:
        line = bar.add_task("replaying", total=1.0)
        while replay.advance(last):
            bar.update(line, completed=replay.share)
    _, state, _ = replay.served.copy()
    return hash_file(replay.new.folder / replay.new.save_model(state, last))


def _last(steps: Any) -> Any:
    """Run a generator to its end; return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def _wait(service: Any, future: Future[Any]) -> Any:
    """Return the result of a future; show the progress of the replay until it comes."""
    with _bar() as bar:
        line = bar.add_task("replaying", total=1.0)
        while True:
            try:
                return future.result(LOOK_SECONDS)
            except NotDone:
                bar.update(line, completed=service.exact.share or 0.0)


def _bar() -> Bar:
    return Bar(console=console, transient=True, disable=not console.is_terminal)


def _no_model() -> NoReturn:
    raise ValueError("the folder has no model")
