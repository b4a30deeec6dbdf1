"""Explanation of a model: levels, effects, shared and personal weights, similar tasks."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from romco.explanations.text import ALONE, EFFECT, Explanation, TaskInsight, pairs
from romco.labels.audit import Audit
from romco.learners import Learner
from romco.learners.capabilities import Decomposed, column_lengths, spectrum
from romco.learners.classes import Classes
from romco.model import Model
from romco.model.engine import PERSONAL_CHECK_EVENTS, personal_tasks, predict
from romco.model.features import Sparse
from romco.model.history import feature_name
from romco.model.names import canonical_name

Numbers = NDArray[np.float64]
MAX_GROUPED_TASKS = 1000  # groups cost m^2
MAX_LEVEL_ENTRIES = 5_000_000  # tasks times features of the average event
SHOWN_CLASSES = 10
SHOWN_FEATURES = 3


def explain(model: Model | Learner, top: int = 20, findings: bool = True) -> Explanation:
    """Explain a model or learner, with details of the ``top`` most personal tasks.

    A learner that does not keep U and V apart is split here: shared is the mean of all tasks'
    weights, personal the difference from it. Where the learner keeps U by its factors, no (d, m)
    array is made, so that 100,000 tasks can be explained. Without ``findings`` the learner's own
    findings and groups are left out, which is quicker.

    >>> import romco
    >>> stream = romco.streams.simulated(n_tasks=6, n_features=10, n_events=50, outliers=1)
    >>> learner = romco.learner("romco-nucl", n_features=10, n_tasks=6)
    >>> _ = learner.replay(romco.streams.synchronous(stream, seed=0))
    >>> explanation = explain(learner)
    >>> explanation.n_tasks, len(explanation.tasks)
    (6, 6)
    """
    reader = _read(model, findings)
    order = np.argsort(-reader.personal, kind="stable")
    detailed = order[:top]
    cosines = reader.weights.cosines(detailed)
    tasks = list(map(reader.detailed_task, detailed, cosines))
    tasks += map(reader.task, order[top:])
    return Explanation(
        n_tasks=len(reader.names),
        n_features=reader.n_features,
        spectrum=tuple(reader.weights.spectrum.tolist()),
        tasks=tuple(tasks),
        notes=tuple(reader.notes()),
        effects=reader.effects(),
        per_spread=reader.spread is not None,
        **_provenance(model, reader),
    )


def _provenance(model: Model | Learner, reader: "_Reader") -> dict[str, Any]:
    """Return the fields of an explanation that a bare learner knows little of."""
    if not isinstance(model, Model):
        return {"learner": model.name, "events": None, "findings": reader.findings}
    files = [str(name).rpartition("/")[2] for name in model.session.get("sources", {})]
    return {
        "learner": model.engine.learner_name,
        "events": model.events,
        "findings": (*reader.findings, *_label_costs(model)),
        "positive": model.engine.target.positive,
        "label": model.session.get("schema", {}).get("label"),
        "data": ", ".join(files) or None,
    }


def explain_task(model: Model, task: Any) -> TaskInsight:
    """Explain one task in detail; KeyError if it is not known."""
    reader = _read(model, findings=False)
    names = [canonical_name(name) for name in reader.names]
    if canonical_name(task) not in names:
        raise KeyError(f"no task {task!r} is known")
    i = names.index(canonical_name(task))
    return reader.detailed_task(i, reader.weights.cosines(np.array([i]))[0])


def _read(model: Model | Learner, findings: bool) -> "_Reader":
    if not isinstance(model, Model):
        return _Reader(model, None, findings)
    with model.engine.at_rest() as learner:  # as long as it takes to copy, not to compute
        return _Reader(learner, model, findings)


def _label_costs(model: Model) -> tuple[str, ...]:
    audit = Audit.of(model.session)
    if model.labels is not None:
        return (f"Labels: {audit.describe(model.labels)}.",)
    error = audit.error()
    if error is None:
        return ()
    return (f"Error of all predictions by audit: {error}.",)


@dataclass(frozen=True)
class TaskWeights:
    """W = ``left`` @ ``right``.T + ``own`` of some tasks, never as a (d, m) array.

    With rank r, costs are O(d r + m r) and the non-zeros of ``own``.
    """

    left: Numbers  # (d, r)
    right: Numbers  # (m, r)
    own: csc_array  # (d, m)
    spectrum: Numbers  # singular values of U, largest first
    note: str | None = None
    per_feature: int = 1  # rows of each feature: one for each of many classes

    @classmethod
    def of(cls, learner: Learner, tasks: NDArray[np.int64]) -> "TaskWeights":
        """Return the learner's own parts, or its weights split at their mean."""
        if isinstance(learner, Decomposed):
            left, right = learner.shared_factors()
            own = learner.personal_sparse()
            return cls(left, right[tasks], own[:, tasks], learner.singular_values())
        W = learner.weights()[:, tasks]
        per_feature = 1
        if W.ndim == 3:  # a task's weights of all classes, as one column
            per_feature = W.shape[2]
            W = W.transpose(0, 2, 1).reshape(-1, len(tasks))
        mean = np.zeros((len(W), 1))
        if W.size:
            mean = W.mean(axis=1, keepdims=True)
        right = np.ones((len(tasks), 1))
        note = f"{learner.name} keeps no parts: shared is the mean of all tasks' weights."
        return cls(mean, right, csc_array(W - mean), spectrum(mean, right), note, per_feature)

    def per_spread(self, spread: Numbers) -> "TaskWeights":
        """Return effects per standard deviation of a column, so that units do not matter."""
        unit = np.repeat(spread, self.per_feature)[:, None]
        return replace(self, left=unit * self.left, own=csc_array(self.own.multiply(unit)))

    def shared(self) -> Numbers:
        """Norm (m,) of each column of U."""
        return np.sqrt(np.maximum(0.0, ((self.right @ self._gram()) * self.right).sum(axis=1)))

    def personal(self) -> Numbers:
        """Norm (m,) of each column of V."""
        return column_lengths(self.own)

    def cosines(self, some: NDArray[np.int64]) -> Numbers:
        """Cosines (k, m) of some tasks' weights with those of all; 0 where weights are 0."""
        gram = self.right @ self._gram()  # (m, r)
        across = self.own.T @ self.left  # (m, r)
        squares = ((gram + 2.0 * across) * self.right).sum(axis=1) + self.personal() ** 2
        lengths = np.sqrt(np.maximum(squares, 0.0))
        inner = (gram + across)[some] @ self.right.T + self.right[some] @ across.T
        inner += (self.own[:, some].T @ self.own).toarray()
        scale = np.outer(lengths[some], lengths)
        return np.divide(inner, scale, out=np.zeros_like(inner), where=scale > 0.0)

    def largest(self, task: int, n: int) -> list[tuple[int, float]]:
        """Rows and values of the ``n`` largest entries of a task's column of V.

        With many classes, row f * ``per_feature`` + k is that of feature f and class k.
        """
        begin, end = self.own.indptr[task : task + 2]
        values = self.own.data[begin:end]
        rows = self.own.indices[begin:end]
        order = np.lexsort((rows, -np.abs(values)))[:n]
        return [(int(rows[k]), float(values[k])) for k in order if values[k] != 0.0]

    def mean(self) -> Numbers:
        """Mean weights (d,) over tasks."""
        tasks = max(len(self.right), 1)
        own = np.asarray(self.own.sum(axis=1)).ravel() / tasks
        return np.asarray(self.left @ (self.right.sum(axis=0) / tasks) + own)

    def _gram(self) -> Numbers:
        return self.left.T @ self.left


