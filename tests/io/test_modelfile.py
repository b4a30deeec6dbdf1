"""A model file is whole or refused, and goes on as if it had never been written."""

import json
import pickle
import struct
import zlib

import numpy as np
import pytest

import romco
from romco.files import load, save
from romco.io.modelfile import FORMAT, MAGIC, ModelFileError, load_state, peek, save_state
from romco.model import Columns, Hashed, Model, Names
from romco_lab.fuzz.files import put_together, taken_apart

STREAM = romco.streams.simulated(n_tasks=3, n_features=6, n_events=20, outliers=1)
ROUNDS = romco.streams.interleaved(STREAM, seed=0)


def small():
    model = Model("ogd-unique", Names(), classes=("ham", "spam"))
    model.notes["from"] = "a test"
    model.learn([{"a": 1.0}, {"b": 2.0, "ä": 1.0}], ["ham", "spam"], ["ann", 7])
    return model


def tiny():
    model = Model("ogd-unique", Columns(1), tasks=["ann"], classes=(0, 1))
    model.learn([[2.0]], [1], ["ann"])
    return model


def contents(model):
    state = model.state()
    arrays = state.pop("arrays")
    return state, {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in arrays.items()}


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_save_load_go_on_is_never_stopped(name, tmp_path):
    whole, first = (Model(name, Columns(6), tasks=range(3)) for _ in range(2))
    whole.learn(ROUNDS.x, ROUNDS.y, ROUNDS.task)
    first.learn(ROUNDS.x[:30], ROUNDS.y[:30], ROUNDS.task[:30])
    save(first, tmp_path / "m.romco")
    second = load(tmp_path / "m.romco")
    assert contents(second) == contents(first)
    second.learn(ROUNDS.x[30:], ROUNDS.y[30:], ROUNDS.task[30:])
    assert contents(second) == contents(whole)


@pytest.mark.parametrize("features", [Names(), Hashed(32), Columns(2, ["a", "b"])])
def test_every_kind_of_features_and_names_comes_back(features, tmp_path):
    model = Model("romco-nucl", features)
    rows = [{"a": 1.0, "b": 0.5}, {"b": 2.0}, {"a": -1.0}]
    model.learn(rows, [True, False, True], [("shop", 1), b"raw", 3.5])
    model.forget(b"raw")
    save(model, tmp_path / "m.romco")
    again = load(tmp_path / "m.romco")
    assert contents(again) == contents(model)
    assert again.tasks == [("shop", 1), 3.5]
    again.learn(rows, [True, False, True], ["x", "y", "z"])
    model.learn(rows, [True, False, True], ["x", "y", "z"])
    assert contents(again) == contents(model)


def test_bare_learner_comes_back(tmp_path):
    learner = romco.learner("romco-logd", 6, 3)
    learner.replay(ROUNDS)
    save(learner, tmp_path / "l.romco")
    np.testing.assert_array_equal(load(tmp_path / "l.romco").weights(), learner.weights())


def test_every_damage_is_refused_or_harmless(tmp_path):
    path = tmp_path / "m.romco"
    save(tiny(), path)
    good, expected = path.read_bytes(), contents(tiny())
    refused = 0
    for at in range(len(good)):
        for flip in (0xFF, 1 << at % 8):
            path.write_bytes(good[:at] + bytes([good[at] ^ flip]) + good[at + 1 :])
            refused += _refused(path, expected)
    for length in range(len(good)):
        path.write_bytes(good[:length])
        refused += _refused(path, expected)
    path.write_bytes(good + b"x")
    assert _refused(path, expected)
    assert refused == 3 * len(good)


def _refused(path, expected):
    try:
        found = load(path)
    except ModelFileError:
        return True
    assert contents(found) == expected
    return False


def rewrite(path, change):
    """A file with other content and right checksums: what an attacker would write."""
    import hashlib

    data = path.read_bytes()
    start = len(MAGIC) + 12
    (length,) = struct.unpack("<Q", data[start - 8 : start])
    header = json.loads(data[start : start + length])
    blocks = change(header, data[start + length + 32 :])
    text = json.dumps(header).encode()
    head = MAGIC + struct.pack("<IQ", FORMAT, len(text)) + text
    path.write_bytes(head + hashlib.sha256(head).digest() + blocks)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["learner"].update(learner="os.system"),
        lambda state: state["learner"].update(n_tasks=3),
        lambda state: state["learner"].update(n_features=-1),
        lambda state: state["learner"].update(parameters={"eta": "inf"}),
        lambda state: state["learner"].update(parameters={"eta": -1.0}),
        lambda state: state.update(events=-1),
        lambda state: state.update(labels=[["a", 1.0], ["b", 1.0]]),
        lambda state: state.update(scale=[0.0]),
        lambda state: state.update(new_task="guess"),
        lambda state: state.pop("labels"),
    ],
)
def test_content_that_does_not_hold_together_is_refused(change, tmp_path):
    path = tmp_path / "m.romco"
    save(small(), path)

    def damaged(header, blocks):
        change(header["state"])
        return blocks

    rewrite(path, damaged)
    with pytest.raises(ModelFileError, match="does not hold together"):
        load(path)


