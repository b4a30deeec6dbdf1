"""What other packages add by entry points: data sets, file formats, label policies, commands."""

import os
import subprocess
import sys

import pytest

from romco.plugins import Registry

ENTRIES = """
[romco.commands]
hello = theirs:hello
[romco.datasets]
tiny = theirs:TINY
[romco.formats]
pairs = theirs:PAIRS
[romco.label_policies]
never = theirs:Never
broken = no_such_module:thing
"""
MODULE = """
from romco.io.formats import Format
from romco.labels import Policy
from romco.streams import simulated
from romco.streams.datasets import Dataset

def hello(name: str = "you") -> None:
    "Greet somebody."
    print(f"hello {name}")

TINY = Dataset("tiny", "three tasks", lambda data_dir: simulated(3, 4, 20, outliers=1, name="tiny"))

def read_pairs(stream, name, wanted):
    for number, line in enumerate(stream, start=1):
        yield number, dict(part.split("=") for part in line.decode().split())

PAIRS = Format((".pairs",), read_pairs)

class Never(Policy):
    "Ask for nothing."
    name = "never"

    def wants(self, task, doubt, left):
        return False
"""


@pytest.fixture
def python(tmp_path):
    """Run a program in an environment that has the package."""
    folder = tmp_path / "theirs-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "theirs.py").write_text(MODULE)

    def run(*arguments):
        path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
        environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "120"}
        environment["ROMCO_DATA"] = str(tmp_path)  # no real data: they take long to list
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def test_a_command_and_a_data_set_join_the_command_line(python):
    assert "Greet somebody." in python("-m", "romco", "--help")
    assert python("-m", "romco", "hello") == "hello you\n"
    program = "from romco.streams.datasets import DATASETS; print(DATASETS['tiny'].summary)"
    assert python("-c", program) == "three tasks\n"


def test_a_file_format_is_read_by_its_suffix(python, tmp_path):
    rows = [f"user=u{k % 3} kind={'a' if k % 2 else 'b'} x={k % 2}" for k in range(30)]
    (tmp_path / "events.pairs").write_text("\n".join(rows) + "\n")
    options = ("--task", "user", "--label", "kind", "--model", "m.romco")
    assert "30 events learned" in python("-m", "romco", "learn", "events.pairs", *options)


def test_a_label_policy_is_made_by_name(python):
    program = "from romco.labels import policy; print(policy('never', 0.5).name)"
    assert python("-c", program) == "never\n"


def test_one_that_cannot_be_imported_is_named_when_it_is_used(python):
    program = """
from romco.labels import POLICIES
assert "broken" in POLICIES
try:
    POLICIES["broken"]
except ImportError as error:
    print(error)
"""
    assert "'broken' of romco.label_policies (no_such_module:thing) cannot be loaded" in python(
        "-c", program
    )


def test_built_in_names_come_first_and_stay():
    registry = Registry("romco.commands", {"paper": 1})
    assert registry["paper"] == 1
    assert next(iter(registry)) == "paper"
    with pytest.raises(KeyError):
        registry["nothing"]
