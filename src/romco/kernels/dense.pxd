"""The few products of small dense matrices that the core needs.

A matrix is row-major; `ld` is the distance between the starts of two rows.
"""

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ROMCO_PREFETCH(p) __builtin_prefetch(p)
    #define ROMCO_RESTRICT __restrict__
    #define ROMCO_INLINE static inline __attribute__((always_inline))
    #else
    #define ROMCO_PREFETCH(p)
    #define ROMCO_RESTRICT __restrict
    #define ROMCO_INLINE static inline
    #endif
    /* y += a x. Written in C for the promise that x and y do not overlap. */
    static inline void romco_axpy(
        Py_ssize_t n, double a, const double* ROMCO_RESTRICT x, double* ROMCO_RESTRICT y
    ) {
        for (Py_ssize_t i = 0; i < n; i++) y[i] += a * x[i];
    }
    /* out (mr, nr) = or += a b, where a (mr, k) has strides ai and ap. With constant mr and nr, at
       most 4 and 8, all sums stay in registers; each is taken in the order of k, whatever the tile. */
    ROMCO_INLINE void romco_tile(
        const int mr, const int nr, Py_ssize_t k,
        const double* ROMCO_RESTRICT a, Py_ssize_t ai, Py_ssize_t ap,
        const double* ROMCO_RESTRICT b, Py_ssize_t ldb,
        double* ROMCO_RESTRICT out, Py_ssize_t ldo, const int add
    ) {
        double s[4][8];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nr; j++) s[i][j] = add ? out[i * ldo + j] : 0.0;
        for (Py_ssize_t p = 0; p < k; p++, a += ap, b += ldb)
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nr; j++) s[i][j] += a[i * ai] * b[j];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nr; j++) out[i * ldo + j] = s[i][j];
    }
    /* The same for one row x (k) and nr columns. */
    #define ROMCO_ROW_PART(nr, k, x, b, ldb, out) \\
        romco_tile(1, nr, k, x, k, 1, b, ldb, out, nr, 0)
    /* out (w) = x (k) b (k, w). What is left over is done with columns before it, once more. */
    static inline void romco_row_times(
        Py_ssize_t k, Py_ssize_t w, const double* x, const double* b, Py_ssize_t ldb, double* out
    ) {
        Py_ssize_t j = 0;
        for (; j + 8 <= w; j += 8) ROMCO_ROW_PART(8, k, x, b + j, ldb, out + j);
        if (w - j > 4 && w >= 8) ROMCO_ROW_PART(8, k, x, b + w - 8, ldb, out + w - 8);
        else if (w - j > 0 && w >= 4) {
            if (w - j > 4) ROMCO_ROW_PART(4, k, x, b + j, ldb, out + j);
            ROMCO_ROW_PART(4, k, x, b + w - 4, ldb, out + w - 4);
        } else for (; j < w; j++) ROMCO_ROW_PART(1, k, x, b + j, ldb, out + j);
    }
    /* x . y, in four partial sums. */
    static inline double romco_dot(Py_ssize_t n, const double* x, const double* y) {
        double s[4] = {0, 0, 0, 0};
        Py_ssize_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int j = 0; j < 4; j++) s[j] += x[i + j] * y[i + j];
        for (; i < n; i++) s[0] += x[i] * y[i];
        return (s[0] + s[1]) + (s[2] + s[3]);
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
    double dot_product "romco_dot" (Py_ssize_t n, const double* x, const double* y) noexcept nogil
    void prefetch "ROMCO_PREFETCH" (const void* p) noexcept nogil


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
