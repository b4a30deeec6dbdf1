"""The report of a comparison: table, page, and files of one's own on the command line."""

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.compare import read_file
from romco.cli.main import app
from romco.compare import refitted, sources
from romco.compare.controls import CONTROLS, ONE_HOT, POOLED, REFITTED, TREES, title_of
from romco.compare.report import compare, report
from romco.compare.results import read
from romco.compare.run import Comparison, chosen_learners, chosen_settings, place
from romco.model.rows import Rows
from romco.runs import Source
from romco.streams import Stream
from tests.io.helpers import read_blocks

runner = CliRunner()
SMALL = "simulated@n_tasks=6,n_features=8,n_events=60,outliers=1"


def stream_of(answers, n=400, d=4, m=8, seed=0):
    rng = np.random.default_rng(seed)
    x, task = rng.normal(size=(n, d)), rng.integers(m, size=n)
    z = x @ rng.normal(size=(d, max(answers, 1))) + 0.3 * rng.normal(size=(n, max(answers, 1)))
    y = z.argmax(axis=1).astype(float) if answers else 1000.0 + 5.0 * z[:, 0]
    tasks, labels = tuple(f"user {k}" for k in range(m)), tuple("abcdefgh"[:answers])
    return Stream(f"made-{answers}", task, x, y, tasks, labels, answers=answers)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("compare")
    settings = {"ogd-unique": {"eta": 0.5}}
    comparison = Comparison(SMALL, ("romco-nucl", "ogd-unique"), 2, settings=settings)
    return comparison, compare(comparison, out, "romco compare <x>", jobs=1)


def test_the_table_has_every_control_and_one_best_log_loss(finished):
    _, found = finished
    rows = found.table.rows
    titles = [title_of(name) for name in (*CONTROLS, POOLED, ONE_HOT, REFITTED)]
    titles += [title_of(TREES)] if refitted.has_trees() else []
    assert [row[0].text for row in rows] == [*titles, "ROMCO-NuCl", "OGD-Unique", "ROMCO-Auto"]
    losses = [float(row[1].text) for row in rows]
    best = [loss for loss, row in zip(losses, rows, strict=True) if row[1].best]
    assert best == [min(losses)]


def test_the_page_begins_with_the_verdict_and_a_picture(finished):
    _, found = finished
    text = found.page.read_text()
    assert f"<h1>{found.verdict.title}</h1>" in text
    assert text.index("<h1>") < text.index("<polyline") < text.index("<table")
    assert text.count("<polyline") == 3
    for name in ("without the task", "with the task", "with sharing"):
        assert f"{name}: " in text


def test_terms_of_the_method_are_behind_a_fold(finished):
    _, found = finished
    text = found.page.read_text()
    folds = text[text.index("<details><summary>Details") :]
    for term in ("Part of the loss that ROMCO-Auto saves", "eta=0.5"):
        assert term in folds
        assert term not in text[: text.index("<details><summary>Details")]


def test_the_page_needs_no_other_file_and_fits_a_phone_and_the_dark(finished):
    _, found = finished
    text = found.page.read_text()
    assert "http://" not in text
    assert "https://" not in text
    assert "romco compare &lt;x&gt;" in text
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text
    assert text.count("<script>") == 1
    assert '<td data-label="AUC">' in text  # stands before a number where rows are stacked


def test_reporting_again_gives_the_same_table(finished, tmp_path):
    comparison, found = finished
    again = report(comparison, found.page.parent.parent / "runs", tmp_path / "again", "again")
    assert again.table == found.table
    assert again.verdict.text == found.verdict.text


