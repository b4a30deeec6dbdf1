"""Left singular vectors of a diagonal matrix plus one of rank one, by two secular equations."""

cimport cython


@cython.final
cdef class SecularVectors:
    cdef double* room
    cdef Py_ssize_t room_size
    cdef Py_ssize_t* kept
    cdef Py_ssize_t kept_size

    cdef bint find(
        self, const double* d, const double* c, const double* q, Py_ssize_t n, Py_ssize_t w,
        double* vectors,
    ) except? False nogil
    cdef bint add_rank_one(
        self, double* values, const double* z, Py_ssize_t n, double* rows
    ) except? False nogil
    cdef bint solve(
        self, Py_ssize_t k, double* poles, double* z, double* found, double* delta, double* rows,
        double* room,
    ) noexcept nogil
    cdef bint vectors(
        self, Py_ssize_t k, const double* poles, double* z, const double* delta, double* rows,
        double* room,
    ) noexcept nogil
    cdef void sort_into(
        self, const double* values, const double* rows, Py_ssize_t n, double* sorted_values,
        double* sorted_rows,
    ) noexcept nogil
