"""What estimators are given: tasks in any form, beside the rows or among their columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from romco.model.names import Id, from_json, to_json

ONE = (str, bytes, int, float, np.generic)  # what names one task, not one for each row


def tasks_of(task: Any, n: int) -> list[Id]:
    """The name of each of ``n`` rows' task: a name for all, or a sequence, series or array.

    >>> tasks_of("ann", 2), tasks_of(np.array([7, 8]), 2), tasks_of([("shop", 1), ("shop", 2)], 2)
    (['ann', 'ann'], [7, 8], [('shop', 1), ('shop', 2)])
    """
    if isinstance(task, ONE):
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
    """Return whether X is a frame with text, dates or gaps, which a schema reads.

    >>> import pandas as pd
    >>> [needs_schema(X) for X in (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": ["x"]}))]
    [False, True]
    """
    return hasattr(X, "columns") and not all(_is_numeric(X[name]) for name in X.columns)


def _is_numeric(column: Any) -> bool:
    try:
        return not np.isnan(np.asarray(column).astype(np.float64)).any()
    except (TypeError, ValueError):
        return False


def split_off(X: Any, column: str | int) -> tuple[Any, Any]:
    """X without a column, and that column: by name in a frame, by number in an array.

    >>> split_off(np.array([[7.0, 0.5], [8.0, 0.25]]), 0)
    (array([[0.5 ],
           [0.25]]), array([7., 8.]))
    """
    if hasattr(X, "columns"):
        if column not in X.columns:
            raise ValueError(f"X has no column {column!r} to take the task from{_hint(X, column)}")
        return X[[name for name in X.columns if name != column]], X[column]
    if not isinstance(column, int):
        raise ValueError(f"task_column={column!r} names a column, but X is {_nameless(X)}")
    X = X.tocsc() if hasattr(X, "tocsc") else np.asarray(X)
    if X.ndim != 2 or not 0 <= column < X.shape[1]:
        raise ValueError(f"task_column={column} is none of the columns of X, of shape {X.shape}")
    rest = [j for j in range(X.shape[1]) if j != column]
    task = X[:, [column]].toarray().ravel() if hasattr(X, "toarray") else X[:, column]
    return X[:, rest], task


def _hint(X: Any, column: str | int) -> str:
    """What to write where a transformer has put its own name before that of the column."""
    longer = [name for name in map(str, X.columns) if name.endswith(f"__{column}")]
    if not longer:
        return f"; it has {', '.join(map(str, X.columns[:8]))}"
    return (
        f": write task_column={longer[0]!r}, or "
        "ColumnTransformer(..., verbose_feature_names_out=False)"
    )


def _nameless(X: Any) -> str:
    """What X is if it is no frame, and what to write instead."""
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
    """The labels, sorted; errors are worded as scikit-learn's own.

    >>> classes_of(["b", "a", "b"])
    ('a', 'b')
    """
    classes = np.unique(np.asarray(labels))
    if len(classes) < 2:
        raise ValueError(
            f"two classes are needed but there is only one class, {classes.tolist()[0]!r}; "
            "with partial_fit, name all by classes="
        )
    return tuple(classes.tolist())


def column_to_json(column: Any) -> Any:
    """The name of a column in a file; None where there is none."""
    return None if column is None else to_json(column)


def column_from_json(found: Any) -> Any:
    """What :func:`column_to_json` wrote."""
    return None if found is None else from_json(found)
