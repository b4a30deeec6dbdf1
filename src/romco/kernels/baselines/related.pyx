"""Linear learners whose tasks share a part, a loss, their weights or a relation matrix."""

from libc.math cimport INFINITY, exp, fabs, fmax, fmin, isfinite, ldexp, log, sqrt
from libc.string cimport memcpy, memset
from romco.kernels.baselines.linear cimport LinearKernel
from romco.kernels.core.contract cimport Kernel
from romco.kernels.core.events cimport Events, Row, add, column, dot, square
from romco.kernels.core.memory cimport Scratch
from romco.kernels.core.pairs cimport Pairs
from romco.kernels.core.prefetch cimport soon


cdef class SharedKernel(Kernel):
    """margin = (u + v_i) . x, learned one event after the other (abstract: the step is left open).

    ``u`` (d, k) holds u in its first column, and whatever else is kept of a feature; ``v`` the
    same for each task and feature.
    """

    cdef double[:, ::1] u
    cdef Pairs v
    cdef Scratch room
    cdef Py_ssize_t* pair  # of each entry of the row that was last read: its number, or -1

    cdef double margin(self, Events events, Py_ssize_t e) except? -1.0 nogil:
        cdef double p = 0.0, own
        cdef Py_ssize_t k, width = self.v.width
        cdef Row x = events.row(e)
        cdef const double* u = &self.u[0, 0]
        cdef const double* v = self.v.value
        self.find_pairs(events, e)
        for k in range(x.n):
            own = v[self.pair[k] * width] if self.pair[k] >= 0 else 0.0
            p += x.value[k] * (u[column(x, k) * width] + own)
        return p

    cdef int find_pairs(self, Events events, Py_ssize_t e) except -1 nogil:
        """Find the pairs of an event, and prefetch the table of those of the next one."""
        cdef Py_ssize_t k, task = events.tasks[e]
        cdef Row x = events.row(e)
        self.pair = <Py_ssize_t*> self.room.take(x.n)
        if self.v.dense:
            for k in range(x.n):
                self.pair[k] = task * self.v.n_features + column(x, k)
            return 0
        for k in range(x.n):
            self.pair[k] = self.v.ask_pair(task, column(x, k))
        if e + 1 < events.n:
            x, task = events.row(e + 1), events.tasks[e + 1]
            for k in range(x.n):
                soon(&self.u[column(x, k), 0])
                self.v.ask_table(task, column(x, k))
        return 0

    cdef inline double* own(self, Row x, long long task, Py_ssize_t k) noexcept nogil:
        """Return the numbers of the k-th entry's pair, for writing; call ``reserve`` first."""
        if self.pair[k] < 0:
            self.pair[k] = self.v.found(task, column(x, k))
        return self.v.value + self.pair[k] * self.v.width

    cdef int score(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        for e in range(begin, end):
            margins[e] = self.margin(events, e)
        if end - begin == 1:  # `learn` need not find its pairs again
            self.keep_notes(events, begin, end)
        return 0

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef Row x
        cdef double y, p, h
        cdef bint noted = self.has_notes(events, begin, end)
        for e in range(begin, end):
            x, y, h = events.row(e), events.labels[e], events.count(e)
            # Events before it in the round may have changed the weights it was predicted with.
            p = margins[e] if noted else self.margin(events, e)
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
        self.u, self.v, self.C, self.room = u, v, C, Scratch()

    cdef void step(self, Row x, long long task, double y, double loss, double h) noexcept nogil:
        cdef Py_ssize_t k
        cdef double tau, s = square(x)
        if s == 0.0:
            return
        tau = y * min(h * self.C, loss / (2.0 * s))
        for k in range(x.n):
            self.u[column(x, k), 0] += tau * x.value[k]
            self.own(x, task, k)[0] += tau * x.value[k]


cdef class SharedArow(SharedKernel):
    """AROW with a diagonal covariance on the pair (u, v_i); a weight divides r.

    The second column of ``u`` and ``v`` is how much of the unit variance is spent.
    """

    cdef double r

    def __init__(self, double[:, ::1] u, Pairs v, double r):
        self.u, self.v, self.r, self.room = u, v, r, Scratch()

    cdef double variance(self, Row x, long long task) noexcept nogil:
        """x' S x over both vectors."""
        cdef double s = 0.0
        cdef Py_ssize_t k
        for k in range(x.n):
            s += x.value[k] * x.value[k] * (2.0 - self.u[column(x, k), 1] - self.own(x, task, k)[1])
        return s

    cdef void step(self, Row x, long long task, double y, double loss, double h) noexcept nogil:
        """w += a S x, S -= b (S x)(S x)', diagonal only."""
        cdef Py_ssize_t k, j
        cdef double sx, b = 1.0 / (self.variance(x, task) + self.r / h), a = b * loss * y
        cdef double* v
        for k in range(x.n):
            j = column(x, k)
            v = self.own(x, task, k)
            sx = (1.0 - self.u[j, 1]) * x.value[k]
            self.u[j, 0] += a * sx
            self.u[j, 1] += b * sx * sx
            sx = (1.0 - v[1]) * x.value[k]
            v[0] += a * sx
            v[1] += b * sx * sx


cdef int ROUNDS = 200  # more than any search below needs; each converges in a handful


cdef class SharedLossKernel(LinearKernel):
    """w_i += a_e y_e x_e, where a maximises a.l over a dual ball of size C, l the round's losses.

    The norm is the Euclidean one if ``r`` is 0, else the sum of the r largest losses: r = 1 is the
    maximum norm, infinite r the L1 norm. ``implicit`` maximises sum(a l - a^2 s / 2) instead, s the
    squared lengths. ``scaled`` puts min(C, L / (R rho)^2) in place of C: L the norm of the losses, R
    the longest x so far (``radius`` (1,) holds its square), rho^2 the norm's remoteness.
    """

    cdef double[::1] radius
    cdef double C, r
    cdef bint implicit, scaled
    cdef Scratch room

    def __init__(
        self, double[:, ::1] w, double[::1] radius, double C, double r, bint implicit, bint scaled
    ):
        self.w, self.radius, self.C, self.r = w, radius, C, r
        self.implicit, self.scaled, self.room = implicit, scaled, Scratch()

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

    cdef void allot(self, Py_ssize_t n, const double* l, const double* s, double* a) noexcept nogil:
        """Fill a (n,), which is 0, from losses l and squared lengths s; some loss is positive."""
        cdef Py_ssize_t e
        cdef double norm, reach = self.C, remoteness = 1.0
        if self.implicit and self.r == 0.0:
            self.allot_euclidean(n, l, s, a)
            return
        if self.implicit:
            self.allot_largest(n, l, s, a)
            return
        if self.r == 0.0:
            norm = mark_euclidean(n, l, a)
        else:
            norm = mark_largest(n, l, a, self.r)
            remoteness = fmin(self.r, max(n, self.w.shape[0]))
        if self.scaled:
            for e in range(n):
                self.radius[0] = fmax(self.radius[0], s[e])
            reach = fmin(self.C, norm / (self.radius[0] * remoteness))
        for e in range(n):
            a[e] *= reach

    cdef void allot_euclidean(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) noexcept nogil:
        """max sum(a l - a^2 s / 2) over |a|_2 <= C."""
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

    cdef void allot_largest(
        self, Py_ssize_t n, const double* l, const double* s, double* a
    ) noexcept nogil:
        """max sum(a l - a^2 s / 2) over 0 <= a <= C, sum(a) <= r C."""
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


cdef double mark_euclidean(Py_ssize_t n, const double* l, double* a) noexcept nogil:
    """a <- l / |l|; the norm."""
    cdef Py_ssize_t e
    cdef double norm = 0.0
    for e in range(n):
        norm += l[e] * l[e]
    norm = sqrt(norm)
    for e in range(n):
        a[e] = l[e] / norm
    return norm


cdef double mark_largest(Py_ssize_t n, const double* l, double* a, double r) noexcept nogil:
    """a <- 1 at the r largest positive losses, of equal ones the first; the sum of all of these."""
    cdef Py_ssize_t e, best, k = 0
    cdef double norm = 0.0
    if r >= n:
        for e in range(n):
            a[e] = 1.0 if l[e] > 0.0 else 0.0
            norm += l[e]
        return norm
    while k < r:
        best, k = -1, k + 1
        for e in range(n):
            if a[e] == 0.0 and l[e] > 0.0 and (best < 0 or l[e] > l[best]):
                best = e
        if best < 0:
            break
        a[best] = 1.0
        norm += l[best]
    return norm


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
                self.step_task(events, begin, end, margins, k, share, count, loss)
        return 0

    cdef int step_task(
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
        # Lower all by one level; drop those that fall below 0, and compute the level again.
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


cdef class CoupledKernel(LinearKernel):
    """On an error in task i, w_j += tau y B[j, i] x for every task j (abstract).

    ``B`` (m, m) is the inverse of the tasks' interaction matrix. ``wide`` counts a margin below 1
    as an error, not only a wrong sign; tau is C, or with ``passive`` as much of it as brings
    the margin to 1.
    """

    cdef double[:, ::1] B
    cdef double C
    cdef bint wide, passive

    cdef inline double length(self, Row x, double y, double margin, Py_ssize_t i) noexcept nogil:
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
        """Move every task by B[j, i] y x, where y is the label times tau."""
        cdef Py_ssize_t j
        for j in range(self.w.shape[0]):
            if self.B[j, i] != 0.0:
                add(x, y * self.B[j, i], &self.w[j, 0])


cdef class FixedKernel(CoupledKernel):
    """Fixed relation."""

    def __init__(
        self, double[:, ::1] w, double[:, ::1] B, double C, bint wide, bint passive
    ):
        self.w, self.B = w, B
        self.C, self.wide, self.passive = C, wide, passive

    cdef int step(
        self, Row x, Py_ssize_t i, double y, double margin, double h
    ) except -1 nogil:
        cdef double tau = self.length(x, y, margin, i)
        if tau > 0.0:
            self.spread(x, y * tau, i)
        return 0


cdef class LearnedKernel(CoupledKernel):
    """The relation follows G = W'W, which is kept up to date at every step (abstract).

    A rule adds eta G to ``A`` (m, m), which is B itself or its logarithm, and ``relate``
    makes B of it: at every step, from W before it, or ``by_round``, from W after a round with
    a step. ``G`` is (m, m), ``seen`` (1,) counts events; the relation is learned
    after the first ``prime``.
    """

    cdef double[:, ::1] A, G
    cdef long long[::1] seen
    cdef long long prime
    cdef double eta
    cdef bint by_round
    cdef Scratch room

    def __init__(
        self, double[:, ::1] w, double[:, ::1] B, double[:, ::1] A, double[:, ::1] G,
        long long[::1] seen, double eta, long long prime, bint by_round,
        double C, bint wide, bint passive,
    ):
        self.w, self.B, self.A, self.G, self.seen = w, B, A, G, seen
        self.eta, self.prime, self.by_round = eta, prime, by_round
        self.C, self.wide, self.passive = C, wide, passive
        self.room = Scratch()

    cdef int relate(self, Py_ssize_t m, double* A, double* B, double* free) except -1 nogil:
        """Fill B from A, and scale both to trace m; ``free`` is room for 2 m^2 numbers."""
        with gil:
            raise NotImplementedError("a learned relation must define relate")

    cdef int learn(
        self, Events events, Py_ssize_t begin, Py_ssize_t end, const double* margins
    ) except -1 nogil:
        cdef Py_ssize_t e
        cdef double margin
        cdef bint moved = False
        for e in range(begin, end):
            margin = margins[e]
            if e > begin:
                margin = dot(events.row(e), &self.w[events.tasks[e], 0])
            moved = self.learn_event(events, e, margin) or moved
        if self.by_round and moved and self.seen[0] > self.prime:
            self.renew()
        return 0

    cdef bint learn_event(self, Events events, Py_ssize_t e, double margin) except -1 nogil:
        """Learn one event; return whether it moved the weights. Where it fails, nothing changes."""
        cdef Py_ssize_t j, k, i = events.tasks[e], m = self.w.shape[0]
        cdef double* A = self.room.take(4 * m * m + m)
        cdef double* B = A + m * m
        cdef double* free = B + m * m
        cdef double* p = free + 2 * m * m
        cdef double s, y = events.labels[e]
        cdef Row x = events.row(e)
        cdef double tau = self.length(x, y, margin, i)
        cdef bint learned = tau > 0.0 and self.seen[0] >= self.prime and not self.by_round
        if learned:  # from W before this event
            self.propose(A, B, free)
        self.seen[0] += 1
        if not tau > 0.0:
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

    cdef int renew(self) except -1 nogil:
        """Move the relation by the present W."""
        cdef Py_ssize_t m = self.w.shape[0]
        cdef double* A = self.room.take(4 * m * m + m)
        cdef double* B = A + m * m
        self.propose(A, B, B + m * m)
        self.take_over(A, B)
        return 0

    cdef inline void take_over(self, const double* A, const double* B) noexcept nogil:
        cdef Py_ssize_t m = self.w.shape[0]
        memcpy(&self.A[0, 0], A, m * m * sizeof(double))
        memcpy(&self.B[0, 0], B, m * m * sizeof(double))

    cdef int propose(self, double* A, double* B, double* free) except -1 nogil:
        cdef Py_ssize_t j, k, m = self.w.shape[0]
        for j in range(m):
            for k in range(m):
                A[j * m + k] = self.A[j, k] + self.eta * self.G[j, k]
                if not isfinite(A[j * m + k]):
                    overflowed()
        return self.relate(m, A, B, free)


cdef int overflowed() except -1 nogil:
    with gil:
        raise FloatingPointError(
            "the task relation has overflowed; use a smaller eta, or scale the features"
        )


cdef class LogDetKernel(LearnedKernel):
    """B <- B + eta W'W: OMTLLOG. A is B."""

    cdef int relate(self, Py_ssize_t m, double* A, double* B, double* free) except -1 nogil:
        cdef Py_ssize_t j
        cdef double trace = 0.0
        for j in range(m):
            trace += A[j * m + j]
        if not 0.0 < trace < INFINITY:
            overflowed()
        for j in range(m * m):
            A[j] *= m / trace
            B[j] = A[j]
        return 0


cdef class VonNeumannKernel(LearnedKernel):
    """B <- exp(log B + eta W'W): OMTLVON. A is log B."""

    cdef int relate(self, Py_ssize_t m, double* A, double* B, double* free) except -1 nogil:
        cdef Py_ssize_t j
        cdef double trace = exponential(m, A, B, free, free + m * m)  # its logarithm
        if not trace < INFINITY:
            overflowed()
        for j in range(m * m):
            B[j] *= m
        for j in range(m):
            A[j * m + j] -= trace - log(<double> m)
        return 0


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
