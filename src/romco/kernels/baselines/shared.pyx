"""One vector that all tasks share plus one of each task's own: w_i = u + v_i."""

from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row, column, square
from romco.kernels.core.pairs cimport Pairs


cdef class SharedKernel(Kernel):
    """margin = (u + v_i) . x, learned one event after the other (abstract: the step is left open).

    ``u`` (d, k) holds u in its first column, and whatever else is kept of a feature; ``v`` the
    same for each task and feature.
    """

    cdef double[:, ::1] u
    cdef Pairs v

    cdef double margin(self, Row x, long long task) noexcept nogil:
        cdef double p = 0.0
        cdef Py_ssize_t k, j
        for k in range(x.n):
            j = column(x, k)
            p += x.value[k] * (self.u[j, 0] + self.v.look(task, j)[0])
        return p

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = self.margin(events.row(e), events.tasks[e])
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef Row x
        cdef double y, p, h
        for e in range(begin, end):
            x, y, h = events.row(e), events.labels[e], events.count(e)
            # Only the first event of a round is sure to meet the weights it was predicted with.
            p = margins[e] if e == begin else self.margin(x, events.tasks[e])
            if not y * p >= 1.0 and h > 0.0:
                self.v.reserve(events.tasks[e], x.n)  # zeros of dense rows are touched, too
                self.step(x, events.tasks[e], y, 1.0 - y * p, h)
        return 0

    cdef void step(self, Row x, long long task, double y, double loss, double h) noexcept nogil:
        """Move u and v_i where the loss of an event that counts h times is positive."""


cdef class SharedPassiveAggressive(SharedKernel):
    """PA-I on the pair (u, v_i): both move by min(C, l / 2|x|^2) y x; a weight multiplies C."""

    cdef double C

    def __init__(self, double[:, ::1] u, Pairs v, double C):
        self.u, self.v, self.C = u, v, C

    cdef void step(self, Row x, long long task, double y, double loss, double h) noexcept nogil:
        cdef Py_ssize_t k, j
        cdef double tau, s = square(x)
        if s == 0.0:
            return
        tau = y * min(h * self.C, loss / (2.0 * s))
        for k in range(x.n):
            j = column(x, k)
            self.u[j, 0] += tau * x.value[k]
            self.v.touch(task, j)[0] += tau * x.value[k]


cdef class SharedArow(SharedKernel):
    """AROW with a diagonal covariance on the pair (u, v_i); a weight divides r.

    The second column of ``u`` and ``v`` is how much of the unit variance is spent.
    """

    cdef double r

    def __init__(self, double[:, ::1] u, Pairs v, double r):
        self.u, self.v, self.r = u, v, r

    cdef double variance(self, Row x, long long task) noexcept nogil:
        """x' S x over both vectors."""
        cdef double s = 0.0
        cdef Py_ssize_t k, j
        for k in range(x.n):
            j = column(x, k)
            s += x.value[k] * x.value[k] * (2.0 - self.u[j, 1] - self.v.look(task, j)[1])
        return s

    cdef void step(self, Row x, long long task, double y, double loss, double h) noexcept nogil:
        """w += a S x, S -= b (S x)(S x)', diagonal only."""
        cdef Py_ssize_t k, j
        cdef double sx, b = 1.0 / (self.variance(x, task) + self.r / h), a = b * loss * y
        cdef double* v
        for k in range(x.n):
            j = column(x, k)
            v = self.v.touch(task, j)
            sx = (1.0 - self.u[j, 1]) * x.value[k]
            self.u[j, 0] += a * sx
            self.u[j, 1] += b * sx * sx
            sx = (1.0 - v[1]) * x.value[k]
            v[0] += a * sx
            v[1] += b * sx * sx
