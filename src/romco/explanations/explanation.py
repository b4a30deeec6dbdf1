"""Explanation of a model: levels, effects, shared and personal weights, similar tasks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import nlargest, nsmallest
from operator import itemgetter
from threading import Lock, Thread
from time import monotonic
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from romco.choosing import Chooser, ChooserExplanation
from romco.explanations.curves import NO_CURVES, Curves, read_curves
from romco.explanations.effects import rows_of_columns
from romco.explanations.text import EFFECT, KINDS, Explanation, TaskInsight, describe_rank, pairs
from romco.labels.audit import Audit
from romco.learners import Learner
from romco.learners.auto import BaseAuto
from romco.learners.capabilities import Decomposed, column_lengths, spectrum
from romco.learners.classes import Classes
from romco.model import Model
from romco.model.body import personal_tasks, predict
from romco.model.history import feature_name
from romco.model.names import canonical_name
from romco.typing import Floats

MAX_GROUPED_TASKS = 1000  # groups cost m^2
MAX_LEVEL_ENTRIES = 5_000_000  # tasks times features of the average event
FEW_TASKS = 1000  # up to these an overview is always made anew
READING_PAUSE = 10.0  # between two readings, times as long as one took
SHOWN_CLASSES, SHOWN_FEATURES = 10, 3
WEAK_EVIDENCE = 1.0  # log-odds up to which a task has next to no evidence that it differs
NEAREST_TASKS, PERSONAL_FEATURES = 3, 5  # of a task in detail


@overload
def explain(model: Chooser, top: int = 20, findings: bool = True) -> ChooserExplanation: ...


@overload
def explain(
    model: Model | Learner, top: int = 20, findings: bool = True, task: Any = None
) -> Explanation: ...


def explain(
    model: Model | Learner | Chooser, top: int = 20, findings: bool = True, task: Any = None
) -> Explanation | ChooserExplanation:
    """Explain a model or learner, with details of the ``top`` most different tasks; or a chooser.

    With ``task`` that task comes first; KeyError if it is not known.

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
    if isinstance(model, Chooser):
        return model.explain(top)
    reader = read_model(model, findings)
    order = np.array(reader.by_difference, dtype=np.int64)
    if task is not None:
        i = reader.place(task)
        order = np.concatenate([[i], order[order != i]])
    detailed, rest = order[:top], order[top:]
    cosines = reader.weights.cosines(detailed)
    tasks = [reader.detailed_task(i, cosines[k]) for k, i in enumerate(detailed)]
    singular_values = tuple(reader.weights.spectrum.tolist())
    explanation = Explanation(
        learner=reader.learner.name,
        events=None,
        n_tasks=len(reader.names),
        n_features=reader.n_features,
        spectrum=singular_values,
        tasks=(*tasks, *map(reader.task, rest)),
        findings=reader.findings,
        classes=reader.classes,
        notes=(reader.weights.note or describe_rank(singular_values),),
        effects=reader.effects(),
        per_spread=reader.spread is not None,
        curves=tuple(reader.curves.curves.values()),
        crosses=tuple(reader.curves.crosses),
    )
    if not isinstance(model, Model):
        return explanation
    files = [str(name).rpartition("/")[2] for name in model.session.get("sources", {})]
    return replace(
        explanation,
        learner=model.engine.learner_name,
        events=model.events,
        findings=(*reader.findings, *_label_costs(model)),
        positive=model.engine.target.positive,
        label=model.session.get("schema", {}).get("label"),
        data=", ".join(files) or None,
    )


