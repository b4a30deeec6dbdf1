"""The page on other targets shows what is stored."""

from pathlib import Path

from benchmarks import other_targets

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_the_stored_results(capsys):
    other_targets.tables()
    page = (DOCS / "targets.md").read_text(encoding="utf-8")
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert len(rows) > 10
    assert all(row in page for row in rows)


def test_rivals_learn():
    task, x, y = other_targets.simulated()
    found = other_targets.least_squares(task[:600], x[:600], y[:600] - 100.0, "per task", 1.0)
    assert abs(found[300:] - (y[300:600] - 100.0)).mean() < abs(y[300:600] - 100.0).mean()
