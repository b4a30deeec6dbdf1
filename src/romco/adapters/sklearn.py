"""A scikit-learn classifier and a regressor that take ``task=``."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from romco.adapters.common import (
    asked_schema,
    classes_of,
    column_from_json,
    column_to_json,
    needs_schema,
    split_off,
    tasks_of,
    weights_of_rows,
)
from romco.explanations.explanation import TaskWeights
from romco.io.frames import category_columns, rows_of
from romco.io.groupings import expand_groupings
from romco.io.schema import Schema
from romco.learners import Learner, known
from romco.learners.capabilities import Decomposed
from romco.model import Columns, Model, Names
from romco.model.body import predict
from romco.model.features import Sparse
from romco.model.fitting import fit, learn_weighted
from romco.model.names import as_array
from romco.model.rows import Rows
from romco.parameters import whole
from romco.typing import Floats

if TYPE_CHECKING:
    from romco.explanations import Explanation, Reasons

DEFAULT_LEARNER = "romco-auto"
MAX_SIZE_RATIO = 1000.0  # of columns, beyond which learners that do not scale them are slow
ONLY_TASK = "all"  # the one task of a model that was fitted without tasks
TOO_LARGE = "a whole number is too large for a computer to calculate with: scale or drop it"
PLAIN_LABELS = {bool, int, float, str}  # of which NumPy makes the array that scikit-learn makes


class TaskEstimator(BaseEstimator):  # type: ignore[misc]
    """Rows of tasks, beside X or among its columns (abstract)."""

    model_: Model
    n_features_in_: int
    _numeric: ClassVar[bool]  # whether answers are numbers
    _checked_answers: Callable[[Any], NDArray[Any]]  # ValueError where scikit-learn refuses one
    _plain_answers: Callable[[Any, int], NDArray[Any] | None]  # that it would not change
    _new: Callable[..., Model]  # for answers, and tasks known from the beginning
    reads_table_: bool  # whether rows are frames with text, dates or gaps
    feature_names_in_: Any
    _category_columns: dict[str, str]  # kinds of columns whose type tells that they are categories
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None

    def __init__(
        self,
        learner: str = DEFAULT_LEARNER,
        *,
        parameters: Mapping[str, Any] | None = None,
        epochs: int | None = None,
        shuffle: bool = True,
        new_task: Literal["mean", "zero"] = "mean",
        task_column: str | int | list[str] | None = None,
        history: Sequence[str] | None = None,
        time: str | None = None,
        kinds: Mapping[str, str] | None = None,
        random_state: Any = 0,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.epochs = epochs
        self.shuffle = shuffle
        self.new_task = new_task
        self.task_column = task_column
        self.history = history
        self.time = time
        self.kinds = kinds
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> Self:
        """Learn rows from scratch, as :meth:`romco.Model.fit` does."""
        with self._all_or_nothing():
            X, y, task = self._read_labelled(X, y, task, first=True)
            weight = weights_of_rows(sample_weight, len(y), y, self.class_weight)
            model = self._new(y, list(dict.fromkeys(task)))
            random = None
            if self.shuffle:
                random = check_random_state(self.random_state)
            fit(model.engine, Rows(X, task, y, weight, offset), random, self.epochs)
            self.model_ = model
        return self

    def _partial_fit(
        self, X: Any, y: Any, task: Any, sample_weight: Any, offset: Any, classes: Any = None
    ) -> Self:
        """Learn rows in the order given; of the first ones ``classes`` names all labels."""
        unweighted = sample_weight is None and self.class_weight is None
        plain = unweighted and classes is None and offset is None
        if plain and self._learn_row(X, y, task):
            return self
        first = not hasattr(self, "model_")
        by_position = first and task is None and classes is not None and len(classes) == len(y)
        with self._all_or_nothing():
            X, y, task = self._read_labelled(X, y, task, first)
            if isinstance(self.class_weight, str):
                raise ValueError("class_weight='balanced' needs all rows: use fit, or give weights")
            weight = weights_of_rows(sample_weight, len(y), y, self.class_weight)
            if classes is None:
                classes = y
            if first:
                model = self._new(classes)
            else:
                model = self.model_
            if not self._numeric:
                _check_known(y, model.classes, by_position)
            learn_weighted(model.engine, Rows(X, task, y, weight, offset))
            self.model_ = model
        return self

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Let the estimator be as it was where rows are refused: reading them sets attributes."""
        before = vars(self).copy()
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def explain(self, top: int = 10) -> "Explanation":
        """Explain what was learned, see :func:`romco.explain`.

        ``top`` features are named of each part.
        """
        from romco.explanations import explain

        return explain(self.fitted_model(), top=top)

    def reasons(self, X: Any, task: Any = None, label: Any = None) -> "list[Reasons]":
        """Return for each row what its features add to the answer; see :func:`romco.reasons`.

        Contributions add up to ``decision_function`` (of numbers: to ``predict``). Of more than two
        classes they add up to the log-odds of one against the rest, the predicted or ``label``.
        """
        from romco.explanations import reasons

        model = self.fitted_model()
        X, task = self._read_rows(X, task)
        rows: Any
        if hasattr(X, "columns"):
            rows = rows_of(X)
        elif isinstance(X, np.ndarray):
            rows = X
        else:
            rows = (X[[i]].toarray()[0] for i in range(X.shape[0]))
        return [reasons(model, x, t, label) for x, t in zip(rows, task, strict=True)]

    # Fitted attributes, read between two steps of the learner

    @property
    def tasks_(self) -> NDArray[Any]:
        """Names of the tasks (m,)."""
        return as_array(self.fitted_model().tasks)

    @property
    def coef_(self) -> Floats:
        """W as one row per task (m, d): answers are X @ coef_[i] + intercept_[i] for task i.

        Absent (AttributeError) where a learner's answers are not that, as the default's.
        """
        sign = self.fitted_model().engine.target.sign
        return self._rows(lambda learner: sign * _linear(learner).weights())

    @property
    def intercept_(self) -> Floats:
        """The prediction for a row of zeros, for each task (m,); absent where coef_ is."""
        model = self.fitted_model()
        with model.engine.at_rest() as learner:
            numbers = model.engine.tasks.numbers(model.tasks)
            zeros = Sparse(np.empty(0), np.empty(0, np.int32), np.zeros(len(numbers) + 1, np.int32))
            return model.engine.target.sign * predict(_linear(learner), zeros, numbers)

    @property
    def shared_(self) -> Floats:
        """U as one row per task (m, d)."""
        return self._rows(lambda learner: _decomposed(learner).shared())

    @property
    def personal_(self) -> Floats:
        """V as one row per task (m, d)."""
        return self._rows(lambda learner: _decomposed(learner).personal())

    @property
    def singular_values_(self) -> Floats:
        """Singular values of U, largest first."""
        return self._parts().spectrum

    @property
    def personal_norms_(self) -> Floats:
        """Length of each task's row of V (m,)."""
        return self._parts().personal

    def _rows(self, read: Callable[[Learner], Floats]) -> Floats:
        """Return what ``read`` gives, (d, m), as one row per task (m, d); so for each class."""
        model = self.fitted_model()
        with model.engine.at_rest() as learner:
            return read(learner).T[..., model.engine.tasks.numbers(model.tasks), :]

    def _parts(self) -> TaskWeights:
        model = self.fitted_model()
        with model.engine.at_rest() as learner:
            _decomposed(learner)
            return TaskWeights.of(learner, model.engine.tasks.numbers(model.tasks))

    def fitted_model(self) -> Model:
        """Return the model inside; NotFittedError, an AttributeError too, before there is one."""
        if "model_" not in vars(self):  # to let scikit-learn look takes long
            check_is_fitted(self)
        return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    # In a file

    def state(self) -> dict[str, Any]:
        """Return the model's state, parameters and columns, for :func:`romco.save`."""
        model = self.fitted_model()
        names = None
        if "feature_names_in_" in vars(self):
            names = self.feature_names_in_.tolist()
        parameters = self.get_params(deep=False) | {"task_column": column_to_json(self.task_column)}
        settings = {"parameters": parameters, "width": self.n_features_in_, "names": names}
        return {**model.state(), "estimator": settings}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the fitted estimator that gave a state."""
        model, settings = Model.from_state(state), state["estimator"]
        parameters = settings["parameters"]
        made = cls(**{**parameters, "task_column": column_from_json(parameters["task_column"])})
        made.n_features_in_ = whole("width", settings["width"])
        if settings["names"] is not None:
            made.feature_names_in_ = np.array(settings["names"], dtype=object)
        made.reads_table_ = isinstance(model.features, Names)
        if not made.reads_table_ and made.n_features_in_ != model.features.width:
            raise ValueError("the estimator and its model have different numbers of features")
        made.model_ = model
        return made

    # Within

    def _learn_row(self, X: Any, y: Any, task: Any) -> bool:
        """Learn one plain row of known names by the compiled step; False where that cannot be."""
        name = self._one_task(X, task)
        if name is None or type(y) not in (list, np.ndarray) or len(y) != 1:
            return False
        label = y[0]
        if isinstance(label, np.generic):
            label = label.item()
        return self.model_.engine.learn_event(X, label, name) is not NotImplemented

    def _margins(self, X: Any, task: Any, offset: Any) -> Floats:
        """Return margins of rows; that of one plain row by the compiled step."""
        name = None
        if offset is None:
            name = self._one_task(X, task)
        if name is not None:
            margin = self.model_.engine.margin_of_event(X, name)
            if margin is not NotImplemented:
                return np.asarray(margin)[None]
        return self.fitted_model().margins(*self._read_rows(X, task), offset=offset)

    def _one_task(self, X: Any, task: Any) -> Any:
        """Return the name of the task, if it is one and rows have no names; else None."""
        fitted = vars(self)
        if type(X) is np.ndarray and X.ndim != 2:
            return None
        if "model_" not in fitted or "feature_names_in_" in fitted or self.task_column is not None:
            return None
        if type(task) is list and len(task) == 1:
            return task[0]
        if type(task) is str:
            return task
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _columns(self) -> Columns | Names:
        if self.reads_table_:
            return Names()
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            names = names.tolist()
        return Columns(self.n_features_in_, names)

    def _make_model(self, target: Any, classes: Any, tasks: Sequence[Any], given: Any) -> Model:
        schema = None
        if isinstance(self.task_column, list):
            names = list(expand_groupings(self.task_column))
            levels = dict.fromkeys(names[1:], "category")  # however they look
            schema = Schema(levels, task=names, complete=True)
        schema = asked_schema(schema, self._category_columns | dict(self.kinds or {}), self.time)
        settings = {"new_task": self.new_task, "history": self.history, "schema": schema}
        columns: Any = {"target": target, "classes": classes, "tasks": tasks, **settings}
        return Model(self.learner, self._columns(), **columns, **given)

    def _read_rows(self, X: Any, task: Any) -> tuple[Any, list[Any]]:
        X, task = self._split_task(X, task)
        if self.reads_table_:
            self._check_table(X)
            return X, self._tasks(task, len(X), self.model_)
        if not self._plain(X):
            X = self._validated(X, reset=False)
        return X, self._tasks(task, X.shape[0], self.model_)

    def _read_labelled(
        self, X: Any, y: Any, task: Any, first: bool
    ) -> tuple[Any, NDArray[Any], list[Any]]:
        """Return rows, answers and tasks to learn, checked."""
        if first:
            self._category_columns = category_columns(X)
        X, task = self._split_task(X, task)
        if first:
            asked = self.history is not None or bool(self.kinds)
            self.reads_table_ = asked or needs_schema(X)
        answers = None
        if self.reads_table_:
            self._check_table(X, first)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
            answers = self._checked_answers(y)
        elif not first and self._plain(X):
            answers = self._plain_answers(y, X.shape[0])
        if answers is None:
            X, y = self._validated(X, y, reset=first, y_numeric=self._numeric)
            answers = self._checked_answers(y)
            if first and self.learner != DEFAULT_LEARNER:
                _warn_of_units(X, self.learner)
        known = None
        if not first:
            known = self.model_
        return X, answers, self._tasks(task, len(answers), known)

    def _validated(self, X: Any, *y: Any, **how: Any) -> Any:
        """Return X, and y if it is given, as scikit-learn checks them; gaps need a frame."""
        try:
            return validate_data(self, X, *y, accept_sparse="csr", dtype=np.float64, **how)
        except OverflowError:
            raise ValueError(TOO_LARGE) from None
        except ValueError as error:
            if "Input X contains NaN" not in str(error):
                raise
        raise ValueError(
            "X contains NaN: give a data frame, in which gaps are left out, or impute them"
        )

    def _check_table(self, X: Any, first: bool = False) -> None:
        """Raise ValueError where a frame has not the fitted columns, in any order."""
        if not hasattr(X, "columns"):
            raise ValueError(
                "this model reads frames with categories, text, dates, gaps or a history: give a "
                "frame with the same columns"
            )
        given = list(map(str, X.columns))
        if first:
            self.n_features_in_ = len(given)
            self.feature_names_in_ = np.array(given, dtype=object)
        missing = sorted(set(self.feature_names_in_) - set(given))
        new = sorted(set(given) - set(self.feature_names_in_))
        if missing:
            raise ValueError(f"X lacks columns that were fitted: {', '.join(missing)}")
        if new:
            raise ValueError(f"X has columns that were not fitted: {', '.join(new)}")

    def _split_task(self, X: Any, task: Any) -> tuple[Any, Any]:
        if self.task_column is None:
            return X, task
        if task is not None:
            raise ValueError("the task is told by task_column already: leave out task=")
        return split_off(X, self.task_column)

    def _plain(self, X: Any) -> bool:
        """Return whether rows are an array in which scikit-learn would change nothing.

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

    def score(
        self, X: Any, y: Any, sample_weight: Any = None, task: Any = None, offset: Any = None
    ) -> float:
        """Return the share of right answers; of numbers the share of variance explained (R2)."""
        alone = sample_weight is not None and task is None and self.task_column is None
        if alone and _has_tasks(self.fitted_model()):
            raise ValueError(
                "the third argument of score is sample_weight, and no task was given; if these "
                "are the tasks, write score(X, y, task=...)"
            )
        answers = self.predict(X, task, offset)
        return float(self._metric(y, answers, sample_weight=sample_weight))

    def _tasks(self, task: Any, n: int, known: Model | None) -> list[Any]:
        if task is not None:
            return tasks_of(task, n)
        if known is not None and _has_tasks(known):
            raise ValueError(
                "this model was fitted with tasks: say task= for each row. Where scikit-learn does "
                "not hand it on, as in scorers, keep it in a column of X and name that task_column"
            )
        return [ONLY_TASK] * n


