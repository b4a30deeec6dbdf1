"""Sets of small numbers, 64 to a word."""

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ROMCO_LOWEST(word) __builtin_ctzll(word)
    #else
    static inline int ROMCO_LOWEST(unsigned long long word) {
        int n = 0;
        while (!(word & 1)) { word >>= 1; n++; }
        return n;
    }
    #endif
    """
    # The lowest bit that is set; one must be.
    int lowest "ROMCO_LOWEST" (unsigned long long word) noexcept nogil

ctypedef unsigned long long Word


cdef inline void mark(Word* words, Py_ssize_t j) noexcept nogil:
    """j is in the set."""
    words[j >> 6] |= (<Word> 1) << (j & 63)
