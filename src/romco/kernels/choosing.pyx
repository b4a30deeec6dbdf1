"""Gaussian posteriors of the reward of each action, and the law that choices are drawn from.

The score of action a for person i in context x is u'(z ⊗ x) + v_a'x + b_ia: u is shared by the
actions that have features z, v_a is the action's own, b_ia is the level of one person and one
action. u and v have one Gaussian posterior, kept as that of u and those of v_a given u; b_ia has
one of its own. Context and features are standardised; column 0 of x and z is 1. docs/choosing.md
has the mathematics.
"""

from collections.abc import Mapping
from zlib import crc32

import numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport M_PI, exp, fabs, sqrt
from libc.string cimport memset

from romco.kernels.core.events import LARGEST_FEATURE

Row = tuple[bytes, bytes]

OPTIMISM = 1.5  # standard deviations that an index lies above the mean
LEVEL_CURIOSITY = 0.3  # part of a level's variance that counts as curiosity
GREED = 500.0  # times the root of the number of rewards: how fast choices become greedy
LARGEST_UNITS = 5.0  # standardised values are clipped here
FIRST_TRUST = 3.0  # log-odds that a person does not report the opposite
MAX_EVIDENCE = 6.0  # for or against a person, log-odds
MAX_NAMES = 384  # columns with one name each; further names share columns by hash
MAX_COLUMNS = 512
MAX_ACTION_NAMES = 48
MAX_ACTION_COLUMNS = 64
MAX_CROSSES = 192  # columns of z ⊗ x with both parts not 1

cdef double CURIOUS = OPTIMISM, LEVEL_PART = LEVEL_CURIOSITY, GREEDY = GREED
cdef double CLIP = LARGEST_UNITS, LARGEST = LARGEST_FEATURE
cdef double LARGEST_EVIDENCE = MAX_EVIDENCE
cdef Py_ssize_t CROSSES = MAX_CROSSES
cdef enum:
    MAX_WIDTH = 513  # 1 and the columns of the context
    MAX_PAIRS = 769  # room for columns of z ⊗ x
    NODES = 32  # of Gauss-Hermite quadrature

cdef double SMALLEST_VARIANCE = 1e-6
cdef double[NODES] NODE
cdef double[NODES] NODE_WEIGHT
for _k, (_node, _weight) in enumerate(zip(*np.polynomial.hermite.hermgauss(NODES))):
    NODE[_k] = _node
    NODE_WEIGHT[_k] = _weight


cdef inline double logistic(double t) noexcept nogil:
    if t >= 0.0:
        return 1.0 / (1.0 + exp(-t))
    return exp(t) / (1.0 + exp(t))


cdef struct NodeValues:  # of a score at the nodes of quadrature
    double spread  # root of twice its variance
    double likely[NODES]  # probability of the reward


