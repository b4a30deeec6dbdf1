"""onnxruntime predicts from the graph what the model predicts."""

import warnings

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

runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
onnx = pytest.importorskip("onnx", reason="onnx is not installed")
MANY = pytest.mark.parametrize("n", [1000, pytest.param(10_000, marks=pytest.mark.slow)])


def session_of(folder):
    onnx.checker.check_model(str(folder / "model.onnx"), full_check=True)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    providers = ["CPUExecutionProvider"]
    return runtime.InferenceSession(folder / "model.onnx", options, providers=providers)


def feeds(session, rows, tasks):
    """Arrays of the graph's inputs: NaN and "" are missing."""
    arrays = {"task": np.array(tasks, dtype=object)}
    for column in session.get_inputs():
        if column.name == "task":
            continue
        is_text = column.type == "tensor(string)"
        missing = "" if is_text else np.nan
        cells = [row.get(column.name) for row in rows]
        values = [missing if cell is None else cell for cell in cells]
        arrays[column.name] = np.array(values, dtype=object if is_text else np.float64)
    return arrays


@MANY
def test_margins_are_the_same(n, tmp_path):
    model = learned()
    rows, tasks = events(n)
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    assert {"task", "age", "town"} < {column.name for column in session.get_inputs()}
    margin, probability, label = session.run(None, feeds(session, rows, tasks))
    assert_close(margin, model.margins(rows, tasks), 1e-12)
    assert_close(probability, model.predict_proba(rows, tasks)[:, 1], 1e-12)
    assert label.tolist() == model.predict(rows, tasks).tolist()


@MANY
@pytest.mark.parametrize("classes", [5, 15])
def test_classes_are_the_same(classes, n, tmp_path):
    model = learned(target="classes", classes=classes)
    assert has_values_and_scores(model)
    rows, tasks = events(n)
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    probabilities, label = session.run(["probabilities", "label"], feeds(session, rows, tasks))
    assert_close(probabilities, model.predict_proba(rows, tasks), 1e-12)
    assert label.tolist() == model.predict(rows, tasks).astype(str).tolist()


def test_sizes_that_are_new_to_the_runtime_are_few(tmp_path):
    """It compares each with all others: 10 classes took 20 seconds to load."""
    model = learned(n=2000, target="classes", classes=10)
    romco.export(model, "onnx", tmp_path)
    nodes = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph.node
    assert len(nodes) > 5000
    assert sum(node.op_type == "Expand" for node in nodes) <= 5


def test_weights_that_are_nearly_one(tmp_path):
    """onnxruntime leaves out a product with a single number that is 1 in single precision."""
    model = romco.Model(target="classes")
    model.learn([{"a": 1.0}] * 3, ["x", "y", "z"], ["ann"] * 3)
    rows, tasks = [{"a": 1.0}, {"a": None}], ["ann", "new"]
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    (probabilities,) = session.run(["probabilities"], feeds(session, rows, tasks))
    assert_close(probabilities, model.predict_proba(rows, tasks), 1e-12)


def test_names_of_very_many_classes(tmp_path):
    model = romco.Model(target="classes")
    labels = [f"class {k} {'x' * (k % 200)}" for k in range(150)]
    rows, tasks = events(150)
    model.learn(rows, labels, tasks)
    romco.export(model, "onnx", tmp_path)
    (label,) = session_of(tmp_path).run(["label"], feeds(session_of(tmp_path), rows, tasks))
    assert label.tolist() == model.predict(rows, tasks).tolist()


@pytest.mark.parametrize("classes", [2, 4, 12])
def test_classes_of_arrays(classes, tmp_path):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1500, 6))
    x[:, 4:] = np.expm1(1.5 * x[:, 4:])  # far from normal
    x[:, 2:5][rng.random((1500, 3)) < 0.2] = 0.0
    labels = np.clip(np.round(0.5 * classes + np.log1p(x[:, 4]) ** 2), 0, classes - 1).astype(int)
    labels[:classes] = range(classes)
    estimator = romco.ROMCOClassifier().fit(x, labels, task=rng.integers(8, size=1500))
    romco.export(estimator, "onnx", tmp_path)
    new = np.arange(1500) % 10
    feed = {"task": new.astype(str).astype(object), "x": x}
    outputs = session_of(tmp_path).run(None, feed)
    found = np.column_stack(outputs[-2:-1])
    assert_close(found, estimator.predict_proba(x, task=new)[:, -found.shape[1] :], 1e-12)


