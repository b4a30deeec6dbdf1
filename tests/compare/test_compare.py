import numpy as np
import pytest

import romco
from romco.compare.compare import Comparison, chosen_learners, chosen_settings, report
from romco.compare.results import outcomes
from romco.compare.run import perform
from romco.compare.sharing import tasks_table


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare")
    settings = {"ogd-unique": {"eta": 0.5}}
    learners = ("romco-nucl", "romco-logd", "ogd-unique")
    comparison = Comparison("simulated", learners, 2, "synchronous", settings)
    perform(comparison.runs(), out / "runs", jobs=2)
    table, page = report(comparison, out / "runs", out / "simulated", "romco compare <x>")
    return comparison, table, page


def test_the_table_has_a_row_for_each_learner_and_one_best_error(finished):
    _, table, _ = finished
    assert [row[0].text for row in table.rows] == ["ROMCO-NuCl", "ROMCO-LogD", "OGD-Unique"]
    errors = [float(row[1].text.split()[0]) for row in table.rows]
    assert [row[1].best for row in table.rows] == [error == min(errors) for error in errors]


def test_the_page_needs_no_other_file(finished):
    _, _, page = finished
    text = page.read_text()
    assert text.count("data:image/svg+xml;base64,") == 3
    assert "http://" not in text
    assert "https://" not in text
    assert 'src="data:' in text
    assert "romco compare &lt;x&gt;" in text
    for part in ("eta=0.5", "ROMCO-LogD", "numpy", "planted truth"):
        assert part in text


def test_the_page_says_it_in_words_first_and_fits_a_phone_and_the_dark(finished):
    _, _, page = finished
    text = page.read_text()
    assert text.index("Every learner is given the same events") < text.index("<table")
    assert "The positive class is +1." in text
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("<script>") == 1
    assert '<td data-label="seconds">' in text  # what stands before a number where rows are stacked


def test_each_task_is_told_whether_it_gains(finished):
    comparison, _, page = finished
    found = outcomes(comparison.runs(), page.parent.parent / "runs")
    table = tasks_table(found)
    assert len(table.rows) == 20
    alone = next(one for one in found if one.learner == "ogd-unique")
    ours = min(found[:2], key=lambda one: one.macro("error_rate").mean())
    for i, row in enumerate(table.rows):
        points = 100 * (alone.per_task("error_rate") - ours.per_task("error_rate"))[:, i]
        words = row[-1].text
        assert words.startswith("gains") == bool((points > 0).all())
        assert words.startswith("better off alone") == bool((points < 0).all())
    assert "Task by task" in page.read_text()
    assert tasks_table(found[:2]) is None  # nobody learns each task alone


def test_figures_come_three_ways(finished):
    _, _, page = finished
    names = {path.name for path in (page.parent / "figures").iterdir()}
    figures = ("error", "spectrum", "personal")
    assert names == {f"{figure}.{kind}" for figure in figures for kind in ("svg", "png", "pdf")}


def test_reporting_again_gives_the_same_table(finished, tmp_path):
    comparison, table, page = finished
    results = page.parent.parent / "runs"
    again, _ = report(comparison, results, tmp_path / "again", "again")
    assert again == table


def test_learners_by_list_or_word():
    assert chosen_learners("all") == tuple(romco.LEARNERS)
    assert all(romco.LEARNERS[name].role == "paper" for name in chosen_learners("paper"))
    assert "romco-nucl" in chosen_learners(None)
    with pytest.raises(ValueError, match="unknown learner 'pa'; known are romco-"):
        chosen_learners("pa")


def test_settings_are_read_as_numbers_words_and_truth_values():
    texts = ["romco-nucl.always_prox=true", "romco-nucl.eta1=1e-3", "romco-nucl.step=inverse-sqrt"]
    wanted = {"always_prox": True, "eta1": 1e-3, "step": "inverse-sqrt"}
    assert chosen_settings(texts) == {"romco-nucl": wanted}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eta=1", "expected learner.parameter=value"),
        ("ogd-unique.eta", "expected learner.parameter=value"),
        ("ogd.eta=1", "unknown learner 'ogd'"),
        ("ogd-unique.etta=1", "has no parameter 'etta'"),
        ("ogd-unique.eta=-1", "eta must be a positive number"),
    ],
)
def test_bad_settings_are_told_before_anything_runs(text, message):
    with pytest.raises(ValueError, match=message):
        chosen_settings([text])


@pytest.mark.parametrize("name", ["romco-nucl", "romco-logd"])
def test_the_planted_outliers_have_the_largest_personal_norms(name):
    """The claim the demo makes, over 10 streams, with the settings the demo uses."""
    found = []
    for seed in range(10):
        stream = romco.streams.simulated(seed=seed)
        learner = romco.learner(name, stream.n_features, stream.n_tasks)
        learner.replay(romco.streams.synchronous(stream, seed=0))
        outliers = stream.truth.outliers
        largest = np.argsort(-learner.personal_norms())[: len(outliers)]
        found.append(np.isin(largest, outliers).mean())
    assert np.mean(found) >= 0.9
