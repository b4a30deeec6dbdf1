"""C and JavaScript predict from the data file what the model predicts."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import romco
from romco.learners import LEARNERS
from tests.exporting.streams import (
    assert_close,
    events,
    has_values_and_scores,
    learned,
    margins_by_reference,
    with_functions,
)

SIZES = pytest.mark.parametrize("n", [500, pytest.param(10_000, marks=pytest.mark.slow)])
HERE = Path(__file__).parent
COMPILER = shutil.which("cc")
NODE = shutil.which("node")
FLAGS = (
    "-std=c99",
    "-pedantic",
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
    "-ffp-contract=off",
    "-O2",
)
SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover")
needs_c = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed")
LINEAR = [name for name in LEARNERS if name != "romco-auto"]


@pytest.fixture(scope="module")
def auto():
    return learned()


@pytest.fixture(scope="module")
def number():
    model = learned(target="number")
    assert len(model.engine.learner.frozen_predictor().functions.scales), "there is a curve"
    return model


def run(command, text):
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiled(folder, name, *flags):
    """Compile a program with the header that an export has."""
    if not (folder / "romco.h").exists():
        romco.export(learned(n=20), "c", folder)
    program = folder / name
    source = str(HERE / f"{name}.c")
    run([COMPILER, *FLAGS, *flags, f"-I{folder}", source, "-lm", "-o", str(program)], None)
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("program"), "margins")


def predict_in_c(program, folder, rows, tasks):
    """Margins and probabilities (n, 2) of rows that map features to values."""
    lines = []
    for row, task in zip(rows, tasks, strict=True):
        cells = [cell for name, value in row.items() for cell in (name, value.hex())]
        lines.append("\t".join([task, *cells]))
    out = run([str(program), str(folder / "model.romcoexp")], "\n".join(lines) + "\n")
    return np.array([line.split() for line in out.splitlines()], dtype=float)


def predict_in_node(folder, rows, tasks, *verbs):
    """Margins and probabilities (n, 2), or what other verbs return, by romco.mjs."""
    verbs = json.dumps(verbs or ("margin", "probability"))
    script = (
        f"const verbs = {verbs};"
        + """
        import { readFile } from "node:fs/promises";
        import { Model } from "./romco.mjs";
        const model = new Model(await readFile("model.romcoexp"));
        const { rows, tasks } = JSON.parse(await readFile("events.json"));
        const all = rows.map((x, k) => verbs.map((verb) => model[verb](x, tasks[k])));
        console.log(JSON.stringify(all));
    """
    )
    (folder / "predict.mjs").write_text(script)
    (folder / "events.json").write_text(json.dumps({"rows": rows, "tasks": tasks}))
    done = subprocess.run(
        [NODE, "predict.mjs"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return np.array(json.loads(done.stdout))


def check(model, found, rows, tasks, tolerance=1e-12):
    margins, probabilities = found[:, 0], found[:, -1]
    assert_close(margins, model.margins(rows, tasks), tolerance)
    assert_close(probabilities, model.predict_proba(rows, tasks)[:, 1], tolerance)


@SIZES
@needs_c
def test_c_has_the_same_margins(n, auto, program, tmp_path):
    rows, tasks = events(n)
    romco.export(auto, "c", tmp_path)
    found = predict_in_c(program, tmp_path, [auto.schema.encode(row) for row in rows], tasks)
    check(auto, found, rows, tasks)


@SIZES
@needs_node
def test_javascript_has_the_same_margins(n, auto, tmp_path):
    rows, tasks = events(n)
    romco.export(auto, "js", tmp_path)
    check(auto, predict_in_node(tmp_path, rows, tasks), rows, tasks)


@SIZES
@needs_c
def test_numbers_in_c(n, number, program, tmp_path):
    rows, tasks = events(n)
    romco.export(number, "c", tmp_path)
    found = predict_in_c(program, tmp_path, [number.schema.encode(row) for row in rows], tasks)
    assert_close(found[:, 0], number.predict(rows, tasks), 1e-12)


@SIZES
@needs_node
def test_numbers_in_javascript(n, number, tmp_path):
    rows, tasks = events(n)
    romco.export(number, "js", tmp_path)
    found = predict_in_node(tmp_path, rows, tasks, "predict")
    assert_close(found[:, 0], number.predict(rows, tasks), 1e-12)


@pytest.fixture(scope="module", params=[5, pytest.param(15, marks=pytest.mark.slow)])
def many(request):
    """A model of some classes by pairs and at once, or of more at once."""
    model = learned(target="classes", classes=request.param)
    assert len(model.classes) == request.param
    assert has_values_and_scores(model)
    return model


def check_classes_in_c(model, program, folder, n):
    rows, tasks = events(n)
    romco.export(model, "c", folder)
    found = predict_in_c(program, folder, [model.schema.encode(row) for row in rows], tasks)
    assert_close(found, model.predict_proba(rows, tasks), 1e-12)


@SIZES
@needs_c
def test_classes_in_c(n, many, program, tmp_path):
    check_classes_in_c(many, program, tmp_path, n)


@SIZES
@needs_node
def test_classes_in_javascript(n, many, tmp_path):
    rows, tasks = events(n)
    romco.export(many, "js", tmp_path)
    found = predict_in_node(tmp_path, rows, tasks, "probabilities")[:, 0]
    assert_close(found, many.predict_proba(rows, tasks), 1e-12)
    labels = predict_in_node(tmp_path, rows[:100], tasks[:100], "predict")[:, 0]
    assert labels.tolist() == many.predict(rows, tasks).astype(str).tolist()[:100]


@needs_c
@pytest.mark.parametrize("classes", [2, 3, 4, 12])
@pytest.mark.parametrize("n", [25, 1500])
def test_classes_of_arrays(n, classes, program, tmp_path):
    """Zeros of arrays are values; few events, and rows on which columns are nearly always there."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2500, 6)) * [1.0, 10.0, 0.1, 1.0, 1.0, 1.0] + [
        0.0,
        0.0,
        5.0,
        0.0,
        0.0,
        0.0,
    ]
    x[:, 3] = x[:, 3] > 1.0
    x[:, 4:] = np.expm1(1.5 * x[:, 4:])  # far from normal
    x[:, 2:5][rng.random((2500, 3)) < 0.2] = 0.0
    score = 0.5 * classes + x[:, 0] + np.log1p(x[:, 4]) ** 2 + rng.normal(size=2500)
    labels = np.clip(np.round(score), 0, classes - 1).astype(int)
    labels[:classes] = range(classes)
    task = rng.integers(8, size=2500)
    target = "two classes" if classes == 2 else "classes"
    model = romco.Model(target=target, features=romco.Columns(6))
    model.learn(x[:n], labels[:n], task[:n])
    romco.export(model, "c", tmp_path)
    new = (np.arange(1000) % 10).tolist()
    rows = [{str(k): value for k, value in enumerate(row)} for row in x[1500:].tolist()]
    found = predict_in_c(program, tmp_path, rows, map(str, new))
    assert_close(found[:, -classes:], model.predict_proba(x[1500:], new), 1e-12)


