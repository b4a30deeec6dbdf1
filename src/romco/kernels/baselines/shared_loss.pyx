"""OMTL: the losses of a round are one vector, and a norm of it decides who may move how far."""

from libc.math cimport fabs, fmax, fmin, sqrt
from romco.kernels.core.events cimport Events, add, square
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.memory cimport Scratch

cdef int ROUNDS = 200  # more than any search below needs; each converges in a handful


cdef class SharedLossKernel(LinearKernel):
    """w_i += a_e y_e x_e, where ``allot`` says how large each a_e is (abstract)."""

    cdef double C
    cdef Scratch room

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, n = end - begin
        cdef double* l = self.room.take(3 * n)
        cdef double* s = l + n
        cdef double* a = s + n
        cdef bint any_loss = False
        for e in range(n):
            s[e] = square(events.row(begin + e))
            l[e] = fmax(0.0, 1.0 - events.labels[begin + e] * margins[begin + e])
            if s[e] == 0.0:  # an empty event can do nothing about its loss
                l[e] = 0.0
            a[e] = 0.0
            any_loss = any_loss or l[e] > 0.0
        if any_loss:
            self.allot(n, l, s, a)
        for e in range(n):
            if a[e] > 0.0:
                add(
                    events.row(begin + e), a[e] * events.labels[begin + e],
                    &self.w[events.tasks[begin + e], 0],
                )
        return 0

    cdef int allot(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) except -1 nogil:
        """Fill a (n,), which is 0, from losses l and squared lengths s; some loss is positive."""
        with gil:
            raise NotImplementedError("a shared-loss kernel must define allot")


cdef class ImplicitEuclideanKernel(SharedLossKernel):
    """max sum(a l - a^2 s / 2) over |a|_2 <= C."""

    def __init__(self, double[:, ::1] w, double C):
        self.w, self.C, self.room = w, C, Scratch()

    cdef int allot(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef int turn
        cdef double theta = 0.0, length, bend
        for turn in range(ROUNDS):
            length, bend = 0.0, 0.0
            for e in range(n):
                if l[e] > 0.0:
                    a[e] = l[e] / (s[e] + theta)
                    length += a[e] * a[e]
                    bend += a[e] * a[e] / (s[e] + theta)
            # Newton on 1/|a(theta)| = 1/C: concave, so it comes from below and never overshoots.
            if sqrt(length) <= self.C * (1.0 + 1e-15):
                break
            theta += (sqrt(length) / self.C - 1.0) * length / bend
        return 0


cdef class ImplicitLargestKernel(SharedLossKernel):
    """max sum(a l - a^2 s / 2) over 0 <= a <= C, sum(a) <= r C: the r largest losses count.

    r = 1 is the maximum norm, infinite r the L1 norm.
    """

    cdef double r

    def __init__(self, double[:, ::1] w, double C, double r):
        self.w, self.C, self.r, self.room = w, C, r, Scratch()

    cdef int allot(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef int turn
        cdef double theta = 0.0, low = 0.0, high = 0.0, total, slope, further
        cdef double limit = self.r * self.C
        for e in range(n):
            high = fmax(high, l[e])
        # The sum falls with theta along a broken line: Newton, kept inside the bracket.
        for turn in range(ROUNDS):
            total, slope = 0.0, 0.0
            for e in range(n):
                if l[e] > 0.0:
                    a[e] = fmin(self.C, fmax(0.0, l[e] - theta) / s[e])
                    total += a[e]
                    if 0.0 < a[e] < self.C:
                        slope += 1.0 / s[e]
            if (theta == 0.0 and total <= limit) or fabs(total - limit) <= 1e-15 * limit:
                break
            if total > limit:
                low = theta
            else:
                high = theta
            further = theta + (total - limit) / slope if slope > 0.0 else 0.5 * (low + high)
            if further == theta:
                break
            theta = further if low < further < high else 0.5 * (low + high)
        return 0


cdef class ExplicitKernel(SharedLossKernel):
    """a = reach * argmax of a.l over the dual unit ball (abstract).

    ``reach`` is C, or min(C, L / (R rho)^2) when ``scaled``: L the norm of the losses, R
    the longest x so far (``radius`` (1,) holds its square), rho^2 the norm's remoteness.
    """

    cdef double[::1] radius
    cdef bint scaled

    cdef double reach(
        self, Py_ssize_t n, const double* s, double norm, double remoteness
    ) noexcept nogil:
        cdef Py_ssize_t e
        if not self.scaled:
            return self.C
        for e in range(n):
            self.radius[0] = fmax(self.radius[0], s[e])
        return fmin(self.C, norm / (self.radius[0] * remoteness))


cdef class ExplicitEuclideanKernel(ExplicitKernel):
    """a = reach * l / |l|_2."""

    def __init__(self, double[:, ::1] w, double[::1] radius, double C, bint scaled):
        self.w, self.radius, self.C, self.scaled, self.room = w, radius, C, scaled, Scratch()

    cdef int allot(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double norm = 0.0, reach
        for e in range(n):
            norm += l[e] * l[e]
        norm = sqrt(norm)
        reach = self.reach(n, s, norm, 1.0)
        for e in range(n):
            a[e] = reach * (l[e] / norm)
        return 0


cdef class ExplicitLargestKernel(ExplicitKernel):
    """a = reach on the r largest positive losses; of equal ones the first in the round."""

    cdef double r

    def __init__(self, double[:, ::1] w, double[::1] radius, double C, double r, bint scaled):
        self.w, self.radius, self.C, self.scaled, self.room = w, radius, C, scaled, Scratch()
        self.r = r

    cdef int allot(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double norm, reach
        norm = self.mark_all(n, l, a) if self.r >= n else self.mark_largest(n, l, a)
        reach = self.reach(n, s, norm, fmin(self.r, max(n, self.w.shape[0])))
        for e in range(n):
            a[e] *= reach
        return 0

    cdef double mark_all(self, Py_ssize_t n, const double* l, double* a) noexcept nogil:
        cdef Py_ssize_t e
        cdef double norm = 0.0
        for e in range(n):
            a[e] = 1.0 if l[e] > 0.0 else 0.0
            norm += l[e]
        return norm

    cdef double mark_largest(self, Py_ssize_t n, const double* l, double* a) noexcept nogil:
        cdef Py_ssize_t e, k, best
        cdef double norm = 0.0
        for k in range(<Py_ssize_t> self.r):
            best = -1
            for e in range(n):
                if a[e] == 0.0 and l[e] > 0.0 and (best < 0 or l[e] > l[best]):
                    best = e
            if best < 0:
                break
            a[best] = 1.0
            norm += l[best]
        return norm
