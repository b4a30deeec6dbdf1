"""Online gradient descent on the hinge loss: one weight vector per task, or one for all."""

from libc.math cimport fmax, fmin, sqrt
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.events cimport Events, Row, add, dot, square


cdef class GradientKernel(LinearKernel):
    """w += eta_t y x wherever the hinge loss is positive.

    ``w`` (k, d) has one row per task, or a single row that all tasks use.
    ``t`` (1,) counts rounds. An event of weight h counts as h steps.
    """

    cdef long long[::1] t
    cdef double eta
    cdef bint decays

    def __init__(self, double[:, ::1] w, long long[::1] t, double eta, bint decays):
        self.w, self.t, self.eta, self.decays = w, t, eta, decays

    cdef inline double length(self, double eta, double h, double loss, Row x) noexcept nogil:
        """h steps in one: no further than the loss asks, but no less than one step."""
        cdef double s = 0.0
        if h <= 1.0:
            return h * eta
        s = square(x)
        return fmin(h * eta, fmax(eta, loss / s)) if s > 0.0 else eta

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double eta, margin, y, h
        cdef double* w
        cdef Row x
        if not anything(events, begin, end):
            return 0
        self.t[0] += 1
        eta = self.eta / sqrt(<double> self.t[0]) if self.decays else self.eta
        for e in range(begin, end):
            x = events.row(e)
            y, h, w = events.labels[e], events.count(e), &self.w[self.at(events, e), 0]
            # Only the first event of a round is sure to meet the weights it was predicted with.
            margin = margins[e] if e == begin else dot(x, w)
            if y * margin < 1.0 and h > 0.0:
                add(x, self.length(eta, h, 1.0 - y * margin, x) * y, w)
        return 0


cdef bint anything(Events events, Py_ssize_t begin, Py_ssize_t end) noexcept nogil:
    """Whether some event of the round counts."""
    cdef Py_ssize_t e
    for e in range(begin, end):
        if events.count(e) > 0.0:
            return True
    return False
