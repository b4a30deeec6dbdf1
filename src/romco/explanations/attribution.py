"""Attribution: parts of one event's margin by feature, shared and personal, which add up to it."""

from collections import Counter
from collections.abc import Mapping
from functools import reduce
from operator import add, attrgetter
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from romco.io.schema import Schema
from romco.kernels.io.encoded import Encoded
from romco.kernels.io.mappings import hash_name
from romco.learners import Learner
from romco.learners.capabilities import Decomposed, Newcomer, StartedTasks, StartsTasks
from romco.learners.classes import Classes
from romco.learners.softmax import AutoSoftmax
from romco.model import Hashed, Model
from romco.model.body import as_round, predict
from romco.model.features import Matrix, Sparse, count_rows
from romco.model.history import feature_name
from romco.presentation.screen import inert
from romco.typing import Floats

ROUNDING = 1e-12  # part of a feature's whole that is rounding
TIMES = " * "  # between the names of two features that act together
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
MAX_LOG_ODDS = 500.0


class Reason(NamedTuple):
    """Part of a margin that one feature adds; or two, beyond what each of them adds."""

    feature: Any
    shared: float  # through the weights that tasks share
    personal: float  # through the task's own weights

    @property
    def total(self) -> float:
        """Both together; above 0 it is for the label."""
        return self.shared + self.personal

    def summary(self) -> dict[str, Any]:
        """Return JSON values."""
        name = self.feature
        if not isinstance(name, str | int | float):
            name = str(name)
        parts = {"shared": self.shared, "personal": self.personal}
        return {"feature": name, "adds": self.total, **parts}


class Reasons(NamedTuple):
    """A margin and its parts: ``intercept`` and the features' totals add up to it."""

    margin: float
    intercept: float
    features: tuple[Reason, ...]  # the largest first
    label: Any = None  # label of a margin above 0; None for numbers
    task_known: bool = True  # False: only the weights that tasks share were used

    def summary(self, top: int | None = None) -> dict[str, Any]:
        """Return JSON values: the first ``top`` features, and the sum of the others."""
        shown, others, rest = self._split(top)
        result: dict[str, Any] = {
            "label": self.label,
            "margin": self.margin,
            "intercept": self.intercept,
            "task_known": self.task_known,
            "features": list(map(Reason.summary, shown)),
        }
        if others:
            result["others"] = {"features": others, "adds": rest}
        return result

    def lines(self, top: int | None = None) -> list[str]:
        """Return lines for people: the first ``top`` features, and the others in one line."""
        shown, others, rest = self._split(top)
        name = "predicted"
        if self.label is not None:
            name = f"margin for {inert(str(self.label))}"
        lines = [f"{name} {self.margin:+.3f}, of which without features {self.intercept:+.3f}"]
        if not self.task_known:
            lines.append("the task is unknown: explained by what tasks have in common")
        for one in shown:
            parts = f"shared {one.shared:+.3f}, personal {one.personal:+.3f}"
            lines.append(f"{one.total:+9.3f}  {inert(str(one.feature))} ({parts})")
        if others:
            lines.append(f"{rest:+9.3f}  {others:,} other features")
        return lines

    def _split(self, top: int | None) -> tuple[tuple[Reason, ...], int, float]:
        """First features, number of the others, and what these add."""
        shown = self.features[:top]
        left = self.features[len(shown) :]
        return shown, len(left), sum(map(attrgetter("total"), left))

    def __str__(self) -> str:
        return "\n".join(self.lines())


class Parts(NamedTuple):
    """A margin and its parts by column; the rest of it comes from no feature."""

    margin: float
    shared: csr_array  # (1, d)
    personal: csr_array  # (1, d)
    products: Mapping[tuple[int, int], float] = {}  # of two columns

    def times(self, factor: float) -> "Parts":
        """Return all of them multiplied."""
        products = {pair: factor * part for pair, part in self.products.items()}
        return Parts(factor * self.margin, factor * self.shared, factor * self.personal, products)


