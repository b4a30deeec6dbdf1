"""Many classes and numbers on the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from romco.cli.main import app
from romco.files import load

RNG = np.random.default_rng(0)
N = 400
A, B = RNG.normal(size=(2, N))
WHO = [f"u{i % 5}" for i in range(N)]
MODE = np.where(A > 0.5, "car", np.where(B > 0.0, "bus", "train"))
PRICE = 70.0 + 3.0 * A - B + 0.1 * RNG.normal(size=N)


def table(path, answers, rows=range(N)):
    lines = ["who,a,b,answer", *(f"{WHO[i]},{A[i]},{B[i]},{answers[i]}" for i in rows)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert (result.exit_code != 0) == fails, result.output
    return result


COLUMNS = ("--task", "who", "--label", "answer")


@pytest.mark.parametrize("target", ["classes", "auto"])
def test_many_classes(target, tmp_path):
    source, model = table(tmp_path / "modes.csv", MODE), tmp_path / "m.romco"
    log = tmp_path / "live.jsonl"
    learn = ("learn", source, "--model", model, "--target", target, "--predictions", log)
    said = run(*learn, *COLUMNS).output
    first, *others = map(json.loads, log.read_text().splitlines())
    assert first.keys() == {"line", "task", "predicted", "label"}, "no class was known yet"
    for row in others:
        assert sum(row["probabilities"].values()) == pytest.approx(1.0)
    assert "macro F1" in said
    assert "classes: " in said
    assert set(load(model).classes) == {"bus", "car", "train"}
    rows = [
        json.loads(line) for line in run("predict", source, "--model", model).stdout.splitlines()
    ]
    assert len(rows) == N
    assert sum(rows[0]["probabilities"].values()) == pytest.approx(1.0)
    assert np.mean([row["predicted"] == row["label"] for row in rows]) > 0.8
    found = json.loads(run("evaluate", source, "--model", model, "--json").stdout)
    assert found["error"] == pytest.approx(
        np.mean([row["predicted"] != row["label"] for row in rows])
    )
    assert set(found["table"]) == {"bus", "car", "train"}
    assert "all 5 tasks" in run("evaluate", source, "--model", model).stdout


@pytest.mark.parametrize("target", ["number", "auto"])
def test_numbers(target, tmp_path):
    source, model = table(tmp_path / "prices.csv", PRICE), tmp_path / "m.romco"
    said = run("learn", source, "--model", model, "--target", target, *COLUMNS).output
    assert "RMSE" in said
    rows = [
        json.loads(line) for line in run("predict", source, "--model", model).stdout.splitlines()
    ]
    assert all(row["low"] < row["predicted"] < row["high"] for row in rows)
    found = json.loads(run("evaluate", source, "--model", model, "--json").stdout)
    assert found["r2"] > 0.9
    assert found["rmse"] < found["baseline_rmse"]


def test_printed_figures_of_numbers_are_those_of_the_predictions(tmp_path):
    source, log = table(tmp_path / "prices.csv", PRICE), tmp_path / "p.jsonl"
    said = run(
        "learn", source, "--model", tmp_path / "m.romco", *COLUMNS, "--predictions", log
    ).output
    first, *rows = (json.loads(line) for line in log.read_text().splitlines())
    assert first["predicted"] is None
    assert "low" not in rows[0]  # the spread of a single number is not known
    error = np.array([row["predicted"] - row["label"] for row in rows])
    inside = [row["low"] <= row["label"] <= row["high"] for row in rows[1:]]
    assert f"RMSE {np.sqrt(np.mean(error**2)):.4g} (" in said
    assert f"MAE {np.mean(np.abs(error)):.4g}" in said
    assert f"{np.mean(inside):.1%} within their 90 % intervals" in said
    plain = run("learn", source, "--model", tmp_path / "n.romco", *COLUMNS).output
    assert f"RMSE {np.sqrt(np.mean(error**2)):.4g} (" in plain
    assert load(tmp_path / "m.romco").events == N


def test_a_killed_run_goes_on_as_if_it_had_not_been(tmp_path):
    for answers, target in ((MODE, "classes"), (PRICE, "number")):
        whole, parts = tmp_path / f"{target}.romco", tmp_path / f"{target} in parts.romco"
        source = tmp_path / "growing.csv"
        table(source, answers, range(150))
        said = [run("learn", source, "--model", parts, "--target", target, *COLUMNS)]
        table(source, answers)
        said.append(run("learn", source, "--model", parts, *COLUMNS))
        run("learn", source, "--model", whole, "--target", target, *COLUMNS)
        one, other = load(whole).state(), load(parts).state()
        for name, array in one["arrays"].items():
            np.testing.assert_array_equal(other["arrays"][name], array)
        scores = [
            [seen["score"] for seen in state["session"]["sources"].values()]
            for state in (one, other)
        ]
        assert scores[0] == scores[1]


def test_bad_answers_are_told_by_line(tmp_path):
    answers = [*PRICE[:20], "seven", *PRICE[21:]]
    source, model = table(tmp_path / "prices.csv", answers), tmp_path / "m.romco"
    said = run("learn", source, "--model", model, "--target", "number", *COLUMNS, fails=True)
    assert "seven" in str(said.exception) or "seven" in said.output
    assert load(model).events == 20
    run(
        "learn",
        table(tmp_path / "other.csv", MODE),
        "--model",
        tmp_path / "n.romco",
        "--target",
        "colour",
        *COLUMNS,
        fails=True,
    )


def test_a_label_that_occurs_once_may_be_mistyped(tmp_path):
    """Also where it comes after the rows that are looked at."""
    labels = [*MODE[:300], *MODE[:300], *MODE[:300], *MODE[:300], "trian"]
    rows = [*range(300)] * 4 + [0]
    source = tmp_path / "modes.csv"
    lines = [f"{WHO[i]},{A[i]},{B[i]},{label}" for i, label in zip(rows, labels, strict=True)]
    source.write_text("\n".join(["who,a,b,answer", *lines]) + "\n")
    said = run("learn", str(source), "--model", tmp_path / "m.romco", *COLUMNS).output
    assert "warning: label 'trian' occurs once in 1,201 events: is it mistyped?" in said
    assert said.count("mistyped") == 1


def test_as_many_labels_as_rows_have_no_log_loss(tmp_path):
    """None of them was known when it was predicted."""
    labels = [f"L{i}" for i in range(60)]
    source = table(tmp_path / "labels.csv", labels, range(60))
    said = run("learn", source, "--model", tmp_path / "m.romco", *COLUMNS).output
    assert "error by events 100.00%" in said
    assert "log loss" not in said
    assert "L18, L19 and 40 more" in said
