"""A River classifier and a regressor that take ``task=``."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

try:
    from river import base
except ModuleNotFoundError as missing:
    raise ImportError("this estimator needs River: pip install 'romco[river]'") from missing

from romco.adapters.common import (
    asked_schema,
    column_from_json,
    column_to_json,
    split_off,
    tasks_of,
)
from romco.io.groupings import take_groupings
from romco.model import Hashed, Model, Names
from romco.model.features import Features
from romco.model.rows import Rows

if TYPE_CHECKING:
    from romco.explanations import Reasons


class TaskStream:
    """A model, and tasks beside x or among its features (abstract)."""

    target: Any = "two classes"

    def __init__(
        self,
        learner: str = "romco-auto",
        parameters: dict[str, Any] | None = None,
        hashed: int | None = None,
        new_task: Any = "mean",
        rounds: bool = False,
        task_column: Any = None,
        history: list[str] | None = None,
        time: str | None = None,
        kinds: dict[str, str] | None = None,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.hashed = hashed
        self.new_task = new_task
        self.rounds = rounds
        self.task_column = task_column
        self.history = history
        self.time = time
        self.kinds = kinds
        features: Features = Names()
        if hashed is not None:
            features = Hashed(hashed)
        settings = {"target": self.target, "new_task": new_task, "history": history}
        settings["schema"] = asked_schema(None, kinds, time)
        self.model = Model(learner, features, **settings | (parameters or {}))

    def fitted_model(self) -> Model:
        return self.model

    def _live_model(self) -> Model:
        """Return the model, whose predictions are live: River learns each event after it."""
        self.model.engine.live = True
        return self.model

    def state(self) -> dict[str, Any]:
        """Return the model's state and the parameters, for :func:`romco.save`."""
        parameters: dict[str, Any] = self._get_params()  # type: ignore[attr-defined]
        parameters = {**parameters, "task_column": column_to_json(self.task_column)}
        return {**self.model.state(), "estimator": parameters}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the estimator that gave a state."""
        settings = state["estimator"]
        made = cls(**{**settings, "task_column": column_from_json(settings["task_column"])})
        made.model = Model.from_state(state)
        return made

    def reasons_one(self, x: Mapping[Any, Any], task: Any = "all", label: Any = None) -> "Reasons":
        """Return what the features of one event add to its answer; see :func:`romco.reasons`."""
        from romco.explanations import reasons

        return reasons(self.model, *self._split_one(x, task), label)

    def learn_one(
        self,
        x: Mapping[Any, Any],
        y: Any,
        task: Any = "all",
        w: float = 1.0,
        offset: float | None = None,
    ) -> None:
        """Learn one event."""
        x, task = self._split_one(x, task)
        engine = self.model.engine
        if engine.learn_event(x, y, task, w, offset) is NotImplemented:
            with engine.transaction():
                engine.widen_for([y])
                engine.learn_one(x, y, task, w, offset)

    def predict_one(
        self, x: Mapping[Any, Any], task: Any = "all", offset: float | None = None
    ) -> Any:
        """Predict one event."""
        return self._live_model().predict_one(*self._split_one(x, task), offset=offset)

    def learn_many(
        self, X: Any, y: Any, task: Any = "all", w: Any = None, offset: Any = None
    ) -> None:
        """Learn the rows of a frame; ``w`` is their weight, one for all or one each."""
        X, task = self._split_many(X, task)
        answers, weight = list(y), None
        if w is not None:
            if np.ndim(w) == 0:
                weight = np.full(len(answers), float(w))
            else:
                weight = np.asarray(w)
        with self.model.engine.transaction():
            self.model.engine.widen_for(answers)
            self.model.learn(X, answers, task, together=self.rounds, weight=weight, offset=offset)

    def predict_many(self, X: Any, task: Any = "all", offset: Any = None) -> Any:
        """The answer of each row of a frame, as a series of the same kind."""
        if self.model.engine.target.kind != "number" and not self.model.classes:
            return _frame(X, {"y": []})["y"]
        answers = self._live_model().predict(*self._split_many(X, task), offset=offset)
        return _frame(X, {"y": answers})["y"]

    def _split_one(self, x: Mapping[Any, Any], task: Any) -> tuple[Mapping[Any, Any], Any]:
        """The features without the task, and the task."""
        if self.task_column is None:
            return x, task
        if isinstance(self.task_column, list):
            (row,), (level,), _ = take_groupings([x], self.task_column)
            return row, level
        if self.task_column not in x:
            raise ValueError(f"x has no {self.task_column!r} to take the task from")
        rest = dict(x)
        return rest, rest.pop(self.task_column)

    def _split_many(self, X: Any, task: Any) -> tuple[Any, list[Any]]:
        if self.task_column is not None:
            X, task = split_off(X, self.task_column)
        return X, tasks_of(task, len(X))


class ROMCOClassifier(TaskStream, base.MiniBatchClassifier):  # type: ignore[misc]
    """One linear classifier per task: shared where tasks agree, personal where they differ.

    Pass ``task=`` to every method, in pipelines and in ``evaluate.progressive_val_score`` too;
    without it all events are one task. Tasks, features and labels may appear at any time; a third
    label makes it a classifier of many. Text values become the feature ``name=value``.
    ``offset`` is as in :meth:`romco.Model.learn`.

    Parameters
    ----------
    learner
        A name from ``romco.LEARNERS``; ``parameters`` are its own, by name.
    hashed
        Hash features to this many columns, a power of two, instead of growing by name.
    new_task
        Where a task that appears later starts: at the "mean" of what is shared, or at "zero".
    rounds
        Whether ``learn_many`` learns a mini-batch in one step, not row by row as ``learn_one``.
    task_column
        Feature that names the task, in place of ``task=``; it is taken out of x. For ensembles and
        for ``predict_many`` of pipelines, which hand on no keywords. Several are groupings, as in
        :class:`romco.Model`.
    history
        Categorical features, from coarse to fine, of whose past labels each event gets features,
        as in ``romco.Model``.
    time
        Feature with the time of each event, for ``history``: how long ago labels came.
    kinds
        How features are read, by name, as ``{"zip": "category"}``; see :class:`romco.Schema`.

    Examples
    --------
    >>> from river import compose, evaluate, metrics, preprocessing
    >>> from romco.adapters.river import ROMCOClassifier

    >>> events = [
    ...     ({"price": price, "rain": rain}, (price > 5) != (shop == "odd"), {"task": shop})
    ...     for price, rain in [(1, 0), (9, 1), (2, 1), (8, 0), (3, 1), (7, 0)] * 10
    ...     for shop in ("north", "south", "odd")
    ... ]
    >>> model = preprocessing.StandardScaler() | ROMCOClassifier()
    >>> evaluate.progressive_val_score(events, model, metrics.Accuracy())
    Accuracy: 96.65%
    """

    @property
    def _multiclass(self) -> bool:
        return True

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": "romco-auto"}
        yield {"learner": "romco-nucl"}
        yield {"learner": "ogd-unique", "hashed": 2**10}

    def predict_proba_one(  # type: ignore[override]
        self, x: Mapping[Any, Any], task: Any = "all", offset: float | None = None
    ) -> dict[Any, float]:
        """Probability of each label; before labels are known, of False and True."""
        classes = self._classes()
        if len(self.model.classes) < 2:
            if len(classes) < 2:
                return dict.fromkeys(classes, 1.0)
            engine = self._live_model().engine
            positive = engine.probability_one(*self._split_one(x, task), offset)
            return {classes[0]: 1.0 - positive, classes[1]: positive}
        return self._live_model().predict_proba_one(*self._split_one(x, task), offset=offset)

    def predict_proba_many(self, X: Any, task: Any = "all", offset: Any = None) -> Any:
        """Probability of each label, one column each, as a frame of the same kind."""
        classes = self._classes()
        if len(classes) < 2:
            return _frame(X, dict.fromkeys(classes, np.ones(len(X))))
        engine = self._live_model().engine
        probabilities = engine.probabilities(Rows(*self._split_many(X, task), offset=offset))
        if probabilities.ndim == 1:
            probabilities = np.column_stack([1.0 - probabilities, probabilities])
        return _frame(X, dict(zip(classes, probabilities.T, strict=True)))

    def _classes(self) -> tuple[Any, ...]:
        """The labels known; River's False and True unless there are others."""
        known = self.model.classes
        if all(isinstance(label, bool) for label in known):
            return (False, True)
        return known


