"""Effects of tasks and of further groupings, with standard errors, and variance components.

A two-level normal model: effects of a grouping's levels are normal around 0 with a variance that
is inferred from all of them. The learner's own posteriors are used, with its prior taken out. Of
tasks of two classes predictions are used too: what they differ by is taken as the mean of the
posterior, and the information of an event is p (1 - p). Posteriors lose variance where features
are many, predictions where effects are weak: whichever found more is kept.
"""

from collections.abc import Sequence
from itertools import chain, starmap
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.learners.auto import Auto
from romco.learners.capabilities import Posterior
from romco.learners.numbers import AutoNumber
from romco.model import Model
from romco.model.features import Sparse
from romco.model.target import logistic
from romco.typing import Floats

QUANTILE = 1.6448536269514722  # of a normal distribution: 90 % are within so many deviations
EFFICIENCY = 0.55  # information that one pass keeps of two classes, found by simulation
FREQUENT_SHARE = 0.5  # of the rows, in which a feature has slopes by default
MAX_SLOPES = 10  # by default
LOGISTIC_VARIANCE = np.pi**2 / 3.0  # of the noise behind two classes
MAX_STEPS, TOLERANCE = 500, 1e-9  # of the fixed point of a variance
DEVIATIONS = (np.arange(60) + 0.5) / 20.0  # between levels, tried; 1 is that of the estimates


class Effects(NamedTuple):
    """Tables, as pandas frames where pandas is installed, else as lists of mappings.

    ``levels`` has a row for each level of a grouping and each term, "intercept" or a feature:
    events, estimate (the difference from ``common``), its standard error and 90 % interval.
    ``variances`` has the variance and standard deviation of each term between levels, and of what
    is left (residual); ``share`` is the part of the intercepts and of the residual in their sum.
    """

    levels: Any
    variances: Any


class Term(NamedTuple):
    """One effect of all levels of a grouping."""

    name: Any
    common: float
    estimate: Floats  # (L,) difference from common
    error: Floats  # (L,) standard error
    variance: float  # between levels


def effects(model: Any, slopes: Sequence[Any] | None = None) -> Effects:
    """Return the effects of tasks and groupings with standard errors, and their variances.

    Estimates are log-odds, or in the target's unit; of two classes they are predictions at the
    means of the features. ``model`` is a :class:`romco.Model`, or an estimator or layer around
    one; ``slopes`` are names of features, by default those of most rows, if they are at most ten.
    Raises ValueError for other learners than romco-auto, and for many classes.

    >>> import romco
    >>> rng = np.random.default_rng(0)
    >>> task = [f"t{k % 20}" for k in range(2000)]
    >>> y = [k % 20 + rng.normal() for k in range(2000)]
    >>> model = romco.Model(target="number")
    >>> _ = model.learn([{}] * 2000, y, task)
    >>> table = romco.effects(model).levels
    >>> [round(value) for value in table.estimate[[0, 19]]], bool(table.se[0] < 0.2)
    ([-10, 10], True)
    """
    if not isinstance(model, Model):
        model = model.fitted_model()
    engine = model.engine
    with engine.at_rest() as learner:
        if not isinstance(learner, Auto | AutoNumber):
            raise ValueError(
                "effects need romco-auto for two classes or for numbers; "
                f"this is {learner.name} for {engine.target.kind}"
            )
        if not model.events:
            return Effects(_table([]), _table([]))
        find: _NumberEffects | _ClassEffects
        if isinstance(learner, AutoNumber):
            find = _NumberEffects(model, learner)
        else:
            find = _ClassEffects(model, learner)
        columns = find.slope_columns(slopes)
        schema, tasks = model.schema, model.tasks
        own: Any = "task"
        groupings: Sequence[str] = ()
        if schema is not None:
            own = schema.task or "task"
            groupings = schema.groupings
        events = np.array(list(map(engine.events_of, tasks)), dtype=np.int64)
        seen = np.flatnonzero(events)
        names = list(map(tasks.__getitem__, seen))
        estimates = [(own, names, events[seen], find.tasks(names, events[seen], columns))]
        for grouping in groupings:
            levels, at, counts = find.levels(grouping)
            if len(levels):
                estimates.append((grouping, levels, counts, [find.intercepts(at)]))
        residual = find.residual()
    rows = list(chain.from_iterable(starmap(_rows, estimates)))
    return Effects(_table(rows), _table(_variances(estimates, residual)))


def _rows(
    grouping: Any, levels: list[Any], events: NDArray[Any], terms: list[Term]
) -> list[dict[str, Any]]:
    rows = []
    for k, level in enumerate(levels):
        for term in terms:
            estimate = float(term.estimate[k])
            error = float(term.error[k])
            row = {
                "grouping": grouping,
                "level": level,
                "events": int(events[k]),
                "term": term.name,
                "estimate": estimate,
                "se": error,
                "low": estimate - QUANTILE * error,
                "high": estimate + QUANTILE * error,
                "common": term.common,
            }
            rows.append(row)
    return rows


