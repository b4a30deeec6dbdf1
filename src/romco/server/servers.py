"""Running: sockets, signals, and a clean stop."""

from __future__ import annotations

import ipaddress
import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import uvicorn

from romco.model import Model
from romco.server.applications import Application
from romco.server.guards import Doors
from romco.server.settings import Settings
from romco.server.sources import EventSource, Feeder
from romco.server.stores import Store
from romco.server.tokens import Tokens
from romco.server.turns import AT_ONCE, Turns, end_waits

LOG = logging.getLogger(__name__)
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})


@final
@dataclass(frozen=True)
class Address:
    """Where the service listens, and who may come in."""

    host: str = "127.0.0.1"
    port: int = 8400
    token_file: Path | None = None
    insecure: bool = False
    names: tuple[str, ...] = ()  # other names by which clients know it
    grace: float = 20.0  # seconds that a stop may take

    def __post_init__(self) -> None:
        if not self.is_local and self.token_file is None and not self.insecure:
            raise ValueError(
                f"{self.host} can be reached from other machines: give --token-file "
                "(make one by `romco token FILE`), or say --insecure"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def doors(self) -> Doors:
        """A local service answers only to local names, so that no other site's name leads to it."""
        tokens = None if self.token_file is None else Tokens(self.token_file)
        named = {name.lower() for name in self.names}
        return Doors(tokens, LOCAL | named | {self.host} if self.is_local or named else None)

    def bind(self) -> socket.socket:
        """A socket that listens here; port 0 is any that is free."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((self.host, self.port))
            made.listen(1024)  # who comes before the server is ready waits
        except OSError as error:
            made.close()
            raise OSError(error.errno, error.strerror, f"{self.host}:{self.port}") from error
        return made


def serve(
    folder: Path,
    new: Callable[[], Model],
    settings: Settings,
    address: Address,
    ready: Callable[[str, Store], None],
    source: EventSource | None = None,
) -> bool:
    """Serve until a signal comes; False if the stop took too long to write a checkpoint.

    Even then nothing is lost: the log holds it. Events of a ``source`` are learned too.
    """
    doors = address.doors()
    listening = address.bind()
    try:
        store = Store(folder, new, settings)
    except BaseException:
        listening.close()
        raise
    application = Application(store, doors, lambda: server.should_exit)
    turns = Turns(lambda: application.meters.predicted)
    store.writer.settle = turns.settle
    server = uvicorn.Server(
        uvicorn.Config(
            application,
            http=application.wire,  # type: ignore[arg-type]  # called like the class it stands for
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="none",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=max(1, int(address.grace / 2)),
            limit_concurrency=1000,
        )
    )
    for each in (signal.SIGTERM, signal.SIGINT):  # what uvicorn passes on when it has finished
        if threading.current_thread() is threading.main_thread():
            signal.signal(each, lambda *_: None)
    host, port = listening.getsockname()[:2]
    try:
        ready(f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/", store)
        feeder = None if source is None else Feeder(source, store)
        end_waits(AT_ONCE)
        server.run(sockets=[listening])
        if feeder is not None:
            feeder.stop(address.grace / 4)
    finally:
        finished = store.close(address.grace / 2)
    return finished
