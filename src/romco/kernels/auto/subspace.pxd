"""A low-rank part of the tasks' own vectors, as compiled code sees it."""

from romco.kernels.stores.pairs cimport Pairs

cdef enum:
    RANK = 4


cdef class Subspace:
    cdef double[:, :] B            # (d, RANK), columns of a wider array
    cdef double[:, ::1] F          # (m, RANK)
    cdef Pairs pairs
    cdef int lane                  # which number of a pair is the entry of W

    cdef void draw(self) noexcept nogil
    cdef bint seed(self) noexcept nogil
    cdef bint empty(self, int c) noexcept nogil
    cdef void project(self) noexcept nogil
    cdef void gather(self) noexcept nogil
    cdef void orthogonalise(self) noexcept nogil
    cdef void products(self, double* G) noexcept nogil
