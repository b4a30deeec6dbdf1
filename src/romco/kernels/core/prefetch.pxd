"""Asks for memory that is about to be read, so that it is there when it is; changes nothing."""

cdef extern from *:
    """
    #if defined(__GNUC__) && !defined(ROMCO_STANDARD_C)
    /* With nothing but such requests in it, a function has no effect, and calls of it are left out
       by the compiler; an empty statement that it may not look into keeps them. */
    #define ROMCO_AHEAD(place) do { __builtin_prefetch(place); __asm__ volatile (""); } while (0)
    #define ROMCO_SOON(place) do { __builtin_prefetch(place, 0, 2); __asm__ volatile (""); } while (0)
    #elif defined(_MSC_VER) && defined(_M_X64)
    #include <intrin.h>
    #define ROMCO_AHEAD(place) _mm_prefetch((const char*) (place), _MM_HINT_T0)
    #define ROMCO_SOON(place) _mm_prefetch((const char*) (place), _MM_HINT_T1)
    #else
    #define ROMCO_AHEAD(place) ((void) (place))
    #define ROMCO_SOON(place) ((void) (place))
    #endif
    """
    void ahead "ROMCO_AHEAD" (const void* place) noexcept nogil
    # Into the second cache: of many requests at once the first drops some.
    void soon "ROMCO_SOON" (const void* place) noexcept nogil
