"""A real server on a free port of this machine."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn

from romco.server import Client
from romco.server.applications import Application
from romco.server.guards import Doors
from romco.server.servers import LOCAL
from romco.server.settings import Settings
from romco.server.stores import Store
from tests.server.streams import model


class Running:
    """A server in a thread, its store, and a client."""

    def __init__(self, folder: Path, settings: Settings, tokens=None, new=model, keep=120) -> None:
        self.store = Store(folder, new, settings)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        stopping = lambda: self.server.should_exit  # noqa: E731
        self.app = Application(self.store, Doors(tokens, LOCAL), stopping)
        config = uvicorn.Config(
            self.app,
            http=self.app.wire,
            log_config=None,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=keep,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()
        self.client = Client(self.url, retries=0).wait()

    @property
    def live(self):
        return self.store.live

    def stop(self) -> None:
        self.client.close()
        self.server.should_exit = True
        self.thread.join(30.0)
        self.socket.close()
        assert self.store.close(30.0)


@pytest.fixture
def serving(tmp_path):
    """Starts servers with given settings; stops them at the end."""

    @contextmanager
    def start(folder="data", settings=None, **options):
        running = Running(tmp_path / folder, settings or Settings(), **options)
        try:
            yield running
        finally:
            running.stop()

    return start


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """One server for tests that do not mind what others have learned."""
    running = Running(tmp_path_factory.mktemp("service") / "data", Settings())
    yield running
    running.stop()
