"""Predictions of every row of a comparison: baselines, controls, ROMCO-Auto, other learners."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from romco.evaluation import baselines
from romco.learners import LEARNERS, Learner, learner
from romco.learners.capabilities import GivesProbabilities
from romco.learners.registry import number_learner
from romco.model import Scale
from romco.model.target import logistic
from romco.rounds import Features, Rounds
from romco.streams import Stream

Numbers = NDArray[np.float64]
ENGINE = "romco-auto"

# What a row may use, in the order of the table.
FREQUENCY, HISTORY = "frequency", "history"
WITHOUT_TASK, TASK_COLUMN = "without-task", "task-column"
POOLED, ALONE = "pooled", "alone"
IGNORE_TASK = (FREQUENCY, WITHOUT_TASK, POOLED)
KNOW_TASK = (HISTORY, TASK_COLUMN, ALONE)
CONTROLS = (FREQUENCY, HISTORY, WITHOUT_TASK, TASK_COLUMN, POOLED, ALONE)
TITLES = {
    FREQUENCY: ("Overall frequency", "Overall mean"),
    HISTORY: ("Past answers of the task", "Past mean of the task"),
    WITHOUT_TASK: ("ROMCO-Auto without the task",) * 2,
    TASK_COLUMN: ("ROMCO-Auto, task as category",) * 2,
    POOLED: ("One logistic regression", "One ridge regression"),
    ALONE: ("Logistic regression per task", "Ridge regression per task"),
}
MEANINGS = {
    FREQUENCY: "the frequency of the answers so far, or their mean; it knows neither the task "
    "nor any column",
    HISTORY: "the task's own past answers, shrunk towards those of all tasks while they are few",
    WITHOUT_TASK: "the same method as the last row, but it is not told the task",
    TASK_COLUMN: "the same, with the task as one more category",
    POOLED: "Bayesian regression on scaled columns; it is not told the task",
    ALONE: "the same, one for each task; it begins with the overall frequency",
    ENGINE: "a model for each task that learns from the other tasks as far as they are alike",
}


@dataclass(frozen=True)
class Predictions:
    """Probabilities (n, K), or numbers (n,), each made before its answer was known."""

    values: Numbers
    seconds: float
    learner: Learner | None = None  # as it is at the end


def title_of(row: str, number: bool = False) -> str:
    """Return the name of a row as tables print it."""
    if row in TITLES:
        return TITLES[row][number]
    if row in LEARNERS:
        return LEARNERS[row].title
    return row


def predict(row: str, stream: Stream, rounds: Rounds, parameters: Mapping[str, Any]) -> Predictions:
    """Predict all events of ``rounds`` in their order, each before it is learned.

    Every row knows the offset, if there is one: of numbers it predicts what the offset leaves.
    """
    begin = time.process_time()
    events = rounds.events
    offset = np.zeros(())
    if stream.answers == 0 and events.offset is not None:
        offset = events.offset
        rounds = Rounds(events.task, events.x, events.y - offset, rounds.starts - rounds.starts[0])
    values, model = _predict(row, stream, rounds, parameters)
    return Predictions(values + offset, time.process_time() - begin, model)


def _predict(
    row: str, stream: Stream, rounds: Rounds, parameters: Mapping[str, Any]
) -> tuple[Numbers, Learner | None]:
    task, x, y, _, offset = rounds.events
    group = np.zeros_like(task) if row in IGNORE_TASK else task
    if row in (FREQUENCY, HISTORY):
        if offset is not None:  # and an intercept
            return _regression(stream, group, np.empty((len(y), 0)), y, offset), None
        return _from_answers(row, stream, task, y), None
    if row in (POOLED, ALONE):
        return _regression(stream, group, x, y, offset), None
    if row not in (WITHOUT_TASK, TASK_COLUMN):
        return _learned(row, stream, stream.n_tasks, rounds, parameters)
    if row == TASK_COLUMN:
        one_hot = (np.ones(len(y)), (np.arange(len(y)), task))
        x = csr_array(hstack([csr_array(x), csr_array(one_hot, shape=(len(y), stream.n_tasks))]))
    singly = Rounds(np.zeros_like(task), x, y, np.arange(len(y) + 1), offset=offset)
    return _learned(ENGINE, stream, 1, singly, parameters)


def class_numbers(stream: Stream, y: Numbers) -> NDArray[np.intp]:
    """Return the answers as class numbers: 0 and 1 for -1 and +1."""
    if stream.answers == 1:
        return (y > 0).astype(np.intp)
    return y.astype(np.intp)


def _from_answers(row: str, stream: Stream, task: NDArray[np.int64], y: Numbers) -> Numbers:
    if stream.answers == 0:
        if row == FREQUENCY:
            return baselines.mean(y)
        return baselines.shrunk_task_mean(y, task)
    classes = class_numbers(stream, y)
    n_classes = max(stream.answers, 2)
    if row == FREQUENCY:
        return baselines.class_rates(classes, n_classes)
    return baselines.task_class_rates(classes, task, n_classes)


def _regression(
    stream: Stream, group: NDArray[np.int64], x: Features, y: Numbers, offset: Numbers | None
) -> Numbers:
    """Regression of each group on its own; it begins with the offset, else the overall rate."""
    if stream.answers == 0:
        origin = y[0]  # one answer tells the level
        unit = float(y.std()) or 1.0
        z = (y - origin) / unit
        return origin + unit * regress(group, x, z, baselines.mean(z)[:, None], "number")[:, 0]
    classes = class_numbers(stream, y)
    n_classes = max(stream.answers, 2)
    log_rates = np.log(baselines.class_rates(classes, n_classes))
    if stream.answers == 1:
        odds = log_rates[:, 1] - log_rates[:, 0] if offset is None else offset
        positive = regress(group, x, classes.astype(float), odds[:, None], "two classes")
        return np.column_stack([1.0 - positive, positive])
    return regress(group, x, classes.astype(float), log_rates, "classes")


def _learned(
    name: str, stream: Stream, n_tasks: int, rounds: Rounds, parameters: Mapping[str, Any]
) -> tuple[Numbers, Learner]:
    """Replay a learner; its scores become probabilities, or are numbers already."""
    shape, y = (rounds.events.x.shape[1], n_tasks), rounds.events.y
    if stream.answers == 0:
        model = learner(number_learner(name), *shape, **parameters)
        return model.replay(rounds), model
    if stream.answers > 1:
        inner: dict[str, Any] = {"inner": name, "parameters": dict(parameters)}
        model = learner("classes", *shape, n_classes=stream.answers, **inner)
        return np.exp(model.replay(rounds)), model
    model = learner(name, *shape, **parameters)
    margins = model.replay(rounds)
    if not isinstance(model, GivesProbabilities):
        margins = _platt_scaled(margins, y)
    positive = logistic(margins)
    return np.column_stack([1.0 - positive, positive]), model


def _platt_scaled(margins: Numbers, y: Numbers) -> Numbers:
    """Log-odds of margins by a factor learned along the stream, as :class:`romco.Model` does."""
    scale = Scale()
    factors = np.empty(len(y))
    for e, (margin, answer) in enumerate(zip(margins.tolist(), y.tolist(), strict=True)):
        factors[e] = scale.log_a
        scale.add(margin, answer)
    return np.exp(factors) * margins


# Bayesian online regression on scaled columns: the control that a sceptic would fit.

PRIOR_VARIANCES = np.array([0.003, 0.03, 0.3, 3.0, 30.0])  # averaged by their past likelihood
INTERCEPT_VARIANCE = 1.0
MAX_DENSE_COLUMNS = 256
MAX_COVARIANCE_ENTRIES = 200_000  # of all classes and priors; beyond, only variances are kept
EVIDENCE_DECAY = 0.999
PROBIT = np.pi / 8.0  # MacKay's factor: margins shrink by their variance


def regress(
    group: NDArray[np.int64], x: Features, y: Numbers, offset: Numbers, target: str
) -> Numbers:
    """Predict each event from the earlier events of its group, one regression per group.

    Logistic regression for "two classes", softmax regression for "classes" and linear regression
    for "number", with a Gaussian posterior. Columns are centred and scaled by their mean and
    standard deviation over all rows (wide sparse ones by their root mean square): hindsight that
    can only help.

    ``y`` (n,) is 0 or 1, class numbers, or numbers; ``offset`` (n, K) the scores before anything of
    the group is known. Returns P(1) (n, 1), probabilities (n, K), or numbers (n, 1).
    """
    predicted = np.empty_like(offset)
    rows = _scaled(x)
    for members in groups(group):
        part = rows[members]
        fit = _dense if isinstance(part, np.ndarray) else _sparse
        predicted[members] = fit(part, y[members], offset[members], target)
    return predicted


def groups(group: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Return the numbers of the events of each group, in their order."""
    order = np.argsort(group, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(group[order])) + 1)


