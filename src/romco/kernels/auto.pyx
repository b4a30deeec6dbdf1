"""romco-auto: four simple learners read each event, and a judge weighs what they say.

The four are two losses (m: squared hinge, as AROW; l: logistic) by two degrees of
sharing (*: one vector for all tasks; 1: each task alone). Each believes in weights
with a Gaussian of diagonal covariance, prior mean 0 and prior variance 1, part of
which is spent as events come in. From the vectors of l1 a low-rank U = B F' is
drawn from time to time: what groups of tasks have in common. The judge hears the
four margins and the four directions of U; a second judge hears m1 and l1 only, and
each task is believed by evidence to follow the one or the other. Numbers that are
read together lie together, one cache line per feature:

    shared   (d, 8)     mean m*, mean l*, spent m*, spent l*, row of B (4)
    personal (m, d, 4)  mean m1, mean l1, spent m1, spent l1
"""

from libc.math cimport M_PI, NAN, exp, isfinite, log, log1p, sqrt
from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events, Row, column, square
from romco.kernels.pairs cimport Pairs

cdef enum:
    RANK = 4       # directions of U
    VOICES = 8     # what the judge hears: m* l* m1 l1 and the directions
    OWN = 2        # where m1 l1 begin

cdef double SLACK = 0.3            # AROW's r
cdef double OWN_INTERCEPT = 0.1    # prior variance of a task's own intercept; the shared one has 1
cdef double ODD = -2.0             # prior log-odds that a task has nothing in common with others
cdef double SURE = 20.0            # evidence is kept within this, so that a task may change
cdef double FIRST_DRAWING = 32.0   # events before U is first drawn, then after half as many again
cdef double GROWTH = 1.5
cdef double NOTHING_NEW = 1e-10    # share of a column's square below which it is rounding


cdef struct Verdict:
    double Sz[VOICES]              # the judge's covariance times what was heard
    double mean, variance          # of its log-odds
    double margin                  # log-odds averaged over that


cdef struct Opinions:
    double x2                      # |x|^2 in units of the stream
    double p[4]                    # margins of m* l* m1 l1
    double v[4]                    # their variances
    double z[VOICES]               # what the judges hear
    Verdict all_, own              # what they say


cdef inline double moderate(double mean, double variance) noexcept nogil:
    """Log-odds of a logistic model whose linear part is Gaussian (MacKay's approximation)."""
    return mean / sqrt(1.0 + M_PI * variance / 8.0)


cdef inline void logistic(
    double y, double p, double v, double share, double* a, double* b
) noexcept nogil:
    """Step of a Gaussian belief on share * the logistic loss: w += a S x, S -= b S x x'S."""
    cdef double miss = 1.0 / (1.0 + exp(y * moderate(p, v)))
    cdef double curvature = share * miss * (1.0 - miss)
    b[0] = curvature / (1.0 + curvature * v)
    a[0] = y * share * miss / (1.0 + curvature * v)


cdef inline void arow(double y, double p, double v, double* a, double* b) noexcept nogil:
    """The same on the squared hinge loss."""
    cdef double loss = 1.0 - y * p
    b[0] = 1.0 / (v + SLACK) if loss > 0.0 else 0.0
    a[0] = b[0] * loss * y


cdef inline double shift(double* mean, double* spent, double prior, double a, double b,
                         double x) noexcept nogil:
    """One step of a belief about the weight of a feature of value x; gives the mean's change."""
    cdef double sx = (prior - spent[0]) * x
    mean[0] += a * sx
    spent[0] += b * sx * sx
    return a * sx


cdef inline double softplus(double z) noexcept nogil:
    """log(1 + exp(z))."""
    return z + log1p(exp(-z)) if z > 0.0 else log1p(exp(z))


cdef inline double log_sum(double a, double b) noexcept nogil:
    """log(exp(a) + exp(b))."""
    return a + softplus(b - a)


