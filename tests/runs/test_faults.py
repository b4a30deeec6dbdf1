"""Whatever call fails while a file is learned: an error, and the same command goes on."""

import errno
import json
import os
import resource
import signal
import stat
from multiprocessing import get_context
from pathlib import Path

import pytest

from romco.files import load
from romco.io import durable
from romco.io.modelfile import load_state, save_state
from romco.model import Model
from romco.runs import Source, learn, resume
from romco.runs.resume import PredictionLog as Log
from tests.io.test_durable import Faulty, open_files

ROWS = 60


def written(folder):
    lines = [f"user {i % 3},{'yes' if i % 2 else 'no'},{i % 7},{-i % 5}" for i in range(ROWS)]
    (folder / "e.csv").write_text("\n".join(["user,spam,a,b", *lines]) + "\n")
    return Source(str(folder / "e.csv"), task="user", label="spam")


def run(folder, source):
    new = Model("ogd-unique", classes=("no", "yes"))
    options = {"predictions": folder / "p.jsonl", "every": 25}
    return list(learn(source, folder / "m.romco", new, **options))[-1]


def left(folder):
    state = load(folder / "m.romco").state()
    arrays = {name: array.tobytes() for name, array in state.pop("arrays").items()}
    state["session"]["sources"] = list(state["session"]["sources"].values())
    return state, arrays, (folder / "p.jsonl").read_bytes()


@pytest.fixture
def whole(tmp_path):
    """What is left by a run that nothing happened to."""
    folder = tmp_path / "whole"
    folder.mkdir()
    source = written(folder)
    run(folder, source)
    return left(folder)


class FaultyFile:
    """A file whose calls are counted with those of ``os``; one of them fails."""

    def __init__(self, file, faulty):
        self._file, self._faulty = file, faulty

    def __getattr__(self, name):
        real = getattr(self._file, name)
        return real if name in ("fileno", "close", "tell") else self._faulty._counted(name, real)


