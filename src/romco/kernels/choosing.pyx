"""Gaussian posteriors of the reward of each action, and the law that choices are drawn from.

The score of action a for person i in context x is u'(z ⊗ x) + v_a'x + b_ia: u is shared by the
actions that have features z, v_a is the action's own, b_ia is the level of one person and one
action. u and v have one Gaussian posterior, kept as that of u and those of v_a given u; b_ia has
one of its own. Context and features are standardised; column 0 of x and z is 1.
docs/choosing-mathematics.md has the mathematics.
"""

from collections.abc import Iterable, Mapping
from zlib import crc32

import numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.math cimport M_PI, exp, fabs, sqrt
from libc.string cimport memset

from romco.kernels.core.events import LARGEST_FEATURE

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
MAX_ACTIONS = 10_000  # of one choice
COLUMN_FIELDS = "mean", "deviations", "nonzero", "origin", "unit"

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


cdef struct Cell:  # of a row; columns that it lacks are 0
    int column
    double value


cdef struct Column:  # with COLUMN_FIELDS
    double mean
    double deviations  # sum of squares, from the mean
    double nonzero  # rows that are not 0
    double origin, unit


cdef class FeatureTable:
    """Columns of named features with their running statistics and units.

    A row is the ``bytes`` of its cells.
    """

    cdef readonly dict number  # column of each name, from 1
    cdef readonly Py_ssize_t max_names, max_columns
    cdef readonly Py_ssize_t width  # columns in use, with column 0
    cdef public double rows  # observed
    cdef readonly object columns  # COLUMN_FIELDS of each column
    cdef Column* column  # the same numbers
    cdef double raw[MAX_WIDTH]

    def __init__(self, max_names, max_columns):
        self.number = {}
        self.max_names = max_names
        self.max_columns = max_columns
        self.width = 1
        cdef double[:, ::1] columns = np.zeros((max_columns + 1, len(COLUMN_FIELDS)))
        self.columns = np.asarray(columns)
        self.columns[:, COLUMN_FIELDS.index("unit")] = 1.0
        self.column = <Column*> &columns[0, 0]

    def read(self, row, dict new, skip=None):
        """Return the row of a mapping; names not known get columns in ``new``.

        ``skip`` is a name that is no feature. Changes nothing here.
        """
        cdef double value
        cdef Cell cells[MAX_WIDTH]
        cdef Py_ssize_t n = 0
        cdef dict given
        if type(row) is dict:
            given = row
        elif hasattr(row, "items"):
            given = dict(row.items())
        else:
            raise ValueError(f"expected a mapping of names to values; got {row!r:.60}")
        for name, cell in given.items():
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
            cells[n].column = found
            cells[n].value = value
            n += 1
        return PyBytes_FromStringAndSize(<char*> cells, n * sizeof(Cell))

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

    cdef void spread(self, bytes row) noexcept:
        """Write a row to ``raw``, with zeros in columns that it lacks."""
        cdef const Cell* cells = <const Cell*> PyBytes_AS_STRING(row)
        cdef Py_ssize_t k, n = PyBytes_GET_SIZE(row) // sizeof(Cell)
        memset(self.raw, 0, self.width * sizeof(double))
        for k in range(n):
            self.raw[cells[k].column] += cells[k].value

    cdef void observe(self, bytes row) noexcept:
        """Add a row to the statistics; the first value of a column is its unit for now."""
        cdef Py_ssize_t j
        cdef Column* column
        cdef double step
        self.spread(row)
        self.rows += 1.0
        for j in range(1, self.width):
            column = &self.column[j]
            step = self.raw[j] - column.mean
            column.mean += step / self.rows
            column.deviations += step * (self.raw[j] - column.mean)
            if self.raw[j] != 0.0:
                if column.nonzero == 0.0:
                    column.unit = fabs(self.raw[j])
                column.nonzero += 1.0

    cdef void standardise(self, bytes row, double* x) noexcept:
        """Write the standardised row; a column that is not 0 for the first time is 1 or -1."""
        cdef Py_ssize_t j
        cdef const Column* column
        cdef double value, unit
        self.spread(row)
        x[0] = 1.0
        for j in range(1, self.width):
            column = &self.column[j]
            unit = column.unit
            if column.nonzero == 0.0 and self.raw[j] != 0.0:
                unit = fabs(self.raw[j])
            value = (self.raw[j] - column.origin) / unit
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

    cdef readonly object mean, covariance, slopes  # (width,), (width, width), (width, pairs)
    cdef readonly Py_ssize_t width
    cdef readonly Py_ssize_t pairs  # columns of u on which it depends, 0 without features
    cdef double[::1] _mean
    cdef double[:, ::1] _covariance
    cdef double[:, ::1] _slopes

    def __init__(self, mean, covariance, slopes):
        self.mean = self._mean = np.array(mean, dtype=np.float64, order="C")
        self.covariance = self._covariance = np.array(covariance, dtype=np.float64, order="C")
        self.slopes = self._slopes = np.array(slopes, dtype=np.float64, order="C")
        self.width, self.pairs = self.slopes.shape

    cdef Posterior grown(self, Py_ssize_t width, Py_ssize_t pairs, double variance):
        """Return it with more columns at their prior variance, dependent on more shared weights."""
        if width == self.width and pairs <= self.pairs:
            return self
        mean = np.zeros(width)
        mean[: self.width] = self.mean
        covariance = variance * np.eye(width)
        covariance[: self.width, : self.width] = self.covariance
        slopes = np.zeros((width, max(pairs, self.pairs)))
        slopes[: self.width, : self.pairs] = self.slopes
        return Posterior(mean, covariance, slopes)

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

    cdef void learn(
        self, const double* product, double step, double shrinkage, const double* zx
    ) noexcept:
        """Move the mean by step S x, and shrink the covariance along S x.

        ``zx`` is what was left of z ⊗ x, on which the mean depends more from now on.
        """
        cdef Py_ssize_t i, j, d = self.width
        cdef double* row
        cdef double weight
        for i in range(d):
            weight = product[i]
            if weight == 0.0:
                continue
            self._mean[i] += step * weight
            weight *= shrinkage
            row = &self._covariance[i, 0]
            for j in range(d):
                row[j] -= weight * product[j]
            if self.pairs:
                row = &self._slopes[i, 0]
                for j in range(self.pairs):
                    row[j] += weight * zx[j]


