"""The few products of small dense matrices that the core needs.

A matrix is row-major; `ld` is the distance between the starts of two rows.
"""

cdef extern from *:
    """
    #define ROMCO_RESTRICT __restrict  /* known to GCC, Clang and MSVC alike */
    #if defined(__GNUC__) && !defined(ROMCO_STANDARD_C)
    #define ROMCO_PREFETCH(p) __builtin_prefetch(p)
    #define ROMCO_INLINE static inline __attribute__((always_inline))
    #define ROMCO_NO_VECTORS __asm__ volatile ("")  /* in a loop: the compiler does not vectorise it */
    #else
    #define ROMCO_PREFETCH(p)
    #define ROMCO_NO_VECTORS ((void) 0)
    #if defined(_MSC_VER)
    #define ROMCO_INLINE static __forceinline
    #else
    #define ROMCO_INLINE static inline
    #endif
    #endif
    /* y += a x. Written in C for the promise that x and y do not overlap. */
    static inline void romco_axpy(
        Py_ssize_t n, double a, const double* ROMCO_RESTRICT x, double* ROMCO_RESTRICT y
    ) {
        for (Py_ssize_t i = 0; i < n; i++) y[i] += a * x[i];
    }
    /* out (mr, nr) = a b, or += where `add`; a (mr, k) has strides ai and ap. With constant mr and nr, at
       most 4 and 8, all sums stay in registers; each is taken in the order of k, whatever the tile.
       GCC 12 would vectorise the loop over k, too, and read beyond the end of a. */
    ROMCO_INLINE void romco_tile(
        const int mr, const int nr, Py_ssize_t k,
        const double* ROMCO_RESTRICT a, Py_ssize_t ai, Py_ssize_t ap,
        const double* ROMCO_RESTRICT b, Py_ssize_t ldb,
        double* ROMCO_RESTRICT out, Py_ssize_t ldo, const int add
    ) {
        double s[4][8];
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nr; j++) s[i][j] = add ? out[i * ldo + j] : 0.0;
        for (Py_ssize_t p = 0; p < k; p++, a += ap, b += ldb) {
            ROMCO_NO_VECTORS;
            for (int i = 0; i < mr; i++)
                for (int j = 0; j < nr; j++) s[i][j] += a[i * ai] * b[j];
        }
        for (int i = 0; i < mr; i++)
            for (int j = 0; j < nr; j++) out[i * ldo + j] = s[i][j];
    }
    /* The same for one row x (k), n columns of b from `at` on and t more from `tail` on, in one pass:
       few sums alone would wait for each other. Rows often have runs of zeros. */
    ROMCO_INLINE void romco_row_part(
        const int n, const int t, Py_ssize_t k, const double* ROMCO_RESTRICT x,
        const double* ROMCO_RESTRICT b, Py_ssize_t ldb, Py_ssize_t at, Py_ssize_t tail,
        double* ROMCO_RESTRICT out
    ) {
        double s[32], u[8];
        for (int j = 0; j < n; j++) s[j] = 0.0;
        for (int j = 0; j < t; j++) u[j] = 0.0;
        for (Py_ssize_t p = 0; p < k; p++, b += ldb) {
            const double a = x[p];
            if (n >= 16) {
                if (a == 0.0) continue;
                for (int j = 0; j < n; j += 8) ROMCO_PREFETCH(b + 12 * ldb + at + j);
            }
            for (int j = 0; j < n; j++) s[j] += a * b[at + j];
            for (int j = 0; j < t; j++) u[j] += a * b[tail + j];
        }
        for (int j = 0; j < n; j++) out[at + j] = s[j];
        for (int j = 0; j < t; j++) out[tail + j] = u[j];
    }
    /* n columns, and where what is left after them is little, that too; true if all is done. */
    ROMCO_INLINE int romco_row_strip(
        const int n, Py_ssize_t k, Py_ssize_t w, const double* x, const double* b, Py_ssize_t ldb,
        Py_ssize_t at, double* out
    ) {
        const Py_ssize_t left = w - at - n;
        if (left == 0 || left > 8) romco_row_part(n, 0, k, x, b, ldb, at, 0, out);
        else if (left <= 4 || w < 8) romco_row_part(n, 4, k, x, b, ldb, at, w - 4, out);
        else romco_row_part(n, 8, k, x, b, ldb, at, w - 8, out);
        return left <= 8;
    }
    /* out (w) = x (k) b (k, w). What is left over is done with columns before it, once more. */
    static inline void romco_row_times(
        Py_ssize_t k, Py_ssize_t w, const double* x, const double* b, Py_ssize_t ldb, double* out
    ) {
        Py_ssize_t j = 0;
    #if defined(__aarch64__)  /* 32 registers; with 16 of them half as many sums */
        for (; w - j >= 32; j += 32) if (romco_row_strip(32, k, w, x, b, ldb, j, out)) return;
    #endif
        for (; w - j >= 16; j += 16) if (romco_row_strip(16, k, w, x, b, ldb, j, out)) return;
        for (; w - j >= 8; j += 8) if (romco_row_strip(8, k, w, x, b, ldb, j, out)) return;
        for (; w - j >= 4; j += 4) if (romco_row_strip(4, k, w, x, b, ldb, j, out)) return;
        for (; j < w; j++) romco_row_part(1, 0, k, x, b, ldb, j, 0, out);
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
    /* The sum of all |x|, in four partial sums. */
    static inline double romco_size(Py_ssize_t n, const double* x) {
        double s[4] = {0, 0, 0, 0};
        Py_ssize_t i = 0;
        for (; i + 4 <= n; i += 4)
            for (int j = 0; j < 4; j++) s[j] += (x[i + j] < 0.0 ? -x[i + j] : x[i + j]);
        for (; i < n; i++) s[0] += (x[i] < 0.0 ? -x[i] : x[i]);
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
    double size "romco_size" (Py_ssize_t n, const double* x) noexcept nogil


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


# The lower half of out (n, n) += that of a' a, a (k, n); tiles that cross the diagonal change whole.
cdef void add_gram(
    Py_ssize_t k, Py_ssize_t n, const double* a, Py_ssize_t lda, double* out, Py_ssize_t ldo,
) noexcept nogil