@needs_c
def test_values_near_the_mean_of_large_ones(program, tmp_path):
    """A row whose columns are all but 0 is predicted as those beside it."""
    rng = np.random.default_rng(4)
    day = rng.integers(1000, size=60)
    days = 20240101.0 + day
    model = romco.Model(target="classes", features=romco.Columns(1))
    model.learn(days[:, None], day // 200, ["ann"] * 60)
    rows = days.mean() + np.arange(-50.0, 50.0)[:, None]
    romco.export(model, "c", tmp_path)
    found = predict_in_c(program, tmp_path, [{"0": day} for (day,) in rows.tolist()], ["ann"] * 100)
    assert_close(found, model.predict_proba(rows, ["ann"] * 100), 1e-12)


@needs_c
def test_dates_as_numbers(program, tmp_path):
    """Values far from zero that differ little are in units of their deviations."""
    rng = np.random.default_rng(3)
    days = 20240101.0 + rng.integers(1000, size=1200)
    rare = np.where(rng.random(1200) < 0.9, 0.0, rng.normal(size=1200))
    numbers = zip(days.tolist(), rare.tolist(), strict=True)
    rows = [{"constant": 3.25, "day": day, "rare": value} for day, value in numbers]
    tasks = ["ann"] * 1200
    model = romco.Model(schema=romco.Schema(dict.fromkeys(rows[0], "number")))
    model.learn(rows, days + 400.0 * rare > 20240600.0, tasks)
    romco.export(model, "c", tmp_path)
    found = predict_in_c(program, tmp_path, list(map(model.schema.encode, rows)), tasks)[:, 0]
    assert_close(found, model.margins(rows, tasks), 1e-12)


@needs_c
def test_classes_of_which_two_are_known(program, tmp_path):
    model = learned(target="classes", classes=2)
    rows, tasks = events(300)
    romco.export(model, "c", tmp_path)
    found = predict_in_c(program, tmp_path, [model.schema.encode(row) for row in rows], tasks)
    assert_close(found[:, 1:], model.predict_proba(rows, tasks), 1e-12)


@needs_c
@pytest.mark.parametrize("name", ["pa-unique", "ogd-global", "arow-unique"])
def test_linear_learners_of_numbers(name, program, tmp_path):
    model = learned(name, n=150, users=10, target="number")
    rows, tasks = events(300, users=10)
    rows = [{**row, "income": None} for row in rows]
    romco.export(model, "c", tmp_path)
    found = predict_in_c(program, tmp_path, [model.schema.encode(row) for row in rows], tasks)
    assert_close(found[:, 0], model.predict(rows, tasks), 1e-11)


@needs_c
@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("new_task", ["mean", pytest.param("zero", marks=pytest.mark.slow)])
def test_linear_learners(name, new_task, program, tmp_path):
    model = learned(name, n=150, users=10, new_task=new_task)
    rows, tasks = events(300, users=10)
    rows = [{**row, "income": None} for row in rows]
    romco.export(model, "c", tmp_path)
    found = predict_in_c(program, tmp_path, [model.schema.encode(row) for row in rows], tasks)
    check(model, found, rows, tasks, 1e-11)


@needs_node
def test_javascript_reads_text_and_dates(tmp_path):
    rng = np.random.default_rng(2)
    words = np.array(["Łódź", "naïve", "buy", "NOW", "x_1", "42", "don't", "Ünïcode"])
    kinds = {"says": "text", "at": "date", "on": "day", "any": "free", "zip": "category"}
    model = romco.Model(schema=romco.Schema(kinds))
    rows = []
    for k in range(300):
        day = f"2024-{k % 12 + 1:02d}-{k % 28 + 1:02d}"
        row = {"says": ", ".join(rng.choice(words, 5)), "at": f"{day} {k % 24:02d}:05", "on": day}
        row |= {"any": ["7", "red", {"x": 2.5}, None, True][k % 5], "zip": 10115 + k % 3}
        rows.append(row)
    rows[5] |= {"says": "", "at": "no date", "on": "2024-02-30"}
    rows[205] |= {"at": "0000-02-03"}
    rows[206] |= {"on": "0001-12-03"}
    labels = ["yes" if "buy" in row["says"] else "no" for row in rows]
    model.learn(rows[:200], labels[:200], ["ann", "bob"] * 100)
    romco.export(model, "js", tmp_path)
    tasks = ["ann"] * 300
    check(model, predict_in_node(tmp_path, rows, tasks), rows, tasks)


@needs_node
def test_javascript_names_numbers_as_python_does(tmp_path):
    """As categories and tasks; spaces around a category are those of Python, too."""
    rng = np.random.default_rng(7)
    codes = [1e-7, 1e22, -0.0, 1.0, True, 2**53, 1e16, 1e21, 123456789012345680000.0, 1e-4, 1e-5]
    codes += [9.5e-5, 0.00012345, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 7]
    codes += ["1.0", "1e-7", " 1 ", "constructor"]
    codes += [f"{c}x{c}" for c in "\t\x0b\x1c\x1f\x85\xa0\u1680\u2028\u3000\ufeff\u200b"]
    bits = rng.integers(2**64, size=5000, dtype=np.uint64)
    codes += [x for x in bits.view(float).tolist() if np.isfinite(x)]
    codes += (rng.normal(size=5000) * 10.0 ** rng.integers(-12, 25, 5000)).tolist()
    model = romco.Model(schema=romco.Schema({"code": "category"}))
    rows = [{"code": code} for code in codes]
    model.learn(rows[:30] * 2, ["yes", "no"] * 30, codes[:30] * 2)
    romco.export(model, "js", tmp_path)
    script = """
        import { readFile } from "node:fs/promises";
        import { Model } from "./romco.mjs";
        const model = new Model(await readFile("model.romcoexp"));
        const rows = JSON.parse(await readFile("rows.json"));
        console.log(JSON.stringify(rows.map((row) => [...model.encode(row).keys()])));
    """
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    (tmp_path / "names.mjs").write_text(script)
    done = subprocess.run(
        [NODE, "names.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [list(model.schema.encode(row)) for row in rows]
    tasks = [*codes[:30], 7, 7.0, "7", "+7.00", "7.", "007", "TRUE", False, "-0", "constructor"]
    check(model, predict_in_node(tmp_path, rows[:40], tasks), rows[:40], tasks)


@needs_c
@needs_node
def test_functions_of_features(program, tmp_path, monkeypatch):
    model = learned()
    predictor = with_functions(model, monkeypatch)
    rows, tasks = events(300)
    expected = margins_by_reference(model, predictor, rows, tasks)
    romco.export(model, "js", tmp_path)
    by_name = [model.schema.encode(row) for row in rows]
    assert_close(predict_in_c(program, tmp_path, by_name, tasks)[:, 0], expected, 1e-12)
    assert_close(predict_in_node(tmp_path, rows, tasks)[:, 0], expected, 1e-12)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("sanitized"), "margins", *SANITIZED)


@pytest.mark.slow
@needs_c
def test_classes_stay_within_memory(many, sanitized, tmp_path):
    check_classes_in_c(many, sanitized, tmp_path, 50)


@needs_node
@pytest.mark.parametrize("kept", [None, 30, 2000])
def test_javascript_refuses_a_damaged_file(kept, auto, tmp_path):
    romco.export(auto, "js", tmp_path)
    path = tmp_path / "model.romcoexp"
    damaged = bytearray(path.read_bytes()[:kept])
    damaged[-7] ^= 4
    path.write_bytes(damaged)
    (tmp_path / "open.mjs").write_text(
        """
        import { readFile } from "node:fs/promises";
        import { Model } from "./romco.mjs";
        new Model(await readFile("model.romcoexp"));
    """
    )
    done = subprocess.run(
        [NODE, "open.mjs"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "the data file of the model is damaged" in done.stderr


FUZZED = {
    "two classes": {"n": 60},
    "number": {"n": 60, "target": "number"},
    "pairs": {"n": 80, "target": "classes", "classes": 3},
    "softmax": {"n": 120, "target": "classes", "classes": 11},
}


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory):
    checks = (*SANITIZED, "-fsanitize=float-cast-overflow")
    return compiled(tmp_path_factory.mktemp("fuzzer"), "fuzz", *checks)


@needs_c
@pytest.mark.parametrize(
    "kind",
    [
        *("pairs", "softmax"),
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("two classes", "number")),
    ],
)
def test_c_refuses_damaged_and_crafted_files(kind, fuzzer, tmp_path):
    """A file that is changed is refused; one with a right checksum never leaves its memory."""
    romco.export(learned(users=8, **FUZZED[kind]), "c", tmp_path)
    paths = [tmp_path / "model.romcoexp", tmp_path / "changed"]
    assert run([fuzzer, *paths, "100", "1"], None) == "0\n"
    assert int(run([fuzzer, *paths, "200", "1", "crafted"], None)) > 50
