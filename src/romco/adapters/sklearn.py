"""A scikit-learn classifier that takes ``task=``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from romco.adapters.estimators import TaskEstimator
from romco.adapters.inputs import classes_of
from romco.adapters.passes import weights_of_rows
from romco.learners import known
from romco.model import Model

Numbers = NDArray[np.float64]
SIMPLE = {bool, int, float, str}  # of which NumPy makes the array that scikit-learn makes


class ROMCOClassifier(ClassifierMixin, TaskEstimator):  # type: ignore[misc]
    """One linear classifier per task: shared where tasks agree, personal where they differ.

    ``task`` names the task of each row (or one for all), by text or number, in every method;
    without it all rows are one task. It travels by metadata routing through pipelines and
    searches, or in a column of X that ``task_column`` names.
    A task that was not fitted is predicted from what the tasks have in common.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]])
    >>> y = ["spam", "ham", "spam", "ham"]
    >>> task = ["ann", "ann", "bob", "bob"]
    >>> model = ROMCOClassifier(random_state=0).fit(X, y, task=task)
    >>> model.predict([[1.0, 0.0]], task=["bob"])
    array(['spam'], dtype='<U4')

    Parameters
    ----------
    learner:
        A name from ``romco.LEARNERS``; the default has no parameters and tunes itself.
    eta1, eta2, lambda1, lambda2, C:
        Parameters of ROMCO; None is the learner's own default.
    parameters:
        Further parameters of the learner, by name.
    loss:
        "hinge", "squared-hinge" or "logistic", where the learner offers a choice; None is its own.
    class_weight:
        How much rows of each label count, by label; "balanced": all labels alike in ``fit``.
    epochs:
        How often ``fit`` goes through the rows; ``partial_fit`` goes through them once. None is
        once for a learner that takes each row as evidence, as the default does, else five times.
    shuffle:
        Whether ``fit`` goes through the rows in random order; ``partial_fit`` never does.
    new_task:
        Where a task that appears later starts: at the "mean" of what is shared, or at "zero".
    task_column:
        Column of X that names each row's task, by name or number, in place of ``task=``. It
        is no feature. Works wherever X goes: in scorers, ``cross_val_predict``, calibration.
    random_state:
        Seed of the shuffling.

    Attributes
    ----------
    classes_:
        The labels, sorted; of two the second is the positive one.
    tasks_:
        Names of the tasks, (m,).
    shared_, personal_:
        U and V, one row per task (m, d), where the learner keeps them apart.
    coef_, intercept_:
        W (m, d) and b (m,) where margins are ``X @ coef_[i] + intercept_[i]``, as of "romco-nucl".
        Those of the default learner also depend on how sure it is: ask :meth:`reasons`.
    singular_values_, personal_norms_:
        Of U, and the length of each task's row of V.
    model_:
        The :class:`romco.Model` inside; ``romco.save(estimator, path)`` writes both.

    """

    def __init__(
        self,
        learner: str = "romco-auto",
        *,
        eta1: float | None = None,
        eta2: float | None = None,
        lambda1: float | None = None,
        lambda2: float | None = None,
        C: float | None = None,
        parameters: Mapping[str, Any] | None = None,
        loss: Literal["hinge", "squared-hinge", "logistic"] | None = None,
        class_weight: Mapping[Any, float] | Literal["balanced"] | None = None,
        epochs: int | None = None,
        shuffle: bool = True,
        new_task: Literal["mean", "zero"] = "mean",
        task_column: str | int | None = None,
        random_state: Any = None,
    ) -> None:
        self.learner = learner
        self.eta1 = eta1
        self.eta2 = eta2
        self.lambda1 = lambda1
        self.lambda2 = lambda2
        self.C = C
        self.parameters = parameters
        self.loss = loss
        self.class_weight = class_weight
        self.epochs = epochs
        self.shuffle = shuffle
        self.new_task = new_task
        self.task_column = task_column
        self.random_state = random_state

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        return np.array(self._model().classes)

    # Learning

    def fit(self, X: Any, y: Any, task: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows from scratch.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        y:
            The label of each row (n,).
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
        weight = weights_of_rows(sample_weight, len(y), y, self.class_weight)
        model = self._new(classes_of(y), list(dict.fromkeys(task)))
        return self._fitted(model, X, y, task, weight)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | None = None,
        task: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn rows one after the other in the order given; tasks may be new.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        y:
            The label of each row (n,).
        classes:
            All labels; needed in the first call if it does not show them.
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
        task_by_position = task is None and classes is not None and len(classes) == len(y)
        X, y, task = self._taught(X, y, task, first)
        if not first and classes is not None and classes_of(classes) != tuple(self.classes_):
            raise ValueError(
                f"classes={list(classes)} but the first call had {list(self.classes_)}"
            )
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight='balanced' needs all rows: use fit, or give weights")
        weight = weights_of_rows(sample_weight, len(y), y, self.class_weight)
        model = self._new(classes_of(y if classes is None else classes)) if first else self.model_
        _check_known(y, model.classes, by_position=first and task_by_position)
        return self._gone_on(model, X, y, task, weight)

    # Predicting

    def decision_function(self, X: Any, task: Any = None) -> Numbers:
        """What the model says of rows.

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
            Margins (n,), positive for ``classes_[1]``; of many classes log-probabilities (n, K).

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        self._check_fitted()
        return self.model_.margins(*self._asked(X, task))

    def predict(self, X: Any, task: Any = None) -> NDArray[Any]:
        """The label of each row.

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
            Labels (n,).

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        margins = self.decision_function(X, task)
        if margins.ndim == 2:  # of equal ones the last, as the model has it
            return self.classes_[margins.shape[1] - 1 - np.argmax(margins[:, ::-1], axis=1)]
        return self.classes_[(margins >= 0.0).astype(np.intp)]

    def predict_proba(self, X: Any, task: Any = None) -> Numbers:
        """Probabilities (n, K) of ``classes_``; of two, 1 / (1 + exp(-a margin)) for the second.

        The scale a is learned along the stream, see :class:`romco.model.Scale`, so that every
        loss has probabilities; with the logistic loss it stays near 1.

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
            Probabilities (n, K), in the order of ``classes_``; each row has sum 1.

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        self._check_fitted()
        found = self.model_.engine.probabilities(*self._asked(X, task))
        return found if found.ndim == 2 else _both(found)

    @property
    def file_kind(self) -> str:
        """As what :func:`romco.save` writes it."""
        return "scikit-learn"

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of right answers.

        Parameters
        ----------
        X:
            Rows (n, d): an array, a CSR matrix or a frame.
        y:
            The label of each row (n,).
        sample_weight:
            What each row counts (n,); None counts all alike.
        task:
            The task of each row (n,), or one for all; None where all rows are one task, or
            ``task_column`` names it.

        Returns
        -------
        :
            From 0 to 1.

        Raises
        ------
        NotFittedError
            Before anything was learned.
        ValueError
            Where rows or tasks are bad.

        """
        self._check_score(sample_weight, task)
        return float(accuracy_score(y, self.predict(X, task), sample_weight=sample_weight))

    # Within

    def _new(self, classes: tuple[Any, ...], tasks: Sequence[Any] = ()) -> Model:
        return Model(
            self.learner,
            self._columns(),
            target="two classes" if len(classes) == 2 else "classes",
            classes=classes,
            tasks=tasks,
            new_task=self.new_task,
            **self._parameters(),
        )

    def _parameters(self) -> dict[str, Any]:
        """The learner's parameters that were given."""
        offered = known(self.learner).parameters
        named = {name: getattr(self, name) for name in ("eta1", "eta2", "lambda1", "lambda2", "C")}
        given = {name: value for name, value in named.items() if value is not None}
        given |= self.parameters or {}
        if self.loss is not None:
            if "loss" not in offered:
                raise ValueError(
                    f"{self.learner} has a loss of its own and cannot learn with loss={self.loss!r}"
                )
            given["loss"] = self.loss
        return given

    def _taught(
        self, X: Any, y: Any, task: Any, first: bool
    ) -> tuple[Any, NDArray[Any], list[Any]]:
        """Rows, labels and tasks to learn, checked."""
        X, task = self._apart(X, task)
        labels = self._read_table(X, y, first)
        if labels is not None:
            check_classification_targets(labels)
            return X, labels, self._tasks(task, len(labels), None if first else self.model_)
        known = None if first or not self._plain(X) else _known(y, X.shape[0], self.model_)
        if known is None:
            X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
            check_classification_targets(y)
        else:
            y = known
        return X, y, self._tasks(task, X.shape[0], None if first else self.model_)