class _Reader:
    """Values read from a model or a bare learner, by the number of a task in ``names``."""

    def __init__(self, learner: Learner, model: Model | None, findings: bool) -> None:
        self.learner, self.model = learner, model
        self.names: list[Any] = list(range(learner.n_tasks))
        self.numbers = np.arange(learner.n_tasks)
        self.n_features = learner.n_features
        self.sign = 1.0  # sign of the learner's margins for the positive label
        if model is not None:
            self.names = model.tasks
            self.numbers = model.engine.tasks.numbers(self.names)
            self.n_features = model.features.width
            self.sign = model.engine.target.turn
        self.weights = TaskWeights.of(learner, self.numbers)
        self.average, self.spread = _moments(learner)
        if self.spread is not None:
            self.weights = self.weights.per_spread(self.spread)
        self.shared = self.weights.shared()
        self.personal = self.weights.personal()
        self.levels = self._levels()
        self.findings = tuple(self._class_effects())
        groups = None
        if findings:
            self.findings += tuple(learner.findings(self.numbers))
            if 1 < learner.n_tasks <= MAX_GROUPED_TASKS:
                groups = learner.groups()
        self.groups = None if groups is None else groups[self.numbers].tolist()
        judged = personal_tasks(learner)
        self.different = self.personal > 0.0
        if judged is not None:
            self.different = judged[self.numbers]
        by_weights = np.where(self.different, ALONE, "related").tolist()
        self.kinds = learner.kinds_of(self.numbers) or by_weights

    def task(self, i: int, **detail: Any) -> TaskInsight:
        """Return a task without details, or with ``detail``."""
        name = self.names[i]
        events = since = group = level = None
        if self.model is not None:
            events = self.model.engine.events_of(name)
            since = self.model.engine.personal_since(name)
        if self.groups is not None:
            group = self.groups[i]
        if self.levels is not None:
            level = float(self.levels[i])
        return TaskInsight(
            task=name,
            events=events,
            shared=float(self.shared[i]),
            personal=float(self.personal[i]),
            since=since,
            different=bool(self.different[i]),
            kind=self.kinds[i],
            group=group,
            level=level,
            **detail,
        )

    def detailed_task(self, i: int, cosines: Numbers) -> TaskInsight:
        """Return a task with its largest personal effects and its most similar tasks."""
        return self.task(i, nearest=self._nearest(i, cosines), features=self._features(i))

    def effects(self, n: int = 8) -> tuple[tuple[Any, float], ...]:
        """Largest effects, mean over tasks, of two classes or numbers."""
        if self.weights.per_feature > 1 or not self.names:
            return ()
        return self._largest(self.sign * self.weights.mean()[: self.n_features], n)

    def notes(self) -> list[str]:
        """Return what a reader must know of the numbers."""
        notes = []
        if self.weights.note is not None:
            notes.append(self.weights.note)
        if self.model is not None and self.different.any():
            every = f"looked at every {PERSONAL_CHECK_EVENTS:,}"
            notes.append(f"Since: events of all tasks when it was found different; {every}.")
        return notes

    def _levels(self) -> Numbers | None:
        """Prediction (m,) of each task for the average event; None where it is not known."""
        model = self.model
        if self.average is None or model is None or not self.names:
            return None
        kind = model.engine.target.kind
        columns = np.flatnonzero(self.average).astype(np.int32)
        if kind == "classes" or len(columns) * len(self.names) > MAX_LEVEL_ENTRIES:
            return None
        m = len(self.names)
        starts = (np.arange(m + 1) * len(columns)).astype(np.int32)
        rows = Sparse(np.tile(self.average[columns], m), np.tile(columns, m), starts)
        margins = self.sign * predict(self.learner, rows, self.numbers)
        if kind == "number":
            return margins
        return model.engine.probability_of(margins)

    def _class_effects(self) -> list[str]:
        """Sentences on the features for each of many classes."""
        model = self.model
        if model is None or model.engine.target.kind != "classes" or not self.names:
            return []
        W = self.weights.mean().reshape(-1, self.weights.per_feature)[: model.features.width]
        lines = []
        for label, weights in zip(model.classes[:SHOWN_CLASSES], W.T, strict=False):
            effects = self._largest(weights, SHOWN_FEATURES)
            text = "nothing yet"
            if effects:
                text = pairs(effects, EFFECT)
            lines.append(f"For {label}: {text}.")
        more = min(len(model.classes), W.shape[1]) - SHOWN_CLASSES
        if more > 0:
            lines.append(f"And {more:,} more classes.")
        return lines

    def _largest(self, w: Numbers, n: int) -> tuple[tuple[Any, float], ...]:
        order = np.argsort(-np.abs(w), kind="stable")[:n].tolist()
        return tuple((self._name(j), float(w[j])) for j in order if w[j] != 0.0)

    def _name(self, j: int) -> Any:
        if self.model is None:
            return j
        return feature_name(self.model, j)

    def _nearest(self, i: int, cosines: Numbers, n: int = 3) -> tuple[tuple[Any, float], ...]:
        most = np.argsort(-cosines, kind="stable")[: n + 1]
        return tuple((self.names[j], float(cosines[j])) for j in most if j != i)[:n]

    def _features(self, i: int, n: int = 5) -> tuple[tuple[Any, float], ...]:
        features = []
        for row, value in self.weights.largest(i, n):
            feature, k = divmod(row, self.weights.per_feature)
            if feature < self.n_features:
                name = self._name(feature)
                if self.weights.per_feature > 1:
                    name = f"{name} for {self._class_name(k)}"
                features.append((name, self.sign * value))
        return tuple(features)

    def _class_name(self, k: int) -> Any:
        if self.model is None or k >= len(self.model.classes):
            return f"class {k}"
        return self.model.classes[k]


def _moments(learner: Learner) -> tuple[Numbers | None, Numbers | None]:
    """Mean and standard deviation (d,) of each feature, where the learner knows them."""
    if isinstance(learner, Classes) and learner.at_once() is None:
        learner = learner.members()[0]
    return learner.feature_moments() or (None, None)
