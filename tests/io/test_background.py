"""Reading the next block while this one is used changes neither blocks nor what is told of them."""

import gc
import gzip
import os
import threading
import time

import numpy as np
import pytest

from romco.kernels.core import memory
from romco.kernels.io.lexicon import Lexicon
from romco.model import Model
from tests.io.helpers import read_blocks

ROWS = [
    f"u{i % 7},{'yes' if i % 3 else 'no'},{i},word{i % 50} w{i},ü{i % 9}"
    if i % 40 != 39
    else f"u,yes,{i}"
    for i in range(2000)
]
TABLE = ("user,label,n,text,town\n" + "\n".join(ROWS) + "\n").encode()


@pytest.fixture
def threads():
    """List the threads that read ahead, but for those that other tests left."""
    before = threading.enumerate()

    def list_new():
        new = [thread for thread in threading.enumerate() if thread not in before]
        return [thread for thread in new if thread.name.startswith("romco-ahead")]

    return list_new


def taken(path, ahead, most=130, **options):
    """All blocks as plain values, with what was skipped when each was taken."""
    found = []
    with read_blocks(path, "user", "label", text="text", **options) as blocks:
        while True:
            block, trouble = blocks.take(most)
            names = block.features.lexicon.names
            entries = [names[k] for k in block.features.names.tolist()]
            values, starts = block.features.values.tolist(), block.features.starts.tolist()
            rows = (block.tasks, block.labels, block.lines, entries, values, starts)
            if ahead and trouble is None:
                blocks.prepare(most)
            time.sleep(0.001)  # so that the next one is there, mostly
            found.append((*rows, str(trouble), blocks.skipped))
            if trouble is not None or not len(block):
                return found


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
@pytest.mark.parametrize("skip_bad", [False, True])
@pytest.mark.parametrize("start", [0, 30])
def test_blocks_read_ahead_are_the_same(name, skip_bad, start, tmp_path, threads):
    path = tmp_path / name
    path.write_bytes(gzip.compress(TABLE) if name.endswith("gz") else TABLE)
    options = {"skip_bad": skip_bad, "start": start}
    assert taken(path, True, **options) == taken(path, False, **options)
    assert not threads()


def test_a_file_that_is_cut_is_told_when_its_turn_comes(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(TABLE)[:-200])
    found = taken(path, True, skip_bad=True)
    assert found == taken(path, False, skip_bad=True)
    assert "damaged or cut" in found[-1][-2]
    assert len(found) > 2


def test_an_error_of_the_reader_is_raised_by_who_takes(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(TABLE)
    with read_blocks(path, "user", "label", skip_bad=True) as blocks:
        blocks.take(10)
        monkeypatch.setattr(blocks, "_read", lambda most: 1 / 0)
        blocks.prepare(10)
        with pytest.raises(ZeroDivisionError):
            blocks.take(10)


def test_who_stops_early_waits_for_the_reader(tmp_path, threads):
    path = tmp_path / "t.csv"
    path.write_bytes(TABLE)
    for _ in range(20):
        with read_blocks(path, "user", "label", skip_bad=True) as blocks:
            blocks.take(5)
            blocks.prepare(1500)
        assert not threads()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_may_have_to_be_waited_for_is_not_read_ahead(tmp_path, threads):
    os.mkfifo(tmp_path / "pipe.csv")

    def feed():
        (tmp_path / "pipe.csv").write_bytes(TABLE)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with read_blocks(tmp_path / "pipe.csv", "user", "label", skip_bad=True) as blocks:
        blocks.take(5)
        blocks.prepare(5)
        assert not threads()
        while len(blocks.take(500)[0]):
            pass
    feeder.join()


def test_a_model_learns_the_same_while_the_next_block_is_read(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(TABLE)
    models = Model("romco-auto"), Model("romco-auto")
    for model, ahead in zip(models, (True, False), strict=True):
        with read_blocks(path, "user", "label", text="text", skip_bad=True) as blocks:
            while len(block := blocks.take(100)[0]):
                if ahead:
                    blocks.prepare(100)
                model.learn(block.features, block.labels, block.tasks)
    one, other = (model.state() for model in models)
    for name, array in one.pop("arrays").items():
        np.testing.assert_array_equal(array, other["arrays"][name])
    other.pop("arrays")
    assert one == other


@pytest.mark.usefixtures("without_garbage")
def test_names_are_told_in_order_and_memory_comes_back():
    held = memory.held()
    lexicon = Lexicon()
    words = [f"w{i}" for i in range(5000)] + ["ü" * 300, ""]
    assert [lexicon.number(word) for word in words] == list(range(5002))
    assert lexicon.names == words
    assert [lexicon.number(word) for word in words[::-1]] == list(range(5002))[::-1]
    del lexicon
    assert memory.held() == held


def test_every_request_for_memory_may_fail(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(TABLE)
    whole, k, failed = taken(path, False, skip_bad=True), 0, True
    gc.collect()  # what earlier tests left behind
    gc.freeze()  # so that collecting below does not look through all of it
    held = memory.held()
    while failed:
        k += 1
        memory.fail_at(k)
        try:
            assert taken(path, False, skip_bad=True) == whole
            failed = False
        except MemoryError:
            pass
        memory.fail_at(0)
        gc.collect()  # what failed is held by the traceback, in a circle
        assert memory.held() == held
    gc.unfreeze()
    assert k > 10
