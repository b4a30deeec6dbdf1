"""What the classifier and the regressor share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import csr_array, csr_matrix
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from romco.adapters.inputs import (
    column_from_json,
    column_to_json,
    needs_schema,
    split_off,
    tasks_of,
)
from romco.adapters.learned import Learned
from romco.adapters.passes import epochs_of, passes
from romco.io.schema import rows_of
from romco.model import Columns, Model, Names
from romco.parameters import whole

if TYPE_CHECKING:
    from romco.explanations import Explanation, Reasons

ONLY = "all"  # the one task of a model that was fitted without tasks


class TaskEstimator(Learned, BaseEstimator):  # type: ignore[misc]
    """Rows of tasks, beside X or among its columns (abstract)."""

    parameters: Mapping[str, Any] | None
    epochs: int | None
    shuffle: bool
    task_column: str | int | None
    random_state: Any
    n_features_in_: int
    reads_table_: bool  # whether rows are frames with text, dates or gaps
    feature_names_in_: Any

    def explain(self, top: int = 10) -> Explanation:
        """What was learned: rank, shared and personal part of each task, similar tasks.

        Parameters
        ----------
        top:
            How many features are named of each part.

        Returns
        -------
        :
            What was learned; print it, or see :func:`romco.explain`.

        Raises
        ------
        NotFittedError
            Before anything was learned.

        """
        from romco.explanations import explain

        self._check_fitted()
        return explain(self.model_, top=top)

    def reasons(self, X: Any, task: Any = None, label: Any = None) -> list[Reasons]:
        """Of each row of X (n, d), what its features add to the answer: see :func:`romco.reasons`.

        Contributions add up to ``decision_function`` (of numbers: to ``predict``). Of more than two
        classes they add up to the log-odds of one against the rest, the predicted or ``label``.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.
        label:
            For what the margins speak; None is the positive label, of many the predicted one.

        Returns
        -------
        :
            One of :class:`romco.explanations.Reasons` per row.

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        from romco.explanations import reasons

        self._check_fitted()
        X, task = self._asked(X, task)
        rows: Any
        if hasattr(X, "columns"):
            rows = rows_of(X)
        elif isinstance(X, np.ndarray):
            rows = X
        else:
            rows = (X[[i]].toarray()[0] for i in range(X.shape[0]))
        return [reasons(self.model_, x, t, label) for x, t in zip(rows, task, strict=True)]

    # In a file

    def inside(self) -> Model:
        """The model inside.

        Returns
        -------
        :
            The :class:`romco.Model`.

        """
        self._check_fitted()
        return self.model_

    def described(self) -> dict[str, Any]:
        """Parameters and columns, for :func:`romco.save`.

        Returns
        -------
        :
            By name; JSON can hold it.

        """
        names = self.feature_names_in_.tolist() if "feature_names_in_" in vars(self) else None
        parameters = {
            **self.get_params(deep=False),
            "task_column": column_to_json(self.task_column),
        }
        return {"parameters": parameters, "width": self.n_features_in_, "names": names}

    @classmethod
    def revived(cls, described: dict[str, Any], model: Model) -> Self:
        """The fitted estimator of that description, for :func:`romco.load`.

        Parameters
        ----------
        described:
            What :meth:`described` gave.
        model:
            The model inside.

        Returns
        -------
        :
            The estimator.

        """
        parameters = described["parameters"]
        made = cls(**{**parameters, "task_column": column_from_json(parameters["task_column"])})
        made.n_features_in_ = whole("width", described["width"])
        if described["names"] is not None:
            made.feature_names_in_ = np.array(described["names"], dtype=object)
        made.reads_table_ = isinstance(model.features, Names)
        if not made.reads_table_ and made.n_features_in_ != model.features.width:
            raise ValueError("the estimator and its model have different numbers of features")
        made.model_ = model
        return made

    # Within

    def _fitted(self, model: Model, X: Any, y: Any, task: list[Any], weight: Any) -> Self:
        """With a model that has learned rows, as often and in the order that is asked for."""
        random = check_random_state(self.random_state) if self.shuffle else None
        if isinstance(model.features, Names):
            X = model.features.cells.prepare(X, (), learning=True)
        passes(model, X, y, task, weight, epochs_of(self.epochs, model), random)
        self.model_ = model
        return self

    def _gone_on(self, model: Model, X: Any, y: Any, task: list[Any], weight: Any) -> Self:
        """With a model that has learned rows once, as they come."""
        passes(model, X, y, task, weight, 1, None)
        self.model_ = model
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _columns(self) -> Columns | Names:
        if self.reads_table_:
            return Names()
        names = getattr(self, "feature_names_in_", None)
        return Columns(self.n_features_in_, None if names is None else names.tolist())

    def _asked(self, X: Any, task: Any) -> tuple[Any, list[Any]]:
        """Rows and tasks to answer, checked."""
        X, task = self._apart(X, task)
        if self.reads_table_:
            self._check_table(X)
            return X, self._tasks(task, len(X), self.model_)
        if not self._plain(X):
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X, self._tasks(task, X.shape[0], self.model_)

    def _read_table(self, X: Any, y: Any, first: bool) -> Any:
        """Return the answers (n,) of a frame that a schema reads; None for numbers alone."""
        if first:
            self.reads_table_ = needs_schema(X)
        if not self.reads_table_:
            return None
        self._check_table(X)
        if first:
            self.n_features_in_ = len(X.columns)
            self.feature_names_in_ = np.array([str(name) for name in X.columns], dtype=object)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return y

    def _check_table(self, X: Any) -> None:
        if not hasattr(X, "columns"):
            raise ValueError(
                "this model was fitted on a frame with text, dates or gaps: give a frame with the "
                "same columns"
            )

    def _check_fitted(self) -> None:
        """Raise NotFittedError where nothing was learned; to let scikit-learn look takes long."""
        if "model_" not in vars(self):
            check_is_fitted(self)

    def _apart(self, X: Any, task: Any) -> tuple[Any, Any]:
        """Rows without the column of the task, and the task."""
        if self.task_column is None:
            return X, task
        if task is not None:
            raise ValueError("the task is told by task_column already: leave out task=")
        return split_off(X, self.task_column)

    def _plain(self, X: Any) -> bool:
        """Whether rows are an array in which scikit-learn would find nothing to change.

        To ask it costs ten times what it costs to learn a row.
        """
        if type(X) is np.ndarray:
            values = X
        elif type(X) in (csr_array, csr_matrix):
            values = X.data
        else:
            return False
        return (
            values.dtype == np.float64
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and "feature_names_in_" not in vars(self)
            and bool(np.vdot(values, values) < np.inf)  # all are finite; else it looks closer
        )

    def _check_score(self, sample_weight: Any, task: Any) -> None:
        """Raise ValueError where the tasks seem to stand where weights do."""
        if sample_weight is None or task is not None or self.task_column is not None:
            return
        if any(name != ONLY for name in self.inside().tasks):
            raise ValueError(
                "the third argument of score is sample_weight, and no task was given; if these "
                "are the tasks, write score(X, y, task=...)"
            )

    def _tasks(self, task: Any, n: int, known: Model | None) -> list[Any]:
        """The name of each row's task."""
        if task is not None:
            return tasks_of(task, n)
        if known is not None and any(name != ONLY for name in known.tasks):
            raise ValueError(
                "this model was fitted with tasks: say task= for each row. Where scikit-learn does "
                "not hand it on, as in scorers, keep it in a column of X and name that task_column"
            )
        return [ONLY] * n
