"""Labels that cost, at the command line: ask, answer."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.labels import Audit


def table(path, head, rows):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
    return str(path)


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    truth = {}
    for name, n in (("train", 300), ("events", 400)):
        rows = []
        for i in range(n):
            free, lunch = (rng.random(2) < 0.4).astype(int)
            spam = (free and not lunch) or rng.random() < 0.1
            truth[f"{name}-{i}"] = "spam" if spam else "ham"
            label = truth[f"{name}-{i}"] if name == "train" else ""
            rows.append((f"{name}-{i}", f"u{i % 5}", free, lunch, label))
        table(tmp_path / f"{name}.csv", ("mail", "user", "free", "lunch", "kind"), rows)
    learn = ("learn", str(tmp_path / "train.csv"), "--task", "user", "--label", "kind")
    run(*learn, "--ignore", "mail", "--model", str(tmp_path / "m.romco"))
    return tmp_path, truth


def call(*words):
    return CliRunner().invoke(app, list(words))


def run(*words):
    result = call(*words)
    assert result.exit_code == 0, result.output
    return result.output


def asked_of(path):
    with path.open() as file:
        return list(csv.DictReader(file))


def ask(folder, *more):
    out = folder / "asked.csv"
    model = ("--model", str(folder / "m.romco"), "--labels", "40", "--out", str(out))
    run("ask", str(folder / "events.csv"), *model, *more)
    return asked_of(out)


def test_what_is_asked_for_is_what_is_doubtful_and_some_by_chance(files):
    folder, _ = files
    asked = ask(folder, "--id", "mail")
    assert len(asked) == 40
    errors = [float(row["ask_error"]) for row in asked]
    assert errors == sorted(errors, reverse=True)
    assert [row["ask_priority"] for row in asked] == [str(k) for k in range(1, 41)]
    assert {row["ask_why"] for row in asked} == {"doubtful", "by chance"}
    assert all(row["ask_id"] == row["mail"] and row["kind"] == "" for row in asked)
    assert ask(folder, "--id", "mail") == asked  # its seed decides all


def test_answers_come_in_any_order_more_than_once_and_for_nobody(files):
    folder, truth = files
    asked = ask(folder, "--id", "mail")
    before = romco.load(folder / "m.romco").events
    ids = [row["ask_id"] for row in asked][::-1]
    rows = [(id, truth[id]) for id in ids[:30]]
    extra = [(ids[0], truth[ids[0]]), ("nobody", "ham"), (ids[35], "")]
    answers = table(folder / "labels.csv", ("ask_id", "kind"), rows + extra)
    learn = ("learn", answers, "--asked", str(folder / "asked.csv"))
    told = run(*learn, "--model", str(folder / "m.romco"))
    assert "30 answers learned, 1 given before, 1 of events never asked for, 1 still empty" in told
    assert "by audit" in told
    model = romco.load(folder / "m.romco")
    assert model.events == before + 30
    run(*learn, "--model", str(folder / "m.romco"))
    assert romco.load(folder / "m.romco").events == before + 30  # each event once
    assert any("by audit" in line for line in romco.explain(model).findings)
    by_hand = romco.load(folder / "m.romco")
    assert Audit.of(by_hand.session).error().labels <= 4


def test_the_file_itself_filled_in_is_an_answer(files):
    folder, truth = files
    asked = ask(folder)
    lines = {line: id for line, id in enumerate(truth) if id.startswith("events")}
    first = min(lines)
    for row in asked[:10]:
        row["kind"] = truth[lines[first + int(row["ask_id"]) - 2]]  # line 2 is the first event
    filled = table(folder / "filled.csv", asked[0], [row.values() for row in asked])
    before = romco.load(folder / "m.romco").events
    run("learn", filled, "--asked", filled, "--model", str(folder / "m.romco"))
    assert romco.load(folder / "m.romco").events == before + 10


def test_a_third_label_is_refused_before_anything_is_learned(files):
    folder, truth = files
    ids = [row["ask_id"] for row in ask(folder, "--id", "mail")]
    rows = [(ids[0], truth[ids[0]]), (ids[1], "perhaps")]
    answers = table(folder / "labels.csv", ("ask_id", "kind"), rows)
    before = romco.load(folder / "m.romco").events
    asked = ("--asked", str(folder / "asked.csv"))
    result = call("learn", answers, *asked, "--model", str(folder / "m.romco"))
    assert isinstance(result.exception, ValueError)
    assert "perhaps" in str(result.exception)
    assert romco.load(folder / "m.romco").events == before
