"""Predictions of every row of a comparison: baselines, controls, ROMCO-Auto, other learners."""

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from romco.compare import refitted
from romco.evaluation import Delay, baselines
from romco.evaluation.prequential import LabelLoop
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.lexicon import Lexicon
from romco.learners import LEARNERS, Learner, learner
from romco.learners.capabilities import GivesProbabilities
from romco.learners.registry import number_learner
from romco.model import Model, Scale
from romco.model.engine import Engine
from romco.model.rows import Rows
from romco.model.target import Predictions, logistic
from romco.model.transaction import join_predictions
from romco.rounds import Features, Rounds
from romco.streams import Stream
from romco.typing import Floats

ENGINE = "romco-auto"
AT_ONCE = Delay()

# What a row may use, in the order of the table.
FREQUENCY, HISTORY = "frequency", "history"
WITHOUT_TASK, TASK_COLUMN = "without-task", "task-column"
POOLED, ONE_HOT, REFITTED, TREES = "pooled", "one-hot", "refitted", "trees"
IGNORE_TASK = (FREQUENCY, WITHOUT_TASK, POOLED)
KNOW_TASK = (HISTORY, TASK_COLUMN, ONE_HOT, REFITTED, TREES)
CONTROLS = (FREQUENCY, HISTORY, WITHOUT_TASK, TASK_COLUMN)
# Of tables that are small enough; trees where LightGBM is installed.
BATCH_CONTROLS = (POOLED, ONE_HOT, REFITTED, TREES)
TITLES = {
    FREQUENCY: ("Overall frequency", "Overall mean"),
    HISTORY: ("Past answers of the task", "Past mean of the task"),
    WITHOUT_TASK: ("ROMCO-Auto without the task",) * 2,
    TASK_COLUMN: ("ROMCO-Auto, task as category",) * 2,
    POOLED: ("Logistic regression", "Ridge regression"),
    ONE_HOT: ("Logistic reg., task one-hot", "Ridge regression, task one-hot"),
    REFITTED: ("Logistic regression per task", "Ridge regression per task"),
    TREES: ("LightGBM, task as category",) * 2,
}
MEANINGS = {
    FREQUENCY: "the frequency of the answers so far, or their mean; it knows neither the task "
    "nor any column",
    HISTORY: "the task's own past answers, shrunk towards those of all tasks while they are few",
    WITHOUT_TASK: "the same method as the last row, but it is not told the task",
    TASK_COLUMN: "the same, with the task as one more category",
    POOLED: "scikit-learn's default on scaled columns, fitted again whenever a quarter more events "
    "are known; it is not told the task",
    ONE_HOT: "the same, with one more column for each task",
    REFITTED: "the same without these columns, one for each task",
    TREES: "LightGBM's default for all, fitted again whenever half as many events more are known",
    ENGINE: "a model for each task that learns from the other tasks as far as they are alike; "
    "romco.Model, as `romco learn` runs it",
}


def title_of(row: str, number: bool = False) -> str:
    """Return the name of a row as tables print it."""
    if row in TITLES:
        return TITLES[row][number]
    if row in LEARNERS:
        return LEARNERS[row].title
    return row


def known_labels(rounds: Rounds, delay: Delay) -> NDArray[np.intp]:
    """Return how many of the first labels (n,) are known when each event is predicted."""
    starts = rounds.starts - rounds.starts[0]
    return np.repeat(delay.known_before(starts), np.diff(starts))


def predict(
    row: str,
    stream: Stream,
    rounds: Rounds,
    parameters: Mapping[str, Any],
    delay: Delay = AT_ONCE,
) -> Floats:
    """Predict all events of ``rounds`` in their order, each before its label is known.

    Returns probabilities (n, K), or numbers (n,). Every row knows the offset, if there is one: of
    numbers it predicts what the offset leaves.
    """
    if row == ENGINE:
        return _by_model(stream, rounds, parameters, delay)
    task, x, y, _, offset = rounds.events
    starts = rounds.starts - rounds.starts[0]
    if stream.answers == 0 and offset is not None:
        left = Rounds(task, x, y - offset, starts)
        return predict(row, stream, left, parameters, delay) + offset
    known = known_labels(rounds, delay)
    group = task
    if row in (*IGNORE_TASK, TASK_COLUMN, ONE_HOT):
        group = np.zeros_like(task)
    if row in (FREQUENCY, HISTORY) and offset is None:
        return _from_answers(row, stream, task, y, known)
    if row in (ONE_HOT, TASK_COLUMN):
        x = refitted.with_tasks(x, task, stream.n_tasks)
    if row in BATCH_CONTROLS:
        answers = y
        if stream.answers != 0:
            answers = class_numbers(stream, y).astype(np.float64)
        start = _from_answers(FREQUENCY, stream, task, y, known)
        fit = refitted.regress
        if row == TREES:
            fit = refitted.boost
        return fit(stream, group, x, answers, known, start)
    if row not in CONTROLS:
        return _learned(row, stream, rounds, parameters, delay)
    if row in (FREQUENCY, HISTORY):  # an intercept besides the offset
        x = np.zeros((len(y), 1))
    some = Rounds(group, x, y, starts, offset=offset)
    return _learned(ENGINE, stream, some, parameters, delay)


