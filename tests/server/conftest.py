"""A real server on a free port of this machine."""

from __future__ import annotations

import shutil
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from romco.forgetting import open_service
from romco.server import Client
from romco.server.app import Server
from romco.server.protocol import Settings
from romco.server.routes import Access
from romco.server.writer import Service
from tests.server.streams import model


class Running:
    """A server in a thread, its service, and a client."""

    def __init__(self, folder: Path, settings: Settings, tokens=None, new=model) -> None:
        self.service = open_service(folder, new, settings)
        self.server = Server(self.service, Access(tokens), "127.0.0.1")
        self.port = self.server.port
        self.url = f"http://127.0.0.1:{self.port}"
        self.app = self.server.application
        self.finished = False
        self.thread = threading.Thread(target=self._run)
        self.thread.start()
        self.client = Client(self.url, retries=0, timeout=60.0).wait(60.0)

    def _run(self) -> None:
        self.finished = self.server.run()

    @property
    def served(self):
        return self.service.served

    @property
    def store(self):
        return self.service.store

    def status(self):
        return self.app.metrics.status()

    def stop(self) -> None:
        self.client.close()
        self.server.uvicorn.should_exit = True
        self.thread.join(60.0)
        assert self.finished


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


@contextmanager
def held(service: Service):
    """Stop the writer meanwhile: all requests of the block are served together after it."""
    begun, ended = threading.Event(), threading.Event()

    def wait(_: object) -> None:
        begun.set()
        ended.wait(60.0)

    service.call_in_writer(wait)
    assert begun.wait(60.0)
    try:
        yield
    finally:
        ended.set()


def copied(service: Service, to: Path) -> Path:
    """Copy the folder as a crash would leave it now, while nothing is written to it."""
    service.call_in_writer(lambda _: shutil.copytree(service.store.folder, to)).result()
    return to


@contextmanager
def opened(folder: Path, new=model, settings=None):
    """A service without HTTP."""
    with started(open_service(folder, new, settings or Settings())) as service:
        yield service


@contextmanager
def started(service: Service):
    """Start a service, and close it at the end."""
    try:
        service.start()
        yield service
    finally:
        assert service.close(60.0)
