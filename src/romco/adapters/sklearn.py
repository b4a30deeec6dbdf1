"""A scikit-learn classifier that takes ``task=``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from romco.adapters.inputs import column_from_json, column_to_json, split_off, tasks_of, two_classes
from romco.adapters.learned import Learned
from romco.learners import known
from romco.model import Columns, Model
from romco.parameters import whole

if TYPE_CHECKING:
    from romco.insight import Explanation

Numbers = NDArray[np.float64]
ONLY = "all"  # the one task of a model that was fitted without tasks


class ROMCOClassifier(Learned, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """One linear classifier per task: shared where tasks agree, personal where they differ.

    ``task`` names the task of each row (or one for all), by text or number, in every method;
    without it all rows are one task. It travels by metadata routing through pipelines and
    searches, or in a column of X that ``task_column`` names.
    A task that was not fitted is predicted from what the tasks have in common.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.1], [0.1, 1.0]])
    >>> y = ["spam", "ham", "spam", "ham"]
    >>> task = ["ann", "ann", "bob", "bob"]
    >>> model = ROMCOClassifier().fit(X, y, task=task)
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
    epochs:
        How often ``fit`` goes through the rows; ``partial_fit`` goes through them once.
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
        The two labels, sorted; the second is the positive one.
    tasks_:
        Names of the tasks, (m,).
    coef_, shared_, personal_:
        W, U and V, one row per task (m, d); the last two where the learner keeps them.
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
        epochs: int = 5,
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
        self.epochs = epochs
        self.shuffle = shuffle
        self.new_task = new_task
        self.task_column = task_column
        self.random_state = random_state

    # Learning

    def fit(self, X: Any, y: Any, task: Any = None) -> Self:
        """Learn rows X (n, d), labels y (n,) of tasks (n,) from scratch, ``epochs`` times over."""
        epochs = whole("epochs", self.epochs)
        X, y, task = self._taught(X, y, task, first=True)
        model = self._new(two_classes(y), list(dict.fromkeys(task)))
        random = check_random_state(self.random_state)
        for _ in range(epochs):
            order = random.permutation(len(y)) if self.shuffle else np.arange(len(y))
            model.learn(X[order], y[order], [task[i] for i in order])
        self.model_ = model
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Sequence[Any] | None = None, task: Any = None
    ) -> Self:
        """Learn rows one after the other in the order given; tasks may be new.

        ``classes`` names both labels and is needed if the first call does not show both.
        """
        first = not hasattr(self, "model_")
        X, y, task = self._taught(X, y, task, first)
        if not first and classes is not None and list(two_classes(classes)) != list(self.classes_):
            raise ValueError(
                f"classes={list(classes)} but the first call had {list(self.classes_)}"
            )
        model = self._new(two_classes(y if classes is None else classes)) if first else self.model_
        model.learn(X, y, task)
        self.model_ = model
        return self

    # Predicting

    def decision_function(self, X: Any, task: Any = None) -> Numbers:
        """Margins (n,); positive for ``classes_[1]``."""
        check_is_fitted(self)
        return self.model_.margins(*self._asked(X, task))

    def predict(self, X: Any, task: Any = None) -> NDArray[Any]:
        """Labels (n,)."""
        margins = self.decision_function(X, task)
        return self.classes_[(margins >= 0.0).astype(np.intp)]

    def predict_proba(self, X: Any, task: Any = None) -> Numbers:
        """Probabilities (n, 2) of ``classes_``: 1 / (1 + exp(-a margin)) for the second.

        The scale a is learned along the stream, see :class:`romco.model.Scale`, so that every
        loss has probabilities; with the logistic loss it stays near 1.
        """
        check_is_fitted(self)
        positive = self.model_.probabilities(*self._asked(X, task))
        return np.column_stack([1.0 - positive, positive])

    def score(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> float:
        """Share of right answers."""
        return float(accuracy_score(y, self.predict(X, task), sample_weight=sample_weight))

    def explain(self, top: int = 10) -> Explanation:
        """What was learned: rank, shared and personal part of each task, similar tasks."""
        from romco.insight import explain

        check_is_fitted(self)
        return explain(self.model_, top=top)

    # In a file

    @property
    def file_kind(self) -> str:
        """As what :func:`romco.save` writes it."""
        return "scikit-learn"

    def inside(self) -> Model:
        """The model inside."""
        check_is_fitted(self)
        return self.model_

    def described(self) -> dict[str, Any]:
        """Parameters and columns, for :func:`romco.save`."""
        names = self.feature_names_in_.tolist() if "feature_names_in_" in vars(self) else None
        parameters = {
            **self.get_params(deep=False),
            "task_column": column_to_json(self.task_column),
        }
        return {"parameters": parameters, "width": self.n_features_in_, "names": names}

    @classmethod
    def revived(cls, described: dict[str, Any], model: Model) -> Self:
        """The fitted estimator of that description, for :func:`romco.load`."""
        parameters = described["parameters"]
        made = cls(**{**parameters, "task_column": column_from_json(parameters["task_column"])})
        made.n_features_in_ = whole("width", described["width"])
        if described["names"] is not None:
            made.feature_names_in_ = np.array(described["names"], dtype=object)
        if made.n_features_in_ != model.features.width:
            raise ValueError("the estimator and its model have different numbers of features")
        made.model_ = model
        return made

    # Within

    def _new(self, classes: tuple[Any, Any], tasks: Sequence[Any] = ()) -> Model:
        names = getattr(self, "feature_names_in_", None)
        return Model(
            self.learner,
            Columns(self.n_features_in_, None if names is None else names.tolist()),
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
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first)
        check_classification_targets(y)
        return X, y, self._tasks(task, X.shape[0], [] if first else self.model_.tasks)

    def _asked(self, X: Any, task: Any) -> tuple[Any, list[Any]]:
        """Rows and tasks to answer, checked."""
        X, task = self._apart(X, task)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        return X, self._tasks(task, X.shape[0], self.model_.tasks)

    def _apart(self, X: Any, task: Any) -> tuple[Any, Any]:
        """Rows without the column of the task, and the task."""
        if self.task_column is None:
            return X, task
        if task is not None:
            raise ValueError("the task is told by task_column already: leave out task=")
        return split_off(X, self.task_column)

    def _tasks(self, task: Any, n: int, known: list[Any]) -> list[Any]:
        """The name of each row's task."""
        if task is not None:
            return tasks_of(task, n)
        if any(name != ONLY for name in known):
            raise ValueError(
                "this model was fitted with tasks: say task= for each row. Where scikit-learn does "
                "not hand it on, as in scorers, keep it in a column of X and name that task_column"
            )
        return [ONLY] * n

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags
