"""One Cholesky factor, and what is done with it.

By hand, since LAPACK is reached through scipy.linalg only, and importing that would take longer
than importing everything else; and since the core drops what has no length left.
"""

from libc.math cimport sqrt
from libc.string cimport memset
from romco.kernels.core.dense cimport axpy, dot_product


cdef Py_ssize_t cholesky(
    Py_ssize_t n, const double* A, Py_ssize_t lda, double* R, Py_ssize_t ldr, double least,
    double* roots,
) noexcept nogil:
    cdef Py_ssize_t i, j, found = 0
    cdef double* row
    for i in range(n):
        row = R + i * ldr
        for j in range(i, n):
            row[j] = A[j * lda + i]
        for j in range(i):
            axpy(n - i, -R[j * ldr + i], R + j * ldr + i, row + i)
        if row[i] <= least:
            memset(row + i, 0, (n - i) * sizeof(double))
            roots[i] = 0.0
            continue
        found += row[i] > least  # not where numbers ran away
        roots[i] = sqrt(row[i])
        for j in range(i, n):
            row[j] /= roots[i]
    return found


cdef void solve(
    Py_ssize_t n, const double* R, const double* roots, Py_ssize_t w, double* X
) noexcept nogil:
    cdef Py_ssize_t i, j, k
    for i in range(n):
        for k in range(i):
            axpy(w, -R[k * n + i], X + k * w, X + i * w)
        for j in range(w):
            X[i * w + j] /= roots[i]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            axpy(w, -R[i * n + k], X + k * w, X + i * w)
        for j in range(w):
            X[i * w + j] /= roots[i]


cdef void upper_times(
    const double* R, double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(w):
            a[i * ld + j] *= R[i * n + i]
        for j in range(i + 1, n):
            axpy(w, R[i * n + j], a + j * ld, a + i * ld)


cdef void times_lower(
    double* a, const double* R, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(w):
            a[i * ld + j] = dot_product(w - j, a + i * ld + j, R + j * w + j)


cdef void solve_lower(const double* R, double* a, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, j
    for i in range(n):
        for j in range(i):
            a[i] -= R[j * n + i] * a[j]
        a[i] = a[i] / R[i * n + i] if R[i * n + i] != 0.0 else 0.0
