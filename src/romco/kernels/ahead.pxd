"""Asks for memory that is about to be read, so that it is there when it is; changes nothing."""

cdef extern from *:
    """
    #if defined(__GNUC__) || defined(__clang__)
    #define ROMCO_AHEAD(place) __builtin_prefetch(place)
    #else
    #define ROMCO_AHEAD(place) ((void) (place))
    #endif
    """
    void ahead "ROMCO_AHEAD" (const void* place) noexcept nogil
