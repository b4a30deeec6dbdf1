"""A low-rank part B F' of the tasks' own vectors W: what groups of tasks have in common.

B (d, 4) are directions and F = W'B (m, 4). From time to time one step of orthogonal iteration
replaces them, B <- orth(W W'B). That passes over all stored pairs of task and feature twice, so it is
spread over the events that are learned meanwhile, a slice each: predictions wait for no more than
a slice. There are two sides of B and F, one in use and one being computed:

    START          columns that are zero get fixed signs: F = W'(signs) there
    GATHER         next B = W F
    MULTIPLY       inner products of the columns of the next B
    ORTHOGONALISE  next B made orthonormal; columns that depend on others become zero
    PROJECT        next F = W'B; later changes of entries of W are added.
                   At the end the sides change places
    CLEAR          what was in use before becomes zero

Its progress is part of the learner's state.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport sqrt
from libc.string cimport memset
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.pairs cimport Pairs

cnp.import_array()

cdef Py_ssize_t PREFETCH_PAIRS = 24  # pairs to look ahead
cdef Py_ssize_t PREFETCH_ROWS = 96   # rows of B to look ahead; most are skipped
cdef double ROUNDING = 1e-7        # what is left of a column is rounding below this share of its square
cdef Py_ssize_t ZEROS = 16         # entries that are looked at for each that may be processed
cdef Py_ssize_t UNLIMITED = 1 << 56
cdef double SUBSPACE_GROWTH = 1.25 # of the events between two recomputations
cdef double SUBSPACE_PAUSE = 40.0  # after one, in units of the events that it took
PROGRESS = sizeof(Progress) // sizeof(double)  # numbers of a Progress


cdef class Subspace:
    """Views of the leading left directions B of W (d, m), and of F; both have two sides."""

    def __init__(self, B, F, Pairs pairs, double[::1] progress):
        self.B, self.F, self.pairs, self.n = B, F, pairs, len(B)
        filled = np.zeros(self.n, np.uint8)
        self.filled = <unsigned char*> cnp.PyArray_DATA(<cnp.ndarray> filled)
        self.arrays = progress, filled
        self.progress = <Progress*> &progress[0]
        self.slice = 4096
        self.lose_track()

    cdef void lose_track(self) noexcept nogil:
        """Forget which rows of B are zero: others have changed it."""
        self.tracked[0] = self.tracked[1] = False

    cdef int phase(self) noexcept nogil:
        return <int> self.progress.phase if 0.0 < self.progress.phase < PHASES else IDLE

    cdef bint keep_up(self, double events, double* due, Py_ssize_t n) noexcept nogil:
        """Work n slices on a recomputation that is due; true when it is complete.

        ``due`` is the number of events at which the next one begins, or the one under way began.
        """
        if not self.phase():
            if events < due[0]:
                return False
            due[0] = events
        if not self.advance(self.slice * n):
            return False
        due[0] = max(SUBSPACE_GROWTH * events, events + SUBSPACE_PAUSE * (events - due[0]))
        return True

    cdef bint advance(self, Py_ssize_t budget) noexcept nogil:
        """Continue a recomputation, or begin one; return whether the sides were swapped."""
        cdef int phase = self.phase()
        cdef bint finished = False
        if phase == IDLE:
            phase = START
            self.progress.at = self.progress.feature = 0.0
            memset(self.progress.products, 0, sizeof(self.progress.products))
        while budget > 0 and phase < PHASES:
            budget = self.work(phase, 1 - self.side(), budget)
            if budget >= 0:  # the phase is over
                if phase == PROJECT:
                    self.progress.side = 1 - self.side()
                    finished = True
                phase += 1
                self.progress.at = self.progress.feature = 0.0
        self.progress.phase = phase if phase < PHASES else IDLE
        return finished

    cdef Py_ssize_t work(self, int phase, int side, Py_ssize_t budget) noexcept nogil:
        """Continue a phase; return the rest of the budget, or -1 where it was too small."""
        if phase == START or phase == GATHER or phase == PROJECT:
            return self.sweep(phase, side, budget)
        return self.pass_rows(phase, side, budget)

    cdef Py_ssize_t sweep(self, int phase, int side, Py_ssize_t budget) noexcept nogil:
        """Process up to ``budget`` pairs that are not zero, of up to ZEROS times as many in turn."""
        cdef Py_ssize_t task = 0, feature = 0, d = self.pairs.n_features, done = 0
        cdef Py_ssize_t count = self.pairs.count(), pair = <Py_ssize_t> self.progress.at
        cdef bint dense = self.pairs.dense
        cdef Py_ssize_t last
        cdef const double* own
        cdef double* f
        cdef double* b
        cdef double w
        cdef int c
        if phase == START and self.all_known():
            return budget
        if dense:
            task, feature = pair, <Py_ssize_t> self.progress.feature
            pair = task * d + feature
        if pair < 0 or pair > count:  # not a state of this learner
            pair = task = feature = 0
        if phase == GATHER and pair == 0:  # all of B on this side is zero
            self.tracked[side] = True
            for last in range(self.n):
                self.filled[last] &= ~(1 << side)
        own = self.pairs.value + pair * self.pairs.width
        last = count if count - pair <= ZEROS * budget else pair + ZEROS * budget
        while pair < last:
            if not dense:
                task = <Py_ssize_t> (self.pairs.key[pair] >> 32)
                feature = <Py_ssize_t> <unsigned int> self.pairs.key[pair]
                if pair + PREFETCH_PAIRS < count:
                    b = self.row(<unsigned int> self.pairs.key[pair + PREFETCH_PAIRS], side)
                    ahead(b)
                    ahead(b + RANK - 1)  # it may span two cache lines
            w = own[0]
            if w != 0.0:
                if done == budget:
                    break
                done += 1
                b, f = self.row(feature, side), &self.F[task, 0]
                if phase == START:
                    for c in range(RANK):
                        if self.progress.known[c] == 0.0:
                            f[(1 - side) * RANK + c] += w * sign_of(feature, c)
                elif phase == GATHER:
                    self.filled[feature] |= 1 << side
                    for c in range(RANK):
                        b[c] += w * f[(1 - side) * RANK + c]
                else:
                    for c in range(RANK):
                        f[side * RANK + c] += w * b[c]
            pair += 1
            own += self.pairs.width
            if dense:
                feature += 1
                if feature == d:
                    task, feature = task + 1, 0
        self.progress.at = task if dense else pair
        self.progress.feature = feature if dense else 0
        return budget - done if pair == count else -1  # a phase that is over may leave 0

    cdef bint all_known(self) noexcept nogil:
        cdef int c
        for c in range(RANK):
            if self.progress.known[c] == 0.0:
                return False
        return True

    cdef Py_ssize_t pass_rows(self, int phase, int side, Py_ssize_t budget) noexcept nogil:
        """Visit up to ``budget`` rows of B, zeros not counted; in CLEAR also rows of F."""
        cdef double[RANK][RANK] T
        cdef double* b
        cdef double* G = self.progress.products
        cdef Py_ssize_t j = <Py_ssize_t> self.progress.at, last, later, done = 0
        cdef Py_ssize_t n = self.n + (self.F.shape[0] if phase == CLEAR else 0)
        cdef int c
        j = max(0, min(j, n))
        last = n if n - j <= ZEROS * budget else j + ZEROS * budget
        if phase == ORTHOGONALISE:
            find_orthogonaliser(G, T)
        while j < last:
            if self.tracked[side] and j < self.n:
                later = j + PREFETCH_ROWS
                if later < self.n and self.filled[later] & 1 << side:
                    ahead(self.row(later, side))
                    ahead(self.row(later, side) + RANK - 1)  # it may span two cache lines
                if not self.filled[j] & 1 << side:
                    j += 1
                    continue
            b = self.row(j, side) if j < self.n else &self.F[j - self.n, side * RANK]
            if b[0] == 0.0 and b[1] == 0.0 and b[2] == 0.0 and b[3] == 0.0:
                j += 1
                continue
            if done == budget:
                break
            j += 1
            done += 1
            if phase == MULTIPLY:
                add_products(b, G)
            elif phase == ORTHOGONALISE:
                transform(b, T)
            else:
                for c in range(RANK):
                    b[c] = 0.0
        self.progress.at = j
        if phase == ORTHOGONALISE and j == n:
            for c in range(RANK):
                self.progress.known[c] = T[c][c] != 0.0
        return budget - done if j == n else -1

    cdef Py_ssize_t run(self, int phase, int side) noexcept nogil:
        """Run a whole phase; return the number of pairs or rows that are not zero."""
        cdef Py_ssize_t rest
        self.progress.at = self.progress.feature = 0.0
        rest = self.work(phase, side, UNLIMITED)
        self.progress.at = self.progress.feature = 0.0
        return UNLIMITED - rest

    cdef void restart(self) noexcept nogil:
        """Abandon a recomputation under way; the next one begins with clear arrays."""
        if self.phase() != IDLE:
            self.run(CLEAR, 1 - self.side())
            self.progress.phase = IDLE

    # With the tasks of other shards all is done at once.

    cdef gather(self, const int[::1] rows):
        """Rows of W W'B, and the number of pairs; columns of B that are zero begin with fixed signs."""
        cdef int c, side = 1 - self.side()
        cdef Py_ssize_t i, pairs
        cdef double[:, ::1] values = np.zeros((rows.shape[0], RANK))
        self.check(rows, values)
        with nogil:
            self.restart()
            self.run(START, side)
            pairs = self.run(GATHER, side)
            for i in range(rows.shape[0]):
                for c in range(RANK):
                    values[i, c] = self.row(rows[i], side)[c]
            self.run(CLEAR, side)
        return np.asarray(values), pairs

    cdef put(self, const int[::1] rows, const double[:, ::1] values):
        """Replace B by these rows, and F by W'B."""
        cdef int c, side = self.side()
        cdef Py_ssize_t i
        self.check(rows, values)
        with nogil:
            self.restart()
            self.run(CLEAR, side)
            self.tracked[side] = False
            memset(self.progress.known, 0, sizeof(self.progress.known))
            for i in range(rows.shape[0]):
                for c in range(RANK):
                    self.row(rows[i], side)[c] = values[i, c]
                    if values[i, c] != 0.0:
                        self.progress.known[c] = 1.0
            self.run(PROJECT, side)

    cdef check(self, const int[::1] rows, const double[:, ::1] values):
        """Raise ValueError where rows are not those of B, or there are not as many numbers."""
        cdef Py_ssize_t i
        cdef bint fits = values.shape[0] == rows.shape[0] and values.shape[1] == RANK
        for i in range(rows.shape[0]):
            fits = fits and 0 <= rows[i] < self.n
        if not fits:
            raise ValueError(f"expected rows of directions ({self.n}, {RANK})")


