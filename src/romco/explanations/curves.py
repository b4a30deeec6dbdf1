"""Curves of columns and maps of products: what columns do to the margin of a prediction.

A curve is what a column adds to a frozen prediction where all other columns are at their averages:
its line and its waves. Its mean over the data is 0, as in plots of additive models.
"""

from dataclasses import dataclass
from itertools import starmap
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from romco.explanations.effects import EFFICIENCY, QUANTILE, rows_of_columns
from romco.learners.auto import BaseAuto
from romco.learners.numbers import NOISE_FACTOR
from romco.model import Model
from romco.model.body import as_round
from romco.model.features import Sparse
from romco.model.history import feature_name
from romco.presentation.screen import spell_number
from romco.typing import Floats

RANK_VALUES = 128.0  # past values that are as good as those by which ranks are known
RANK_STEP = 1.0 / 16  # over which the rise of a curve is measured
MAX_PEOPLE = 3  # whose curves are beside a shared one,
DIFFERENT = 3.0  # and the log-odds of a difference from which on they are
GRID_VALUES = 60  # at which a curve is computed, besides past values
MAP_RANKS = (np.arange(10) + 0.5) / 10  # of the rows and columns of a map
MIN_CROSS_SIZE = 0.01  # of the largest curve or product; smaller products are left out
PRINTED_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of the values in a line of text


class PersonalCurve(NamedTuple):
    """The curve of one task: the shared one and the task's own slope."""

    task: Any
    effect: Floats  # (n,)


@dataclass(frozen=True, eq=False)
class Curve:
    """Curve of a column: what it adds to the margin, in log-odds or units; its mean is 0."""

    column: Any
    values: Floats  # (n,) rising
    effect: Floats  # (n,) for tasks without slopes of their own
    error: Floats  # (n,) standard error
    ranked: Floats  # past values, evenly spaced in rank
    people: tuple[PersonalCurve, ...] = ()  # tasks that differ most

    @property
    def low(self) -> Floats:
        """Lower ends (n,) of 90 % intervals."""
        return self.effect - QUANTILE * self.error

    @property
    def high(self) -> Floats:
        """Upper ends (n,) of 90 % intervals."""
        return self.effect + QUANTILE * self.error

    @property
    def deciles(self) -> Floats:
        """Values (9,) between tenths of the data."""
        return np.quantile(self.ranked, np.arange(1, 10) / 10, method="nearest")

    @property
    def size(self) -> float:
        """Standard deviation of what the column adds, over the data."""
        return float(self.at(self.ranked).std())

    @property
    def slope(self) -> float:
        """Slope of the line through the curve with the least squares, over the data."""
        return _slope(self.ranked, self.at(self.ranked))

    def at(self, values: Floats) -> Floats:
        """Return what the column adds at some values."""
        return np.interp(values, self.values, self.effect)

    def quantiles(self) -> list[tuple[float, float]]:
        """Return five values of the column, from low to high, and what they add."""
        values = np.unique(np.quantile(self.ranked, PRINTED_QUANTILES, method="nearest"))
        return list(zip(values.tolist(), self.at(values).tolist(), strict=True))

    def summary(self) -> dict[str, Any]:
        """Return JSON values."""
        people = [{"task": str(one.task), "effect": one.effect.tolist()} for one in self.people]
        lists = _lists(self, "values", "effect", "low", "high", "deciles")
        return {"column": str(self.column), **lists, "people": people}


@dataclass(frozen=True, eq=False)
class Cross:
    """Map of two columns: what they add together, beyond what each of them adds."""

    columns: tuple[Any, Any]
    x: Floats  # (n,) values of the first column, evenly spaced in rank; 0 and 1 of an indicator
    y: Floats  # (k,) values of the second
    effect: Floats  # (k, n)

    @property
    def size(self) -> float:
        """Standard deviation of what they add, over the map."""
        return float(self.effect.std())

    def summary(self) -> dict[str, Any]:
        """Return JSON values."""
        return {"columns": list(map(str, self.columns)), **_lists(self, "x", "y", "effect")}


def _lists(found: Curve | Cross, *names: str) -> dict[str, Any]:
    """Return arrays by name, as JSON holds them."""
    return {name: getattr(found, name).tolist() for name in names}


class Curves(NamedTuple):
    """Curves of numbers by their column, and products of two, the largest first."""

    curves: dict[int, Curve]
    crosses: list[Cross]
    at_average: float  # what they add where each column has its mean value


NO_CURVES = Curves({}, [], 0.0)


def read_curves(model: Model) -> Curves:
    """Return what each number and each product of two columns does.

    Only ``romco-auto`` for two classes and for numbers has them.
    """
    engine = model.engine
    with engine.at_rest() as learner:
        if not isinstance(learner, BaseAuto) or not model.events:
            return NO_CURVES
        reader = CurveReader(model)
        curves = {column: reader.curve(column) for column in reader.ranked}
        products = [term for term in reader.learner.function_terms() if len(term) == 2]
        crosses = list(starmap(reader.cross, products))
        at_average = reader.at_average(curves)
    by_size = sorted(curves.items(), key=lambda item: -item[1].size)
    crosses.sort(key=lambda cross: -cross.size)
    sizes = [curve.size for curve in curves.values()] + [cross.size for cross in crosses]
    least = MIN_CROSS_SIZE * max(sizes, default=0.0)
    shown = [cross for cross in crosses if cross.size >= least]
    return Curves(dict(by_size), shown, at_average)


