"""Columns of numbers for many classes: made normal, curved, decorrelated, and a discriminant on them.

Features that are present in a tenth of the events become *columns*: up to 128. Lines are values in
units (`scales`). The waves of order 2 to 4 of a number follow while there is room (`functions`). A number
whose values are far from normal becomes its normal score, the normal quantile of its rank among the past
values. Others stay as they are: relations between columns may be exact, and scores would blur them. Where
more than 128 features occur in 256 events, as in text, there are no columns.

Decorrelated columns are z = R'^-1 (u - c), where c is the mean of the columns u and R'R their
covariance within classes. In them a diagonal covariance of weights is nearly as good as a full one. c and
R are found anew whenever the events have doubled; weights w then become R_new R_old^-1 w, and intercepts
take up the rest, so that they predict the same.

The discriminant has the sums of the lines by class and by task and class. Means of a task's classes
are shrunk to those of the classes, and log-densities are those of Student's t:

    mu_ik = (sum_ik + kappa mu_k) / (n_ik + kappa)
    s = 1 + 1 / (n_ik + kappa) + 1 / (n_k + CLASS_PRIOR_EVENTS)
    log p(x | i, k) = -(f + n) / 2 log(1 + D / (f s)) - n / 2 log s - 1/2 log |C|

kappa is the variance within groups over that of the groups' means, estimated along the stream. D is
the squared distance of x from mu_ik in the covariance C, and f the events that C is of. *Linear*
has one C for all classes. *Quadratic* has one of each class, shrunk to the common one by as many
events as there are lines, and one more. An event costs O(K n^2) for n lines.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport INFINITY, M_PI, M_SQRT2, cos, isfinite, log, log1p, sqrt
from libc.string cimport memcpy, memset
from statistics import NormalDist
from romco.kernels.auto.columns cimport Column, mean_square, scaled
from romco.kernels.auto.functions cimport KNOTS, WAVES, count_value, rank
from romco.kernels.auto.scales cimport Scaled, Scales, found
from romco.kernels.core.dense cimport axpy, dot_product
from romco.kernels.core.events cimport Row, column
from romco.kernels.core.pairs cimport Pairs
from romco.kernels.core.triangles cimport cholesky

from romco.kernels.auto import constants
from romco.kernels.auto.functions import SKETCH_FIELDS

cnp.import_array()

cdef double FREQUENT = 0.1             # share of the events that have a feature that becomes a column
cdef double SURE_EVENTS = 256.0        # up to which more than 128 features mean that there are no columns
cdef double FIRST_RENEWAL = 8.0        # events at which columns are first chosen,
cdef double RENEWAL_GROWTH = 2.0       # then whenever events have grown so much
cdef double SOLUTION_GROWTH = 1.1      # of its events between two solutions of the common covariance,
cdef double CLASS_GROWTH = 1.25        # and of a class's events between two of its own
cdef double PRIOR_EVENTS = constants.COVARIANCE_PRIOR_EVENTS
cdef double COLUMN_PRIOR_EVENTS = 1.0  # such events more for each column, where columns are decorrelated
cdef double RIDGE = 0.1                # added to each variance where columns are decorrelated,
cdef double LINE_RIDGE = 0.005         # and in the discriminant
cdef double MEAN_PRIOR_EVENTS = constants.MEAN_PRIOR_EVENTS
cdef double GROUP_PRIOR_WEIGHT = constants.GROUP_PRIOR_WEIGHT
cdef double MAX_MEAN_PRIOR = constants.MAX_MEAN_PRIOR
cdef double CLASS_PRIOR_EVENTS = constants.CLASS_PRIOR_EVENTS
cdef double NEARLY_ALWAYS = constants.NEARLY_ALWAYS
cdef double NORMAL = constants.NORMAL
cdef double MAX_VALUE = 8.0            # of a line that is no normal score
cdef double MIN_LOG_ODDS = -30.0       # log-odds against the best class at which scores are cut
cdef double ROUNDING = 1e-12           # least share of a variance that is left
cdef int STEPS = 64                    # of the table of normal quantiles

COLUMN_FIELDS = ("feature", "order", "is_score", *SKETCH_FIELDS)
PROGRESS_FIELDS = (
    "events", "group_products", "group_weights", "renewal", "solution", "closed", "log_det",
    "is_shard",
)
MOST_COLUMNS = COLUMNS
WAVE_ORDERS = tuple(range(2, WAVES + 1))

cdef double[65] QUANTILES              # normal quantiles of 1/64, 1/64, 2/64, ..., 63/64, 63/64
for _step in range(65):
    QUANTILES[_step] = NormalDist().inv_cdf(min(max(_step, 1), 63) / 64.0)


cdef inline double normal_score(double r) noexcept nogil:
    """Return the normal quantile of a rank from 0 to 1, linear between sixty-fourths."""
    cdef double at = r * STEPS
    cdef Py_ssize_t low = <Py_ssize_t> at
    if low >= STEPS:
        return QUANTILES[STEPS]
    return QUANTILES[low] + (at - low) * (QUANTILES[low + 1] - QUANTILES[low])


cdef inline double score_of_knot(Py_ssize_t k) noexcept nogil:
    """Return the normal score of the k-th knot, where no other equals it."""
    return normal_score((k + 0.5) / KNOTS)


cdef double normality(const double* knots) noexcept nogil:
    """Return the squared correlation of knots and normal scores (Shapiro and Francia, 1972)."""
    cdef double mean = 0.0, square = 0.0, product = 0.0, quantiles = 0.0, q
    cdef Py_ssize_t k
    for k in range(KNOTS):
        mean += knots[k] / KNOTS
    for k in range(KNOTS):
        q = score_of_knot(k)
        square += (knots[k] - mean) * (knots[k] - mean)
        product += (knots[k] - mean) * q
        quantiles += q * q
    return product * product / (square * quantiles) if 0.0 < square < INFINITY else 0.0


cdef inline void substitute(
    const double* R, Py_ssize_t ld, double* a, Py_ssize_t n
) noexcept nogil:
    """a <- R'^-1 a, for an upper factor R (n, n)."""
    cdef Py_ssize_t i
    for i in range(n):
        if R[i * ld + i] == 0.0:  # a file may lie
            a[i] = 0.0
            continue
        a[i] /= R[i * ld + i]
        axpy(n - i - 1, -a[i], R + i * ld + i + 1, a + i + 1)