cdef inline double mixed(double odds, double a, double b) noexcept nogil:
    """Log-odds of an answer that comes from b with log-odds `odds`, else from a."""
    cdef double from_a = -softplus(odds), from_b = -softplus(-odds)
    return log_sum(from_a - softplus(-a), from_b - softplus(-b)) - log_sum(
        from_a - softplus(a), from_b - softplus(b)
    )


cdef void hear(
    const double[::1] weight, const double[:, ::1] covariance, const double* z, Verdict* said
) noexcept nogil:
    """A Bayesian logistic regression on what a judge hears."""
    cdef int c, k, n = <int> weight.shape[0]
    said.mean = said.variance = 0.0
    for c in range(n):
        said.Sz[c] = 0.0
        for k in range(n):
            said.Sz[c] += covariance[c, k] * z[k]
        said.mean += weight[c] * z[c]
        said.variance += z[c] * said.Sz[c]
    said.margin = moderate(said.mean, said.variance)


cdef void correct(
    double[::1] weight, double[:, ::1] covariance, double y, double share, const Verdict* said
) noexcept nogil:
    """One step of a judge; an event that is its business in part counts by its share."""
    cdef double a, b
    cdef int c, k, n = <int> weight.shape[0]
    logistic(y, said.mean, said.variance, share, &a, &b)
    for c in range(n):
        weight[c] += a * said.Sz[c]
        for k in range(n):
            covariance[c, k] -= b * said.Sz[c] * said.Sz[k]


