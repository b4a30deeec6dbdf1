"""Linear learners with one weight vector per task or one for all: gradient, PA, AROW, CW-COL."""

from libc.float cimport DBL_MIN
from libc.math cimport exp, fabs, fmax, fmin, sqrt
from libc.string cimport memset
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row, add, column, dot, square
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.triangles cimport cholesky, solve


cdef class LinearKernel(Kernel):
    """margin = w_i . x, learned one event after the other (abstract: the step is left open)."""

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = dot(events.row(e), &self.w[self.at(events, e), 0])
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i
        cdef double margin, h
        cdef Row x
        for e in range(begin, end):
            i, h = self.at(events, e), events.count(e)
            if h > 0.0:
                x = events.row(e)
                # Only the first event of a round is sure to meet the weights it was predicted with.
                margin = margins[e] if e == begin else dot(x, &self.w[i, 0])
                self.step(x, i, events.labels[e], margin, h)
        return 0

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        with gil:
            raise NotImplementedError("a linear kernel must define step or learn")


cdef class GradientKernel(LinearKernel):
    """w += eta_t y x wherever the hinge loss is positive.

    ``w`` (k, d) has one row per task, or a single row that all tasks use.
    ``t`` (1,) counts rounds. An event of weight h counts as h steps.
    """

    cdef long long[::1] t
    cdef double eta, length  # of a step: the first, and of this round
    cdef bint decays

    def __init__(self, double[:, ::1] w, long long[::1] t, double eta, bint decays):
        self.w, self.t, self.eta, self.decays = w, t, eta, decays

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            if events.count(e) > 0.0:  # else there is no round
                self.t[0] += 1
                self.length = self.eta / sqrt(<double> self.t[0]) if self.decays else self.eta
                return LinearKernel.learn(self, events, begin, end, margins)
        return 0

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        cdef double length = h * self.length, s
        if y * margin < 1.0:
            if h > 1.0:  # h steps in one: no further than the loss asks, but no less than one step
                s = square(x)
                length = fmin(length, fmax(self.length, (1.0 - y * margin) / s)) if s > 0.0 else 0.0
            add(x, length * y, &self.w[i, 0])
        return 0


cdef class PassiveAggressiveKernel(LinearKernel):
    """w += min(cap, loss / (|x|^2 + ridge)) y x.

    PA has no cap and no ridge, PA-I the cap C, PA-II the ridge 1 / (2C); a weight multiplies C.
    """

    cdef double cap, ridge

    def __init__(self, double[:, ::1] w, double cap, double ridge):
        self.w, self.cap, self.ridge = w, cap, ridge

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        cdef double s, loss = 1.0 - y * margin
        if loss > 0.0:
            s = square(x)
            if s > 0.0:
                add(x, fmin(h * self.cap, loss / (s + self.ridge / h)) * y, &self.w[i, 0])
        return 0


cdef class CollaborativeKernel(LinearKernel):
    """Every task is drawn towards a global model ``u`` (d,), then corrected by its own event."""

    cdef double[::1] u
    cdef double eta1, eta2, C

    def __init__(self, double[:, ::1] w, double[::1] u, double eta1, double eta2, double C):
        self.w, self.u, self.eta1, self.eta2, self.C = w, u, eta1, eta2, C

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        cdef Py_ssize_t j
        cdef double loss, s = square(x), eta = self.eta1 + self.eta2, share = self.eta2 / eta
        cdef double* w = &self.w[i, 0]
        cdef double* u = &self.u[0]
        if s == 0.0:
            return 0
        loss = 1.0 - y * dot(x, u)
        if loss > 0.0:
            add(x, fmin(self.C, loss / s) * y, u)
        if 1.0 - y * margin <= 0.0:
            return 0
        for j in range(self.u.shape[0]):  # w becomes (eta1 w + eta2 u) / (eta1 + eta2)
            w[j] += share * (u[j] - w[j])
        loss = 1.0 - y * dot(x, w)
        if loss > 0.0:
            add(x, fmin(self.C / eta, loss / s) * y, w)
        return 0


cdef class GaussianKernel(LinearKernel):
    """Gaussian over the weights of each model (abstract).

    ``S`` has variances (k, d), or if ``full`` covariances (k, d * d).
    """

    cdef double[:, ::1] S
    cdef double r
    cdef bint full
    cdef Scratch room

    cdef int arow(self, Row x, double y, double margin, double r, double* mu, double* S) except -1 nogil:
        """One AROW step of a model with mean mu (d,); nothing where the loss is 0."""
        cdef double loss = 1.0 - y * margin
        if loss > 0.0 and self.full:
            full_step(x, y, loss, r, self.w.shape[1], mu, S, self.room.take(self.w.shape[1]))
        elif loss > 0.0:
            diagonal_step(x, y, loss, r, mu, S)
        return 0


