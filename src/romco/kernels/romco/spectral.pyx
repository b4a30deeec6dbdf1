"""Singular values: the scalar steps of both penalties, and the SVD of a small matrix.

The paper's prox (eqs. 15, 16 and 20) rescales singular values only, so all the core
needs of linear algebra is the SVD of a matrix with about as many rows as U has
rank. One-sided Jacobi is the natural method: the matrix is last round's, already
diagonal, plus a little, and two or three sweeps of plane rotations repair it. From
16 rows on the first of them are left to two secular equations, where one event is all that has
been added and small values are of no interest (`secular`). Else above 40 rows LAPACK is faster.
"""

import numpy as np
cimport cython
from libc.math cimport INFINITY, acosh, asinh, cbrt, cosh, fabs, fmax, fmin, isfinite, log1p, sinh, sqrt
from libc.string cimport memcpy, memset
from romco.kernels.core.dense cimport dot_product, multiply, rotate, size
from romco.kernels.core.memory cimport release, reserve
from scipy.linalg.cython_lapack cimport dgesdd

cdef Py_ssize_t JACOBI_ROWS = 40    # measured: at 33 rows Jacobi is 1.3 times faster, at 65 slower
cdef Py_ssize_t SECULAR_ROWS = 16   # from here on, secular equations first
cdef Py_ssize_t MAX_SECULAR_ROWS = 80
cdef double LARGE = 1e-4            # relative to the largest value: those below must not matter
cdef Py_ssize_t JACOBI_WIDTH = 256  # long rows: LAPACK first reduces them to a square
cdef int SWEEPS = 40                # never reached; 3 to 6 are used
cdef double NOTHING = 1e-29         # squared length, relative to the longest row: rounding only
cdef double ORTHOGONAL = 1e-15
cdef double SMALL_TURN = 1e-9       # whose square is nothing


cdef double shrink_nuclear(double s, double rho) noexcept nogil:
    """The nuclear norm's step (paper eqs. 15 and 16)."""
    return fmax(0.0, s - rho)


cdef double shrink_logdet(double s, double rho) noexcept nogil:
    """Argmin over x >= 0 of (x - s)^2 / (2 rho) + log(1 + x^2) (paper eqs. 20 and 21).

    A root of x^3 - s x^2 + (1 + 2 rho) x - s, by hyperbolic functions: the paper's
    cube roots cancel for small s.
    """
    cdef double a, b, q, x
    if rho == 0.0 or s == 0.0:
        return s
    if rho > 4.0:
        x = best_root(s, rho)
    else:
        b = (1.0 + 2.0 * rho) / 3.0 - s * s / 9.0
        a = s * (s * s / 27.0 + (1.0 - rho) / 3.0)
        q = sqrt(fabs(b))
        if fabs(b) < 1e-14:
            x = s / 3.0 + cbrt(2.0 * a)
        elif b > 0.0:
            x = s / 3.0 + 2.0 * q * sinh(asinh(a / (q * q * q)) / 3.0)
        else:
            x = 2.0 * q * cosh(acosh(fmax(1.0, fabs(a) / (q * q * q))) / 3.0)
            x = s / 3.0 + (x if a >= 0.0 else -x)
    return fmin(s, fmax(x, fmax(s - rho, s / (1.0 + 2.0 * rho))))


cdef double best_root(double s, double rho) noexcept nogil:
    """Above rho = 4 there may be two minima: take the lower one."""
    cdef double large = sqrt(rho - 1.0 + sqrt(rho * (rho - 4.0)))  # where the slope turns
    cdef double small = sqrt(1.0 + 2.0 * rho) / large
    cdef double low = rising_root(s, rho, s / (1.0 + 2.0 * rho), fmin(s, small))
    cdef double high = rising_root(s, rho, fmin(s, fmax(large, s - rho)), s)
    return low if objective(low, s, rho) <= objective(high, s, rho) else high


cdef double rising_root(double s, double rho, double low, double high) noexcept nogil:
    """Where x + 2 rho x / (1 + x^2) rises through s between low and high, by safe Newton steps."""
    cdef double x = 0.5 * (low + high), excess, slope, step
    cdef int turn
    for turn in range(200):
        excess = x + 2.0 * rho * x / (1.0 + x * x) - s
        if excess <= 0.0:
            low = x
        if excess >= 0.0:
            high = x
        slope = 1.0 + 2.0 * rho * (1.0 - x * x) / ((1.0 + x * x) * (1.0 + x * x))
        step = x - excess / slope if slope != 0.0 else low
        if not low < step < high:
            step = 0.5 * (low + high)
        if step == x:
            break
        x = step
    return x