class ExplainedTask(NamedTuple):
    """Number of a task in the learner; of the next one for a task that was never learned."""

    number: int
    known: bool
    started: StartedTasks | None = None  # tasks with whose mean a new one begins, if it does

    def newcomer(self, learner: Learner) -> Newcomer | None:
        """Return what predicts for a new task that begins with a mean."""
        if self.started is None or not isinstance(learner, StartsTasks):
            return None
        return learner.common(self.started)

    def margins(self, learner: Learner, rows: Matrix) -> Floats:
        """Return the margins of rows of the task."""
        task = np.full(count_rows(rows), self.number)
        newcomer = self.newcomer(learner)
        if newcomer is None:
            return predict(learner, rows, task)
        return newcomer.margins(as_round(learner, rows, task))


def reasons(model: Model, x: Any, task: Any, label: Any = None) -> Reasons:
    """Attribute the margin of one event to its features.

    An unknown task is explained by what all tasks have in common. The parts add up to the margin of
    ``label``, by default the positive one of two classes, the predicted one of many: for two
    classes that of ``model.margins``, with the other sign if ``label`` is the negative one; for
    many the log-odds against all others; for numbers the prediction. Raises ValueError where the
    label is unknown, or the learner's margins are not sums over features.

    >>> import romco
    >>> model = romco.Model()
    >>> for _ in range(9):
    ...     _ = model.learn_one({"free": 1, "money": 1}, "spam", task="ann")
    ...     _ = model.learn_one({"lunch": 1, "money": 1}, "ham", task="ann")
    >>> found = reasons(model, {"free": 1, "money": 1}, task="ann")
    >>> found.label, found.features[0].feature
    ('spam', 'free')
    >>> total = found.intercept + sum(each.total for each in found.features)
    >>> abs(total - found.margin) < 1e-9
    True
    """
    engine = model.engine
    one_row = x if isinstance(x, Encoded) else [x]
    rows = engine.read_rows(one_row, [task])
    with engine.at_rest() as learner:
        number = int(engine.tasks.numbers([task])[0])
        explained = ExplainedTask(number, number >= 0)
        if not explained.known:  # make room for it, as a prediction does
            explained = ExplainedTask(engine.tasks.next, False)
            engine.make_room(0, explained.number + 1)
            learner = engine.learner
            if engine.starts_tasks:
                explained = explained._replace(started=engine.body.started)
        if isinstance(learner, Classes):
            label, parts = _of_classes(model, learner, rows, explained, label)
        else:
            label, sign = _side(model, label)
            parts = attribute(learner, rows, explained).times(sign)
    return _named(model, x, parts, label, explained.known)


def attribute(learner: Learner, rows: Matrix, explained: ExplainedTask) -> Parts:
    """Attribute the margin of one event of two classes, or the number predicted for it.

    Raises ValueError where the learner's margins are no sums over features.
    """
    margin = float(explained.margins(learner, rows)[0])
    if explained.newcomer(learner) is None:
        parts = learner.contributions(as_round(learner, rows, np.array([explained.number])))
        if parts is not None:
            products = {pair: float(part[0]) for pair, part in parts.products.items()}
            return Parts(margin, parts.shared, parts.personal, products)
    if not learner.linear:
        raise ValueError(f"margins of {learner.name} are not sums over features")
    return Parts(margin, *_linear(learner, rows, explained))