def _both(positive: Numbers) -> Numbers:
    """Probabilities (n, 2) of the negative and the positive label; stacking takes longer."""
    found = np.empty((len(positive), 2))
    found[:, 0], found[:, 1] = 1.0 - positive, positive
    return found


def _known(y: Any, n: int, model: Model) -> NDArray[Any] | None:
    """Labels (n,) of a list or an array, if scikit-learn would change nothing and all are known."""
    if type(y) is list and {type(label) for label in y} <= SIMPLE:
        y = np.array(y)
    if type(y) is not np.ndarray or y.shape != (n,) or y.dtype.kind not in "biufU":
        return None
    if y.dtype.kind == "f" and not (y == np.floor(y)).all():  # no label, to scikit-learn
        return None
    return y if set(y.tolist()).issubset(model.classes) else None


def _check_known(y: NDArray[Any], classes: Sequence[Any], by_position: bool = False) -> None:
    """Raise ValueError where a label was not announced: columns of probabilities would move."""
    labels = set(y.tolist())
    if labels.issubset(classes):
        return
    unknown = sorted(labels - set(classes), key=str)
    if unknown and by_position:
        raise ValueError(
            f"label {unknown[0]!r} is not one of classes={list(classes)[:3]}..., the third "
            "argument of partial_fit; if these are the tasks, write partial_fit(X, y, task=...)"
        )
    if unknown:
        raise ValueError(
            f"label {unknown[0]!r} is not one of the classes {list(classes)}: "
            "name all of them by classes= in the first call of partial_fit"
        )
