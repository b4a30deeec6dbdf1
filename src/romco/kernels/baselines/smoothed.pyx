"""OSMTL: each task also learns from its peers' events, as much as it has come to trust them."""

from libc.math cimport exp, fmax, fmin
from libc.string cimport memset
from romco.kernels.core.events cimport Events, add, dot
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.memory cimport Scratch


cdef class SmoothedKernel(LinearKernel):
    """Own events weigh alpha, those of peer j (1 - alpha) p[k, j] (abstract).

    ``p`` (m, m) has rows of sum 1 and diagonal 0. A task steps only when one of its own
    events asks for it; that changes its own row of ``w`` and of ``p`` and nothing else, so
    all tasks of a round see the weights and relations from before the round.
    """

    cdef double[:, ::1] p
    cdef double C, alpha, rate
    cdef bint on_mistake
    cdef Scratch room

    def __init__(
        self, double[:, ::1] w, double[:, ::1] p, double C, double alpha, double rate,
        bint on_mistake,
    ):
        self.w, self.p, self.C, self.alpha, self.rate = w, p, C, alpha, rate
        self.on_mistake, self.room = on_mistake, Scratch()

    cdef inline bint asks(self, double y, double margin) noexcept nogil:
        if self.on_mistake:
            return (margin >= 0.0) != (y > 0.0)
        return y * margin < 1.0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, k, n = end - begin, m = self.w.shape[0]
        cdef double* share = self.room.take(n + 3 * m)
        cdef double* count = share + n  # events of each task in this round
        cdef double* asked = count + m
        cdef double* loss = asked + m
        memset(count, 0, 2 * m * sizeof(double))
        for e in range(begin, end):
            k = events.tasks[e]
            count[k] += 1.0
            if self.asks(events.labels[e], margins[e]):
                asked[k] = 1.0
        for k in range(m):
            if asked[k] > 0.0:
                self.step(events, begin, end, margins, k, share, count, loss)
        return 0

    cdef int step(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins,
        Py_ssize_t k, double* share, const double* count, double* loss,
    ) except -1 nogil:
        """Move w_k by all events it loses on, then p_k by its mean loss on each peer."""
        cdef Py_ssize_t e, j
        cdef double margin, lost
        cdef double* w = &self.w[k, 0]
        memset(loss, 0, self.w.shape[0] * sizeof(double))
        for e in range(begin, end):
            j = events.tasks[e]
            margin = margins[e] if j == k else dot(events.row(e), w)
            lost = fmax(0.0, 1.0 - events.labels[e] * margin)
            loss[j] += lost / count[j]
            share[e - begin] = 0.0
            if lost > 0.0:
                share[e - begin] = self.alpha if j == k else (1.0 - self.alpha) * self.p[k, j]
        for e in range(begin, end):
            if share[e - begin] > 0.0:
                add(events.row(e), self.C * events.labels[e] * share[e - begin], w)
        return self.trust(k, loss, count)

    cdef int trust(self, Py_ssize_t k, const double* loss, const double* count) except -1 nogil:
        """Move p_k among the peers present in the round; those absent keep their part."""
        with gil:
            raise NotImplementedError("a smoothed kernel must define trust")


cdef class ExponentialKernel(SmoothedKernel):
    """p_kj <- p_kj exp(-rate loss_j), normalised: OSMTL-e."""

    cdef int trust(self, Py_ssize_t k, const double* loss, const double* count) except -1 nogil:
        cdef Py_ssize_t j
        cdef double lowest = 1e300, mass = 0.0, total = 0.0, kept = 0.0
        cdef double* p = &self.p[k, 0]
        for j in range(self.p.shape[0]):
            if count[j] > 0.0 and j != k:
                lowest = fmin(lowest, loss[j])
                mass += p[j]
        if mass == 0.0:
            return 0
        for j in range(self.p.shape[0]):
            if count[j] > 0.0 and j != k:
                p[j] *= exp(-self.rate * (loss[j] - lowest))
                total += p[j]
        for j in range(self.p.shape[0]):
            if count[j] > 0.0 and j != k:
                p[j] = fmax(p[j] * (mass / total), 1e-12)  # from 0 there is no way back
                kept += p[j]
        for j in range(self.p.shape[0]):
            if count[j] > 0.0 and j != k:
                p[j] *= mass / kept
        return 0


cdef class TruncatedKernel(SmoothedKernel):
    """p_k <- the nearest point of the simplex to p_k - rate loss: OSMTL-t."""

    cdef int trust(self, Py_ssize_t k, const double* loss, const double* count) except -1 nogil:
        cdef Py_ssize_t j, active, before = self.p.shape[0]
        cdef double mass = 0.0, total = 0.0, level = 0.0
        cdef double* p = &self.p[k, 0]
        for j in range(self.p.shape[0]):
            if count[j] > 0.0 and j != k:
                mass += p[j]
                p[j] -= self.rate * loss[j]
        # Lower all by one level; who would fall below 0 leaves, and the level is set anew.
        level = -1e300
        while True:
            active, total = 0, 0.0
            for j in range(self.p.shape[0]):
                if count[j] > 0.0 and j != k and p[j] > level:
                    active += 1
                    total += p[j]
            if active >= before or active == 0:  # fewer each time, also in rounding, so it ends
                break
            level, before = (total - mass) / active, active
        for j in range(self.p.shape[0]):
            if count[j] > 0.0 and j != k:
                p[j] = fmax(0.0, p[j] - level)
        return 0
