"""DuckDB, SQLite and PostgreSQL predict from tables and views what the model predicts."""

import csv
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import romco
from tests.exporting.streams import (
    assert_close,
    events,
    has_values_and_scores,
    learned,
    margins_by_reference,
    with_functions,
)

MANY = pytest.param(10_000, marks=pytest.mark.slow)
SQLITE = shutil.which("sqlite3")
QUERY = "SELECT * FROM romco_prediction"
CLASSES = "SELECT id, class, probability FROM romco_probability"


def run(command, folder, text=None, **options):
    done = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stderr
    assert "rror" not in done.stderr, done.stderr
    return done.stdout


def write_events(folder, columns, rows, tasks):
    """Write events.csv with a line for each event; empty cells are missing."""
    with (folder / "events.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["id", "task", *columns])
        for k, (row, task) in enumerate(zip(rows, tasks, strict=True)):
            lines.writerow([k, task, *(row.get(name) for name in columns)])


def in_duckdb(folder, columns, query=QUERY):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    before = Path.cwd()
    os.chdir(folder)
    try:
        database = duckdb.connect()
        database.execute("SET threads = 1")
        script = (folder / "duckdb.sql").read_text(encoding="utf-8")
        database.execute(script)
        database.execute(script)  # a newer model replaces an older one
        database.execute("COPY romco_event FROM 'events.csv' (HEADER, AUTO_DETECT false)")
        return database.execute(query).fetchall()
    finally:
        os.chdir(before)


def in_sqlite(folder, columns, query=QUERY):
    if SQLITE is None:
        pytest.skip("the sqlite3 shell is not installed")
    load = ".read sqlite.sql\n.import --csv --skip 1 events.csv romco_event\n"
    out = run([SQLITE, "-batch", "new.db"], folder, f"{load}.mode tabs\n{query};\n")
    return [line.split("\t") for line in out.splitlines()]


@pytest.fixture(scope="module")
def postgres():
    """A command that runs psql in a folder, on a server of its own without a port."""
    if not all(map(shutil.which, ("initdb", "pg_ctl", "psql"))):
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="romco-postgres-"))
    user = {}
    if os.getuid() == 0:  # whose server PostgreSQL refuses to be
        user = {"user": "nobody"}
        shutil.chown(folder, "nobody")
    data, socket = str(folder / "data"), str(folder)
    run(["initdb", "-D", data, "-U", "romco", "-A", "trust", "-E", "UTF8"], folder, **user)
    options = f"-c listen_addresses= -k {socket} -c fsync=off"
    log = str(folder / "log")
    subprocess.run(
        ["pg_ctl", "-w", "-D", data, "-l", log, "-o", options, "start"],
        check=True,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        **user,
    )
    psql = ["psql", "-h", socket, "-U", "romco", "-v", "ON_ERROR_STOP=1", "-qAt", "-F", "\t"]
    yield lambda where, text: run([*psql, "postgres"], where, text)
    run(["pg_ctl", "-D", data, "-m", "immediate", "stop"], folder, **user)
    shutil.rmtree(folder)


def in_postgresql(folder, query, postgres):
    out = postgres(
        folder,
        "SET client_min_messages = warning;\n\\i postgresql.sql\n"
        f"\\copy romco_event FROM 'events.csv' WITH (FORMAT csv, HEADER)\nANALYZE;\n{query};\n"
        "DROP TABLE romco_event CASCADE;\n",
    )
    return [line.split("\t") for line in out.splitlines()]


def check(model, found, rows, tasks, tolerance=1e-9):
    found = sorted(found, key=lambda row: int(row[0]))
    assert [int(row[0]) for row in found] == list(range(len(rows)))
    margins, probabilities = np.array([row[1:3] for row in found], dtype=float).T
    assert_close(margins, model.margins(rows, tasks), tolerance)
    assert_close(probabilities, model.predict_proba(rows, tasks)[:, 1], tolerance)
    assert [row[3] for row in found] == model.predict(rows, tasks).tolist()


def export_with_events(model, folder, rows, tasks):
    """Export a model, and write events to be predicted beside it; return their columns."""
    romco.export(model, "sql", folder)
    columns = list(model.schema.columns)
    write_events(folder, columns, rows, tasks)
    return columns


@pytest.fixture(scope="module")
def models():
    """Two classes, numbers, 5 classes, by pairs and softmax, and 15, by softmax alone."""
    models = {"two": learned(), "number": learned(target="number")}
    models |= {n: learned(target="classes", classes=n) for n in (5, 15)}
    assert has_values_and_scores(models[5])
    return models


ENGINES = ("duckdb", "sqlite", "postgresql")


