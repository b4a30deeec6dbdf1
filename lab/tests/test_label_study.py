import numpy as np
import pytest

import romco
from romco_lab import label_study as labelling
from romco_lab.learner_runs import perform

TINY = romco.streams.simulated(n_tasks=3, n_features=5, n_events=40, name="tiny")


@pytest.fixture
def study(monkeypatch):
    for place in ("romco.compare.sources.load",):
        monkeypatch.setattr(place, lambda name, data_dir=None: TINY)
    from romco.compare import sources

    sources.stream_of.cache_clear()
    yield labelling.LabelStudy("tiny", (0.1, 0.5), ("budget", "random"), "arow-shared", shuffles=2)
    sources.stream_of.cache_clear()


def test_error_against_labels(study, tmp_path):
    runs = [run for some in study.runs().values() for run in some]
    assert len(runs) == 2 * (1 + 4)
    assert len({run.name for run in runs}) == len(runs)
    perform(runs, tmp_path / "runs", jobs=1)
    table, page = labelling.report(study, tmp_path / "runs", tmp_path / "out", "the command")
    assert [row[0].text for row in table.rows] == ["budget", "random"]
    assert table.rows[1][-1].text == "1.000"
    assert "all labels" in " ".join(table.notes)
    assert "the command" in page.read_text()
    found = labelling.errors(study, tmp_path / "runs")
    assert found["random", 0.1].shape == (2,)
    plain = romco.learner("arow-shared", 5, 3).replay(romco.streams.interleaved(TINY, 0))
    truth = romco.streams.interleaved(TINY, 0)
    wrong = np.where(plain >= 0, 1.0, -1.0) != truth.y
    by_task = [wrong[truth.task == task].mean() for task in range(3)]
    assert found[labelling.FULL, 1.0][0] == pytest.approx(np.mean(by_task))


def test_shares_are_percents_or_fractions():
    assert labelling.chosen_shares("1%, 0.05,100%") == (0.01, 0.05, 1.0)
    for bad in ("0", "101%", "x", "", "500"):
        with pytest.raises(ValueError, match="share"):
            labelling.chosen_shares(bad)