cdef double squares(const double* x, Py_ssize_t begin, Py_ssize_t end) noexcept:
    cdef Py_ssize_t j
    cdef double total = 0.0
    for j in range(begin, end):
        total += x[j] * x[j]
    return total


cdef class Offer:
    """A context and actions as they were read, with the names that are new."""

    cdef readonly bytes context
    cdef readonly list names, numbers
    cdef readonly list rows  # features of each action, None without
    cdef readonly dict new_actions, new_context, new_features

    cdef check(self):
        """Raise ValueError unless there are actions, not too many, each once."""
        cdef Py_ssize_t n = len(self.names)
        if n == 0:
            raise ValueError("there are no actions to choose from: give at least one")
        if n > MAX_ACTIONS:
            raise ValueError(
                f"a choice is among at most {MAX_ACTIONS:,} actions: leave out those that cannot "
                "be best"
            )
        if len(set(self.names)) < n:
            name = next(one for one in self.names if self.names.count(one) > 1)
            raise ValueError(f"action {name!r:.60} is offered twice: offer each action once")


cdef class Person:
    """What is learned of one person."""

    # Information and precision of the rewards of each action, by number: without the prior.
    cdef readonly dict levels
    cdef public double evidence  # that the person reports no opposites, log-odds

    def __init__(self, dict levels, double evidence):
        self.levels = levels
        self.evidence = evidence


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
    cdef public Posterior shared
    cdef public long long rewards  # learned
    cdef public double centre  # of numeric rewards, taken off before they are learned
    cdef public double reward_mean, reward_squares  # mean of numeric ones; their squares about it
    cdef public double noise  # sum of squared errors
    # Prior variances.
    cdef public double own_level, own_weights, shared_weights, levels
    cdef public double trust  # log-odds that a person of whom nothing is known reports no opposites
    # Columns of z ⊗ x: pairs of columns.
    cdef int pair_z[MAX_PAIRS]
    cdef int pair_x[MAX_PAIRS]
    cdef Py_ssize_t n_pairs, crosses, paired_z, paired_x
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
        self.shared = Posterior(np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)))
        self.m = np.empty((MAX_ACTIONS, 3))
        self.v = np.empty((MAX_ACTIONS, 3))
        self.p = np.empty(MAX_ACTIONS)
        self._pair(0, 0)
        self.paired_z = 1
        self.paired_x = 1

    @property
    def pairs(self):
        """Columns of z and x of which each column of z ⊗ x is the product."""
        return [(self.pair_z[c], self.pair_x[c]) for c in range(self.n_pairs)]

    def standardise(self, bytes row):
        """Return the standardised context (width,) of a row."""
        self.context.standardise(row, self.x)
        return np.array(<double[: self.context.width]> self.x)

    def replace(self, own, Posterior shared, context, features, priors, double centre):
        """Set all that a change of units changes, at once.

        ``context`` and ``features`` are origins and units of columns (2, width); ``priors`` the
        prior variances of an action's own level, its weights, shared weights, and levels of people.
        """
        self.own[:] = own
        self.shared = shared
        self.context.columns[: self.context.width, -2:] = np.transpose(context)
        self.features.columns[: self.features.width, -2:] = np.transpose(features)
        self.own_level, self.own_weights, self.shared_weights, self.levels = priors
        self.centre = centre

    def read(self, x, actions):
        """Return the offer of these actions in a context; names not known get the next numbers."""
        cdef Offer offer = Offer.__new__(Offer)
        if isinstance(actions, (str, bytes, Mapping)) or not isinstance(actions, Iterable):
            raise ValueError(f"actions are a list; got {actions!r:.60}")
        offer.new_actions = {}
        offer.new_context = {}
        offer.new_features = {}
        offer.names = []
        offer.numbers = []
        offer.rows = []
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
            offer.rows.append(row)
            if len(offer.names) > MAX_ACTIONS:
                break
        offer.check()
        return offer

    def observe(self, Offer offer):
        """Take up the new names of an offer, and add its rows to the statistics."""
        if offer.new_actions or offer.new_context or offer.new_features:
            self.adopt(offer.new_actions, offer.new_context, offer.new_features)
        self.context.observe(offer.context)
        for row in offer.rows:
            if row is not None:
                self.features.observe(row)

    cdef void _pair(self, int z, int x) noexcept:
        """Add a column of z ⊗ x; a product of two columns only while there is room."""
        if z > 0 and x > 0:
            if self.crosses == CROSSES:
                return
            self.crosses += 1
        self.pair_z[self.n_pairs] = z
        self.pair_x[self.n_pairs] = x
        self.n_pairs += 1

    def adopt(self, dict actions, dict context, dict features):
        """Take up actions and features not known before."""
        self.names.extend(actions)
        self.own.extend([None] * len(actions))
        self.actions.update(actions)
        self.context.adopt(context)
        self.features.adopt(features)
        self._add_pairs()

    cdef void _add_pairs(self) noexcept:
        """Add columns of z ⊗ x for columns that are new."""
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
                    if j >= self.paired_z or k >= self.paired_x:
                        self._pair(j, k)
            self.paired_x = self.context.width
        self.paired_z = self.features.width

    def restore_pairs(self, pairs):
        """Set the columns of z ⊗ x."""
        self.n_pairs = self.crosses = 0
        for z, x in pairs:
            if not (0 <= z < self.features.width and 0 <= x < self.context.width):
                raise ValueError("a product of features that are not there")
            if self.n_pairs == MAX_PAIRS:
                raise ValueError("too many products of features")
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
            self.features.standardise(<bytes> row, self.z)
            for c in range(self.n_pairs):
                self.zx[c] = self.z[self.pair_z[c]] * self.x[self.pair_x[c]]
            self.direct = self.shared.mean_of(self.zx)
        elif depends:
            memset(self.zx, 0, self.n_pairs * sizeof(double))
        if depends:
            (<Posterior> own).subtract_slopes(self.x, self.zx)
        return depends or row is not None

    @property
    def signal(self):
        """Variance of numeric rewards over that of their noise; 0 where there is none."""
        if self.noise == 0.0:
            return 0.0
        return self.reward_squares / self.noise

    @property
    def deviation(self):
        """Standard deviation of the noise, 1 for yes and no."""
        if not self.numeric or self.rewards == 0:
            return 1.0
        return sqrt(self.noise / self.rewards)

    cdef double prior_variance(self) noexcept:
        """Return the variance of an action's own part before anything is learned of it."""
        return self.own_level + self.own_weights * squares(self.x, 1, self.context.width)

    cdef int score(self, Offer offer, Person person) except -1:
        """Write means and variances of the parts of each action's score to ``m`` and ``v``.

        Parts: shared, own, person's, which is 0 without a person.
        """
        cdef Py_ssize_t k, number, n = len(offer.numbers), width = self.context.width
        cdef Posterior own
        cdef double* m = &self.m[0, 0]
        cdef double* v = &self.v[0, 0]
        memset(m, 0, 3 * n * sizeof(double))
        memset(v, 0, 3 * n * sizeof(double))
        self.context.standardise(offer.context, self.x)
        for k in range(n):
            number = offer.numbers[k]
            own = self.own[number] if number < len(self.own) else None
            if own is None:
                v[1] = self.prior_variance()
            else:
                m[1] = own.mean_of(self.x)
                v[1] = own.variance_of(self.x, self.product)
                v[1] += self.own_weights * squares(self.x, own.width, width)
            if self.cross(offer.rows[k], own):
                m[0] = self.direct
                m[1] += self.shared.mean_of(self.zx) - self.direct
                v[0] = self.shared.variance_of(self.zx, self.product)
                v[0] += self.shared_weights * squares(self.zx, self.shared.width, self.n_pairs)
            if person is not None:
                self.level(person, number, &m[2], &v[2])
            m += 3
            v += 3
        return 0

    cdef int level(self, Person person, number, double* mean, double* variance) except -1:
        """Write mean and variance of a person's level of an action."""
        cdef double information, precision
        cdef tuple known = person.levels.get(number)
        if known is None:
            mean[0] = 0.0
            variance[0] = self.levels
            return 0
        information, precision = known
        variance[0] = 1.0 / (1.0 / self.levels + precision)
        mean[0] = information * variance[0]
        return 0

    def moments(self, Offer offer, Person person):
        """Return means and variances (K, 3) of the parts of each action's score, as ``score``."""
        n = len(offer.numbers)
        self.score(offer, person)
        return np.array(self.m[:n]), np.array(self.v[:n])

    def draw(self, Offer offer, Person person, double floor, double uniform):
        """Return the place of the action drawn, and the probabilities of all.

        Inverse gap weighting around the optimistic index: p = 1 / (K + γ gap); the best action, or
        those that tie for it, share the rest.
        """
        cdef Py_ssize_t k, best = 0, ties = 0, n = len(offer.numbers)
        self.score(offer, person)
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
        self, bytes row, Py_ssize_t number, action, Person person, double reward, choices, id, stored
    ):
        """Learn the reward of an action in a context; ``action`` are its features or None.

        All that is shared learns from a mixture: yes and no as they are, or, where this is less
        likely than not, nothing. The person's level learns yes and no as they are.

        Puts ``stored`` in ``choices``, so that nothing can come between.
        """
        cdef double mean, variance, step, shrinkage, error, evidence = 0.0, expected = 0.0
        cdef double level_mean = 0.0, level = 0.0, level_step, level_shrinkage
        cdef double shared_mean = 0.0, shared_variance = 0.0, rest, honest = 1.0, change
        cdef double[3] sums
        cdef bint is_shared
        cdef Py_ssize_t pairs = 0 if action is None else self.n_pairs
        cdef Posterior own = self.own[number]
        if own is None:
            own = Posterior(np.zeros(1), np.full((1, 1), self.own_level), np.zeros((1, 0)))
        own = own.grown(self.context.width, pairs, self.own_weights)
        self.context.standardise(row, self.x)
        mean = own.mean_of(self.x)
        variance = own.variance_of(self.x, self.product)
        is_shared = self.cross(action, own)
        if is_shared:
            self.shared = self.shared.grown(self.n_pairs, 0, self.shared_weights)
            shared_mean = self.shared.mean_of(self.zx)
            shared_variance = self.shared.variance_of(self.zx, self.shared_product)
            mean += shared_mean
            variance += shared_variance
        if person is not None:
            expected = mean / sqrt(1.0 + 0.125 * M_PI * (variance + self.levels))
            self.level(person, number, &level_mean, &level)
            mean += level_mean
            variance += level
        if self.numeric:
            error = reward - self.centre - mean
            step = error / (1.0 + variance)
            shrinkage = 1.0 / (1.0 + variance)
            change = reward - self.reward_mean
            self.reward_mean += change / (self.rewards + 1)
            self.reward_squares += change * (reward - self.reward_mean)
            self.noise += error * step
            level_step = step
            level_shrinkage = shrinkage
        else:
            if person is not None:
                honest = max(logistic(self.trust + person.evidence), 0.5)
                evidence = person.evidence + (2.0 * reward - 1.0) * expected
            integrate(mean, variance, reward, sums)
            match_moments(variance, sums, honest, &step, &shrinkage)
            match_moments(variance, sums, 1.0, &level_step, &level_shrinkage)
        choices[id] = stored
        self.own[number] = own
        rest = 1.0 - shrinkage * shared_variance  # given u there is less doubt
        own.learn(self.product, (step + shrinkage * shared_mean) / rest, shrinkage / rest, self.zx)
        if is_shared:
            self.shared.learn(self.shared_product, step, shrinkage, NULL)
        if person is not None:
            person.evidence = min(max(evidence, -LARGEST_EVIDENCE), LARGEST_EVIDENCE)
            rest = level * (1.0 - level_shrinkage * level)  # variance of the level from now on
            level_mean += level_step * level
            person.levels[number] = level_mean / rest, max(1.0 / rest - 1.0 / self.levels, 0.0)
        self.rewards += 1


