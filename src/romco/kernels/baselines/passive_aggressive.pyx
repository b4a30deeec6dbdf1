"""Passive-aggressive steps: as far as the loss asks, and no further than the cap allows."""

from libc.math cimport fmin
from romco.kernels.core.events cimport Events, Row, add, dot, square
from romco.kernels.baselines.linear cimport LinearKernel


cdef class PassiveAggressiveKernel(LinearKernel):
    """w += min(cap, loss / (|x|^2 + ridge)) y x.

    PA has no cap and no ridge, PA-I the cap C, PA-II the ridge 1 / (2C); a weight multiplies C.
    """

    cdef double cap, ridge

    def __init__(self, double[:, ::1] w, double cap, double ridge):
        self.w, self.cap, self.ridge = w, cap, ridge

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double margin, loss, y, s, h
        cdef double* w
        cdef Row x
        for e in range(begin, end):
            x, y, h = events.row(e), events.labels[e], events.count(e)
            w = &self.w[self.at(events, e), 0]
            # Only the first event of a round is sure to meet the weights it was predicted with.
            margin = margins[e] if e == begin else dot(x, w)
            loss = 1.0 - y * margin
            if loss > 0.0 and h > 0.0:
                s = square(x)
                if s > 0.0:
                    add(x, fmin(h * self.cap, loss / (s + self.ridge / h)) * y, w)
        return 0


cdef class CollaborativeKernel(LinearKernel):
    """Every task is drawn towards a global model ``u`` (d,), then corrected by its own event."""

    cdef double[::1] u
    cdef double eta1, eta2, C

    def __init__(self, double[:, ::1] w, double[::1] u, double eta1, double eta2, double C):
        self.w, self.u, self.eta1, self.eta2, self.C = w, u, eta1, eta2, C

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, j
        cdef double y, s, loss, eta = self.eta1 + self.eta2, share = self.eta2 / eta
        cdef double* w
        cdef double* u = &self.u[0]
        cdef Row x
        for e in range(begin, end):
            x, y = events.row(e), events.labels[e]
            w = &self.w[events.tasks[e], 0]
            s = square(x)
            if s == 0.0:
                continue
            loss = 1.0 - y * dot(x, u)
            if loss > 0.0:
                add(x, fmin(self.C, loss / s) * y, u)
            if 1.0 - y * dot(x, w) <= 0.0:
                continue
            for j in range(self.u.shape[0]):  # w becomes (eta1 w + eta2 u) / (eta1 + eta2)
                w[j] += share * (u[j] - w[j])
            loss = 1.0 - y * dot(x, w)
            if loss > 0.0:
                add(x, fmin(self.C / eta, loss / s) * y, w)
        return 0
