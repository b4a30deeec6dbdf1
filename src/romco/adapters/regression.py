"""A scikit-learn regressor that takes ``task=``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_array, validate_data

from romco.adapters.estimators import TaskEstimator
from romco.adapters.passes import weights_of_rows
from romco.model import Model

Numbers = NDArray[np.float64]


class ROMCORegressor(RegressorMixin, TaskEstimator):  # type: ignore[misc]
    """One linear model of a number per task: shared where tasks agree, personal where they differ.

    As :class:`romco.ROMCOClassifier`, for numbers: ``task`` names the task of each row in every
    method, or ``task_column`` the column of X that does. Place and unit of y do not matter.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(300, 2)), np.tile(["ann", "bob", "cy"], 100)
    >>> y = 20.0 + X @ [3.0, -1.0] + 5.0 * (task == "bob")
    >>> model = ROMCORegressor(random_state=0).fit(X, y, task=task)
    >>> bool(abs(model.predict([[1.0, 0.0]], task="bob")[0] - 28.0) < 0.1)
    True
    >>> low, high = model.predict_interval([[1.0, 0.0]], task="bob", level=0.9)[0]
    >>> bool(low < 28.0 < high)
    True

    Parameters
    ----------
    learner:
        "romco-auto", or a control: "pa", "ogd" or "arow" with "-unique" or "-global".
    parameters:
        The learner's parameters, by name.
    epochs:
        How often ``fit`` goes through the rows; ``partial_fit`` goes through them once.
    shuffle:
        Whether ``fit`` goes through the rows in random order; ``partial_fit`` never does.
    new_task:
        Where a task that appears later starts: at the "mean" of what is shared, or at "zero".
    task_column:
        Column of X that names each row's task, by name or number, in place of ``task=``.
    random_state:
        Seed of the shuffling.

    Attributes
    ----------
    tasks_:
        Names of the tasks, (m,).
    coef_, intercept_:
        W, one row per task (m, d), and b (m,): numbers are ``X @ coef_[i] + intercept_[i]``.
    shared_, personal_:
        U and V with W = U + V, where the learner keeps them apart.
    model_:
        The :class:`romco.Model` inside; ``romco.save(estimator, path)`` writes both.

    """

    def __init__(
        self,
        learner: str = "romco-auto",
        *,
        parameters: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        shuffle: bool = True,
        new_task: Literal["mean", "zero"] = "mean",
        task_column: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.epochs = epochs
        self.shuffle = shuffle
        self.new_task = new_task
        self.task_column = task_column
        self.random_state = random_state

    def fit(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows from scratch.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        y:
            The number of each row (n,).
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.
        sample_weight:
            What each row counts (n,), 0 or more: as so many rows; None counts each as one.

        Returns
        -------
        :
            The estimator itself.

        Raises
        ------
        ValueError
            Where rows, answers, tasks or weights are bad; then nothing was learned.

        """
        X, y, task = self._taught(X, y, task, first=True)
        weight = weights_of_rows(sample_weight, len(y))
        model = self._new(list(dict.fromkeys(task)))
        return self._fitted(model, X, y, task, weight)

    def partial_fit(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows one after the other in the order given; tasks may be new.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        y:
            The number of each row (n,).
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.
        sample_weight:
            What each row counts (n,), 0 or more: as so many rows; None counts each as one.

        Returns
        -------
        :
            The estimator itself.

        Raises
        ------
        ValueError
            Where rows, answers, tasks or weights are bad; then nothing was learned.

        """
        first = not hasattr(self, "model_")
        X, y, task = self._taught(X, y, task, first)
        weight = weights_of_rows(sample_weight, len(y))
        model = self._new() if first else self.model_
        return self._gone_on(model, X, y, task, weight)

    def predict(self, X: Any, task: Any = None) -> Numbers:
        """The number of each row.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.

        Returns
        -------
        :
            Numbers (n,).

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        self._check_fitted()
        return self.model_.predict(*self._asked(X, task))

    def predict_interval(self, X: Any, task: Any = None, level: float = 0.9) -> Numbers:
        """Bounds within which a share ``level`` of the numbers of such rows will be.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.
        level:
            Which share, above 0 and below 1.

        Returns
        -------
        :
            Lower and upper bounds (n, 2).

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        self._check_fitted()
        return self.model_.intervals(*self._asked(X, task), level)

    @property
    def file_kind(self) -> str:
        """As what :func:`romco.save` writes it."""
        return "scikit-learn number"

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of the variance that is explained (R2).

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        y:
            The number of each row (n,).
        sample_weight:
            What each row counts (n,); None counts all alike.
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.

        Returns
        -------
        :
            1 at best; 0 for predicting the mean.

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        self._check_score(sample_weight, task)
        return float(r2_score(y, self.predict(X, task), sample_weight=sample_weight))

    def _new(self, tasks: Sequence[Any] = ()) -> Model:
        return Model(
            self.learner,
            self._columns(),
            target="number",
            tasks=tasks,
            new_task=self.new_task,
            **(self.parameters or {}),
        )

    def _taught(self, X: Any, y: Any, task: Any, first: bool) -> tuple[Any, Numbers, list[Any]]:
        """Rows, numbers and tasks to learn, checked."""
        X, task = self._apart(X, task)
        numbers = self._read_table(X, y, first)
        if numbers is not None:
            numbers = check_array(numbers, ensure_2d=False, dtype=np.float64)
            return X, numbers, self._tasks(task, len(numbers), None if first else self.model_)
        numbers = None if first or not self._plain(X) else _finite(y, X.shape[0])
        if numbers is None:
            X, y = validate_data(
                self, X, y, accept_sparse="csr", dtype=np.float64, reset=first, y_numeric=True
            )
            numbers = np.asarray(y, dtype=np.float64)
        return X, numbers, self._tasks(task, X.shape[0], None if first else self.model_)


def _finite(y: Any, n: int) -> Numbers | None:
    """Numbers (n,) of a list or an array, if scikit-learn would change nothing in them."""
    if type(y) is list and {type(number) for number in y} <= {int, float}:
        y = np.array(y, dtype=np.float64)
    plain = type(y) is np.ndarray and y.dtype == np.float64 and y.shape == (n,)
    return y if plain and bool(np.isfinite(y).all()) else None