cdef void integrate(double mean, double variance, double reward, double* sums) noexcept nogil:
    """Write moments 0 to 2 of the nodes, weighted by the probability of the reward there."""
    cdef double sign = 2.0 * reward - 1.0, spread = sqrt(2.0 * max(variance, SMALLEST_VARIANCE))
    cdef double density
    cdef int k
    memset(sums, 0, 3 * sizeof(double))
    for k in range(NODES):
        density = NODE_WEIGHT[k] * logistic(sign * (mean + spread * NODE[k]))
        sums[0] += density
        sums[1] += density * NODE[k]
        sums[2] += density * NODE[k] * NODE[k]


cdef void match_moments(
    double variance, const double* sums, double honest, double* step, double* shrinkage
) noexcept nogil:
    """Write how a reward of 0 or 1, reported as it is with probability ``honest``, changes a score.

    Its mean rises by step * variance, its variance falls by shrinkage * variance^2: to those of the
    exact posterior, by quadrature.
    """
    cdef double rest = (1.0 - honest) * sqrt(M_PI), weight = 2.0 * honest - 1.0
    cdef double total = rest + weight * sums[0]
    cdef double first = weight * sums[1] / total
    cdef double second = (0.5 * rest + weight * sums[2]) / total - first * first
    variance = max(variance, SMALLEST_VARIANCE)
    step[0] = first * sqrt(2.0 / variance)
    shrinkage[0] = max(1.0 - 2.0 * second, 0.0) / variance
