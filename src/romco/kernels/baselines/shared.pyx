"""One vector that all tasks share plus one of each task's own: w_i = u + v_i."""

from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events, Row, column
from romco.kernels.stores.pairs cimport Pairs


cdef class SharedPassiveAggressive(Kernel):
    """PA-I on the pair (u, v_i): both move by min(C, l / 2|x|^2) y x.

    ``u`` (d,); ``v`` holds one number per task and feature.
    """

    cdef double[::1] u
    cdef Pairs v
    cdef double C

    def __init__(self, double[::1] u, Pairs v, double C):
        self.u, self.v, self.C = u, v, C

    cdef double margin(self, Row x, long long task) noexcept nogil:
        cdef double p = 0.0
        cdef Py_ssize_t k, j
        for k in range(x.n):
            j = column(x, k)
            p += x.value[k] * (self.u[j] + self.v.look(task, j)[0])
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
        cdef Py_ssize_t e, k, j
        cdef Row x
        cdef double y, p, square, tau, h
        for e in range(begin, end):
            x, y, h = events.row(e), events.labels[e], events.count(e)
            # Only the first event of a round is sure to meet the weights it was predicted with.
            p = margins[e] if e == begin else self.margin(x, events.tasks[e])
            square = 0.0
            for k in range(x.n):
                square += x.value[k] * x.value[k]
            if y * p >= 1.0 or square == 0.0 or h == 0.0:
                continue
            tau = y * min(h * self.C, (1.0 - y * p) / (2.0 * square))
            self.v.reserve(x.n)
            for k in range(x.n):
                j = column(x, k)
                self.u[j] += tau * x.value[k]
                self.v.touch(events.tasks[e], j)[0] += tau * x.value[k]
        return 0


cdef class SharedArow(Kernel):
    """AROW with a diagonal covariance on the pair (u, v_i).

    ``u`` (d, 2) holds the mean and how much of the unit variance is spent; ``v``
    the same for each task and feature.
    """

    cdef double[:, ::1] u
    cdef Pairs v
    cdef double r

    def __init__(self, double[:, ::1] u, Pairs v, double r):
        self.u, self.v, self.r = u, v, r

    cdef double margin(self, Row x, long long task) noexcept nogil:
        cdef double p = 0.0
        cdef Py_ssize_t k, j
        for k in range(x.n):
            j = column(x, k)
            p += x.value[k] * (self.u[j, 0] + self.v.look(task, j)[0])
        return p

    cdef double variance(self, Row x, long long task) noexcept nogil:
        """x' S x over both vectors."""
        cdef double s = 0.0
        cdef Py_ssize_t k, j
        for k in range(x.n):
            j = column(x, k)
            s += x.value[k] * x.value[k] * (2.0 - self.u[j, 1] - self.v.look(task, j)[1])
        return s

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
        cdef Py_ssize_t e, k
        cdef Row x
        cdef double y, p, b, h
        for e in range(begin, end):
            x, y, h = events.row(e), events.labels[e], events.count(e)
            # Only the first event of a round is sure to meet the weights it was predicted with.
            p = margins[e] if e == begin else self.margin(x, events.tasks[e])
            if y * p >= 1.0 or h == 0.0:
                continue
            b = 1.0 / (self.variance(x, events.tasks[e]) + self.r / h)
            self.v.reserve(x.n)
            self.move(x, events.tasks[e], b * (1.0 - y * p) * y, b)
        return 0

    cdef void move(self, Row x, long long task, double a, double b) noexcept nogil:
        """w += a S x, S -= b (S x)(S x)', diagonal only."""
        cdef Py_ssize_t k, j
        cdef double sx
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
