"""A personal layer on top of any model: its scores are offsets, the rest is learned online."""

import json
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from romco.adapters.common import tasks_of
from romco.model import Columns, Model, Names
from romco.model.target import logistic
from romco.parameters import choice, not_negative, positive, whole
from romco.typing import Floats

Target = Literal["two classes", "classes", "number"]

LAYER_PRIOR = 0.05  # probability, before any event, that the layer predicts better than the base
YOUNG_ROWS = 100  # rows after which the layer has half of its posterior weight
SWITCH_RATE = 1e-3  # probability per event that the better of both is drawn anew from the prior
MAX_LOG_ODDS = 30.0  # of a base that is certain


class PersonalLayer:
    """Online corrections of each task, on top of a model that was fitted before.

    The base is not changed. Its scores are offsets: the layer learns the residual, for each task
    and for all. A prediction is a mixture of base and layer by their past likelihoods, so its
    loss is close to the base's where tasks do not differ. Learn other rows than the base was
    fitted to: on its own rows a flexible base leaves no residual.

    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(2000, 2)), np.tile(["ann", "bob"], 1000)
    >>> y = X[:, 0] + np.where(task == "ann", 2.0, -2.0) + rng.logistic(size=2000) > 0
    >>> base = LogisticRegression().fit(X[:1000], y[:1000])
    >>> layer = PersonalLayer(base).partial_fit(X[1000:1500], y[1000:1500], task=task[1000:1500])
    >>> right = layer.predict(X[1500:], task=task[1500:]) == y[1500:]
    >>> bool(right.mean() > base.score(X[1500:], y[1500:]) + 0.1)
    True

    Parameters
    ----------
    base:
        A fitted scikit-learn, LightGBM or XGBoost estimator or booster; or a function that returns
        log-odds of rows, which needs ``target`` (classes: log-probabilities (n, K), numbers:
        predictions). Scores of a base without ``predict_proba``, as of a support vector machine,
        are taken for these: calibrate it.
    target:
        "two classes", "classes" or "number"; else that of the base.
    classes:
        The labels, the negative one first; else those of the base, (0, 1) for a booster.
    columns:
        Columns whose effects may be personal: names of a frame, else numbers; () for intercepts
        only. By default all.

    ``romco.save(layer, path)`` leaves the base out: set ``base`` after ``romco.load``.
    """

    def __init__(
        self,
        base: Any,
        *,
        target: Target | None = None,
        classes: Sequence[Any] | None = None,
        columns: Sequence[Any] | None = None,
    ) -> None:
        self.base = base
        known: Any = getattr(base, "classes_", classes)
        several: Target = "classes" if known is not None and len(known) > 2 else "two classes"
        kind = target or _target_of(base)
        kind = several if target is None and kind != "number" else kind
        choice("target", kind, "two classes", "classes", "number")
        self.target: Target = kind
        if self.target == "number" and classes is not None:
            raise ValueError("a number has no classes: leave them out")
        if classes is not None and list(known) != list(classes):
            raise ValueError(f"the base has the classes {list(known)}, in this order")
        self.classes_ = None
        if self.target != "number":
            self.classes_ = np.array([0, 1] if known is None else known)
            if self.target != several or len(self.classes_) < 2:
                raise ValueError(f"expected {self.target}, got {list(self.classes_)}")
        self.columns = [columns] if isinstance(columns, str) else columns
        self.columns = None if self.columns is None else list(self.columns)
        self.model: Model | None = None
        self.layer_share = LAYER_PRIOR  # probability that the layer predicts better
        self._error = 0.0  # mean squared error of the base, of so many rows
        self._rows = 0

    def partial_fit(self, X: Any, y: Any, task: Any, sample_weight: Any = None) -> Self:
        """Learn rows in turn; tasks may be new. Bad rows raise ValueError and change nothing."""
        offset, rows = self._offset(X), self._select(X)
        y, task = np.asarray(y).reshape(-1), tasks_of(task, len(offset))
        model = self.model or self._new_model(rows)
        if self.target == "number":
            y, _ = model.engine.target.read(y)
        margins = model.learn(rows, y, task, weight=sample_weight, offset=offset)
        self.model = model
        counts = slice(None) if sample_weight is None else np.asarray(sample_weight) > 0.0
        self._weigh(margins[counts], offset[counts], y[counts])
        return self

    def decision_function(self, X: Any, task: Any) -> Floats:
        """Return log-odds (n,) of ``classes_[1]``, log-probabilities (n, K), or numbers."""
        offset = self._offset(X)
        if self.model is None or not self._rows:
            return offset
        layer = self.model.margins(self._select(X), tasks_of(task, len(offset)), offset=offset)
        share = self.layer_share * self._rows / (self._rows + YOUNG_ROWS)
        if self.target == "number":
            return (1.0 - share) * offset + share * layer
        if self.target == "classes":
            return np.asarray(np.logaddexp(np.log1p(-share) + offset, np.log(share) + layer))
        yes, no = (
            np.logaddexp(
                np.log1p(-share) - np.logaddexp(0.0, -sign * offset),
                np.log(share) - np.logaddexp(0.0, -sign * layer),
            )
            for sign in (1.0, -1.0)
        )
        return np.asarray(yes - no)

    def predict(self, X: Any, task: Any) -> NDArray[Any]:
        """Return the label, or number, of each row (n,)."""
        margins = self.decision_function(X, task)
        if self.classes_ is None:
            return margins
        return self.classes_[
            margins.argmax(axis=1) if margins.ndim == 2 else (margins >= 0.0).astype(np.intp)
        ]

    def predict_proba(self, X: Any, task: Any) -> Floats:
        """Return probabilities (n, K) of ``classes_``; ValueError for numbers."""
        if self.classes_ is None:
            raise ValueError("a number has no probability: use predict")
        margins = self.decision_function(X, task)
        if margins.ndim == 2:
            return np.asarray(np.exp(margins))
        probability = logistic(margins)
        return np.column_stack([1.0 - probability, probability])

    # For romco.save and romco.load

    file_kind = "personal layer"

    def fitted_model(self) -> Model:
        """Return the model of the residual."""
        if self.model is None:
            raise ValueError("this layer has learned nothing yet: call partial_fit first")
        return self.model

    def file_settings(self) -> dict[str, Any]:
        """Return all but the base and the model, for :func:`romco.save`."""
        mixture = [self.layer_share, self._error, self._rows]
        return {"target": self.target, "columns": self.columns, "sums": mixture}

    @classmethod
    def from_file_settings(cls, settings: dict[str, Any], model: Model) -> Self:
        """Return the layer of these settings and this model, without its base."""
        classes = model.classes or None
        made = cls(None, target=settings["target"], classes=classes, columns=settings["columns"])
        share, error, rows = settings["sums"]
        made.layer_share = min(positive("share", share), 1.0)
        made._error, made._rows = not_negative("error", error), whole("rows", rows, least=0)
        made.model = model
        return made

    def _new_model(self, rows: Any) -> Model:
        features = Names() if hasattr(rows, "columns") else Columns(rows.shape[1])
        classes = None if self.classes_ is None else self.classes_.tolist()
        return Model(features=features, target=self.target, classes=classes)

    def _offset(self, X: Any) -> Floats:
        if self.base is None:
            raise ValueError("this layer was loaded without its base: set layer.base first")
        scores = np.asarray(_scores(self.base, X, self.target), dtype=np.float64)
        if self.target == "classes":
            assert self.classes_ is not None
            if scores.shape != (len(scores), len(self.classes_)):
                raise ValueError(f"the base has scores of shape {scores.shape}, not one per class")
            scores = np.maximum(scores - scores.max(axis=1, keepdims=True), -MAX_LOG_ODDS)
            return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
        if scores.size != len(scores):
            raise ValueError(f"the base has scores of shape {scores.shape}, one per row is needed")
        scores = scores.reshape(-1)
        if self.target == "number":
            return scores
        return np.clip(scores, -MAX_LOG_ODDS, MAX_LOG_ODDS)

    def _select(self, X: Any) -> Any:
        if self.columns is not None and not self.columns:
            return np.zeros((X.shape[0] if hasattr(X, "shape") else len(X), 1))
        if hasattr(X, "columns"):
            return X if self.columns is None else X[self.columns]
        X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X, dtype=np.float64)
        return X if self.columns is None else X[:, self.columns]

    def _weigh(self, layer: Floats, base: Floats, y: NDArray[Any]) -> None:
        """Update the layer's posterior weight by Bayes' rule, then a fixed share of the prior."""
        if self.classes_ is None:
            errors = np.square(base - y)
            totals = self._error * self._rows + np.cumsum(errors)
            mean = totals / (self._rows + np.arange(1, len(y) + 1))
            gains = 0.5 * (errors - np.square(layer - y)) / np.maximum(mean, np.finfo(float).tiny)
            self._error = float(mean[-1]) if len(y) else self._error
        elif self.target == "classes":
            true = np.arange(len(y)), (y[:, None] == self.classes_).argmax(axis=1)
            gains = layer[true] - base[true]
        else:
            side = np.where(y == self.classes_[1], 1.0, -1.0)
            gains = np.logaddexp(0.0, -side * base) - np.logaddexp(0.0, -side * layer)
        share = self.layer_share
        for likelihood in np.exp(np.clip(gains, -10.0, 10.0)).tolist():
            share = share * likelihood / (share * likelihood + 1.0 - share)
            share += SWITCH_RATE * (LAYER_PRIOR - share)
        self.layer_share, self._rows = share, self._rows + len(y)


