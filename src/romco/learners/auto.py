"""romco-auto: no parameters; finds out by itself how much to share and how boldly to step."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import chain
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romco.kernels.auto import constants
from romco.kernels.auto.auto import (
    CURVE_FIELDS,
    FEATURE_FIELDS,
    FUNCTION_FIELDS,
    INPUT_NAMES,
    MAX_HASH,
    PAIR_FIELDS,
    PLACE_FIELDS,
    STREAM_FIELDS,
    TASK_FIELDS,
    AutoKernel,
)
from romco.kernels.auto.functions import (
    BASES,
    DEFINITION_FIELDS,
    MOST_FUNCTIONS,
    SKETCH_FIELDS,
    merge_sketches,
)
from romco.kernels.auto.scales import aligned_zeros
from romco.kernels.auto.subspace import PROGRESS
from romco.kernels.core.events import Events
from romco.kernels.core.pairs import Pairs
from romco.kernels.merge.rows import TouchedRows, add_rows
from romco.learners.averaging import (
    OrderShares,
    average,
    copy_functions,
    copy_units,
    keep_units,
)
from romco.learners.base import Arrays
from romco.learners.capabilities import Contributions, Posterior
from romco.learners.frozen import (
    FIRST_FUNCTION,
    KNOTS,
    NUMBER,
    FrozenFunctions,
    FrozenPredictor,
    InputCovariance,
    Lane,
    PairTable,
    Part,
    Table,
    frozen_units,
)
from romco.learners.shared import OWN, PAIRS, PairLearner
from romco.learners.sharing import (
    Belief,
    Block,
    Fixed,
    Full,
    Latest,
    Line,
    Merged,
    Moments,
    PerFeature,
    PerPair,
    Pooled,
    Sum,
    Tracked,
    Whole,
    columns_of,
    stored_pairs,
)
from romco.learners.sharing import Part as MergePart
from romco.rounds import Round
from romco.typing import Floats

RANK = 4  # of the low-rank part
DIRECTIONS = slice(INPUT_NAMES.index("direction 1"), INPUT_NAMES.index("direction 1") + RANK)
NO_VARIANCE = (
    1e-9  # of a weight that stays as it is; more than 0, so that covariances have inverses
)
FREQUENT = 80  # features up to which the covariances of their weights are kept
DIFFERENT_LOG_ODDS = np.log(1e4)  # evidence from which on a task is called different
FAR_FROM_TYPICAL = 3.0  # evidence of the median task that a different one has besides
CLOSED = -2.0  # in ``frequent``: a place that no feature may have
FUNCTION_NUMBERS = 2**31  # from which on a number in ``frequent`` is that of a function
ALIKE = 0.3  # similarity from which on tasks are one group
DRIFTS = 0.4  # how likely it must be before it is reported
SUBSPACE_FIRST_EVENTS = 32.0  # events before the low-rank part is first computed
SUBSPACE_GROWTH = 1.05  # of the events between two computations in shards: at most barriers
SUBSPACE_PAIRS = 200.0  # pairs of task and feature that each event between them may cost
LATER = 1e300  # events that no stream will see: a shard computes no subspace by itself


def _belief(name: str, prior: float) -> Belief:
    """Return the two columns of a learner's weights."""
    mean, spent = (FEATURE_FIELDS.index(f"{name}_{part}") for part in ("mean", "spent"))
    return Belief(mean, spent, prior=prior)


@cache
def _beliefs(prior: float) -> PerFeature:
    """Return the merge rule of the weights of features."""
    return PerFeature(
        "features",
        *(_belief("hinge", 1.0), _belief("global", prior), _belief("mixed", prior)),
        Latest(columns_of(FEATURE_FIELDS, "hinge_copy", "global_copy", "mixed_copy", "copied")),
    )


def evidence_and_rest(fields: tuple[str, ...], *parts: MergePart) -> tuple[MergePart, ...]:
    """Return merge rules of a state: evidence is added; what no part names is one shard's."""
    sums = columns_of(fields, "evidence", "level_evidence", "slope_evidence")
    named = {*sums, *chain.from_iterable(part.columns for part in parts)}
    rest = tuple(k for k in range(len(fields)) if k not in named)
    return Sum(sums), *parts, Latest(rest)


def _of_stream(*names: str) -> tuple[int, ...]:
    return tuple(map(STREAM_FIELDS.index, names))


TESTS = columns_of(PLACE_FIELDS, "sum_", "square_")  # of functions, in sketches
SKETCHES = Merged(
    tuple(sorted({*columns_of(PLACE_FIELDS, *SKETCH_FIELDS)} - {*TESTS})),
    partial(merge_sketches, first=PLACE_FIELDS.index(SKETCH_FIELDS[0])),
)
MOMENT_GAIN = 0.04  # by which an event moves the moment, where its variance has settled
ANSWERS = Moments(*_of_stream("answers", "origin", "total", "squares"))
NOISES = ("own_noise", "mixed_noise", "global_noise", "live_noise", "frozen_noise")
NOISE_SHAPE = ("rise_below", "rise_above")  # how noise depends on the prediction