class ROMCORegressor(TaskStream, base.MiniBatchRegressor):
    """One linear model of a number per task: shared where tasks agree, personal where they differ.

    As :class:`ROMCOClassifier`, for numbers; "pa", "ogd" and "arow" with "-unique" or "-global" are
    the other learners. Place and unit of the answers do not matter.

    Examples
    --------
    >>> from river import evaluate, metrics
    >>> from romco.adapters.river import ROMCORegressor

    >>> events = [
    ...     ({"price": price}, 100 - 7 * price + (9 if shop == "north" else 0), {"task": shop})
    ...     for price in [1, 5, 2, 4, 3] * 20
    ...     for shop in ("north", "south")
    ... ]
    >>> metric = evaluate.progressive_val_score(events, ROMCORegressor(), metrics.MAE())
    >>> metric.get() < 3.0
    True
    """

    target = "number"

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": "romco-auto"}
        yield {"learner": "ogd-unique", "hashed": 2**10}

    def predict_interval_one(
        self,
        x: Mapping[Any, Any],
        task: Any = "all",
        level: float = 0.9,
        offset: float | None = None,
    ) -> tuple[float, float]:
        """Bounds within which a share ``level`` of the numbers of such events will be."""
        row = Rows.of_one(*self._split_one(x, task), offset=offset)
        low, high = self.model.engine.intervals(row, level)[0].tolist()
        return low, high


def _frame(like: Any, columns: dict[Any, Any]) -> Any:
    """Return columns as a frame of the same kind, pandas or Polars."""
    if not hasattr(like, "index"):
        return type(like)({str(name): values for name, values in columns.items()})
    n = len(next(iter(columns.values()), like))
    return type(like)(columns, index=like.index[:n])