def predict_in(engine, folder, columns, request, query=QUERY):
    """Rows of the predictions in an engine; skips the test where it is not installed."""
    if engine == "postgresql":
        return in_postgresql(folder, query, request.getfixturevalue("postgres"))
    return {"duckdb": in_duckdb, "sqlite": in_sqlite}[engine](folder, columns, query)


@pytest.mark.parametrize("n", [120, MANY])
@pytest.mark.parametrize("engine", ENGINES)
def test_margins_are_the_same(engine, n, models, tmp_path, request):
    rows, tasks = events(n)
    columns = export_with_events(models["two"], tmp_path, rows, tasks)
    check(models["two"], predict_in(engine, tmp_path, columns, request), rows, tasks)


@pytest.mark.parametrize("n", [300, MANY])
@pytest.mark.parametrize("engine", ENGINES)
def test_numbers_are_the_same(engine, n, models, tmp_path, request):
    rows, tasks = events(n)
    columns = export_with_events(models["number"], tmp_path, rows, tasks)
    found = predict_in(engine, tmp_path, columns, request)
    numbers = {int(row[0]): float(row[1]) for row in found}
    assert_close([numbers[k] for k in range(n)], models["number"].predict(rows, tasks), 1e-9)


def check_classes(model, found, rows, tasks):
    probabilities = np.full((len(rows), len(model.classes)), np.nan)
    for number, label, probability in found:
        probabilities[int(number), int(label)] = float(probability)
    assert_close(probabilities, model.predict_proba(rows, tasks), 1e-9)


@pytest.mark.parametrize("n", [40, MANY])
@pytest.mark.parametrize("classes", [5, 15])
@pytest.mark.parametrize("engine", ENGINES)
def test_classes_are_the_same(engine, classes, n, models, tmp_path, request):
    is_slow = engine != "duckdb" and classes > 10
    rows, tasks = events(min(n, 500) if is_slow else n)
    model = models[classes]
    columns = export_with_events(model, tmp_path, rows, tasks)
    check_classes(model, predict_in(engine, tmp_path, columns, request, CLASSES), rows, tasks)


def test_the_most_probable_class_is_predicted(models, tmp_path):
    rows, tasks = events(200)
    columns = export_with_events(models[5], tmp_path, rows, tasks)
    found = in_duckdb(tmp_path, columns)
    labels = {int(number): label for number, _, label in found}
    assert [labels[k] for k in range(200)] == models[5].predict(rows, tasks).astype(str).tolist()


@pytest.mark.parametrize("n", [3, 40])
def test_few_events_of_classes(n, tmp_path):
    """Features and classes have few events."""
    rows, tasks = events(300)
    model = romco.Model(target="classes")
    model.learn(rows[:n], ["x", "y", "z", "x"] * 10 if n == 40 else ["x", "y", "z"], tasks[:n])
    columns = export_with_events(model, tmp_path, rows, tasks)
    check_classes(model, in_duckdb(tmp_path, columns, CLASSES), rows, tasks)


@pytest.mark.parametrize("name", ["pa-unique", "pa-shared", "romco-nucl", "mtfl"])
def test_linear_learners(name, tmp_path):
    model = learned(name, n=150, users=10)
    rows, tasks = events(300, users=10)
    rows = [{**row, "income": None} for row in rows]
    columns = export_with_events(model, tmp_path, rows, tasks)
    check(model, in_duckdb(tmp_path, columns), rows, tasks)


@pytest.mark.parametrize("engine", ENGINES)
def test_functions_of_features(engine, tmp_path, monkeypatch, request):
    model = learned()
    predictor = with_functions(model, monkeypatch)
    rows, tasks = events(60)
    columns = export_with_events(model, tmp_path, rows, tasks)
    found = predict_in(engine, tmp_path, columns, request)
    margins = {int(row[0]): float(row[1]) for row in found}
    expected = margins_by_reference(model, predictor, rows, tasks)
    assert_close([margins[k] for k in range(60)], expected, 1e-9)


def test_text_is_refused(tmp_path):
    model = romco.Model(schema=romco.Schema({"says": "text"}))
    model.learn([{"says": "buy now"}, {"says": "see you"}], ["spam", "ham"], ["ann"] * 2)
    with pytest.raises(ValueError, match="column 'says' of kind 'text' cannot be exported to SQL"):
        romco.export(model, "sql", tmp_path)
    assert not list(tmp_path.iterdir())


def test_classes_of_which_two_are_known(tmp_path):
    model = learned(target="classes", classes=2)
    rows, tasks = events(100)
    columns = export_with_events(model, tmp_path, rows, tasks)
    found = {int(number): float(p) for number, _, p, _ in in_duckdb(tmp_path, columns)}
    assert_close([found[k] for k in range(100)], model.predict_proba(rows, tasks)[:, 1], 1e-9)