def _warn_of_units(X: Any, learner: Any) -> None:
    """Warn where columns are of very different size, and the learner takes them as they are."""
    sizes = abs(X).max(axis=0)
    if issparse(sizes):
        sizes = sizes.toarray()
    sizes = sizes[sizes > 0.0]
    if len(sizes) and sizes.max() > MAX_SIZE_RATIO * sizes.min():
        warnings.warn(
            f"some columns of X are {sizes.max() / sizes.min():,.0f} times larger than others, and "
            f"{learner!r} takes them as they are: scale them (StandardScaler), or take "
            f"{DEFAULT_LEARNER!r}, which does",
            UserWarning,
            stacklevel=4,
        )


def _has_tasks(model: Model) -> bool:
    """Return whether a model has learned tasks that have names."""
    return any(name != ONLY_TASK for name in model.tasks)


def _linear(learner: Learner) -> Learner:
    if not learner.linear:
        also = ""
        if isinstance(learner, Decomposed):
            also = "; shared_ and personal_ for what was learned"
        raise AttributeError(
            f"answers of {learner.name} are not X @ coef_ + intercept_, so there are none: see "
            f"reasons(X, task), or romco.reasons(model_, x, task), for what features add{also}"
        )
    return learner


def _decomposed(learner: Learner) -> Decomposed:
    if not isinstance(learner, Decomposed):
        raise AttributeError(f"{learner.name} does not keep shared and personal parts apart")
    return learner