cdef double objective(double x, double s, double rho) noexcept nogil:
    return (x - s) * (x - s) / (2.0 * rho) + log1p(x * x)


@cython.final
cdef class SmallSVD:
    """a = sum over j of s[j] left[j] right[j]', in memory that is used again and again."""

    def __cinit__(self):
        self.secular = SecularVectors()

    def __dealloc__(self):
        release(self.change)
        release(self.s)
        release(self.left)
        release(self.right)
        release(self.rows)
        release(self.turns)
        release(self.order)

    cdef int note_change(
        self, const double* a, Py_ssize_t ld, Py_ssize_t height, Py_ssize_t width,
        const double* c, Py_ssize_t n, const double* q, Py_ssize_t w, double g
    ) except -1 nogil:
        """What is to be factored next is a (height, width) with rows and columns of 0 up to (n, w),
        plus g c q'; remembered where that is worth it and `a` is diagonal, or all but diagonal.
        """
        cdef Py_ssize_t i, few = min(n, w)
        cdef double beside
        self.change_n = self.change_w = 0
        if not SECULAR_ROWS <= n <= MAX_SECULAR_ROWS or few == 0:
            return 0
        beside = beside_falling_diagonal(a, height, width, ld)
        if not beside <= SMALL_TURN * a[0]:
            return 0
        self.change_exact = beside == 0.0
        reserve(<void**> &self.change, &self.change_room, few + n + w, sizeof(double))
        for i in range(few):
            self.change[i] = a[i * ld + i] if i < min(height, width) else 0.0
            if i > 0:
                self.change[i] = fmin(self.change[i], self.change[i - 1])
        for i in range(n):
            self.change[few + i] = g * c[i]
        memcpy(self.change + few + n, q, w * sizeof(double))
        self.change_n, self.change_w = n, w
        return 0

    cdef bint start_close(
        self, const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
    ) except? False nogil:
        """rows <- Y' a with orthonormal Y that make them orthogonal but for a last sweep."""
        cdef Py_ssize_t i, j, few = min(n, w)
        cdef double along
        cdef double* d = self.change
        cdef double* c = self.change + few
        cdef double* q = self.change + few + n
        cdef double* y
        cdef double* row
        if not self.secular.find(d, c, q, n, w, self.turns):
            return False
        if not self.change_exact:
            multiply(n, n, w, self.turns, n, a, ld, self.rows, w)
            return True
        for j in range(n):
            y, row = self.turns + j * n, self.rows + j * w
            along = dot_product(n, y, c)
            for i in range(w):
                row[i] = along * q[i]
            for i in range(few):
                row[i] += y[i] * d[i]
        return True

    cdef int factor(
        self, const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld, double least
    ) except -1 nogil:
        """Factor a (n, w); triples that are rounding only are left out, and may be up to `least`."""
        cdef Py_ssize_t i, most = max(n, w)
        cdef bint changed = self.change_n == n and self.change_w == w and n > 0
        self.change_n = self.change_w = 0
        reserve(<void**> &self.s, &self.rooms[0], most, sizeof(double))
        reserve(<void**> &self.left, &self.rooms[1], most * n, sizeof(double))
        reserve(<void**> &self.right, &self.rooms[2], most * w, sizeof(double))
        reserve(<void**> &self.rows, &self.rooms[3], n * w, sizeof(double))
        reserve(<void**> &self.turns, &self.rooms[4], n * most, sizeof(double))
        reserve(<void**> &self.order, &self.rooms[5], most, sizeof(Py_ssize_t))
        if (
            changed and least >= LARGE * longest_row(a, n, w, ld)
            and self.start_close(a, n, w, ld)
        ):
            self.jacobi(n, w, False)
            self.collect_large(a, n, w, ld, least)
            return 0
        for i in range(n):
            memcpy(self.rows + i * w, a + i * ld, w * sizeof(double))
        if n <= JACOBI_ROWS and w <= JACOBI_WIDTH:
            self.jacobi(n, w, True)
            self.collect(n, w)
            return 0
        return self.lapack(n, w)

    cdef void jacobi(self, Py_ssize_t n, Py_ssize_t w, bint following) noexcept nogil:
        """Turn pairs of rows until all are orthogonal; if `turns` follows, rows = turns a."""
        cdef Py_ssize_t i, j
        cdef int sweep
        cdef double g, worst_angle, worst_turn, t, c, d, zeta, cosine, longest = 0.0
        cdef double* x = self.s          # squared lengths, for now
        if following:
            memset(self.turns, 0, n * n * sizeof(double))
            for i in range(n):
                self.turns[i * n + i] = 1.0
        for sweep in range(SWEEPS):
            worst_angle = worst_turn = 0.0
            for i in range(n):
                x[i] = dot_product(w, self.rows + i * w, self.rows + i * w)
                longest = fmax(longest, x[i])
            for i in range(n - 1):
                for j in range(i + 1, n):
                    if fmin(x[i], x[j]) <= NOTHING * longest:
                        continue
                    g = dot_product(w, self.rows + i * w, self.rows + j * w)
                    cosine = fabs(g) / sqrt(x[i] * x[j])
                    if cosine <= ORTHOGONAL:
                        continue
                    zeta = (x[j] - x[i]) / (2.0 * g)
                    t = 1.0 / (fabs(zeta) + sqrt(1.0 + zeta * zeta))
                    worst_angle, worst_turn = fmax(worst_angle, cosine), fmax(worst_turn, t)
                    if zeta < 0.0:
                        t = -t
                    c = 1.0 / sqrt(1.0 + t * t)
                    d = c * t
                    rotate(w, c, d, self.rows + i * w, self.rows + j * w)
                    if following:
                        rotate(n, c, d, self.turns + i * n, self.turns + j * n)
                    x[i] = fmax(0.0, x[i] - t * g)
                    x[j] += t * g
            # A turn by t brings back at most t times an angle that was already repaired.
            if worst_angle * worst_turn <= ORTHOGONAL:
                return

    cdef void sort_lengths(self, Py_ssize_t n, Py_ssize_t w) noexcept nogil:
        """s <- lengths of the rows, and their order, longest first."""
        cdef Py_ssize_t i, j
        cdef double length
        for i in range(n):
            length = sqrt(dot_product(w, self.rows + i * w, self.rows + i * w))
            j = i
            while j > 0 and self.s[self.order[j - 1]] < length:
                self.order[j] = self.order[j - 1]
                j -= 1
            self.order[j] = i
            self.s[i] = length

    cdef void collect_large(
        self, const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld, double least
    ) noexcept nogil:
        """Triples above `least`, longest first, where the turns were not followed.

        With z the direction of a turned row, a z = s y. What y lacks in orthogonality is rounding
        times s[0] / s, so that s y is right to rounding; the basis measures what y lacks, and mends it.
        """
        cdef Py_ssize_t i, j, few = min(n, w)
        cdef double length
        cdef double* y
        cdef double* z
        self.sort_lengths(n, w)
        self.count = 0
        for j in range(n):
            length = self.s[self.order[j]]
            if length <= least:
                break
            y, z = self.left + j * n, self.right + j * w
            length = 1.0 / length
            for i in range(w):
                z[i] = self.rows[self.order[j] * w + i] * length
            if self.change_exact:  # a z = d z + c (q . z)
                length = dot_product(w, self.change + few + n, z)
                for i in range(n):
                    y[i] = self.change[few + i] * length
                for i in range(few):
                    y[i] += self.change[i] * z[i]
            else:
                for i in range(n):
                    y[i] = dot_product(w, a + i * ld, z)
            length = sqrt(dot_product(n, y, y))
            self.turns[j] = length  # until all of `s` is used
            length = 1.0 / length
            for i in range(n):
                y[i] *= length
            self.count += 1
        memcpy(self.s, self.turns, self.count * sizeof(double))

    cdef void collect(self, Py_ssize_t n, Py_ssize_t w) noexcept nogil:
        """Lengths and directions of the turned rows, longest first."""
        cdef Py_ssize_t i, j, at
        cdef double turn, longest
        self.sort_lengths(n, w)
        longest = self.s[self.order[0]] if n > 0 else 0.0
        self.count = 0
        for j in range(n):
            i = self.order[j]
            if self.s[i] == 0.0 or self.s[i] * self.s[i] <= NOTHING * longest * longest:
                break
            # c^2 + d^2 is 1 only up to rounding, always to the same side; over a million
            # events that adds up. Rows and turns share the error, so it cancels here.
            turn = sqrt(dot_product(n, self.turns + i * n, self.turns + i * n))
            for at in range(n):
                self.left[j * n + at] = self.turns[i * n + at] / turn
            for at in range(w):
                self.right[j * w + at] = self.rows[i * w + at] / self.s[i]
            self.turns[i * n] = self.s[i] / turn  # keeps s until all of `order` is used
            self.count += 1
        for j in range(self.count):
            self.s[j] = self.turns[self.order[j] * n]

    cdef int lapack(self, Py_ssize_t n, Py_ssize_t w) except -1 nogil:
        """The same by LAPACK, to which row-major a is the transpose: a' = right' s left."""
        cdef int rows = <int> w, cols = <int> n, few = <int> min(n, w), info = 0, length = -1
        cdef Py_ssize_t i, j
        cdef double wish
        cdef double* work
        cdef double* turns = self.turns
        cdef int* numbers  # 8 min(n, w)
        # LAPACK does not promise to end with anything else
        info = not isfinite(dot_product(n * w, self.rows, self.rows))
        if info != 0:
            overflowed()
        reserve(<void**> &self.order, &self.rooms[5], 8 * few, sizeof(Py_ssize_t))
        numbers = <int*> self.order
        dgesdd(b"S", &rows, &cols, self.rows, &rows, self.s, self.right, &rows, turns, &few,
               &wish, &length, numbers, &info)
        length = <int> wish
        reserve(<void**> &self.turns, &self.rooms[4], n * max(n, w) + length, sizeof(double))
        turns = self.turns
        work = turns + n * few
        dgesdd(b"S", &rows, &cols, self.rows, &rows, self.s, self.right, &rows, turns, &few,
               work, &length, numbers, &info)
        if info != 0:
            overflowed()
        self.count = 0
        for j in range(few):
            if self.s[j] == 0.0 or self.s[j] * self.s[j] <= NOTHING * self.s[0] * self.s[0]:
                break
            for i in range(n):
                self.left[j * n + i] = turns[i * few + j]
            self.count += 1
        return 0