@MANY
def test_numbers_are_the_same(n, tmp_path):
    model = learned(target="number")
    rows, tasks = events(n)
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    found = session.run(["prediction"], feeds(session, rows, tasks))
    assert_close(found[0], model.predict(rows, tasks), 1e-12)


def test_functions_of_features(tmp_path, monkeypatch):
    model = learned()
    predictor = with_functions(model, monkeypatch)
    rows, tasks = events(500)
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    margin, *_ = session.run(None, feeds(session, rows, tasks))
    assert_close(margin, margins_by_reference(model, predictor, rows, tasks), 1e-12)


@pytest.mark.parametrize("name", ["pa-unique", "pa-shared", "romco-nucl", "mtfl"])
def test_linear_learners(name, tmp_path):
    model = learned(name, n=150, users=10)
    rows, tasks = events(300, users=10)
    rows = [{**row, "income": None} for row in rows]
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    margin, *_ = session.run(None, feeds(session, rows, tasks))
    assert_close(margin, model.margins(rows, tasks), 1e-11)


def test_arrays_are_one_input(tmp_path):
    rng = np.random.default_rng(0)
    x, task = rng.normal(size=(200, 12)), rng.integers(5, size=200)
    estimator = romco.ROMCOClassifier().fit(x, (x[:, 0] > 0).astype(int), task=task)
    romco.export(estimator, "onnx", tmp_path)
    new = np.arange(200) % 7
    margin, _, label = session_of(tmp_path).run(
        None, {"task": new.astype(str).astype(object), "x": x}
    )
    assert_close(margin, estimator.decision_function(x, task=new), 1e-12)
    assert label.astype(int).tolist() == estimator.predict(x, task=new).tolist()


def test_text_is_refused(tmp_path):
    model = romco.Model(schema=romco.Schema({"says": "text"}))
    model.learn([{"says": "buy now"}, {"says": "see you"}], ["spam", "ham"], ["ann"] * 2)
    with pytest.raises(ValueError, match="column 'says' of kind 'text' cannot be exported to ONNX"):
        romco.export(model, "onnx", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["task", "label", "probabilities", ""])
def test_a_column_called_as_an_input_or_output_is_refused(name, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = romco.Model()
        model.learn([{name: 1.0}, {"b": 1.0}], ["yes", "no"], ["ann"] * 2)
    with pytest.raises(ValueError, match=f"a column is called '{name}'"):
        romco.export(model, "onnx", tmp_path)


def test_columns_called_as_nodes(tmp_path):
    model = romco.Model()
    rows = [{"constant_0": 1.0, "max_1": 2.0}, {"constant_0_": 3.0, "unsqueeze_0": 1.0}]
    model.learn(rows * 4, ["yes", "no"] * 4, ["ann", "bob"] * 4)
    romco.export(model, "onnx", tmp_path)
    session = session_of(tmp_path)
    margin, *_ = session.run(None, feeds(session, rows, ["ann", "bob"]))
    assert_close(margin, model.margins(rows, ["ann", "bob"]), 1e-12)


def test_forgotten_features_are_no_inputs(tmp_path):
    model = romco.Model()
    rows = [{"age": 7.0, "town": "Rome"}, {"age": 3.0, "town": "Oslo", "hat": 5.0}]
    model.learn(rows * 4, ["yes", "no"] * 4, ["ann", "bob"] * 4)
    model.forget("bob")
    romco.export(model, "onnx", tmp_path)
    inputs = [column.name for column in session_of(tmp_path).get_inputs()]
    assert inputs == ["task", "age", "town"]
