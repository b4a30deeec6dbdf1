"""romco-auto: six simple learners read each event once; a judge weighs what they say.

The six are two losses by three degrees of sharing. Each believes in weights with a
Gaussian of diagonal covariance, prior mean 0 and prior variance 1, part of which
is spent as events come in. Their numbers lie side by side, so that one visit to a
feature serves all six:

    shared   (d, 8)       means, then spent variances, of the lanes  mb lb m* l*
    personal (m, d, 8)    means, then spent variances, of the lanes  mb lb m1 l1

m: squared hinge (AROW), l: logistic;  b: both vectors added, 1: each task alone,
*: one vector for all.
"""

from libc.math cimport M_PI, NAN, exp, isfinite, log, sqrt
from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events, Row, column, square
from romco.kernels.personal cimport Personal

cdef enum:
    LANES = 4
    COPIES = 6  # mb lb m1 l1 m* l*
    MB = 0
    LB = 1
    M1 = 2
    L1 = 3
    MG = 4
    LG = 5

cdef double SLACK = 0.3            # AROW's r
cdef double OWN_INTERCEPT = 0.1    # prior variance of a task's own intercept; the shared one has 1
cdef double LEANING = 0.3          # prior variance of a task's own leaning


cdef struct Opinions:
    double x2                      # |x|^2 in units of the stream
    double p[COPIES]               # margin of each copy
    double v[COPIES]               # its variance
    double z[COPIES]               # what the judge hears: p, or log-odds where p is logistic
    double Sz[COPIES]              # the judge's covariance times z
    double lean                    # alone minus global: what a task's own leaning multiplies
    double mean, variance          # of the judge's log-odds


cdef struct Steps:                 # w += a S x, S -= b S x x'S
    double a[COPIES]
    double b[COPIES]


cdef inline double moderate(double mean, double variance) noexcept nogil:
    """Log-odds of a logistic model whose linear part is Gaussian (MacKay's approximation)."""
    return mean / sqrt(1.0 + M_PI * variance / 8.0)


cdef inline void logistic(double y, double p, double v, double* a, double* b) noexcept nogil:
    """Step of the logistic loss: one Newton step of a Gaussian belief."""
    cdef double miss = 1.0 / (1.0 + exp(y * moderate(p, v)))
    cdef double curvature = miss * (1.0 - miss)
    b[0] = curvature / (1.0 + curvature * v)
    a[0] = y * miss / (1.0 + curvature * v)


cdef inline void arow(double y, double p, double v, double* a, double* b) noexcept nogil:
    """Step of the squared hinge loss (algorithms 12.1)."""
    cdef double loss = 1.0 - y * p
    b[0] = 1.0 / (v + SLACK) if loss > 0.0 else 0.0
    a[0] = b[0] * loss * y


cdef inline void shift(double* belief, double prior, double a, double b) noexcept nogil:
    """One step of a belief (mean, spent variance) about a feature that is always 1."""
    cdef double s = prior - belief[1]
    belief[0] += a * s
    belief[1] += b * s * s


cdef inline void move(double* belief, const double* a, const double* b, double x) noexcept nogil:
    """One step of four beliefs (means, spent variances) about a feature of value x."""
    cdef double sx
    cdef int c
    for c in range(LANES):
        sx = (1.0 - belief[LANES + c]) * x
        belief[c] += a[c] * sx
        belief[LANES + c] += b[c] * sx * sx


