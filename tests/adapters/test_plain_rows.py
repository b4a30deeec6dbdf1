"""Rows that estimators take as they are: answers and errors are those of rows that are checked."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

from romco import ROMCOClassifier, ROMCORegressor
from romco.adapters import sklearn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)) * (RNG.random((40, 5)) < 0.6)
TASK = [f"user {i % 3}" for i in range(40)]
LABELS = np.where(X @ np.arange(5.0) > 0, "spam", "ham").tolist()
NUMBERS = (X @ np.arange(5.0)).tolist()


def holding(value):
    row = X[:1].copy()
    row[0, 2] = value
    return row


ROWS = {
    "array": X[:1],
    "csr array": csr_array(X[:1]),
    "csr matrix": csr_matrix(X[:1]),
    "several": csr_array(X[:7]),
    "wide indices": csr_array((X[0], np.arange(5, dtype=np.int64), np.array([0, 5])), shape=(1, 5)),
    "unsorted": csr_array((X[0], np.arange(5)[::-1], np.array([0, 5])), shape=(1, 5)),
    "doubled": csr_array((X[0], [0, 0, 1, 1, 2], [0, 5]), shape=(1, 5)),
    "backwards": X[:1, ::-1],
    "no entries": csr_array((1, 5)),
    "csc": csc_array(X[:1]),
    "coo": coo_array(X[:1]),
    "lists": X[:1].tolist(),
    "single precision": X[:1].astype(np.float32),
    "whole numbers": csr_array(np.eye(5, dtype=np.int64)[:1]),
    "no rows": X[:0],
    "no sparse rows": csr_array((0, 5)),
    "one dimension": X[0],
    "sparse, one dimension": csr_array(X[0]),
    "too wide": csr_array((1, 6)),
    "not a number": holding(np.nan),
    "sparse infinity": csr_array(holding(np.inf)),
    "too large": holding(1e61),
    "sparse, too large": csr_array(holding(1e61)),
    "large": holding(1e160),
    "complex": X[:1] * 1j,
    "text": np.array([["a"] * 5]),
}
WORDS = {
    "list": lambda n: LABELS[:n],
    "array": lambda n: np.array(LABELS[:n]),
    "objects": lambda n: np.array(LABELS[:n], dtype=object),
    "tuple": lambda n: tuple(LABELS[:n]),
    "unknown": lambda n: ["eggs"] * n,
    "number": lambda n: [1.5] * n,
    "missing": lambda n: [np.nan] * n,
    "none": lambda n: [None] * n,
    "too many": lambda n: LABELS[: n + 1],
    "column": lambda n: np.array(LABELS[:n])[:, None],
    "ragged": lambda n: [["spam"], "ham"] * n,
    "nothing": lambda n: None,
}
AMOUNTS = {
    "list": lambda n: NUMBERS[:n],
    "array": lambda n: np.array(NUMBERS[:n]),
    "whole": lambda n: list(range(n)),
    "mixed": lambda n: [*range(n - 1), 0.5],
    "truth": lambda n: [True] * n,
    "single precision": lambda n: np.array(NUMBERS[:n], dtype=np.float32),
    "text": lambda n: ["high"] * n,
    "missing": lambda n: [np.nan] * n,
    "infinite": lambda n: np.full(n, np.inf),
    "too many": lambda n: NUMBERS[: n + 1],
    "nothing": lambda n: None,
}


@pytest.fixture
def checked(monkeypatch):
    """Let every row be checked by scikit-learn from now on."""

    def check_all():
        monkeypatch.setattr(sklearn.TaskEstimator, "_plain", lambda self, rows: False)
        monkeypatch.setattr(sklearn.TaskEstimator, "_one_task", lambda self, rows, task: None)

    return check_all


def classifier():
    return ROMCOClassifier().partial_fit(X, LABELS, task=TASK)


def regressor():
    return ROMCORegressor().partial_fit(X, NUMBERS, task=TASK)


def outcome(estimator, verb, *given, **named):
    """What a method gives, or how it fails, and what it leaves behind."""
    try:
        found = getattr(estimator, verb)(*given, **named)
        found = found.tolist() if isinstance(found, np.ndarray) else None
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    after = estimator.model_.margins(X, TASK).tolist()
    return found, after, estimator.model_.events


def count(rows):
    return rows.shape[0] if hasattr(rows, "shape") and len(rows.shape) == 2 else 1


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize(
    ("make", "verb"),
    [
        (classifier, "predict"),
        (classifier, "predict_proba"),
        (classifier, "decision_function"),
        (regressor, "predict"),
        (regressor, "predict_interval"),
    ],
)
def test_rows_are_answered_as_if_scikit_learn_had_looked(rows, make, verb, checked):
    task = TASK[: count(ROWS[rows])]
    at_once = outcome(make(), verb, ROWS[rows], task=task)
    checked()
    assert at_once == outcome(make(), verb, ROWS[rows], task=task)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("make", [classifier, regressor])
def test_rows_are_learned_as_if_scikit_learn_had_looked(rows, make, checked):
    n = count(ROWS[rows])
    answers = LABELS[:n] if make is classifier else NUMBERS[:n]
    at_once = outcome(make(), "partial_fit", ROWS[rows], answers, task=TASK[:n])
    checked()
    assert at_once == outcome(make(), "partial_fit", ROWS[rows], answers, task=TASK[:n])


@pytest.mark.parametrize(
    ("make", "answers"),
    [(classifier, f) for f in WORDS.values()] + [(regressor, f) for f in AMOUNTS.values()],
    ids=[f"label {name}" for name in WORDS] + [f"number {name}" for name in AMOUNTS],
)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.filterwarnings("ignore:A column-vector y")
def test_answers_are_taken_as_if_scikit_learn_had_looked(make, answers, n, checked):
    rows, task = csr_array(X[:n]), TASK[:n]
    at_once = outcome(make(), "partial_fit", rows, answers(n), task=task)
    checked()
    assert at_once == outcome(make(), "partial_fit", rows, answers(n), task=task)


@pytest.mark.parametrize("labels", [[False, True], [0, 1], [0.0, 1.0], [-1, 1]])
@pytest.mark.parametrize("given", [bool, int, float, str, np.int8, lambda label: 0.5])
def test_labels_of_another_kind_are_taken_as_if_scikit_learn_had_looked(labels, given, checked):
    def learned():
        estimator = ROMCOClassifier().partial_fit(X[:2], labels, task=TASK[:2])
        return outcome(estimator, "partial_fit", X[:1], [given(labels[1])], task=TASK[:1])

    at_once = learned()
    checked()
    assert at_once == learned()


@pytest.mark.parametrize("rows", ["array", "csr array", "csr matrix", "several"])
@pytest.mark.parametrize(("make", "answers"), [(classifier, LABELS), (regressor, NUMBERS)])
def test_plain_rows_are_not_checked_twice(rows, make, answers, monkeypatch):
    estimator, n = make(), count(ROWS[rows])

    def refuse(*given, **named):
        raise AssertionError("scikit-learn was asked")

    monkeypatch.setattr(sklearn, "validate_data", refuse)
    monkeypatch.setattr(sklearn, "check_is_fitted", refuse)
    estimator.partial_fit(ROWS[rows], answers[:n], task=TASK[:n])
    estimator.partial_fit(ROWS[rows], np.array(answers[:n]), task=TASK[:n])
    assert len(estimator.predict(ROWS[rows], task=TASK[:n])) == n
