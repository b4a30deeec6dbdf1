"""Tests of the command lines of benchmarks."""

import runpy
from pathlib import Path

import pytest

import benchmarks

FOLDER = Path(benchmarks.__file__).parent
COMMANDS = sorted(p.stem for p in FOLDER.glob("*.py") if '"__main__"' in p.read_text("utf-8"))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_each_command_needs_no_data(name, monkeypatch, capsys):
    monkeypatch.delenv("ROMCO_DATA", raising=False)
    monkeypatch.setattr("sys.argv", [name, "--help"])
    with pytest.raises(SystemExit) as stopped:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("usage:")