class ROMCOClassifier(ClassifierMixin, TaskEstimator):  # type: ignore[misc]
    """One linear classifier per task: shared where tasks agree, personal where they differ.

    ``task`` names the task of each row (or one for all), by text or number, in every method;
    without it all rows are one task. It travels by metadata routing through pipelines and
    searches, or in a column of X that ``task_column`` names.
    A task that was not fitted is predicted from what the tasks have in common.

    In every method ``X`` is rows (n, d), an array, a CSR matrix or a frame; ``task`` is one per
    row or one for all, None where all rows are one task or ``task_column`` names it;
    ``sample_weight`` (n,) counts a row as so many rows; ``offset`` (n,) is a known part of the
    log-odds of ``classes_[1]``, of K classes (n, K), as in :meth:`romco.Model.learn`. Bad rows
    raise ValueError, and nothing is learned then; predicting before learning raises NotFittedError.

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
        once, in each order, for a learner that takes each row as evidence, as the default does,
        else five times.
    shuffle:
        Whether ``fit`` learns rows in random orders, as :meth:`romco.Model.fit` does, or once in
        the order given, as ``partial_fit`` does.
    new_task:
        Where a task that appears later starts: at the "mean" of what is shared, or at "zero".
    task_column:
        Column of X that names each row's task, by name or number, in place of ``task=``. It
        is no feature. Works wherever X goes: in scorers, ``cross_val_predict``, calibration.
        Several columns of a frame are groupings, as in :class:`romco.Model`.
    history:
        Categorical columns of X, from coarse to fine, of whose past labels each row gets features,
        as in :class:`romco.Model`; X is a frame then, learned in the order of its rows.
    time:
        Column of X with the time of each row, for ``history``: how long ago labels came.
    kinds:
        How columns of a frame are read, by name, where that is not to be inferred, as
        ``{"zip": "category", "says": "text"}``; :class:`romco.Schema` has the kinds. Columns of a
        category type, and columns of text, are no numbers without it.
    random_state:
        Seed of the random orders: a number, a ``RandomState``, or None for another one every time.

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
        learner: str = DEFAULT_LEARNER,
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
        task_column: str | int | list[str] | None = None,
        history: Sequence[str] | None = None,
        time: str | None = None,
        kinds: Mapping[str, str] | None = None,
        random_state: Any = 0,
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
        self.history = history
        self.time = time
        self.kinds = kinds
        self.random_state = random_state

    score = TaskEstimator.score  # not the mixin's
    _metric = staticmethod(accuracy_score)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels, sorted."""
        return np.array(self.fitted_model().classes)

    # Learning

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Sequence[Any] | None = None,
        task: Any = None,
        sample_weight: Any = None,
        offset: Any = None,
    ) -> Self:
        """Learn rows one after the other in the order given; tasks may be new.

        ``classes`` names all labels; needed in the first call if it does not show them.
        """
        again = classes is not None and hasattr(self, "model_")
        if again and classes_of(classes) != self.model_.classes:
            had = list(self.model_.classes)
            raise ValueError(f"classes={list(classes_of(classes))} but the first call had {had}")
        return self._partial_fit(X, y, task, sample_weight, offset, classes)

    # Predicting

    def decision_function(self, X: Any, task: Any = None, offset: Any = None) -> Floats:
        """Return margins (n,), positive for ``classes_[1]``; log-probabilities (n, K) of many."""
        return self._margins(X, task, offset)

    def predict(self, X: Any, task: Any = None, offset: Any = None) -> NDArray[Any]:
        """Return the label of each row (n,)."""
        margins = self.decision_function(X, task, offset)
        if margins.ndim == 2:  # of equal ones the last, as the model has it
            return self.classes_[margins.shape[1] - 1 - np.argmax(margins[:, ::-1], axis=1)]
        return self.classes_[(margins >= 0.0).astype(np.intp)]

    def predict_proba(self, X: Any, task: Any = None, offset: Any = None) -> Floats:
        """Probabilities (n, K) of ``classes_``; of two, 1 / (1 + exp(-a margin)) for the second.

        The scale a is learned along the stream, see :class:`romco.model.Scale`, so that every
        loss has probabilities; with the logistic loss it stays near 1.
        """
        return self.fitted_model().predict_proba(*self._read_rows(X, task), offset=offset)

    # Within

    def _new(self, labels: Any, tasks: Sequence[Any] = ()) -> Model:
        classes = classes_of(labels)
        target = "classes"
        if len(classes) == 2:
            target = "two classes"
        return self._make_model(target, classes, tasks, self._parameters())

    def _parameters(self) -> dict[str, Any]:
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

    _numeric = False

    def _checked_answers(self, y: Any) -> NDArray[Any]:
        check_classification_targets(y)
        return np.asarray(y)

    def _plain_answers(self, y: Any, n: int) -> NDArray[Any] | None:
        if type(y) is list and set(map(type, y)) <= PLAIN_LABELS:
            y = np.array(y)
        if type(y) is not np.ndarray or y.shape != (n,) or y.dtype.kind not in "biufU":
            return None
        if y.dtype.kind == "f" and not (y == np.floor(y)).all():  # no label, to scikit-learn
            return None
        if set(y.tolist()).issubset(self.model_.classes):
            return y
        return None