UNITS: tuple[Line, ...] = (  # of features
    PerFeature("units", Latest((3, 4, 5, 6, 7), count=0), Pooled((0, 1, 2))),
    Whole("typical", Sum((0, 2)), Latest((1, 3, 4))),
)
FUNCTIONS: tuple[Line, ...] = (  # of columns
    Whole("scores", Sum(tuple(range(2 * BASES)))),
    Whole(
        "functions",
        *evidence_and_rest(
            FUNCTION_FIELDS, Sum(columns_of(FUNCTION_FIELDS, "information", "precision", "tasks"))
        ),
    ),
)
SHARING: tuple[Line, ...] = (  # what is not one task's, and how shards merge it
    Whole("intercept", Latest(tuple(range(len(FEATURE_FIELDS))))),  # blocks merge its means
    Full("weight", "covariance", 0.0, ceiling=constants.STACKING_VARIANCE),
    Full("frozen_weight", "frozen_covariance", 0.0, ceiling=constants.STACKING_VARIANCE),
    Whole(
        "stream",
        *evidence_and_rest(
            STREAM_FIELDS,
            ANSWERS,
            Sum(_of_stream("global_errors")),
            Tracked(_of_stream(*NOISES, *NOISE_SHAPE), constants.NOISE_PACE, ANSWERS.count),
            Tracked(_of_stream("moment"), MOMENT_GAIN),
            Tracked(_of_stream("drift"), constants.DRIFT_RATE),
            Tracked(_of_stream("moment_variance", "tracking"), 1.0),
        ),
    ),
    Whole(
        "places",
        *evidence_and_rest(
            PLACE_FIELDS,
            Sum(TESTS),
            SKETCHES,
            Tracked((PLACE_FIELDS.index("moment_mean"),), MOMENT_GAIN),
            Tracked((PLACE_FIELDS.index("moment_spent"),), 1.0),
        ),
    ),
    Whole("clock", Sum((0, 1))),  # whoever recomputes the subspace sets when to do so next
    Fixed("frequent", "mixed_frequent", "progress", "directions"),  # change at barriers
    Fixed("definitions"),
    OWN,
    PerPair("curves", "curves_keys"),
)


class Shares(NamedTuple):
    """Factors (n,) of the parts of the learners in margins of n events."""

    whole: Floats  # of all that stacking adds up
    constant: Floats
    hinge: Floats
    everybody: Floats  # of the global learner
    mixed: Floats  # of the shared vector of the mixed learner,
    personal: Floats  # and of a task's level and slopes there
    own: Floats


class SubspaceRows(NamedTuple):
    """Rows of an array (d, k) by feature; all others are zero."""

    rows: NDArray[np.int32]  # (t,)
    values: Floats  # (t, k)
    pairs: int = 0  # of task and feature, not zero, that they are computed from


def moments(arrays: Mapping[str, Any]) -> tuple[Floats, Floats]:
    """Return mean and standard deviation (d,) of each feature, absent values at its centre."""
    rows = max(float(arrays["typical"][0]), 1.0)
    count, mean, deviations, centre = arrays["units"][:, :4].T
    absent = np.maximum(0.0, 1.0 - count / rows)
    apart = centre - mean
    variance = deviations / rows + absent * (1.0 - absent) * apart**2
    return mean + absent * apart, np.sqrt(variance)


