"""The roads from a file: the same events for all, and a number for each."""

import pytest

from benchmarks import files
from benchmarks.tables import tables
from benchmarks.targets import targets
from tests.io.helpers import read_blocks


def test_both_files_hold_the_same_events(tmp_path):
    files.write(tmp_path, 20)
    with read_blocks(tmp_path / "mail.csv", "user", "label", text="text") as blocks:
        block, _ = blocks.take(100)
    lines = (tmp_path / "mail.vw").read_text().splitlines()
    assert len(block) == len(lines) == 20
    for i, line in enumerate(lines):
        label, task, features = line.split("|")
        assert int(label) == (1 if block.labels[i] == "spam" else -1)
        assert task.split() == ["t", block.tasks[i]]
        part = block.features.rows(i, i + 1)
        names = {part.lexicon.names[name] for name in part.names}
        words = {f"text:{word}" for word in features.split()[3:]}
        assert names == words | {"size", features.split()[2]}


@pytest.mark.parametrize("name", [f"{files.DEFAULT}, hashed", "pa-global, hashed", files.PANDAS])
def test_each_road_learns(tmp_path, name):
    files.write(tmp_path, 1500)
    assert 0.0 < files.ROADS[name](tmp_path) < 0.5


def test_what_was_measured_is_told():
    rows = [
        {"workload": "mail", "system": name, "microseconds": [4.0], "cpu": [cost], "events": 9}
        for name, cost in ((f"{files.DEFAULT}, hashed", 2.0), (files.VW, 1.0), (files.PANDAS, 8.0))
    ]
    [table] = tables({"i": rows})
    cells = {row[0]: row for row in table.rows}
    assert cells[f"{files.DEFAULT}, hashed"][3:5] == ["0.50", "4.00"]
    found = {target.what: target for target in targets({"i": rows})}
    ours = f"(i) from a file: {files.DEFAULT}, hashed: times"
    assert found[f"{ours} {files.VW}"].met is True
    assert found[f"{ours} {files.PANDAS}, on the clock"].met is False
    assert found[f"{ours} {files.PANDAS}"].met is True