cdef class AutoKernel(Kernel):
    """Views of the learner's arrays and the two verbs; the learner tells what the arrays mean."""

    cdef double[:, ::1] shared, factor, intercept, own_intercept
    cdef double[:, ::1] covariance, own_covariance
    cdef double[::1] weight, own_weight, evidence, clock
    cdef Pairs personal

    def __init__(
        self, shared, Pairs personal, factor, intercept, own_intercept,
        weight, covariance, own_weight, own_covariance, evidence, clock,
    ):
        self.shared, self.personal, self.factor = shared, personal, factor
        self.intercept, self.own_intercept = intercept, own_intercept
        self.weight, self.covariance = weight, covariance
        self.own_weight, self.own_covariance, self.evidence = own_weight, own_covariance, evidence
        self.clock = clock

    # --- units -------------------------------------------------------------------------------

    cdef double unit(self) noexcept nogil:
        """One over the geometric mean of |x| so far; a single odd event cannot move it far."""
        return exp(-0.5 * self.clock[0] / self.clock[1]) if self.clock[1] > 0.0 else 1.0

    cdef void count(self, double x2) noexcept nogil:
        if x2 > 0.0:
            self.clock[0] += log(x2)
            self.clock[1] += 1.0

    # --- what is said about an event ---------------------------------------------------------

    cdef void read(self, Row x, long long task, double unit, Opinions* o) noexcept nogil:
        """Margins and variances of the four learners, and the directions of U."""
        cdef double[8] u
        cdef double[4] v
        cdef double value, value2, x2 = 0.0
        cdef const double* all_
        cdef const double* own
        cdef const double* f = &self.factor[task, 0]
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(8):
            u[c] = 0.0
        for c in range(4):
            v[c] = 0.0
        for k in range(x.n):
            j = column(x, k)
            value = x.value[k] * unit
            value2 = value * value
            x2 += value2
            all_, own = &self.shared[j, 0], self.personal.look(task, j)
            for c in range(2):
                u[c] += value * all_[c]
                v[c] += value * own[c]
                u[2 + c] += value2 * all_[2 + c]
                v[2 + c] += value2 * own[2 + c]
            for c in range(4, 8):
                u[c] += value * all_[c]
        o.x2 = x2
        for c in range(2):
            o.p[c], o.v[c] = u[c], x2 - u[2 + c]
            o.p[2 + c], o.v[2 + c] = v[c], x2 - v[2 + c]
        for c in range(RANK):
            o.z[4 + c] = u[4 + c] * f[c]
        self.add_intercepts(task, o)

    cdef void add_intercepts(self, long long task, Opinions* o) noexcept nogil:
        """The logistic learners have them; alone shares its intercept in part."""
        o.p[1] += self.intercept[0, 0]
        o.v[1] += 1.0 - self.intercept[0, 1]
        o.p[3] += self.intercept[1, 0] + self.own_intercept[task, 0]
        o.v[3] += (1.0 - self.intercept[1, 1]) + (OWN_INTERCEPT - self.own_intercept[task, 1])

    cdef void judge(self, Opinions* o) noexcept nogil:
        """What the two judges say."""
        cdef int c
        for c in range(0, 4, 2):
            o.z[c], o.z[c + 1] = o.p[c], moderate(o.p[c + 1], o.v[c + 1])
        hear(self.weight, self.covariance, o.z, &o.all_)
        hear(self.own_weight, self.own_covariance, o.z + OWN, &o.own)

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Opinions o
        cdef Py_ssize_t e
        cdef double unit = self.unit()
        for e in range(begin, end):
            self.read(events.row(e), events.tasks[e], unit, &o)
            self.judge(&o)
            # Features whose squares overflow must be refused before they are learned.
            margins[e] = NAN if not isfinite(o.x2) else mixed(
                ODD + self.evidence[events.tasks[e]], o.all_.margin, o.own.margin
            )
        return 0

    # --- learning ----------------------------------------------------------------------------

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            self.learn_one(events.row(e), events.tasks[e], events.labels[e])
        if self.clock[1] >= self.clock[2]:
            self.draw()
            self.clock[2] = max(FIRST_DRAWING, GROWTH * self.clock[1])
        return 0

    cdef int learn_one(self, Row x, long long task, double y) except -1 nogil:
        cdef Opinions o
        cdef double unit, x2 = square(x)
        cdef bint first = self.clock[1] == 0.0
        if first:  # there is no unit yet, so the first event is its own
            self.count(x2)
        unit = self.unit()
        self.read(x, task, unit, &o)
        self.judge(&o)
        self.personal.reserve(x.n)
        self.move_learners(x, task, y, unit, &o)
        self.move_judges(task, y, &o)
        if not first:
            self.count(x2)
        return 0

    cdef void move_learners(
        self, Row x, long long task, double y, double unit, Opinions* o
    ) noexcept nogil:
        cdef double[4] a, b
        cdef double value, change
        cdef double* all_
        cdef double* own
        cdef double* f = &self.factor[task, 0]
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(0, 4, 2):
            arow(y, o.p[c], o.v[c], &a[c], &b[c])
            logistic(y, o.p[c + 1], o.v[c + 1], 1.0, &a[c + 1], &b[c + 1])
        for k in range(x.n):
            j = column(x, k)
            value = x.value[k] * unit
            all_, own = &self.shared[j, 0], self.personal.touch(task, j)
            shift(all_, all_ + 2, 1.0, a[0], b[0], value)
            shift(all_ + 1, all_ + 3, 1.0, a[1], b[1], value)
            shift(own, own + 2, 1.0, a[2], b[2], value)
            change = shift(own + 1, own + 3, 1.0, a[3], b[3], value)
            for c in range(RANK):  # F = W'B stays true while W moves
                f[c] += change * all_[4 + c]
        shift(&self.intercept[0, 0], &self.intercept[0, 1], 1.0, a[1], b[1], 1.0)
        shift(&self.intercept[1, 0], &self.intercept[1, 1], 1.0, a[3], b[3], 1.0)
        shift(
            &self.own_intercept[task, 0], &self.own_intercept[task, 1],
            OWN_INTERCEPT, a[3], b[3], 1.0,
        )

    cdef void move_judges(self, long long task, double y, Opinions* o) noexcept nogil:
        """The first judge learns an event as far as the task is its business."""
        cdef double gain = softplus(-y * o.all_.margin) - softplus(-y * o.own.margin)
        cdef double share = 1.0 / (1.0 + exp(ODD + self.evidence[task]))
        correct(self.weight, self.covariance, y, share, &o.all_)
        correct(self.own_weight, self.own_covariance, y, 1.0, &o.own)
        self.evidence[task] = max(-SURE, min(SURE, self.evidence[task] + gain))

    # --- the low-rank part -------------------------------------------------------------------

    cdef void draw(self) noexcept nogil:
        """One step of orthogonal iteration towards the leading directions B of W, then F = W'B.

        It goes on from the last drawing, for which F is up to date.
        """
        if self.seed():
            self.project()
        self.gather()
        self.orthogonalise()
        self.project()

    cdef bint seed(self) noexcept nogil:
        """Directions that are zero start anew from fixed signs; true if there were any."""
        cdef double[RANK * RANK] G
        cdef Py_ssize_t j
        cdef int c
        cdef bint found = False
        cdef unsigned long long bits
        self.products(G)
        for c in range(RANK):
            if G[c * RANK + c] == 0.0:
                found = True
                for j in range(self.shared.shape[0]):
                    bits = <unsigned long long> (j * 4 + 4 + c) * 0x9E3779B97F4A7C15ULL
                    self.shared[j, 4 + c] = 1.0 if (bits >> 40) & 1 else -1.0
        return found

    cdef void project(self) noexcept nogil:
        """F = W'B."""
        cdef Py_ssize_t slot, task = 0, feature = 0
        cdef const double* own
        cdef const double* b
        cdef double* f
        cdef int c
        self.factor[:, :] = 0.0
        for slot in range(self.personal.slots()):
            own = self.personal.at(slot, &task, &feature)
            if own != NULL and own[1] != 0.0:
                f, b = &self.factor[task, 0], &self.shared[feature, 4]
                for c in range(RANK):
                    f[c] += own[1] * b[c]

    cdef void gather(self) noexcept nogil:
        """B = W F."""
        cdef Py_ssize_t slot, task = 0, feature = 0
        cdef const double* own
        cdef const double* f
        cdef double* b
        cdef int c
        self.shared[:, 4:] = 0.0
        for slot in range(self.personal.slots()):
            own = self.personal.at(slot, &task, &feature)
            if own != NULL and own[1] != 0.0:
                f, b = &self.factor[task, 0], &self.shared[feature, 4]
                for c in range(RANK):
                    b[c] += own[1] * f[c]

    cdef void orthogonalise(self) noexcept nogil:
        """The columns of B made orthonormal in turn; those that add nothing become zero.

        Gram-Schmidt on the columns' inner products, so that all of B is read only twice.
        """
        cdef double[RANK * RANK] G
        cdef double[RANK][RANK] T  # T[c] gives the new column c in terms of the old ones
        cdef double[RANK] row
        cdef double overlap, size
        cdef double* b
        cdef Py_ssize_t j
        cdef int c, k, i
        self.products(G)
        for c in range(RANK):
            size = G[c * RANK + c]
            for i in range(RANK):
                T[c][i] = 1.0 if i == c else 0.0
            for k in range(c):
                overlap = 0.0
                for i in range(k + 1):
                    overlap += T[k][i] * G[i * RANK + c]
                for i in range(k + 1):
                    T[c][i] -= overlap * T[k][i]
                size -= overlap * overlap
            size = 1.0 / sqrt(size) if size > NOTHING_NEW * G[c * RANK + c] else 0.0
            for i in range(c + 1):
                T[c][i] *= size
        for j in range(self.shared.shape[0]):
            b = &self.shared[j, 4]
            for c in range(RANK):
                row[c] = 0.0
                for i in range(c + 1):
                    row[c] += T[c][i] * b[i]
            for c in range(RANK):
                b[c] = row[c]

    cdef void products(self, double* G) noexcept nogil:
        """Inner products of the columns of B."""
        cdef const double* b
        cdef Py_ssize_t j
        cdef int c, k
        for c in range(RANK * RANK):
            G[c] = 0.0
        for j in range(self.shared.shape[0]):
            b = &self.shared[j, 4]
            for c in range(RANK):
                for k in range(RANK):
                    G[c * RANK + k] += b[c] * b[k]
