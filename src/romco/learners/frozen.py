"""A frozen prediction in numbers: what an export writes, and other programs compute.

An event of task i has values x_j of features j. Each becomes u_j in the unit of its feature, see
:func:`frozen_units`, and each input k of the stacking model is::

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
from romco.typing import Floats

Whole = NDArray[np.int64]
Part = Literal["weight", "variance", "factor"]

UNBOUNDED = 1e300  # no value of a feature is larger
FAR_SIZES = 10.0  # sizes from its centre beyond which a value is cut
WHOLLY_CENTRED_SHARE = 0.85  # of events, from which on a feature is centred wholly,
UNCENTRED_SHARE = 0.69  # and below which surely not
ROUNDING = 1e-12  # share of a mean below which a standard deviation is rounding

UNIT_FIELDS = ("centre", "reach", "factor", "zero")


class Lane(NamedTuple):
    """A column of a table: a part of one input of the stacking model."""

    part: Part
    input: int


class Table(NamedTuple):
    """Numbers by row and lane."""

    lanes: tuple[Lane, ...]
    values: Floats  # (n, lanes)


class PairTable(NamedTuple):
    """Numbers of pairs of task and feature; all others are 0."""

    lanes: tuple[Lane, ...]
    task: Whole  # (p,)
    feature: Whole  # (p,) -2 is the first function, -3 the second
    read: Callable[[Whole], Floats]  # values (n, lanes) of some of the pairs


NUMBER, ZERO_IF_MISSING, MISSING_IF_ZERO = range(3)  # kinds of features with waves
LINE, SCORE = -1, 0  # orders of what is no wave


class FrozenFunctions(NamedTuple):
    """Functions of features: products of one or two waves.

    A wave of order o of a value x is ``sqrt(2) cos(pi o r)``, where r is the rank of x among the
    knots of its feature: with n of K knots below x, r = (n - 1/2 + t) / K, where t is how far x is
    from the n-th knot to the next; (n + l / 2) / K where l knots equal x; 0 below all knots, and 1
    above. A missing value has waves of 0.

    A wave of order SCORE is the normal score of r: the normal quantile, between sixty-fourths
    linear, at 0 and 1 that of 1/64 and 63/64. One of order LINE is u, cut at -8 and 8.

    With a ``rotation`` functions f become rotation (f - centre) before they have weights.
    """

    features: Whole  # (c,) that have waves
    kinds: Whole  # (c,) NUMBER, ...
    knots: Floats  # (c, KNOTS) rising
    factors: Whole  # (g, 4) place of a feature among these, order, second place or -1, its order
    scales: Floats  # (g,) that products are multiplied by
    weights: Floats  # (g, lanes), as those of features
    centre: Floats = np.empty(0)  # (g,), or none
    rotation: Floats = np.empty((0, 0))  # (g, g) lower triangle

    def with_indicators(self, places: NDArray[np.bool_]) -> "FrozenFunctions":
        """Return functions of which some features (c,) are indicators: their wave of order 1 is 1.

        So is a wave of order 2, but for its scale, if all knots and missing values are 0. Waves of
        higher orders are 0.
        """
        factors, scales = self.factors.copy(), self.scales.copy()
        for k in (0, 2):
            changed = (factors[:, k] >= 0) & places[factors[:, k]]
            wave = np.where(factors[:, k + 1] == 1, 1.0 / np.sqrt(2.0), 0.0)
            scales[changed] *= wave[changed]
            factors[changed, k + 1] = 2
        return self._replace(
            kinds=np.where(places, MISSING_IF_ZERO, self.kinds),
            knots=np.where(places[:, None], 0.0, self.knots),
            factors=factors,
            scales=scales,
        )


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
    values: Floats  # (n, n)


@dataclass(frozen=True)
class FrozenPredictor:
    """All numbers of a frozen prediction; the module describes the formula."""

    inputs: tuple[str, ...]
    intercepts: Floats  # (K,)
    weights: Floats  # (K,) of the stacking model
    covariance: Floats  # (K, K)
    units: Floats  # (d, 4), see frozen_units
    features: Table
    tasks: Table
    new_task: Floats | None  # row of a task that is not known; None: a model starts it
    pairs: PairTable
    covariances: Sequence[InputCovariance] = ()
    functions: FrozenFunctions | None = None
    variances: Floats | tuple[()] = ()  # (K,) that variances begin with; 0 if not given


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
    weights: Floats  # (2,) of linear and quadratic
    lines: Whole  # (n,) places among functions
    matrices: Floats  # (1 + K, n, n) lower triangles
    densities: Floats  # (1 + K, 2) events and constant
    groups: PairTable  # of task and class, which is the ``feature``: level, spread, mean (2 + n)
    new_groups: Floats  # (K, 2 + n) of a new task


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
    factors: Floats  # (P,)
    softmax: FrozenSoftmax | None
    weights: Floats  # (2,)


def frozen_units(columns: Floats, events: float, row: float) -> Floats:
    """Return UNIT_FIELDS of features (d, 4), from columns (d, 8) as `columns.pxd` has them.

    A value x becomes u = factor * clip(x - centre, -reach, reach). One below 1e-150 in size becomes
    ``zero``, which is 0 where a zero is no value. ``row`` is one over the size of a row.
    """
    centre, size, factor = columns[:, 3:6].T
    reach = FAR_SIZES * size
    zero = factor * np.clip(-centre, -reach, reach)
    zero = np.where(counted_zeros(columns, events + 1.0), zero, 0.0)
    return np.column_stack([centre, reach, row * factor, row * zero])


def counted_zeros(columns: Floats, events: float) -> NDArray[np.bool_]:
    """Return for which features (d,) a zero is a value: see `has_zeros` in `columns.pxd`."""
    count, mean, deviations, centre = columns.T[:4]
    spreads = deviations > (ROUNDING * mean) ** 2 * count
    always = count >= WHOLLY_CENTRED_SHARE * events
    binary = (count >= UNCENTRED_SHARE * events) & ~spreads
    return (centre != 0.0) & (always | binary)


class LinearLearner(Protocol):
    """A learner whose margins are its weights times x, and an intercept."""

    n_features: int
    n_tasks: int

    def weights(self) -> Floats:
        """Return the weights (d, m)."""

    def predict_frozen(self, round: Round) -> Floats:
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
        units=np.tile([0.0, UNBOUNDED, 1.0, 0.0], (learner.n_features, 1)),  # values as they are
        features=Table(tuple(directions), left),
        tasks=Table((weight, *factors), np.column_stack([_intercepts(learner), right])),
        new_task=None,
        pairs=PairTable((weight,), task, feature, lambda places: values[places, None]),
    )


def _intercepts(learner: LinearLearner) -> Floats:
    """Return the margin (m,) that each task has without features."""
    from scipy.sparse import csr_array  # here, so that `import romco` stays fast

    m = learner.n_tasks
    empty: Any = csr_array((m, learner.n_features))
    return learner.predict_frozen(Round(np.arange(m), empty, np.empty(0)))