@pytest.mark.parametrize(("answers", "shown"), [(3, "macro F1"), (0, "RMSE")])
def test_classes_and_numbers_have_the_same_report(tmp_path, answers, shown):
    sources.save_stream(stream_of(answers), tmp_path / "streams")
    comparison = Comparison(f"made-{answers}", ("pa-unique",), 2, data_dir=tmp_path / "streams")
    found = compare(comparison, tmp_path, "romco compare", jobs=1)
    text = found.page.read_text()
    assert shown in text
    assert [row[0].text for row in found.table.rows][-2:] == ["PA-Unique", "ROMCO-Auto"]
    assert all(len(row) == len(found.table.head) for row in found.table.rows)
    assert ("True classes" in text) == bool(answers)


def test_figures_of_classes_are_those_of_the_learner(tmp_path):
    sources.save_stream(stream_of(3), tmp_path / "streams")
    comparison = Comparison("made-3", (), 1, data_dir=tmp_path / "streams")
    compare(comparison, tmp_path, "romco compare", jobs=1)
    run = comparison.runs()[-1]
    end = read(place(run, tmp_path / "runs")).end
    rounds = sources.shuffled("made-3", "interleaved", 0, tmp_path / "streams")
    y = rounds.events.y.astype(int)
    model = romco.Model(target="classes")
    labels = np.array(list("abc"))[y]
    rows = [dict(zip("abcd", row, strict=True)) for row in rounds.events.x.toarray().tolist()]
    found = model.engine.predict_and_learn(Rows(rows, rounds.events.task, labels))
    wrong = model.engine.target.labels_of(found.margins) != labels
    assert end["error"] == pytest.approx(wrong.mean(), rel=1e-6)
    assert np.sum(end["table"]) == len(y)


def test_learners_by_list_or_word():
    assert chosen_learners("all") == tuple(romco.LEARNERS)
    assert all(romco.LEARNERS[name].role == "paper" for name in chosen_learners("paper"))
    assert chosen_learners(None) == ()
    with pytest.raises(ValueError, match="unknown learner 'pa'; known are romco-"):
        chosen_learners("pa")
    with pytest.raises(ValueError, match="cw-col cannot predict numbers; these can"):
        chosen_learners("cw-col", 0)
    with pytest.raises(ValueError, match="mtfl cannot be one of many"):
        chosen_learners("mtfl", 3)
    assert "mtfl" not in chosen_learners("all", 3)


def test_settings_are_read_as_numbers_words_and_truth_values():
    texts = ["romco-nucl.always_prox=true", "romco-nucl.eta1=1e-3", "romco-nucl.step=inverse-sqrt"]
    wanted = {"always_prox": True, "eta1": 1e-3, "step": "inverse-sqrt"}
    assert chosen_settings(texts) == {"romco-nucl": wanted}
    assert chosen_settings(["pa-unique.C=0.5"], 0) == {"pa-unique": {"C": 0.5}}


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
def test_bad_settings_are_refused_before_anything_runs(text, message):
    with pytest.raises(ValueError, match=message):
        chosen_settings([text])


def test_large_files_are_read_in_fewer_orders(tmp_path):
    assert len(Comparison(SMALL).seeds) == 5
    assert len(Comparison(SMALL, order="recorded").seeds) == 1
    n = 60_000
    large = Stream("large", np.zeros(n, int), np.ones((n, 1)), np.ones(n), ("a",), ("n", "y"))
    sources.save_stream(large, tmp_path)
    assert len(Comparison("large", data_dir=tmp_path).seeds) == 1
    assert len(Comparison("large", shuffles=3, data_dir=tmp_path).seeds) == 3


@pytest.mark.parametrize("name", ["romco-nucl", pytest.param("romco-logd", marks=pytest.mark.slow)])
def test_the_planted_outliers_have_the_largest_personal_norms(name):
    """The claim of the paper on its simulated data, over 5 streams, with default settings."""
    found = []
    for seed in range(5):
        stream = romco.streams.simulated(seed=seed)
        learner = romco.learner(name, stream.n_features, stream.n_tasks)
        learner.replay(romco.streams.synchronous(stream, seed=0))
        outliers = stream.truth.outliers
        largest = np.argsort(-learner.personal_norms())[: len(outliers)]
        found.append(np.isin(largest, outliers).mean())
    assert np.mean(found) >= 0.9