cdef class AutoKernel(Kernel):
    """Views of the learner's arrays and the two verbs; the learner tells what the arrays mean."""

    cdef double[:, ::1] shared, intercept, covariance, leaning
    cdef double[:, :, ::1] own_intercept
    cdef double[::1] weight, scale
    cdef Personal personal

    def __init__(
        self, shared, Personal personal, intercept, own_intercept, weight, covariance, leaning, scale
    ):
        self.shared, self.personal = shared, personal
        self.intercept, self.own_intercept = intercept, own_intercept
        self.weight, self.covariance, self.leaning = weight, covariance, leaning
        self.scale = scale

    cdef double unit(self) noexcept nogil:
        """One over the geometric mean of |x| so far; a single odd event cannot move it far."""
        return exp(-0.5 * self.scale[0] / self.scale[1]) if self.scale[1] > 0.0 else 1.0

    cdef void count(self, double x2) noexcept nogil:
        if x2 > 0.0:
            self.scale[0] += log(x2)
            self.scale[1] += 1.0

    cdef void read(self, Row x, long long task, double unit, Opinions* o) noexcept nogil:
        """Margins and variances of the six copies."""
        cdef double u[2 * LANES]
        cdef double v[2 * LANES]
        cdef double value, x2 = 0.0
        cdef const double* own
        cdef const double* all_
        cdef Py_ssize_t k, j
        cdef int c
        for c in range(2 * LANES):
            u[c] = v[c] = 0.0
        for k in range(x.n):
            j = column(x, k)
            value = x.value[k] * unit
            all_, own = &self.shared[j, 0], self.personal.look(task, j)
            for c in range(LANES):
                u[c] += value * all_[c]
                v[c] += value * own[c]
            value *= value
            x2 += value
            for c in range(LANES, 2 * LANES):
                u[c] += value * all_[c]
                v[c] += value * own[c]
        o.x2 = x2
        for c in range(2):  # the margin copies, then the logistic ones
            o.p[MB + c], o.v[MB + c] = u[c] + v[c], 2.0 * x2 - u[LANES + c] - v[LANES + c]
            o.p[M1 + c], o.v[M1 + c] = v[2 + c], x2 - v[LANES + 2 + c]
            o.p[MG + c], o.v[MG + c] = u[2 + c], x2 - u[LANES + 2 + c]
        self.add_intercepts(task, o)

    cdef void add_intercepts(self, long long task, Opinions* o) noexcept nogil:
        cdef double* all_ = &self.intercept[0, 0]
        cdef double* own = &self.own_intercept[task, 0, 0]
        o.p[LB] += all_[0] + own[0]
        o.v[LB] += (1.0 - all_[1]) + (OWN_INTERCEPT - own[1])
        o.p[L1] += own[2]
        o.v[L1] += OWN_INTERCEPT - own[3]
        o.p[LG] += all_[2]
        o.v[LG] += 1.0 - all_[3]

    cdef void judge(self, long long task, Opinions* o) noexcept nogil:
        """Log-odds: a Bayesian logistic regression on what the copies say."""
        cdef int c, k
        for c in range(0, COPIES, 2):
            o.z[c], o.z[c + 1] = o.p[c], moderate(o.p[c + 1], o.v[c + 1])
        o.lean = o.z[M1] - o.z[MG]
        o.mean = self.leaning[task, 0] * o.lean
        o.variance = (LEANING - self.leaning[task, 1]) * o.lean * o.lean
        for c in range(COPIES):
            o.Sz[c] = 0.0
            for k in range(COPIES):
                o.Sz[c] += self.covariance[c, k] * o.z[k]
            o.mean += self.weight[c] * o.z[c]
            o.variance += o.z[c] * o.Sz[c]

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Opinions o
        cdef Py_ssize_t e
        cdef double unit = self.unit()
        for e in range(begin, end):
            self.read(events.row(e), events.tasks[e], unit, &o)
            self.judge(events.tasks[e], &o)
            # Features so large that their squares overflow must be refused before they are learned.
            margins[e] = moderate(o.mean, o.variance) if isfinite(o.x2) else NAN
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            self.learn_one(events.row(e), events.tasks[e], events.labels[e])
        return 0

    cdef int learn_one(self, Row x, long long task, double y) except -1 nogil:
        cdef Opinions o
        cdef Steps to
        cdef int c
        cdef double unit, x2 = square(x)
        cdef bint first = self.scale[1] == 0.0
        if first:  # there is no unit yet, so the first event is its own
            self.count(x2)
        unit = self.unit()
        self.read(x, task, unit, &o)
        self.judge(task, &o)
        for c in range(0, COPIES, 2):
            arow(y, o.p[c], o.v[c], &to.a[c], &to.b[c])
            logistic(y, o.p[c + 1], o.v[c + 1], &to.a[c + 1], &to.b[c + 1])
        self.personal.reserve(x.n)
        self.move_copies(x, task, unit, &to)
        self.move_judge(task, y, &o)
        if not first:
            self.count(x2)
        return 0

    cdef void move_copies(self, Row x, long long task, double unit, Steps* to) noexcept nogil:
        cdef double[LANES] a, b
        cdef double value
        cdef Py_ssize_t k, j
        a[0], a[1], a[2], a[3] = to.a[MB], to.a[LB], to.a[MG], to.a[LG]
        b[0], b[1], b[2], b[3] = to.b[MB], to.b[LB], to.b[MG], to.b[LG]
        for k in range(x.n):
            j = column(x, k)
            value = x.value[k] * unit
            move(&self.shared[j, 0], a, b, value)
            move(self.personal.touch(task, j), to.a, to.b, value)  # lanes are the first four copies
        shift(&self.intercept[0, 0], 1.0, to.a[LB], to.b[LB])
        shift(&self.intercept[1, 0], 1.0, to.a[LG], to.b[LG])
        shift(&self.own_intercept[task, 0, 0], OWN_INTERCEPT, to.a[LB], to.b[LB])
        shift(&self.own_intercept[task, 1, 0], OWN_INTERCEPT, to.a[L1], to.b[L1])

    cdef void move_judge(self, long long task, double y, Opinions* o) noexcept nogil:
        cdef double a, b
        cdef int c, k
        logistic(y, o.mean, o.variance, &a, &b)
        for c in range(COPIES):
            self.weight[c] += a * o.Sz[c]
            for k in range(COPIES):
                self.covariance[c, k] -= b * o.Sz[c] * o.Sz[k]
        shift(&self.leaning[task, 0], LEANING, a * o.lean, b * o.lean * o.lean)
