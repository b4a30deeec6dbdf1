"""Perceptrons that share their steps through a task relation, fixed or learned."""

from libc.math cimport INFINITY, exp, fabs, fmax, fmin, isfinite, ldexp, log
from libc.string cimport memcpy
from romco.kernels.core.events cimport Events, Row, add, dot, square
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.memory cimport Scratch

cdef double LARGEST = 50.0  # logarithm of the largest trace that "none" puts up with


cdef class CoupledKernel(LinearKernel):
    """On an error in task i, w_j += tau y B[j, i] x for every task j (abstract).

    ``B`` (m, m) is the inverse of the tasks' interaction matrix. ``wide`` counts a margin below 1
    as an error, not only a wrong sign; tau is C, or with ``passive`` as much of it as brings
    the margin to 1.
    """

    cdef double[:, ::1] B
    cdef double C
    cdef bint wide, passive

    cdef inline double step(self, Row x, double y, double margin, Py_ssize_t i) noexcept nogil:
        """tau; 0 where there is no error."""
        cdef double missing = 1.0 - y * margin, reach
        if self.wide:
            if not missing > 0.0:
                return 0.0
        elif (margin >= 0.0) == (y > 0.0):
            return 0.0
        if not self.passive:
            return self.C
        reach = self.B[i, i] * square(x)  # what a step of 1 adds to y times the margin
        return fmin(self.C, missing / reach) if reach > 0.0 else 0.0

    cdef inline void spread(self, Row x, double y, Py_ssize_t i) noexcept nogil:
        """``y`` is the label times tau."""
        cdef Py_ssize_t j
        for j in range(self.w.shape[0]):
            if self.B[j, i] != 0.0:
                add(x, y * self.B[j, i], &self.w[j, 0])


cdef class FixedKernel(CoupledKernel):
    """The relation stays as it is given."""

    def __init__(
        self, double[:, ::1] w, double[:, ::1] B, double C, bint wide, bint passive
    ):
        self.w, self.B = w, B
        self.C, self.wide, self.passive = C, wide, passive

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e, i
        cdef double margin, tau
        for e in range(begin, end):
            i = events.tasks[e]
            margin = margins[e] if e == begin else dot(events.row(e), &self.w[i, 0])
            tau = self.step(events.row(e), events.labels[e], margin, i)
            if tau > 0.0:
                self.spread(events.row(e), events.labels[e] * tau, i)
        return 0


