"""What is there when a driver goes on, and what is not: files, folders, disks, other drivers."""

import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from romco.__main__ import main
from romco.io import durable
from romco.model import Hashed, Names
from romco.runs import Source
from romco.shards import Shards
from romco.shards.files import learn
from romco.shards.reader import list_files
from tests.shards.streams import assert_same, events, place_of
from tests.shards.streams import learn as learn_pieces
from tests.shards.test_files import files, write

SETTINGS = {"n": 3, "every": 20, "checkpoint_every": 5}


@pytest.fixture
def stopped(tmp_path):
    """Files, and the model file of shards that stopped in the first of them, at a checkpoint."""
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    steps = learn(files(folder), model, **SETTINGS)
    for _ in range(20):
        next(steps)
    steps.close()
    assert 0 < place_of(model) < 90
    return folder, model


def finished(folder, model, **settings):
    *_, last = learn(files(folder), model, **{**SETTINGS, **settings})
    return last.events


def other_files(folder):
    """Files as another call might describe them, by what is other."""
    given = files(folder)
    return {
        "features": replace(given, features=Hashed(2**7).to_json()),
        "classes": replace(given, classes=("yes", "no")),
        "task": replace(given, source=Source(str(folder), "spam", "user")),
    }


@pytest.mark.parametrize("what", ["features", "classes", "task"])
def test_shards_that_stopped_go_on_with_the_same_columns_only(stopped, what):
    folder, model = stopped
    with pytest.raises(ValueError, match=what):
        list(learn(other_files(folder)[what], model, **SETTINGS))
    assert finished(folder, model) == 260  # nothing was lost
    with pytest.raises(ValueError, match=what):  # nor is a finished model taken for another
        list(learn(other_files(folder)[what], model, **SETTINGS))


def test_shards_in_a_folder_go_on_with_the_same_features_and_classes_only(tmp_path):
    stream, kept = events(200, seed=3), {"n": 2, "every": 20, "checkpoint_every": 4}
    first = Shards(features=Hashed(2**6), classes=("no", "yes"), checkpoint=tmp_path, **kept)
    learn_pieces(first, stream)
    for other in (
        {"features": Hashed(2**7), "classes": ("no", "yes")},
        {"features": Names(), "classes": ("no", "yes")},
        {"features": Hashed(2**6), "classes": ("yes", "no")},
        {"features": Hashed(2**6), "classes": ("no", "yes"), "new_task": "zero"},
    ):
        with pytest.raises(ValueError, match="holds shards with"):
            Shards(checkpoint=tmp_path, **kept, **other)
    again = Shards(features=Hashed(2**6), checkpoint=tmp_path, **kept)
    assert again.classes == ("no", "yes")


def shorter(text):
    return "\n".join(text.splitlines()[:40]) + "\n"


def turned(text):
    header, *lines = text.splitlines()
    return "\n".join([header, *reversed(lines)]) + "\n"


@pytest.mark.parametrize("change", [shorter, turned])
def test_a_file_that_changed_since_it_was_read_is_refused(stopped, change):
    folder, model = stopped
    path, before = folder / "1.csv", place_of(model)
    text = path.read_text()
    path.write_text(change(text))
    with pytest.raises(ValueError, match=r"1\.csv is not the file that was read before"):
        finished(folder, model)
    assert place_of(model) == before
    path.write_text(text)
    assert finished(folder, model) == 260


def test_a_file_may_grow_until_it_was_read_to_the_end(stopped):
    folder, model = stopped
    line = (folder / "1.csv").read_text().splitlines()[1]
    with (folder / "1.csv").open("a") as file:
        file.write(line + "\n")
    assert finished(folder, model) == 261
    with (folder / "3.parquet").open("ab") as file:
        file.write(b"more")
    with pytest.raises(ValueError, match=r"3\.parquet is not the file that was read before"):
        finished(folder, model)


def test_a_file_that_is_gone_is_named_and_nothing_is_lost(stopped):
    folder, model = stopped
    given, moved = files(folder), folder.parent / "2.jsonl"
    shutil.move(folder / "2.jsonl", moved)
    with pytest.raises(FileNotFoundError, match=r"2\.jsonl"):  # listed, then gone
        list(learn(given, model, **SETTINGS))
    (folder / "2.jsonl").symlink_to(folder / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"2\.jsonl"):  # a link to what is gone
        list_files([str(folder)])
    (folder / "2.jsonl").unlink()
    shutil.move(moved, folder / "2.jsonl")
    assert finished(folder, model) == 260