def write(path, stream, seed=0):
    rounds = romco.streams.interleaved(stream, seed)
    names = [f"f{j}" for j in range(stream.n_features)]
    lines = [",".join(["user", "clicked", *names])]
    for task, x, y in zip(rounds.task, rounds.x, rounds.y, strict=True):
        cells = [f"{value:.6g}" for value in x]
        lines.append(",".join([f"u{task}", "yes" if y > 0 else "no", *cells]))
    path.write_text("\n".join(lines) + "\n")
    return rounds


def blocks_of(path, **options):
    with read_blocks(path, "user", "clicked", **options) as blocks:
        while len(block := blocks.take(50)[0]):
            yield block


def test_a_file_is_the_stream_that_was_written(tmp_path):
    made = romco.streams.simulated(n_tasks=5, n_features=4, n_events=30, outliers=1)
    rounds = write(tmp_path / "my.csv", made)
    stream = sources.gather("my.csv", blocks_of(tmp_path / "my.csv"))
    sources.save_stream(stream, tmp_path / "streams")
    again = sources.saved_stream("my.csv", tmp_path / "streams")
    assert again.labels == ("no", "yes")
    np.testing.assert_allclose(again.x.toarray(), rounds.x, rtol=1e-5)
    np.testing.assert_array_equal(again.y, rounds.y)
    assert [again.tasks[k] for k in again.task] == [f"u{k}" for k in rounds.task]
    turned = sources.gather("my.csv", blocks_of(tmp_path / "my.csv"), positive="no")
    np.testing.assert_array_equal(turned.y, -rounds.y)
    assert sources.saved_stream("other.csv", tmp_path / "streams") is None
    assert sources.saved_stream("my.csv", None) is None


@pytest.mark.parametrize("answers", [0, 4])
def test_a_saved_stream_comes_back_with_its_answers(tmp_path, answers):
    made = stream_of(answers)
    sources.save_stream(made, tmp_path)
    found = sources.saved_stream(made.name, tmp_path)
    assert (found.answers, found.labels, found.tasks) == (answers, made.labels, made.tasks)
    np.testing.assert_array_equal(found.y, made.y)


def test_one_label_is_not_enough(tmp_path):
    (tmp_path / "my.csv").write_text("user,clicked,a\nann,yes,1\n")
    with pytest.raises(ValueError, match="expected events of two labels"):
        sources.gather("my.csv", blocks_of(tmp_path / "my.csv"))