cdef double beside_falling_diagonal(
    const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil:
    """What is beside the diagonal, or on it where that rises or is negative: the most of a row."""
    cdef Py_ssize_t i
    cdef double beside, most = 0.0
    for i in range(n):
        beside = size(w, a + i * ld)
        if i < w:  # exactly 0 where there is nothing else
            beside -= a[i * ld + i]
            if i > 0:
                beside += fmax(0.0, a[i * ld + i] - a[(i - 1) * ld + i - 1])
        most = fmax(most, beside) if beside == beside else INFINITY
    return most


cdef double longest_row(
    const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil:
    """The length of the longest row, which is at most the largest singular value."""
    cdef double longest = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        longest = fmax(longest, dot_product(w, a + i * ld, a + i * ld))
    return sqrt(longest)


cdef int overflowed() except -1 nogil:
    with gil:
        raise FloatingPointError(
            "the singular values of U could not be found; the weights have overflowed, "
            "so use smaller steps or scale the features"
        )


def shrink(s, double rho, bint logdet):
    """Either penalty's step on an array of singular values; for tests."""
    s = np.array(s, dtype=np.float64)
    cdef double[::1] view = s
    cdef Py_ssize_t i
    for i in range(view.shape[0]):
        view[i] = shrink_logdet(view[i], rho) if logdet else shrink_nuclear(view[i], rho)
    return s


def small_svd(const double[:, ::1] a not None):
    """Return left (n, q), s (q,), right (q, w) of a small matrix; for tests."""
    cdef SmallSVD svd = SmallSVD()
    cdef Py_ssize_t n = a.shape[0], w = a.shape[1]
    svd.factor(&a[0, 0], n, w, w, 0.0)
    if svd.count == 0:
        return np.empty((n, 0)), np.empty(0), np.empty((0, w))
    left = np.asarray(<double[:svd.count, :n]> svd.left).T.copy()
    right = np.asarray(<double[:svd.count, :w]> svd.right).copy()
    return left, np.asarray(<double[:svd.count]> svd.s).copy(), right


def changed_svd(d, c, q, double least, beside=0.0):
    """left (n, k), s (k,), right (k, w) of diag(d) + c q', by secular equations first; for tests.

    The diagonal may have something ``beside`` it; the last that is given is whether it passed for one.
    """
    cdef Py_ssize_t n = len(c), w = len(q), few = min(n, w)
    diagonal = np.zeros((n, w))
    diagonal[np.arange(few), np.arange(few)] = d
    diagonal += beside
    cdef double[:, ::1] before = diagonal
    cdef double[:, ::1] a = diagonal + np.outer(c, q)
    cdef double[::1] left = np.array(c, dtype=np.float64), right = np.array(q, dtype=np.float64)
    cdef SmallSVD svd = SmallSVD()
    svd.note_change(&before[0, 0], w, n, w, &left[0], n, &right[0], w, 1.0)
    known = svd.change_n == n
    svd.factor(&a[0, 0], n, w, w, least)
    return (
        np.asarray(<double[:svd.count, :n]> svd.left).T.copy(),
        np.asarray(<double[:svd.count]> svd.s).copy(),
        np.asarray(<double[:svd.count, :w]> svd.right).copy(),
        known,
    )