cdef class FeatureTable:
    """Columns of named features with their running statistics and units.

    A row is two ``bytes``: columns (int32) and values (float64); other columns are 0.
    """

    cdef readonly dict number  # column of each name, from 1
    cdef readonly Py_ssize_t max_names, max_columns
    cdef public Py_ssize_t width  # columns in use, with column 0
    cdef public double rows  # observed
    # Per column: running mean, sum of squared deviations, rows that are not 0; origin and unit.
    cdef readonly object mean, deviations, nonzero, origin, unit
    cdef double[::1] _mean, _deviations, _nonzero, _origin, _unit
    cdef double raw[MAX_WIDTH]

    def __init__(self, max_names, max_columns):
        self.number = {}
        self.max_names = max_names
        self.max_columns = max_columns
        self.width = 1
        self.mean = self._mean = np.zeros(max_columns + 1)
        self.deviations = self._deviations = np.zeros(max_columns + 1)
        self.nonzero = self._nonzero = np.zeros(max_columns + 1)
        self.origin = self._origin = np.zeros(max_columns + 1)
        self.unit = self._unit = np.ones(max_columns + 1)

    def read(self, row, dict new, skip=None):
        """Return the row of a mapping; names not known get columns in ``new``.

        ``skip`` is a name that is no feature. Changes nothing here.
        """
        cdef double value
        cdef int column
        cdef int columns[MAX_WIDTH]
        cdef double values[MAX_WIDTH]
        cdef Py_ssize_t n = 0
        cdef dict cells
        if type(row) is dict:
            cells = row
        elif hasattr(row, "items"):
            cells = dict(row.items())
        else:
            raise ValueError(f"expected a mapping of names to values; got {row!r:.60}")
        for name, cell in cells.items():
            if cell is None or (skip is not None and name == skip):
                continue
            if type(name) is not str and not isinstance(name, str):
                raise ValueError(f"names of features are text; got {name!r:.60}")
            if type(cell) is float:
                value = cell
            elif isinstance(cell, str):
                name = f"{name}={cell}"
                value = 1.0
            else:
                value = as_number(name, cell)
            if not (fabs(value) <= LARGEST):
                raise ValueError(
                    f"feature {name!r:.60} is {value}: give a finite number up to {LARGEST:g}, "
                    "or leave it out"
                )
            if n == MAX_WIDTH:
                raise ValueError(f"a row has at most {MAX_WIDTH} features: leave some out")
            found = self.number.get(name)
            if found is None:
                found = self.column_of_new(name, new)
            column = found
            columns[n] = column
            values[n] = value
            n += 1
        return (
            PyBytes_FromStringAndSize(<char*> columns, n * sizeof(int)),
            PyBytes_FromStringAndSize(<char*> values, n * sizeof(double)),
        )

    cdef column_of_new(self, name, dict new):
        column = new.get(name)
        if column is None:
            known = len(self.number) + len(new)
            if known < self.max_names:
                column = new[name] = known + 1
            else:
                shared = self.max_columns - self.max_names
                column = self.max_names + 1 + crc32(name.encode()) % shared
        return column

    def adopt(self, dict new):
        """Take up new names; where there are no more columns for names, all are in use."""
        self.number.update(new)
        self.width = len(self.number) + 1
        if len(self.number) == self.max_names:
            self.width = self.max_columns + 1

    def set_units(self, origin, unit):
        """Set origins and units of the columns in use."""
        self.origin[: self.width] = origin
        self.unit[: self.width] = unit

    cdef void spread(self, tuple row) noexcept:
        """Write a row to ``raw``, with zeros in columns that it lacks."""
        cdef const int* columns = <const int*> PyBytes_AS_STRING(<bytes> row[0])
        cdef const double* values = <const double*> PyBytes_AS_STRING(<bytes> row[1])
        cdef Py_ssize_t k, n = PyBytes_GET_SIZE(<bytes> row[0]) // sizeof(int)
        memset(self.raw, 0, self.width * sizeof(double))
        for k in range(n):
            self.raw[columns[k]] += values[k]

    cdef void observe(self) noexcept:
        """Add ``raw`` to the statistics; the first value of a column is its unit for now."""
        cdef Py_ssize_t j
        cdef double step
        self.rows += 1.0
        for j in range(1, self.width):
            step = self.raw[j] - self._mean[j]
            self._mean[j] += step / self.rows
            self._deviations[j] += step * (self.raw[j] - self._mean[j])
            if self.raw[j] != 0.0:
                if self._nonzero[j] == 0.0:
                    self._unit[j] = fabs(self.raw[j])
                self._nonzero[j] += 1.0

    cdef void standardise(self, double* x) noexcept:
        cdef Py_ssize_t j
        cdef double value
        x[0] = 1.0
        for j in range(1, self.width):
            value = (self.raw[j] - self._origin[j]) / self._unit[j]
            x[j] = min(max(value, -CLIP), CLIP)


cdef double as_number(name, cell) except? -1.0:
    if isinstance(cell, (int, float, np.number, np.bool_)):
        try:
            return float(cell)
        except OverflowError:
            return float("inf")
    raise ValueError(
        f"feature {name!r:.60} is {cell!r:.60}: give a number or text, or leave it out"
    )


