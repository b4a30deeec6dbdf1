"""Nothing in a file is trusted: whatever is wrong is a ModelFileError, within a limit of memory."""

import hashlib
import json
import struct
import zlib
from contextlib import suppress

import numpy as np
import pytest

import romco
from romco.files import load, save
from romco.io import modelfile
from romco.io.modelfile import FORMAT, MAGIC, ModelFileError, peek


def headed(text: bytes, blocks: bytes = b"") -> bytes:
    """A file with any header, whose checksum is right."""
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    return head + hashlib.sha256(head).digest() + blocks


def block(name: str, dtype: str, shape: list[int], data: bytes) -> dict:
    return {"name": name, "dtype": dtype, "shape": shape, "crc32": zlib.crc32(data)}


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
        {"crc32": None},
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
    monkeypatch.setattr("romco.files.restore", _out_of_memory)
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
def test_event_counts_that_no_task_has_is_refused(name, value):
    state = romco.Model("ogd-unique", tasks=["a"]).state()
    state["arrays"][f"tasks.{name}"][0] = value
    with pytest.raises(ValueError, match="event count"):
        romco.Model.from_state(state)


# What is wrong is told by the check that is there for it, not by whatever fails after it.


@pytest.mark.parametrize("length", [0, 7, 8, 12, 19])
def test_a_file_cut_within_its_first_bytes_is_told_as_such(length, tmp_path):
    path = tmp_path / "l.romco"
    path.write_bytes(headed(b"{}")[:length])
    told = "is cut short" if length >= len(MAGIC) else "is no romco model file"
    with pytest.raises(ModelFileError, match=f"cannot be used: it {told}"):
        load(path)


@pytest.mark.parametrize("more", [0, 1, 2**60])
def test_a_header_longer_than_its_file_is_told_as_such(more, tmp_path):
    whole = headed(b"{}")
    path = tmp_path / "l.romco"
    path.write_bytes(
        MAGIC + struct.pack("<IQ", FORMAT, len(whole) + more) + whole[len(MAGIC) + 12 :]
    )
    told = "cut short, or the length" if more else "its header is damaged"
    with pytest.raises(ModelFileError, match=told):
        peek(path)


@pytest.mark.parametrize("text", [b"[]", b"3", b"{}", b'{"state": []}', b'{"state": "learner"}'])
def test_what_is_no_header_is_told_as_such(text, tmp_path):
    path = tmp_path / "l.romco"
    path.write_bytes(headed(text))
    for read in (load, peek):
        with pytest.raises(ModelFileError, match="its header is no header"):
            read(path)


def test_the_text_of_a_header_counts_for_the_limit_before_it_is_read(tmp_path):
    text = b'{"state": {}}'
    path = tmp_path / "l.romco"
    path.write_bytes(headed(text))
    needed = modelfile.TEXT_FACTOR * len(text)
    with path.open("rb") as file:
        assert modelfile.read_header(file, path, 100, needed)["format"] == FORMAT
        file.seek(0)
        with pytest.raises(ModelFileError, match="MiB of memory"):
            modelfile.read_header(file, path, 100, needed - 1)
        assert file.tell() == len(MAGIC) + 12


def test_without_a_limit_a_larger_file_may_take_more(tmp_path, monkeypatch):
    path = learner_file(tmp_path / "l.romco")
    monkeypatch.setattr(modelfile, "DEFAULT_LIMIT_BYTES", 1)
    monkeypatch.setattr(modelfile, "LIMIT_PER_FILE_BYTE", 1000)
    assert load(path).n_features == 3
    assert peek(path)["kind"] == "learner"
    monkeypatch.setattr(modelfile, "LIMIT_PER_FILE_BYTE", 1)
    for read in (load, peek):
        with pytest.raises(ModelFileError, match="MiB of memory"):
            read(path)


