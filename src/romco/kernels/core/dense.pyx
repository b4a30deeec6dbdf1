"""The few products of small dense matrices that the core needs."""


cdef extern from *:
    """
    /* Whole products are compiled twice for x86_64, and the loader takes the one that the processor
       can run. Without fused multiply-add: wider registers change no bit, so machines agree. */
    #if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__) && !defined(ROMCO_STANDARD_C)
    #if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
    #define ROMCO_PRODUCT static __attribute__((target_clones("avx2", "default"))) void
    #endif
    #endif
    #ifndef ROMCO_PRODUCT
    #define ROMCO_PRODUCT static void
    #endif
    /* mr rows of the product. */
    ROMCO_INLINE void romco_tiles(
        const int mr, Py_ssize_t k, Py_ssize_t w, const double* a, Py_ssize_t ai, Py_ssize_t ap,
        const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo, const int add
    ) {
        Py_ssize_t j = 0;
        for (; j + 8 <= w; j += 8) romco_tile(mr, 8, k, a, ai, ap, b + j, ldb, out + j, ldo, add);
        for (; j + 4 <= w; j += 4) romco_tile(mr, 4, k, a, ai, ap, b + j, ldb, out + j, ldo, add);
        for (; j + 2 <= w; j += 2) romco_tile(mr, 2, k, a, ai, ap, b + j, ldb, out + j, ldo, add);
        if (j < w) romco_tile(mr, 1, k, a, ai, ap, b + j, ldb, out + j, ldo, add);
    }
    ROMCO_PRODUCT romco_multiply(
        Py_ssize_t n, Py_ssize_t k, Py_ssize_t w, const double* a, Py_ssize_t lda,
        const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo
    ) {
        Py_ssize_t i = 0;
        for (; i + 4 <= n; i += 4)
            romco_tiles(4, k, w, a + i * lda, lda, 1, b, ldb, out + i * ldo, ldo, 0);
        a += i * lda;
        out += i * ldo;
        if (n - i == 3) romco_tiles(3, k, w, a, lda, 1, b, ldb, out, ldo, 0);
        if (n - i == 2) romco_tiles(2, k, w, a, lda, 1, b, ldb, out, ldo, 0);
        if (n - i == 1) romco_tiles(1, k, w, a, lda, 1, b, ldb, out, ldo, 0);
    }
    ROMCO_PRODUCT romco_add_products(
        Py_ssize_t k, Py_ssize_t n, Py_ssize_t w, const double* a, Py_ssize_t lda,
        const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo, int lower
    ) {
        /* 64 rows at a time: with 256 the caches overflow, and it takes almost twice as long. */
        for (; k > 0; k -= 64, a += 64 * lda, b += 64 * ldb) {
            Py_ssize_t some = k < 64 ? k : 64, i = 0;
            for (; i + 4 <= n; i += 4)
                romco_tiles(
                    4, some, lower ? i + 4 : w, a + i, 1, lda, b, ldb, out + i * ldo, ldo, 1);
            for (; i + 2 <= n; i += 2)
                romco_tiles(
                    2, some, lower ? i + 2 : w, a + i, 1, lda, b, ldb, out + i * ldo, ldo, 1);
            if (i < n)
                romco_tiles(
                    1, some, lower ? i + 1 : w, a + i, 1, lda, b, ldb, out + i * ldo, ldo, 1);
        }
    }
    """
    void romco_multiply(
        Py_ssize_t n, Py_ssize_t k, Py_ssize_t w, const double* a, Py_ssize_t lda,
        const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo,
    ) noexcept nogil
    void romco_add_products(
        Py_ssize_t k, Py_ssize_t n, Py_ssize_t w, const double* a, Py_ssize_t lda,
        const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo, bint lower,
    ) noexcept nogil


cdef void multiply(
    Py_ssize_t n, Py_ssize_t k, Py_ssize_t w,
    const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo,
) noexcept nogil:
    romco_multiply(n, k, w, a, lda, b, ldb, out, ldo)


cdef void add_products(
    Py_ssize_t k, Py_ssize_t n, Py_ssize_t w,
    const double* a, Py_ssize_t lda, const double* b, Py_ssize_t ldb, double* out, Py_ssize_t ldo,
) noexcept nogil:
    romco_add_products(k, n, w, a, lda, b, ldb, out, ldo, False)


cdef void add_gram(
    Py_ssize_t k, Py_ssize_t n, const double* a, Py_ssize_t lda, double* out, Py_ssize_t ldo,
) noexcept nogil:
    romco_add_products(k, n, n, a, lda, a, lda, out, ldo, True)