class BaseAuto(PairLearner):
    """``romco-auto`` for two classes or numbers, which differ in the loss (abstract)."""

    supports_offset = True
    one_pass = True
    linear: ClassVar = False
    uses_unlabelled: ClassVar = True
    shapes: ClassVar = {
        **dict.fromkeys(("features", "units", "directions"), "d*"),
        **dict.fromkeys(("tasks", "factor"), "m*"),
        **PAIRS,
        "curves": "**",
    }
    kernel: AutoKernel
    described: ClassVar = "weight"  # stacking weights that weights() and couplings are of
    inputs: ClassVar[tuple[str, ...]] = INPUT_NAMES
    stacking_weights: ClassVar[dict[str, float]]  # prior means; of other inputs: 0
    stacking_variance: ClassVar[float]
    prior: ClassVar[float]  # variance of a shared weight
    start: ClassVar[float]  # variance of tasks' levels before any event
    function_share: ClassVar[float] = 1.0  # of the prior variances of functions of columns
    information_share: ClassVar[float] = 1.0  # of posterior precisions that is information

    def __init__(self, n_features: int, n_tasks: int) -> None:
        super().__init__(n_features, n_tasks)
        places = 1 + min(n_features, FREQUENT) + MOST_FUNCTIONS
        weights = np.array([self.stacking_weights.get(name, 0.0) for name in self.inputs])
        covariance = self.stacking_variance * np.eye(len(weights))
        arrays: Arrays = {
            "features": aligned_zeros(n_features, len(FEATURE_FIELDS)),
            "tasks": np.zeros((n_tasks, len(TASK_FIELDS))),
            "places": np.zeros((places, len(PLACE_FIELDS))),
            "stream": np.zeros(len(STREAM_FIELDS)),
            "directions": aligned_zeros(n_features, 2 * RANK),  # B, of both sides
            "factor": np.zeros((n_tasks, 2 * RANK)),  # F, of both sides
            "progress": np.zeros(PROGRESS),  # of a recomputation of B and F
            "intercept": np.zeros((1, len(FEATURE_FIELDS))),
            "weight": weights,
            "covariance": covariance.copy(),
            "frozen_weight": weights.copy(),
            "frozen_covariance": covariance,
            "clock": np.array([0.0, 0.0, SUBSPACE_FIRST_EVENTS]),  # sum of log |x|^2, events, due
            "global_joint": np.zeros((places, places)),  # spent covariances,
            "mixed_joint": np.zeros((places, places)),
            "frequent": np.full(places, -1.0),  # of the intercept and these features
            "mixed_frequent": np.full(places, -1.0),
            "functions": np.zeros((MOST_FUNCTIONS, len(FUNCTION_FIELDS))),
            "definitions": np.zeros((MOST_FUNCTIONS, len(DEFINITION_FIELDS))),
            "scores": np.zeros((BASES, 2 * BASES)),  # of products of two columns, and squares
            "units": aligned_zeros(n_features, 8),  # see UNIT_FIELDS
            "typical": np.zeros(5),  # events, common log size; times sizes were found, due; width
        }
        arrays["covariance"][0, 0] = NO_VARIANCE  # a live margin has no constant
        starts = constants.TRACKING_PRIOR, self.start, constants.SLOPE_START
        arrays["stream"][[*_of_stream("tracking", "level_variance", "slope_variance")]] = starts
        self._keep(len(PAIR_FIELDS), self._with_more(arrays))
        self.stores["curves"] = Pairs(n_tasks, MOST_FUNCTIONS, len(CURVE_FIELDS), False)
        self._make_kernel()

    def _with_more(self, arrays: Arrays) -> Arrays:
        """Return the arrays, with those that the target needs besides."""
        return arrays

    def _make_kernel(self) -> None:
        """Make the kernel of the arrays."""
        self.kernel = AutoKernel(self._arrays, self.stores["personal"], self.stores["curves"])

    # What is known

    def field(self, array: str, name: str) -> Floats:
        """Return a live view of one number of each row of a state."""
        fields = {"features": FEATURE_FIELDS, "tasks": TASK_FIELDS, "places": PLACE_FIELDS}[array]
        return np.asarray(self._arrays[array][:, fields.index(name)])

    def _of_stream(self, name: str) -> float:
        """Return a number of the stream's state."""
        return float(self._arrays["stream"][STREAM_FIELDS.index(name)])

    def variances(self) -> tuple[float, Floats]:
        """Return the variances of tasks' levels and slopes (d,), in the learners' units."""
        return self._of_stream("level_variance"), self.kernel.slope_variances()

    def _levels(self) -> tuple[Floats, Floats]:
        """Return means and variances (m,) of tasks' levels in the mixed learner."""
        prior, _ = self.variances()
        variance = prior / (1.0 + prior * self.field("tasks", "level_precision"))
        return self.field("tasks", "level_information") * variance, variance

    def _intercept(self, learner: str) -> float:
        """Return the intercept of the global or the mixed learner."""
        return float(self._arrays["intercept"][0, FEATURE_FIELDS.index(f"{learner}_mean")])

    def _pairs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], dict[str, Floats]]:
        """Return tasks and features of stored pairs, and their numbers by name."""
        arrays = self.pair_store.arrays()
        task, feature, values = stored_pairs(arrays["personal"], arrays.get("personal_keys"))
        return task, feature, dict(zip(PAIR_FIELDS, values.T, strict=True))

    def shared_factors(self) -> tuple[Floats, Floats]:
        share = self._task_shares()
        low_rank = self._arrays[self.described][DIRECTIONS] * self._factor()
        by_task = np.column_stack([share.hinge, share.everybody, share.mixed, low_rank])
        vectors = [self.field("features", f"{name}_mean") for name in ("hinge", "global", "mixed")]
        left = np.column_stack([*vectors, self.directions()])
        return self.units()[:, None] * left, by_task

    def _task_shares(self) -> Shares:
        """Return the shares (m,) of each task's margins, as if all variances were 0."""
        levels = np.zeros((self.n_tasks, 7))
        levels[:, 4] = self.field("tasks", "own_level_mean")
        levels[:, 5] = self.field("tasks", "own_level_spent")
        levels[:, 6] = self._agreement()[:-1]
        return self._used_shares(levels, self._arrays[self.described])

    def _agreement(self) -> Floats:
        """Return how far labels are like others', from -1 to 1, of tasks and then of a new one."""
        agrees, opposes = (self.field("tasks", name) for name in ("agrees", "opposes"))
        evidence = np.zeros((3, self.n_tasks + 1))  # for agreement, the opposite, and neither
        evidence[:2, :-1] = agrees, opposes
        likely = np.exp(evidence - evidence.max(axis=0))
        likely[0] *= constants.AGREEMENT_ODDS
        return np.asarray((likely[0] - likely[1]) / likely.sum(axis=0))

    def personal_sparse(self) -> Any:
        from scipy.sparse import csc_array  # here, so that `import romco` stays fast

        task, feature, pair = self._pairs()
        variance = self.kernel.slope_variances()[feature]
        slope = pair["slope_information"] * variance / (1.0 + variance * pair["slope_precision"])
        share = self._task_shares()
        values = share.own[task] * pair["hinge_mean"] + share.personal[task] * slope
        values *= self.units()[feature]
        return csc_array((values, (feature, task)), shape=(self.n_features, self.n_tasks))

    def values_met(self) -> Any:
        """Return how many values of a feature events of a task had (d, m): 1, or 2 for several."""
        from scipy.sparse import csc_array

        task, feature, pair = self._pairs()
        met = pair["slope_precision"] > 0.0
        values = 1 + (pair["value_hash"][met] > MAX_HASH)
        shape = (self.n_features, self.n_tasks)
        return csc_array((values, (feature[met], task[met])), shape=shape)

    def task_posterior(
        self, tasks: NDArray[np.int64], features: NDArray[np.intp]
    ) -> list[Posterior]:
        """Return posteriors of the tasks' levels and slopes in the mixed logistic learner."""
        level_prior, slope_priors = self.variances()
        level, variance = (values[tasks] for values in self._levels())
        V, information = self._variance(), self.information_share
        prior = np.full(len(tasks), V * level_prior)
        found = [Posterior(level, V * variance, prior, self._intercept("mixed"), information)]
        names = ("slope_information", "slope_precision")
        numbers: list[Any] = [
            self.pair_numbers(PAIR_FIELDS.index(name)).tocsr()[features][:, tasks].toarray()
            for name in names
        ]
        for j, own, sure in zip(features, *numbers, strict=True):
            unit, prior_variance = self.units()[j], slope_priors[j]
            variance = prior_variance / (1.0 + prior_variance * sure)
            prior = np.full(len(tasks), V * (unit**2 * prior_variance))
            mean, variance = unit * own * variance, V * (unit**2 * variance)
            found.append(Posterior(mean, variance, prior, 0.0, information))
        return found

    def curve_posterior(self, tasks: NDArray[np.int64], column: int) -> list[Posterior]:
        """Return posteriors of the tasks' slopes of each wave of a column."""
        functions = self.function_terms().get((column,), [])
        information, precision = (
            self.stores["curves"].lane(CURVE_FIELDS.index(name))[tasks]
            for name in ("slope_information", "slope_precision")
        )
        found = []
        for f, prior in zip(functions, self.kernel.curve_variances()[functions], strict=True):
            variance = prior / (1.0 + prior * precision[:, f])
            mean, V = information[:, f] * variance, self._variance()
            priors = np.full(len(tasks), V * prior)
            found.append(Posterior(mean, V * variance, priors, 0.0, self.information_share))
        return found

    def feature_posterior(self, features: NDArray[np.intp]) -> Posterior:
        """Return the posterior of the weights of indicators that all tasks share.

        Frequent ones have covariances. The variance of their mean is left out, for an intercept
        may take it up.
        """
        V, units = self._variance(), self.units()[features]
        mean, spent = (self.field("features", f"mixed_{k}")[features] for k in ("mean", "spent"))
        frequent = self._arrays["mixed_frequent"][1:]  # the first is the intercept
        members = np.flatnonzero(np.isin(features, frequent))
        n = len(members)
        if n > 1:
            places = [1 + frequent.tolist().index(j) for j in features[members]]
            joint = self.kernel.mixed_block.read_block()[1:][np.ix_(places, places)]
            centring = np.eye(n) - 1.0 / n
            spent[members] = np.diag(centring @ joint @ centring) * n / (n - 1.0)
        prior = V * units**2
        if CLOSED not in frequent:  # else the prior variance is 1
            prior *= self.prior
        variance = prior * (1.0 - spent / self.prior)
        return Posterior(units * mean, variance, prior, 0.0, self.information_share)

    def posterior(self, round: Round, frozen: bool = False) -> tuple[Floats, Floats]:
        events = self.events_of(round)
        mean = self.kernel.predict(events, frozen=frozen)
        return mean, self.kernel.spreads(events, frozen, False)[1]

    def trust(self) -> dict[str, float]:
        """Return the live stacking model's weight of each input."""
        return dict(zip(self.inputs, self._arrays["weight"].tolist(), strict=True))

    def difference(self) -> Floats:
        """Return the evidence (m,) that each task differs from the others, as log-odds.

        It is how much better the task's labels were predicted with its level and slopes than
        without, by the mixed logistic learner, each before it was learned.
        """
        return self.field("tasks", "evidence")

    def personal_tasks(self) -> NDArray[np.int64]:
        """Return the tasks that surely differ from the others, and far more than most tasks do."""
        evidence = self.difference()
        typical = max(0.0, float(np.median(evidence)))
        return np.flatnonzero(evidence >= DIFFERENT_LOG_ODDS + FAR_FROM_TYPICAL * typical)

    def similarity(self) -> Floats:
        """The task kernel (m, m): cosine of what each task alone has learned; 0 if nothing yet."""
        w = self.pair_store.lane(PAIR_FIELDS.index("hinge_mean"))
        length = np.linalg.norm(w, axis=1, keepdims=True)
        w = w / np.where(length > 0.0, length, 1.0)
        cosine = w @ w.T
        np.fill_diagonal(cosine, 1.0)
        return cosine

    def groups(self) -> NDArray[np.int64]:
        """A group number for each task (m,): joined while similar by ``ALIKE`` on average.

        Each task is alone where it is not sure that tasks differ at all.
        """
        from scipy.cluster.hierarchy import fcluster, linkage  # here: slow to import
        from scipy.spatial.distance import squareform

        if self.n_tasks == 1 or self.difference().sum() <= DIFFERENT_LOG_ODDS:
            return np.arange(self.n_tasks)
        distance = squareform(1.0 - np.clip(self.similarity(), -1.0, 1.0), checks=False)
        tree = linkage(distance, method="average")
        return fcluster(tree, 1.0 - ALIKE, criterion="distance").astype(np.int64) - 1

    def drift(self) -> float:
        """Return the mean probability over the last events that the moment predicts better."""
        return self._of_stream("drift")

    def findings(self, tasks: NDArray[np.int64]) -> list[str]:
        if self.drift() > DRIFTS:
            return ["All tasks drift: the last events tell more than all of them do."]
        return []

    # Predictions

    def contributions(self, round: Round) -> Contributions:
        """Return what features and intercepts add to each margin of ``predict_frozen(round)``.

        Given the variances, each margin is linear in its inputs, and these are in the features.
        """
        from scipy.sparse import csr_array  # here, so that `import romco` stays fast

        events = self.events_of(round)
        starts, features, values, own, levels, functions, slopes = self.kernel.entries(events)
        n, task = len(starts) - 1, np.asarray(round.task)
        row = np.repeat(np.arange(n), np.diff(starts))
        share = self._used_shares(levels, self._arrays["frozen_weight"])
        directions = self.directions()[features]
        low_rank = self._arrays["frozen_weight"][DIRECTIONS] * self._factor()[task]
        shared = (
            share.hinge[row] * self.field("features", "hinge_mean")[features]
            + share.everybody[row] * self.field("features", "global_mean")[features]
            + share.mixed[row] * self.field("features", "mixed_mean")[features]
            + share.whole[row] * (low_rank[row] * directions).sum(axis=1)
        )
        personal = share.own[row] * own[:, 0] + share.personal[row] * own[:, 1]
        intercept = (
            share.constant
            + share.everybody * self._intercept("global")
            + share.mixed * self._intercept("mixed")
            + share.personal * levels[:, 0]
        )

        def part(terms: Floats) -> "csr_array":
            return csr_array((values * terms, features, starts), shape=(n, self.n_features))

        by_function = share.everybody[:, None] * self.function_weights("global")
        by_function += share.mixed[:, None] * self.function_weights("mixed")
        by_task = share.personal[:, None] * slopes
        columns: list[int] = []
        curves: list[Floats] = []
        own_curves: list[Floats] = []
        products: dict[tuple[int, int], Floats] = {}
        for term, members in self.function_terms().items():
            added = (functions * by_function)[:, members].sum(axis=1)
            own_part = (functions * by_task)[:, members].sum(axis=1)
            if len(term) == 1:
                columns.append(term[0])
                curves.append(added)
                own_curves.append(own_part)
            else:
                products[term[0], term[1]] = added + own_part
        where = (np.tile(np.arange(n), len(columns)), np.repeat(np.array(columns, dtype=int), n))

        def with_curves(terms: Floats, added: list[Floats]) -> "csr_array":
            by_column = csr_array((np.array(added).ravel(), where), shape=(n, self.n_features))
            return part(terms) + by_column

        return Contributions(
            with_curves(shared, curves), with_curves(personal, own_curves), intercept, products
        )

    def function_terms(self) -> dict[tuple[int, ...], list[int]]:
        """Return the functions of each column j as (j,), and of two columns j < k as (j, k)."""
        terms: dict[tuple[int, ...], list[int]] = {}
        field = dict(zip(DEFINITION_FIELDS, self._arrays["definitions"].T, strict=True))
        for f in np.flatnonzero(field["used"]).tolist():
            columns = {int(field["feature"][f]), int(field["second"][f])} - {-1}
            terms.setdefault(tuple(sorted(columns)), []).append(f)
        return terms

    def function_weights(self, learner: str) -> Floats:
        """Return the weights (f,) of functions of columns in the global or the mixed learner."""
        return self._arrays["functions"][:, FEATURE_FIELDS.index(f"{learner}_mean")]

    def term_deviations(self, round: Round, term: tuple[int, ...]) -> list[Floats]:
        """Return two arrays (n, p): how unsure the global and the mixed learner are of a term.

        A term is the line and curve of a column j, (j,), or a product of two, (j, k). The norm of
        the difference of two rows is the standard error of what the term adds to one of the two
        margins more than to the other.
        """
        starts, features, values, _, levels, functions, _ = self.kernel.entries(
            self.events_of(round)
        )
        share = self._used_shares(levels, self._arrays["frozen_weight"])
        members = self.function_terms().get(term, [])
        design = functions[:, members]
        numbers = [FUNCTION_NUMBERS + f for f in members]
        if len(term) == 1:
            line = np.zeros(len(design))
            at = np.flatnonzero(features == term[0])
            line[np.searchsorted(starts, at, side="right") - 1] = values[at]
            design = np.column_stack([line, design])
            numbers = [*term, *numbers]
        blocks = (
            (share.everybody, self._arrays["frequent"], self.kernel.global_block),
            (share.mixed, self._arrays["mixed_frequent"], self.kernel.mixed_block),
        )
        found = []
        for factor, frequent, block in blocks:
            places = np.flatnonzero(np.isin(frequent, numbers))
            order = [numbers.index(int(number)) for number in frequent[places]]
            spent = block.read_block()[1:][np.ix_(places, places)]
            size, axes = np.linalg.eigh(self.prior * np.eye(len(places)) - spent)
            root = axes * np.sqrt(np.maximum(size, 0.0) * self._variance())
            found.append(factor[:, None] * (design[:, order] @ root))
        return found

    def ranked_values(self) -> dict[int, Floats]:
        """Return past values of each frequent number, rising and evenly spaced in rank."""
        frequent = self._arrays["frequent"]
        is_feature = (frequent >= 0.0) & (frequent < self.n_features)
        is_feature[0] = False  # the place of the intercept
        places = np.flatnonzero(is_feature & (self.field("places", "is_number") != 0.0))
        knots = self._arrays["places"][:, PLACE_FIELDS.index("knot_0") :][:, :KNOTS]
        return {int(frequent[k]): knots[k].copy() for k in places}

    def _variance(self) -> float:
        """Return the unit of variances."""
        return 1.0

    def _used_shares(self, levels: Floats, weights: Floats) -> Shares:
        """Return the shares of margins; without covariances *global logistic* takes no part."""
        share = self._shares(levels, weights)
        if self.answers and CLOSED in self._arrays["frequent"]:  # too many for covariances
            share = share._replace(everybody=np.zeros(len(levels)))
        return share

    def _frozen_functions(self, functions: NDArray[np.intp], weights: Floats) -> FrozenFunctions:
        """Return functions of columns that are in use, with their weights (n, lanes)."""
        a = self._arrays
        field = dict(zip(DEFINITION_FIELDS, a["definitions"][functions].T, strict=True))
        first, second = field["feature"].astype(np.int64), field["second"].astype(np.int64)
        orders = field["order"].astype(np.int64), field["second_order"].astype(np.int64)
        features = np.unique(np.concatenate([first, second[second >= 0]]))
        place = {int(feature): k for k, feature in enumerate(a["frequent"]) if k and feature >= 0.0}
        rows = np.array([place[feature] for feature in features.tolist()], dtype=np.intp)
        knots = a["places"][rows, PLACE_FIELDS.index("knot_0") :][:, :KNOTS]
        found = np.where(second < 0, -1, np.searchsorted(features, second))
        factors = np.column_stack([np.searchsorted(features, first), orders[0], found, orders[1]])
        share = self.function_share / self.prior
        priors = np.where(second < 0, constants.WAVE_PRIOR, constants.CROSS_PRIOR)
        smoothness = orders[0] * np.maximum(orders[1], 1)
        frozen = FrozenFunctions(
            features=features,
            kinds=np.full(len(features), NUMBER),
            knots=knots,
            factors=factors,
            scales=np.sqrt(priors * share) / smoothness,
            weights=weights,
        )
        return frozen.with_indicators(self.field("places", "is_number")[rows] == 0.0)

    def _own_weights(
        self, functions: NDArray[np.intp]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Callable[[NDArray[np.int64]], Floats]]:
        """Return tasks and features of all own weights, then those of functions, and their reader.

        It returns of some of them (n, 3) the own learner's weight, the slope in the mixed learner,
        and the change of that slope's variance.
        """
        task, feature, pair = self._pairs()
        _, priors = self.variances()
        stored = self.stores["curves"].arrays("curves")
        number = stored["curves_keys"] & 0xFFFFFFFF
        used = np.flatnonzero(np.isin(number, functions))
        number = number[used]
        curve = dict(zip(CURVE_FIELDS, stored["curves"].T, strict=True))
        curve_priors = self.kernel.curve_variances()
        n = len(task)

        def read(at: NDArray[np.int64]) -> Floats:
            of_feature, of_function = at < n, at >= n
            row, curve_row = at[of_feature], at[of_function] - n
            found = np.empty((len(at), 3))
            found[of_feature, 0] = pair["hinge_mean"][row]
            found[of_feature, 1:] = _slopes(pair, row, priors[feature[row]])
            found[of_function, 0] = 0.0
            found[of_function, 1:] = _slopes(
                curve, used[curve_row], curve_priors[number[curve_row]]
            )
            return found

        order = FIRST_FUNCTION - np.searchsorted(functions, number)
        tasks = np.concatenate([task, stored["curves_keys"][used] >> 32])
        return tasks, np.concatenate([feature, order]), read

    def _used_functions(self) -> NDArray[np.intp]:
        """Return the numbers of functions of columns that are in use."""
        return np.flatnonzero(self._arrays["definitions"][:, DEFINITION_FIELDS.index("used")])

    @abstractmethod
    def _shares(self, levels: Floats, weights: Floats) -> Shares:
        """Return by what the parts of the learners are multiplied in margins.

        ``levels`` (n, 6) are those that the kernel returns, ``weights`` those of a stacking model.
        """

    def prediction_context(self, round: Round) -> Floats:
        return self.kernel.prediction_context(self.events_of(round))

    def update_delayed(self, round: Round, context: Floats) -> None:
        """Learn a round whose labels came late, by the context of its prediction.

        The moment is weighed by what it predicted then. If no event was learned in between, it
        is :meth:`update`.
        """
        events = self._labelled(round)
        if np.isnan(context).any():
            raise ValueError("context must be numbers, as prediction_context(round) returned them")
        self.set_context(events, context)
        self.kernel.update(events)

    def set_context(self, events: Events, context: Floats) -> None:
        numbers = np.asarray(context, dtype=np.float64)
        if numbers.ndim != 2 or not (np.isfinite(numbers) | np.isnan(numbers[:, :1])).all():
            raise ValueError("context must be the numbers that prediction_context(round) returned")
        self.kernel.set_context(events, np.ascontiguousarray(numbers))

    # In pairs of classes

    @property
    def events(self) -> float:
        """Number of events learned."""
        return float(self._arrays["clock"][1])

    def expect_negative(self, events: float) -> None:
        """Begin with the log-odds of a class of which none of so many events was."""
        for name in ("global_mean", "global_copy", "mixed_mean", "mixed_copy"):
            self._arrays["intercept"][0, FEATURE_FIELDS.index(name)] = np.log(1.0 / (1.0 + events))

    def drop_functions(self) -> None:
        """Keep no functions of columns: one of many learners would need too much memory."""
        places = 1 + min(self.n_features, FREQUENT)
        a = self._arrays
        a |= {name: a[name][:0] for name in ("functions", "definitions", "scores")}
        a |= {name: a[name][:places].copy() for name in ("places", "frequent", "mixed_frequent")}
        a |= {name: a[name][:places, :places].copy() for name in ("global_joint", "mixed_joint")}
        self._make_kernel()

    # In shards

    def sharing(self) -> tuple[Line, ...]:
        kernel, prior = self.kernel, self.prior
        blocks = (
            Block("global_joint", kernel.global_block, prior),
            Block("mixed_joint", kernel.mixed_block, prior),
        )
        functions = FUNCTIONS if len(self._arrays["functions"]) else (Fixed("scores", "functions"),)
        return _beliefs(prior), *SHARING, *UNITS, *functions, *blocks

    def covariance_size(self) -> int:
        """Return the number of features and functions whose weights have covariances."""
        return int(np.count_nonzero(self._arrays["frequent"] >= 0.0))

    def become_shard(self) -> None:
        """Leave the subspace, and which features have covariances, to barriers from now on."""
        self.kernel.restart_subspace()
        self._arrays["clock"][2] = LATER

    @property
    def is_shard(self) -> bool:
        return bool(self._arrays["clock"][2] == LATER)

    def settle_after_merge(self, rows: NDArray[np.int32]) -> bool:
        """Choose features with covariances and functions, and units of numbers."""
        return self.kernel.choose_after_merge(rows)

    def subspace_update_due(self) -> bool:
        """Return True when the subspace is due for an update."""
        return bool(self._arrays["clock"][1] >= self._arrays["clock"][2])

    def subspace_statistics(self, rows: NDArray[np.int32]) -> SubspaceRows:
        """W W'B (d, 4), of the own tasks, whose features are all among the rows; B comes next."""
        return SubspaceRows(rows, *self.kernel.gather_directions(rows))

    def merge_subspace(self, statistics: Sequence[SubspaceRows]) -> SubspaceRows:
        """Return B from the statistics of all shards, for :meth:`set_subspace` of each.

        Tasks of a low rank are learned from B as soon as it is known: it is computed anew at every
        barrier, less often where that would cost more than learning.
        """
        events = self.events
        pause = sum(part.pairs for part in statistics) / SUBSPACE_PAIRS
        self._arrays["clock"][2] = max(SUBSPACE_GROWTH * events, events + pause)
        own = [part.rows for part in statistics]
        rows = TouchedRows(own, own, self.n_features).union()
        values = np.zeros((len(rows), statistics[0].values.shape[1]))
        for part in statistics:
            add_rows(values, rows, part.rows, part.values)
        self.kernel.orthogonalise_directions(values)
        self.kernel.put_directions(rows, values)
        return SubspaceRows(rows, values)

    def set_subspace(self, subspace: SubspaceRows) -> None:
        """Replace B, and project the own tasks on it: F = W'B."""
        self.kernel.put_directions(subspace.rows, subspace.values)

    def _side(self) -> int:
        """Return which of the two sides of the subspace is in use, 0 or 1."""
        return int(self._arrays["progress"][3] == 1.0)

    def directions(self) -> Floats:
        """Return a live view of B (d, 4), of the side of the subspace that is in use."""
        side = RANK * self._side()
        return np.asarray(self._arrays["directions"][:, side : side + RANK])

    def _factor(self) -> Floats:
        """F (m, 4), of the side of the subspace that is in use."""
        return self._arrays["factor"][:, RANK * self._side() :][:, :RANK]

    def feature_moments(self) -> tuple[Floats, Floats]:
        return moments(self._arrays)

    def load(self, arrays: Arrays) -> None:
        if isinstance(arrays.get("personal"), Pairs):  # arrays of the same shape go with it
            own = self._arrays
            own |= {k: a for k, a in arrays.items() if k in own and a.shape == own[k].shape}
            self._make_kernel()
        if not len(self._arrays["functions"]) and len(arrays.get("functions", ())):
            arrays = _without_functions(arrays, len(self._arrays["frequent"]))
        for name in ("frequent", "mixed_frequent"):
            if name in arrays:
                check_places(name, np.asarray(arrays[name]), self.n_features)
        self.kernel.others_change()
        super().load(arrays)
        if not self.pair_store.dense and "personal_keys" not in arrays:  # pairs have other numbers
            self.kernel.restart_subspace()

    # In several orders

    averages_orders: ClassVar = True

    def start_events(self) -> None:
        self.kernel.check_idle()
        keep_units(self._arrays)

    def adopt_units(self, other: "BaseAuto") -> None:
        """Take the units of features of a learner of the same events."""
        self.kernel.others_change()
        copy_units(self._arrays, other.arrays())

    def adopt_functions(self, other: "BaseAuto") -> None:
        self.kernel.others_change()
        copy_functions(self._arrays, other.arrays())

    def average(
        self,
        others: Sequence["BaseAuto"],
        given: "BaseAuto",
        order_shares: OrderShares | None = None,
        rounds: Iterable[Round] = (),
    ) -> None:
        average(self, others, given, order_shares, rounds)

    @abstractmethod
    def units(self) -> Floats:
        """Return factors (d,) that bring each feature to the learners' units."""


