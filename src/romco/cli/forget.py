"""Commands on a service's folder: forget people, and verify that they were forgotten exactly."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotDone
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.progress import Progress as Bar

from romco.cli.options import Data
from romco.cli.output import console, note
from romco.io import durable
from romco.version import __version__

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
    from romco.forgetting import check_certificate, read_certificate
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
            for what, holds in check_certificate(proof, store, task, _replaying):
                note(f"{what}: {words[holds]}")
                verified = verified and holds
        except (TypeError, ValueError) as error:  # of values of another type
            note(f"the folder can be read: NO, {error}")
            verified = False
    if not verified:
        note("not verified; a later exact forgetting changes the log: use its certificate")
        raise typer.Exit(1)
    note("verified")


def _wait(service: Any, future: Future[Any]) -> Any:
    """Return the result of a future; show the progress of the replay until it comes."""
    with _replaying() as show:
        while True:
            try:
                return future.result(LOOK_SECONDS)
            except NotDone:
                show(service.exact.share or 0.0)


@contextmanager
def _replaying() -> Iterator[Callable[[float], object]]:
    """Show a bar; call the result with the share of the log that is replayed."""
    with Bar(console=console, transient=True, disable=not console.is_terminal) as bar:
        line = bar.add_task("replaying", total=1.0)
        yield lambda share: bar.update(line, completed=share)


def _no_model() -> NoReturn:
    raise ValueError("the folder has no model")
