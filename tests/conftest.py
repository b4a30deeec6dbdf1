"""Where tests find what is not in the repository."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("romco", deadline=None, derandomize=True)
settings.load_profile("romco")

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The real data: ROMCO_DATA, else ../shared/data; skips where there is none."""
    directory = Path(os.environ.get("ROMCO_DATA", SHARED / "data"))
    if not directory.is_dir():
        pytest.skip("no real data: set ROMCO_DATA to the folder that holds it")
    return directory


@pytest.fixture(scope="session")
def oracles() -> Path:
    """Reference values made with other programs; skips where they are not."""
    directory = SHARED / "oracles"
    if not directory.is_dir():
        pytest.skip("no reference values at ../shared/oracles")
    return directory