class Auto(BaseAuto):
    r"""Four Gaussian learners, the moment, and two stacking models; no parameters.

    The learners are two losses, squared hinge (AROW: bold, for clean data) and logistic
    (cautious, for noisy data), by two degrees of sharing. *Global hinge* and *global logistic*
    have one vector for all tasks, *own hinge* has one per task, and *mixed logistic* has a
    shared vector, and a level and slopes of each task whose variances are learned. A low-rank
    :math:`B F^\top` of rank four, computed from the own vectors from time to time, is what
    groups of tasks have in common.

    A stacking model, which is a Bayesian logistic regression, turns their margins into log-odds,
    and *the moment* follows what holds for the last events only. These are live predictions.
    Frozen predictions, after which no labels come, have a stacking model of their own, which
    learns from predictions by old weights. A margin is a log-odds:
    ``1 / (1 + exp(-margin))`` is a probability.

    Each feature is measured in a unit of its own, found as events come in, and centred if it
    is nearly always there. Of features that are present in a tenth of the events the shared
    logistic vectors have all covariances. The model is derived in ``docs/romco-auto.md``.
    Cost: O(nnz) per event, whatever the number of tasks; O(n^2) for n up to 80 frequent features.

    >>> import numpy as np, romco
    >>> learner = romco.learner("romco-auto", n_features=2, n_tasks=3)
    >>> x, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0])
    >>> for _ in range(5):
    ...     learner.update(romco.Round(np.array([0, 1]), x, y))
    >>> bool((learner.predict(romco.Round(np.array([2, 2]), x, y)) * y > 0.5).all())  # a new task
    True
    """

    stacking_weights: ClassVar = {"own hinge": 1.0, "mixed logistic": 1.0, "global hinge": 2.0}
    stacking_variance = constants.STACKING_VARIANCE
    prior = constants.GLOBAL_PRIOR
    start = constants.LEVEL_START

    def posterior(self, round: Round, frozen: bool = False) -> tuple[Floats, Floats]:
        events = self.events_of(round)
        margin = self.kernel.predict(events, frozen=frozen)
        without_unseen, deviation = self.kernel.spreads(events, frozen, False)
        known = 0.0 if round.offset is None else round.offset
        mean = (margin - known) * np.sqrt(1.0 + np.pi / 8.0 * without_unseen**2)
        return known + mean, deviation

    def _shares(self, levels: Floats, weights: Floats) -> Shares:
        _, global_variance, mixed_variance, variance, _, _, agreement = levels.T
        weight = dict(zip(INPUT_NAMES, weights, strict=True))
        whole = _moderation(variance)
        mixed = whole * weight["mixed logistic"] * _moderation(mixed_variance)
        return Shares(
            whole=whole,
            constant=whole * weight["constant"],
            hinge=whole * agreement * weight["global hinge"],
            everybody=whole * agreement * weight["global logistic"] * _moderation(global_variance),
            mixed=mixed,
            personal=mixed,
            own=whole * weight["own hinge"],
        )

    def frozen_predictor(self) -> FrozenPredictor:
        place = {name: k for k, name in enumerate(INPUT_NAMES)}
        own, mixed, all_ = place["own hinge"], place["mixed logistic"], place["global logistic"]
        directions = [place[f"direction {k}"] for k in range(1, RANK + 1)]
        a = self._arrays
        level_prior, slope_prior = self.variances()
        functions = self._used_functions()
        global_block, global_variance, used = self._frozen_variances("global", all_, functions)
        mixed_block, mixed_variance, _ = self._frozen_variances("mixed", mixed, functions)
        intercepts = np.zeros(len(INPUT_NAMES))
        intercepts[place["constant"]] = 1.0
        intercepts[all_] = used * self._intercept("global")
        intercepts[mixed] = self._intercept("mixed")
        level, level_variance = self._levels()
        vectors = [self.field("features", f"{name}_mean") for name in ("hinge", "global", "mixed")]
        vectors[1] = used * vectors[1]  # without covariances it takes no part
        vectors += [*self.directions().T]
        hinge = place["global hinge"]
        shared = (hinge, all_, mixed, *directions)
        *agreement, new = self._agreement().tolist()
        function_weights = np.zeros((len(functions), len(shared) + 2))  # as the lanes of features
        function_weights[:, 1] = used * self.function_weights("global")[functions]
        function_weights[:, 2] = self.function_weights("mixed")[functions]
        function_weights[:, -1] = self.kernel.curve_variances()[functions]
        total, count = a["clock"][:2]
        row = float(np.exp(-0.5 * total / count)) if count else 0.0
        return FrozenPredictor(
            inputs=INPUT_NAMES,
            intercepts=intercepts,
            weights=a["frozen_weight"].copy(),
            covariance=a["frozen_covariance"].copy(),
            units=frozen_units(a["units"], a["typical"][0], row),
            features=Table(
                (*lanes("weight", *shared), *lanes("variance", all_, mixed)),
                np.column_stack([*vectors, global_variance, mixed_variance + slope_prior]),
            ),
            tasks=Table(
                (
                    *(Lane("weight", mixed), Lane("variance", mixed)),
                    *lanes("factor", hinge, all_, *directions),
                ),
                np.column_stack([level, level_variance, agreement, agreement, self._factor()]),
            ),
            new_task=np.array([0.0, level_prior, new, new, *[0.0] * RANK]),
            pairs=PairTable(
                (*lanes("weight", own, mixed), Lane("variance", mixed)),
                *self._own_weights(functions),
            ),
            covariances=(global_block, mixed_block),
            functions=self._frozen_functions(functions, function_weights),
        )

    def _frozen_variances(
        self, name: str, at: int, functions: NDArray[np.intp]
    ) -> tuple[InputCovariance, Floats, float]:
        """Return the covariances of a shared vector, and the variances (d,) of other features.

        The third is 0 where too many features are frequent for covariances, else 1.
        """
        block = self.kernel.global_block if name == "global" else self.kernel.mixed_block
        frequent = self._arrays["frequent" if name == "global" else "mixed_frequent"]
        spent = block.read_block()[1:]
        n = len(spent)
        numbers = frequent[:n].astype(np.int64)
        is_function = numbers >= FUNCTION_NUMBERS
        features = numbers.copy()
        order = np.searchsorted(functions, numbers[is_function] - FUNCTION_NUMBERS)
        features[is_function] = FIRST_FUNCTION - order
        features[0] = -1  # the intercept
        variance = self.prior - self.field("features", f"{name}_spent")
        variance[features[features >= 0]] = 0.0
        closed = n < len(frequent) and frequent[n] == CLOSED
        if closed:  # the prior variance is 1
            variance /= self.prior
        covariance = np.diag([1.0, *[self.prior] * (n - 1)]) - spent
        return InputCovariance(at, features, covariance), variance, float(not closed)

    # Margins and units

    def probabilities(self, margins: Floats) -> Floats:
        return 0.5 * (1.0 + np.tanh(0.5 * margins))

    def units(self) -> Floats:
        total, count = self._arrays["clock"][:2]
        common = np.exp(-0.5 * total / count) if count else 1.0
        return np.asarray(common * self._arrays["units"][:, 5])


