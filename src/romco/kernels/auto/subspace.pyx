"""A low-rank part B F' of the tasks' own vectors W: what groups of tasks have in common.

Rows of B that are zero, as those of hashed features that never occurred, are passed over where it
is known which they are; nothing changes by that, to the last bit.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport NAN, sqrt
from libc.string cimport memcpy, memset
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.pairs cimport Pairs

cnp.import_array()

cdef Py_ssize_t AHEAD = 24         # pairs: by then a row of B that is asked for is there
cdef double NOTHING_NEW = 1e-10    # share of a column's square below which it is rounding


cdef class Subspace:
    """The leading left directions B (d, RANK) of W, and F = W'B (m, RANK).

    W (d, m) is the number ``lane`` of each pair. Whoever changes W keeps F true
    by adding the change times the row of B.
    """

    def __init__(self, B, F, Pairs pairs, int lane):
        self.B, self.F, self.pairs, self.lane = B, F, pairs, lane
        self.marks = np.zeros(len(B), dtype=np.uint8)
        self.marked = <unsigned char*> cnp.PyArray_DATA(<cnp.ndarray> self.marks)
        self.unmarked, self.expected = True, NAN

    cdef void draw_at(self, double due) noexcept nogil:
        """``draw`` at the time set for it; where it is not ``expected``, others have changed B."""
        if due != self.expected:
            self.unmarked = True
        self.draw()

    cdef void draw(self) noexcept nogil:
        """One step of orthogonal iteration towards the leading directions B of W, then F = W'B.

        It goes on from the last drawing, for which F is up to date.
        """
        self.begin()
        self.gather()
        self.orthogonalise()
        self.project()

    cdef void begin(self) noexcept nogil:
        """F = W'B with fixed signs in columns of B that are zero: these start anew."""
        cdef bint[RANK] fresh
        cdef bint any_fresh = False
        cdef int c
        for c in range(RANK):
            fresh[c] = self.empty(c)
            any_fresh = any_fresh or fresh[c]
        if any_fresh:  # else F is up to date
            self.project_from(fresh)

    cdef bint empty(self, int c) noexcept nogil:
        cdef Py_ssize_t j = self.next_marked(0)
        while j < self.B.shape[0]:
            if self.B[j, c] != 0.0:
                return False
            j = self.next_marked(j + 1)
        return True

    cdef inline Py_ssize_t next_marked(self, Py_ssize_t j) noexcept nogil:
        """The first row from j on that may not be zero; d where there is none."""
        cdef Py_ssize_t d = self.B.shape[0]
        cdef unsigned long long eight
        if self.unmarked:
            return j
        while j < d and not self.marked[j]:
            j += 1
            while j + 8 <= d:  # most are not: eight at a time
                memcpy(&eight, self.marked + j, 8)
                if eight != 0:
                    break
                j += 8
        return j

    cdef void project(self) noexcept nogil:
        """F = W'B."""
        cdef bint[RANK] none
        cdef int c
        for c in range(RANK):
            none[c] = False
        self.project_from(none)

    cdef void project_from(self, const bint* fresh) noexcept nogil:
        """F = W'B, of fixed signs in place of those columns of B that are ``fresh``."""
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef Py_ssize_t width = self.pairs.width, d = self.pairs.n_features
        cdef const double* own
        self.F[:, :] = 0.0
        if not self.pairs.dense:
            for pair in range(self.pairs.used):
                self.ask(pair + AHEAD)
                own = self.pairs.visit(pair, &task, &feature) + self.lane
                project_one(own[0], feature, &self.B[feature, 0], fresh, &self.F[task, 0])
            return
        own = self.pairs.value + self.lane
        for task in range(self.pairs.n_tasks):
            for feature in range(d):
                project_one(own[0], feature, &self.B[feature, 0], fresh, &self.F[task, 0])
                own += width

    cdef inline void ask(self, Py_ssize_t pair) noexcept nogil:
        """Ask for the row of B of a pair that will be visited."""
        cdef Py_ssize_t feature
        if pair < self.pairs.used:
            feature = <unsigned int> self.pairs.key[pair]
            ahead(&self.B[feature, 0])
            ahead(&self.B[feature, RANK - 1])  # it may lie in two lines

    cdef void gather(self) noexcept nogil:
        """B = W F."""
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef Py_ssize_t width = self.pairs.width, d = self.pairs.n_features
        cdef const double* own
        self.clear()
        if not self.pairs.dense:
            for pair in range(self.pairs.used):
                self.ask(pair + AHEAD)
                own = self.pairs.visit(pair, &task, &feature) + self.lane
                gather_one(own[0], &self.F[task, 0], &self.B[feature, 0], self.marked + feature)
            return
        own = self.pairs.value + self.lane
        for task in range(self.pairs.n_tasks):
            for feature in range(d):
                gather_one(own[0], &self.F[task, 0], &self.B[feature, 0], self.marked + feature)
                own += width

    cdef void clear(self) noexcept nogil:
        """B = 0."""
        cdef Py_ssize_t j
        cdef int c
        if self.unmarked:
            self.B[:, :] = 0.0
        else:
            j = self.next_marked(0)
            while j < self.B.shape[0]:
                for c in range(RANK):
                    self.B[j, c] = 0.0
                j = self.next_marked(j + 1)
        memset(self.marked, 0, self.B.shape[0])
        self.unmarked = False

    cdef check(self, const int[::1] rows, const double[:, ::1] values):
        """Raise ValueError where rows are not those of B, or there are not as many numbers."""
        cdef Py_ssize_t i
        cdef bint fits = values.shape[0] == rows.shape[0] and values.shape[1] == RANK
        for i in range(rows.shape[0]):
            fits = fits and 0 <= rows[i] < self.B.shape[0]
        if not fits:
            raise ValueError(f"expected rows of directions ({self.B.shape[0]}, {RANK})")

    cdef void put(self, const int[::1] rows, const double[:, ::1] values) noexcept nogil:
        """B[rows[i]] = values[i]."""
        cdef Py_ssize_t i
        cdef int c
        for i in range(rows.shape[0]):
            self.marked[rows[i]] = True
            for c in range(RANK):
                self.B[rows[i], c] = values[i, c]

    cdef void orthogonalise(self) noexcept nogil:
        """The columns of B made orthonormal in turn; those that add nothing become zero.

        Gram-Schmidt on the columns' inner products, so that all of B is read only twice.
        """
        cdef double[RANK * RANK] G
        cdef double[RANK][RANK] T  # T[c] gives the new column c in terms of the old ones
        cdef double[RANK] row
        cdef double overlap, size
        cdef double* b
        cdef Py_ssize_t j
        cdef int c, k, i
        self.products(G)
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
            size = 1.0 / sqrt(size) if size > NOTHING_NEW * G[c * RANK + c] else 0.0
            for i in range(c + 1):
                T[c][i] *= size
        j = self.next_marked(0)
        while j < self.B.shape[0]:
            b = &self.B[j, 0]
            for c in range(RANK):
                row[c] = 0.0
                for i in range(c + 1):
                    row[c] += T[c][i] * b[i]
            for c in range(RANK):
                b[c] = row[c]
            j = self.next_marked(j + 1)

    cdef void products(self, double* G) noexcept nogil:
        """Inner products of the columns of B."""
        cdef const double* b
        cdef double[RANK * RANK] sums  # in registers
        cdef Py_ssize_t j
        cdef int c, k
        for c in range(RANK * RANK):
            sums[c] = 0.0
        j = self.next_marked(0)
        while j < self.B.shape[0]:
            b = &self.B[j, 0]
            for c in range(RANK):
                for k in range(RANK):
                    sums[c * RANK + k] += b[c] * b[k]
            j = self.next_marked(j + 1)
        for c in range(RANK * RANK):
            G[c] = sums[c]


cdef inline void project_one(
    double w, Py_ssize_t feature, const double* b, const bint* fresh, double* f
) noexcept nogil:
    """f += w b, or fixed signs in place of what is fresh."""
    cdef int c
    if w != 0.0:
        for c in range(RANK):
            f[c] += w * (sign_of(feature, c) if fresh[c] else b[c])


cdef inline void gather_one(
    double w, const double* f, double* b, unsigned char* marked
) noexcept nogil:
    """b += w f."""
    cdef int c
    if w != 0.0:
        marked[0] = True
        for c in range(RANK):
            b[c] += w * f[c]


cdef inline double sign_of(Py_ssize_t j, int c) noexcept nogil:
    """A sign for each entry of B, as good as thrown."""
    cdef unsigned long long bits = <unsigned long long> (j * 4 + 4 + c) * 0x9E3779B97F4A7C15ULL
    return 1.0 if (bits >> 40) & 1 else -1.0
