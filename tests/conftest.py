"""What tests of all rooms need."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from romco.shards.schedule import Schedule
from tests.server.browsers import start

settings.register_profile("romco", deadline=None, derandomize=True)
settings.load_profile("romco")
# A script that runs pytest in the background has it ignore Ctrl-C, and all that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Leave what was imported and collected out of garbage collection: it stays to the end."""
    gc.freeze()


@pytest.fixture(scope="package", autouse=True)
def _early_shards():
    """Spread tasks over shards from the first event on: tests have short streams."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Schedule, "first", 0)
        yield


@pytest.fixture(autouse=True)
def _first_events(request, monkeypatch):
    """Let one shard learn as many events as a mark says."""
    mark = request.node.get_closest_marker("first_events")
    if mark is not None:
        monkeypatch.setattr(Schedule, "first", mark.args[0])


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real data, where ROMCO_DATA is; skips where there is none."""
    return _found(
        os.environ.get("ROMCO_DATA"), "no real data: set ROMCO_DATA to the folder that holds it"
    )


@pytest.fixture(scope="session")
def oracles() -> Path:
    """Reference values made with other programs; skips where they are not."""
    data = os.environ.get("ROMCO_DATA")
    beside = Path(data).parent / "oracles" if data else None
    return _found(beside, "no reference values: none in the folder oracles beside ROMCO_DATA")


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """A browser for all tests of a run."""
    found = start(tmp_path_factory.mktemp("chromium"))
    yield found
    found.quit()


@pytest.fixture
def without_garbage():
    """For tests that count the memory of the process: what others left is not freed meanwhile."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _found(directory: str | Path | None, otherwise: str) -> Path:
    if not directory or not Path(directory).is_dir():
        pytest.skip(otherwise)
    return Path(directory)