def _slopes(state: dict[str, Floats], rows: NDArray[np.int64], prior: Floats) -> Floats:
    """Return some slopes of tasks and the change of their variances (n, 2)."""
    variance = prior / (1.0 + prior * state["slope_precision"][rows])
    return np.column_stack([state["slope_information"][rows] * variance, variance - prior])


def lanes(part: Part, *inputs: int) -> tuple[Lane, ...]:
    """Return lanes of one part of several inputs."""
    return tuple(Lane(part, k) for k in inputs)


def check_places(name: str, numbers: NDArray[Any], n_features: int) -> None:
    """Raise ValueError unless known features and functions have the first places, one each."""
    taken = numbers[1:][numbers[1:] >= 0.0]
    functions = taken >= FUNCTION_NUMBERS
    limits = np.where(functions, FUNCTION_NUMBERS + MOST_FUNCTIONS, n_features)
    in_order = np.all(numbers[1 : 1 + len(taken)] >= 0.0) and np.all(numbers[:1] < 0.0)
    twice = np.diff(np.sort(taken)) == 0.0  # np.unique would import all of numpy.ma
    if not in_order or np.any(taken >= limits) or twice.any():
        raise ValueError(f"state array {name!r} does not hold the places of features")


def _without_functions(arrays: Arrays, places: int) -> Arrays:
    """Return arrays of a learner that keeps no functions of columns, with so many places."""
    arrays = {**arrays}
    for name, joint in (("frequent", "global_joint"), ("mixed_frequent", "mixed_joint")):
        numbers = arrays[name]
        kept = np.flatnonzero(numbers < FUNCTION_NUMBERS)[:places]
        arrays[name] = numbers[kept]
        arrays[joint] = arrays[joint][np.ix_(kept, kept)]
        if name == "frequent":
            arrays["places"] = arrays["places"][kept]
    empty = ("functions", "definitions", "scores")
    return arrays | {name: arrays[name][:0] for name in empty}


def _moderation(variance: Floats) -> Floats:
    """Return the factor of a margin of this variance (MacKay's approximation)."""
    return np.asarray(1.0 / np.sqrt(1.0 + np.pi * variance / 8.0))
