"""Online gradient descent on the hinge loss: one weight vector per task, or one for all."""

from libc.math cimport sqrt
from romco.kernels.contract cimport Kernel
from romco.kernels.events cimport Events, Row, add, dot


cdef class GradientKernel(Kernel):
    """w += eta_t y x wherever the hinge loss is positive.

    ``w`` (k, d) has one row per task, or a single row that all tasks use.
    ``t`` (1,) counts rounds.
    """

    cdef double[:, ::1] w
    cdef long long[::1] t
    cdef double eta
    cdef bint decays

    def __init__(self, double[:, ::1] w, long long[::1] t, double eta, bint decays):
        self.w, self.t, self.eta, self.decays = w, t, eta, decays

    cdef inline double* of(self, Events events, Py_ssize_t e) noexcept nogil:
        return &self.w[events.tasks[e] if self.w.shape[0] > 1 else 0, 0]

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = dot(events.row(e), self.of(events, e))
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double eta, margin, y
        cdef Row x
        self.t[0] += 1
        eta = self.eta / sqrt(<double> self.t[0]) if self.decays else self.eta
        for e in range(begin, end):
            x = events.row(e)
            y = events.labels[e]
            # Only the first event of a round is sure to meet the weights it was predicted with.
            margin = margins[e] if e == begin else dot(x, self.of(events, e))
            if y * margin < 1.0:
                add(x, eta * y, self.of(events, e))
        return 0