class CurveReader:
    """Reader of curves and maps: predicts rows in which one or two columns vary, others do not."""

    def __init__(self, model: Model) -> None:
        engine = model.engine
        self.newcomer = engine.tasks.next  # a task that has nothing of its own
        learner = engine.body.grown(0, self.newcomer + 1).learner
        assert isinstance(learner, BaseAuto)
        self.model, self.learner = model, learner
        self.sign = engine.target.sign
        self.information = EFFICIENCY  # that is left of the precision of weights
        if engine.target.kind == "number":
            self.information = 1.0 / NOISE_FACTOR
        self.tasks = dict(engine.tasks.items())
        self.ranked = self.learner.ranked_values()

    def curve(self, column: int) -> Curve:
        """Return the curve of a column, and those of the tasks that differ most."""
        ranked = self.ranked[column]
        values = np.union1d(np.linspace(ranked[0], ranked[-1], GRID_VALUES), ranked)
        if len(np.unique(ranked)) <= len(MAP_RANKS):  # between few values there are no others
            values = np.unique(ranked)
        n = len(values)
        rows = rows_of_columns([column], np.concatenate([values, ranked])[:, None])
        effect = self._added(rows, column, self.newcomer, n)
        deviations = self.learner.term_deviations(self._round(rows, self.newcomer), (column,))
        error = np.zeros(n)
        for found in deviations:
            error += np.linalg.norm(found[:n] - found[n:].mean(axis=0), axis=1)
        error = np.hypot(error / np.sqrt(self.information), _rank_error(values, effect, ranked))
        people = []
        for name in self._different(column):
            own_effect = self._added(rows, column, self.tasks[name], n)
            people.append(PersonalCurve(name, own_effect))
        return Curve(
            column=feature_name(self.model, column),
            values=values,
            effect=effect,
            error=error,
            ranked=ranked,
            people=tuple(people),
        )

    def cross(self, first: int, second: int) -> Cross:
        """Return what two columns add together."""
        x = self._map_values(first)
        y = self._map_values(second)
        pairs = np.column_stack([np.tile(x, len(y)), np.repeat(y, len(x))])
        round = self._round(rows_of_columns([first, second], pairs), self.newcomer)
        added = self.sign * self.learner.contributions(round).products[first, second]
        names = (feature_name(self.model, first), feature_name(self.model, second))
        return Cross(names, x, y, added.reshape(len(y), len(x)))

    def at_average(self, curves: dict[int, Curve]) -> float:
        """Return what curves and products add where each column has its mean value."""
        mean, _ = self.learner.feature_moments()
        columns = np.flatnonzero(mean)
        round = self._round(rows_of_columns(columns.tolist(), mean[None, columns]), self.newcomer)
        products = self.learner.contributions(round).products.values()
        added = 0.0
        for column, curve in curves.items():
            added += float(curve.at(mean[[column]])[0])
        together = float(sum(map(itemgetter(0), products)))
        return added + self.sign * together

    def _map_values(self, column: int) -> Floats:
        if column not in self.ranked:
            return np.array([0.0, 1.0])
        return np.unique(np.quantile(self.ranked[column], MAP_RANKS, method="nearest"))

    def _different(self, column: int) -> list[Any]:
        """Return the tasks whose lines or waves differ most from those of all, beyond chance."""
        numbers = np.array(list(self.tasks.values()), dtype=np.int64)
        _, slope = self.learner.task_posterior(numbers, np.array([column], dtype=np.intp))
        evidence = np.zeros(len(numbers))  # log-odds that a task differs
        for part in (slope, *self.learner.curve_posterior(numbers, column)):
            if part.prior.max() > 0.0:  # else answers are all alike
                common = np.average(part.mean, weights=1.0 / part.variance)
                squares = part.information * (part.mean - common) ** 2 / part.variance
                evidence += 0.5 * (squares + np.log(part.variance / part.prior))
        sure = evidence > DIFFERENT
        order = np.argsort(-evidence, kind="stable")
        names = list(self.tasks)
        return [names[i] for i in order[sure[order]][:MAX_PEOPLE].tolist()]

    def _added(self, rows: Sparse, column: int, task: int, n: int) -> Floats:
        """Return what the column adds to the first n rows, less its mean over the others."""
        parts = self.learner.contributions(self._round(rows, task))
        added = self.sign * (parts.shared + parts.personal)[:, [column]].toarray()[:, 0]
        return np.asarray(added[:n] - added[n:].mean())

    def _round(self, rows: Sparse, task: int) -> Any:
        return as_round(self.learner, rows, np.full(len(rows.starts) - 1, task))


def _slope(x: Floats, y: Floats) -> float:
    """Return the slope of the line with the least squares."""
    from_mean = x - x.mean()
    return float(from_mean @ y / (from_mean @ from_mean))


def _rank_error(values: Floats, effect: Floats, ranked: Floats) -> Floats:
    """Return standard errors (n,) since ranks are those among few past values.

    Waves rise by how much their rank is off; the line of a column does not.
    """
    known = (np.arange(len(ranked)) + 0.5) / len(ranked)
    rank = np.interp(values, ranked, known)
    at_ranks = np.interp(ranked, values, effect)
    waves = at_ranks - _slope(ranked, at_ranks) * ranked
    above, below = np.minimum(rank + RANK_STEP, 1.0), np.maximum(rank - RANK_STEP, 0.0)
    rise = (np.interp(above, known, waves) - np.interp(below, known, waves)) / (above - below)
    return np.abs(rise) * np.sqrt(rank * (1.0 - rank) / RANK_VALUES)


def map_labels(values: list[float]) -> list[str]:
    """Return values as texts; those of an indicator are words."""
    if values == [0.0, 1.0]:
        return ["no", "yes"]
    return list(map(spell_number, values))