def test_compare_answers_whether_sharing_helps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "my.csv", romco.streams.simulated(n_tasks=12, n_features=8, n_events=25))
    columns = ["--task", "user", "--label", "clicked", "--shuffles", "2", "--jobs", "1"]
    done = runner.invoke(app, ["compare", "my.csv", *columns])
    assert done.exit_code == 0, done.output
    assert "Without the task the best is" in done.output
    assert "shares between tasks: " in done.output
    page = tmp_path / "results" / "compare" / "my.csv" / "index.html"
    assert "yes in " in page.read_text()
    missing = runner.invoke(app, ["compare", "nothing.csv"])
    assert "and no such file" in str(missing.exception)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("two", ["--together", "day"]),
        ("classes", []),
        ("number", []),
        pytest.param("two", [], marks=pytest.mark.slow),
        pytest.param("classes", ["--together", "day"], marks=pytest.mark.slow),
        pytest.param("number", ["--together", "day"], marks=pytest.mark.slow),
    ],
)
def test_learn_and_compare_print_the_same_figures(tmp_path, kind, options):
    rng = np.random.default_rng(3)
    n = 150
    a = rng.normal(size=n)
    labels = {
        "two": np.where(a + rng.normal(size=n) > 0, "yes", "no"),
        "classes": rng.choice(["x", "y", "z"], n),
        "number": 70.0 + a + rng.normal(size=n),
    }[kind]
    rows = [f"u{k % 4},{a[k]:.6f},d{k // 7},{labels[k]}" for k in range(n)]
    path = tmp_path / "f.csv"
    path.write_text("\n".join(["who,a,day,label", *rows]) + "\n")
    columns = ["--task", "who", "--label", "label", "--numeric", "a", "--ignore", "day", *options]
    model = ["--model", str(tmp_path / "m.romco")]
    said = runner.invoke(app, ["learn", str(path), *columns, *model]).output
    out = ["--out", str(tmp_path / "out"), "--order", "recorded", "--jobs", "1"]
    done = runner.invoke(app, ["compare", str(path), *columns, *out])
    assert done.exit_code == 0, done.output
    line = next(line for line in done.output.splitlines() if line.startswith("ROMCO-Auto  "))
    figures = line.replace("*", "").split()[1:]
    if kind == "number":
        assert f"RMSE {figures[0]} (" in said
        assert f"MAE {figures[1]}, R2 {figures[2]}" in said
    else:
        assert f"log loss {float(figures[0]) - 1e-9:.3f}" in said or figures[0][:5] in said
        assert f"error by events {figures[1]}%" in said
    came = "with all rows of one day" if options else "right after each prediction"
    assert f"labels came {came}" in said
    assert f"labels came {came}" in done.output