def _check_known(y: NDArray[Any], classes: Sequence[Any], by_position: bool = False) -> None:
    """Raise ValueError where a label was not announced: columns of probabilities would move."""
    unknown = sorted(set(y.tolist()) - set(classes), key=str)
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


class ROMCORegressor(RegressorMixin, TaskEstimator):  # type: ignore[misc]
    """One linear model of a number per task: shared where tasks agree, personal where they differ.

    As :class:`romco.ROMCOClassifier`, with the same parameters and attributes, for numbers; "pa",
    "ogd" and "arow" with "-unique" or "-global" are the other learners. Place and unit of y do not
    matter; ``offset`` has that unit.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(300, 2)), np.tile(["ann", "bob", "cy"], 100)
    >>> y = 20.0 + X @ [3.0, -1.0] + 5.0 * (task == "bob") + rng.normal(size=300)
    >>> model = ROMCORegressor(random_state=0).fit(X, y, task=task)
    >>> bool(abs(model.predict([[1.0, 0.0]], task="bob")[0] - 28.0) < 0.5)
    True
    >>> low, high = model.predict_interval([[1.0, 0.0]], task="bob", level=0.9)[0]
    >>> bool(low < 28.0 < high)
    True
    """

    score = TaskEstimator.score  # not the mixin's
    _metric = staticmethod(r2_score)

    def partial_fit(
        self, X: Any, y: Any, task: Any = None, sample_weight: Any = None, offset: Any = None
    ) -> Self:
        """Learn rows one after the other in the order given; tasks may be new."""
        return self._partial_fit(X, y, task, sample_weight, offset)

    def predict(
        self, X: Any, task: Any = None, offset: Any = None, return_std: bool = False
    ) -> Any:
        """Return the number of each row (n,), and with ``return_std`` its standard deviation (n,).

        That is of the posterior: how much is not known, without the noise of single numbers.
        """
        if return_std:
            rows = self._read_rows(X, task)
            return self.fitted_model().margins(*rows, offset=offset, return_std=True)
        return self._margins(X, task, offset)

    def predict_interval(
        self, X: Any, task: Any = None, level: float = 0.9, offset: Any = None
    ) -> Floats:
        """Bounds within which a share ``level`` of the numbers of such rows will be."""
        return self.fitted_model().intervals(*self._read_rows(X, task), level, offset=offset)

    def _new(self, numbers: Any, tasks: Sequence[Any] = ()) -> Model:
        return self._make_model("number", None, tasks, self.parameters or {})

    _numeric = True

    def _checked_answers(self, y: Any) -> Floats:
        try:
            numbers: Floats = check_array(y, ensure_2d=False, dtype=np.float64)
        except OverflowError:
            raise ValueError(TOO_LARGE) from None
        return numbers

    def _plain_answers(self, y: Any, n: int) -> Floats | None:
        if type(y) is list and set(map(type, y)) <= {int, float}:
            y = np.array(y, dtype=np.float64)
        plain = type(y) is np.ndarray and y.dtype == np.float64 and y.shape == (n,)
        if plain and bool(np.isfinite(y).all()):
            return y
        return None
