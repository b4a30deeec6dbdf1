"""Rows, tasks and weights as estimators take them, for scikit-learn and River alike."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np

from romco.io.frames import category_columns
from romco.io.groupings import names_columns, take_groupings
from romco.io.inference import Column
from romco.io.schema import Schema
from romco.model import Model
from romco.model.names import Id, from_json, to_json
from romco.typing import Floats

ONE_TASK = (str, bytes, int, float, np.generic)  # what names one task, not one for each row


@runtime_checkable
class Estimator(Protocol):
    """Another library's estimator around a model."""

    task_column: Any

    def fitted_model(self) -> Model:
        """Return the model inside."""


def asked_schema(
    schema: Schema | None, kinds: Mapping[str, str] | None, time: str | None
) -> Schema | None:
    """Return a schema with columns of these kinds, and that of the time for history features."""
    asked = dict(kinds or {})
    if time is not None:
        asked[time] = "time"
    if not asked:
        return schema
    made = schema or Schema(complete=True)
    for name, kind in asked.items():
        made.add(name, Column(kind, kind, "as asked"))
    return made


def tasks_of(task: Any, n: int) -> list[Id]:
    """The name of each of ``n`` rows' task: a name for all, or a sequence, series or array.

    >>> tasks_of("ann", 2), tasks_of(np.array([7, 8]), 2), tasks_of([("shop", 1), ("shop", 2)], 2)
    (['ann', 'ann'], [7, 8], [('shop', 1), ('shop', 2)])
    """
    if isinstance(task, ONE_TASK):
        return [task] * n
    if hasattr(task, "to_list"):
        names = task.to_list()
    elif isinstance(task, np.ndarray) or hasattr(task, "columns"):  # a frame of one column, too
        names = np.asarray(task).ravel().tolist()
    else:
        names = list(task)
    if len(names) != n:
        raise ValueError(f"X has {n} rows but task has {len(names)} entries")
    return names


def needs_schema(X: Any) -> bool:
    """Return whether X is a frame with categories, text, dates or gaps, which a schema reads."""
    if not hasattr(X, "columns"):
        return False
    return bool(category_columns(X)) or not all(_is_numeric(X[name]) for name in X.columns)


def _is_numeric(column: Any) -> bool:
    values = np.asarray(column)
    if values.dtype.kind in "mM":  # durations and dates
        return False
    if any(isinstance(value, str) for value in values.tolist()):  # of digits, too
        return False
    try:
        return not np.isnan(values.astype(np.float64)).any()
    except (TypeError, ValueError, OverflowError):
        return False


def split_off(X: Any, column: str | int | list[str]) -> tuple[Any, Any]:
    """X without a column, and that column: by name in a frame, by number in an array.

    Several columns of a frame are groupings, see :func:`romco.io.groupings.take_groupings`.

    >>> split_off(np.array([[0.5, 7.0], [0.25, 8.0]]), -1)
    (array([[0.5 ],
           [0.25]]), array([7., 8.]))
    """
    if isinstance(column, list):
        if not names_columns(X, column):
            raise ValueError(f"X is no frame with the columns {list(column)}")
        rows, task, _ = take_groupings(X, column)
        return type(X)(rows), task
    if hasattr(X, "columns"):
        if column not in X.columns:
            raise ValueError(f"X has no column {column!r} to take the task from{_hint(X, column)}")
        return X[[name for name in X.columns if name != column]], X[column]
    if not isinstance(column, int):
        raise ValueError(f"task_column={column!r} names a column, but X is {_nameless(X)}")
    if hasattr(X, "tocsc"):
        X = X.tocsc()
    else:
        X = np.asarray(X)
    if X.ndim != 2 or not -X.shape[1] <= column < X.shape[1]:
        raise ValueError(f"task_column={column} is none of the columns of X, of shape {X.shape}")
    column %= X.shape[1]
    rest = [j for j in range(X.shape[1]) if j != column]
    if hasattr(X, "toarray"):
        task = X[:, [column]].toarray().ravel()
    else:
        task = X[:, column]
    return X[:, rest], task


def _hint(X: Any, column: Any) -> str:
    """Return a hint where a transformer has put its own name before that of the column."""
    longer = [name for name in map(str, X.columns) if name.endswith(f"__{column}")]
    if not longer:
        return f"; it has {', '.join(map(str, X.columns[:8]))}"
    return (
        f": write task_column={longer[0]!r}, or "
        "ColumnTransformer(..., verbose_feature_names_out=False)"
    )


def _nameless(X: Any) -> str:
    if hasattr(X, "tocsr"):
        return (
            "sparse, which holds neither names of columns nor text: let the tasks travel beside X "
            "(set_fit_request(task=True) and task= in every call), or give "
            "ColumnTransformer(..., sparse_threshold=0) and OneHotEncoder(sparse_output=False) "
            "and call set_output(transform='pandas') on it"
        )
    return (
        "an array without names, as a plain ColumnTransformer gives it: write ColumnTransformer("
        "..., verbose_feature_names_out=False).set_output(transform='pandas'), or give the "
        "column's number as task_column"
    )


def classes_of(labels: Any) -> tuple[Any, ...]:
    """The labels, sorted; errors are worded as scikit-learn's own."""
    classes = np.unique(np.asarray(labels))
    if len(classes) < 2:
        raise ValueError(
            f"two classes are needed but there is only one class, {classes.tolist()[0]!r}; "
            "with partial_fit, name all by classes="
        )
    return tuple(classes.tolist())


def column_to_json(column: Any) -> Any:
    """The name of a column in a file; None where there is none."""
    if isinstance(column, list):
        return {"groupings": column}
    if column is None:
        return None
    return to_json(column)


def column_from_json(data: Any) -> Any:
    """Restore what :func:`column_to_json` wrote."""
    if isinstance(data, dict) and "groupings" in data:
        return list(data["groupings"])
    if data is None:
        return None
    return from_json(data)


def weights_of_rows(sample_weight: Any, n: int, y: Any = None, class_weight: Any = None) -> Any:
    """Return the weight of each of n rows, its own times that of its class; None if all are 1.

    >>> weights_of_rows([1, 2], 2, ["a", "b"], {"b": 3.0})
    array([1., 6.])
    """
    if sample_weight is None and class_weight is None:
        return None
    weight = np.ones(n)
    if sample_weight is not None:
        weight = _checked(sample_weight, n)
    if class_weight is None:
        return weight
    return weight * _of_classes(class_weight, y)


def _checked(sample_weight: Any, n: int) -> Floats:
    from sklearn.utils.validation import _check_sample_weight

    weights: Floats = _check_sample_weight(
        sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True
    )
    return weights


def _of_classes(class_weight: Any, y: Any) -> Floats:
    """Return the weight of the class of each row, by label or "balanced"."""
    labels, number, count = np.unique(y, return_inverse=True, return_counts=True)
    if isinstance(class_weight, str):
        if class_weight != "balanced":
            raise ValueError(f"class_weight must be 'balanced' or a mapping; got {class_weight!r}")
        return np.asarray(len(number) / (len(labels) * count))[number]
    if not isinstance(class_weight, Mapping):
        raise ValueError(f"class_weight must be 'balanced' or a mapping; got {class_weight!r}")
    weights = np.array([float(class_weight.get(label, 1.0)) for label in labels.tolist()])
    if not (np.isfinite(weights) & (weights >= 0.0)).all():
        raise ValueError(f"weights of classes must be 0 or positive; got {dict(class_weight)}")
    return weights[number]