def _scaled(x: Features) -> Numbers | csr_array:
    """Scaled columns and a last one of ones."""
    n, d = x.shape
    if d <= MAX_DENSE_COLUMNS:
        if not isinstance(x, np.ndarray):
            x = x.toarray()
        dense = np.asarray(x, dtype=np.float64)
        spread = dense.std(axis=0)
        centred = (dense - dense.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        return np.column_stack([centred, np.ones(n)])
    sparse = csr_array(x)
    squares = np.bincount(sparse.indices, sparse.data**2, minlength=d)
    counts = np.bincount(sparse.indices, minlength=d)
    size = np.sqrt(squares / np.maximum(counts, 1))
    values = sparse.data / np.where(size > 0.0, size, 1.0)[sparse.indices]
    scaled = csr_array((values, sparse.indices, sparse.indptr), shape=(n, d))
    return csr_array(hstack([scaled, np.ones((n, 1))]))


class _Mixture:
    """Predictions of all priors, averaged by how likely they made the past of this group."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.evidence = np.zeros(len(PRIOR_VARIANCES))

    def predict(self, margins: Numbers, variances: Numbers) -> tuple[Numbers, Numbers]:
        """Return predictions of each prior (S, K), and their average (K,)."""
        each = margins
        if self.target != "number":
            each = margins / np.sqrt(1.0 + PROBIT * variances)
        if self.target == "two classes":
            each = logistic(each)
        elif self.target == "classes":
            each = np.exp(each - each.max(axis=1, keepdims=True))
            each /= each.sum(axis=1, keepdims=True)
        weight = np.exp(self.evidence - self.evidence.max())
        return each, (weight / weight.sum()) @ each

    def learn(self, each: Numbers, y: float) -> tuple[Numbers, Numbers]:
        """Update the evidence; return gradients and curvatures (S, K) at the true answer."""
        if self.target == "number":
            error = each - y
            self.evidence = EVIDENCE_DECAY * self.evidence - np.square(error[:, 0])
            return error, np.ones_like(error)
        gradient = each.copy()
        if self.target == "two classes":
            gradient -= y
            true = 1.0 - np.abs(gradient[:, 0])
        else:
            gradient[:, int(y)] -= 1.0
            true = each[:, int(y)]
        self.evidence = EVIDENCE_DECAY * self.evidence + np.log(np.maximum(true, 1e-15))
        return gradient, each * (1.0 - each)


def _dense(z: Numbers, y: Numbers, offset: Numbers, target: str) -> Numbers:
    """One regression with a full covariance matrix, where it is small enough."""
    n, d = z.shape
    k = offset.shape[1]
    s = len(PRIOR_VARIANCES)
    if s * k * d * d > MAX_COVARIANCE_ENTRIES:
        return _sparse(csr_array(z), y, offset, target)
    w = np.zeros((s, k, d))
    prior = np.tile(PRIOR_VARIANCES[:, None], (1, d))
    prior[:, -1] = INTERCEPT_VARIANCE
    covariance = np.repeat((prior[:, :, None] * np.eye(d))[:, None], k, axis=1)
    predicted = np.empty((n, k))
    mixture = _Mixture(target)
    for e in range(n):
        direction = covariance @ z[e]  # (s, k, d)
        variance = direction @ z[e]
        each, predicted[e] = mixture.predict(offset[e] + w @ z[e], variance)
        gradient, curvature = mixture.learn(each, y[e])
        gain = 1.0 / (1.0 + curvature * variance)
        w -= (gain * gradient)[..., None] * direction
        covariance -= (curvature * gain)[..., None, None] * (
            direction[..., :, None] * direction[..., None, :]
        )
    return predicted


def _sparse(z: csr_array, y: Numbers, offset: Numbers, target: str) -> Numbers:
    """One regression with the variances of the weights alone, on the columns that occur."""
    columns, column_of = np.unique(z.indices, return_inverse=True)
    n = len(y)
    k = offset.shape[1]
    s = len(PRIOR_VARIANCES)
    d = len(columns)
    w = np.zeros((s, k, d))
    v = np.tile(PRIOR_VARIANCES[:, None, None], (1, k, d))
    v[..., columns == z.shape[1] - 1] = INTERCEPT_VARIANCE
    predicted = np.empty((n, k))
    mixture = _Mixture(target)
    starts = z.indptr.tolist()
    for e in range(n):
        at = column_of[starts[e] : starts[e + 1]]
        values = z.data[starts[e] : starts[e + 1]]
        weights = w[..., at]
        variances = v[..., at]
        squares = values * values
        each, predicted[e] = mixture.predict(offset[e] + weights @ values, variances @ squares)
        gradient, curvature = mixture.learn(each, y[e])
        variances /= 1.0 + curvature[..., None] * variances * squares
        v[..., at] = variances
        w[..., at] = weights - variances * gradient[..., None] * values
    return predicted
