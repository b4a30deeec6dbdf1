"""Knowledge tracing on made students: a page, and figures that mean what they say."""

import csv
import gzip

import numpy as np
import pytest

from romco_lab import tracing


@pytest.fixture
def made(tmp_path):
    """Students of different skill, each answering the same kinds of items."""
    rng = np.random.default_rng(0)
    path = tmp_path / "made.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["part", "user", "timestamp", "item", "skill", "correct"])
        for user in range(40):
            ability = rng.normal(0.0, 1.5)
            for _ in range(30):
                item = int(rng.integers(0, 12))
                chance = 1 / (1 + np.exp(-(ability + item / 6 - 1)))
                part = "test" if user % 4 == 0 else "train"
                lines.writerow([part, user, 0, item, item % 3, int(rng.random() < chance)])
    return path


@pytest.mark.slow
def test_run_and_page(made, tmp_path):
    result = tracing.run(made, progress=lambda line: None)
    assert result["answers"] == 1200
    assert result["students"] == 40
    assert result["prequential"]["auc"] > 0.65
    assert result["frozen"]["auc"] > 0.65
    assert result["personal"]["auc"] > 0.65
    assert result["personal"] != result["frozen"]
    page = tracing.write([result], tmp_path / "out")
    text = page.read_text(encoding="utf-8")
    assert "romco, frozen" in text
    assert (tmp_path / "out" / "made.svg").stat().st_size > 1000


def test_a_file_without_students_is_refused(tmp_path):
    path = tmp_path / "bad.csv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.write("part,item,skill,correct\ntrain,1,1,1\n")
    with pytest.raises(ValueError, match="no column user"):
        tracing.load(path)
