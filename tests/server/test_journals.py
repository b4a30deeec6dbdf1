from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from romco.server import frames
from romco.server.frames import Damaged
from romco.server.journals import Journal


def filled(folder: Path, n: int = 6, segment_bytes: int = 100) -> list[Path]:
    journal = Journal(folder, segment_bytes)
    list(journal.open(0))
    for k in range(1, n + 1):
        journal.append(k, 1, f"entry {k}".encode())
        journal.sync()
        if journal.large:
            journal.rotate()
    journal.close()
    return sorted(folder.glob("log-*"))


def entries(folder: Path, after: int = 0) -> list[int]:
    journal = Journal(folder)
    found = [frame.first for frame in journal.open(after)]
    journal.close()
    return found


def test_what_was_appended_is_read(tmp_path):
    assert len(filled(tmp_path)) > 1
    assert entries(tmp_path) == [1, 2, 3, 4, 5, 6]
    assert entries(tmp_path, after=3) == [4, 5, 6]


@pytest.mark.parametrize("cut", range(1, 35))
def test_a_torn_last_frame_is_cut_wherever_it_was_torn(tmp_path, cut):
    (path,) = filled(tmp_path, n=3, segment_bytes=10**6)
    whole = path.read_bytes()
    size = len(frames.encode(3, 1, b"entry 3"))
    if cut >= size:
        return
    path.write_bytes(whole[:-cut])
    assert entries(tmp_path) == [1, 2]
    assert path.read_bytes() == whole[:-size]


def test_a_torn_tail_of_zeros_is_cut(tmp_path):
    (path,) = filled(tmp_path, n=2, segment_bytes=10**6)
    whole = path.read_bytes()
    path.write_bytes(whole + bytes(4096))
    assert entries(tmp_path) == [1, 2]
    assert path.read_bytes() == whole


def test_going_on_after_a_torn_frame(tmp_path):
    (path,) = filled(tmp_path, n=2, segment_bytes=10**6)
    path.write_bytes(path.read_bytes()[:-3])
    journal = Journal(tmp_path)
    assert [frame.first for frame in journal.open(0)] == [1]
    journal.append(2, 1, b"again")
    journal.close()
    assert entries(tmp_path) == [1, 2]


def test_every_damaged_byte_in_the_middle_stops_the_start_and_changes_nothing(tmp_path):
    (path,) = filled(tmp_path, n=3, segment_bytes=10**6)
    whole = path.read_bytes()
    for at in range(len(frames.encode(1, 1, b"entry 1"))):
        bad = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        path.write_bytes(bad)
        with pytest.raises(Damaged, match=path.name):
            entries(tmp_path)
        assert path.read_bytes() == bad


def test_damage_at_the_end_of_an_older_segment_is_no_torn_frame(tmp_path):
    first, *_ = filled(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(Damaged, match="damaged"):
        entries(tmp_path)


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_segment_stops_the_start(tmp_path, which):
    filled(tmp_path, n=9)[which].unlink()
    with pytest.raises(Damaged, match=r"missing|due"):
        entries(tmp_path)


def test_segments_are_dropped_when_a_checkpoint_holds_them(tmp_path):
    paths = filled(tmp_path, n=9)
    journal = Journal(tmp_path)
    list(journal.open(0))
    journal.drop(upto=6)
    journal.close()
    assert len(list(tmp_path.glob("log-*"))) < len(paths)
    assert entries(tmp_path, after=6) == [7, 8, 9]
    with pytest.raises(Damaged, match="missing"):
        entries(tmp_path, after=0)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from romco.server.journals import Full, Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
journal = Journal(Path(sys.argv[1]))
list(journal.open(0))
journal.append(1, 1, b"x" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (300, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
try:
    journal.append(2, 1, b"y" * 500)
except Full:
    print("full")
journal.append(2, 1, b"z" * 100)
journal.sync()
"""


def test_no_room_leaves_no_trace_and_what_fits_goes_on(tmp_path):
    if not hasattr(resource, "RLIMIT_FSIZE"):
        pytest.skip("no limit on the size of files here")
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "full\n"
    journal = Journal(tmp_path)
    assert [(f.first, f.payload[:1]) for f in journal.open(0)] == [(1, b"x"), (2, b"z")]
    journal.close()


def test_files_are_for_the_owner_only(tmp_path):
    (path,) = filled(tmp_path, n=1)
    assert path.stat().st_mode & 0o077 == 0
