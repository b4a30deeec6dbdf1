"""What commands write: predictions in every format, targets without a dead end, named errors."""

import csv
import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from romco.cli.main import app
from romco.files import load
from romco.io import formats
from romco.io.formats import Format, format_of, json_rows
from romco.plugins import Registry
from romco.runs import Source, evaluate
from romco.runs.learn import infer_target
from tests.reference.events import reader_events

ROWS = [(f"u{i % 4}", i % 5, ("bus", "car", "train")[i % 3], i % 5 * 2 + 0.25) for i in range(90)]


def write(path, label):
    names = ["user", "n", "way", "price"]
    keep = [0, 1, names.index(label)]
    lines = [",".join(names[k] for k in keep)]
    lines += [",".join(str(row[k]) for k in keep) for row in ROWS]
    path.write_text("\n".join(lines) + "\n")
    return path


def call(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result


def learned(tmp_path, label):
    source, model = write(tmp_path / "e.csv", label), tmp_path / "m.romco"
    result = call("learn", source, "--task", "user", "--label", label, "--model", model)
    return source, model, result


@pytest.mark.parametrize(("label", "kind"), [("way", "classes"), ("price", "number")])
def test_the_target_follows_from_the_labels(tmp_path, label, kind):
    source, model, result = learned(tmp_path, label)
    assert load(model).engine.target.kind == kind
    assert "amount to predict" not in result.output
    call("learn", source, "--task", "user", "--label", label, "--model", model)


@pytest.mark.parametrize("label", ["way", "price"])
def test_predictions_are_the_same_in_every_format(tmp_path, label):
    source, model, _ = learned(tmp_path, label)
    for name in ("p.csv", "p.parquet", "p.jsonl"):
        call("predict", source, "--model", model, "--out", tmp_path / name)
    lines = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    with (tmp_path / "p.csv").open() as file:
        table = list(csv.DictReader(file))
    columns = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert [int(row["line"]) for row in table] == [row["line"] for row in lines]
    assert [row["predicted"] for row in columns] == [row["predicted"] for row in lines]
    if label == "price":
        assert lines[1]["label"] == columns[1]["label"] == 2.25  # a number, not text
        assert float(table[1]["predicted"]) == lines[1]["predicted"]
    else:
        chances = lines[0]["probabilities"]
        assert float(table[0]["probability:bus"]) == chances["bus"] == columns[0]["probability:bus"]


def test_errors_are_named_and_learned_rows_are_said(tmp_path):
    source, model, result = learned(tmp_path, "way")
    assert "error by events" in result.output
    found = evaluate(load(model), Source(str(source)))
    assert found.learned == 90
    table = call("evaluate", source, "--model", model)
    assert "has learned 90 of these 90 events" in table.stderr
    assert "error by events" in table.stdout
    told = json.loads(call("evaluate", source, "--model", model, "--json").stdout)
    tasks = told["tasks"].values()
    assert told["error_by_tasks"] == pytest.approx(sum(t["error"] for t in tasks) / 4)
    assert told["events_learned_before"] == 90
    moved = tmp_path / "new.csv"
    moved.write_text(source.read_text().replace("u1,", "u2,"))
    assert evaluate(load(model), Source(str(moved))).learned == 0


def test_a_closed_pipe_loses_no_model(tmp_path):
    source, model = write(tmp_path / "e.csv", "way"), tmp_path / "m.romco"
    romco = f"{sys.executable} -m romco"
    columns = f"--task user --label way --model {model} --predictions -"
    command = f"{romco} learn {source} {columns} 2>/dev/null | head -1"
    subprocess.run(command, shell=True, check=True, capture_output=True)
    assert load(model).events == 90


def test_other_packages_bring_formats(monkeypatch, tmp_path):
    mine = Format((".mine",), json_rows)
    monkeypatch.setattr(
        formats, "FORMATS", Registry("romco.formats", {**formats.FORMATS, "mine": mine})
    )
    assert format_of("events.mine") == "mine"
    (tmp_path / "e.mine").write_text('{"user": "ann", "n": 1, "way": "bus"}\n')
    [event] = reader_events(Source(str(tmp_path / "e.mine"), "user", "way").open())
    assert (event.task, event.features, event.label) == ("ann", {"n": 1.0}, "bus")


@pytest.mark.parametrize("name", ["o.xlsx", "o.html", "o.csv.gz"])
def test_answers_in_a_format_that_is_not_written_are_refused(tmp_path, name):
    table, model, out = write(tmp_path / "e.csv", "way"), tmp_path / "m.romco", tmp_path / name
    learn = ["learn", str(table), "--task", "user", "--label", "way", "--model", str(model)]
    refused = CliRunner().invoke(app, [*learn, "--predictions", str(out)])
    assert "predictions are JSON lines; name the file .jsonl" in str(refused.exception)
    assert not model.exists()
    assert CliRunner().invoke(app, learn).exit_code == 0
    refused = CliRunner().invoke(
        app, ["predict", str(table), "--model", str(model), "--out", str(out)]
    )
    assert f"{name}: answers are written as .jsonl, .csv or .parquet" in str(refused.exception)
    assert not out.exists()


def test_labels_with_a_comma_are_no_classes(tmp_path):
    rows = [f"u{k % 3};{k};{k},5" for k in range(30)]
    (tmp_path / "e.csv").write_text("\n".join(["user;a;y", *rows]) + "\n")
    with pytest.raises(ValueError, match="as '0,5': write them as"):
        infer_target(Source(str(tmp_path / "e.csv"), task="user", label="y"))


@pytest.mark.parametrize(
    ("labels", "target"),
    [
        (["1", "2", "3"] * 6, "classes"),
        ([str(7 * k % 101) for k in range(16)] + ["7", "14"], "number"),  # 16 different in 18 rows
        (["1.5", "2", "3"] * 6, "number"),
        (["a", "b", "c"], "classes"),
        (["1", "0"], None),
    ],
)
def test_labels_that_hardly_repeat_are_numbers(tmp_path, labels, target):
    rows = [f"u{k % 3},{k},{label}" for k, label in enumerate(labels)]
    (tmp_path / "e.csv").write_text("\n".join(["user,a,y", *rows]) + "\n")
    assert infer_target(Source(str(tmp_path / "e.csv"), task="user", label="y")) == target
