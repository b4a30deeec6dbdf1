"""A frozen prediction in numbers: what an export writes, and other programs compute.

An event of task i has values x_j of features j. With u_j = ``unit(x_j)``, see :class:`FrozenUnits`,
each input k of the stacking model is::

    sum_k      = intercept_k + t_ik + sum_j (w_jk + p_ijk) u_j
    variance_k = s_ik + sum_j (v_jk + q_ijk) u_j^2 + sum_ab S_kab u_a u_b
    z_k        = f_ik sum_k / sqrt(1 + pi max(0, variance_k) / 8)

and the margin, a log-odds of two classes or the predicted number, is::

    margin = sum_k W_k z_k / sqrt(1 + pi max(0, sum_kl C_kl z_k z_l) / 8)

Lower-case letters are in tables whose columns are *lanes*: a lane is a part of one input, a weight
(t, w, p), a variance (s, v, q) or a factor (f). What has no lane is 0; a factor is 1. S are
covariances of few features, of the constant, u = 1, and of functions of features, which have
weights as features have: see :class:`FrozenFunctions`. `docs/export-format.md` describes a file.

Many classes have such a margin for each pair of classes, and inputs of a softmax for each class:
see :class:`FrozenClasses`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from romco.learners.capabilities import Decomposed
from romco.rounds import Round

Numbers = NDArray[np.float64]
Whole = NDArray[np.int64]
Part = Literal["weight", "variance", "factor"]

UNBOUNDED = 1e300  # no value of a feature is larger
FAR_SIZES = 10.0  # sizes from its centre beyond which a value is cut
MIN_VALUES_OF_SIZE = 3  # from which the size of a feature is estimated
PARTLY_CENTRED_SHARE = 0.7  # of events, from which on a feature is centred in part,
WHOLLY_CENTRED_SHARE = 0.85  # and wholly
CENTRING_RANGE = WHOLLY_CENTRED_SHARE - PARTLY_CENTRED_SHARE
UNCENTRED_SHARE = 0.69  # of events, below which it is surely not
ROUNDING = 1e-9  # share of a mean square below which a variance is rounding
EMPTY_ROW_SQUARES = 1e-12  # sum of squares below which a row has no features

UNIT_FIELDS = (
    *("count", "total", "square", "bound", "share"),  # of a feature that its value measures anew
    *("centre", "reach", "factor"),  # of any other feature: its count is 0
    "zero",  # what a stored zero becomes; 0: it is no value
)


class Lane(NamedTuple):
    """A column of a table: a part of one input of the stacking model."""

    part: Part
    input: int


class FrozenUnits(NamedTuple):
    """Numbers by which a value x of a feature becomes u.

    A value below 1e-150 in size becomes ``row * zero``. Another one becomes
    ``row * factor * clip(x - centre, -reach, reach)``. Where ``count`` is not 0, the feature is
    measured anew with this value, as the learner would::

        v = clip(x, -bound, bound);  mean = (total + v) / count;  square = (square + v^2) / count
        known = (count - 1) mean^2 / ((count - 1) mean^2 + square - mean^2)
        centre = mean * share * known
        size^2 = square - 2 centre mean + centre^2
        r = log(size) - common;  factor = exp(-common - r^5 / (r^4 + 1.4^4));  reach = 10 size

    where ``known`` is 1 if square - mean^2 is at most 1e-9 square, and size^2 is square if it were
    at most that. If the squares of all u add up to less than ``empty``, all are 0.
    """

    table: Numbers  # (d, 9), see UNIT_FIELDS
    row: float  # one over the size of a row
    common: float  # log size of most features
    empty: float


class Table(NamedTuple):
    """Numbers by row and lane."""

    lanes: tuple[Lane, ...]
    values: Numbers  # (n, lanes)


class PairTable(NamedTuple):
    """Numbers of pairs of task and feature; all others are 0."""

    lanes: tuple[Lane, ...]
    task: Whole  # (p,)
    feature: Whole  # (p,) -2 is the first function, -3 the second
    read: Callable[[Whole], Numbers]  # values (n, lanes) of some of the pairs


INDICATOR, NUMBER, ZERO_IF_MISSING, MISSING_IF_ZERO = range(4)  # kinds of features with waves


class FrozenFunctions(NamedTuple):
    """Functions of features: products of one or two waves.

    A wave of order o of a value x is ``sqrt(2) cos(pi o r)``, where r is the rank of x among the
    knots of its feature: with n of K knots below x, r = (n - 1/2 + t) / K, where t is how far x is
    from the n-th knot to the next; (n + l / 2) / K where l knots equal x; 0 below all knots, and 1
    above. A feature without knots is an indicator: its wave of order 1 is 1, of order 2 it is 0.
    A missing value has waves of 0, and so has a zero of an indicator.

    A wave of order 0 is a line: the normal score of r, or u within -8 and 8 of a feature without
    knots. A number whose line is no normal score is listed twice, once without knots. A normal
    score is the normal quantile, between sixty-fourths linear, at 0 and 1 that of 1/64 and 63/64.

    With a ``rotation`` functions f become rotation (f - centre) before they have weights.
    """

    features: Whole  # (c,) that have waves
    kinds: Whole  # (c,) INDICATOR, NUMBER, ...
    knots: Numbers  # (c, KNOTS) rising
    factors: Whole  # (g, 4) place of a feature among these, order, second place or -1, its order
    scales: Numbers  # (g,) that products are multiplied by
    weights: Numbers  # (g, lanes), as those of features
    centre: Numbers = np.empty(0)  # (g,), or none
    rotation: Numbers = np.empty((0, 0))  # (g, g) lower triangle


KNOTS = 64
SCORE_STEPS = 64  # of the table of normal quantiles
NORMAL_QUANTILES = tuple(
    NormalDist().inv_cdf(min(max(step, 1), SCORE_STEPS - 1) / SCORE_STEPS)
    for step in range(SCORE_STEPS + 1)
)
NO_PLACES = np.empty(0, dtype=np.int64)


def no_functions(n_lanes: int) -> FrozenFunctions:
    """Return functions of a predictor that has none."""
    factors = np.empty((0, 4), dtype=np.int64)
    knots, weights = np.empty((0, KNOTS)), np.empty((0, n_lanes))
    return FrozenFunctions(NO_PLACES, NO_PLACES, knots, factors, np.empty(0), weights)


FIRST_FUNCTION = -2  # of a covariance; the next one is -3


class InputCovariance(NamedTuple):
    """Covariances of the weights of one input."""

    input: int
    features: Whole  # (n,) -1 is the constant, -2 the first function, -3 the second
    values: Numbers  # (n, n)


@dataclass(frozen=True)
class FrozenPredictor:
    """All numbers of a frozen prediction; the module describes the formula."""

    inputs: tuple[str, ...]
    intercepts: Numbers  # (K,)
    weights: Numbers  # (K,) of the stacking model
    covariance: Numbers  # (K, K)
    units: FrozenUnits
    features: Table
    tasks: Table
    new_task: Numbers | None  # row of a task that is not known; None: a model starts it
    pairs: PairTable
    covariances: Sequence[InputCovariance] = ()
    functions: FrozenFunctions | None = None
    variances: Numbers | None = None  # (K,) that variances begin with; 0 if not given


@dataclass(frozen=True)
class FrozenSoftmax:
    """Log-probabilities of K classes from scores by vectors, two discriminants and counts.

    Inputs of the ``predictor`` are two for each class, k and K + k. Each z is cut at -50
    and 50, and the score of class k is their sum by the predictor's weights, and::

        score_k += level_ik + weights_0 linear_k + weights_1 quadratic_k

    and log-probabilities are scores less their log-sum. Discriminants are of n *lines* f, which are
    functions before they are rotated. With the matrix M and numbers (events, constant) of *linear*,
    which all classes have in common, or of the class::

        far = |M (f - mean_ik)|^2 / spread_ik
        log-density = -(events + n) / 2 log(1 + far / events) - n / 2 log(spread_ik) - constant

    less the largest of all classes, at least -30. Level, spread and mean are numbers of a task and
    a class that it had events of; others have those of a new task.
    """

    predictor: FrozenPredictor
    weights: Numbers  # (2,) of linear and quadratic
    lines: Whole  # (n,) places among functions
    matrices: Numbers  # (1 + K, n, n) lower triangles
    densities: Numbers  # (1 + K, 2) events and constant
    groups: PairTable  # of task and class, which is the ``feature``: level, spread, mean (2 + n)
    new_groups: Numbers  # (K, 2 + n) of a new task


@dataclass(frozen=True)
class FrozenClasses:
    """Log-probabilities of K classes from pairs of classes and a softmax.

    The log-odds z_kj of class k against j < k are ``factors`` times the margin of the predictor
    k (k - 1) / 2 + j, within -500 and 500. The best class is found by comparing each with the best
    so far, from the first on: it is better if z > 0. *Close* is a class to which the best has
    log-odds below 4. With sums over the pairs of the best and any other, and of two close ones::

        p_k proportional to 1 / (1 + sum_j exp(-z_kj))

    A score is ``weights`` times log p_k and the log-probability of the softmax; log-probabilities
    are scores less their log-sum. Without pairs, or without a softmax, they are those of the other.
    """

    pairs: Sequence[FrozenPredictor]
    factors: Numbers  # (P,)
    softmax: FrozenSoftmax | None
    weights: Numbers  # (2,)


def frozen_units(columns: Numbers, events: float, row: float, common: float) -> FrozenUnits:
    """Return the units of a row that comes next, from columns (d, 8) as `columns.pxd` has them."""
    count, total, square, centre, size, factor, due_count, due_events = columns.T
    now = events + 1.0
    due = (count + 1.0 >= due_count) | ((centre != 0.0) & (now >= due_events))
    bound = _bounds(columns)
    share = _share_centred(count + 1.0, now)
    has_zeros = counted_zeros(columns, now)
    reach = FAR_SIZES * size
    zero = np.where(has_zeros, factor * np.clip(-centre, -reach, reach), 0.0)
    measured = np.column_stack([count + 1.0, total, square, bound, share])
    kept = np.column_stack([centre, reach, factor])
    measured[~due] = 0.0
    kept[due] = 0.0
    table = np.column_stack([measured, kept, zero])
    return FrozenUnits(table, row, common, EMPTY_ROW_SQUARES * row * row)


def _bounds(columns: Numbers) -> Numbers:
    """Return by which size (d,) values are cut before they are counted."""
    count, square = columns[:, 0], columns[:, 2]
    bound = np.full(len(columns), UNBOUNDED)
    several = count >= MIN_VALUES_OF_SIZE
    bound[several] = FAR_SIZES * np.sqrt(square[several] / count[several])
    return bound


def _share_centred(count: Numbers, events: float) -> Numbers:
    """Return the share of the mean by which features of this frequency are centred, from 0 to 1."""
    return np.clip((count / events - PARTLY_CENTRED_SHARE) / CENTRING_RANGE, 0.0, 1.0)


def settled_units(columns: Numbers, events: float, row: float, common: float) -> FrozenUnits:
    """Return units that stay as they are; a feature without one gets it from its first value."""
    units = frozen_units(columns, events, row, common)
    _, _, _, centre, size, factor, _, _ = columns.T
    table = units.table.copy()
    new = size == 0.0
    table[:, :5] = np.where(new[:, None], [1.0, 0.0, 0.0, UNBOUNDED, 0.0], 0.0)
    table[:, 5:8] = np.column_stack([centre, FAR_SIZES * size, factor])
    return units._replace(table=table)


def counted_zeros(columns: Numbers, events: float) -> NDArray[np.bool_]:
    """Return for which features (d,) a zero is a value: see `has_zeros` in `columns.pxd`."""
    count, total, square, centre = columns.T[:4]
    spreads = total * total < (1.0 - ROUNDING) * square * count
    always = count >= WHOLLY_CENTRED_SHARE * events
    binary = (count >= UNCENTRED_SHARE * events) & ~spreads
    return (centre != 0.0) & (always | binary)


def plain_units(n_features: int) -> FrozenUnits:
    """Return units in which values are as they are."""
    kept = dict.fromkeys(UNIT_FIELDS, 0.0) | {"reach": UNBOUNDED, "factor": 1.0}
    table = np.tile(list(kept.values()), (n_features, 1))
    return FrozenUnits(table, 1.0, 0.0, 0.0)


class LinearLearner(Protocol):
    """A learner whose margins are its weights times x, and an intercept."""

    n_features: int
    n_tasks: int

    def weights(self) -> Numbers:
        """Return the weights (d, m)."""

    def predict_frozen(self, round: Round) -> Numbers:
        """Return margins (n,)."""


def linear_predictor(learner: LinearLearner) -> FrozenPredictor:
    """Return the predictor of a linear learner."""
    if isinstance(learner, Decomposed):
        left, right = learner.shared_factors()
        own: Any = learner.personal_sparse().tocoo()
        feature, task, values = own.coords[0], own.coords[1], own.data
    else:
        weights = learner.weights()
        left = np.zeros((learner.n_features, 0))
        right = np.zeros((learner.n_tasks, 0))
        task, feature = np.nonzero(weights.T)
        values = weights.T[task, feature]
    rank = left.shape[1]
    inputs = ("own", *(f"direction {c}" for c in range(1, rank + 1)))
    weight, *directions = (Lane("weight", k) for k in range(rank + 1))
    factors = tuple(Lane("factor", k) for k in range(1, rank + 1))
    return FrozenPredictor(
        inputs=inputs,
        intercepts=np.zeros(rank + 1),
        weights=np.ones(rank + 1),
        covariance=np.zeros((rank + 1, rank + 1)),
        units=plain_units(learner.n_features),
        features=Table(tuple(directions), left),
        tasks=Table((weight, *factors), np.column_stack([_intercepts(learner), right])),
        new_task=None,
        pairs=PairTable((weight,), task, feature, lambda places: values[places, None]),
    )


def _intercepts(learner: LinearLearner) -> Numbers:
    """Return the margin (m,) that each task has without features."""
    from scipy.sparse import csr_array  # here, so that `import romco` stays fast

    m = learner.n_tasks
    empty: Any = csr_array((m, learner.n_features))
    return learner.predict_frozen(Round(np.arange(m), empty, np.empty(0)))
