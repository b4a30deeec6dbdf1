"""Numbers by plain linear models: passive-aggressive, gradient and Gaussian steps on the error.

Answers are measured from their running mean, and steps in units of their running spread, so that
place and unit of the answers do not matter. Every model has an intercept.
"""

from libc.math cimport exp, fabs, fmin, sqrt
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.events cimport Events, Row, add, column, dot, square

cdef enum:
    EVENTS, ORIGIN, MEAN, SPREAD   # places in `clock`


cdef class NumberKernel(LinearKernel):
    """prediction = mean of the answers + w_i . x + b_i (abstract: how to step is left open).

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

    cdef int step(
        self, Row x, Py_ssize_t i, double error, double unit, double h
    ) except -1 nogil:
        """Learn an error of model i, where answers have spread ``unit``."""
        with gil:
            raise NotImplementedError("a number kernel must define step")


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
