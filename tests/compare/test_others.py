"""Learners side by side on many classes and on numbers: what is measured, and how it is told."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.compare import others, own
from romco.compare.other_reports import other_report
from romco.compare.run import execute, perform
from romco.compare.sources import shuffled
from romco.evaluation.score import most_likely
from romco.streams import Stream

runner = CliRunner()


def stream(answers, n=150, d=4, m=3, seed=0):
    rng = np.random.default_rng(seed)
    x, task = rng.normal(size=(n, d)), rng.integers(m, size=n)
    z = x @ rng.normal(size=(d, max(answers, 1))) + 0.3 * rng.normal(size=(n, max(answers, 1)))
    y = z.argmax(axis=1).astype(float) if answers else 1000.0 + 5.0 * z[:, 0]
    labels = tuple("abcdefgh"[:answers])
    return Stream(f"made-{answers}", task, x, y, ("p", "q", "r"), labels, answers=answers)


def compared(folder, answers, **more):
    own.keep(stream(answers), folder / "streams")
    names = ("romco-auto", "pa-unique", "pa-global")
    given = {"learners": names, "shuffles": 2, "order": "interleaved", "settings": {}, **more}
    comparison = others.OtherComparison(f"made-{answers}", data_dir=folder / "streams", **given)
    results = folder / "runs"
    perform(comparison.runs(), results, folder / "streams", 1, lines=others.other_records)
    return comparison, results


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_kept_stream_comes_back_with_its_answers(tmp_path):
    for answers in (0, 4):
        kept = stream(answers)
        own.keep(kept, tmp_path)
        found = own.found(kept.name, tmp_path)
        assert (found.answers, found.labels, found.tasks) == (answers, kept.labels, kept.tasks)
        np.testing.assert_array_equal(found.y, kept.y)


def test_scores_of_classes_are_those_of_the_learner(tmp_path):
    comparison, results = compared(tmp_path, 3)
    run = comparison.runs()[0]
    *_, last, end = lines(execute(run, results, comparison.data_dir))
    rounds = shuffled("made-3", "interleaved", 0, comparison.data_dir)
    scores = romco.learner("classes", 4, 3, inner="romco-auto", n_classes=3).replay(rounds)
    y = rounds.events.y.astype(int)
    assert last["scores"]["error"] == pytest.approx(np.mean(most_likely(scores) != y), rel=1e-6)
    assert last["scores"]["log_loss"] == pytest.approx(
        -scores[np.arange(len(y)), y].mean(), rel=1e-6
    )
    assert np.sum(end["end"]["table"]) == len(y)


def test_scores_of_numbers_leave_out_the_first_events(tmp_path):
    comparison, results = compared(tmp_path, 0)
    run = comparison.runs()[0]
    *_, last, end = lines(execute(run, results, comparison.data_dir))
    rounds = shuffled("made-0", "interleaved", 0, comparison.data_dir)
    error = (romco.learner("romco-auto-number", 4, 3).replay(rounds) - rounds.events.y)[5:]
    assert last["scores"]["rmse"] == pytest.approx(np.sqrt(np.mean(error**2)), rel=1e-6)
    assert last["scores"]["rmse"] < 100.0  # the first answer alone is 1000 off
    assert 0.5 < end["end"]["coverage"] <= 1.0


@pytest.mark.parametrize(("answers", "shown"), [(3, "macro F1"), (0, "RMSE")])
def test_a_page_with_the_measures_of_the_target(tmp_path, answers, shown):
    comparison, results = compared(tmp_path, answers)
    tables, told, page = other_report(comparison, results, tmp_path / "page", "romco compare")
    text = page.read_text()
    assert shown in text
    assert "Sharing" in told
    assert "majority" in text if answers else "mean of task" in text
    assert len(tables) == (2 if answers else 1)  # classes: who was taken for whom
    first = [cell.text for cell in tables[0].rows[0]]
    assert len(first) == len(tables[0].head)


def test_what_cannot_be_compared_is_told_before_anything_runs():
    with pytest.raises(ValueError, match="cw-col cannot predict numbers; these can"):
        others.chosen_others("cw-col", 0)
    with pytest.raises(ValueError, match="mtfl cannot be one of many"):
        others.chosen_others("mtfl", 3)
    with pytest.raises(ValueError, match=r"expected learner\.parameter=value"):
        others.other_settings(["C=1"], 3)
    assert others.other_settings(["pa-unique.C=0.5"], 0) == {"pa-unique": {"C": 0.5}}


@pytest.mark.parametrize("target", ["classes", "number", "auto"])
def test_a_file_on_the_command_line(tmp_path, target):
    made = stream(0 if target == "number" else 3, n=60)
    rows = ["who,answer,u,v"]
    for task, x, y in zip(made.task, made.x, made.y, strict=True):
        answer = y if target == "number" else "xyz"[int(y)]
        rows.append(f"p{task},{answer},{x[0]:.3f},{x[1]:.3f}")
    (tmp_path / "f.csv").write_text("\n".join(rows))
    done = runner.invoke(
        app,
        [
            *("compare", str(tmp_path / "f.csv"), "--task", "who", "--label", "answer"),
            *("--target", target, "--learners", "romco-auto,pa-unique", "--shuffles", "2"),
            *("--jobs", "1", "--out", str(tmp_path / "out")),
        ],
    )
    assert done.exit_code == 0, done.output
    assert ("RMSE" if target == "number" else "macro") in done.output
    assert (tmp_path / "out" / "f.csv" / "index.html").exists()


def test_a_data_set_without_another_target_says_so(tmp_path):
    given = ["--target", "number", "--out", str(tmp_path)]
    done = runner.invoke(app, ["compare", "simulated", *given])
    assert done.exit_code != 0
    assert "simulated has no target number" in str(done.exception) + done.output