def test_numbers_that_are_not_finite_and_odd_arrays_are_refused(tmp_path):
    path = tmp_path / "m.romco"

    def poison(header, blocks):
        block = header["blocks"][0]
        size = 8 * int(np.prod(block["shape"]))
        bad = np.full(size // 8, np.nan).tobytes()
        block["crc32"] = zlib.crc32(bad)
        return bad + blocks[size:]

    def objects(header, blocks):
        header["blocks"][0]["dtype"] = "|O"
        return blocks

    for change, message in ((poison, "not finite"), (objects, "block")):
        save(small(), path)
        rewrite(path, change)
        with pytest.raises(ModelFileError, match=message):
            load(path)


def test_pickle_is_never_read(tmp_path):
    path = tmp_path / "m.romco"
    path.write_bytes(pickle.dumps(small()))
    with pytest.raises(ModelFileError, match="no romco model file"):
        load(path)


@pytest.mark.parametrize("format", [FORMAT - 1, FORMAT + 1])
def test_another_format_is_refused_by_name(format, tmp_path):
    path = tmp_path / "m.romco"
    path.write_bytes(MAGIC + struct.pack("<IQ", format, 2) + b"{}")
    with pytest.raises(ModelFileError, match=f"format {format}, this library reads"):
        load(path)


def test_last_good_one_is_kept_and_named_in_the_error(tmp_path):
    path = tmp_path / "m.romco"
    first, second = small(), small()
    second.learn([{"c": 1.0}], ["ham"], ["cy"])
    save(first, path)
    save(second, path)
    assert contents(load(tmp_path / "m.romco.bak")) == contents(first)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.romco", "m.romco.bak"]
    path.write_bytes(b"")
    with pytest.raises(ModelFileError, match=r"m\.romco\.bak"):
        load(path)


def test_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "m.romco"
    save(small(), path)
    bad = small()
    bad.notes["thing"] = object()
    with pytest.raises(TypeError, match="cannot be written"):
        save(bad, path)
    assert contents(load(path)) == contents(small())
    assert [p.name for p in tmp_path.iterdir()] == ["m.romco"]


def test_peek_reads_the_header_only(tmp_path):
    path = tmp_path / "m.romco"
    save(small(), path)
    data = path.read_bytes()
    path.write_bytes(data[:-10])  # arrays cut: peek does not look
    header = peek(path)
    assert header["format"] == FORMAT
    assert header["summary"] == {
        "learner": "ogd-unique",
        "tasks": 2,
        "features": 3,
        "events": 2,
        "classes": ["ham", "spam"],
        "positive": "spam",
    }


def test_what_could_not_be_loaded_is_not_written(tmp_path):
    path = tmp_path / "m.romco"
    model = tiny()
    save(model, path)
    model.engine.learner.arrays()["w"][:] = np.inf
    for _ in range(2):  # the second would cost the one that is kept
        with pytest.raises(ValueError, match=r"'learner.w' holds numbers that are not finite"):
            save(model, path)
    assert load(path).events == 1
    assert not (tmp_path / "m.romco.bak").exists()


def test_what_is_no_model_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(TypeError, match=r"not dict; of a pipeline save the romco step"):
        romco.save({}, tmp_path / "m.romco")
    assert not any(tmp_path.iterdir())


def test_a_state_is_saved_as_its_model_is_and_the_last_one_kept(tmp_path):
    path, model = tmp_path / "m.romco", small()
    save_state(model.state(), path)
    assert contents(load(path)) == contents(model)
    assert load_state(path)["events"] == 2
    model.learn([{"a": 1.0}], ["ham"], ["ann"])
    save_state(model.state(), path)
    assert (load(path).events, load(tmp_path / "m.romco.bak").events) == (3, 2)
    save(model, tmp_path / "same.romco")
    assert peek(path) == peek(tmp_path / "same.romco")
    save(model.engine.learner, path)
    with pytest.raises(ModelFileError, match="but a bare learner"):
        load_state(path)


def test_an_estimator_comes_back_as_itself_and_another_kind_is_refused_by_name(tmp_path):
    path = tmp_path / "m.romco"
    save(romco.ROMCOClassifier().fit([[1.0], [-1.0]], [0, 1], task=["a", "b"]), path)
    again = load(path)
    assert type(again) is romco.ROMCOClassifier
    assert again.tasks_.tolist() == ["a", "b"]
    file = taken_apart(path.read_bytes())
    for kind in ("neural net", "learners", ""):
        file.header["kind"] = kind
        path.write_bytes(put_together(file))
        with pytest.raises(ModelFileError, match=f"unknown kind '{kind}'"):
            load(path)


def test_what_a_file_cannot_hold_is_told_before_it_is_written(tmp_path):
    path, model = tmp_path / "m.romco", small()
    with pytest.raises(TypeError, match=r"array 'learner.w' of complex128 cannot be saved"):
        save_state({**model.state(), "arrays": {"learner.w": np.zeros(2, dtype=complex)}}, path)
    model.notes["score"] = float("nan")
    with pytest.raises(ValueError, match="JSON"):
        save(model, path)
    assert not list(tmp_path.iterdir())