def read_model(model: Model | Learner, findings: bool) -> "ModelReader":
    """Read what a model has learned of its tasks; with the learner's ``findings`` or without."""
    if not isinstance(model, Model):
        return ModelReader(model, None, findings)
    curves = NO_CURVES
    if findings:
        curves = read_curves(model)
    with model.engine.at_rest() as learner:  # as long as it takes to copy, not to compute
        reader = ModelReader(learner, model, findings, curves)
    reader.weights.cosines(reader.numbers[:0])  # the first one of a task is as quick as the next
    return reader


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

    left: Floats  # (d, r)
    right: Floats  # (m, r)
    own: csc_array  # (d, m)
    spectrum: Floats  # singular values of U, largest first
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
            W = W.transpose(0, 2, 1)
        W = W.reshape(len(W) * per_feature, len(tasks))
        mean = np.zeros((len(W), 1))
        if W.size:
            mean = W.mean(axis=1, keepdims=True)
        right = np.ones((len(tasks), 1))
        note = "Shared are the means of all tasks' weights; personal is what differs from them."
        return cls(mean, right, csc_array(W - mean), spectrum(mean, right), note, per_feature)

    def per_spread(self, spread: Floats) -> "TaskWeights":
        """Return effects per standard deviation of a column, so that units do not matter."""
        unit = np.repeat(spread, self.per_feature)[:, None]
        return replace(self, left=unit * self.left, own=csc_array(self.own.multiply(unit)))

    @cached_property
    def shared(self) -> Floats:
        """Norm (m,) of each column of U."""
        return np.sqrt(np.maximum(0.0, ((self.right @ self._gram()) * self.right).sum(axis=1)))

    @cached_property
    def personal(self) -> Floats:
        """Norm (m,) of each column of V."""
        return column_lengths(self.own)

    def cosines(self, some: NDArray[np.int64]) -> Floats:
        """Cosines (k, m) of some tasks' weights with those of all; 0 where weights are 0."""
        factors, others, unit_factors, unit_own = self._products
        cosines = np.zeros((len(some), len(self.right)))
        for k, task in enumerate(some):
            own = self.own[:, [task]].toarray().ravel()
            length = np.sqrt(max(0.0, others[task] @ factors[task] + own @ own))
            if length > 0.0:
                cosines[k] = (unit_factors @ others[task] + unit_own @ own) / length
        return cosines

    @cached_property
    def _products(self) -> tuple[Floats, Floats, Floats, Any]:
        """Factors (m, 2 r) whose products are those of weights but for V with V; unit vectors."""
        gram = self.right @ self._gram()
        across = self.own.T @ self.left
        factors = np.hstack([self.right, across])
        others = np.hstack([gram + across, self.right])
        squares = (factors * others).sum(axis=1) + self.personal**2
        lengths = np.sqrt(np.maximum(squares, 0.0))
        scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
        return (
            factors,
            others,
            scale[:, None] * factors,
            csr_array(self.own.T.multiply(scale[:, None])),
        )

    def largest(self, task: int, n: int, without: set[int]) -> list[tuple[int, float]]:
        """Rows and values of the ``n`` largest entries of a task's column of V.

        With many classes, row f * ``per_feature`` + k is that of feature f and class k.
        """
        begin, end = self.own.indptr[task : task + 2]
        values, rows = self.own.data[begin:end], self.own.indices[begin:end]
        order = np.lexsort((rows, -np.abs(values)))
        kept = (values[order] != 0.0) & ~np.isin(rows[order] // self.per_feature, list(without))
        order = order[kept][:n]
        return list(zip(rows[order].tolist(), values[order].tolist(), strict=True))

    def mean(self) -> Floats:
        """Mean weights (d,) over tasks."""
        tasks = max(len(self.right), 1)
        own = np.asarray(self.own.sum(axis=1)).ravel() / tasks
        return np.asarray(self.left @ (self.right.sum(axis=0) / tasks) + own)

    def _gram(self) -> Floats:
        return self.left.T @ self.left


class ModelReader:
    """Values read from a model or a bare learner, by the place of a task in ``names``."""

    def __init__(
        self,
        learner: Learner,
        model: Model | None,
        findings: bool,
        curves: Curves = NO_CURVES,
    ) -> None:
        self.learner, self.model, self.curves = learner, model, curves
        self.names: list[Any] = list(range(learner.n_tasks))
        self.numbers = np.arange(learner.n_tasks)
        self.sign = 1.0  # sign of the learner's margins for the positive label
        self.n_features = learner.n_features
        if model is not None:
            tasks = sorted(model.engine.tasks.items(), key=itemgetter(1))
            self.names = list(map(itemgetter(0), tasks))
            self.numbers = np.array(list(map(itemgetter(1), tasks)), dtype=np.int64)
            self.sign = model.engine.target.sign
            self.n_features = model.features.width
        self.weights = TaskWeights.of(learner, self.numbers)
        self.values_met = _values_met(learner, self.numbers)
        self.average: Floats | None  # of each feature, where the learner knows it
        self.spread: Floats | None
        self.average, self.spread = _inner_learners(learner)[0].feature_moments() or (None, None)
        if self.spread is not None:
            self.weights = self.weights.per_spread(self.spread)
        self.levels: Floats | None = None
        self.findings: tuple[str, ...] = ()
        self.classes: tuple[str, ...] = ()
        self.groups: list[int] | None = None
        if findings:
            self.levels = self._levels()
            self.findings = tuple(learner.findings(self.numbers))
            self.classes = tuple(self._class_effects())
            self.groups = self._groups()
        judged = personal_tasks(learner)
        if judged is None:
            self.different = self.weights.personal > 0.0
        else:
            self.different = judged[self.numbers]
        self.evidence = learner.difference()
        if self.evidence is not None:
            self.evidence = self.evidence[self.numbers]
        self.kinds = np.array(KINDS)[self.different.astype(int)].tolist()

    def _groups(self) -> list[int] | None:
        """Return the group of each task, where they are few and the learner has groups."""
        if not 1 < self.learner.n_tasks <= MAX_GROUPED_TASKS:
            return None
        groups = self.learner.groups()
        if groups is None:
            return None
        numbers: list[int] = groups[self.numbers].tolist()
        return numbers

    def task(self, i: int, **detail: Any) -> TaskInsight:
        """Return a task without details, or with those given."""
        name = self.names[i]
        events = since = None
        if self.model is not None:
            events = self.model.engine.events_of(name)
            since = self.model.engine.personal_since(name)
        if self.groups is not None:
            detail["group"] = self.groups[i]
        if self.levels is not None:
            detail["level"] = float(self.levels[i])
        return TaskInsight(
            task=name,
            events=events,
            shared=float(self.weights.shared[i]),
            personal=float(self.weights.personal[i]),
            since=since,
            different=bool(self.different[i]),
            kind=self.kinds[i],
            **detail,
        )

    @cached_property
    def by_difference(self) -> list[int]:
        """Places of all tasks: different ones first, then by the evidence that they are.

        Where that is weak, tasks with more events come first. The norm of V stands for it where the
        learner knows no evidence.
        """
        evidence = self.weights.personal
        events: NDArray[Any] = np.zeros(len(self.names))
        if self.evidence is not None:
            evidence = np.maximum(self.evidence, WEAK_EVIDENCE)
        if self.model is not None:
            events = self.model.engine.counts.seen[self.numbers]
        order: list[int] = np.lexsort((-events, -evidence, ~self.different)).tolist()
        return order

    @cached_property
    def _folded(self) -> list[str]:
        return list(map(str.casefold, map(str, self.names)))

    def search(self, word: str) -> list[int]:
        """Places of the tasks whose name holds a word, the most different first."""
        word = word.casefold()
        return [i for i in self.by_difference if word in self._folded[i]]

    def column(self, name: str) -> list[Any]:
        """Values of all tasks of a field of :class:`TaskInsight`: a name, a text or a number."""
        if name == "task":
            return self.names
        if name == "kind":
            return self.kinds
        if name == "events" and self.model is not None:
            return list(map(int, self.model.engine.counts.seen[self.numbers]))
        if name == "share":
            shared, personal = self.weights.shared, self.weights.personal
            values = personal / np.where(personal > 0.0, shared + personal, 1.0)
        else:
            values = getattr(self.weights, name)
        column: list[Any] = values.tolist()
        return column

    def first(self, n: int, places: list[int], values: list[Any], descending: bool) -> list[int]:
        """The first ``n`` places in the order of the values of all tasks; None comes first."""

        def key(i: int) -> tuple[bool, bool, Any]:
            value = values[i]
            if value is None:
                return False, False, 0
            return True, isinstance(value, str), value

        if descending:
            return nlargest(n, places, key=key)
        return nsmallest(n, places, key=key)

    def find(self, task: Any) -> int:
        """Place of a task, -1 if it was not known when the model was read."""
        if self.model is None:
            return -1
        number = self.model.engine.tasks.find(task)
        i = int(np.searchsorted(self.numbers, number))
        found = i < len(self.numbers) and self.numbers[i] == number
        if found and canonical_name(self.names[i]) == canonical_name(task):
            return i
        return -1

    def place(self, task: Any) -> int:
        """Place of a task; KeyError if it was not known when the model was read."""
        i = self.find(task)
        if i < 0:
            raise KeyError(f"no task {task!r} is known")
        return i

    def explain_task(self, task: Any) -> TaskInsight:
        """Return a task in detail; KeyError if it was not known when the model was read."""
        i = self.place(task)
        return self.detailed_task(i, self.weights.cosines(np.array([i]))[0])

    def detailed_task(self, i: int, cosines: Floats) -> TaskInsight:
        """Return a task with its largest personal effects and its most similar tasks."""
        return self.task(i, nearest=self._nearest(i, cosines), features=self._features(i))

    def effects(self, n: int = 8) -> tuple[tuple[Any, float], ...]:
        """Effects of the columns that matter most: mean over tasks, or slope of the curve."""
        if self.weights.per_feature > 1 or not self.names:
            return ()
        effects = self.sign * self.weights.mean()[: self.n_features]
        sizes = np.abs(effects)
        for column, curve in self.curves.curves.items():
            effects[column] = curve.slope
            if self.spread is not None:
                effects[column] *= self.spread[column]
            sizes[column] = curve.size
        return self._largest(effects, sizes, n)

    def _levels(self) -> Floats | None:
        """Prediction (m,) of each task for the average event; None where it is not known.

        That is where columns add their average: a curve may add more or less at the mean value.
        """
        model = self.model
        if self.average is None or model is None or not self.names:
            return None
        kind = model.engine.target.kind
        columns = np.flatnonzero(self.average)
        if kind == "classes" or len(columns) * len(self.names) > MAX_LEVEL_ENTRIES:
            return None
        rows = rows_of_columns(columns, np.tile(self.average[columns], (len(self.names), 1)))
        margins = self.sign * predict(self.learner, rows, self.numbers) - self.curves.at_average
        if kind == "number":
            return margins
        return model.engine.probability_of(margins)

    def _class_effects(self) -> list[str]:
        """Sentences on the features for each of many classes."""
        model = self.model
        if model is None or model.engine.target.kind != "classes" or not self.names:
            return []
        W = self.weights.mean().reshape(-1, self.weights.per_feature)[: model.features.width]
        classes = model.classes[: W.shape[1]]
        lines = []
        for weights, label in zip(W.T, classes[:SHOWN_CLASSES], strict=False):
            effects = self._largest(weights, np.abs(weights), SHOWN_FEATURES)
            text = "nothing yet"
            if effects:
                text = pairs(effects, EFFECT)
            lines.append(f"For {label}: {text}.")
        more = len(classes) - SHOWN_CLASSES
        if more > 0:
            lines.append(f"And {more:,} more classes.")
        return lines

    def _largest(self, effects: Floats, sizes: Floats, n: int) -> tuple[tuple[Any, float], ...]:
        """Names and effects of the ``n`` columns with the largest sizes; none of size 0."""
        order = np.argsort(-sizes, kind="stable")[:n]
        order = order[sizes[order] != 0.0]
        names = map(self._name, order.tolist())
        return tuple(zip(names, effects[order].tolist(), strict=True))

    def _name(self, j: int) -> Any:
        if self.model is None:
            return j
        return feature_name(self.model, j)

    def _nearest(self, i: int, cosines: Floats) -> tuple[tuple[Any, float], ...]:
        least = -np.inf
        if len(cosines) > NEAREST_TASKS:
            least = np.partition(cosines, -NEAREST_TASKS - 1)[-NEAREST_TASKS - 1]
        near = np.flatnonzero(cosines >= least)
        most = near[np.argsort(-cosines[near], kind="stable")[: NEAREST_TASKS + 1]]
        others = most[most != i][:NEAREST_TASKS]
        return tuple((self.names[j], float(cosines[j])) for j in others)

    def _features(self, i: int) -> tuple[tuple[Any, float], ...]:
        per, features = self.weights.per_feature, []
        for j, value in self.weights.largest(i, PERSONAL_FEATURES, self._fixed(i)):
            if j < self.n_features * per:
                name = self._name(j // per)
                if per > 1:
                    name = f"{name} for {self._class_title(j % per)}"
                features.append((name, self.sign * value))
        return tuple(features)

    def _fixed(self, i: int) -> set[int]:
        """Features of columns that did not vary within a task: they say no more than its level.

        A number is one feature; a category is fixed if the task has met no other of its column.
        """
        if self.values_met is None or self.model is None or self.model.schema is None:
            return set()
        values = self.values_met[: self.n_features, [i]].tocoo()
        met: dict[str, list[int]] = {}
        for j in values.row.tolist():
            column = str(self._name(j)).partition("=")[0]
            met.setdefault(column, []).append(j)
        fixed = set(values.row[values.data == 1].tolist())
        for column, features in met.items():
            if column not in self.model.schema.columns or len(features) > 1:
                fixed.difference_update(features)
        return fixed

    def _class_title(self, k: int) -> Any:
        if self.model is None or k >= len(self.model.classes):
            return f"class {k}"
        return self.model.classes[k]


class Overview:
    """Overview of a model that goes on learning, for any thread.

    A model with many tasks is read in the background, so that what was read may be a moment old.
    ``version`` gives the number of the last change, and how often a task was forgotten: what was
    read before that is not used again.
    """

    def __init__(self, model: Model, version: Callable[[], tuple[int, int]]) -> None:
        self.reading = Lock()  # one at a time: it may be work
        self._model, self._version = model, version
        self._reader: ModelReader | None = None
        self._at = (-1, 0)  # its version
        self._again = 0.0  # time at which it may be read again

    def read(self, task: Any = None) -> ModelReader:
        """Return what was read; it knows ``task``, if the model does."""
        reader, version, now = self._reader, self._at, self._version()
        if reader is None or version[1] != now[1]:
            return self._read()
        if version == now:
            return reader
        if len(reader.names) <= FEW_TASKS or (task is not None and reader.find(task) < 0):
            return self._read()
        if monotonic() > self._again and not self.reading.locked():
            Thread(target=self._read, name="romco-overview").start()
        return reader

    def _read(self) -> ModelReader:
        with self.reading:
            version = self._version()
            if self._reader is None or self._at != version:
                begin = monotonic()
                self._reader = read_model(self._model, findings=False)
                self._at, end = version, monotonic()
                self._again = end + READING_PAUSE * (end - begin)
            return self._reader


def _inner_learners(learner: Learner) -> list[Any]:
    """Learners that have a feature's statistics: one, or one for each pair of classes."""
    if not isinstance(learner, Classes):
        return [learner]
    at_once = learner.at_once()
    if at_once is None:
        return list(learner.members())
    return [at_once]


def _values_met(learner: Learner, tasks: NDArray[np.int64]) -> csc_array | None:
    """Return how many values of a feature tasks have met (d, m): 1, or 2 for several.

    Pairs of classes have events in common: what has one value in each of them has one in all.
    """
    found = None
    for inner in _inner_learners(learner):
        if not isinstance(inner, BaseAuto):
            return None
        values = inner.values_met()[:, tasks]
        if found is not None:
            values = values.maximum(found)
        found = values
    return found
