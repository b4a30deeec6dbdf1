"""A personal layer on top of any model: its scores are columns, the rest is learned online."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from romco.adapters.common import tasks_of
from romco.learners.base import add_prefix, take_prefix
from romco.model import Columns, Model, Names
from romco.model.target import logistic
from romco.parameters import choice, not_negative, positive, whole
from romco.typing import Floats

Target = Literal["two classes", "classes", "number"]

EXPERTS = ("base", "alone", "joint")  # predictors that are mixed
PRIOR_SHARES = np.array([0.7, 0.15, 0.15])  # probabilities, before any event, that each is best
LEARNING_RATE = 0.25  # of exponential weights: less than 1, for the best so far may be so by chance
SWITCH_RATE = 1e-3  # probability per event that the best is drawn anew from the prior
MAX_GAIN = 10.0  # largest log-likelihood ratio of one event
MAX_LOG_ODDS = 30.0  # of a base that is certain
SCORE_COLUMN = "score of the base"  # name in frames
ALONE = "alone "  # before the names of arrays of the model without the base


class PersonalLayer:
    """Online corrections of each task, on top of a model that was fitted before.

    The base is not changed. Its scores are columns of a model that learns online what they are
    worth, and what is each task's own. A second model learns without them. A prediction is a
    mixture of the base and both models by their past likelihoods: its loss is close to the least
    of them, even where the base is useless. Learn other rows than the base was fitted to: there
    its scores seem better than they are.

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
        self.model: Model | None = None  # with the scores of the base as columns
        self.alone: Model | None = None  # without them
        self._shares = PRIOR_SHARES.copy()
        self._errors = np.zeros(len(EXPERTS))  # mean squared errors, of so many rows
        self._rows = 0

    @property
    def shares(self) -> dict[str, float]:
        """Weights of "base", "alone" (without the base) and "joint" (with it) in predictions."""
        return dict(zip(EXPERTS, self._shares.tolist(), strict=True))

    def partial_fit(self, X: Any, y: Any, task: Any, sample_weight: Any = None) -> Self:
        """Learn rows in turn; tasks may be new. Bad rows raise ValueError and change nothing."""
        scores, rows = self._base_scores(X), self._select(X)
        y, task = np.asarray(y).reshape(-1), tasks_of(task, len(scores))
        self._check_labels(y)
        joint_rows = _with_scores(rows, scores, self.classes_)
        model = self.model or self._new_model(joint_rows)
        alone = self.alone or self._new_model(rows)
        if self.target == "number":
            y, _ = model.engine.target.read(y)
        joint = model.learn(joint_rows, y, task, weight=sample_weight)
        without = alone.learn(rows, y, task, weight=sample_weight)
        self.model, self.alone = model, alone
        counts = slice(None) if sample_weight is None else np.asarray(sample_weight) > 0.0
        experts = np.stack([scores, without, joint], axis=1)
        self._weigh(experts[counts], y[counts])
        return self

    def decision_function(self, X: Any, task: Any) -> Floats:
        """Return log-odds (n,) of ``classes_[1]``, log-probabilities (n, K), or numbers."""
        scores = self._base_scores(X)
        if self.model is None or self.alone is None or not self._rows:
            return scores
        rows, task = self._select(X), tasks_of(task, len(scores))
        joint = self.model.margins(_with_scores(rows, scores, self.classes_), task)
        experts = np.stack([scores, self.alone.margins(rows, task), joint], axis=1)
        if self.target == "number":
            return np.asarray(experts @ self._shares)
        shares = np.log(self._shares)
        if self.target == "classes":
            return _log_mixture(experts, shares[:, None])
        yes = _log_mixture(-np.logaddexp(0.0, -experts), shares)
        no = _log_mixture(-np.logaddexp(0.0, experts), shares)
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

    def fitted_model(self) -> Model:
        """Return the model that has the scores of the base as columns."""
        if self.model is None:
            raise ValueError("this layer has learned nothing yet: call partial_fit first")
        return self.model

    def state(self) -> dict[str, Any]:
        """Return all but the base, for :func:`romco.save`."""
        state = self.fitted_model().state()
        assert self.alone is not None  # it is made together with the other
        alone = self.alone.state()
        arrays = add_prefix(ALONE, alone.pop("arrays"))
        sums = [self._shares.tolist(), self._errors.tolist(), self._rows]
        settings = {"target": self.target, "columns": self.columns, "sums": sums}
        whole_state = {"arrays": state["arrays"] | arrays, "alone": alone, "estimator": settings}
        return state | whole_state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the layer that gave a state, without its base."""
        settings, arrays = state["estimator"], state["arrays"]
        own = {name: array for name, array in arrays.items() if not name.startswith(ALONE)}
        model = Model.from_state(state | {"arrays": own})
        alone = Model.from_state(state["alone"] | {"arrays": take_prefix(ALONE, arrays)})
        classes = model.classes or None
        made = cls(None, target=settings["target"], classes=classes, columns=settings["columns"])
        shares, errors, rows = settings["sums"]
        made._shares = np.array(list(map(partial(positive, "share"), shares)))
        made._errors = np.array(list(map(partial(not_negative, "error"), errors)))
        made._rows = whole("rows", rows, least=0)
        if len(made._shares) != len(EXPERTS) or len(made._errors) != len(EXPERTS):
            raise ValueError(f"expected {len(EXPERTS)} shares and errors")
        made.model, made.alone = model, alone
        return made

    def _new_model(self, rows: Any) -> Model:
        features = Names() if hasattr(rows, "columns") else Columns(rows.shape[1])
        classes = None if self.classes_ is None else self.classes_.tolist()
        return Model(features=features, target=self.target, classes=classes)

    def _check_labels(self, y: NDArray[Any]) -> None:
        if self.classes_ is None:
            return
        classes = self.classes_.tolist()
        for label in y.tolist():
            if label not in classes:
                raise ValueError(f"label {label!r} is not one of the base's classes {classes}")

    def _base_scores(self, X: Any) -> Floats:
        if self.base is None:
            raise ValueError("this layer was loaded without its base: set layer.base first")
        scores = np.asarray(_scores(self.base, X, self.target), dtype=np.float64)
        if np.isnan(scores).any() or (self.target == "number" and np.isinf(scores).any()):
            raise ValueError("a score of the base is not finite: it needs one for each row")
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

    def _weigh(self, experts: Floats, y: NDArray[Any]) -> None:
        """Multiply the shares by likelihoods, then mix in a little of the prior, after each row."""
        if self.classes_ is None:
            squares = np.square(experts - y[:, None])
            if not self._rows:  # a number is unknown before the first
                squares[:1] = squares[:1, :1]
            totals = self._errors * self._rows + np.cumsum(squares, axis=0)
            means = totals / (self._rows + np.arange(1, len(y) + 1))[:, None]
            least = np.maximum(means.min(axis=1, keepdims=True), np.finfo(float).tiny)
            losses = 0.5 * squares / least
            self._errors = means[-1] if len(y) else self._errors
        elif self.target == "classes":
            true = (y[:, None] == self.classes_).argmax(axis=1)
            losses = -experts[np.arange(len(y)), :, true]
        else:
            side = np.where(y == self.classes_[1], 1.0, -1.0)
            losses = np.logaddexp(0.0, -side[:, None] * experts)
        gains = np.maximum(losses.min(axis=1, keepdims=True) - losses, -MAX_GAIN)
        for likelihoods in np.exp(LEARNING_RATE * gains):
            self._shares = self._shares * likelihoods
            self._shares /= self._shares.sum()
            self._shares += SWITCH_RATE * (PRIOR_SHARES - self._shares)
        self._rows += len(y)


def _with_scores(rows: Any, scores: Floats, classes: NDArray[Any] | None) -> Any:
    """Return rows with the scores of the base as last columns."""
    if not hasattr(rows, "columns"):
        columns = scores.reshape(len(scores), -1)
        if hasattr(rows, "tocsr"):
            from scipy.sparse import csr_array, hstack

            return csr_array(hstack([rows, columns]))
        return np.column_stack([rows, columns])
    if scores.ndim == 1:
        added = {SCORE_COLUMN: scores}
    else:
        assert classes is not None
        names = [f"{SCORE_COLUMN}: {label}" for label in classes]
        added = dict(zip(names, scores.T, strict=True))
    taken = [name for name in added if name in rows.columns]
    if taken:
        raise ValueError(f"the layer makes a column {taken[0]!r}: rename yours")
    if hasattr(rows, "with_columns"):  # Polars
        return rows.with_columns(**added)
    return rows.assign(**added)


def _log_mixture(likelihoods: Floats, shares: Floats) -> Floats:
    """Return the logarithm of a mixture over axis 1 of what has these log-likelihoods."""
    return np.asarray(np.logaddexp.reduce(shares + likelihoods, axis=1))


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