def test_a_label_that_nobody_knew_is_an_error_of_every_row(tmp_path):
    rows = [f"u{k % 5},{k % 7},label {k}" for k in range(60)]
    (tmp_path / "f.csv").write_text("\n".join(["who,a,y", *rows]) + "\n")
    given = ["--task", "who", "--label", "y", "--order", "recorded", "--jobs", "1"]
    done = runner.invoke(app, ["compare", str(tmp_path / "f.csv"), *given, "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    table = (tmp_path / "f.csv recorded" / "table.md").read_text()
    rows = [line.split("|")[1:5] for line in table.splitlines() if "100.00" in line]
    assert len(rows) >= len(CONTROLS) + 3
    assert {tuple(cell.strip(" *") for cell in row[1:]) for row in rows} == {
        ("-", "100.00", "100.00")
    }
    assert "Nothing can be compared: no label came a second time" in done.output
    assert "log loss -" not in done.output


def test_one_task_has_nobody_to_share_with(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"ann,{i % 7},{'yes' if i % 7 > 3 else 'no'}" for i in range(80)]
    (tmp_path / "one.csv").write_text("\n".join(["who,a,bought", *rows]) + "\n")
    given = ["--task", "who", "--label", "bought", "--shuffles", "1", "--jobs", "1"]
    done = runner.invoke(app, ["compare", "one.csv", *given])
    assert done.exit_code == 0, done.output
    assert "All events are of one task: there is nothing to share" in done.output
    assert "Sharing between" not in done.output
    (page,) = tmp_path.glob("results/compare/*/index.html")
    assert "80 events of 1 task, " in page.read_text()


def test_compare_reads_columns_as_asked(tmp_path, capsys):
    lines = ["user,code,when,note,clicked"]
    for i in range(60):
        lines.append(f"u{i % 3},{i % 4},2024-0{1 + i % 9}-01,note {i},{'yes' if i % 4 else 'no'}")
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join(lines) + "\n")
    columns = {"code": "category", "when": "date", "note": "ignored"}
    source = Source(str(path), "user", "clicked", kinds=columns)
    assert read_file(source, "yes", "auto", tmp_path / "streams") == 1
    stream = sources.saved_stream("clicks.csv", tmp_path / "streams")
    assert stream.x.shape[1] >= 4  # each code is a feature of its own, with months and weekdays
    assert set(np.unique(stream.x.data)) == {1.0}
    printed = capsys.readouterr().err
    assert "code" in printed
    assert "as asked" in printed


def test_columns_of_a_file_are_no_options_of_a_data_set():
    result = runner.invoke(app, ["compare", "simulated", "--numeric", "age"])
    assert "no such file" in str(result.exception)


@pytest.mark.parametrize(
    "target", ["classes", "number", pytest.param("auto", marks=pytest.mark.slow)]
)
def test_other_targets_on_the_command_line(tmp_path, target):
    made = stream_of(0 if target == "number" else 3, n=60, m=3)
    rows = ["who,answer,u,v"]
    for task, x, y in zip(made.task, made.x, made.y, strict=True):
        answer = y if target == "number" else "xyz"[int(y)]
        rows.append(f"p{task},{answer},{x[0]:.3f},{x[1]:.3f}")
    (tmp_path / "f.csv").write_text("\n".join(rows))
    given = ["--task", "who", "--label", "answer", "--target", target, "--learners", "pa-unique"]
    where = ["--shuffles", "2", "--jobs", "1", "--out", str(tmp_path / "out")]
    done = runner.invoke(app, ["compare", str(tmp_path / "f.csv"), *given, *where])
    assert done.exit_code == 0, done.output
    assert ("RMSE" if target == "number" else "macro") in done.output
    assert (tmp_path / "out" / "f.csv" / "index.html").exists()


def test_a_data_set_without_another_target_says_so(tmp_path):
    given = ["--target", "number", "--out", str(tmp_path)]
    done = runner.invoke(app, ["compare", "simulated", *given])
    assert done.exit_code != 0
    assert "simulated has no target number" in str(done.exception) + done.output


@pytest.mark.parametrize("target", ["two-classes", "number"])
def test_every_row_knows_the_offset(tmp_path, target):
    rng = np.random.default_rng(0)
    base, a = 4.0 * rng.normal(size=300), rng.normal(size=300)
    y = base if target == "number" else np.where(base + rng.logistic(size=300) > 0, "yes", "no")
    rows = [f"u{i % 5},{y[i]},{a[i]:.3f},{base[i]:.6f}" for i in range(300)]
    (tmp_path / "f.csv").write_text("\n".join(["who,answer,a,base", *rows]))
    given = ["--task", "who", "--label", "answer", "--target", target, "--offset", "base"]
    where = ["--shuffles", "1", "--jobs", "1", "--out", str(tmp_path / "out")]
    more = ["--learners", "ogd-unique"]
    done = runner.invoke(app, ["compare", str(tmp_path / "f.csv"), *given, *where, *more])
    assert done.exit_code == 0, done.output
    assert sources.OFFSET_NOTE in done.output
    table = (tmp_path / "out" / "f.csv" / "table.md").read_text()
    figures = [
        float(line.split("|")[2].strip(" *"))
        for line in table.splitlines()[4:]
        if line.startswith("| ") and "failed" not in line
    ]
    if target == "number":  # the offset is the answer
        assert len(figures) == len(CONTROLS) + 2
        assert max(figures) < 1e-6
    else:  # nearly the entropy of the true probabilities; log 2 would be no offset
        chance = 1.0 / (1.0 + np.exp(-base))
        entropy = -np.mean(chance * np.log(chance) + (1.0 - chance) * np.log1p(-chance))
        assert len(figures) == len(CONTROLS) + 1  # OGD takes no offset, and the table says so
        assert "broke down" in table
        np.testing.assert_allclose(figures, entropy, atol=0.06)


def test_many_classes_have_no_offset(tmp_path):
    rows = [f"u{i % 5},{'xyz'[i % 3]},{i},{i}" for i in range(30)]
    (tmp_path / "f.csv").write_text("\n".join(["who,answer,a,base", *rows]))
    given = ["--task", "who", "--label", "answer", "--offset", "base", "--out", str(tmp_path)]
    done = runner.invoke(app, ["compare", str(tmp_path / "f.csv"), *given])
    assert "an offset is of two classes or of a number" in str(done.exception)
