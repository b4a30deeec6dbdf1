"""How long requests took, for compiled code that counts them."""


cdef class Times:
    cdef readonly double sum
    cdef long long[13] counts  # up to each bound, and beyond all
    cdef double[2000] last  # a ring
    cdef Py_ssize_t n  # of all

    cpdef add(self, double seconds)
