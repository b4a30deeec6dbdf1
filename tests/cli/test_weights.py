"""Weights of events on the command line: a column says how much each counts."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import romco
from romco.cli.main import app
from romco.files import load

RNG = np.random.default_rng(0)
N = 300
A, B = RNG.normal(size=(2, N)).round(3)
WHO = [f"u{i % 3}" for i in range(N)]
H = RNG.choice([0.0, 0.5, 1.0, 3.0], N)
Y = np.where(A + 0.5 * RNG.normal(size=N) > 0, "yes", "no")
NUMBER = (50.0 + 2.0 * A - B).round(3)
COLUMNS = ("--task", "who", "--label", "answer")


def rows(answers, weights=H):
    named = ("who", "a", "b", "h", "answer")
    parts = (WHO, A.tolist(), B.tolist(), weights.tolist(), list(map(str, answers)))
    return [dict(zip(named, row, strict=True)) for row in zip(*parts, strict=True)]


def table(path, found):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in found))
    elif path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(pa.Table.from_pylist(found), path)
    else:
        lines = [",".join(map(str, row.values())) for row in found]
        path.write_text("\n".join([",".join(found[0]), *lines]) + "\n")
    return path


def run(*arguments, fails=False):
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert (result.exit_code != 0) == fails, result.output
    return result.output + str(result.exception or "")


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
@pytest.mark.parametrize("more", [(), ("--features", "a,b")])
def test_learned_as_by_the_model(tmp_path, suffix, more):
    source, file = table(tmp_path / f"f{suffix}", rows(Y)), tmp_path / "m.romco"
    run("learn", source, "--model", file, "--weight", "h", *COLUMNS, *more)
    model = romco.Model("romco-auto", classes=("no", "yes"))
    x = [{"a": a, "b": b} for a, b in zip(A.tolist(), B.tolist(), strict=True)]
    model.learn(x, Y.tolist(), WHO, weight=H)
    found = load(file)
    assert {found.features.name(k) for k in range(found.features.width)} == {"a", "b"}
    np.testing.assert_allclose(found.margins(x, WHO), model.margins(x, WHO), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_learned_by_threads_as_by_shards_in_python(tmp_path, threads):
    source, file = table(tmp_path / "f.csv", rows(Y)), tmp_path / "m.romco"
    given = "learn", source, "--model", file, "--weight", "h", "--threads", threads, *COLUMNS
    run(*given)
    shards = romco.Shards("romco-auto", threads, classes=("no", "yes"))
    x = [{"a": a, "b": b} for a, b in zip(A.tolist(), B.tolist(), strict=True)]
    shards.learn(x, Y.tolist(), WHO, weight=H)
    np.testing.assert_allclose(
        load(file).margins(x, WHO), shards.model().margins(x, WHO), rtol=1e-9, atol=1e-12
    )
    assert load(file).events == np.count_nonzero(H)
    assert "weight 'h', not None" in run(*given[:4], "--threads", threads, *COLUMNS, fails=True)


def test_evaluation_by_weight(tmp_path):
    source, file = table(tmp_path / "f.csv", rows(Y)), tmp_path / "m.romco"
    run("learn", source, "--model", file, "--weight", "h", *COLUMNS)
    found = json.loads(run("evaluate", source, "--model", file, "--weight", "h", "--json"))
    x = [{"a": a, "b": b} for a, b in zip(A.tolist(), B.tolist(), strict=True)]
    wrong = load(file).predict(x, WHO) != Y
    assert found["weighted_error"] == pytest.approx(H @ wrong / H.sum())
    assert "weighted_error" not in json.loads(run("evaluate", source, "--model", file, "--json"))
    assert "by weight: error" in run("evaluate", source, "--model", file, "--weight", "h")


def test_numbers_by_weight(tmp_path):
    source, file = table(tmp_path / "f.csv", rows(NUMBER)), tmp_path / "m.romco"
    run("learn", source, "--model", file, "--weight", "h", "--target", "number", *COLUMNS)
    found = json.loads(run("evaluate", source, "--model", file, "--weight", "h", "--json"))
    x = [{"a": a, "b": b} for a, b in zip(A.tolist(), B.tolist(), strict=True)]
    off = np.square(load(file).predict(x, WHO) - NUMBER)
    assert found["weighted_rmse"] == pytest.approx(np.sqrt(H @ off / H.sum()))


@pytest.mark.parametrize("bad", ["-1.0", "much", "", "nan", "inf"])
def test_a_bad_weight_names_the_row(tmp_path, bad):
    found = rows(Y)
    found[7]["h"] = bad
    source, file = table(tmp_path / "f.csv", found), tmp_path / "m.romco"
    said = run("learn", source, "--model", file, "--weight", "h", *COLUMNS, fails=True)
    assert "line 9" in said
    assert load(file).events == np.count_nonzero(H[:7])  # what came before is kept


def test_what_cannot_be_is_refused_before_anything(tmp_path):
    source, file = table(tmp_path / "f.csv", rows(Y)), tmp_path / "m.romco"
    given = ("learn", source, "--model", file, *COLUMNS)
    assert "no column 'g'" in run(*given, "--weight", "g", fails=True)
    assert "cannot be both the task and the weight" in run(*given, "--weight", "who", fails=True)
    said = run(*given, "--target", "classes", "--shards", 2, fails=True)
    assert "--shards with more than two labels needs all of them" in said
    said = run(*given, "--weight", "h", "--learner", "cw-col", fails=True)
    assert "cannot learn events that count differently" in said
    assert not file.exists()
    run(*given, "--weight", "h")
    assert "learned with weight 'h', not None" in run(*given, fails=True)
    assert "predicts two classes, not number" in run(*given, "--target", "number", fails=True)