def faulty_run(folder, source, at, monkeypatch):
    """The calls made, and the error, where the at-th of them fails."""
    faulty, real = Faulty(at), Path.open

    def opened(path, *args, **options):
        if path.suffix == ".jsonl":
            return FaultyFile(faulty._counted("open", real)(path, *args, **options), faulty)
        return real(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(durable, "os", faulty)
        patch.setattr(resume, "os", faulty)
        patch.setattr(Path, "open", opened)
        try:
            run(folder, source)
        except OSError as error:
            return faulty.calls, error
    return faulty.calls, None


def test_every_failing_call_in_turn(whole, tmp_path, monkeypatch):
    (tmp_path / "count").mkdir()
    calls, _ = faulty_run(tmp_path / "count", written(tmp_path / "count"), -1, monkeypatch)
    assert {"write", "flush", "fsync", "replace"} <= set(calls)
    writes = [at for at, name in enumerate(calls) if name == "write"]
    skipped = set(writes[5:-5])  # all lines are written alike
    failed = 0
    for at in range(len(calls)):
        if at in skipped:
            continue
        folder = tmp_path / str(at)
        folder.mkdir()
        source = written(folder)
        _, error = faulty_run(folder, source, at, monkeypatch)
        failed += error is not None
        assert error is None or error.errno == errno.ENOSPC
        assert open_files(tmp_path) == []
        run(folder, source)  # the same command goes on
        assert left(folder) == whole
        assert not list(folder.glob(".*")), "nothing is left behind"
    assert failed > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_disk_that_is_full_at_any_size(whole, tmp_path):
    """A real limit of the kernel, for predictions and model file alike."""

    def limited(folder, source, limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            run(folder, source)
        except OSError as error:
            os._exit(3 if error.errno == errno.EFBIG else 4)
        os._exit(0)

    largest = max(len(whole[2]), 6000)
    for limit in range(0, largest, largest // 12):
        folder = tmp_path / str(limit)
        folder.mkdir()
        source = written(folder)
        child = get_context("fork").Process(target=limited, args=(folder, source, limit))
        child.start()
        child.join()
        assert child.exitcode == 3
        run(folder, source)
        assert left(folder) == whole


def test_predictions_are_on_disk_before_the_model_that_counts_them(tmp_path, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace

    def synced(handle):
        found = os.fstat(handle)
        done.append(("sync", found.st_ino, found.st_size, stat.S_ISREG(found.st_mode)))
        sync(handle)

    def replaced(source, target):
        done.append(("model", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    run(tmp_path, written(tmp_path))
    predictions = (tmp_path / "p.jsonl").stat()
    models = [at for at, what in enumerate(done) if what == ("model", "m.romco")]
    logs = [at for at, what in enumerate(done) if what[1] == predictions.st_ino]
    assert len(models) == len(logs) == 3
    assert all(log < model for log, model in zip(logs, models, strict=True))
    assert done[logs[-1]][2] == predictions.st_size
    (record,) = load(tmp_path / "m.romco").session["sources"].values()
    assert record["written"] == predictions.st_size


def test_what_a_killed_run_wrote_too_much_is_cut_off(whole, tmp_path):
    source = written(tmp_path)
    new = Model("ogd-unique", classes=("no", "yes"))
    steps = learn(source, tmp_path / "m.romco", new, predictions=tmp_path / "p.jsonl", every=25)
    next(steps)
    steps.close()
    with (tmp_path / "p.jsonl").open("ab") as file:
        file.write(b'{"line": 27, "task": "never counted"}\n' * 9)
    run(tmp_path, source)
    assert left(tmp_path) == whole


def test_a_log_that_is_too_short_is_refused_and_stays(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(b"12345")
    with pytest.raises(ValueError, match="shorter"):
        Log(path, 6)
    with Log(path, 5) as log:
        assert log.sync() == 5
        log.write({"a": "ä"})
        assert log.sync() == 5 + len('{"a": "ä"}\n'.encode())
    with Log(path, 3) as log:
        pass  # nothing was written, so nothing is cut
    assert path.read_bytes() == b'12345{"a": "\xc3\xa4"}\n'
    with Log(path) as log:
        log.write({})
    assert path.read_bytes() == b"{}\n"
    path.unlink()
    with Log(path, 5) as log:  # gone: what comes is written to a new one
        log.write({})
    assert path.read_bytes() == b"{}\n"


def test_nowhere_and_aloud(tmp_path, capsys):
    with Log(None) as log:
        assert not log.enabled
        log.write({"a": 1})
        assert log.sync() == 0
    with Log(Path("-"), 7) as log:
        assert log.enabled
        log.write({"a": 1})
        assert log.sync() == 0
    assert capsys.readouterr().out == json.dumps({"a": 1}) + "\n"


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.update(sources=[]),
        lambda s: s.update(sources=3),
        lambda s: s.update(schema=[]),
        lambda s: _of(s).update(events="60"),
        lambda s: _of(s).update(events=-1),
        lambda s: _of(s).update(written=-5),
        lambda s: _of(s).update(refused=0.5),
        lambda s: _of(s).update(size="1"),
        lambda s: _of(s).update(score={"kind": []}),
        lambda s: _of(s).update(score=3),
        lambda s: s["sources"].update({next(iter(s["sources"])): 7}),
    ],
)
def test_a_memory_that_no_session_left_is_told(tmp_path, change):
    source = written(tmp_path)
    run(tmp_path, source)
    state = load_state(tmp_path / "m.romco")
    change(state["session"])
    save_state(state, tmp_path / "m.romco")
    before = (tmp_path / "m.romco").read_bytes(), (tmp_path / "p.jsonl").read_bytes()
    with pytest.raises(
        ValueError,
        match=r"cannot be used|must be|learned with|changed|expected",
    ):
        run(tmp_path, source)
    assert ((tmp_path / "m.romco").read_bytes(), (tmp_path / "p.jsonl").read_bytes()) == before


def _of(session):
    (seen,) = session["sources"].values()
    return seen
