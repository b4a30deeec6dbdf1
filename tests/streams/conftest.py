"""Where the real data are, for the tests that need them."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def real_data():
    """The data directory, or skip."""
    place = Path(os.environ.get("ROMCO_DATA") or PROJECT / ".." / "shared" / "data")
    if not place.is_dir():
        pytest.skip("no real data: set ROMCO_DATA to their directory")
    return place


@pytest.fixture
def damaged_copy(tmp_path):
    """A function: copy a file into a new data directory, changed; gives that directory."""

    def copy(content, relative, change):
        path = tmp_path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change(content))
        return tmp_path

    return copy


def write_folders(root, messages):
    """``messages``: (corpus, part, file name, subject and body as numbers) of each."""
    for corpus, part, name, numbers in messages:
        folder = root / corpus / f"part{part}"
        folder.mkdir(parents=True, exist_ok=True)
        subject, body = numbers[:1], numbers[1:]
        text = f"Subject: {' '.join(map(str, subject))}\r\n\r\n{' '.join(map(str, body))}\n"
        (folder / name).write_bytes(text.encode())
