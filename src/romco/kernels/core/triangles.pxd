"""One Cholesky factor, and what is done with it.

A factor R is upper, R'R = A; all matrices are row-major, `ld` is the distance between two rows.
"""

# R (n, n) of A, whose lower half is read; R may be A itself, of which then only the lower half
# stays. Row i of R is the i-th row of what is left of A, divided by `roots[i]`, the square root of
# its pivot. A pivot of `least` or less makes the row and the root 0. Gives how many are above.
cdef Py_ssize_t cholesky(
    Py_ssize_t n, const double* A, Py_ssize_t lda, double* R, Py_ssize_t ldr, double least,
    double* roots,
) noexcept nogil

# X (n, w) <- (R'R)^-1 X, in place; R as above, with roots on its diagonal.
cdef void solve(
    Py_ssize_t n, const double* R, const double* roots, Py_ssize_t w, double* X
) noexcept nogil

# a (n, w) <- R a, in place; R (n, n).
cdef void upper_times(
    const double* R, double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil

# a (n, w) <- a R', in place; R (w, w).
cdef void times_lower(
    double* a, const double* R, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
) noexcept nogil

# a (n,) <- R'^-1 a, in place; 0 where a pivot is.
cdef void solve_lower(const double* R, double* a, Py_ssize_t n) noexcept nogil