cdef class LearnedKernel(CoupledKernel):
    """The relation follows G = W'W, which is kept up to date at every step (abstract).

    A rule adds eta G to ``A`` (m, m), which is B itself or its logarithm, and ``relate``
    makes B of it: at every step, from W before it, or ``by_round``, from W after a round with
    a step. ``G`` is (m, m), ``seen`` (1,) counts events; the relation is learned
    after the first ``prime``. ``literal`` leaves out the normalisation and stops before
    numbers run away.
    """

    cdef double[:, ::1] A, G
    cdef long long[::1] seen
    cdef long long prime
    cdef double eta
    cdef bint literal, by_round
    cdef Scratch room, memory

    def __init__(
        self, double[:, ::1] w, double[:, ::1] B, double[:, ::1] A, double[:, ::1] G,
        long long[::1] seen, double eta, long long prime, bint literal, bint by_round,
        double C, bint wide, bint passive,
    ):
        self.w, self.B, self.A, self.G, self.seen = w, B, A, G, seen
        self.eta, self.prime, self.literal, self.by_round = eta, prime, literal, by_round
        self.C, self.wide, self.passive = C, wide, passive
        self.room, self.memory = Scratch(), Scratch()

    cdef bint relate(self, Py_ssize_t m, double* A, double* B, double* free) except -1 nogil:
        """Fill B from A, normalise both; False where they grow too large. ``free``: 2 m^2."""
        with gil:
            raise NotImplementedError("a learned relation must define relate")

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double margin
        cdef long long seen = self.seen[0]
        cdef bint moved = False
        # Only the literal rules can fail, and a single event's does before anything has changed.
        cdef bint careful = self.literal and (self.by_round or end - begin > 1)
        if careful:
            self.remember(False)
        for e in range(begin, end):
            margin = margins[e]
            if e > begin:
                margin = dot(events.row(e), &self.w[events.tasks[e], 0])
            if not self.one(events, e, margin, &moved):
                self.give_up(seen, careful, e)
        if self.by_round and moved and self.seen[0] > self.prime and not self.renewed():
            self.give_up(seen, careful, end - 1)
        return 0

    cdef int give_up(self, long long seen, bint careful, Py_ssize_t e) except -1 nogil:
        """Undo the round and say why."""
        if careful:
            self.remember(True)
        self.seen[0] = seen
        with gil:
            raise FloatingPointError(
                f"event {e}: the task relation grows without bound; "
                "use normalize='trace', a smaller eta, or smaller features"
            )

    cdef bint one(
        self, Events events, Py_ssize_t e, double margin, bint* moved
    ) except -1 nogil:
        """Learn one event; False, with nothing changed but the count, where that is impossible."""
        cdef Py_ssize_t j, k, i = events.tasks[e], m = self.w.shape[0]
        cdef double* A = self.room.take(4 * m * m + m)
        cdef double* B = A + m * m
        cdef double* free = B + m * m
        cdef double* p = free + 2 * m * m
        cdef double s, y = events.labels[e]
        cdef Row x = events.row(e)
        self.seen[0] += 1
        cdef double tau = self.step(x, y, margin, i)
        if not tau > 0.0:
            return True
        moved[0] = True
        cdef bint learned = self.seen[0] > self.prime and not self.by_round
        if learned and not self.propose(A, B, free):  # from W before this event
            return False
        y *= tau
        s = y * y * square(x)
        for j in range(m):
            p[j] = dot(x, &self.w[j, 0])
        for j in range(m):  # G of W + y x b', with b = B[:, i]
            for k in range(j + 1):
                self.G[j, k] += y * (p[j] * self.B[k, i] + self.B[j, i] * p[k]) \
                    + s * (self.B[j, i] * self.B[k, i])
                self.G[k, j] = self.G[j, k]
        self.spread(x, y, i)
        if learned:
            self.take_over(A, B)
        return True

    cdef bint renewed(self) except -1 nogil:
        """Move the relation by the present W; False, with nothing changed, if impossible."""
        cdef Py_ssize_t m = self.w.shape[0]
        cdef double* A = self.room.take(4 * m * m + m)
        cdef double* B = A + m * m
        if not self.propose(A, B, B + m * m):
            return False
        self.take_over(A, B)
        return True

    cdef inline void take_over(self, const double* A, const double* B) noexcept nogil:
        cdef Py_ssize_t m = self.w.shape[0]
        memcpy(&self.A[0, 0], A, m * m * sizeof(double))
        memcpy(&self.B[0, 0], B, m * m * sizeof(double))

    cdef bint propose(self, double* A, double* B, double* free) except -1 nogil:
        cdef Py_ssize_t j, k, m = self.w.shape[0]
        for j in range(m):
            for k in range(m):
                A[j * m + k] = self.A[j, k] + self.eta * self.G[j, k]
                if not isfinite(A[j * m + k]):
                    return False
        return self.relate(m, A, B, free)

    cdef int remember(self, bint back) except -1 nogil:
        """Copy all that learning changes to memory, or back."""
        cdef Py_ssize_t m = self.w.shape[0], weights = m * self.w.shape[1]
        cdef double* kept = self.memory.take(weights + 3 * m * m)
        move(&self.w[0, 0], kept, weights, back)
        move(&self.A[0, 0], kept + weights, m * m, back)
        move(&self.B[0, 0], kept + weights + m * m, m * m, back)
        move(&self.G[0, 0], kept + weights + 2 * m * m, m * m, back)
        return 0


