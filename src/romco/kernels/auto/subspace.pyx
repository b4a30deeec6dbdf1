"""A low-rank part B F' of the tasks' own vectors W: what groups of tasks have in common.

Rows of B that are zero, as those of hashed features that never occurred, are passed over where it
is known which they are; nothing changes by that, to the last bit. B lies among other columns, far
apart, so a drawing is made in a draft that holds only the other rows, one after the other.
"""

import numpy as np
cimport numpy as cnp
from libc.math cimport NAN, sqrt
from libc.string cimport memset
from romco.kernels.core.prefetch cimport ahead
from romco.kernels.core.pairs cimport Pairs

cnp.import_array()

cdef Py_ssize_t AHEAD = 24         # pairs: by then a row of B that is asked for is there
cdef double NOTHING_NEW = 1e-10    # share of a column's square below which it is rounding
cdef bint[RANK] NONE_FRESH         # zeros


cdef class Subspace:
    """The leading left directions B (d, RANK) of W, and F = W'B (m, RANK).

    W (d, m) is the number ``lane`` of each pair. Whoever changes W keeps F true
    by adding the change times the row of B.
    """

    def __init__(self, B, F, Pairs pairs, int lane):
        cdef Py_ssize_t d = len(B)
        self.B, self.F, self.pairs, self.lane = B, F, pairs, lane
        self.drafted, self.listed = np.empty((d, RANK)), np.empty((2, d), dtype=np.int32)
        self.draft = <double*> cnp.PyArray_DATA(<cnp.ndarray> self.drafted)
        self.rows = <int*> cnp.PyArray_DATA(<cnp.ndarray> self.listed)
        self.place = self.rows + d
        self.marks = np.zeros(d, dtype=np.uint8)
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
        orthogonalise(self.draft, self.n_rows)
        self.publish()
        self.project_from(NONE_FRESH, True)

    cdef void begin(self) noexcept nogil:
        """F = W'B with fixed signs in columns of B that are zero: these start anew."""
        cdef bint[RANK] fresh
        cdef Py_ssize_t i, j, d = self.B.shape[0]
        cdef int c, n_fresh = RANK
        for c in range(RANK):
            fresh[c] = True
        for i in range(d if self.unmarked else self.n_rows):
            j = i if self.unmarked else self.rows[i]
            for c in range(RANK):
                if fresh[c] and self.B[j, c] != 0.0:
                    fresh[c] = False
                    n_fresh -= 1
            if n_fresh == 0:
                return  # F is up to date
        self.project_from(fresh, False)

    cdef void project(self) noexcept nogil:
        """F = W'B."""
        self.project_from(NONE_FRESH, False)

    cdef void project_from(self, const bint* fresh, bint drafted) noexcept nogil:
        """F = W'B, of fixed signs in place of those columns of B that are ``fresh``."""
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef const double* own = self.pairs.value + self.lane
        self.F[:, :] = 0.0
        if not self.pairs.dense:
            for pair in range(self.pairs.used):
                self.ask(pair + AHEAD, drafted)
                own = self.pairs.visit(pair, &task, &feature) + self.lane
                project_one(own[0], feature, self.row(feature, drafted), fresh, &self.F[task, 0])
            return
        for task in range(self.pairs.n_tasks):
            for feature in range(self.pairs.n_features):
                project_one(own[0], feature, self.row(feature, drafted), fresh, &self.F[task, 0])
                own += self.pairs.width

    cdef inline double* row(self, Py_ssize_t feature, bint drafted) noexcept nogil:
        """A row of the draft, or of B."""
        return self.draft + self.place[feature] * RANK if drafted else &self.B[feature, 0]

    cdef inline void ask(self, Py_ssize_t pair, bint drafted) noexcept nogil:
        """Ask for the row of a pair that will be visited."""
        cdef const double* row
        if pair < self.pairs.used:
            row = self.row(<unsigned int> self.pairs.key[pair], drafted)
            ahead(row)
            ahead(row + RANK - 1)  # it may lie in two lines

    cdef void gather(self) noexcept nogil:
        """Draft B = W F; ``publish`` makes it B."""
        cdef Py_ssize_t pair, task = 0, feature = 0
        cdef const double* own = self.pairs.value + self.lane
        self.list_rows()
        memset(self.draft, 0, self.n_rows * RANK * sizeof(double))
        if not self.pairs.dense:
            for pair in range(self.pairs.used):
                self.ask(pair + AHEAD, True)
                own = self.pairs.visit(pair, &task, &feature) + self.lane
                gather_one(own[0], &self.F[task, 0], self.row(feature, True))
            return
        for task in range(self.pairs.n_tasks):
            for feature in range(self.pairs.n_features):
                gather_one(own[0], &self.F[task, 0], self.draft + feature * RANK)
                own += self.pairs.width

    cdef void list_rows(self) noexcept nogil:
        """List the rows that have a pair, or were put: all others are zero from now on."""
        cdef Py_ssize_t pair, j, d = self.B.shape[0], used = self.pairs.used
        if self.unmarked or used < self.n_pairs:
            self.B[:, :] = 0.0
            memset(self.marked, self.pairs.dense, d)
            self.n_pairs, self.unmarked = 0, False
        for pair in range(self.n_pairs, used):
            self.marked[<unsigned int> self.pairs.key[pair]] = True
        self.n_pairs, self.n_rows = used, 0
        for j in range(d):
            if self.marked[j]:
                self.rows[self.n_rows], self.place[j] = <int> j, <int> self.n_rows
                self.n_rows += 1

    cdef void publish(self) noexcept nogil:
        """B = its draft."""
        cdef Py_ssize_t i
        cdef int c
        for i in range(self.n_rows):
            if i + AHEAD < self.n_rows:
                ahead(&self.B[self.rows[i + AHEAD], 0])
            for c in range(RANK):
                self.B[self.rows[i], c] = self.draft[i * RANK + c]

    cdef void clear(self) noexcept nogil:
        """B = 0."""
        self.list_rows()
        memset(self.draft, 0, self.n_rows * RANK * sizeof(double))
        self.publish()

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