def _variances(estimates: list[Any], residual: float) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for grouping, _, _, terms in estimates:
        for term in terms:
            rows.append({"grouping": grouping, "term": term.name, "variance": term.variance})
    rows.append({"grouping": "residual", "term": None, "variance": residual})
    intercepts = [row for row in rows if row["term"] in ("intercept", None)]
    total = sum(map(itemgetter("variance"), intercepts))
    for row in rows:
        row["sd"] = float(np.sqrt(row["variance"]))
        row["share"] = None
    for row in intercepts:
        if total:
            row["share"] = row["variance"] / total
    return rows


def _table(rows: list[dict[str, Any]]) -> Any:
    try:
        import pandas as pd
    except ImportError:
        return rows
    return pd.DataFrame(rows)


def shrink(mean: Floats, variance: Floats, prior: Floats | float, information: float) -> Any:
    """Return estimates, standard errors, common value and variance of levels.

    They are averages over the posterior of the deviation between levels, whose prior is uniform;
    so errors include that it is not known. ``mean`` and ``variance`` (L,) are posteriors for the
    prior N(0, ``prior``), which is taken out; ``information`` is the part of their precision that
    is left.

    >>> mean, variance = np.array([-1.0, 1.0]), np.array([0.1, 0.1])
    >>> estimate, error, common, between = shrink(mean, variance, 10.0, 1.0)
    >>> bool(abs(estimate[1] - 0.95) < 0.1), bool(0.2 < error[0] < 0.4)
    (True, True)
    """
    if not np.max(prior) > 0.0:  # answers are all alike
        return np.zeros(len(mean)), np.zeros(len(mean)), 0.0, 0.0
    variance = np.maximum(variance, 1e-12 * prior)
    precision = information * np.maximum(1.0 / variance - 1.0 / prior, 0.0)
    informed = precision > 1e-9 / np.max(prior)
    if not informed.any():
        return np.zeros(len(mean)), np.sqrt(prior + 0.0 * mean), 0.0, float(np.max(prior))
    precision = np.where(informed, precision, 0.0)
    # precision times the raw estimate
    score = np.where(informed, information * mean / variance, 0.0)

    def fit(between: float) -> tuple[float, float, Floats, Floats]:
        """Return log-likelihood, common, estimates and variances for a variance between levels."""
        shrinkage = 1.0 / (1.0 + between * precision)
        weight = float((precision * shrinkage).sum())
        common = float((score * shrinkage).sum()) / weight
        rest = (score - precision * common) * shrinkage
        squares = (rest[informed] ** 2 / (precision * shrinkage)[informed]).sum()
        likelihood = 0.5 * float(np.log(shrinkage).sum() - squares - np.log(weight))
        return likelihood, common, between * rest, between * shrinkage

    middle = score.sum() / precision.sum()
    rest = (score - precision * middle)[informed]
    spread = (rest**2 / precision[informed]).sum() / precision.sum()
    grid = spread * DEVIATIONS**2
    likelihoods = np.array([fit(between)[0] for between in grid])
    weights = np.exp(likelihoods - likelihoods.max())
    weights /= weights.sum()
    common = 0.0
    first = np.zeros(len(mean))
    second = np.zeros(len(mean))
    for weight, between in zip(weights, grid, strict=True):
        _, at, estimate, left = fit(between)
        common += weight * at
        first += weight * estimate
        second += weight * (estimate**2 + left)
    return (
        first,
        np.sqrt(np.maximum(second - first**2, 0.0)),
        common,
        float(weights @ np.sqrt(grid)) ** 2,
    )