def _by_model(
    stream: Stream, rounds: Rounds, parameters: Mapping[str, Any], delay: Delay
) -> Floats:
    """Predict by :class:`romco.Model`, so that figures are those of ``romco learn``."""
    target: Any = {0: "number", 1: "two classes"}.get(stream.answers, "classes")
    classes = None
    if stream.answers == 1:
        classes = stream.labels
    model = Model(target=target, classes=classes, **parameters)
    task, x, y, _, offset = rounds.events
    names = y
    if stream.answers:
        names = np.array(stream.labels, dtype=object)[class_numbers(stream, y)]
    rows = Rows(_named(x), task, names, offset=offset)
    found = _answers(model.engine, rounds, rows, delay)
    if stream.answers == 0:
        return found.margins
    values = np.zeros((len(y), max(stream.answers, 2)))
    if stream.answers == 1:
        values[:, 1] = found.probabilities
        values[:, 0] = 1.0 - found.probabilities
    else:
        columns = [stream.labels.index(str(name)) for name in model.classes]
        values[:, columns[: found.probabilities.shape[1]]] = found.probabilities
    return values


def _named(x: Features) -> Encoded:
    """Return rows whose columns have names, as those of a file."""
    sparse = csr_array(x)
    lexicon = Lexicon()
    names = list(map(lexicon.number, map(str, range(sparse.shape[1]))))
    numbers = np.array(names, dtype=np.int32)[sparse.indices]
    values = sparse.data.astype(np.float64)
    return Encoded(values, numbers, sparse.indptr.astype(np.int64), lexicon)


def _answers(engine: Engine, rounds: Rounds, whole: Rows, delay: Delay) -> Predictions:
    """Predict rounds, and learn each once its labels are known."""
    starts = (rounds.starts - rounds.starts[0]).tolist()
    if not delay.is_late and len(rounds) == starts[-1]:
        return engine.predict_and_learn(whole)
    parts = []
    pending: deque[tuple[int, Any]] = deque()  # rounds with their prediction context
    for k, known in enumerate(delay.known_before(starts).tolist()):
        while pending and starts[pending[0][0] + 1] <= known:
            at, context = pending.popleft()
            some = whole.select(np.arange(starts[at], starts[at + 1]))
            late = some._replace(context=context)
            engine.predict_and_learn(late, together=len(late.y) > 1)
        some = whole.select(np.arange(starts[k], starts[k + 1]))
        engine.live = True
        found = engine.margins_and_context(some)
        engine.live = False
        chances = found.probabilities
        if chances is None:
            chances = found.margins
        parts.append(Predictions(found.margins, chances))
        context = None
        if delay.is_late:
            context = found.context
        pending.append((k, context))
    return join_predictions(parts)


def class_numbers(stream: Stream, y: Floats) -> NDArray[np.intp]:
    """Return the answers as class numbers: 0 and 1 for -1 and +1."""
    if stream.answers == 1:
        return (y > 0).astype(np.intp)
    return y.astype(np.intp)


def _from_answers(
    row: str, stream: Stream, task: NDArray[np.int64], y: Floats, known: NDArray[np.intp]
) -> Floats:
    if stream.answers == 0:
        if row == FREQUENCY:
            return baselines.mean(y, known)
        return baselines.shrunk_task_mean(y, task, known)
    classes = class_numbers(stream, y)
    n_classes = max(stream.answers, 2)
    if row == FREQUENCY:
        return baselines.class_rates(classes, n_classes, known)
    return baselines.task_class_rates(classes, task, n_classes, known)


def _learned(
    name: str, stream: Stream, rounds: Rounds, parameters: Mapping[str, Any], delay: Delay
) -> Floats:
    """Replay a learner; its scores become probabilities, or are numbers already."""
    shape = rounds.events.x.shape[1], int(rounds.events.task.max()) + 1
    if stream.answers == 0:
        model = learner(number_learner(name), *shape, **parameters)
        return _replay(model, rounds, delay)
    if stream.answers > 1:
        inner: dict[str, Any] = {"inner": name, "parameters": dict(parameters)}
        model = learner("classes", *shape, n_classes=stream.answers, **inner)
        return np.exp(_replay(model, rounds, delay))
    model = learner(name, *shape, **parameters)
    margins = _replay(model, rounds, delay)
    if not isinstance(model, GivesProbabilities):
        margins = _platt_scaled(margins, rounds.events.y, known_labels(rounds, delay))
    positive = logistic(margins)
    return np.column_stack([1.0 - positive, positive])


def _replay(model: Learner, rounds: Rounds, delay: Delay) -> Floats:
    if delay.is_late:
        return LabelLoop(model, None, delay).replay(rounds)
    return model.replay(rounds)


def _platt_scaled(margins: Floats, y: Floats, known: NDArray[np.intp]) -> Floats:
    """Log-odds of margins by a factor learned along the stream, as :class:`romco.Model` does."""
    scale = Scale()
    factors = [scale.log_a]
    for margin, answer in zip(margins.tolist(), y.tolist(), strict=True):
        scale.add(margin, answer)
        factors.append(scale.log_a)
    return np.asarray(np.exp(np.array(factors)[known]) * margins)
