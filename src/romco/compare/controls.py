"""Predictions of every row of a comparison: baselines, controls, ROMCO-Auto, other learners."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

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
from romco.model.target import Predictions as EngineAnswers
from romco.model.target import logistic
from romco.model.transaction import join_predictions
from romco.rounds import Features, Rounds
from romco.streams import Stream
from romco.typing import Floats

ENGINE = "romco-auto"
AT_ONCE = Delay()

# What a row may use, in the order of the table.
FREQUENCY, HISTORY = "frequency", "history"
WITHOUT_TASK, TASK_COLUMN = "without-task", "task-column"
POOLED, ALONE = "pooled", "alone"
ONE_HOT, REFITTED, TREES = "one-hot", "refitted", "trees"
IGNORE_TASK = (FREQUENCY, WITHOUT_TASK, POOLED)
KNOW_TASK = (HISTORY, TASK_COLUMN, ALONE, ONE_HOT, REFITTED, TREES)
CONTROLS = (FREQUENCY, HISTORY, WITHOUT_TASK, TASK_COLUMN, POOLED, ALONE)
BATCH_CONTROLS = (ONE_HOT, REFITTED, TREES)  # of small tables; trees where LightGBM is installed
TITLES = {
    FREQUENCY: ("Overall frequency", "Overall mean"),
    HISTORY: ("Past answers of the task", "Past mean of the task"),
    WITHOUT_TASK: ("ROMCO-Auto without the task",) * 2,
    TASK_COLUMN: ("ROMCO-Auto, task as category",) * 2,
    POOLED: ("One Bayesian regression",) * 2,
    ALONE: ("Bayesian regression per task",) * 2,
    ONE_HOT: ("Logistic regression, task one-hot", "Ridge regression, task one-hot"),
    REFITTED: ("Logistic regression per task", "Ridge regression per task"),
    TREES: ("LightGBM, task as category",) * 2,
}
MEANINGS = {
    FREQUENCY: "the frequency of the answers so far, or their mean; it knows neither the task "
    "nor any column",
    HISTORY: "the task's own past answers, shrunk towards those of all tasks while they are few",
    WITHOUT_TASK: "the same method as the last row, but it is not told the task",
    TASK_COLUMN: "the same, with the task as one more category",
    POOLED: "online Bayesian regression on scaled columns; it is not told the task",
    ALONE: "the same, one for each task; it begins with the overall frequency",
    ONE_HOT: "scikit-learn's default on scaled columns and one column for each task, fitted again "
    "whenever a quarter more events are known",
    REFITTED: "the same without these columns, one for each task",
    TREES: "LightGBM's default for all, fitted again whenever half as many events more are known",
    ENGINE: "a model for each task that learns from the other tasks as far as they are alike; "
    "romco.Model, as `romco learn` runs it",
}


@dataclass(frozen=True)
class Predictions:
    """Probabilities (n, K), or numbers (n,), each made before its answer was known."""

    values: Floats
    seconds: float
    learner: Learner | None = None  # as it is at the end
    tasks: Sequence[int] | None = None  # the learner's number of each task; None: as in the stream


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
) -> Predictions:
    """Predict all events of ``rounds`` in their order, each before its label is known.

    Every row knows the offset, if there is one: of numbers it predicts what the offset leaves.
    """
    begin = time.process_time()
    if row == ENGINE:
        values, model = _by_model(stream, rounds, parameters, delay)
        seconds = time.process_time() - begin
        numbers = list(map(model.engine.tasks.find, range(stream.n_tasks)))
        return Predictions(values, seconds, model.engine.learner, numbers)
    events = rounds.events
    offset = np.zeros(())
    if stream.answers == 0 and events.offset is not None:
        offset = events.offset
        rounds = Rounds(events.task, events.x, events.y - offset, rounds.starts - rounds.starts[0])
    values, learned = _predict(row, stream, rounds, parameters, delay)
    return Predictions(values + offset, time.process_time() - begin, learned)


def _predict(
    row: str, stream: Stream, rounds: Rounds, parameters: Mapping[str, Any], delay: Delay
) -> tuple[Floats, Learner | None]:
    task, x, y, _, offset = rounds.events
    known = known_labels(rounds, delay)
    group = task
    if row in (*IGNORE_TASK, ONE_HOT):
        group = np.zeros_like(task)
    if row in (FREQUENCY, HISTORY):
        if offset is not None:  # and an intercept
            return _regression(stream, group, np.empty((len(y), 0)), y, offset, known), None
        return _from_answers(row, stream, task, y, known), None
    if row in (POOLED, ALONE):
        return _regression(stream, group, x, y, offset, known), None
    if row in (ONE_HOT, TASK_COLUMN):
        x = refitted.with_tasks(x, task, stream.n_tasks)
    if row in BATCH_CONTROLS:
        answers = y
        if stream.answers != 0:
            answers = class_numbers(stream, y).astype(np.float64)
        start = _from_answers(FREQUENCY, stream, task, y, known)
        if row == TREES:
            return refitted.boost(stream, group, x, answers, known, start), None
        return refitted.regress(stream, group, x, answers, known, start), None
    if row not in (WITHOUT_TASK, TASK_COLUMN):
        return _learned(row, stream, stream.n_tasks, rounds, parameters, delay)
    alone = Rounds(np.zeros_like(task), x, y, rounds.starts - rounds.starts[0], offset=offset)
    return _learned(ENGINE, stream, 1, alone, parameters, delay)


def _by_model(
    stream: Stream, rounds: Rounds, parameters: Mapping[str, Any], delay: Delay
) -> tuple[Floats, Model]:
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
        return found.margins, model
    values = np.zeros((len(y), max(stream.answers, 2)))
    if stream.answers == 1:
        values[:, 1] = found.probabilities
        values[:, 0] = 1.0 - found.probabilities
    else:
        columns = [stream.labels.index(str(name)) for name in model.classes]
        values[:, columns[: found.probabilities.shape[1]]] = found.probabilities
    return values, model


def _named(x: Features) -> Encoded:
    """Return rows whose columns have names, as those of a file."""
    sparse = csr_array(x)
    lexicon = Lexicon()
    names = [lexicon.number(str(column)) for column in range(sparse.shape[1])]
    numbers = np.array(names, dtype=np.int32)[sparse.indices]
    values = sparse.data.astype(np.float64)
    return Encoded(values, numbers, sparse.indptr.astype(np.int64), lexicon)


def _answers(engine: Engine, rounds: Rounds, whole: Rows, delay: Delay) -> EngineAnswers:
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
        parts.append(EngineAnswers(found.margins, chances))
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


def _regression(
    stream: Stream,
    group: NDArray[np.int64],
    x: Features,
    y: Floats,
    offset: Floats | None,
    known: NDArray[np.intp],
) -> Floats:
    """Regression of each group on its own; it begins with the offset, else the overall rate."""
    if stream.answers == 0:
        origin = y[0]  # one answer tells the level
        unit = float(y.std()) or 1.0
        z = (y - origin) / unit
        start = baselines.mean(z, known)[:, None]
        return origin + unit * regress(group, x, z, start, "number", known)[:, 0]
    classes = class_numbers(stream, y)
    n_classes = max(stream.answers, 2)
    log_rates = np.log(baselines.class_rates(classes, n_classes, known))
    if stream.answers == 1:
        if offset is None:
            offset = log_rates[:, 1] - log_rates[:, 0]
        positive = regress(group, x, classes.astype(float), offset[:, None], "two classes", known)
        return np.column_stack([1.0 - positive, positive])
    return regress(group, x, classes.astype(float), log_rates, "classes", known)


def _learned(
    name: str,
    stream: Stream,
    n_tasks: int,
    rounds: Rounds,
    parameters: Mapping[str, Any],
    delay: Delay,
) -> tuple[Floats, Learner]:
    """Replay a learner; its scores become probabilities, or are numbers already."""
    shape, y = (rounds.events.x.shape[1], n_tasks), rounds.events.y
    if stream.answers == 0:
        model = learner(number_learner(name), *shape, **parameters)
        return _replay(model, rounds, delay), model
    if stream.answers > 1:
        inner: dict[str, Any] = {"inner": name, "parameters": dict(parameters)}
        model = learner("classes", *shape, n_classes=stream.answers, **inner)
        return np.exp(_replay(model, rounds, delay)), model
    model = learner(name, *shape, **parameters)
    margins = _replay(model, rounds, delay)
    if not isinstance(model, GivesProbabilities):
        margins = _platt_scaled(margins, y, known_labels(rounds, delay))
    positive = logistic(margins)
    return np.column_stack([1.0 - positive, positive]), model


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


# Bayesian online regression on scaled columns: the control that a sceptic would fit.

PRIOR_VARIANCES = np.array([0.003, 0.03, 0.3, 3.0, 30.0])  # averaged by their past likelihood
INTERCEPT_VARIANCE = 1.0
MAX_DENSE_COLUMNS = 256
MAX_COVARIANCE_ENTRIES = 200_000  # of all classes and priors; beyond, only variances are kept
EVIDENCE_DECAY = 0.999
PROBIT = np.pi / 8.0  # MacKay's factor: margins shrink by their variance


def regress(
    group: NDArray[np.int64],
    x: Features,
    y: Floats,
    offset: Floats,
    target: str,
    known: NDArray[np.intp] | None = None,
) -> Floats:
    """Predict each event from the earlier events of its group, one regression per group.

    Logistic regression for "two classes", softmax regression for "classes" and linear regression
    for "number", with a Gaussian posterior. Columns are centred and scaled by their mean and
    standard deviation over all rows (wide sparse ones by their root mean square): hindsight that
    can only help.

    ``y`` (n,) is 0 or 1, class numbers, or numbers; ``offset`` (n, K) the scores before anything of
    the group is known; ``known`` (n,) how many of the first answers each prediction may use, else
    all before it.
    Returns P(1) (n, 1), probabilities (n, K), or numbers (n, 1).
    """
    predicted = np.empty_like(offset)
    rows = _scaled(x)
    if known is None:
        known = np.arange(len(y))
    for members in refitted.groups(group):
        part = rows[members]
        begin = _sparse
        if isinstance(part, np.ndarray):
            begin = _dense
        look, learn = begin(part, offset[members], target)
        answers = y[members].tolist()
        done = 0
        last: tuple[int, int, Any] = (-1, 0, None)  # a view is the same until something was learned
        for e, may in enumerate(np.searchsorted(members, known[members]).tolist()):
            while done < may:
                if last[:2] == (done, done):
                    view = last[2]
                else:
                    view = look(done)
                learn(done, view[0], answers[done])
                done += 1
            last = e, done, look(e)
            predicted[members[e]] = last[2][1]
    return predicted


def _scaled(x: Features) -> Floats | csr_array:
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

    def predict(self, margins: Floats, variances: Floats) -> tuple[Floats, Floats]:
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

    def learn(self, each: Floats, y: float) -> tuple[Floats, Floats]:
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


Look = Callable[[int], tuple[Any, Floats]]  # an event: what to learn it by, and its prediction
Learn = Callable[[int, Any, float], None]


def _dense(z: Floats, offset: Floats, target: str) -> tuple[Look, Learn]:
    """One regression with a full covariance matrix, where it is small enough."""
    _, d = z.shape
    k = offset.shape[1]
    s = len(PRIOR_VARIANCES)
    if s * k * d * d > MAX_COVARIANCE_ENTRIES:
        return _sparse(csr_array(z), offset, target)
    w = np.zeros((s, k, d))
    prior = np.tile(PRIOR_VARIANCES[:, None], (1, d))
    prior[:, -1] = INTERCEPT_VARIANCE
    covariance = np.repeat((prior[:, :, None] * np.eye(d))[:, None], k, axis=1)
    mixture = _Mixture(target)

    def look(e: int) -> tuple[Any, Floats]:
        direction = covariance @ z[e]  # (s, k, d)
        variance = direction @ z[e]
        each, mean = mixture.predict(offset[e] + w @ z[e], variance)
        return (each, direction, variance), mean

    def learn(e: int, view: Any, answer: float) -> None:
        each, direction, variance = view
        gradient, curvature = mixture.learn(each, answer)
        gain = 1.0 / (1.0 + curvature * variance)
        w[...] -= (gain * gradient)[..., None] * direction
        covariance[...] -= (curvature * gain)[..., None, None] * (
            direction[..., :, None] * direction[..., None, :]
        )

    return look, learn


def _sparse(z: csr_array, offset: Floats, target: str) -> tuple[Look, Learn]:
    """One regression with the variances of the weights alone, on the columns that occur."""
    columns, column_of = np.unique(z.indices, return_inverse=True)
    k = offset.shape[1]
    s = len(PRIOR_VARIANCES)
    d = len(columns)
    w = np.zeros((s, k, d))
    v = np.tile(PRIOR_VARIANCES[:, None, None], (1, k, d))
    v[..., columns == z.shape[1] - 1] = INTERCEPT_VARIANCE
    mixture = _Mixture(target)
    starts = z.indptr.tolist()

    def look(e: int) -> tuple[Any, Floats]:
        at = column_of[starts[e] : starts[e + 1]]
        values = z.data[starts[e] : starts[e + 1]]
        margins = offset[e] + w[..., at] @ values
        return mixture.predict(margins, v[..., at] @ (values * values))

    def learn(e: int, each: Any, answer: float) -> None:
        at = column_of[starts[e] : starts[e + 1]]
        values = z.data[starts[e] : starts[e + 1]]
        gradient, curvature = mixture.learn(each, answer)
        variances = v[..., at]
        variances /= 1.0 + curvature[..., None] * variances * values * values
        v[..., at] = variances
        w[..., at] -= variances * gradient[..., None] * values

    return look, learn
