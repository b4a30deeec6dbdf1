"""A River classifier that takes ``task=``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import numpy as np

try:
    from river import base
except ModuleNotFoundError as missing:
    raise ImportError("this estimator needs River: pip install 'romco[river]'") from missing

from romco.adapters.inputs import column_from_json, column_to_json, split_off, tasks_of
from romco.model import Hashed, Model, Names


class ROMCOClassifier(base.MiniBatchClassifier):
    """One linear classifier per task: shared where tasks agree, personal where they differ.

    Pass ``task=`` to every method, in pipelines and in ``evaluate.progressive_val_score`` too;
    without it all events are one task. Tasks, features and the two labels may appear at any time.
    Text values become the feature ``name=value``. ``learn_many`` gives exactly what a
    loop of ``learn_one`` gives, unless ``rounds`` is set: then the rows of a mini-batch are
    one round, learned in one step.

    Parameters
    ----------
    learner
        A name from ``romco.LEARNERS``.
    parameters
        The learner's parameters, by name.
    hashed
        Hash features to this many columns, a power of two, instead of growing by name.
    new_task
        Where a task that appears later starts: at the "mean" of what is shared, or at "zero".
    rounds
        Whether ``learn_many`` learns a mini-batch in one step.
    task_column
        Feature that names the task, in place of ``task=``; it is taken out of x. For ensembles and
        for ``predict_many`` of pipelines, which hand on no keywords.

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
    Accuracy: 97.77%

    """

    def __init__(
        self,
        learner: str = "romco-auto",
        parameters: dict[str, Any] | None = None,
        hashed: int | None = None,
        new_task: str = "mean",
        rounds: bool = False,
        task_column: Any = None,
    ) -> None:
        self.learner = learner
        self.parameters = parameters
        self.hashed = hashed
        self.new_task = new_task
        self.rounds = rounds
        self.task_column = task_column
        features = Names() if hashed is None else Hashed(hashed)
        self.model = Model(
            learner,
            features,
            new_task=new_task,  # type: ignore[arg-type]
            **(parameters or {}),
        )

    @property
    def file_kind(self) -> str:
        """As what :func:`romco.save` writes it."""
        return "river"

    def inside(self) -> Model:
        """The model inside."""
        return self.model

    def described(self) -> dict[str, Any]:
        """Parameters, for :func:`romco.save`."""
        return {**self._get_params(), "task_column": column_to_json(self.task_column)}

    @classmethod
    def revived(cls, described: dict[str, Any], model: Model) -> Self:
        """The estimator of that description, for :func:`romco.load`."""
        made = cls(**{**described, "task_column": column_from_json(described["task_column"])})
        made.model = model
        return made

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": "romco-auto"}
        yield {"learner": "romco-nucl"}
        yield {"learner": "ogd-unique", "hashed": 2**10}

    def learn_one(self, x: Mapping[Any, Any], y: Any, task: Any = "all") -> None:
        """Learn one event."""
        x, task = self._apart_one(x, task)
        self.model.learn_one(x, y, task)

    def predict_one(  # type: ignore[override]
        self, x: Mapping[Any, Any], task: Any = "all"
    ) -> Any:
        """The label of one event; None before any label is known."""
        return self.model.predict_one(*self._apart_one(x, task))

    def predict_proba_one(  # type: ignore[override]
        self, x: Mapping[Any, Any], task: Any = "all"
    ) -> dict[Any, float]:
        """Probability of each label; before labels are known, of False and True."""
        classes = self._classes()
        if len(classes) < 2:
            return dict.fromkeys(classes, 1.0)
        positive = self.model.probability_one(*self._apart_one(x, task))
        return {classes[0]: 1.0 - positive, classes[1]: positive}

    def learn_many(self, X: Any, y: Any, task: Any = "all") -> None:
        """Learn the rows of a frame; ``task`` is a name for all or one per row."""
        X, task = self._apart_many(X, task)
        self.model.learn(X, list(y), task, together=self.rounds)

    def predict_many(self, X: Any, task: Any = "all") -> Any:
        """The label of each row of a frame, as a series of the same kind."""
        if not self.model.classes:
            return _series(X, [])
        return _series(X, self.model.predict(*self._apart_many(X, task)))

    def predict_proba_many(self, X: Any, task: Any = "all") -> Any:
        """Probability of each label, one column each, as a frame of the same kind."""
        classes = self._classes()
        if len(classes) < 2:
            return _frame(X, dict.fromkeys(classes, np.ones(len(X))))
        positive = self.model.probabilities(*self._apart_many(X, task))
        return _frame(X, {classes[0]: 1.0 - positive, classes[1]: positive})

    def _apart_one(self, x: Mapping[Any, Any], task: Any) -> tuple[Mapping[Any, Any], Any]:
        """The features without the task, and the task."""
        if self.task_column is None:
            return x, task
        if self.task_column not in x:
            raise ValueError(f"x has no {self.task_column!r} to take the task from")
        rest = dict(x)
        return rest, rest.pop(self.task_column)

    def _apart_many(self, X: Any, task: Any) -> tuple[Any, list[Any]]:
        """The same of a frame."""
        if self.task_column is not None:
            X, task = split_off(X, self.task_column)
        return X, tasks_of(task, len(X))

    def _classes(self) -> tuple[Any, ...]:
        """The labels known; River's False and True unless there are others."""
        known = self.model.classes
        return (False, True) if all(isinstance(label, bool) for label in known) else known


def _series(like: Any, values: Any) -> Any:
    if _is_pandas(like):
        import pandas as pd

        return pd.Series(values, index=like.index[: len(values)], name="y")
    import polars as pl

    return pl.Series("y", values)


def _frame(like: Any, columns: dict[Any, Any]) -> Any:
    if _is_pandas(like):
        import pandas as pd

        return pd.DataFrame(columns, index=like.index)
    import polars as pl

    return pl.DataFrame({str(name): values for name, values in columns.items()})


def _is_pandas(frame: Any) -> bool:
    return type(frame).__module__.startswith("pandas")
