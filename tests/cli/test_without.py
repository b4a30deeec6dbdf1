"""`romco learn --without`: rows of a person are as if they were not in the file."""

import csv
import json
from random import Random

import pytest
from typer.testing import CliRunner

from romco.cli.main import app
from romco.io.modelfile import load_state

PEOPLE = 20
SERIAL, THREADS = "--shards 2 --engine serial --hash 10", "--shards 3 --engine threads --hash 10"
HOWS = ("", "--threads 2", SERIAL, THREADS)


def table(seed, n=300):
    """Rows of people, some of whom have a column, a town or a kind of value of their own."""
    random, rows = Random(seed), []
    for k in range(n):
        person = 1 if k < 30 else random.randrange(PEOPLE)  # only the first, at first
        row = {"user": f"p{person}", "a": round(random.gauss(0.0, 1.0), 3)}
        row |= {"town": f"t{random.randrange(4)}", "b": random.randrange(9)}
        if person < 3:
            row |= {"town": f"home of {person}", "b": "K"}
        row["y"] = "yes" if row["a"] * (1 if person % 3 else -1) > 0.0 else "no"
        rows.append(row)
    rows[200]["y"] = ""  # a bad row
    return rows


def write(path, rows):
    path.parent.mkdir()
    with path.open("w", newline="") as file:
        if path.suffix == ".csv":
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def learned(path, how, *more):
    """The state of a model of a file, but for what tells files apart."""
    model = path.with_name("-".join(["m", *how.split(), *more]) + ".romco")
    options = ["--task", "user", "--label", "y", "--classes", "no,yes", "--skip-bad", *how.split()]
    given = ["learn", str(path), *options, "--model", str(model), *more]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    state = load_state(model)
    (seen,) = [*state["session"].pop("sources", {}).values()] or [{}]
    state["seen"] = {name: seen[name] for name in seen if name not in ("size", "digest")}
    for name in ("paths", "contents"):
        state.get("cluster", {}).get("notes", {}).get("files", {}).pop(name, None)
    arrays = {name: array.tobytes() for name, array in state.pop("arrays").items()}
    return state, arrays


def compare(tmp_path, suffix, how, gone, seed=0):
    rows = table(seed)
    left = [row for row in rows if row["user"] not in gone]
    whole = write(tmp_path / f"whole{seed}" / f"t{suffix}", rows)
    rest = write(tmp_path / f"rest{seed}-{'-'.join(gone)}" / f"t{suffix}", left)
    without = [word for name in gone for word in ("--without", name)]
    state, arrays = learned(whole, how, *without)
    expected, expected_arrays = learned(rest, how)
    assert state == expected
    assert arrays == expected_arrays
    assert learned(whole, how)[1] != arrays


@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        (".csv", HOWS[0]),
        pytest.param(".jsonl", HOWS[1], marks=pytest.mark.slow),
        pytest.param(".csv", HOWS[2], marks=pytest.mark.slow),
        (".jsonl", HOWS[3]),
    ],
)
def test_people_have_never_been_there(tmp_path, suffix, how):
    compare(tmp_path, suffix, how, ["p1", "p7"])


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_many_people_have_never_been_there(tmp_path, how):
    random = Random(how)
    for seed in range(25):
        gone = [f"p{random.randrange(PEOPLE)}"]
        compare(tmp_path, random.choice([".csv", ".jsonl"]), how, gone, seed)


def test_a_run_that_was_stopped_goes_on_without(tmp_path):
    rows = table(3)
    path = write(tmp_path / "a" / "t.csv", rows[:150])
    first = learned(path, "", "--without", "p2")
    write(tmp_path / "b" / "t.csv", rows)
    path.write_bytes((tmp_path / "b" / "t.csv").read_bytes())
    second = learned(path, "", "--without", "p2")
    assert second != first
    assert second[1] == learned(tmp_path / "b" / "t.csv", "", "--without", "p2")[1]