cdef inline void move(double* live, double* kept, Py_ssize_t n, bint back) noexcept nogil:
    if back:
        memcpy(live, kept, n * sizeof(double))
    else:
        memcpy(kept, live, n * sizeof(double))


cdef class LogDetKernel(LearnedKernel):
    """B <- B + eta W'W: OMTLLOG. A is B."""

    cdef bint relate(self, Py_ssize_t m, double* A, double* B, double* free) except -1 nogil:
        cdef Py_ssize_t j
        cdef double trace = 0.0, scale = 1.0
        for j in range(m):
            trace += A[j * m + j]
        if not 0.0 < trace < (exp(LARGEST) if self.literal else INFINITY):
            return False
        if not self.literal:
            scale = m / trace
        for j in range(m * m):
            A[j] *= scale
            B[j] = A[j]
        return True


cdef class VonNeumannKernel(LearnedKernel):
    """B <- exp(log B + eta W'W): OMTLVON. A is log B."""

    cdef bint relate(self, Py_ssize_t m, double* A, double* B, double* free) except -1 nogil:
        cdef Py_ssize_t j
        cdef double trace = exponential(m, A, B, free, free + m * m)  # its logarithm
        cdef double scale = exp(trace) if self.literal else <double> m
        if not trace < (LARGEST if self.literal else INFINITY):
            return False
        for j in range(m * m):
            B[j] *= scale
        if not self.literal:
            for j in range(m):
                A[j * m + j] -= trace - log(<double> m)
        return True


cdef double exponential(
    Py_ssize_t m, const double* A, double* E, double* X, double* T
) noexcept nogil:
    """E <- exp(A) / trace exp(A) for symmetric A (m, m); the logarithm of that trace.

    Scaling, Taylor, squaring; X and T are room. An eigen-decomposition would couple tasks
    that have nothing to do with each other by its rounding; sums and products do not.
    """
    cdef Py_ssize_t j, k
    cdef int degree, halvings = 0
    cdef double mean = 0.0, norm = 0.0, row, trace, logarithm
    for j in range(m):
        mean += A[j * m + j] / m
    for j in range(m):
        row = 0.0
        for k in range(m):
            row += fabs(A[j * m + k] - (mean if j == k else 0.0))
        norm = fmax(norm, row)
    if not norm < INFINITY:  # no number of halvings would do
        return INFINITY
    while ldexp(norm, -halvings) > 0.5:
        halvings += 1
    for j in range(m):
        for k in range(m):
            X[j * m + k] = ldexp(A[j * m + k] - (mean if j == k else 0.0), -halvings)
            E[j * m + k] = 1.0 if j == k else 0.0
    for degree in range(14, 0, -1):  # 0.5^15 / 15! is below rounding
        multiply(m, X, E, T, 1.0 / degree)
        memcpy(E, T, m * m * sizeof(double))
        for j in range(m):
            E[j * m + j] += 1.0
    logarithm = log(to_trace_one(m, E))
    for degree in range(halvings):  # exp(A) = exp(A/2)^2, kept at trace 1 on the way
        multiply(m, E, E, T, 1.0)
        memcpy(E, T, m * m * sizeof(double))
        logarithm = 2.0 * logarithm + log(to_trace_one(m, E))
    return logarithm + mean


cdef void multiply(
    Py_ssize_t m, const double* P, const double* Q, double* product, double scale
) noexcept nogil:
    """product <- scale P Q for symmetric P and Q that commute: so is the product."""
    cdef Py_ssize_t i, j, k
    cdef double total
    for j in range(m):
        for k in range(j + 1):
            total = 0.0
            for i in range(m):
                total += P[j * m + i] * Q[k * m + i]
            product[j * m + k] = product[k * m + j] = scale * total


cdef double to_trace_one(Py_ssize_t m, double* E) noexcept nogil:
    """E <- E / trace; the trace."""
    cdef Py_ssize_t j
    cdef double trace = 0.0
    for j in range(m):
        trace += E[j * m + j]
    for j in range(m * m):
        E[j] /= trace
    return trace