cdef inline void diagonal_step(
    Row x, double y, double loss, double r, double* mu, double* s
) noexcept nogil:
    cdef Py_ssize_t j, k
    cdef double v = 0.0, b
    for k in range(x.n):
        v += x.value[k] * x.value[k] * s[column(x, k)]
    b = 1.0 / (v + r)
    for k in range(x.n):
        j = column(x, k)
        mu[j] += b * loss * y * s[j] * x.value[k]
        # A variance rounded down to 0 could never be weighed against another one.
        s[j] = fmax(s[j] - b * (s[j] * x.value[k]) * (s[j] * x.value[k]), DBL_MIN)


cdef inline void full_step(
    Row x, double y, double loss, double r, Py_ssize_t d, double* mu, double* S, double* Sx
) noexcept nogil:
    """Sx is room for d numbers."""
    cdef Py_ssize_t i, j, k
    cdef double b
    cdef double* row
    memset(Sx, 0, d * sizeof(double))
    for k in range(x.n):
        row = S + column(x, k) * d
        for j in range(d):
            Sx[j] += x.value[k] * row[j]
    b = 1.0 / (dot(x, Sx) + r)
    for j in range(d):
        mu[j] += b * loss * y * Sx[j]
    for i in range(d):
        row = S + i * d
        for j in range(d):
            row[j] -= b * (Sx[i] * Sx[j])


cdef class ArowKernel(GaussianKernel):
    """AROW; a weight divides r."""

    def __init__(self, double[:, ::1] w, double[:, ::1] S, double r, bint full):
        self.w, self.S, self.r, self.full, self.room = w, S, r, full, Scratch()

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        return self.arow(x, y, margin, self.r / h, &self.w[i, 0], &self.S[i, 0])


cdef class CollaborativeArowKernel(GaussianKernel):
    """CW-COL: ``u`` (d,) and ``Su``, (d,) or if ``full`` (d * d,), are those of the global model."""

    cdef double[::1] u, Su
    cdef double eta1, eta2

    def __init__(
        self, double[:, ::1] w, double[:, ::1] S, double[::1] u, double[::1] Su,
        double eta1, double eta2, double r, bint full,
    ):
        self.w, self.S, self.u, self.Su = w, S, u, Su
        self.eta1, self.eta2, self.r, self.full, self.room = eta1, eta2, r, full, Scratch()

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        cdef double* u = &self.u[0]
        cdef double* w = &self.w[i, 0]
        cdef double* S = &self.S[i, 0]
        self.arow(x, y, dot(x, u), self.r, u, &self.Su[0])
        if 1.0 - y * margin > 0.0:
            if self.full:
                self.fuse_full(w, S)
            else:
                self.fuse_diagonal(w, S)
            self.arow(x, y, dot(x, w), self.r * (self.eta1 + self.eta2), w, S)
        return 0

    cdef void fuse_diagonal(self, double* mu, double* s) noexcept nogil:
        """Precisions add up with weights eta1 and eta2; written with one division per feature."""
        cdef Py_ssize_t j
        cdef double towards, eta1 = self.eta1, eta2 = self.eta2
        cdef const double* u = &self.u[0]
        cdef const double* su = &self.Su[0]
        for j in range(self.w.shape[1]):
            towards = 1.0 / (eta1 * su[j] + eta2 * s[j])
            mu[j] += eta2 * (s[j] * towards) * (u[j] - mu[j])
            s[j] = (eta1 + eta2) * s[j] * (su[j] * towards)

    cdef int fuse_full(self, double* mu, double* S) except -1 nogil:
        """With M = eta1 Su + eta2 S: mu += eta2 S M^-1 (u - mu), S <- (eta1 + eta2) S M^-1 Su."""
        cdef Py_ssize_t i, j, k, d = self.w.shape[1], width = d + 1
        cdef double half = 0.5 * (self.eta1 + self.eta2)
        cdef double* M = self.room.take(d * d + 2 * d * width + d)
        cdef double* X = M + d * d  # [Su, u - mu], solved for both at once
        cdef double* SX = X + d * width
        cdef double* roots = SX + d * width
        cdef const double* Su = &self.Su[0]
        for i in range(d):
            for j in range(d):
                M[i * d + j] = self.eta1 * Su[i * d + j] + self.eta2 * S[i * d + j]
                X[i * width + j] = Su[i * d + j]
            X[i * width + d] = self.u[i] - mu[i]
        if cholesky(d, M, d, M, d, 0.0, roots) < d:
            with gil:
                raise FloatingPointError(
                    "a covariance is no longer positive definite: use a larger r, "
                    "scale the features, or covariance='diagonal'"
                )
        solve(d, M, roots, width, X)
        memset(SX, 0, d * width * sizeof(double))
        for i in range(d):
            for k in range(d):
                for j in range(width):
                    SX[i * width + j] += S[i * d + k] * X[k * width + j]
        for i in range(d):
            mu[i] += self.eta2 * SX[i * width + d]
            for j in range(d):  # symmetric but for rounding, which must not build up
                S[i * d + j] = half * (SX[i * width + j] + SX[j * width + i])
        return 0


