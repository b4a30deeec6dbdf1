"""Files as users have them, for the tests that read them."""

import pytest

from tests.conftest import data_dir, oracles  # noqa: F401 - fixtures


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