class _NumberEffects:
    """Terms of a model's tasks and levels, from the posteriors of its learner."""

    def __init__(self, model: Model, learner: Any) -> None:
        self.model, self.engine, self.learner = model, model.engine, learner
        width = model.features.width
        self.counts = self.learner.arrays()["units"][:width, 0]
        rows = float(self.learner.arrays()["typical"][0])
        self.frequent = np.flatnonzero(self.counts >= FREQUENT_SHARE * max(rows, 1.0))
        mean, spread = self.learner.feature_moments()
        self.mean = mean[:width]
        self.spread = spread[:width]

    def slope_columns(self, slopes: Sequence[Any] | None) -> NDArray[np.intp]:
        name = self.model.features.name
        if slopes is None:
            varied = self.frequent[self.spread[self.frequent] > 0.0]
            if len(varied) <= MAX_SLOPES:
                return varied
            return varied[:0]
        columns = list(map(name, range(len(self.counts))))
        for slope in slopes:
            if slope not in columns:
                raise ValueError(f"the model has no feature {slope!r}")
        return np.array(list(map(columns.index, slopes)), dtype=np.intp)

    def tasks(self, names: list[Any], events: Any, columns: NDArray[np.intp]) -> list[Term]:
        terms = ["intercept", *map(self.model.features.name, columns.tolist())]
        posteriors = self.learner.task_posterior(self.engine.tasks.numbers(names), columns)
        sign = self.engine.target.sign
        return [_shrunk(*one, sign) for one in zip(terms, posteriors, strict=True)]

    def levels(self, grouping: str) -> tuple[list[str], NDArray[np.intp], NDArray[np.int64]]:
        """Return names, columns and counts of the levels of a further grouping."""
        start = f"{grouping}="
        levels: list[str] = []
        at: list[int] = []
        for column in np.flatnonzero(self.counts > 0.0).tolist():
            name = self.model.features.name(column)
            if isinstance(name, str) and name.startswith(start):
                levels.append(name.removeprefix(start))
                at.append(column)
        columns = np.array(at, dtype=np.intp)
        return levels, columns, self.counts[columns].astype(np.int64)

    def intercepts(self, at: NDArray[np.intp]) -> Term:
        return _shrunk("intercept", self.learner.feature_posterior(at))

    def residual(self) -> float:
        return float(self.learner.residual_variance())


def _shrunk(name: Any, one: Posterior, sign: float = 1.0) -> Term:
    """Return the term of levels with these posteriors; of the other class where sign is -1."""
    found = shrink(one.mean, one.variance, one.prior, one.information)
    estimate, error, common, between = found
    return Term(name, sign * (one.common + common), sign * estimate, error, between)


class _ClassEffects(_NumberEffects):
    """Terms of a model of two classes, from predictions and from posteriors."""

    def tasks(self, names: list[Any], events: Any, columns: NDArray[np.intp]) -> list[Term]:
        middle = self._margins(names)
        rises = {int(j): self._rise(names, int(j)) for j in {*columns.tolist(), *self.frequent}}
        spread: Any = sum((r * self.spread[j]) ** 2 for j, r in rises.items())
        information = events * _information(middle, spread)
        terms = [_term("intercept", middle, information)]
        for j in columns.tolist():
            name = self.model.features.name(j)
            terms.append(_term(name, rises[j], information * self.spread[j] ** 2))
        others = super().tasks(names, events, columns)
        centre = self.learner.arrays()["units"][self.frequent, 3]
        if (abs(self.mean[self.frequent] - centre) > 0.1 * self.spread[self.frequent]).any():
            others[0] = terms[0]  # the posterior is not that of the level at the means
        return [max(pair, key=attrgetter("variance")) for pair in zip(terms, others, strict=True)]

    def residual(self) -> float:
        return float(LOGISTIC_VARIANCE)

    def _rise(self, names: list[Any], column: int) -> Floats:
        """Return the slope of the margin along a feature."""
        step = self.spread[column] or 1.0
        more = self._margins(names, column, step)
        less = self._margins(names, column, -step)
        return np.asarray((more - less) / (2.0 * step))

    def _margins(self, names: list[Any], column: int = -1, step: float = 0.0) -> Floats:
        """Return margins of a row of means, of which one is moved."""
        at = self.frequent
        if column >= 0:
            at = np.union1d(at, [column])
        values = self.mean[at] + np.where(at == column, step, 0.0)
        n = len(names)
        rows = rows_of_columns(at, np.tile(values, (n, 1)))
        offset = np.zeros(n) if self.engine.with_offset else None
        return self.engine.margins_of(rows, self.engine.tasks.numbers(names), offset)


def rows_of_columns(columns: Any, values: Floats) -> Sparse:
    """Return rows (n, k) of values of some columns (k,), and no others."""
    n, k = values.shape
    starts: NDArray[np.int32] = (np.arange(n + 1) * k).astype(np.int32)
    return Sparse(values.ravel(), np.tile(np.array(columns, dtype=np.int32), n), starts)


def _information(middle: Floats, spread: Floats) -> Floats:
    """Return the mean of p (1 - p) where log-odds are normal with this mean and variance."""
    scale = 1.0 / np.sqrt(1.0 + np.pi * spread / 8.0)
    p = logistic(scale * middle)
    return np.asarray(EFFICIENCY * scale * p * (1.0 - p))


def _term(name: Any, values: Floats, precision: Floats) -> Term:
    """Return the term of levels whose posterior means are ``values``.

    The variance between them is found by expectation maximisation.
    """
    common = float(values.mean())
    estimate = values - common
    between = float(np.mean(estimate * estimate))
    for _ in range(MAX_STEPS):
        before = between
        between = float(np.mean(estimate * estimate + before / (1.0 + before * precision)))
        if abs(between - before) <= TOLERANCE * before:
            break
    return Term(name, common, estimate, np.sqrt(between / (1.0 + between * precision)), between)
