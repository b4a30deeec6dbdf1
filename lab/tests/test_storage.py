import hashlib
from pathlib import Path

import pytest

from romco.streams.datasets import data_directory
from romco_lab.datasets.storage import (
    DamagedData,
    MissingData,
    Provenance,
    first_existing,
    located,
    verified,
)


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """No variable set, and a working directory with nothing beside it."""
    work = tmp_path / "project"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.delenv("ROMCO_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_directory_is_the_first_that_is_named(bare, monkeypatch):
    assert data_directory() == bare / "cache" / "romco"
    (bare / "shared" / "data").mkdir(parents=True)  # what lies beside a project is not ours
    assert data_directory() == bare / "cache" / "romco"
    monkeypatch.setenv("ROMCO_DATA", "from-variable")
    assert data_directory() == Path("from-variable")
    assert data_directory("from-argument") == Path("from-argument")


def test_cache_without_xdg_is_in_the_home_directory(bare, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(bare))
    assert data_directory() == bare / ".cache" / "romco"


def test_an_empty_variable_is_not_a_directory(bare, monkeypatch):
    monkeypatch.setenv("ROMCO_DATA", "")
    assert data_directory() == bare / "cache" / "romco"


def test_verified_gives_the_content_or_names_both_digests(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(b"whole")
    digest = hashlib.sha256(b"whole").hexdigest()
    assert verified(path, digest) == b"whole"
    path.write_bytes(b"who")
    with pytest.raises(DamagedData, match=rf"a\.bin \(3 bytes\).*{digest}.*fetch it again"):
        verified(path, digest)


def test_first_existing_prefers_the_first(tmp_path):
    (tmp_path / "b").touch()
    assert first_existing(tmp_path, ["a", "b"]) == tmp_path / "b"
    (tmp_path / "a").touch()
    assert first_existing(tmp_path, ["a", "b"]) == tmp_path / "a"
    assert first_existing(tmp_path, ["c"]) is None


def test_missing_data_say_where_they_come_from_and_where_to_put_them(tmp_path):
    provenance = Provenance("the makers", ("here/x.csv",), "free")
    with pytest.raises(MissingData, match=r"'x' is not in .*the makers.*here/x\.csv"):
        located("x", None, tmp_path, provenance)