def _linear(
    learner: Learner, rows: Matrix, explained: ExplainedTask
) -> tuple[csr_array, csr_array]:
    """Shared and personal part: the margin of each feature alone, beyond that of an empty row."""
    if isinstance(rows, Sparse):
        values, columns = rows.values, rows.columns
    else:
        columns = np.flatnonzero(rows[0]).astype(np.int32)
        values = rows[0][columns]
    alone = Sparse(values, columns, np.array([0, *range(len(values) + 1)], dtype=np.int32))
    each = explained.margins(learner, alone)
    shared = whole = each[1:] - each[0]
    if explained.known and not learner.one_for_all:
        shared = np.zeros_like(whole)
        if isinstance(learner, Decomposed):
            left, right = learner.shared_factors()
            shared = values * (left[columns] @ right[explained.number])
    personal = whole - shared
    personal[np.abs(personal) <= ROUNDING * np.abs(whole)] = 0.0
    starts = np.array([0, len(columns)])
    shape = (1, learner.n_features)
    return (
        csr_array((whole - personal, columns, starts), shape=shape),
        csr_array((personal, columns, starts), shape=shape),
    )


def _side(model: Model, label: Any) -> tuple[Any, float]:
    """Label of a positive margin of two classes or of numbers, and the sign of the learner's."""
    engine = model.engine
    if engine.target.kind == "number":
        if label is not None:
            raise ValueError("numbers have no labels: leave label out")
        return None, 1.0
    if label is None or engine.two_classes.number_of(label) > 0.0:
        return engine.target.positive, engine.target.sign
    return label, -engine.target.sign


def _of_classes(
    model: Model, learner: Classes, rows: Matrix, explained: ExplainedTask, label: Any
) -> tuple[Any, Parts]:
    """Log-odds of a label against the rest.

    Where one learner has all classes, features have their parts in its scores. Else their parts are
    those in the margins of the inner learners; where both are stacked, weighted sums of both.
    """
    if len(model.classes) < 2:
        raise ValueError("the model knows fewer than two labels: learn another one first")
    scores = explained.margins(learner, rows)[0]
    products: Counter[tuple[int, int]] = Counter()
    target = model.engine.target
    if label is None:
        (label,) = target.labels_of(scores[None])
    at = int(target.number_of(label))
    at_once = learner.at_once()
    if at_once is not None:
        sums = _parts_at_once(at_once, rows, explained, shares_of_classes(scores, at))
    else:
        many, weight, share = learner.stacked()
        *sums, products = _parts_by_pairs(learner, rows, explained, at)
        sums = [weight * part for part in sums]
        products = Counter({pair: weight * part for pair, part in products.items()})
        if many is not None:
            more = _parts_at_once(many, rows, explained, shares_of_classes(scores, at))
            sums = [one + share * other for one, other in zip(sums, more, strict=True)]
    shared, personal = sums
    return model.classes[at], Parts(odds_against_rest(scores, at), shared, personal, products)


def _parts_at_once(
    at_once: AutoSoftmax, rows: Matrix, explained: ExplainedTask, shares: Floats
) -> list[Any]:
    """Shared and personal parts (1, d) of features in the scores of all classes."""
    round = as_round(at_once, rows, np.array([explained.number]))
    features, *sums, _ = at_once.additions(round)
    where = (np.zeros(len(features), dtype=np.int64), features)
    return [csr_array((part @ shares, where), shape=(1, at_once.n_features)) for part in sums]


def _parts_by_pairs(learner: Classes, rows: Matrix, explained: ExplainedTask, at: int) -> list[Any]:
    """Shared and personal parts (1, d) of features in the log-odds of a class, and of products."""
    each = [attribute(member, rows, explained) for member in learner.members()]
    arrays = learner.arrays()
    factors = np.exp([float(arrays[f"{n}.scale"][0]) for n in range(len(each))])
    odds = factors * list(map(attrgetter("margin"), each))
    shares = shares_of_pairs(learner, odds, at) * factors
    weighted = [parts.times(float(c)) for c, parts in zip(shares, each, strict=True)]
    _, shared, personal, found = zip(*weighted, strict=True)
    products: Counter[tuple[int, int]] = Counter()
    for one in found:
        products.update(one)
    return [reduce(add, shared), reduce(add, personal), products]


