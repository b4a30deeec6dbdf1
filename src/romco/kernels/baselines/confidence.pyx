"""Second-order learners: AROW, and AROW drawn towards a global Gaussian (CW-COL)."""

from libc.float cimport DBL_MIN
from libc.math cimport fmax
from libc.string cimport memset
from romco.kernels.core.events cimport Events, Row, column, dot
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.triangles cimport cholesky, solve


cdef inline void diagonal_step(Row x, double y, double r, double* mu, double* s) noexcept nogil:
    """One AROW step with variances s (d,); nothing where the loss is 0."""
    cdef Py_ssize_t j, k
    cdef double v = 0.0, b, loss = 1.0 - y * dot(x, mu)
    if loss <= 0.0:
        return
    for k in range(x.n):
        v += x.value[k] * x.value[k] * s[column(x, k)]
    b = 1.0 / (v + r)
    for k in range(x.n):
        j = column(x, k)
        mu[j] += b * loss * y * s[j] * x.value[k]
        # A variance rounded down to 0 could never be weighed against another one.
        s[j] = fmax(s[j] - b * (s[j] * x.value[k]) * (s[j] * x.value[k]), DBL_MIN)


cdef inline void full_step(
    Row x, double y, double r, Py_ssize_t d, double* mu, double* S, double* Sx
) noexcept nogil:
    """One AROW step with covariance S (d, d); Sx is room for d numbers."""
    cdef Py_ssize_t i, j, k
    cdef double b, loss = 1.0 - y * dot(x, mu)
    cdef double* row
    if loss <= 0.0:
        return
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


cdef class DiagonalArowKernel(LinearKernel):
    """AROW with variances ``s`` (k, d); a weight divides r."""

    cdef double[:, ::1] s
    cdef double r

    def __init__(self, double[:, ::1] w, double[:, ::1] s, double r):
        self.w, self.s, self.r = w, s, r

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i
        cdef double h
        for e in range(begin, end):
            i, h = self.at(events, e), events.count(e)
            if h > 0.0:
                diagonal_step(
                    events.row(e), events.labels[e], self.r / h, &self.w[i, 0], &self.s[i, 0]
                )
        return 0


cdef class FullArowKernel(LinearKernel):
    """AROW with covariances ``S`` (k, d, d); a weight divides r."""

    cdef double[:, :, ::1] S
    cdef double r
    cdef Scratch room

    def __init__(self, double[:, ::1] w, double[:, :, ::1] S, double r):
        self.w, self.S, self.r, self.room = w, S, r, Scratch()

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i, d = self.w.shape[1]
        cdef double* Sx = self.room.take(d)
        cdef double h
        for e in range(begin, end):
            i, h = self.at(events, e), events.count(e)
            if h > 0.0:
                full_step(
                    events.row(e), events.labels[e], self.r / h, d,
                    &self.w[i, 0], &self.S[i, 0, 0], Sx,
                )
        return 0


cdef class DiagonalCollaborativeKernel(LinearKernel):
    """CW-COL with variances ``s`` (m, d) of tasks, ``u`` and ``su`` (d,) of the global model."""

    cdef double[:, ::1] s
    cdef double[::1] u, su
    cdef double eta1, eta2, r

    def __init__(
        self, double[:, ::1] w, double[:, ::1] s, double[::1] u, double[::1] su,
        double eta1, double eta2, double r,
    ):
        self.w, self.s, self.u, self.su = w, s, u, su
        self.eta1, self.eta2, self.r = eta1, eta2, r

    cdef void fuse(self, double* mu, double* s) noexcept nogil:
        """Precisions add up with weights eta1 and eta2; written with one division per feature."""
        cdef Py_ssize_t j
        cdef double towards, eta1 = self.eta1, eta2 = self.eta2
        cdef const double* u = &self.u[0]
        cdef const double* su = &self.su[0]
        for j in range(self.w.shape[1]):
            towards = 1.0 / (eta1 * su[j] + eta2 * s[j])
            mu[j] += eta2 * (s[j] * towards) * (u[j] - mu[j])
            s[j] = (eta1 + eta2) * s[j] * (su[j] * towards)

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i
        cdef double y
        cdef Row x
        for e in range(begin, end):
            x, y, i = events.row(e), events.labels[e], events.tasks[e]
            diagonal_step(x, y, self.r, &self.u[0], &self.su[0])
            if 1.0 - y * dot(x, &self.w[i, 0]) > 0.0:
                self.fuse(&self.w[i, 0], &self.s[i, 0])
                diagonal_step(
                    x, y, self.r * (self.eta1 + self.eta2), &self.w[i, 0], &self.s[i, 0]
                )
        return 0


cdef class FullCollaborativeKernel(LinearKernel):
    """CW-COL with covariances ``S`` (m, d, d) of tasks, ``Su`` (d, d) of the global model."""

    cdef double[:, :, ::1] S
    cdef double[::1] u
    cdef double[:, ::1] Su
    cdef double eta1, eta2, r
    cdef Scratch room

    def __init__(
        self, double[:, ::1] w, double[:, :, ::1] S, double[::1] u, double[:, ::1] Su,
        double eta1, double eta2, double r,
    ):
        self.w, self.S, self.u, self.Su = w, S, u, Su
        self.eta1, self.eta2, self.r = eta1, eta2, r
        self.room = Scratch()

    cdef int fuse(self, double* mu, double* S) except -1 nogil:
        """With M = eta1 Su + eta2 S: mu += eta2 S M^-1 (u - mu), S <- (eta1 + eta2) S M^-1 Su."""
        cdef Py_ssize_t i, j, k, d = self.w.shape[1], width = d + 1
        cdef double half = 0.5 * (self.eta1 + self.eta2)
        cdef double* M = self.room.take(d * d + 2 * d * width + d)
        cdef double* X = M + d * d  # [Su, u - mu], solved for both at once
        cdef double* SX = X + d * width
        cdef double* roots = SX + d * width
        for i in range(d):
            for j in range(d):
                M[i * d + j] = self.eta1 * self.Su[i, j] + self.eta2 * S[i * d + j]
                X[i * width + j] = self.Su[i, j]
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

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i, d = self.w.shape[1]
        cdef double y, r = self.r * (self.eta1 + self.eta2)
        cdef Row x
        for e in range(begin, end):
            x, y, i = events.row(e), events.labels[e], events.tasks[e]
            full_step(x, y, self.r, d, &self.u[0], &self.Su[0, 0], self.room.take(d))
            if 1.0 - y * dot(x, &self.w[i, 0]) > 0.0:
                self.fuse(&self.w[i, 0], &self.S[i, 0, 0])
                full_step(x, y, r, d, &self.w[i, 0], &self.S[i, 0, 0], self.room.take(d))
        return 0
