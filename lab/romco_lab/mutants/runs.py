"""Tests against a changed copy of the package, each in a child with a time limit."""

import compileall
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGE = Path("src/romco")
QUIET = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly")


class Copy:
    """The package in a folder of its own, where files can be changed and put back."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info"))
        compileall.compile_dir(folder / "src", quiet=2)  # files that are changed are newer
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            if (ROOT / name).exists():
                shutil.copy2(ROOT / name, folder / name)

    def change(self, file: str, source: str) -> None:
        """Give a Python file another content."""
        (self.folder / PACKAGE / file).write_text(source, encoding="utf-8")

    def put_back(self, file: str) -> None:
        """As it was, and whatever was built from it."""
        here = self.folder / PACKAGE / file
        there = ROOT / PACKAGE / file
        for old in there.parent.glob(f"{there.stem}.*"):
            new = here.parent / old.name
            if new.stat().st_mtime_ns != old.stat().st_mtime_ns:
                shutil.copy2(old, new)

    def build(self) -> bool:
        """Compile the kernels that changed; whether they could be."""
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, check=False)
        return done.returncode == 0


@dataclass
class Task:
    """A run of tests that is asked for: what to do to a copy before and after."""

    name: str
    tests: tuple[str, ...]
    prepare: Callable[[Copy], bool]
    restore: Callable[[Copy], None]
    limit: float = 600.0  # seconds


@dataclass
class Outcome:
    """Outcome of a change."""

    task: Task
    status: int | None  # of pytest; None: too late
    seconds: float
    output: str = field(repr=False)

    @property
    def killed(self) -> bool:
        """Return whether the tests noticed; so they do if nothing can be collected."""
        return self.status != 0


def run(tasks: Iterable[Task], copies: list[Copy]) -> Iterator[Outcome]:
    """Outcomes as they come, one run per copy at a time."""
    left = iter(tasks)
    free = list(copies)
    running: dict[int, tuple[Task, Copy, float]] = {}
    while True:
        while free and (task := next(left, None)) is not None:
            copy = free.pop()
            if task.prepare(copy):
                running[_start_tests(task, copy)] = task, copy, time.monotonic()
            else:
                task.restore(copy)
                free.append(copy)
                yield Outcome(task, 1, 0.0, "it cannot be built")
        if not running:
            return
        pid, status = os.waitpid(-1, os.WNOHANG)
        now = time.monotonic()
        late = [p for p, (task, _, since) in running.items() if now - since > task.limit]
        if not pid and late:
            pid = late[0]
            status = -1
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        if not pid:
            time.sleep(0.02)
            continue
        task, copy, since = running.pop(pid)
        task.restore(copy)
        free.append(copy)
        ended = None if status == -1 else os.waitstatus_to_exitcode(status)
        output = (copy.folder / "output").read_text(errors="replace")
        yield Outcome(task, ended, now - since, output)


def _start_tests(task: Task, copy: Copy) -> int:
    """The process that runs the tests: a fork, for which all that is heavy is imported already."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        output = os.open(copy.folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for stream in (1, 2):
            os.dup2(output, stream)
        os._exit(_tested(task.tests, copy.folder / "src"))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(70)


def _tested(tests: tuple[str, ...], source: Path) -> int:
    import pytest

    sys.path.insert(0, str(source))
    os.environ["PYTHONPATH"] = str(source)  # for the processes that tests start
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    os.chdir(ROOT)
    import romco

    if not Path(romco.__file__).is_relative_to(source):
        return 71
    base = source.parent / "temporary"
    status = int(pytest.main([*QUIET, f"--basetemp={base}", *tests]))
    sys.stdout.flush()
    return status


def warm() -> None:
    """Import what every run needs, but nothing of romco: it is shared by all forks."""
    import numpy  # noqa: F401
    import pytest  # noqa: F401
    import scipy.linalg
    import scipy.optimize
    import scipy.sparse  # noqa: F401
