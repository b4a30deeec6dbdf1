"""Nothing in a file is trusted: whatever is wrong is a ModelFileError, within a limit of memory."""

import hashlib
import json
import struct
from contextlib import suppress

import numpy as np
import pytest

import romco
from romco.modelfile import ModelFileError, load, peek, save
from romco.reading import FORMAT, MAGIC


def headed(text: bytes, blocks: bytes = b"") -> bytes:
    """A file with any header, whose checksum is right."""
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    return head + hashlib.sha256(head).digest() + blocks


def block(name: str, dtype: str, shape: list[int], data: bytes) -> dict:
    digest = hashlib.sha256(data).hexdigest()
    return {"name": name, "dtype": dtype, "shape": shape, "sha256": digest}


def learner_file(path, *, d=3, m=2, blocks=None, **others):
    """The file of a bare learner, with what is given in place of what would be there."""
    learner = romco.learner("ogd-unique", 3, 2)
    arrays = learner.arrays()
    listed = [block(n, a.dtype.str, list(a.shape), a.tobytes()) for n, a in arrays.items()]
    state = {**learner.state(), "n_features": d, "n_tasks": m}
    state.pop("arrays")
    header = {"kind": "learner", "state": state, "blocks": blocks or listed, **others}
    data = b"".join(a.tobytes() for a in arrays.values())
    path.write_bytes(headed(json.dumps(header).encode(), data))
    return path


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"3",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"9" * 10_000,
        b'{"state": {}, "kind": NaN, "blocks": []}',
        b'{"state": {}}',
        b'{"state": 3, "blocks": 4}',
        b'{"state": {}, "kind": [], "blocks": {}}',
        b'{"state": {"n_features": 1, "n_tasks": 1}, "kind": ["model"], "blocks": []}',
        b'{"state": {"learner": []}, "kind": "learner", "blocks": [3]}',
        b'{"state": {"n_features": 1e999, "n_tasks": 1}, "kind": "learner", "blocks": []}',
    ],
)
def test_any_header_is_read_or_refused(text, tmp_path):
    path = tmp_path / "m.romco"
    path.write_bytes(headed(text))
    with pytest.raises(ModelFileError, match="cannot be used"):
        load(path)
    with suppress(ModelFileError):
        assert peek(path)["format"] == FORMAT


def test_a_header_cannot_say_its_own_format(tmp_path):
    path = learner_file(tmp_path / "l.romco", format=99)
    assert peek(path)["format"] == FORMAT


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "|O"},
        {"dtype": ["<f8"]},
        {"shape": "2"},
        {"shape": [2, -3]},
        {"shape": [2.0, 3.0]},
        {"shape": [True, 6]},
        {"shape": [2**70]},
        {"shape": [1] * 70},
        {"shape": [2**32, 2**32, 0]},
        {"name": ["w"]},
        {"name": "t"},
        {"sha256": None},
    ],
)
def test_odd_blocks_are_refused(change, tmp_path):
    good = block("w", "<f8", [2, 3], np.zeros((2, 3)).tobytes())
    other = block("t", "<i8", [1], np.zeros(1, dtype=np.int64).tobytes())
    path = learner_file(tmp_path / "l.romco", blocks=[{**good, **change}, other])
    with pytest.raises(ModelFileError, match="cannot be used"):
        load(path)


@pytest.mark.parametrize(
    "sizes", [{"d": 10**8}, {"m": 10**8}, {"d": 10**30}, {"d": "3"}, {"m": None}]
)
def test_sizes_that_the_arrays_do_not_have_are_refused(sizes, tmp_path):
    with pytest.raises(ModelFileError, match="cannot be used"):
        load(learner_file(tmp_path / "l.romco", **sizes))


def test_the_limit_is_told_and_kept(tmp_path):
    path = tmp_path / "l.romco"
    save(romco.learner("arow-unique", 500, 20), path)
    with pytest.raises(ModelFileError, match="limit="):
        load(path, limit=400_000)
    assert load(path, limit=600_000).n_features == 500
    with pytest.raises(ModelFileError, match="MiB of memory"):  # before it is even read
        load(learner_file(tmp_path / "big.romco", d=10**12))


def test_memory_that_is_not_there_is_told(tmp_path, monkeypatch):
    path = learner_file(tmp_path / "l.romco")
    monkeypatch.setattr("romco.modelfile.restore", _out_of_memory)
    with pytest.raises(ModelFileError, match="not enough memory"):
        load(path)


def _out_of_memory(state):
    raise MemoryError


def test_what_is_no_file_stays_an_error_of_the_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "none.romco")
    with pytest.raises(IsADirectoryError):
        peek(tmp_path)


@pytest.mark.parametrize("scale", [[0.0], [0.0, 0.5], [31.0, 1.0], ["0", 1.0], [0.0, 1e301], None])
def test_a_calibration_that_learning_cannot_have_left_is_refused(scale, tmp_path):
    state = {**romco.Model("ogd-unique").state(), "scale": scale}
    with pytest.raises((ValueError, TypeError)):
        romco.Model.from_state(state)


@pytest.mark.parametrize(("name", "value"), [("seen", -1), ("since", -2), ("seen", 2**62)])
def test_a_history_that_no_task_has_is_refused(name, value):
    state = romco.Model("ogd-unique", tasks=["a"]).state()
    state["arrays"][f"tasks.{name}"][0] = value
    with pytest.raises(ValueError, match="history"):
        romco.Model.from_state(state)