def test_the_command_line_goes_on_with_what_there_is_and_refuses_the_rest(
    tmp_path, monkeypatch, capsys
):
    folder, model = write(tmp_path / "in"), tmp_path / "m.romco"
    command = ["romco", "learn", str(folder), "--task", "user", "--label", "spam"]
    command += ["--model", str(model), "--shards", "2", "--engine", "serial"]

    def run(*options):
        monkeypatch.setattr("sys.argv", [*command, *options])
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, capsys.readouterr().err

    assert run("--hash", "6")[0] == 0
    assert run()[0] == 0  # as many features as it has
    for other in (("--hash", "7"), ("--positive", "no"), ("--learner", "pa-shared")):
        code, told = run(*other)
        assert code
        assert "m.romco" in told


def test_two_processes_cannot_learn_into_one_folder(tmp_path):
    with Shards(n=2, checkpoint=tmp_path):
        holds = "import sys; from romco.shards import Shards; Shards(n=2, checkpoint=sys.argv[1])"
        other = [sys.executable, "-c", holds, str(tmp_path)]
        found = subprocess.run(other, capture_output=True, text=True, timeout=100)
    assert found.returncode
    assert "another process is learning into it" in found.stderr
    assert subprocess.run(other, capture_output=True, timeout=100).returncode == 0


def test_of_two_drivers_in_a_process_the_last_one_has_the_folder(tmp_path):
    stream = events(200, seed=3)
    first = Shards(n=2, every=20, checkpoint=tmp_path, checkpoint_every=4)
    first.learn(*(column[:100] for column in stream))
    second = Shards(n=2, every=20, checkpoint=tmp_path, checkpoint_every=4)
    at = second.events
    with pytest.raises(RuntimeError, match="only the last ones can write"):
        first.learn(*(column[100:] for column in stream))
    second.learn(*(column[at:] for column in stream))
    whole = Shards(n=2, every=20)
    whole.learn(*stream)
    assert_same(second.state(), whole.state())


def die_at(call, monkeypatch):
    """From now on the process kills itself at the n-th file that is to be replaced."""
    real, calls = durable.replace, []

    def replace(path, parts, **options):
        calls.append(path)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        real(path, parts, **options)

    monkeypatch.setattr(durable, "replace", replace)


@pytest.mark.parametrize(
    "call", [1, *(pytest.param(call, marks=pytest.mark.slow) for call in (2, 3))]
)
def test_a_driver_killed_while_it_saves_goes_on_with_the_same_bits(tmp_path, monkeypatch, call):
    stream, kept = events(300, seed=5), {"n": 2, "every": 20, "checkpoint_every": 6}
    child = os.fork()
    if child == 0:  # pragma: no cover
        die_at(call, monkeypatch)
        Shards(**kept, checkpoint=tmp_path).learn(*stream)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    again = Shards(**kept, checkpoint=tmp_path)
    assert (again.events > 0) == (call > 1)
    again.learn(*(column[again.events :] for column in stream))
    whole = Shards(**kept)
    whole.learn(*stream)
    assert_same(again.state(), whole.state())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    told = ["mount", "-t", "tmpfs", "-o", "size=4m", "romco-test", str(place)]
    if shutil.which("mount") is None or subprocess.run(told, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_full_is_told_and_what_was_saved_stays(small_disk):
    """The room of a checkpoint grows with the tasks, until two of them are too many."""
    stream, kept = events(1200, n_tasks=900, d=40, seed=5), {"n": 2, "checkpoint_every": 4}
    shards = Shards(**kept, checkpoint=small_disk / "kept")
    with pytest.raises(OSError, match="No space left"):
        learn_pieces(shards, stream, (100,))
    found = place_of(small_disk / "kept")
    shards.close()
    assert found > 100
    shutil.copy(small_disk / "kept", small_disk.parent / "copy")
    again = Shards(**kept, checkpoint=small_disk.parent / "copy")  # where there is room
    assert again.events == found
    again.learn(*(column[again.events :] for column in stream))
    whole = Shards(**kept)
    whole.learn(*stream)
    assert_same(again.state(), whole.state())
