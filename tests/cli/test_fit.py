"""`romco fit`: a model of a whole file, errors on rows held out, one plain regression beside."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.files import load
from romco.model import Model
from romco.runs import Source
from romco.runs.fit import FitRun

RNG = np.random.default_rng(0)
N = 600
A, B = RNG.normal(size=(2, N))
WHO = [f"u{i % 5}" for i in range(N)]
MARGIN = 2.0 * A - B + np.arange(N) % 5 - 2.0
SPAM = np.where(MARGIN + RNG.logistic(size=N) > 0.0, "spam", "ham")
MODE = np.where(A > 0.5, "car", np.where(B > 0.0, "bus", "train"))
PRICE = 70.0 + MARGIN + 0.1 * RNG.normal(size=N)
COLUMNS = ("--task", "who", "--label", "answer")


def table(path, answers, rows=range(N)):
    lines = ["who,a,b,answer", *(f"{WHO[i]},{A[i]},{B[i]},{answers[i]}" for i in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert (result.exit_code != 0) == fails, result.output
    return result


def scores(output):
    """Numbers of the two rows of the table."""
    found = {}
    for line in output.splitlines():
        for name in ("last fifth", "random fifth"):
            if line.strip().startswith(name):
                found[name] = [float(x.strip("%").replace(",", "")) for x in line.split()[2:]]
    return found


def rows_of(places):
    return [{"a": float(A[i]), "b": float(B[i])} for i in places]


def test_of_few_rows_none_is_held_out(tmp_path):
    source, model = table(tmp_path / "mails.csv", MODE, range(3)), tmp_path / "m.romco"
    output = run("fit", source, "--model", model, *COLUMNS).output
    assert "too few rows to hold some out" in output
    assert "regression" not in output
    assert model.exists()


@pytest.mark.parametrize(
    ("labels", "scored"),
    [("a" * 540 + "b" * 60, 2), ("".join(c * 120 for c in "abcde"), 1)],
    ids=["others-have-one-label", "others-have-other-labels"],
)
def test_a_file_may_be_sorted_by_label(tmp_path, labels, scored):
    source, model = table(tmp_path / "sorted.csv", labels), tmp_path / "m.romco"
    output = run("fit", source, "--model", model, *COLUMNS, "--target", "classes").output
    assert model.exists()
    assert "-0.0000" not in output
    assert sum(name in output for name in ("last fifth", "random fifth")) == scored


def test_the_table_has_the_errors_of_models_fitted_to_the_others(tmp_path):
    source, model = table(tmp_path / "mails.csv", SPAM), tmp_path / "m.romco"
    output = run("fit", source, "--model", model, *COLUMNS).output
    found = scores(output)
    assert list(found) == ["last fifth", "random fifth"]
    events, error, log_loss, plain_error, plain_loss = found["last fifth"]
    assert events == 120
    assert max(error, plain_error) < 40.0
    assert max(log_loss, plain_loss) < 0.65
    train, test = range(480), range(480, N)
    other = Model().fit(rows_of(train), SPAM[:480].tolist(), WHO[:480])
    chances = other.predict_proba(rows_of(test), WHO[480:])
    spam = (SPAM[480:] == "spam").astype(int)
    assert -np.log(chances[np.arange(120), spam]).mean() == pytest.approx(log_loss, abs=0.02)
    assert "fitted to 600 events of 5 tasks" in output
    assert "without answers" in output
    assert load(model).events == N


@pytest.mark.parametrize(("answers", "name"), [(MODE, "log loss"), (PRICE, "RMSE")])
def test_classes_and_numbers(tmp_path, answers, name):
    source, model = table(tmp_path / "rows.csv", answers), tmp_path / "m.romco"
    output = run("fit", source, "--model", model, *COLUMNS).output
    assert name in output
    n_columns = 5 if name == "log loss" else 3
    assert {len(numbers) for numbers in scores(output).values()} == {n_columns}
    assert load(model).engine.target.kind == ("classes" if name == "log loss" else "number")


def test_the_same_file_gives_the_same_model(tmp_path):
    source = table(tmp_path / "mails.csv", SPAM)
    made = [tmp_path / "one.romco", tmp_path / "two.romco", tmp_path / "three.romco"]
    for model, seed in zip(made, (0, 0, 1), strict=True):
        run("fit", source, "--model", model, "--seed", seed, *COLUMNS)
    one, two, three = (load(model).margins(rows_of(range(N)), WHO) for model in made)
    np.testing.assert_array_equal(one, two)
    assert (one != three).any()


def test_it_starts_anew_and_learn_goes_on(tmp_path):
    source, model = table(tmp_path / "mails.csv", SPAM, range(400)), tmp_path / "m.romco"
    run("fit", source, "--model", model, *COLUMNS)
    run("fit", source, "--model", model, *COLUMNS)
    assert load(model).events == 400
    run("learn", source, "--model", model)
    assert load(model).events == 400  # each answer counts once
    table(tmp_path / "mails.csv", SPAM)
    assert "romco fit" in run("learn", source, "--model", model).output
    assert load(model).events == N
    found = run("evaluate", source, "--model", model).output
    assert "has learned 600 of these 600 events" in re.sub(r"\s+", " ", found)


def test_kinds_come_from_rows_beyond_the_first_thousand(tmp_path):
    grades = ["1", "2", "3"] * 400 + ["K"] * 10
    labels = ["yes" if grade in "1K" else "no" for grade in grades]
    lines = [f"all,{grade},{label}" for grade, label in zip(grades, labels, strict=True)]
    path, model = tmp_path / "pupils.csv", tmp_path / "m.romco"
    path.write_text("\n".join(["who,grade,answer", *lines]) + "\n")
    run("fit", path, "--model", model, *COLUMNS)
    assert load(model).schema.kinds == {"grade": "category"}


def test_a_history_keeps_the_order_of_rows(tmp_path):
    lines = [f"{WHO[i]},{'xyz'[i % 3]},{SPAM[i]}" for i in range(N)]
    path, model = tmp_path / "mails.csv", tmp_path / "m.romco"
    path.write_text("\n".join(["who,kind,answer", *lines]) + "\n")
    output = run("fit", path, "--model", model, "--history", "kind", *COLUMNS).output
    assert list(scores(output)) == ["last fifth"]


def test_weights_and_offsets(tmp_path):
    lines = [f"{WHO[i]},{A[i]},{i % 3},{B[i]},{SPAM[i]}" for i in range(N)]
    path, model = tmp_path / "mails.csv", tmp_path / "m.romco"
    path.write_text("\n".join(["who,a,often,known,answer", *lines]) + "\n")
    options = ("--weight", "often", "--offset", "known")
    output = run("fit", path, "--model", model, *options, *COLUMNS).output
    assert re.search(r"last fifth +120 +\S+ +\S+ +- +-", output)  # the regression takes no offset
    assert load(model).events == N  # rows of weight 0 are left out, those of weight 2 count twice


def test_bad_rows_write_nothing(tmp_path):
    answers = PRICE.astype(str)
    answers[300] = "dear"
    source, model = table(tmp_path / "prices.csv", answers), tmp_path / "m.romco"
    numbers = ("--target", "number", *COLUMNS)
    failed = run("fit", source, "--model", model, *numbers, fails=True)
    assert "302" in str(failed.exception)  # its line
    assert not model.exists()
    assert (
        "1 bad row skipped" in run("fit", source, "--model", model, *numbers, "--skip-bad").output
    )
    assert load(model).events == N - 1
    assert "needs a file" in str(run("fit", "-", "--model", model, *COLUMNS, fails=True).exception)
    empty = table(tmp_path / "empty.csv", SPAM, ())
    failed = run("fit", empty, "--model", tmp_path / "no.romco", *COLUMNS, fails=True)
    assert "no events" in str(failed.exception)


def test_it_can_be_interrupted_anywhere(tmp_path):
    source = Source(table(tmp_path / "mails.csv", SPAM), "who", "answer").resolve()
    make = lambda: romco.Model(classes=("ham", "spam"))  # noqa: E731
    texts = []
    run_through = FitRun(source, make, 0, lambda text, share: texts.append(text))
    rows = run_through.read()
    held_out = list(run_through.hold_out(rows))
    run_through.fit(rows)
    assert [one.name for one in held_out] == ["last fifth", "random fifth"]
    assert list(dict.fromkeys(texts)) == [
        "reading",
        "fitting all but the last fifth",
        "one regression for the last fifth",
        "fitting all but the random fifth",
        "one regression for the random fifth",
        "fitting all rows",
    ]

    def stop(text, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        FitRun(source, make, 0, stop).fit(rows)


def test_help_says_which_to_take():
    learn, fit = (re.sub(r"\s+", " ", run(name, "--help").output) for name in ("learn", "fit"))
    assert "predict later without answers, take fit" in learn
    assert "to go on learning, take learn" in fit


def test_one_label_alone_is_refused(tmp_path):
    (tmp_path / "e.csv").write_text("user,a,y\n" + "u,1,yes\n" * 30)
    given = ["--task", "user", "--label", "y", "--model", tmp_path / "m.romco"]
    done = run("fit", tmp_path / "e.csv", *given, fails=True)
    assert "all rows have the label 'yes'" in str(done.exception)