def _target_of(base: Any) -> Target:
    """Return whether a base predicts classes or a number; ValueError where neither is known."""
    if hasattr(base, "predict_proba") or hasattr(base, "classes_"):
        return "two classes"
    if hasattr(base, "dump_model") and hasattr(base, "num_trees"):  # LightGBM's Booster
        objective = str(base.dump_model()["objective"])
    elif hasattr(base, "save_config"):  # XGBoost's Booster
        objective = json.loads(base.save_config())["learner"]["objective"]["name"]
    elif hasattr(base, "decision_function"):
        return "two classes"
    elif hasattr(base, "predict"):
        return "number"
    else:
        raise ValueError("say target='two classes' or 'number': the base does not tell")
    names = ("binary", "cross_entropy", "multi")
    return "two classes" if objective.startswith(names) else "number"


def _scores(base: Any, X: Any, target: str) -> Any:
    """Return log-odds, or numbers, that a base predicts."""
    if hasattr(base, "save_config"):
        from xgboost import DMatrix

        return base.predict(DMatrix(X), output_margin=target != "number")
    if hasattr(base, "dump_model"):
        return base.predict(X, raw_score=target != "number")
    if not hasattr(base, "predict"):
        return base(X)
    if target == "number":
        return base.predict(X)
    if hasattr(base, "predict_proba"):
        probabilities = np.asarray(base.predict_proba(X), dtype=np.float64)
        probability = probabilities if target == "classes" else probabilities[:, 1]
        with np.errstate(divide="ignore"):
            if target == "classes":
                return np.log(probability)
            return np.log(probability) - np.log1p(-probability)
    return base.decision_function(X)
