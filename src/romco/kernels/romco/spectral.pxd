"""Singular values: the scalar steps of both penalties, and the SVD of a small matrix."""

cimport cython

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