cdef void orthogonalise(double* B, Py_ssize_t n) noexcept nogil:
    """The columns of B (n, RANK) made orthonormal in turn; those that add nothing become zero.

    Gram-Schmidt on the columns' inner products, so that all of B is read only twice.
    """
    cdef double[RANK * RANK] G
    cdef double[RANK][RANK] T  # T[c] gives the new column c in terms of the old ones
    cdef double[RANK] row
    cdef double overlap, size
    cdef double* b
    cdef Py_ssize_t j
    cdef int c, k, i
    products(B, n, G)
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
    for j in range(n):
        b = B + j * RANK
        for c in range(RANK):
            row[c] = 0.0
            for i in range(c + 1):
                row[c] += T[c][i] * b[i]
        for c in range(RANK):
            b[c] = row[c]


cdef void products(const double* B, Py_ssize_t n, double* G) noexcept nogil:
    """Inner products of the columns of B."""
    cdef const double* b
    cdef double[RANK * RANK] sums  # in registers
    cdef Py_ssize_t j
    cdef int c, k
    for c in range(RANK * RANK):
        sums[c] = 0.0
    for j in range(n):
        b = B + j * RANK
        for c in range(RANK):
            for k in range(RANK):
                sums[c * RANK + k] += b[c] * b[k]
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


cdef inline void gather_one(double w, const double* f, double* b) noexcept nogil:
    """b += w f."""
    cdef int c
    if w != 0.0:
        for c in range(RANK):
            b[c] += w * f[c]


cdef inline double sign_of(Py_ssize_t j, int c) noexcept nogil:
    """A sign for each entry of B, as good as thrown."""
    cdef unsigned long long bits = <unsigned long long> (j * 4 + 4 + c) * 0x9E3779B97F4A7C15ULL
    return 1.0 if (bits >> 40) & 1 else -1.0
