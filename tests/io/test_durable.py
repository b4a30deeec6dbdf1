"""A file is replaced at once or not at all, whatever fails on the way."""

import errno
import fcntl
import os
import resource
import signal
import stat
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest

import romco
from romco.files import load, save
from romco.io import durable
from romco.model import Columns, Model

FALLIBLE = ("open", "write", "fsync", "replace", "link", "unlink", "fchmod", "lstat", "fstat")


class Faulty:
    """The ``os`` module whose ``at``-th fallible call fails; counts the calls."""

    def __init__(self, at, error=errno.ENOSPC):
        self.at, self.error, self.calls = at, error, []

    def __getattr__(self, name):
        real = getattr(os, name)
        return self._counted(name, real) if name in FALLIBLE else real

    def _counted(self, name, real):
        def call(*args, **options):
            self.calls.append(name)
            if len(self.calls) - 1 == self.at:
                raise OSError(self.error, os.strerror(self.error))
            return real(*args, **options)

        return call


def open_files(folder):
    """Return the paths of open files below the folder: others may have left some elsewhere."""
    paths = [open_path(int(entry.name)) for entry in Path("/dev/fd").iterdir()]
    return [path for path in paths if path is not None and path.startswith(str(folder))]


def open_path(handle):
    try:
        if hasattr(fcntl, "F_GETPATH"):  # macOS
            return os.fsdecode(fcntl.fcntl(handle, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
        return str(Path(f"/dev/fd/{handle}").readlink())
    except OSError:  # the listing itself, or a file that garbage collection closed meanwhile
        return None


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def replaced_with_fault(at, path, error, monkeypatch):
    faulty = Faulty(at, error)
    with monkeypatch.context() as patch:
        patch.setattr(durable, "os", faulty)
        try:
            durable.replace(path, [b"new " * 10, b"content"], keep_last=True)
        except OSError as failed:
            return faulty, failed
    return faulty, None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("before", [None, b"old"])
def test_every_failing_call_in_turn(error, before, tmp_path, monkeypatch):
    count = len(replaced_with_fault(-1, tmp_path / "count", error, monkeypatch)[0].calls)
    outcomes, seen = set(), set()
    for at in range(count + 4):
        folder = tmp_path / str(at)
        folder.mkdir()
        path = folder / "m"
        if before is not None:
            durable.replace(path, [b"older"])
            durable.replace(path, [before], keep_last=True)
        faulty, failed = replaced_with_fault(at, path, error, monkeypatch)
        content = path.read_bytes() if path.exists() else None
        assert content in (before, b"new " * 10 + b"content")
        if failed is None:
            assert content != before
        else:
            assert failed.errno == error
            assert failed.filename == str(path)
            # only the folder's fsync can fail after the new file is in its place
            after = faulty.calls[: at + 1].count("replace") > (before is not None)
            assert (content == before) or (after and faulty.calls[at] in ("open", "fsync"))
        if before is not None:
            assert (folder / "m.bak").read_bytes() in (b"older", before)
        assert open_files(tmp_path) == []
        durable.replace(path, [b"again"])  # what a failed unlink left is removed now
        assert set(names(folder)) <= {"m", "m.bak"}
        assert path.read_bytes() == b"again"
        outcomes.add(failed is None)
        seen |= set(faulty.calls)
    assert outcomes == {True, False}
    assert {"open", "write", "fsync", "replace"} <= seen


def test_files_and_folder_are_synced_before_it_is_said_to_be_done(tmp_path, monkeypatch):
    """The content reaches the disk before the name, the name before the return."""
    done = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)

        def noted(*args, name=name, real=real):
            what = name
            if name == "fsync":
                found = os.fstat(args[0])
                what = "folder" if stat.S_ISDIR(found.st_mode) else ("content", found.st_size)
            done.append(what)
            return real(*args)

        monkeypatch.setattr(durable.os, name, noted)
    durable.replace(tmp_path / "m", [b"12345"])
    assert done == [("content", 5), "replace", "folder"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_disk_full_at_every_size_leaves_the_old_model(tmp_path):
    """A real limit of the kernel: no file may grow beyond so many bytes."""
    path = tmp_path / "m.romco"
    model = Model("ogd-unique", Columns(3), tasks=["ann"], classes=(0, 1))
    save(model, path)
    size, good = path.stat().st_size, path.read_bytes()
    model.learn([[1.0, 2.0, 3.0]], [1], ["ann"])

    def limited(limit):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            save(model, path)
        except OSError as error:
            os._exit(3 if error.errno == errno.EFBIG and error.filename == str(path) else 4)
        os._exit(0)

    context = get_context("fork")
    for limit in range(0, size, 97):
        child = context.Process(target=limited, args=(limit,))
        child.start()
        child.join()
        assert child.exitcode == 3
        assert path.read_bytes() == good
        assert names(tmp_path) == ["m.romco"]


def test_permissions_stay(tmp_path):
    path = tmp_path / "m"
    before = os.umask(0o022)
    try:
        durable.replace(path, [b"1"])
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        for mode in (0o600, 0o640, 0o444):
            path.chmod(mode)
            durable.replace(path, [b"2"], keep_last=True)
            assert stat.S_IMODE(path.stat().st_mode) == mode
            assert stat.S_IMODE((tmp_path / "m.bak").stat().st_mode) == mode
    finally:
        os.umask(before)


def test_a_private_file_is_private_while_it_is_written(tmp_path):
    path = tmp_path / "m"
    durable.replace(path, [b"1"])
    path.chmod(0o600)

    def look():
        (partial,) = tmp_path.glob(".m.*.partial")
        yield b"2"
        assert stat.S_IMODE(partial.stat().st_mode) == 0o600

    durable.replace(path, look())
    assert path.read_bytes() == b"2"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_owner_stays(tmp_path):
    path = tmp_path / "m"
    durable.replace(path, [b"1"])
    os.chown(path, 1234, 1235)
    durable.replace(path, [b"2"])
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 1235)


def test_planted_links_and_pipes_are_not_followed(tmp_path, monkeypatch):
    path, victim = tmp_path / "m", tmp_path / "victim"
    victim.write_bytes(b"precious")
    planted = tmp_path / f".m.{'0' * 16}.partial"
    planted.symlink_to(victim)
    with monkeypatch.context() as patch:
        patch.setattr(durable.secrets, "token_hex", lambda n: "0" * 16)
        with pytest.raises(FileExistsError):
            durable.replace(path, [b"new"])
    os.mkfifo(tmp_path / f".m.{'1' * 16}.partial")
    (tmp_path / f".m.{'2' * 16}.partial").mkdir()
    durable.replace(path, [b"new"])
    assert stat.S_ISFIFO((tmp_path / f".m.{'1' * 16}.partial").stat().st_mode)  # not ours
    assert victim.read_bytes() == b"precious"
    path.unlink()
    path.symlink_to(victim)
    durable.replace(path, [b"newer"], keep_last=True)
    assert victim.read_bytes() == b"precious"
    assert path.read_bytes() == b"newer"


def test_what_killed_writers_left_is_removed_and_what_living_ones_write_is_not(tmp_path):
    path = tmp_path / "m"
    dead, other = tmp_path / f".m.{'a' * 16}.partial", tmp_path / f".mm.{'a' * 16}.partial"
    mine = tmp_path / ".m.mine.partial"
    for left in (dead, other, mine):
        left.write_bytes(b"half")
    living = tmp_path / f".m.{'b' * 16}.partial"
    with living.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        durable.replace(path, [b"1"])
        assert living.exists()
    assert not dead.exists()
    assert other.exists()
    assert mine.exists()
    durable.replace(path, [b"2"])
    assert not living.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_writer_leaves_nothing_for_long(tmp_path):
    path = tmp_path / "m"
    durable.replace(path, [b"old"])

    def killed():
        def parts():
            yield b"half"
            os.kill(os.getpid(), signal.SIGKILL)

        durable.replace(path, parts())

    child = get_context("fork").Process(target=killed)
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    assert len(names(tmp_path)) == 2
    durable.replace(path, [b"new"])
    assert names(tmp_path) == ["m"]


def test_many_threads_save_to_one_path(tmp_path):
    """Every load in between is of a whole model, and no save fails."""
    path, errors = tmp_path / "m.romco", []
    models = [Model("ogd-unique", Columns(300), classes=(0, 1)) for _ in range(4)]
    for number, model in enumerate(models):
        model.learn([[float(number)] * 300], [1], [f"task {number}"])
    save(models[0], path)

    def work(model):
        try:
            for _ in range(25):
                save(model, path)
                assert load(path).tasks in [[f"task {n}"] for n in range(4)]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert names(tmp_path) == ["m.romco", "m.romco.bak"]
    load(tmp_path / "m.romco.bak")


def test_what_the_maker_of_the_content_raises_is_told_as_it_is(tmp_path):
    path = tmp_path / "m"
    durable.replace(path, [b"old"])

    def parts():
        yield b"half"
        raise FileNotFoundError(errno.ENOENT, "gone", "the source")

    with pytest.raises(FileNotFoundError) as raised:
        durable.replace(path, parts())
    assert raised.value.filename == "the source"
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["m"]


def test_without_hard_links_the_last_one_is_copied(tmp_path, monkeypatch):
    path = tmp_path / "m"
    durable.replace(path, [b"old"])
    path.chmod(0o600)

    def refused(*_, **__):
        raise PermissionError(errno.EPERM, "no links here")

    monkeypatch.setattr(durable.os, "link", refused)
    durable.replace(path, [b"new"], keep_last=True)
    last = tmp_path / "m.bak"
    assert (path.read_bytes(), last.read_bytes()) == (b"new", b"old")
    assert stat.S_IMODE(last.stat().st_mode) == 0o600
    assert names(tmp_path) == ["m", "m.bak"]


def test_without_locks_nothing_is_taken_for_stale(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, "no locks available")

    dead = tmp_path / f".m.{'a' * 16}.partial"
    dead.write_bytes(b"half")
    monkeypatch.setattr(durable.fcntl, "flock", unsupported)
    durable.replace(tmp_path / "m", [b"new"])
    assert dead.exists()
    assert (tmp_path / "m").read_bytes() == b"new"


def test_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        romco.save(Model(), tmp_path / "nowhere" / "m.romco")
    assert raised.value.filename == str(tmp_path / "nowhere" / "m.romco")


def test_small_and_large_parts_arrive_in_order(tmp_path):
    parts = [b"a" * 10, b"b" * (durable.BLOCK_BYTES + 5), b"", b"c" * 7, *[b"d" * 999] * 3000]
    durable.replace(tmp_path / "m", parts)
    assert (tmp_path / "m").read_bytes() == b"".join(parts)


def test_who_comes_second_is_refused_and_nothing_stays_behind(tmp_path):
    path = tmp_path / "m"
    with durable.exclusive(path):
        assert names(tmp_path) == [".m.lock"]
        with pytest.raises(BlockingIOError) as refused, durable.exclusive(path):
            pass
        assert refused.value.filename == str(path)
        with durable.exclusive(tmp_path / "other"):
            pass
    assert names(tmp_path) == []
    with durable.exclusive(path):
        pass


def test_who_locked_a_marker_that_was_just_removed_tries_again(tmp_path, monkeypatch):
    """Between opening and locking, who had it before removes it: that lock protects nothing."""
    path, real, calls = tmp_path / "m", durable._lock, []

    def late(file):
        calls.append(file)
        if len(calls) == 1:
            (tmp_path / ".m.lock").unlink()
        return real(file)

    monkeypatch.setattr(durable, "_lock", late)
    with durable.exclusive(path):
        assert names(tmp_path) == [".m.lock"]
        with pytest.raises(BlockingIOError), durable.exclusive(path):
            pass
    assert len(calls) == 3


def test_a_lock_that_fails_leaves_no_temporary_file(tmp_path, monkeypatch):
    def broken(*_):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(durable.fcntl, "flock", broken)
    with pytest.raises(OSError, match="broken"):
        durable.replace(tmp_path / "m", [b"new"])
    assert names(tmp_path) == []
    assert open_files(tmp_path) == []


def test_a_temporary_file_that_another_writer_took_is_closed_and_another_made(
    tmp_path, monkeypatch
):
    real, files = durable.fcntl.flock, []

    def taken(file, kind):
        files.append(file)
        if len(files) == 1:
            raise BlockingIOError(errno.EAGAIN, "another writer looks at it")
        real(file, kind)

    monkeypatch.setattr(durable.fcntl, "flock", taken)
    durable.replace(tmp_path / "m", [b"new"])
    assert (tmp_path / "m").read_bytes() == b"new"
    assert [file.closed for file in files] == [True, True]
    assert files[0].name != files[1].name


def test_a_group_that_cannot_be_kept_may_not_read(tmp_path, monkeypatch):
    path = tmp_path / "m"
    durable.replace(path, [b"1"])
    path.chmod(0o664)
    old = path.stat()

    class Other:
        st_uid, st_gid, st_mode = old.st_uid + 1, old.st_gid, old.st_mode

    def forbidden(*_):
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(durable.os, "fchown", forbidden)
    monkeypatch.setattr(durable, "_regular", lambda _: Other)
    durable.replace(path, [b"2"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_a_link_is_kept_as_the_link_that_it_was(tmp_path):
    path, target = tmp_path / "m", tmp_path / "target"
    target.write_bytes(b"elsewhere")
    path.symlink_to(target)
    durable.replace(path, [b"new"], keep_last=True)
    last = tmp_path / "m.bak"
    assert last.is_symlink()
    assert last.read_bytes() == b"elsewhere"


def test_small_parts_are_written_together_and_large_ones_at_once(tmp_path, monkeypatch):
    written, real = [], os.write
    monkeypatch.setattr(durable.os, "write", lambda f, d: written.append(len(d)) or real(f, d))
    size = durable.BLOCK_BYTES
    durable.replace(tmp_path / "m", [b"a", b"b" * (size - 1), b"c" * size, b"d", b"e"])
    assert written == [size, size, 2]


def test_a_spare_that_could_not_become_the_last_one_is_removed(tmp_path, monkeypatch):
    path, real = tmp_path / "m", os.replace
    durable.replace(path, [b"old"])

    def full(source, target):
        if str(target).endswith(".bak"):
            raise OSError(errno.ENOSPC, "full")
        real(source, target)

    monkeypatch.setattr(durable.os, "replace", full)
    with pytest.raises(OSError, match="full"):
        durable.replace(path, [b"new"], keep_last=True)
    assert names(tmp_path) == ["m"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize(("error", "told"), [(errno.EIO, True), (errno.EINVAL, False)])
def test_a_folder_that_cannot_be_synced_is_told_unless_it_needs_no_sync(
    error, told, tmp_path, monkeypatch
):
    real = os.fsync

    def failing(handle):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(error, os.strerror(error))
        real(handle)

    monkeypatch.setattr(durable.os, "fsync", failing)
    if told:
        with pytest.raises(OSError, match=os.strerror(error)):
            durable.replace(tmp_path / "m", [b"new"])
    else:
        durable.replace(tmp_path / "m", [b"new"])
    assert (tmp_path / "m").read_bytes() == b"new"
    assert open_files(tmp_path) == []
