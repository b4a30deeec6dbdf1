"""Sets of small numbers, 64 to a word."""

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(ROMCO_STANDARD_C)
    #define ROMCO_LOWEST(word) __builtin_ctzll(word)
    #elif defined(_MSC_VER) && (defined(_M_X64) || defined(_M_ARM64))
    #include <intrin.h>
    static inline int ROMCO_LOWEST(unsigned long long word) {
        unsigned long place;
        _BitScanForward64(&place, word);
        return (int) place;
    }
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