cdef class Posterior:
    """Gaussian of some weights; columns beyond ``width`` still have their prior.

    That of an action's own weights v is given u, the shared ones: v has mean ``mean - slopes @ u``.
    """

    cdef readonly Py_ssize_t width
    cdef readonly Py_ssize_t pairs  # columns of u on which it depends, 0 without features
    cdef Py_ssize_t room, pair_room
    cdef double[::1] _mean
    cdef double[:, ::1] _covariance
    cdef double[:, ::1] _slopes

    def __init__(self):
        self._resize(8)

    @property
    def mean(self):
        """Mean (width,), a view."""
        return np.asarray(self._mean)[: self.width]

    @property
    def covariance(self):
        """Covariance (width, width), a view."""
        return np.asarray(self._covariance)[: self.width, : self.width]

    @property
    def slopes(self):
        """Slopes (width, pairs), a view."""
        if not self.pairs:
            return np.zeros((self.width, 0))
        return np.asarray(self._slopes)[: self.width, : self.pairs]

    def replace(self, mean, covariance, slopes=None):
        """Set mean and covariance, and slopes where they depend on shared weights."""
        width = len(mean)
        if width > self.room:
            self._resize(width)
        self.width = width
        self.mean[:] = mean
        self.covariance[:] = covariance
        if slopes is not None and slopes.shape[1]:
            self.grow_pairs(slopes.shape[1])
            self.slopes[:] = slopes

    cdef _resize(self, Py_ssize_t room):
        mean = np.zeros(room)
        covariance = np.zeros((room, room))
        if self.width:
            mean[: self.width] = self.mean
            covariance[: self.width, : self.width] = self.covariance
        if self.pairs:
            slopes = np.zeros((room, self.pair_room))
            slopes[: self.width, : self.pairs] = self.slopes
            self._slopes = slopes
        self._mean = mean
        self._covariance = covariance
        self.room = room

    cdef int grow_pairs(self, Py_ssize_t pairs) except -1:
        """Depend on more shared weights, for now with slopes of 0."""
        if pairs > self.pair_room:
            room = max(pairs, min(2 * self.pair_room, <Py_ssize_t> MAX_PAIRS))
            slopes = np.zeros((self.room, room))
            slopes[: self.width, : self.pairs] = self.slopes
            self._slopes = slopes
            self.pair_room = room
        self.pairs = pairs
        return 0

    cdef void subtract_slopes(self, const double* x, double* zx) noexcept:
        """Take from z ⊗ x what the action's own part says of u already: slopes' x."""
        cdef Py_ssize_t i, c
        cdef const double* row
        cdef double weight
        for i in range(self.width):
            weight = x[i]
            if weight != 0.0:
                row = &self._slopes[i, 0]
                for c in range(self.pairs):
                    zx[c] -= weight * row[c]

    cdef void learn_slopes(
        self, const double* product, const double* zx, double shrinkage
    ) noexcept:
        """Learn how the mean depends on u, where zx is what was left of z ⊗ x."""
        cdef Py_ssize_t i, c
        cdef double* row
        cdef double weight
        for i in range(self.width):
            weight = shrinkage * product[i]
            if weight != 0.0:
                row = &self._slopes[i, 0]
                for c in range(self.pairs):
                    row[c] += weight * zx[c]

    cdef int grow(self, Py_ssize_t width, double variance) except -1:
        """Add columns at their prior variance."""
        cdef Py_ssize_t j
        if width > self.room:
            self._resize(max(width, min(2 * self.room, <Py_ssize_t> MAX_WIDTH)))
        for j in range(self.width, width):
            self._covariance[j, j] = variance
        self.width = width
        return 0

    cdef double mean_of(self, const double* x) noexcept:
        cdef Py_ssize_t j
        cdef double total = 0.0
        for j in range(self.width):
            total += self._mean[j] * x[j]
        return total

    cdef double variance_of(self, const double* x, double* product) noexcept:
        """Return x'Sx, and S x in ``product``."""
        cdef Py_ssize_t i, j, d = self.width
        cdef double total = 0.0, weight
        cdef const double* row
        memset(product, 0, d * sizeof(double))
        for i in range(d):
            weight = x[i]
            if weight != 0.0:
                row = &self._covariance[i, 0]
                for j in range(d):
                    product[j] += weight * row[j]
        for j in range(d):
            total += product[j] * x[j]
        return max(total, 0.0)

    cdef void learn(self, const double* product, double step, double shrinkage) noexcept:
        """Move the mean by step S x, and shrink the covariance along S x."""
        cdef Py_ssize_t i, j, d = self.width
        cdef double* row
        cdef double weight
        for i in range(d):
            weight = product[i]
            if weight == 0.0:
                continue
            self._mean[i] += step * weight
            row = &self._covariance[i, 0]
            for j in range(d):
                row[j] -= shrinkage * (weight * product[j])


