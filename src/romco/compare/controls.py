"""Predictions of every row of a comparison: baselines, controls, ROMCO-Auto, other learners."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from romco.compare.regression import regress
from romco.evaluation import baselines
from romco.learners import LEARNERS, Learner, learner
from romco.learners.capabilities import GivesProbabilities
from romco.learners.registry import number_learner
from romco.model import Scale
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
    return LEARNERS[row].title if row in LEARNERS else row


def predict(row: str, stream: Stream, rounds: Rounds, parameters: Mapping[str, Any]) -> Predictions:
    """Predict all events of ``rounds`` in their order, each before it is learned."""
    begin = time.process_time()
    values, model = _predict(row, stream, rounds, parameters)
    return Predictions(values, time.process_time() - begin, model)


def _predict(
    row: str, stream: Stream, rounds: Rounds, parameters: Mapping[str, Any]
) -> tuple[Numbers, Learner | None]:
    task, x, y, *_ = rounds.events
    if row in (FREQUENCY, HISTORY):
        return _from_answers(row, stream, task, y), None
    if row == POOLED:
        return _regression(stream, np.zeros_like(task), x, y), None
    if row == ALONE:
        return _regression(stream, task, x, y), None
    if row == WITHOUT_TASK:
        return _learned(ENGINE, stream, 1, _singly(np.zeros_like(task), x, y), parameters)
    if row == TASK_COLUMN:
        one_hot = (np.ones(len(y)), (np.arange(len(y)), task))
        wide = csr_array(hstack([csr_array(x), csr_array(one_hot, shape=(len(y), stream.n_tasks))]))
        return _learned(ENGINE, stream, 1, _singly(np.zeros_like(task), wide, y), parameters)
    return _learned(row, stream, stream.n_tasks, rounds, parameters)


def class_numbers(stream: Stream, y: Numbers) -> NDArray[np.intp]:
    """Return the answers as class numbers: 0 and 1 for -1 and +1."""
    return (y > 0).astype(np.intp) if stream.answers == 1 else y.astype(np.intp)


def _from_answers(row: str, stream: Stream, task: NDArray[np.int64], y: Numbers) -> Numbers:
    if stream.answers == 0:
        return baselines.mean(y) if row == FREQUENCY else baselines.shrunk_task_mean(y, task)
    classes, n_classes = class_numbers(stream, y), max(stream.answers, 2)
    if row == FREQUENCY:
        return baselines.class_rates(classes, n_classes)
    return baselines.task_class_rates(classes, task, n_classes)


def _regression(stream: Stream, group: NDArray[np.int64], x: Features, y: Numbers) -> Numbers:
    """Regression of each group on its own, on columns scaled by their spread in the whole file."""
    if stream.answers == 0:
        origin, unit = y[0], float(y.std()) or 1.0  # one answer tells the level
        z = (y - origin) / unit
        return origin + unit * regress(group, x, z, baselines.mean(z)[:, None], "number")[:, 0]
    classes, n_classes = class_numbers(stream, y), max(stream.answers, 2)
    log_rates = np.log(baselines.class_rates(classes, n_classes))
    if stream.answers == 1:
        offset = log_rates[:, 1:] - log_rates[:, :1]
        positive = regress(group, x, classes.astype(float), offset, "two classes")
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
    positive = 0.5 * (1.0 + np.tanh(0.5 * margins))
    return np.column_stack([1.0 - positive, positive]), model


def _platt_scaled(margins: Numbers, y: Numbers) -> Numbers:
    """Log-odds of margins by a factor learned along the stream, as :class:`romco.Model` does."""
    scale, factors = Scale(), np.empty(len(y))
    for e, (margin, answer) in enumerate(zip(margins.tolist(), y.tolist(), strict=True)):
        factors[e] = scale.log_a
        scale.add(margin, answer)
    return np.exp(factors) * margins


def _singly(task: NDArray[np.int64], x: Features, y: Numbers) -> Rounds:
    return Rounds(task, x, y, np.arange(len(y) + 1))