def test_many_columns(tmp_path):
    """More than SQLite joins in one query."""
    model = romco.Model()
    rows = [{f"c{k}": float(k % 7 + i) for k in range(600)} for i in range(6)]
    model.learn(rows, ["yes", "no"] * 3, ["ann", "bob"] * 3)
    romco.export(model, "sql", tmp_path)
    write_events(tmp_path, list(rows[0]), rows, ["ann"] * 6)
    check(model, in_sqlite(tmp_path, list(rows[0])), rows, ["ann"] * 6)


def test_hostile_names_are_data(tmp_path):
    """Names with quotes do not become code."""
    model = romco.Model()
    rows = [{"a\"b'c": 1.0, "; DROP TABLE x": 'it\'s "so"'}, {"a\"b'c": 3.0}]
    model.learn(rows * 4, ["yes", "no"] * 4, ["o'neil", 'a"b'] * 4)
    columns = export_with_events(model, tmp_path, rows, ["o'neil", 'a"b'])
    check(model, in_duckdb(tmp_path, columns), rows, ["o'neil", 'a"b'])


@pytest.mark.parametrize("engine", ENGINES)
def test_hostile_tasks_and_categories_are_data(engine, tmp_path, request):
    """A zero does not end a name: a\\0b is not a."""
    names = ["o'neil", 'a,"b', "\\.", "\\N", "NULL", "x\ny", "', (SELECT 1)) --", "a", "%s"]
    names += ["z" * 5000, "{}", "0", "007", "v.0", "1e-07", "1" + 22 * "0", ".0", "-.0", "1-2.0"]
    names.append("".join(map(chr, range(0x4E00, 0x4E00 + 5000))))  # too long for a sorted index
    model = romco.Model()
    rows = [{"town": name, "age": float(k)} for k, name in enumerate(names)]
    model.learn(rows * 4, ["yes", "no", "no", "no"] * len(names), names * 4)
    model.learn([{"town": "a\0b", "age": 3.0}] * 4, ["yes", "no"] * 2, ["a\0b"] * 4)
    columns = export_with_events(model, tmp_path, rows, names)
    check(model, predict_in(engine, tmp_path, columns, request), rows, names)


@pytest.mark.parametrize("engine", ENGINES)
def test_whole_numbers_and_truth_values_are_one_task(engine, tmp_path, request):
    tasks = [7, 8.0, True, "-2.0", "1.5"]
    rows = [{"a": float(k)} for k in range(5)]
    model = romco.Model(schema=romco.Schema({"a": "number"}))
    model.learn(rows * 4, ["yes", "no", "no", "yes", "yes"] * 4, tasks * 4)
    names = [*tasks, "7", "7.0", 8, "1", "1.0", "TRUE", "-2", "1.50", "7.5", "False", "007.0"]
    model.learn(rows[:2] * 2, ["yes", "no"] * 2, ["007", "1-2"] * 2)
    names += ["007", "1-2", "1-2.0", "--2.0"]
    rows = [{"a": float(k % 5)} for k in range(len(names))]
    columns = export_with_events(model, tmp_path, rows, names)
    check(model, predict_in(engine, tmp_path, columns, request), rows, names)


@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_numbers_do_not_underflow(engine, tmp_path, request):
    model = romco.Model("ogd-global", schema=romco.Schema({"a": "number", "b": "number"}))
    rows = [{"a": 5e-324 * (k % 5 - 2), "b": 1e5 * (k % 3 - 1)} for k in range(60)]
    model.learn(rows, ["yes", "no", "no"] * 20, ["ann"] * 60)
    columns = export_with_events(model, tmp_path, rows[:7], ["ann"] * 7)
    check(model, predict_in(engine, tmp_path, columns, request), rows[:7], ["ann"] * 7)


def test_sqlite_refuses_real_numbers_as_categories(tmp_path):
    """Its text of 1e-7 is 1.0e-07, which is another category."""
    if SQLITE is None:
        pytest.skip("the sqlite3 shell is not installed")
    model = romco.Model(schema=romco.Schema({"floor": "category"}))
    rows, tasks = [{"floor": 1.0}, {"floor": 2}], [7.0, 8]
    model.learn(rows * 4, ["yes", "no"] * 4, tasks * 4)
    export_with_events(model, tmp_path, [], [])
    insert = "INSERT INTO romco_event VALUES"
    query = f".read sqlite.sql\n{insert} ('0', 7.0, 1), ('1', 8, '2');\n.mode tabs\n{QUERY};\n"
    found = run([SQLITE, "-batch", "new.db"], tmp_path, query).splitlines()
    check(model, [line.split("\t") for line in found], rows, tasks)
    command = [SQLITE, "-batch", "new.db", f"{insert} ('2', 7, 1e-7)"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "write real numbers as text" in done.stderr