cdef double squares(const double* x, Py_ssize_t begin, Py_ssize_t end) noexcept:
    cdef Py_ssize_t j
    cdef double total = 0.0
    for j in range(begin, end):
        total += x[j] * x[j]
    return total


cdef class Offer:
    """A context and actions as they were read, with the names that are new."""

    cdef readonly tuple context
    cdef public list actions  # pairs of a number and a row, None without features
    cdef readonly list names, numbers
    cdef readonly dict new_actions, new_context, new_features

    cdef check(self, Py_ssize_t max_actions):
        """Raise ValueError unless there are actions, not too many, each once."""
        cdef Py_ssize_t n = len(self.names)
        if n == 0:
            raise ValueError("there are no actions to choose from: give at least one")
        if n > max_actions:
            raise ValueError(
                f"a choice is among at most {max_actions:,} actions: leave out those that cannot "
                "be best"
            )
        if len(set(self.names)) < n:
            name = next(one for one in self.names if self.names.count(one) > 1)
            raise ValueError(f"action {name!r:.60} is offered twice: offer each action once")


cdef class ChooserKernel:
    """All that a chooser has learned, by numbers of columns, actions and levels.

    Variances of numeric rewards are in units of the variance of the noise.
    """

    cdef readonly bint numeric
    cdef object identity  # checks a name: (what it is, value)
    cdef readonly FeatureTable context, features
    cdef readonly dict actions  # number of each
    cdef readonly list names
    cdef readonly list own  # Posterior of each action; None before its first reward
    cdef readonly Posterior shared
    cdef public long long rewards  # learned
    cdef public double centre  # of numeric rewards, taken off before they are learned
    cdef public double reward_mean, noise  # mean of numeric rewards; sum of squared errors
    # Prior variances.
    cdef public double own_level, own_weights, shared_weights, levels
    cdef public double trust  # log-odds that a person of whom nothing is known reports no opposites
    # Columns of z ⊗ x: pairs of columns.
    cdef readonly list pairs
    cdef int pair_z[MAX_PAIRS]
    cdef int pair_x[MAX_PAIRS]
    cdef Py_ssize_t n_pairs, crosses, paired_z, paired_x
    # Levels of persons and actions, by slot.
    cdef readonly list free
    cdef readonly Py_ssize_t slots
    cdef double[::1] level_mean, level_variance
    cdef double[:, ::1] m, v  # of the actions that were scored last
    cdef double[::1] p
    cdef double x[MAX_WIDTH]
    cdef double z[MAX_WIDTH]
    cdef double zx[MAX_PAIRS]
    cdef double direct
    cdef double product[MAX_PAIRS]
    cdef double shared_product[MAX_PAIRS]

    def __init__(self, bint numeric, identity):
        self.numeric = numeric
        self.identity = identity
        self.trust = FIRST_TRUST
        self.context = FeatureTable(MAX_NAMES, MAX_COLUMNS)
        self.features = FeatureTable(MAX_ACTION_NAMES, MAX_ACTION_COLUMNS)
        self.actions = {}
        self.names = []
        self.own = []
        self.shared = Posterior()
        self.pairs = []
        self.free = []
        self.level_mean = np.zeros(8)
        self.level_variance = np.zeros(8)
        self.m = np.empty((8, 3))
        self.v = np.empty((8, 3))
        self.p = np.empty(8)
        self._pair(0, 0)
        self.paired_z = 1
        self.paired_x = 1

    @property
    def level_means(self):
        """Means of the levels by slot, a view."""
        return np.asarray(self.level_mean)[: self.slots]

    @property
    def level_variances(self):
        """Variances of the levels by slot, a view."""
        return np.asarray(self.level_variance)[: self.slots]

    def set_levels(self, means, variances, list free):
        """Use as many slots as there are means, of which some are free."""
        self.free = free
        self.slots = len(means)
        self.level_mean = np.concatenate([means, np.zeros(8)])
        self.level_variance = np.concatenate([variances, np.zeros(8)])

    def free_levels(self, dict levels):
        """Free the slots of a person."""
        for slot in levels.values():
            self.level_mean[<Py_ssize_t> slot] = 0.0
            self.level_variance[<Py_ssize_t> slot] = self.levels
        self.free.extend(levels.values())
        levels.clear()

    def standardise(self, tuple row):
        """Return the standardised context (width,) of a row."""
        self.context.spread(row)
        self.context.standardise(self.x)
        return np.array(<double[: self.context.width]> self.x)

    def replace(self, own, shared, levels, context, features, priors, double centre):
        """Set all that a change of units changes, at once.

        ``own`` are mean, covariance and slopes of each action, or None; ``shared`` mean and
        covariance, ``levels`` means and variances, ``context`` and ``features`` origins and units;
        ``priors`` the variances of an action's own level, its weights, shared weights, and levels
        of people.
        """
        for posterior, moments in zip(self.own, own):
            if posterior is not None:
                posterior.replace(*moments)
        self.shared.replace(*shared)
        self.context.set_units(*context)
        self.features.set_units(*features)
        self.level_means[:], self.level_variances[:] = levels
        self.own_level, self.own_weights, self.shared_weights, self.levels = priors
        self.centre = centre

    def read(self, x, actions, Py_ssize_t max_actions):
        """Return the offer of these actions in a context; names not known get the next numbers."""
        cdef Offer offer = Offer.__new__(Offer)
        offer.new_actions = {}
        offer.new_context = {}
        offer.new_features = {}
        offer.names = []
        offer.numbers = []
        offer.actions = []
        offer.context = self.context.read(x, offer.new_context)
        for action in actions:
            row = None
            name = action
            if type(action) is not str and isinstance(action, Mapping):
                if "name" not in action:
                    raise ValueError(f"action {action!r:.80} has no name: give it a \"name\"")
                name = action["name"]
                row = self.features.read(action, offer.new_features, "name")
            number = self.actions.get(name) if type(name) is str else None
            if number is None:
                name = self.identity("action", name)
                number = self.actions.get(name)
            if number is None:
                number = offer.new_actions.setdefault(
                    name, len(self.actions) + len(offer.new_actions)
                )
            offer.names.append(name)
            offer.numbers.append(number)
            offer.actions.append((number, row))
            if len(offer.names) > max_actions:
                break
        offer.check(max_actions)
        return offer

    cdef _pair(self, int z, int x):
        self.pair_z[self.n_pairs] = z
        self.pair_x[self.n_pairs] = x
        self.n_pairs += 1
        self.pairs.append((z, x))

    def adopt(self, dict actions, dict context, dict features):
        """Take up actions and features not known before."""
        for name in actions:
            self.own.append(None)
            self.names.append(name)
        self.actions.update(actions)
        self.context.adopt(context)
        self.features.adopt(features)
        self._add_pairs()

    cdef _add_pairs(self):
        """Add columns of z ⊗ x for columns that are new; crosses only while there is room."""
        cdef int j, k
        if self.paired_z == self.features.width and self.paired_x == self.context.width:
            return
        for j in range(self.paired_z, self.features.width):
            self._pair(j, 0)
        if self.features.width > 1:
            for k in range(self.paired_x, self.context.width):
                self._pair(0, k)
            for j in range(1, self.features.width):
                for k in range(1, self.context.width):
                    if (j >= self.paired_z or k >= self.paired_x) and self.crosses < CROSSES:
                        self.crosses += 1
                        self._pair(j, k)
            self.paired_x = self.context.width
        self.paired_z = self.features.width

    def restore_pairs(self, pairs):
        """Set the columns of z ⊗ x."""
        self.n_pairs = self.crosses = 0
        self.pairs = []
        for z, x in pairs:
            if not (0 <= z < self.features.width and 0 <= x < self.context.width):
                raise ValueError("a product of features that are not there")
            if self.n_pairs == MAX_PAIRS:
                raise ValueError("too many products of features")
            self.crosses += z > 0 and x > 0
            self._pair(z, x)
        self.paired_z = self.features.width
        self.paired_x = self.context.width if self.features.width > 1 else 1

    cdef bint cross(self, row, own) noexcept:
        """Write z ⊗ x less slopes' x to ``zx``, and u'(z ⊗ x) to ``direct``; False if all is 0.

        ``row`` are the action's features, None without; ``own`` its posterior, None before it.
        """
        cdef Py_ssize_t c
        cdef bint depends = own is not None and (<Posterior> own).pairs > 0
        self.direct = 0.0
        if row is not None:
            self.features.spread(<tuple> row)
            self.features.standardise(self.z)
            for c in range(self.n_pairs):
                self.zx[c] = self.z[self.pair_z[c]] * self.x[self.pair_x[c]]
            self.direct = self.shared.mean_of(self.zx)
        elif depends:
            memset(self.zx, 0, self.n_pairs * sizeof(double))
        if depends:
            (<Posterior> own).subtract_slopes(self.x, self.zx)
        return depends or row is not None

    @property
    def deviation(self):
        """Standard deviation of the noise, 1 for yes and no."""
        if not self.numeric or self.rewards == 0:
            return 1.0
        return sqrt(self.noise / self.rewards)

    cdef double prior_variance(self) noexcept:
        """Return the variance of an action's own part before anything is learned of it."""
        return self.own_level + self.own_weights * squares(self.x, 1, self.context.width)

    cdef int score(self, tuple row, list actions, dict levels, bint observe) except -1:
        """Write means and variances of the parts of each action's score to ``m`` and ``v``.

        Parts: shared, own, person's. ``actions`` are pairs of a number, -1 if not known, and a
        row, None without features; ``levels`` are the person's slots by action, None where there
        is no person.
        """
        cdef Py_ssize_t k, number, n = len(actions), width = self.context.width
        cdef Posterior own
        cdef tuple action
        if self.m.shape[0] < n:
            self.m = np.empty((2 * n, 3))
            self.v = np.empty((2 * n, 3))
            self.p = np.empty(2 * n)
        cdef double* m = &self.m[0, 0]
        cdef double* v = &self.v[0, 0]
        memset(m, 0, 3 * n * sizeof(double))
        memset(v, 0, 3 * n * sizeof(double))
        self.context.spread(row)
        if observe:
            self.context.observe()
            for action in actions:
                if action[1] is not None:
                    self.features.spread(<tuple> action[1])
                    self.features.observe()
        self.context.standardise(self.x)
        for k in range(n):
            action = <tuple> actions[k]
            number = action[0]
            one = self.own[number] if number >= 0 else None
            if one is None:
                v[1] = self.prior_variance()
            else:
                own = <Posterior> one
                m[1] = own.mean_of(self.x)
                v[1] = own.variance_of(self.x, self.product)
                v[1] += self.own_weights * squares(self.x, own.width, width)
            if self.cross(action[1], one):
                m[0] = self.direct
                m[1] += self.shared.mean_of(self.zx) - self.direct
                v[0] = self.shared.variance_of(self.zx, self.product)
                v[0] += self.shared_weights * squares(self.zx, self.shared.width, self.n_pairs)
            if levels is not None:
                slot = levels.get(action[0])
                if slot is None:
                    v[2] = self.levels
                else:
                    m[2] = self.level_mean[<Py_ssize_t> slot]
                    v[2] = self.level_variance[<Py_ssize_t> slot]
            m += 3
            v += 3
        return 0

    def moments(self, tuple row, list actions, dict levels):
        """Return means and variances (K, 3) of the parts of each action's score, as ``score``."""
        n = len(actions)
        self.score(row, actions, levels, False)
        return np.array(self.m[:n]), np.array(self.v[:n])

    def draw(
        self, tuple row, list actions, dict levels, double floor, double uniform, bint observe
    ):
        """Return the place of the action drawn, and the probabilities of all.

        Inverse gap weighting around the optimistic index: p = 1 / (K + γ gap); the best action, or
        those that tie for it, share the rest. ``observe`` adds the rows to the statistics.
        """
        cdef Py_ssize_t k, best = 0, ties = 0, n = len(actions)
        self.score(row, actions, levels, observe)
        cdef double* p = &self.p[0]
        cdef const double* m = &self.m[0, 0]
        cdef const double* v = &self.v[0, 0]
        cdef double scale = self.deviation, greed = GREEDY * sqrt(<double> self.rewards)
        cdef double total = 0.0, index
        for k in range(n):
            index = v[3 * k] + v[3 * k + 1] + LEVEL_PART * v[3 * k + 2]
            index = m[3 * k] + m[3 * k + 1] + m[3 * k + 2] + CURIOUS * scale * sqrt(index)
            p[k] = index if self.numeric else logistic(index)
            if p[k] > p[best]:
                best = k
        if self.numeric:
            greed = greed / (2.0 * scale) if scale > 0.0 else 0.0
        index = p[best]
        for k in range(n):
            if p[k] == index:
                ties += 1
                p[k] = -1.0
            else:
                p[k] = 1.0 / (n + greed * (index - p[k]))
                total += p[k]
        for k in range(n):
            if p[k] == -1.0:
                p[k] = (1.0 - total) / ties
            p[k] = (1.0 - floor) * p[k] + floor / n
        total = 0.0
        for k in range(n):
            total += p[k]
            if uniform < total:
                best = k
                break
        return best, [p[k] for k in range(n)]

    def learn(
        self,
        tuple row,
        Py_ssize_t number,
        action,
        dict levels,
        double reward,
        double evidence,
        choices,
        id,
        stored,
    ):
        """Learn the reward of an action in a context; ``levels`` gets the slot of a new pair.

        ``evidence`` are log-odds that earlier rewards of a person add to ``trust``. All that is
        shared learns from a mixture: yes and no as they are, or, where this is less likely than
        not, nothing. The person's level learns yes and no as they are. Returns the evidence after
        this reward.

        Puts ``stored`` in ``choices``, so that nothing can come between.
        """
        cdef double mean, variance, step, shrinkage, error, level = 0.0, expected = 0.0
        cdef double shared_mean = 0.0, shared_variance = 0.0, rest, honest = 1.0
        cdef double level_step, level_shrinkage
        cdef NodeValues values
        cdef bint is_shared
        cdef Py_ssize_t slot = -1, width = self.context.width
        cdef Posterior own
        self.context.spread(row)
        self.context.standardise(self.x)
        own = self.own[number]
        if own is None:
            own = Posterior()
            own.grow(1, self.own_level)
        own.grow(width, self.own_weights)
        mean = own.mean_of(self.x)
        variance = own.variance_of(self.x, self.product)
        if action is not None:
            own.grow_pairs(self.n_pairs)
        is_shared = self.cross(action, own)
        if is_shared:
            self.shared.grow(self.n_pairs, self.shared_weights)
            shared_mean = self.shared.mean_of(self.zx)
            shared_variance = self.shared.variance_of(self.zx, self.shared_product)
            mean += shared_mean
            variance += shared_variance
        if levels is not None:
            expected = mean / sqrt(1.0 + 0.125 * M_PI * (variance + self.levels))
            slot = self._slot(levels, number)
            mean += self.level_mean[slot]
            level = self.level_variance[slot]
            variance += level
        if self.numeric:
            error = reward - self.centre - mean
            step = error / (1.0 + variance)
            shrinkage = 1.0 / (1.0 + variance)
            self.reward_mean += (reward - self.reward_mean) / (self.rewards + 1)
            self.noise += error * step
            level_step = step
            level_shrinkage = shrinkage
        else:
            if levels is not None:
                honest = max(logistic(self.trust + evidence), 0.5)
                evidence += (2.0 * reward - 1.0) * expected
                evidence = min(max(evidence, -LARGEST_EVIDENCE), LARGEST_EVIDENCE)
            evaluate_nodes(mean, variance, reward, &values)
            match_moments(&values, honest, &step, &shrinkage)
            match_moments(&values, 1.0, &level_step, &level_shrinkage)
        choices[id] = stored
        self.own[number] = own
        if is_shared:
            self.shared.learn(self.shared_product, step, shrinkage)
            rest = 1.0 - shrinkage * shared_variance  # given u there is less doubt
            own.learn_slopes(self.product, self.zx, shrinkage / rest)
            own.learn(self.product, (step + shrinkage * shared_mean) / rest, shrinkage / rest)
        else:
            own.learn(self.product, step, shrinkage)
        if slot >= 0:
            self.level_mean[slot] += level_step * level
            self.level_variance[slot] -= level_shrinkage * level * level
        self.rewards += 1
        return evidence

    cdef Py_ssize_t _slot(self, dict levels, number) except -1:
        """Return the slot of a person's action; a new one is at its prior."""
        found = levels.get(number)
        if found is not None:
            return found
        if self.free:
            slot = self.free.pop()
        else:
            slot = self.slots
            if slot == self.level_mean.shape[0]:
                self.level_mean = np.concatenate([self.level_mean, np.zeros(slot)])
                self.level_variance = np.concatenate([self.level_variance, np.zeros(slot)])
            self.slots += 1
        self.level_mean[<Py_ssize_t> slot] = 0.0
        self.level_variance[<Py_ssize_t> slot] = self.levels
        levels[number] = slot
        return slot


cdef void evaluate_nodes(
    double mean, double variance, double reward, NodeValues* values
) noexcept nogil:
    cdef double sign = 2.0 * reward - 1.0
    cdef int k
    values.spread = sqrt(2.0 * max(variance, SMALLEST_VARIANCE))
    for k in range(NODES):
        values.likely[k] = logistic(sign * (mean + values.spread * NODE[k]))


cdef void match_moments(
    const NodeValues* values, double honest, double* step, double* shrinkage
) noexcept nogil:
    """Write how a reward of 0 or 1, reported as it is with probability ``honest``, changes a score.

    Its mean rises by step * variance, its variance falls by shrinkage * variance^2: to those of the
    exact posterior, by quadrature.
    """
    cdef double total = 0.0, first = 0.0, second = 0.0, density
    cdef int k
    for k in range(NODES):
        density = NODE_WEIGHT[k] * (1.0 - honest + (2.0 * honest - 1.0) * values.likely[k])
        total += density
        first += density * NODE[k]
        second += density * NODE[k] * NODE[k]
    first /= total
    second = second / total - first * first
    step[0] = first * 2.0 / values.spread
    shrinkage[0] = max(1.0 - 2.0 * second, 0.0) * 2.0 / (values.spread * values.spread)
