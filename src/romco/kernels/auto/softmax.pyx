"""romco-auto for very many classes: all of them at once, O(K) for each entry of an event.

Six inputs score every class, and a stacking model turns them into a probability:

    margin     one vector per class, on the squared hinge loss of the class against the rest (AROW)
    mixed      a shared vector and one of the task, on the multinomial logistic loss
    linear     discriminant with the task's own class means and one covariance
    quadratic  the same with a covariance of each class
    usual      how often the task has had the class so far
    common     how often all tasks have

The first two are Gaussians of diagonal covariance over the weights of each class, with
intercepts. Their features are decorrelated columns (`discriminant`) and, beside these, rare features in
units of their own (`scales`). Waves have no personal weights. A class less likely than MIN_PROBABILITY, or
beyond the margin, is not updated. Offsets o_k are added to the scores of the stacking model and of
mixed, and 2 (P_k - 1 / K) to margins, where P = softmax(o). The last four inputs are then left
out: they do not learn what an offset leaves. Numbers of all classes lie side by side; K numbers each,
of a feature

    shared   mean and spent variance of margin, and of mixed
    personal (of a task and a feature) mean and spent variance of mixed
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport INFINITY, NAN, exp, isfinite, log
from libc.string cimport memset
from romco.kernels.auto.class_lanes cimport accumulate, update
from romco.kernels.auto.discriminant cimport COLUMNS, Discriminant, Vectors, stored
from romco.kernels.auto.gaussians cimport Step, arow, moderate
from romco.kernels.auto.stacking cimport ConditionalLogit
from romco.kernels.auto.scales cimport Scaled, Scales, count_size, unit_of
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row
from romco.kernels.core.pairs cimport Pairs

from romco.kernels.auto import constants

cnp.import_array()

cdef enum:
    MARGIN, MIXED, LINEAR, QUADRATIC, USUAL, COMMON, INPUTS
    VECTORS = 2                                # inputs with a vector per class
    BUFFERS = 14                               # of K numbers: z, m, v, a, b, scores, hinge

cdef double AROW_R = 0.3            # AROW's r
cdef double OWN_PRIOR = 1.0         # prior variance of a task's weights
cdef double MIN_PROBABILITY = 1e-6  # probability below which a class is not updated
cdef double MAX_SCORE = 50.0        # log-odds or margins at which scores are clipped
cdef double SHRINKAGE_EVENTS = constants.SHRINKAGE_EVENTS


cdef class SoftmaxKernel(Kernel):
    """Views of the learner's arrays, and its ``score`` and ``learn``."""

    cdef Pairs shared, personal
    cdef double[:, ::1] level, counts
    cdef double[:, :, ::1] own_level
    cdef double[::1] seen, clock
    cdef Scales scales
    cdef readonly Discriminant discriminant
    cdef ConditionalLogit stacking
    cdef object buffers, places
    cdef double* z                 # (INPUTS, K) inputs of the stacking model
    cdef double* m                 # (VECTORS, K) means
    cdef double* v                 # (VECTORS, K) variances
    cdef double* a                 # (K,) steps
    cdef double* b                 # (K,)
    cdef double* scores            # (K,)
    cdef double* hinge             # (K,) known parts of margins
    cdef const double* offset      # (K,) of the event at hand, or NULL
    cdef int* some                 # (K,) classes that are updated
    cdef Py_ssize_t room           # classes for which arrays have room: numbers lie so far apart

    def __init__(self, Py_ssize_t classes, a, stores, ConditionalLogit stacking):
        cdef Py_ssize_t K = classes
        self.seen, self.clock, self.counts = a["seen"], a["clock"], a["counts"]
        self.level, self.own_level, self.room = a["level"], a["own_level"], len(self.seen)
        self.shared, self.personal = stores["shared"], stores["personal"]
        self.scales = Scales(a["units"], a["typical"])
        self.discriminant = Discriminant(len(a["units"]), a, stores["groups"])
        self.stacking = stacking
        self.width = K
        self.buffers, self.places = np.zeros((BUFFERS, K)), np.zeros(K, np.int32)
        self.z = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.buffers)
        self.m = self.z + INPUTS * K
        self.v = self.m + VECTORS * K
        self.a = self.v + VECTORS * K
        self.b = self.a + K
        self.scores = self.b + K
        self.hinge, self.offset = self.scores + K, NULL
        self.some = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.places)

    # --- prediction --------------------------------------------------------------------------

    cdef void take_offset(self, Events events, Py_ssize_t e) noexcept nogil:
        """Read the offsets of an event, if it has any."""
        cdef Py_ssize_t k, K = self.width
        cdef double best, total = 0.0
        self.offset = NULL
        if events.offsets != NULL:
            self.offset = events.offsets + e * K
        if self.offset == NULL:
            memset(self.hinge, 0, K * sizeof(double))
            return
        best = self.offset[0]
        for k in range(1, K):
            best = max(best, self.offset[k])
        for k in range(K):
            self.hinge[k] = exp(self.offset[k] - best)
            total += self.hinge[k]
        for k in range(K):
            self.hinge[k] = 2.0 * (self.hinge[k] / total - 1.0 / K)

    cdef void read(self, Scaled x, long long task, double unit) noexcept nogil:
        """Compute the inputs (6, K) of the stacking model, of the row that was last composed."""
        cdef Py_ssize_t i, K = self.width
        cdef const double* all_
        cdef const double* own
        cdef double value, own_x2 = 0.0
        cdef int c
        for i in range(x.n):
            if self.is_personal(x.index[i]):
                own_x2 += x.value[i] * x.value[i]
        self.begin(task, x.x2 * unit * unit, own_x2 * unit * unit)
        for i in range(x.n):
            value = x.value[i] * unit
            all_ = stored(self.shared, 0, x.index[i])
            own = stored(self.personal, task, x.index[i]) if self.is_personal(x.index[i]) else NULL
            if all_ != NULL:
                for c in range(VECTORS):
                    accumulate(
                        self.m + c * K, self.v + c * K, all_ + 2 * c * self.room,
                        all_ + (2 * c + 1) * self.room, value, K,
                    )
            if own != NULL:
                accumulate(
                    self.m + MIXED * K, self.v + MIXED * K, own, own + self.room, value, K
                )
        self.set_inputs(task)
        if self.offset == NULL:
            self.discriminant.score(
                task, &self.counts[task, 0], &self.seen[0], K, self.z + LINEAR * K,
                self.z + QUADRATIC * K,
            )
        else:
            memset(self.z + LINEAR * K, 0, 2 * K * sizeof(double))

    cdef inline bint is_personal(self, Py_ssize_t j) noexcept nogil:
        """Return whether tasks have weights of their own of a column or feature."""
        return j >= COLUMNS or self.discriminant.column_of(j).order == 0.0

    cdef Scaled look(self, Row x, bint frozen) noexcept nogil:
        """A row of columns and features; see `Scales.look`."""
        return self.discriminant.compose(x, self.scales.look(x, frozen), self.scales, frozen)

    cdef void begin(self, long long task, double x2, double own_x2) noexcept nogil:
        """Start with means and variances of the intercepts, and the prior variance of the features."""
        cdef Py_ssize_t k, K = self.width
        cdef int c
        for c in range(VECTORS):
            for k in range(K):
                self.m[c * K + k] = self.level[2 * c, k]
                self.v[c * K + k] = 1.0 + x2 - self.level[2 * c + 1, k]
        for k in range(K):
            self.m[MIXED * K + k] += self.own_level[task, 0, k]
            self.v[MIXED * K + k] += OWN_PRIOR * (1.0 + own_x2) - self.own_level[task, 1, k]

    cdef void set_inputs(self, long long task) noexcept nogil:
        cdef Py_ssize_t k, K = self.width
        cdef double total = 0.0
        for k in range(VECTORS * K):
            self.v[k] = max(self.v[k], 0.0)
        for k in range(K):
            total += self.seen[k]
            self.z[k] = clipped(self.m[k])
            self.z[MIXED * K + k] = clipped(moderate(self.m[MIXED * K + k], self.v[MIXED * K + k]))
        if self.offset != NULL:
            memset(self.z + USUAL * K, 0, 2 * K * sizeof(double))
            return
        for k in range(K):
            self.z[COMMON * K + k] = log(self.seen[k] + 1.0)
            self.z[USUAL * K + k] = log(
                self.counts[task, k] + SHRINKAGE_EVENTS * (self.seen[k] + 1.0) / (total + <double> K)
            )

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double unit = unit_of(&self.clock[0])
        cdef Scaled row
        for e in range(begin, end):
            row = self.look(events.row(e), self.frozen_predictions)
            self.take_offset(events, e)
            self.read(row, events.tasks[e], unit)
            self.stacking.score(self.z, self.width, margins + e * self.width, self.offset)
            if self.followed and end - begin == 1:  # `learn` need not read it all again
                self.keep_notes(events, begin, end)
            # Features whose squares overflow must be refused before they are learned.
            if not isfinite(row.x2):
                margins[e * self.width] = NAN
        return 0

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef bint noted = self.has_notes(events, begin, end)
        for e in range(begin, end):
            if events.count(e) > 0.0:
                self.take_offset(events, e)
                self.learn_one(
                    events.row(e), events.tasks[e], <Py_ssize_t> events.labels[e],
                    events.count(e), noted,
                )
        return 0

    cdef int learn_one(
        self, Row x, long long task, Py_ssize_t label, double h, bint noted
    ) except -1 nogil:
        """Learn an event that counts as h of them."""
        cdef double unit, usual, common = self.scales.common()
        cdef bint first = self.clock[1] == 0.0
        cdef Py_ssize_t n = self.scales.n_entries(x) + self.discriminant.n_columns
        cdef Py_ssize_t zeros = self.discriminant.n_zeros  # of the prediction, if it is noted
        cdef Scaled row
        self.shared.reserve(0, n)  # before anything changes: there may be no room
        self.personal.reserve(task, n)
        self.discriminant.groups.reserve(task, 1)
        row = self.scales.count_seen(x) if noted else self.scales.count(x)
        row = self.discriminant.compose(x, row, self.scales, False)
        if first:  # the first event defines the unit
            count_size(&self.clock[0], row.x2, h)
        unit = unit_of(&self.clock[0])
        if self.scales.common() != common or self.discriminant.n_zeros != zeros:
            noted = False  # units, or what is missing, have changed since
        if not noted or first:
            self.read(row, task, unit)
        self.stacking.score(self.z, self.width, self.scores, self.offset)
        self.stacking.learn(self.z, self.width, self.scores, label, h)
        usual = self.stacking.weight[USUAL]
        if self.stacking.weight[COMMON] < -usual:  # else a class would gain from being rare
            self.stacking.weight[COMMON] = -usual
        self.move(row, task, MARGIN, self.plan_margin(label, AROW_R / h), unit)
        self.move(row, task, MIXED, self.plan_mixed(label, h), unit)
        self.discriminant.learn(task, label, self.counts[task, label], self.seen[label], h)
        self.discriminant.count(x)
        self.counts[task, label] += h
        self.seen[label] += h
        if not first:
            count_size(&self.clock[0], row.x2, h)
        if not self.discriminant.is_shard():
            self.discriminant.settle(self.scales, &self.seen[0], label, self.vectors(unit))
        return 0

    cdef Vectors vectors(self, double unit) noexcept nogil:
        """Return where the weights of columns are; ``unit`` is what they were learned in."""
        cdef Vectors vectors
        vectors.shared, vectors.personal = <void*> self.shared, <void*> self.personal
        vectors.level, vectors.own_level = &self.level[0, 0], &self.own_level[0, 0, 0]
        vectors.n_shared, vectors.classes, vectors.room = VECTORS, self.width, self.room
        vectors.counts = &self.counts[0, 0]
        vectors.unit, vectors.own_prior = unit, OWN_PRIOR
        return vectors

    # --- shards ------------------------------------------------------------------------------

    def settle_after_merge(self):
        """Choose and decorrelate columns, and solve, after a merge; return whether anything changed."""
        self.check_idle()
        return self.discriminant.settle(
            self.scales, &self.seen[0], -1, self.vectors(unit_of(&self.clock[0]))
        )

    cdef Py_ssize_t plan_mixed(self, Py_ssize_t label, double h) noexcept nogil:
        """Steps on the multinomial logistic loss; gives how many classes move."""
        cdef Py_ssize_t k, n = 0
        cdef const double* v = self.v + MIXED * self.width
        cdef double total = 0.0, best = -INFINITY, p, g, curvature
        for k in range(self.width):
            self.a[k] = self.z[MIXED * self.width + k]
            if self.offset != NULL:
                self.a[k] += self.offset[k]
            best = max(best, self.a[k])
        for k in range(self.width):
            self.a[k] = exp(self.a[k] - best)
            total += self.a[k]
        for k in range(self.width):
            p = self.a[k] / total
            if p < MIN_PROBABILITY and k != label:
                continue
            g = (1.0 if k == label else 0.0) - p
            curvature = h * p * (1.0 - p)
            self.b[k] = curvature / (1.0 + curvature * v[k])
            self.a[k] = h * g / (1.0 + curvature * v[k])
            self.some[n] = <int> k
            n += 1
        return n

    cdef Py_ssize_t plan_margin(self, Py_ssize_t label, double r) noexcept nogil:
        """Steps on the squared hinge loss of each class against the rest; how many move."""
        cdef Py_ssize_t k, n = 0
        cdef Step step
        for k in range(self.width):
            step = arow(1.0 if k == label else -1.0, self.m[k] + self.hinge[k], self.v[k], r)
            if step.b > 0.0:
                self.a[k], self.b[k], self.some[n] = step.a, step.b, <int> k
                n += 1
        return n

    cdef void move(
        self, Scaled x, long long task, int input, Py_ssize_t n, double unit
    ) noexcept nogil:
        """The planned step of n classes along each entry, and of their intercepts."""
        cdef Py_ssize_t i
        cdef double* w
        cdef double value
        update(
            &self.level[2 * input, 0], &self.level[2 * input + 1, 0], self.a, self.b, 1.0,
            1.0, self.some, n,
        )
        if input == MIXED:
            update(
                &self.own_level[task, 0, 0], &self.own_level[task, 1, 0], self.a, self.b, OWN_PRIOR,
                1.0, self.some, n,
            )
        for i in range(x.n):
            value = x.value[i] * unit
            if value == 0.0:  # at the feature's centre
                continue
            w = self.shared.touch(0, x.index[i]) + 2 * input * self.room
            update(w, w + self.room, self.a, self.b, 1.0, value, self.some, n)
            if input == MIXED and self.is_personal(x.index[i]):
                w = self.personal.touch(task, x.index[i])
                update(w, w + self.room, self.a, self.b, OWN_PRIOR, value, self.some, n)

    # --- explanations ------------------------------------------------------------------------

    def inputs(self, Events events not None):
        """Return the inputs (n, 6, K) of the stacking model."""
        self.check_idle()
        self.drop_notes()
        cdef Py_ssize_t e
        inputs = np.empty((events.n, INPUTS, self.width))
        for e in range(events.n):
            self.take_offset(events, e)
            self.read(self.look(events.row(e), True), events.tasks[e], unit_of(&self.clock[0]))
            inputs[e] = self.buffers[:INPUTS]
        return inputs

    def entries(self, Events events not None):
        """Return the entries of the first event, as vectors have them.

        Columns or features, numbered from COLUMNS on, (k,), their values (k,), one over the size of
        events, and the variances (K,) of the scores of mixed.
        """
        self.check_idle()
        self.drop_notes()
        cdef Scaled x = self.look(events.row(0), True)
        self.take_offset(events, 0)
        self.read(x, events.tasks[0], unit_of(&self.clock[0]))
        variances = self.buffers[INPUTS + VECTORS + MIXED].copy()
        index, values = self.discriminant.entries(x.n)
        return index, values, unit_of(&self.clock[0]), variances


cdef inline double clipped(double z) noexcept nogil:
    """Clip a score: a step by an event of huge weight could be of any size."""
    return max(-MAX_SCORE, min(MAX_SCORE, z))
