"""A low-rank part of the tasks' own vectors, as compiled code sees it."""

from romco.kernels.core.pairs cimport Pairs

cdef enum:
    RANK = 4


cdef class Subspace:
    cdef double[:, :] B            # (d, RANK), columns of a wider array
    cdef double[:, ::1] F          # (m, RANK)
    cdef Pairs pairs
    cdef int lane                  # which number of a pair is the entry of W
    cdef object marks, drafted, listed  # the arrays behind the pointers
    cdef unsigned char* marked     # (d,) rows of B that may not be zero,
    cdef bint unmarked             # unless any may be
    cdef double* draft             # (n_rows, RANK) the next B, as far as it is not zero,
    cdef int* rows                 # (n_rows,) which of its rows these are, rising,
    cdef int* place                # (d,) and the other way round
    cdef Py_ssize_t n_rows, n_pairs  # number of the pairs whose rows are marked
    cdef double expected           # when B was last drawn here, the time set for the next drawing

    cdef void draw(self) noexcept nogil
    cdef void draw_at(self, double due) noexcept nogil
    cdef void begin(self) noexcept nogil
    cdef void project(self) noexcept nogil
    cdef void project_from(self, const bint* fresh, bint drafted) noexcept nogil
    cdef double* row(self, Py_ssize_t feature, bint drafted) noexcept nogil
    cdef void ask(self, Py_ssize_t pair, bint drafted) noexcept nogil
    cdef void gather(self) noexcept nogil
    cdef void list_rows(self) noexcept nogil
    cdef void publish(self) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef check(self, const int[::1] rows, const double[:, ::1] values)
    cdef void put(self, const int[::1] rows, const double[:, ::1] values) noexcept nogil


cdef void orthogonalise(double* B, Py_ssize_t n) noexcept nogil
