"""Singular values: the scalar steps of both penalties, and the SVD of a small matrix."""

cimport cython
from romco.kernels.romco.secular cimport SecularVectors

ctypedef double (*Shrink)(double s, double rho) noexcept nogil

cdef double shrink_nuclear(double s, double rho) noexcept nogil
cdef double shrink_logdet(double s, double rho) noexcept nogil


@cython.final
cdef class SmallSVD:
    cdef Py_ssize_t count          # singular triples found, largest first
    cdef double* s                 # (count,)
    cdef double* left              # (count, n): row j is the j-th left vector
    cdef double* right             # (count, w): row j is the j-th right vector
    cdef Py_ssize_t rooms[6]
    cdef double* rows              # work: the matrix whose rows are turned against each other
    cdef double* turns             # work: the product of all rotations
    cdef Py_ssize_t* order

    cdef SecularVectors secular
    cdef double* change            # d, c and q of `a` = diag(d) + c q', one after the other
    cdef Py_ssize_t change_n, change_w  # its size; 0 where `a` is not known to be of that kind
    cdef bint change_exact         # whether it is that and nothing else, or all but that
    cdef Py_ssize_t change_room

    cdef int note_change(
        self, const double* a, Py_ssize_t ld, Py_ssize_t height, Py_ssize_t width,
        const double* c, Py_ssize_t n, const double* q, Py_ssize_t w, double g
    ) except -1 nogil
    cdef bint start_close(
        self, const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld
    ) except? False nogil
    cdef int factor(
        self, const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld, double least
    ) except -1 nogil
    cdef void jacobi(self, Py_ssize_t n, Py_ssize_t w, bint following) noexcept nogil
    cdef void sort_lengths(self, Py_ssize_t n, Py_ssize_t w) noexcept nogil
    cdef void collect_large(
        self, const double* a, Py_ssize_t n, Py_ssize_t w, Py_ssize_t ld, double least
    ) noexcept nogil
    cdef int lapack(self, Py_ssize_t n, Py_ssize_t w) except -1 nogil
    cdef void collect(self, Py_ssize_t n, Py_ssize_t w) noexcept nogil
