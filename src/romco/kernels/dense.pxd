"""Small dense arrays in C memory: room for them, and the few products the core needs.

A matrix is row-major; `ld` is the distance between the starts of two rows.
"""

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ROMCO_PREFETCH(p) __builtin_prefetch(p)
    #define ROMCO_RESTRICT __restrict__
    #else
    #define ROMCO_PREFETCH(p)
    #define ROMCO_RESTRICT __restrict
    #endif
    /* y += a x. Written in C for the promise that x and y do not overlap. */
    static inline void romco_axpy(
        Py_ssize_t n, double a, const double* ROMCO_RESTRICT x, double* ROMCO_RESTRICT y
    ) {
        for (Py_ssize_t i = 0; i < n; i++) y[i] += a * x[i];
    }
    /* out (w) = x (k) b (k, w). Four columns at a time, so that sums stay in registers. */
    static inline void romco_row_times(
        Py_ssize_t k, Py_ssize_t w, const double* ROMCO_RESTRICT x,
        const double* ROMCO_RESTRICT b, Py_ssize_t ldb, double* ROMCO_RESTRICT out
    ) {
        Py_ssize_t j = 0;
        for (; j + 4 <= w; j += 4) {
            double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
            const double* c = b + j;
            for (Py_ssize_t i = 0; i < k; i++, c += ldb) {
                s0 += x[i] * c[0];
                s1 += x[i] * c[1];
                s2 += x[i] * c[2];
                s3 += x[i] * c[3];
            }
            out[j] = s0; out[j + 1] = s1; out[j + 2] = s2; out[j + 3] = s3;
        }
        for (; j < w; j++) {
            double s = 0;
            for (Py_ssize_t i = 0; i < k; i++) s += x[i] * b[i * ldb + j];
            out[j] = s;
        }
    }
    /* x, y <- c x - d y, d x + c y. */
    static inline void romco_rotate(
        Py_ssize_t n, double c, double d, double* ROMCO_RESTRICT x, double* ROMCO_RESTRICT y
    ) {
        for (Py_ssize_t i = 0; i < n; i++) {
            double a = x[i], b = y[i];
            x[i] = c * a - d * b;
            y[i] = d * a + c * b;
        }
    }
    """
    void axpy "romco_axpy" (Py_ssize_t n, double a, const double* x, double* y) noexcept nogil
    void row_times "romco_row_times" (
        Py_ssize_t k, Py_ssize_t w, const double* x, const double* b, Py_ssize_t ldb, double* out
    ) noexcept nogil
    void rotate "romco_rotate" (
        Py_ssize_t n, double c, double d, double* x, double* y
    ) noexcept nogil
    void prefetch "ROMCO_PREFETCH" (const void* p) noexcept nogil


# At least `need` items of `size` bytes behind `pointer`, `room` of which are there already;
# what was there stays, what is new is undefined.
cdef int reserve(void** pointer, Py_ssize_t* room, Py_ssize_t need, size_t size) except -1 nogil


cdef inline double dot_product(Py_ssize_t n, const double* x, const double* y) noexcept nogil:
    """x . y, in two partial sums."""
    cdef double a = 0.0, b = 0.0
    cdef Py_ssize_t i = 0
    while i + 1 < n:
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        i += 2
    if i < n:
        a += x[i] * y[i]
    return a + b


# out (n, w) = a (n, k) b (k, w); out must not overlap a or b.
cdef void multiply(
    Py_ssize_t n, Py_ssize_t k, Py_ssize_t w,
    const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo,
) noexcept nogil


# out (n, w) += a' b, a (k, n), b (k, w); out must not overlap a or b.
cdef void add_products(
    Py_ssize_t k, Py_ssize_t n, Py_ssize_t w,
    const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo,
) noexcept nogil


# The lower half of out (n, n) += that of a' a, a (k, n); tiles on the diagonal are whole.
cdef void add_gram(
    Py_ssize_t k, Py_ssize_t n, const double* a, Py_ssize_t lda, double* out, Py_ssize_t ldo,
) noexcept nogil