def odds_against_rest(scores: Floats, label: int) -> float:
    """Return log p / (1 - p) of a class, from log-probabilities (K,)."""
    return float(scores[label] - np.logaddexp.reduce(np.delete(scores, label)))


def shares_of_pairs(learner: Classes, odds: Floats, label: int) -> Floats:
    r"""Return coefficients (P,) of the pairs' log-odds z (P,) in a class's log-odds L.

    .. math:: L(z) = L(0) + \sum_p c_p z_p, \qquad
              c_p = \int_0^1 \partial L / \partial z_p (t z)\, dt

    Integrated gradients: L is not linear in z; c_p is its mean slope on the straight line from
    no evidence to z.
    """
    slopes = [_slopes(learner, t * odds, label) for t in 0.5 * (NODES + 1.0)]
    return np.asarray(0.5 * WEIGHTS @ np.array(slopes))


def shares_of_classes(scores: Floats, label: int) -> Floats:
    r"""Return coefficients (K,) of softmax scores in a class's log-odds: L = L(0) + sum c_k s_k.

    >>> scores = np.log([0.2, 0.5, 0.3])
    >>> found = shares_of_classes(scores, 1) @ scores - np.log(2.0)
    >>> bool(np.isclose(found, odds_against_rest(scores, 1)))
    True
    """
    ways = 0.5 * (NODES + 1.0)[:, None] * np.delete(scores, label)
    chances = np.exp(ways - np.logaddexp.reduce(ways, axis=1, keepdims=True))
    return np.asarray(np.insert(-0.5 * WEIGHTS @ chances, label, 1.0))


def _slopes(learner: Classes, odds: Floats, label: int) -> Floats:
    """dL/dz (P,): a pair moves the scores -log(1 + sum exp(-z)) of its two classes."""
    pairs = np.array(learner.pairs())
    moved = np.zeros((len(pairs), learner.answers))
    clipped = np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS)
    for sign, side in ((-1.0, pairs[:, 0]), (1.0, pairs[:, 1])):
        at = np.flatnonzero(side >= 0)
        moved[at, side[at]] = sign * np.exp(-sign * clipped[at])
    against = 1.0 + np.abs(moved).sum(axis=0)
    moved /= against
    chances = 1.0 / against
    chances[label] = 0.0
    return np.asarray(moved[:, label] - moved @ (chances / chances.sum()))


def _named(model: Model, x: Any, parts: Parts, label: Any, known: bool) -> Reasons:
    """Reasons by feature name, and the rest of the margin."""
    names = _hashed_names(model, x)
    shared = parts.shared.toarray()[0]
    personal = parts.personal.toarray()[0]
    reasons = []
    for j in np.flatnonzero((shared != 0.0) | (personal != 0.0)).tolist():
        name = feature_name(model, j, names.get(j))
        reasons.append(Reason(name, float(shared[j]), float(personal[j])))
    for pair, part in parts.products.items():
        if part != 0.0:
            two = [str(feature_name(model, j, names.get(j))) for j in pair]
            reasons.append(Reason(TIMES.join(two), part, 0.0))
    reasons.sort(key=lambda one: -abs(one.total))
    rest = parts.margin - float(sum(map(attrgetter("total"), reasons)))
    return Reasons(parts.margin, rest, tuple(reasons), label, known)


def _hashed_names(model: Model, x: Any) -> dict[int, str]:
    """Names of hashed columns, as far as the event has them."""
    if not isinstance(model.features, Hashed):
        return {}
    if isinstance(x, Encoded):
        names = [x.lexicon.names[n] for n in x.names.tolist()]
    else:
        names = list(map(str, (model.schema or Schema()).encode(x)))
    if model.engine.history is not None:
        names += model.engine.history.kernel.features
    by_column: dict[int, str] = {}
    for name in names:
        column = hash_name(name) & (model.features.width - 1)
        if column in by_column:
            name = f"{by_column[column]} or {name}"
        by_column[column] = name
    return by_column