cdef enum:
    EVENTS, ORIGIN, MEAN, SPREAD   # places in `clock`


# Numbers: answers are measured from their running mean, and steps in units of their running
# spread, so that place and unit of the answers do not matter. Every model has an intercept.
cdef class NumberKernel(LinearKernel):
    """prediction = mean of the answers + w_i . x + b_i (abstract: the step is left open).

    A step takes the error and the spread of the answers, in place of label and margin.

    ``b`` (k,) are intercepts; ``clock`` (4,) counts events, and holds the first answer, the mean from
    there, and the sum of squares around it.
    """

    cdef double[::1] b, clock

    cdef inline double variance(self) noexcept nogil:
        return self.clock[SPREAD] / self.clock[EVENTS] if self.clock[EVENTS] > 0.0 else 0.0

    cdef inline double predicted(self, Events events, Py_ssize_t e) noexcept nogil:
        """From the first answer."""
        cdef Py_ssize_t i = self.at(events, e)
        return self.clock[MEAN] + (dot(events.row(e), &self.w[i, 0]) + self.b[i])

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = self.clock[ORIGIN] + self.predicted(events, e)
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double y, V
        for e in range(begin, end):
            if events.count(e) == 0.0:
                continue
            y, V = events.labels[e], self.variance()
            if V > 0.0:
                self.step(
                    events.row(e), self.at(events, e),
                    y - self.clock[ORIGIN] - self.predicted(events, e), sqrt(V), events.count(e),
                )
            self.place(y, events.count(e))
        return 0

    cdef void place(self, double y, double h) noexcept nogil:
        cdef double change
        if self.clock[EVENTS] == 0.0:
            self.clock[ORIGIN] = y
        change = y - self.clock[ORIGIN] - self.clock[MEAN]
        self.clock[EVENTS] += h
        self.clock[MEAN] += h * change / self.clock[EVENTS]
        self.clock[SPREAD] += h * change * (y - self.clock[ORIGIN] - self.clock[MEAN])


cdef class PassiveAggressiveNumber(NumberKernel):
    """As far as the error is beyond ``epsilon`` units, and no further than C units allow."""

    cdef double C, epsilon

    def __init__(self, double[:, ::1] w, double[::1] b, double[::1] clock, double C, double epsilon):
        self.w, self.b, self.clock, self.C, self.epsilon = w, b, clock, C, epsilon

    cdef int step(
        self, Row x, Py_ssize_t i, double error, double unit, double h
    ) except -1 nogil:
        cdef double loss = fabs(error) - self.epsilon * unit, tau
        if loss > 0.0:
            tau = fmin(h * self.C * unit, loss / (square(x) + 1.0))
            tau = tau if error > 0.0 else -tau
            add(x, tau, &self.w[i, 0])
            self.b[i] += tau
        return 0


cdef class GradientNumber(NumberKernel):
    """h steps of size eta on the squared error, in their limit of many small ones."""

    cdef double eta

    def __init__(self, double[:, ::1] w, double[::1] b, double[::1] clock, double eta):
        self.w, self.b, self.clock, self.eta = w, b, clock, eta

    cdef int step(
        self, Row x, Py_ssize_t i, double error, double unit, double h
    ) except -1 nogil:
        cdef double s = square(x) + 1.0
        cdef double length = error * (1.0 - exp(-h * self.eta * s)) / s
        add(x, length, &self.w[i, 0])
        self.b[i] += length
        return 0


cdef class GaussianNumber(NumberKernel):
    """Gaussian over weights with variances ``s`` (k, d + 1), intercept last; noise r units."""

    cdef double[:, ::1] s
    cdef double r

    def __init__(
        self, double[:, ::1] w, double[::1] b, double[::1] clock, double[:, ::1] s, double r
    ):
        self.w, self.b, self.clock, self.s, self.r = w, b, clock, s, r

    cdef int step(
        self, Row x, Py_ssize_t i, double error, double unit, double h
    ) except -1 nogil:
        cdef Py_ssize_t j, k, last = self.w.shape[1]
        cdef double v = self.s[i, last], gain
        cdef double* s = &self.s[i, 0]
        for k in range(x.n):
            v += x.value[k] * x.value[k] * s[column(x, k)]
        gain = 1.0 / (v + self.r / h)
        for k in range(x.n):
            j = column(x, k)
            self.w[i, j] += gain * error * s[j] * x.value[k]
            s[j] -= gain * (s[j] * x.value[k]) * (s[j] * x.value[k])
        self.b[i] += gain * error * s[last]
        s[last] -= gain * s[last] * s[last]
        return 0
