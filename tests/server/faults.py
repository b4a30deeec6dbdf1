"""Compile and load faults.c, with which a process can be killed or starved at any file call."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("faults.c")


def build(folder: Path) -> Path:
    """Return the compiled library; skip the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or not Path("/proc/self/fd").exists():
        pytest.skip("needs Linux and a C compiler")
    library = folder / "faults.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def environment(library: Path, folder: Path, trace: Path | None = None) -> dict[str, str]:
    """Return the environment of a process whose calls on files under a folder are intercepted."""
    given = {"LD_PRELOAD": str(library), "FAULT_FOLDER": str(folder)}
    return {**os.environ, **given, **({"FAULT_TRACE": str(trace)} if trace else {})}


def kill_at(calls: int, moment: int) -> None:
    """Within such a process: kill it before (0), within (1) or after (2) a call."""
    ctypes.CDLL(None).fault_kill(ctypes.c_long(calls), moment)


CALLS = ("open", "write", "read", "sync", "rename", "unlink", "lock", "map")


def fail(call: str, code: int, times: int = -1) -> None:
    """Within such a process: let a call, or "all", fail so many times; without end if negative."""
    kinds = (1 << len(CALLS)) - 1 if call == "all" else 1 << CALLS.index(call)
    ctypes.CDLL(None).fault_fail(kinds, code, ctypes.c_long(times))


def recover() -> None:
    """Within such a process: let all calls succeed again."""
    ctypes.CDLL(None).fault_fail(0, 0, ctypes.c_long(0))