cdef class Discriminant:
    """Views of the learner's arrays, and the store of ``groups``; ``n_features`` is d."""

    def __init__(self, Py_ssize_t n_features, a, Pairs groups):
        self.columns, self.progress_array, self.sums = a["columns"], a["progress"], a["sums"]
        self.scatter, self.centre, self.factor = a["scatter"], a["centre"], a["factor"]
        self.line_factor, self.class_scatter = a["line_factor"], a["class_scatter"]
        self.class_factor, self.solved = a["class_factor"], a["solved"]
        self.groups, self.n_features = groups, n_features
        self.progress = <Progress*> &self.progress_array[0]
        cdef Py_ssize_t C = len(self.columns)
        self.rooms = (
            np.zeros(n_features + COLUMNS, np.int32), np.zeros(n_features + C, np.int32),
            np.zeros(n_features + C + 3 * C), np.zeros((2 * C, C)),
        )
        self.place = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms[0])
        self.line = self.place + n_features
        self.index = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms[1])
        self.value = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms[2])
        self.u = self.value + n_features + C
        self.ranks, self.off = self.u + C, self.u + 2 * C
        self.matrix = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.rooms[3])
        self.find_columns()

    cdef double mean_prior(self) noexcept nogil:
        """Return the events by which a task's class mean is shrunk to that of the class.

        It is the variance within groups over that of their means, which is estimated with a prior.
        """
        cdef double prior = GROUP_PRIOR_WEIGHT
        cdef double products = self.progress.group_products + prior / MEAN_PRIOR_EVENTS
        cdef double variance = products / (self.progress.group_weights + prior)
        return 1.0 / min(max(variance, 1.0 / MAX_MEAN_PRIOR), 1.0)

    cdef void find_columns(self) noexcept nogil:
        """Find which features have columns."""
        cdef Py_ssize_t c, j
        memset(self.place, 0, self.n_features * sizeof(int))
        self.n_columns = self.n_lines = 0
        for c in range(self.columns.shape[0]):
            j = <Py_ssize_t> self.column_of(c).feature - 1
            if not 0 <= j < self.n_features:
                break
            if self.column_of(c).order == 0.0:
                self.place[j] = <int> c + 1
                self.line[self.n_lines] = <int> c
                self.n_lines += 1
            self.n_columns += 1

    # --- rows --------------------------------------------------------------------------------

    cdef Scaled compose(self, Row x, Scaled row, Scales scales, bint frozen) noexcept nogil:
        """Return a row of decorrelated columns, and of other features numbered from COLUMNS on.

        One that says nothing becomes empty, unless it is ``frozen``, as `Scales.look` has it.
        """
        cdef Py_ssize_t c, k, n = self.n_columns
        cdef double x2
        self.read_columns(x, row, scales)
        for c in range(n):
            self.index[c], self.value[c] = <int> c, self.u[c] - self.centre[c]
        substitute(&self.factor[0, 0], self.factor.shape[1], self.value, n)
        for k in range(row.n):
            if not self.place[row.index[k]]:
                self.index[n], self.value[n] = <int> (COLUMNS + row.index[k]), row.value[k]
                n += 1
        x2 = dot_product(n, self.value, self.value) if isfinite(row.x2) else INFINITY
        row = found(n, self.index, self.value, x2)
        if frozen:
            row.n, row.x2 = n, x2
        return row

    cdef void read_columns(self, Row x, Scaled row, Scales scales) noexcept nogil:
        """Values u of the columns of a row.

        A number that is absent is 0, or missing if nearly all events have it: then its columns are 0.
        """
        cdef Py_ssize_t c, k, p
        cdef const ColumnState* state
        for c in range(self.n_columns):
            self.u[c], self.ranks[c] = 0.0, -1.0
        self.n_zeros = 0
        if self.n_columns == 0:
            return
        for k in range(row.n):
            p = self.place[row.index[k]]
            if p:
                self.u[p - 1] = min(max(row.value[k], -MAX_VALUE), MAX_VALUE)
        for k in range(x.n):
            p = self.place[column(x, k)]
            if p:
                self.set_rank(p - 1, x.value[k])
        for c in range(self.n_columns):
            state = self.column_of(c)
            k = <Py_ssize_t> state.feature - 1
            if state.order != 0.0:
                p = self.place[k]
                if p and self.ranks[p - 1] >= 0.0:
                    self.u[c] = M_SQRT2 * cos(M_PI * state.order * self.ranks[p - 1]) / state.order
            elif self.ranks[c] < 0.0 and scales.count_of(k) < NEARLY_ALWAYS * scales.events():
                self.set_rank(c, 0.0)
                self.n_zeros += 1

    cdef inline void set_rank(self, Py_ssize_t c, double value) noexcept nogil:
        """Set the rank of a line that is a number, and its normal score where it is one."""
        cdef const ColumnState* state = self.column_of(c)
        if state.sketch.is_number != 0.0:
            self.ranks[c] = rank(state.sketch.knots, value)
            if state.is_score != 0.0:
                self.u[c] = normal_score(self.ranks[c])

    # --- prediction --------------------------------------------------------------------------

    cdef void score(
        self, long long task, const double* counts, const double* seen, Py_ssize_t classes,
        double* linear, double* quadratic,
    ) noexcept nogil:
        """Log-densities (K,) of the row that was last composed, 0 for the best class."""
        cdef Py_ssize_t k, n = self.n_lines, room = self.line_factor.shape[0]
        cdef double far, spread, events, log_det, best = -INFINITY, other = -INFINITY
        cdef double prior = self.mean_prior()
        memset(linear, 0, classes * sizeof(double))
        memset(quadratic, 0, classes * sizeof(double))
        if n == 0 or n > room or self.progress.solution == 0.0:
            return
        for k in range(classes):
            spread = 1.0 + 1.0 / (counts[k] + prior) + 1.0 / (seen[k] + CLASS_PRIOR_EVENTS)
            self.set_offset(task, k, counts[k], seen[k])
            memcpy(self.matrix, self.off, n * sizeof(double))
            substitute(&self.line_factor[0, 0], room, self.off, n)
            far = dot_product(n, self.off, self.off) / spread
            events = self.progress.events + PRIOR_EVENTS
            linear[k] = -0.5 * (events + n) * log1p(far / events) - 0.5 * n * log(spread)
            log_det = self.progress.log_det
            if self.solved[k, 0] > 0.0:
                substitute(&self.class_factor[k, 0, 0], room, self.matrix, n)
                far = dot_product(n, self.matrix, self.matrix) / spread
                log_det = self.solved[k, 1]
            events = self.solved[k, 0] + n + 1.0
            quadratic[k] = -0.5 * (events + n) * log1p(far / events) - 0.5 * n * log(spread) \
                - 0.5 * log_det
            best, other = max(best, linear[k]), max(other, quadratic[k])
        for k in range(classes):
            linear[k] = max(linear[k] - best, MIN_LOG_ODDS)
            quadratic[k] = max(quadratic[k] - other, MIN_LOG_ODDS)

    cdef void set_offset(
        self, long long task, Py_ssize_t k, double count, double seen
    ) noexcept nogil:
        """``off`` = the lines of the row that was last composed, less the mean of a task's class."""
        cdef const double* own = stored(self.groups, task, k) if count > 0.0 else NULL
        cdef double prior = self.mean_prior()
        cdef double share = 1.0 / (count + prior)
        cdef double common = prior * share / (seen + CLASS_PRIOR_EVENTS)
        cdef Py_ssize_t i
        for i in range(self.n_lines):
            self.off[i] = self.u[self.line[i]] - common * self.sums[k, self.line[i]]
        if own != NULL:
            axpy(self.n_lines, -share, own, self.off)

    # --- learning ----------------------------------------------------------------------------

    cdef void learn(
        self, long long task, Py_ssize_t label, double count, double seen, double h
    ) noexcept nogil:
        """Learn the row that was last composed, of a class with so many events of the task and in all.

        Call ``groups.reserve`` first.
        """
        cdef Py_ssize_t c, i, n = self.n_lines, room = self.line_factor.shape[0]
        cdef double prior = self.mean_prior()
        cdef double share = h * (count + prior) / (count + prior + h)
        cdef double* own = NULL
        if self.n_columns == 0:
            return
        for c in range(self.n_columns):
            self.matrix[c] = self.u[c] - self.sums[label, c] / (seen + CLASS_PRIOR_EVENTS)
        if n <= room:
            self.set_offset(task, label, count, seen)
            for i in range(n):
                self.matrix[self.line[i]] = self.off[i]
        if seen > 0.0:
            for c in range(self.n_columns):
                axpy(self.n_columns, share * self.matrix[c], self.matrix, &self.scatter[c, 0])
            for i in range(n if n <= room else 0):
                axpy(n, share * self.off[i], self.off, &self.class_scatter[label, i, 0])
            self.progress.events += h
        if n <= room:
            own = self.groups.touch(task, label)
            if 0.0 < count < seen:
                self.compare_means(own, label, count, seen, h)
        axpy(self.n_columns, h, self.u, &self.sums[label, 0])
        if n <= room:
            for i in range(n):
                own[i] += h * self.u[self.line[i]]

    cdef void compare_means(
        self, const double* own, Py_ssize_t label, double count, double seen, double h
    ) noexcept nogil:
        """Estimate how much tasks differ, by an event and the mean of its group before.

        Of both, less the mean of the class, only what a group has in common is correlated.
        """
        cdef Py_ssize_t i, n = self.n_lines, room = self.line_factor.shape[0]
        cdef double* difference = self.matrix
        cdef double weight, common
        if self.progress.solution == 0.0:
            return
        for i in range(n):
            common = self.sums[label, self.line[i]] / (seen + CLASS_PRIOR_EVENTS)
            self.off[i] = self.u[self.line[i]] - common
            difference[i] = own[i] / count - common
        substitute(&self.line_factor[0, 0], room, self.off, n)
        substitute(&self.line_factor[0, 0], room, difference, n)
        weight = h * count / (count + self.mean_prior())
        self.progress.group_products += weight * dot_product(n, self.off, difference) / n
        self.progress.group_weights += weight

    cdef void count(self, Row x) noexcept nogil:
        """Count the values of a row's lines."""
        cdef Py_ssize_t k, p
        for k in range(x.n if self.n_columns else 0):
            p = self.place[column(x, k)]
            if p and (x.index != NULL or x.value[k] != 0.0):  # a zero of a dense row is absent
                count_value(&self.column_of(p - 1).sketch, x.value[k], self.is_shard())

    cdef bint settle(
        self, Scales scales, const double* seen, Py_ssize_t label, Vectors vectors
    ) noexcept nogil:
        """Choose columns, decorrelate them and solve, where it is time; true if anything has changed.

        ``label`` is the class that has learned; -1: any of them may have. Shards leave it to barriers.
        """
        cdef double events = scales.events()
        cdef Py_ssize_t k, first = max(label, 0)
        cdef Py_ssize_t end = label + 1 if label >= 0 else vectors.classes
        cdef bint renewed = False, changed
        if self.columns.shape[0] == 0 or self.progress.closed != 0.0:
            return False
        if events >= max(self.progress.renewal, FIRST_RENEWAL):
            self.choose(scales, seen, vectors)
            self.decorrelate(seen, vectors)
            self.progress.renewal = RENEWAL_GROWTH * events
            renewed = True
        if self.n_lines == 0 or self.n_lines > self.line_factor.shape[0]:
            return renewed
        changed = renewed or self.progress.events >= self.progress.solution
        if changed:
            self.solve()
            self.progress.solution = SOLUTION_GROWTH * self.progress.events
        for k in range(first, end):
            if seen[k] > 0.0 and seen[k] >= CLASS_GROWTH * self.solved[k, 0]:
                self.solve_class(k, seen[k])
                changed = True
        return changed

    cdef void choose(self, Scales scales, const double* seen, Vectors vectors) noexcept nogil:
        """Let frequent features join, then waves of numbers; close where there are too many.

        Features join in an order that does not depend on their numbers, unless they are alike.
        """
        cdef Py_ssize_t c, i, j, n = self.n_columns, occurred = 0
        cdef double events = scales.events()
        cdef int order
        for j in range(self.n_features):
            occurred += scales.count_of(j) > 0.0
        if occurred > COLUMNS and events <= SURE_EVENTS:
            self.close()
            return
        for i in range(self.n_lines):
            if self.is_far_from_normal(self.line[i]):
                self.become_score(i, scales, seen, vectors)
        while self.n_columns < self.columns.shape[0]:
            j = self.next_feature(scales)
            if j < 0:
                break
            self.join(j, 0, seen)
        for order in range(2, WAVES + 1):
            for c in range(n):
                if self.n_columns < self.columns.shape[0] and self.lacks_wave(c, order):
                    self.join(<Py_ssize_t> self.column_of(c).feature - 1, order, seen)

    cdef Py_ssize_t next_feature(self, Scales scales) noexcept nogil:
        """Return the frequent feature that joins next, or -1.

        The one that most events have is first, then the one whose mean is largest in its size.
        """
        cdef Py_ssize_t j, first = -1
        cdef double least = FREQUENT * scales.events(), most = 0.0, large = 0.0, size
        cdef const Column* unit
        for j in range(self.n_features):
            unit = <const Column*> &scales.columns[j, 0]
            if self.place[j] or not unit.count >= max(least, most):
                continue
            size = unit.mean / sqrt(mean_square(unit)) if unit.count > 0.0 else 0.0
            if first < 0 or unit.count > most or size > large:
                first, most, large = j, unit.count, size
        return first

    cdef bint is_far_from_normal(self, Py_ssize_t c) noexcept nogil:
        """Return whether the line of a number should become its normal score."""
        cdef const ColumnState* state = self.column_of(c)
        if state.is_score != 0.0 or state.sketch.is_number == 0.0:
            return False
        return normality(state.sketch.knots) < NORMAL

    cdef void become_score(
        self, Py_ssize_t i, Scales scales, const double* seen, Vectors vectors
    ) noexcept nogil:
        """Let the i-th line be normal scores; what was learned follows by a regression on the knots."""
        cdef Py_ssize_t c = self.line[i], j, k, t, n = self.n_lines
        cdef ColumnState* state = self.column_of(c)
        cdef const Column* unit = <const Column*> &scales.columns[<Py_ssize_t> state.feature - 1, 0]
        cdef double mean = 0.0, square = 0.0, product = 0.0, value, slope, origin, count
        cdef double* own
        for k in range(KNOTS):
            value = min(max(scaled(unit, state.sketch.knots[k]), -MAX_VALUE), MAX_VALUE)
            mean += value / KNOTS
            square += value * value / KNOTS
            product += value * score_of_knot(k) / KNOTS
        square -= mean * mean
        slope = product / square if square > ROUNDING else 1.0
        origin = -slope * mean
        state.is_score = 1.0
        self.centre[c] = origin + slope * self.centre[c]
        for k in range(vectors.classes):
            self.sums[k, c] = origin * seen[k] + slope * self.sums[k, c]
        for j in range(self.n_columns):
            self.factor[j, c] *= slope
            self.scatter[j, c] *= slope
            self.scatter[c, j] *= slope
        if n > self.line_factor.shape[0]:
            return
        for k in range(vectors.classes):
            self.solved[k, 0] = 0.0
            for j in range(n):
                self.class_scatter[k, j, i] *= slope
                self.class_scatter[k, i, j] *= slope
        for t in range(self.groups.n_tasks):
            for k in range(vectors.classes):
                count = vectors.counts[t * vectors.room + k]
                own = stored(self.groups, t, k) if count > 0.0 else NULL
                if own != NULL:
                    own[i] = origin * count + slope * own[i]

    cdef bint lacks_wave(self, Py_ssize_t c, int order) noexcept nogil:
        """Return whether a column is the line of a number that has no wave of an order."""
        cdef const ColumnState* line = self.column_of(c)
        cdef Py_ssize_t k
        if line.order != 0.0 or line.sketch.is_number == 0.0:
            return False
        for k in range(self.n_columns):
            if self.column_of(k).feature == line.feature and self.column_of(k).order == order:
                return False
        return True

    cdef void join(self, Py_ssize_t feature, int order, const double* seen) noexcept nogil:
        """Add a column; its variance is the prior one so far."""
        cdef Py_ssize_t k, c = self.n_columns, n = self.n_lines
        cdef ColumnState* state = self.column_of(c)
        memset(state, 0, sizeof(ColumnState))
        state.feature, state.order = feature + 1.0, order
        self.scatter[c, c] = self.progress.events / (order * order if order else 1)
        self.n_columns += 1
        if order:
            return
        self.place[feature], self.line[n] = <int> c + 1, <int> c
        self.n_lines += 1
        for k in range(self.solved.shape[0]):
            self.solved[k, 0] = 0.0
            if n < self.line_factor.shape[0]:
                self.class_scatter[k, n, n] = seen[k]

    cdef void close(self) noexcept nogil:
        """Let there be no columns for good."""
        self.progress.closed = 1.0
        self.columns[:, :] = 0.0
        self.find_columns()

    cdef void decorrelate(self, const double* seen, Vectors vectors) noexcept nogil:
        """Find c and R anew, and express all weights in the new columns."""
        cdef Py_ssize_t i, j, n = self.n_columns, C = self.columns.shape[0]
        cdef double* R = self.matrix
        cdef double* M = self.matrix + C * C
        cdef double prior = COLUMN_PRIOR_EVENTS * n + PRIOR_EVENTS
        cdef double share = 1.0 / (self.progress.events + prior), total = 1.0
        if n == 0:
            return
        for i in range(n):
            for j in range(n):
                R[i * C + j] = share * self.scatter[i, j]
            R[i * C + i] += share * prior + RIDGE
        cholesky(n, R, C, R, C, 0.0, self.off)
        for i in range(n):  # rows of R_new R_old^-1
            memset(R + i * C, 0, i * sizeof(double))
            memcpy(M + i * C, R + i * C, n * sizeof(double))
            substitute(&self.factor[0, 0], C, M + i * C, n)
        for j in range(vectors.classes):
            total += seen[j]
        for i in range(n):  # the way of the centre, in old columns
            self.u[i] = -self.centre[i]
            self.centre[i] = 0.0
            for j in range(vectors.classes):
                self.centre[i] += self.sums[j, i] / total
            self.u[i] += self.centre[i]
        substitute(&self.factor[0, 0], C, self.u, n)
        for i in range(n):
            self.u[i] *= vectors.unit
            memcpy(&self.factor[i, 0], R + i * C, n * sizeof(double))
        for i in range(vectors.n_shared):
            self.rotate(
                <Pairs> vectors.shared, 0, 2 * i * vectors.room, vectors, 1.0,
                vectors.level + 2 * i * vectors.room, M,
            )
        for i in range((<Pairs> vectors.personal).n_tasks):
            self.rotate(
                <Pairs> vectors.personal, i, 0, vectors, vectors.own_prior,
                vectors.own_level + 2 * i * vectors.room, M,
            )

    cdef void rotate(
        self, Pairs pairs, long long task, Py_ssize_t at, Vectors vectors, double prior,
        double* level, const double* M,
    ) noexcept nogil:
        """Multiply a task's weights of the columns, numbers ``at`` of each pair, by an upper matrix.

        Its intercepts go the way ``u`` of the centre. Precisions beyond the prior are divided by the
        squares of the diagonal.
        """
        cdef Py_ssize_t i, j, k, K = vectors.classes, C = self.columns.shape[0]
        cdef double* own
        cdef double* other
        cdef double square, left
        if not pairs.dense and pairs.table[task].bits == 0:
            return
        for i in range(self.n_columns):
            own = stored(pairs, task, i)
            if own == NULL:
                continue
            own += at
            square = max(M[i * C + i] * M[i * C + i], ROUNDING)
            axpy(K, self.u[i], own, level)
            for k in range(K):
                own[k] *= M[i * C + i]
                if own[vectors.room + k] > 0.0:
                    left = max(prior - own[vectors.room + k], ROUNDING * prior)
                    left = 1.0 / (1.0 / prior + (1.0 / left - 1.0 / prior) / square)
                    own[vectors.room + k] = max(0.0, prior - left)
            for j in range(i + 1, self.n_columns):
                other = stored(pairs, task, j) if M[i * C + j] != 0.0 else NULL
                if other != NULL:
                    axpy(K, M[i * C + j], other + at, own)

    cdef void covariance_of_lines(self) noexcept nogil:
        """``matrix`` (n, n) = the common covariance of the lines."""
        cdef Py_ssize_t i, j, n = self.n_lines
        cdef double share = 1.0 / (self.progress.events + PRIOR_EVENTS)
        for i in range(n):
            for j in range(n):
                self.matrix[i * n + j] = share * self.scatter[self.line[i], self.line[j]]
            self.matrix[i * n + i] += share * PRIOR_EVENTS + LINE_RIDGE

    cdef void solve(self) noexcept nogil:
        """Factor the common covariance of the lines."""
        self.covariance_of_lines()
        self.progress.log_det = self.factorise(&self.line_factor[0, 0])

    cdef void solve_class(self, Py_ssize_t k, double seen) noexcept nogil:
        """Factor the covariance of a class, shrunk to the common one."""
        cdef Py_ssize_t i, j, n = self.n_lines
        cdef double prior = n + 1.0
        self.covariance_of_lines()
        for i in range(n):
            for j in range(n):
                self.matrix[i * n + j] = (
                    self.class_scatter[k, i, j] + prior * self.matrix[i * n + j]
                ) / (seen + prior)
        self.solved[k, 0], self.solved[k, 1] = seen, self.factorise(&self.class_factor[k, 0, 0])

    cdef double factorise(self, double* R) noexcept nogil:
        """R (n, n) = the Cholesky factor of ``matrix``; return the log-determinant."""
        cdef Py_ssize_t i, n = self.n_lines
        cdef double log_det = 0.0
        cholesky(n, self.matrix, n, R, self.line_factor.shape[0], 0.0, self.off)
        for i in range(n):
            log_det += 2.0 * log(self.off[i]) if self.off[i] > 0.0 else 0.0
        return log_det

    # --- forgetting --------------------------------------------------------------------------

    def forget(self, Py_ssize_t task, const double[::1] counts, const double[::1] seen):
        """Subtract a task's events, ``counts`` (K,) of ``seen`` (K,), from the sums of the classes."""
        cdef Py_ssize_t c, i, k
        cdef const double* own
        for k in range(counts.shape[0]):
            if not 0.0 < counts[k] <= seen[k]:
                continue
            own = stored(self.groups, task, k) if self.n_lines <= self.line_factor.shape[0] else NULL
            for c in range(self.n_columns):
                if self.column_of(c).order != 0.0 or own == NULL:  # a task has no sums of its own
                    self.sums[k, c] *= 1.0 - counts[k] / seen[k]
            for i in range(self.n_lines if own != NULL else 0):
                self.sums[k, self.line[i]] -= own[i]
        self.groups.clear(task)

    def shrinkage_events(self):
        """Return the events by which a task's class mean is shrunk now."""
        return self.mean_prior()

    # --- explanations ------------------------------------------------------------------------

    def entries(self, Py_ssize_t n):
        """Return indices (n,) and values (n,) of the row that was last composed."""
        return self.rooms[1][:n].copy(), self.rooms[2][:n].copy()

    def columns_read(self):
        """Return features (c,) and values (c,) of the columns of the row that was last composed."""
        first = self.n_features + self.columns.shape[0]
        features = np.asarray(self.columns)[: self.n_columns, 0].astype(np.int64) - 1
        return features, self.rooms[2][first : first + self.n_columns].copy()