cdef void make_orthonormal(double[:, ::1] values) noexcept nogil:
    """Make the columns of an array (n, RANK) orthonormal in turn."""
    cdef double[RANK * RANK] G
    cdef double[RANK][RANK] T
    cdef Py_ssize_t j
    memset(G, 0, sizeof(G))
    for j in range(values.shape[0]):
        add_products(&values[j, 0], G)
    find_orthogonaliser(G, T)
    for j in range(values.shape[0]):
        transform(&values[j, 0], T)


cdef inline void add_products(const double* b, double* G) noexcept nogil:
    cdef int c, i
    for c in range(RANK):
        for i in range(RANK):
            G[c * RANK + i] += b[c] * b[i]


cdef void find_orthogonaliser(const double* G, double[RANK][RANK] T) noexcept nogil:
    """Gram-Schmidt on inner products of columns: T[c] gives the new column c by the old ones.

    A column that depends on those before it becomes zero.
    """
    cdef double overlap, size
    cdef int c, k, i
    for c in range(RANK):
        size = G[c * RANK + c]
        for i in range(RANK):
            T[c][i] = 1.0 if i == c else 0.0
        for k in range(c):
            overlap = 0.0
            for i in range(k + 1):
                overlap += T[k][i] * G[i * RANK + c]
            for i in range(k + 1):
                T[c][i] -= overlap * T[k][i]
            size -= overlap * overlap
        size = 1.0 / sqrt(size) if size > ROUNDING * G[c * RANK + c] else 0.0
        for i in range(c + 1):
            T[c][i] *= size


cdef inline void transform(double* b, double[RANK][RANK] T) noexcept nogil:
    cdef double[RANK] new
    cdef int c, i
    for c in range(RANK):
        new[c] = 0.0
        for i in range(c + 1):
            new[c] += T[c][i] * b[i]
    for c in range(RANK):
        b[c] = new[c]


cdef inline double sign_of(Py_ssize_t j, int c) noexcept nogil:
    """A pseudo-random sign for each entry of B."""
    cdef unsigned long long bits = <unsigned long long> (j * 4 + 4 + c) * 0x9E3779B97F4A7C15ULL
    return 1.0 if (bits >> 40) & 1 else -1.0
