"""The page of methods: its example runs, and its table knows every learner and parameter."""

import doctest
import inspect
from pathlib import Path

import pytest

import romco

PAGE = Path(__file__).resolve().parents[2] / "docs" / "methods.md"
ROWS = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]


def test_the_example_runs(monkeypatch):
    monkeypatch.setitem(romco.LEARNERS, "hebb", None)  # so that it is gone afterwards
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 5
    assert failed == 0


@pytest.mark.parametrize("name", romco.LEARNERS)
def test_every_learner_is_in_the_table_with_its_parameters(name):
    row = next((row for row in ROWS if f"`{name}`" in row.split("|")[1]), None)
    assert row, f"docs/methods.md has no row for {name!r}"
    if name == "romco-logd":  # its row points to the one above
        row += ROWS[0]
    for parameter, default in romco.LEARNERS[name].parameters.items():
        assert f"`{parameter}" in row
        if default is not inspect.Parameter.empty and not isinstance(default, float):
            shown = f'"{default}"' if isinstance(default, str) else str(default)
            assert f"`{parameter}={shown}`" in row
        elif isinstance(default, float):
            stated = row.split(f"`{parameter}=")[1].split("`")[0]
            assert float(stated) == default


def test_where_each_learner_starts_a_new_task_is_told():
    told = PAGE.read_text(encoding="utf-8").split("## Tasks that come later")[1].split("## Add")[0]
    assert [name for name in romco.LEARNERS if f"`{name}`" not in told] == []