@pytest.mark.parametrize("inside", [False, True])
def test_room_is_estimated_to_the_byte(inside, tmp_path):
    blocks = [("w", "<f8", [3, 0, 2]), ("json", "|u1", [5]), ("t", "<i4", [7])]
    sizes = {"n_features": 4, "n_tasks": 2}
    state = {"learner": sizes, "n_features": 10**9} if inside else {**sizes, "learner": "pa-unique"}
    header = {"blocks": [block(*one, b"") for one in blocks], "state": state}
    arrays, text = 8 * 3 * 2 + 4 * 7, 5
    needed = (
        modelfile.ARRAY_FACTOR * arrays
        + modelfile.TEXT_FACTOR * text
        + modelfile.FEATURE_BYTES * 4
        + modelfile.TASK_BYTES * 2
    )
    modelfile.check_room(tmp_path, header, needed)
    with pytest.raises(ModelFileError, match="MiB of memory"):
        modelfile.check_room(tmp_path, header, needed - 1)
    sizes = {"n_features": -4, "n_tasks": -2}  # refused later; they make no room
    header["state"] = sizes
    needed -= modelfile.FEATURE_BYTES * 4 + modelfile.TASK_BYTES * 2
    modelfile.check_room(tmp_path, header, needed)
    with pytest.raises(ModelFileError, match="MiB of memory"):
        modelfile.check_room(tmp_path, header, needed - 1)


@pytest.mark.parametrize(
    "change", [{"name": 7}, {"name": None}, {"dtype": "<f2"}, {"shape": [2**48]}, {"shape": None}]
)
def test_what_is_no_block_is_told_as_such(change, tmp_path):
    header = {"blocks": [{**block("w", "<f8", [1], b""), **change}]}
    header["state"] = {"n_features": 1, "n_tasks": 1}
    with pytest.raises(ModelFileError, match=r"block .* is a .* array of shape"):
        modelfile.check_room(tmp_path, header, 2**60)


def test_shapes():
    for shape in ([], [0], [2**48 - 1], [1] * 8):
        assert modelfile.is_shape(shape), shape
    for shape in ((1,), [-1], [2**48], [1] * 9, [True], [1.0], [1, None], "1", {}):
        assert not modelfile.is_shape(shape), shape


def test_damaged_blocks_are_told_by_what_is_wrong_with_them(tmp_path):
    path = learner_file(tmp_path / "l.romco")
    whole = path.read_bytes()
    first = next(iter(romco.learner("ogd-unique", 3, 2).arrays()))
    for damaged, told in (
        (whole[:-1], "cut short within block"),
        (whole + b"\0", "there is something after its end"),
        (whole[:-1] + b"\x01", "is damaged"),
    ):
        path.write_bytes(damaged)
        with pytest.raises(ModelFileError, match=told):
            load(path)
    twice = [block(first, "<f8", [0], b"")] * 2
    with pytest.raises(ModelFileError, match=f"it has two blocks '{first}'"):
        load(learner_file(path, blocks=twice))
    odd = np.full(1, np.nan).tobytes()
    listed = [block(first, "<f8", [1], odd)]
    head = headed(json.dumps({**peek(learner_file(path)), "blocks": listed}).encode(), odd)
    path.write_bytes(head)
    with pytest.raises(ModelFileError, match="numbers that are not finite"):
        load(path)


def test_the_one_before_is_named_where_there_is_one(tmp_path):
    path = tmp_path / "l.romco"
    path.write_bytes(b"")
    with pytest.raises(
        ModelFileError, match=r"l\.romco cannot be used: it is no romco model file$"
    ):
        load(path)
    (tmp_path / "l.romco.bak").write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"; the one before it is l\.romco\.bak$"):
        load(path)


def test_numbers_come_back_in_the_order_of_this_machine_and_can_be_changed(tmp_path):
    _, state = modelfile.read(learner_file(tmp_path / "l.romco"))
    for array in state["arrays"].values():
        assert array.dtype.isnative
        assert array.flags.writeable


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_does_not_have_is_told_as_such(number, tmp_path):
    path = tmp_path / "l.romco"
    path.write_bytes(headed(b'{"state": {"a": ' + number.encode() + b"}}"))
    with pytest.raises(ModelFileError, match="is no number that JSON has"):
        peek(path)
